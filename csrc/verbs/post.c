/* Posting: what is checked before the driver sees a chain, and how one is made. */

#define WEFT_RARELY(condition) __builtin_expect(condition, 0)
#define WEFT_OPCODE(name)      (1u << IBV_WR_##name)

enum {
    WEFT_DATAGRAM = WEFT_OPCODE(SEND) | WEFT_OPCODE(SEND_WITH_IMM),
    WEFT_UNACKNOWLEDGED = WEFT_DATAGRAM | WEFT_OPCODE(RDMA_WRITE) | WEFT_OPCODE(RDMA_WRITE_WITH_IMM) |
                          WEFT_OPCODE(LOCAL_INV) | WEFT_OPCODE(SEND_WITH_INV),
    WEFT_RELIABLE = WEFT_UNACKNOWLEDGED | WEFT_OPCODE(RDMA_READ) | WEFT_OPCODE(ATOMIC_CMP_AND_SWP) |
                    WEFT_OPCODE(ATOMIC_FETCH_AND_ADD),
};

/* Which opcodes a queue pair of the type takes, as bits of enum ibv_wr_opcode. */
static const uint32_t weft_opcodes[] = {
    [IBV_QPT_RC] = WEFT_RELIABLE, [IBV_QPT_UC] = WEFT_UNACKNOWLEDGED, [IBV_QPT_UD] = WEFT_DATAGRAM};

/* Those whose entries are filled by the peer: nothing to send inline. */
enum { WEFT_FETCHES = WEFT_OPCODE(RDMA_READ) | WEFT_OPCODE(ATOMIC_CMP_AND_SWP) | WEFT_OPCODE(ATOMIC_FETCH_AND_ADD) };
enum { WEFT_ATOMICS = WEFT_OPCODE(ATOMIC_CMP_AND_SWP) | WEFT_OPCODE(ATOMIC_FETCH_AND_ADD) };
enum { WEFT_INVALIDATES = WEFT_OPCODE(LOCAL_INV) | WEFT_OPCODE(SEND_WITH_INV) };

/* What follows from the opcode, the flags and the length of the entries together. */
static inline enum weft_bad_wr weft_check_length(const struct weft_qp_limits *limits, uint32_t opcode, uint32_t flags,
                                                 uint64_t remote_addr, uint64_t length)
{
    uint32_t bit = 1u << opcode;
    if (WEFT_RARELY((flags & IBV_SEND_INLINE) != 0 || (bit & WEFT_ATOMICS) != 0)) {
        if ((flags & IBV_SEND_INLINE) != 0 && (length > limits->max_inline || (bit & WEFT_FETCHES) != 0))
            return WEFT_BAD_INLINE;
        if ((bit & WEFT_ATOMICS) != 0 && (length != 8 || remote_addr % 8 != 0))
            return WEFT_BAD_ATOMIC;
    }
    return length > limits->max_message ? WEFT_BAD_LENGTH : 0;
}

static inline enum weft_bad_wr weft_check_send(const struct weft_qp_limits *limits, const struct weft_send_wr *wr,
                                               const struct weft_sge *sges, uint32_t left)
{
    if (wr->opcode >= 32 || (weft_opcodes[limits->type] & 1u << wr->opcode) == 0)
        return WEFT_BAD_OPCODE;
    if (wr->num_sge > limits->max_send_sge)
        return WEFT_BAD_NUM_SGE;
    if (wr->num_sge > left)
        return WEFT_BAD_SGE_LIST;
    uint64_t length = 0;
    for (uint32_t i = 0; i < wr->num_sge; i++)
        length += sges[i].length;
    if (WEFT_RARELY(limits->type == IBV_QPT_UD && wr->ah == 0))
        return WEFT_BAD_AH;
    return weft_check_length(limits, wr->opcode, wr->flags, wr->remote_addr, length);
}

/*
 * Counts a send into the run of those without a signal. A queue gets its places back with the next completion: one that
 * is full of requests that give none stays full.
 */
static enum weft_bad_wr weft_count(const struct weft_qp_limits *limits, uint32_t *run, uint32_t flags)
{
    *run = (flags & IBV_SEND_SIGNALED) != 0 ? 0 : *run + 1;
    return *run >= limits->max_send_wr ? WEFT_BAD_UNSIGNALED : 0;
}

/* How many work requests one chain holds: 32 KiB, which fits on a stack. Longer posts are several chains. */
enum { WEFT_CHAIN = 256 };

/*
 * The list entries are only read, for the length of the call: the header's pointer is not const for historical reasons.
 * The same holds for the payload's addresses, which are integers until here.
 */
static struct ibv_sge *weft_sges(const struct weft_sge *sges)
{
    return (struct ibv_sge *)(uintptr_t)sges;
}

static inline void weft_fill_send(struct ibv_send_wr *out, const struct weft_send_wr *wr, const struct weft_sge *sges,
                                  uint32_t type)
{
    out->wr_id = wr->id;
    out->next = out + 1;
    out->sg_list = weft_sges(sges);
    out->num_sge = (int)wr->num_sge;
    out->opcode = (enum ibv_wr_opcode)wr->opcode;
    out->send_flags = wr->flags;
    out->imm_data = htonl(wr->imm);
    if (type == IBV_QPT_UD) {
        out->wr.ud.ah = (struct ibv_ah *)(uintptr_t)wr->ah;
        out->wr.ud.remote_qpn = wr->remote_qpn;
        out->wr.ud.remote_qkey = wr->remote_qkey;
        return;
    }
    out->wr.rdma.remote_addr = wr->remote_addr;
    out->wr.rdma.rkey = wr->rkey;
    if (WEFT_RARELY((1u << wr->opcode & WEFT_ATOMICS) != 0)) {
        out->wr.atomic.remote_addr = wr->remote_addr;
        out->wr.atomic.compare_add = wr->compare_add;
        out->wr.atomic.swap = wr->swap;
        out->wr.atomic.rkey = wr->rkey;
    } else if (WEFT_RARELY((1u << wr->opcode & WEFT_INVALIDATES) != 0)) {
        out->invalidate_rkey = wr->rkey;
    }
}

/*
 * The index of *bad in its chain of n is how many the driver took. A driver that fails without saying where took none:
 * counting a request as posted that was not would wait for its completion for ever.
 */
#define WEFT_TAKEN(chain, n, bad) ((bad) >= (chain) && (bad) < (chain) + (n) ? (uint32_t)((bad) - (chain)) : 0)

/*
 * The checks of a whole post; *index is the request that fails them, *run how many are without a signal after all.
 * Where it is given, the chain is filled in on the way.
 */
static inline enum weft_bad_wr weft_check_sends(const struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n,
                                                const struct weft_sge *sges, uint32_t num_sge, uint32_t *index,
                                                uint32_t *run, struct ibv_send_wr *chain)
{
    const struct weft_qp_limits limits = qp->limits; /* a copy, which what is written to the chain cannot change */
    uint32_t counted = *run;
    enum weft_bad_wr bad = qp->refuses;
    uint32_t i = 0;
    for (; i < n && bad == 0; i++) {
        const struct weft_send_wr *wr = &wrs[i];
        bad = weft_check_send(&limits, wr, sges, num_sge);
        if (bad == 0)
            bad = weft_count(&limits, &counted, wr->flags);
        if (bad != 0)
            break;
        if (chain != NULL)
            weft_fill_send(&chain[i], wr, sges, limits.type);
        sges += wr->num_sge;
        num_sge -= wr->num_sge;
    }
    if (bad == 0 && n > 0 && num_sge != 0) {
        bad = WEFT_BAD_SGE_LIST;
        i = n - 1;
    }
    *index = i;
    *run = counted;
    return bad;
}

/* Posts a chain of n, and adds how many the driver took. */
static inline int weft_post_chain(struct weft_qp *qp, struct ibv_send_wr *chain, uint32_t n, uint32_t *accepted)
{
    struct ibv_send_wr *bad = NULL;
    chain[n - 1].next = NULL;
    int rc = WEFT_CALL(ibv_post_send(qp->qp, chain, &bad));
    *accepted += rc == 0 ? n : WEFT_TAKEN(chain, n, bad);
    return rc;
}

/* More than one chain: all is checked before the first is made. */
static int weft_post_chains(struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n, const struct weft_sge *sges,
                            struct ibv_send_wr *chain, uint32_t *accepted)
{
    int rc = 0;
    *accepted = 0;
    while (*accepted < n && rc == 0) {
        uint32_t length = n - *accepted < WEFT_CHAIN ? n - *accepted : WEFT_CHAIN;
        for (uint32_t i = 0; i < length; i++) {
            const struct weft_send_wr *wr = &wrs[*accepted + i];
            weft_fill_send(&chain[i], wr, sges, qp->limits.type);
            sges += wr->num_sge;
        }
        rc = weft_post_chain(qp, chain, length, accepted);
    }
    return rc;
}

void weft_qp_post_send(struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n, const struct weft_sge *sges,
                       uint32_t num_sge, struct weft_posted *posted)
{
    struct ibv_send_wr chain[WEFT_CHAIN];
    uint32_t accepted;
    weft_crossed(&qp->crossings);
    weft_lock(&qp->lock);
    uint32_t run = qp->run;
    int one = n > 0 && n <= WEFT_CHAIN;
    int rc = -(int)weft_check_sends(qp, wrs, n, sges, num_sge, &accepted, &run, one ? chain : NULL);
    if (rc == 0) {
        accepted = 0;
        rc = one ? weft_post_chain(qp, chain, n, &accepted) : weft_post_chains(qp, wrs, n, sges, chain, &accepted);
        if (rc == 0)
            qp->run = run;
        for (uint32_t i = 0; rc != 0 && i < accepted; i++)
            weft_count(&qp->limits, &qp->run, wrs[i].flags);
    }
    weft_unlock(&qp->lock);
    *posted = (struct weft_posted){.result = rc, .accepted = accepted};
}

int weft_qp_post_mark(struct weft_qp *qp, int recv, uint64_t id, uint64_t ah)
{
    struct ibv_send_wr *bad, wr = {.wr_id = id, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_recv_wr *bad_recv, recv_wr = {.wr_id = id};
    if (qp->limits.type == IBV_QPT_UD)
        wr.wr.ud.ah = (struct ibv_ah *)(uintptr_t)ah;
    weft_lock(&qp->lock);
    int rc = WEFT_CALL(recv ? ibv_post_recv(qp->qp, &recv_wr, &bad_recv) : ibv_post_send(qp->qp, &wr, &bad));
    weft_unlock(&qp->lock);
    return rc;
}

int weft_qp_bind_mw(struct weft_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr, const struct weft_mw_bind *in,
                    uint32_t *rkey)
{
    struct ibv_mw_bind_info info = {.mr = mr, .addr = in->addr, .length = in->length, .mw_access_flags = in->access};
    int rc;
    weft_crossed(&qp->crossings);
    weft_lock(&qp->lock);
    uint32_t run = qp->run;
    if (qp->refuses != 0) {
        rc = -(int)qp->refuses;
    } else if (weft_count(&qp->limits, &run, in->flags) != 0) {
        rc = -WEFT_BAD_UNSIGNALED;
    } else if (mw->type == IBV_MW_TYPE_1) {
        struct ibv_mw_bind bind = {.wr_id = in->id, .send_flags = in->flags, .bind_info = info};
        rc = WEFT_CALL(ibv_bind_mw(qp->qp, mw, &bind));
        *rkey = mw->rkey;
    } else {
        *rkey = ibv_inc_rkey(mw->rkey);
        struct ibv_send_wr *bad, wr = {.wr_id = in->id, .opcode = IBV_WR_BIND_MW, .send_flags = in->flags};
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = *rkey;
        wr.bind_mw.bind_info = info;
        rc = WEFT_CALL(ibv_post_send(qp->qp, &wr, &bad));
        if (rc == 0)
            mw->rkey = *rkey;
    }
    if (rc == 0)
        qp->run = run;
    weft_unlock(&qp->lock);
    return rc;
}

static int weft_check_recvs(const struct weft_recv_wr *wrs, uint32_t n, uint32_t num_sge, uint32_t max_sge,
                            uint32_t *index)
{
    for (uint32_t i = 0; i < n; i++) {
        *index = i;
        if (wrs[i].num_sge > max_sge)
            return WEFT_BAD_NUM_SGE;
        if (wrs[i].num_sge > num_sge || (i == n - 1 && num_sge != wrs[i].num_sge))
            return WEFT_BAD_SGE_LIST;
        num_sge -= wrs[i].num_sge;
    }
    return 0;
}

/* Posts to the receive queue of a queue pair or, where there is one, to a shared one. */
static int weft_post_recvs(struct ibv_qp *qp, struct ibv_srq *srq, const struct weft_recv_wr *wrs, uint32_t n,
                           const struct weft_sge *sges, uint32_t *accepted)
{
    struct ibv_recv_wr chain[WEFT_CHAIN];
    *accepted = 0;
    while (*accepted < n) {
        uint32_t length = n - *accepted < WEFT_CHAIN ? n - *accepted : WEFT_CHAIN;
        for (uint32_t i = 0; i < length; i++) {
            const struct weft_recv_wr *wr = &wrs[*accepted + i];
            chain[i].wr_id = wr->id;
            chain[i].next = i + 1 < length ? &chain[i + 1] : NULL;
            chain[i].sg_list = weft_sges(sges);
            chain[i].num_sge = (int)wr->num_sge;
            sges += wr->num_sge;
        }
        struct ibv_recv_wr *bad = NULL;
        int rc = WEFT_CALL(srq != NULL ? ibv_post_srq_recv(srq, chain, &bad) : ibv_post_recv(qp, chain, &bad));
        if (rc != 0) {
            *accepted += WEFT_TAKEN(chain, length, bad);
            return rc;
        }
        *accepted += length;
    }
    return 0;
}

void weft_qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs, uint32_t n, const struct weft_sge *sges,
                       uint32_t num_sge, struct weft_posted *posted)
{
    uint32_t accepted = 0;
    weft_crossed(&qp->crossings);
    weft_lock(&qp->lock);
    int rc = -(int)qp->refuses;
    if (rc == 0)
        rc = -weft_check_recvs(wrs, n, num_sge, qp->limits.max_recv_sge, &accepted);
    if (rc == 0)
        rc = weft_post_recvs(qp->qp, NULL, wrs, n, sges, &accepted);
    weft_unlock(&qp->lock);
    *posted = (struct weft_posted){.result = rc, .accepted = accepted};
}
