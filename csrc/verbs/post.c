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
static const uint32_t weft_opcodes[] = {[IBV_QPT_RC] = WEFT_RELIABLE,
                                        [IBV_QPT_UC] = WEFT_UNACKNOWLEDGED,
                                        [IBV_QPT_UD] = WEFT_DATAGRAM,
                                        [WEFT_QPT_SRD] = WEFT_DATAGRAM | WEFT_OPCODE(RDMA_WRITE) |
                                                         WEFT_OPCODE(RDMA_WRITE_WITH_IMM) | WEFT_OPCODE(RDMA_READ)};

/* Those whose entries are filled by the peer: nothing to send inline. */
enum { WEFT_FETCHES = WEFT_OPCODE(RDMA_READ) | WEFT_OPCODE(ATOMIC_CMP_AND_SWP) | WEFT_OPCODE(ATOMIC_FETCH_AND_ADD) };
enum { WEFT_ATOMICS = WEFT_OPCODE(ATOMIC_CMP_AND_SWP) | WEFT_OPCODE(ATOMIC_FETCH_AND_ADD) };
enum { WEFT_INVALIDATES = WEFT_OPCODE(LOCAL_INV) | WEFT_OPCODE(SEND_WITH_INV) };

/* What is asked of every request of a post, looked up once for all of them. */
struct weft_rules {
    uint32_t opcodes;
    uint32_t max_send_wr, max_send_sge, max_message;
    int datagrams;
    size_t peer; /* where a request says who it is for: at its remote address, or its address handle */
};

static inline struct weft_rules weft_rules_of(const struct weft_qp_limits *limits)
{
    int datagrams = weft_datagrams(limits->type);
    return (struct weft_rules){
        .opcodes = weft_opcodes[limits->type],
        .max_send_wr = limits->max_send_wr,
        .max_send_sge = limits->max_send_sge,
        .max_message = limits->max_message,
        .datagrams = datagrams,
        .peer = datagrams ? offsetof(struct weft_send_wr, ah) : offsetof(struct weft_send_wr, remote_addr),
    };
}

static enum weft_bad_wr weft_check_inline(const struct weft_qp_limits *limits, uint32_t opcode, uint64_t length)
{
    return length > limits->max_inline || (1u << opcode & WEFT_FETCHES) != 0 ? WEFT_BAD_INLINE : 0;
}

static inline uint64_t weft_length(const struct weft_sge *sges, uint32_t n)
{
    uint64_t length = 0;
    for (uint32_t i = 0; i < n; i++)
        length += sges[i].length;
    return length;
}

static inline enum weft_bad_wr weft_check_send(const struct weft_qp *qp, const struct weft_rules *rules,
                                               const struct weft_send_wr *wr, const struct weft_sge *sges,
                                               uint32_t left, struct ibv_ah **ah)
{
    enum weft_bad_wr bad = 0;
    if (WEFT_RARELY(wr->opcode >= 32 || (rules->opcodes >> wr->opcode & 1) == 0))
        return WEFT_BAD_OPCODE;
    if (WEFT_RARELY(wr->num_sge > rules->max_send_sge))
        return WEFT_BAD_NUM_SGE;
    if (WEFT_RARELY(wr->num_sge > left))
        return WEFT_BAD_SGE_LIST;
    if (WEFT_RARELY(rules->datagrams))
        bad = weft_ah_find(qp->qp->context, wr->ah, ah);
    uint64_t length = wr->num_sge == 1 ? sges->length : weft_length(sges, wr->num_sge);
    if (WEFT_RARELY((wr->flags & IBV_SEND_INLINE) != 0 && bad == 0))
        bad = weft_check_inline(&qp->limits, wr->opcode, length);
    if (WEFT_RARELY((1u << wr->opcode & WEFT_ATOMICS) != 0 && bad == 0 && (length != 8 || wr->remote_addr % 8 != 0)))
        bad = WEFT_BAD_ATOMIC;
    return bad == 0 && length > rules->max_message ? WEFT_BAD_LENGTH : bad;
}

/*
 * Counts a send into the run of those without a signal. A queue gets its places back with the next completion: one that
 * is full of requests that give none stays full.
 */
static inline enum weft_bad_wr weft_count(uint32_t max_send_wr, uint32_t *run, uint32_t flags)
{
    *run = (flags & IBV_SEND_SIGNALED) != 0 ? 0 : *run + 1;
    return *run >= max_send_wr ? WEFT_BAD_UNSIGNALED : 0;
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

/* Neighbours in both structs. */
#define WEFT_ABREAST(first, ours, second, theirs)                                                                      \
    _Static_assert(offsetof(struct weft_send_wr, second) - offsetof(struct weft_send_wr, first) ==                     \
                       offsetof(struct ibv_send_wr, theirs) - offsetof(struct ibv_send_wr, ours),                      \
                   #first " and " #second)
WEFT_ABREAST(num_sge, num_sge, opcode, opcode);
WEFT_ABREAST(remote_addr, wr.rdma.remote_addr, rkey, wr.rdma.rkey);
WEFT_ABREAST(ah, wr.ud.ah, remote_qpn, wr.ud.remote_qpn);
WEFT_ABREAST(ah, wr.ud.ah, remote_qkey, wr.ud.remote_qkey);
#undef WEFT_ABREAST

/* Copies neighbours, of so many bytes together. */
#define WEFT_COPY(out, theirs, wr, ours, bytes)                                                                        \
    memcpy((char *)(out) + offsetof(struct ibv_send_wr, theirs), (const char *)(wr) + (ours), bytes)

/* Those that have more than every request. */
enum {
    WEFT_IMMEDIATES = WEFT_OPCODE(SEND_WITH_IMM) | WEFT_OPCODE(RDMA_WRITE_WITH_IMM),
    WEFT_EXTRAS = WEFT_IMMEDIATES | WEFT_ATOMICS | WEFT_INVALIDATES
};

static inline void weft_fill_extras(struct ibv_send_wr *out, const struct weft_send_wr *wr, uint32_t bit)
{
    if ((bit & WEFT_IMMEDIATES) != 0) {
        out->imm_data = htonl(wr->imm);
    } else if ((bit & WEFT_INVALIDATES) != 0) {
        out->invalidate_rkey = wr->rkey;
    } else {
        out->wr.atomic.compare_add = wr->compare_add;
        out->wr.atomic.swap = wr->swap;
        out->wr.atomic.rkey = wr->rkey;
    }
}

static inline void weft_fill_send(struct ibv_send_wr *out, const struct weft_send_wr *wr, const struct weft_sge *sges,
                                  size_t peer)
{
    out->wr_id = wr->id;
    out->next = out + 1;
    out->sg_list = weft_sges(sges);
    WEFT_COPY(out, num_sge, wr, offsetof(struct weft_send_wr, num_sge), 8);
    out->send_flags = wr->flags;
    out->imm_data = 0;
    WEFT_COPY(out, wr, wr, peer, 16);
    if ((1u << wr->opcode & WEFT_EXTRAS) != 0)
        weft_fill_extras(out, wr, 1u << wr->opcode);
}

/*
 * The index of *bad in its chain of n is how many the driver took. A driver that fails without saying where took none:
 * counting a request as posted that was not would wait for its completion for ever.
 */
#define WEFT_TAKEN(chain, n, bad) ((bad) >= (chain) && (bad) < (chain) + (n) ? (uint32_t)((bad) - (chain)) : 0)

/*
 * The checks of a whole post; *index is the request that fails them, *run how many are without a signal after all. With
 * fill the chain is made on the way.
 */
static inline __attribute__((always_inline)) enum weft_bad_wr
weft_check_sends(const struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n, const struct weft_sge *sges,
                 uint32_t num_sge, uint32_t *index, uint32_t *run, struct ibv_send_wr *chain, int fill)
{
    const struct weft_rules rules = weft_rules_of(&qp->limits);
    uint32_t counted = *run, i = 0;
    enum weft_bad_wr bad = qp->refuses;
    for (; i < n && bad == 0; i++) {
        const struct weft_send_wr *wr = &wrs[i];
        struct ibv_ah *ah = NULL;
        bad = weft_check_send(qp, &rules, wr, sges, num_sge, &ah);
        if (bad == 0)
            bad = weft_count(rules.max_send_wr, &counted, wr->flags);
        if (bad != 0)
            break;
        num_sge -= wr->num_sge;
        const struct weft_sge *rest = sges + wr->num_sge;
        if (fill)
            weft_fill_send(&chain[i], wr, sges, rules.peer);
        if (fill && WEFT_RARELY(rules.datagrams)) {
            chain[i].wr.ud.ah = ah;
            weft_fill_far(&chain[i], wr->remote_addr, wr->rkey);
        }
        sges = rest;
    }
    if (bad == 0 && n > 0 && num_sge != 0) {
        bad = WEFT_BAD_SGE_LIST;
        i = n - 1;
    }
    *index = i;
    *run = counted;
    return bad;
}

/* ibv_post_send, or the same by builders. */
static inline int weft_send(struct weft_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (WEFT_RARELY(qp->builder != NULL))
        return weft_build(qp, wr, bad);
    return ibv_post_send(qp->qp, wr, bad);
}

/* Posts a chain of n, and adds how many the driver took. */
static inline int weft_post_chain(struct weft_qp *qp, struct ibv_send_wr *chain, uint32_t n, uint32_t *accepted)
{
    struct ibv_send_wr *bad = NULL;
    chain[n - 1].next = NULL;
    int rc = WEFT_CALL(weft_send(qp, chain, &bad));
    *accepted += rc == 0 ? n : WEFT_TAKEN(chain, n, bad);
    return rc;
}

/* Ends a post that the driver did not take as a whole: the run of requests without a signal is that of those it took.
 */
static int weft_partly(struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t accepted, int rc)
{
    for (uint32_t i = 0; i < accepted; i++)
        weft_count(qp->limits.max_send_wr, &qp->run, wrs[i].flags);
    return rc;
}

/* A post of one chain. */
static inline __attribute__((always_inline)) int weft_post_chained(struct weft_qp *qp, const struct weft_send_wr *wrs,
                                                                   uint32_t n, const struct weft_sge *sges,
                                                                   uint32_t num_sge, struct ibv_send_wr *chain,
                                                                   uint32_t *accepted)
{
    uint32_t run = qp->run;
    enum weft_bad_wr bad = weft_check_sends(qp, wrs, n, sges, num_sge, accepted, &run, chain, 1);
    if (bad != 0 || n == 0)
        return -(int)bad;
    *accepted = 0;
    int rc = weft_post_chain(qp, chain, n, accepted);
    if (rc != 0)
        return weft_partly(qp, wrs, *accepted, rc);
    qp->run = run;
    return 0;
}

/* A post of more than one chain: all is checked before the first is made. */
static int weft_post_chains(struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n, const struct weft_sge *sges,
                            uint32_t num_sge, struct ibv_send_wr *chain, uint32_t *accepted)
{
    uint32_t run = qp->run;
    int rc = -(int)weft_check_sends(qp, wrs, n, sges, num_sge, accepted, &run, NULL, 0);
    if (rc != 0)
        return rc;
    const struct weft_rules rules = weft_rules_of(&qp->limits);
    *accepted = 0;
    while (*accepted < n && rc == 0) {
        uint32_t length = n - *accepted < WEFT_CHAIN ? n - *accepted : WEFT_CHAIN;
        int gone = 0;
        for (uint32_t i = 0; i < length && !gone; i++) {
            const struct weft_send_wr *wr = &wrs[*accepted + i];
            weft_fill_send(&chain[i], wr, sges, rules.peer);
            if (rules.datagrams)
                weft_fill_far(&chain[i], wr->remote_addr, wr->rkey);
            sges += wr->num_sge;
            /* Destroyed since the check, by another thread. What comes before it is posted as a driver would do it. */
            gone = rules.datagrams && weft_ah_find(qp->qp->context, wr->ah, &chain[i].wr.ud.ah) != 0;
            length = gone ? i : length;
        }
        rc = length != 0 ? weft_post_chain(qp, chain, length, accepted) : 0;
        rc = rc == 0 && gone ? EINVAL : rc;
    }
    if (rc != 0)
        return weft_partly(qp, wrs, *accepted, rc);
    qp->run = run;
    return 0;
}

static __attribute__((noinline)) int weft_post_many(struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n,
                                                    const struct weft_sge *sges, uint32_t num_sge, uint32_t *accepted)
{
    struct ibv_send_wr chain[WEFT_CHAIN];
    if (n > WEFT_CHAIN)
        return weft_post_chains(qp, wrs, n, sges, num_sge, chain, accepted);
    return weft_post_chained(qp, wrs, n, sges, num_sge, chain, accepted);
}

/* A single request is the most frequent post, and the one whose own cost shows: its code is compiled apart. */
void weft_qp_post_send(weft_handle handle, const struct weft_send_wr *wrs, const struct weft_sge *sges,
                       struct weft_post *post)
{
    struct weft_qp *qp = (struct weft_qp *)handle;
    struct ibv_send_wr one;
    weft_crossed(&qp->crossings);
    weft_lock(&qp->lock);
    post->result = post->n == 1 ? weft_post_chained(qp, wrs, 1, sges, post->num_sge, &one, &post->accepted)
                                : weft_post_many(qp, wrs, post->n, sges, post->num_sge, &post->accepted);
    weft_unlock(&qp->lock);
}

void weft_qp_post_inline(weft_handle handle, const struct weft_send_wr *wr, const void *bytes, uint32_t length,
                         struct weft_post *post)
{
    struct weft_send_wr with = *wr;
    struct weft_sge sge = {.addr = (uint64_t)(uintptr_t)bytes, .length = length};
    with.flags |= IBV_SEND_INLINE;
    with.num_sge = length != 0;
    post->n = 1;
    post->num_sge = with.num_sge;
    weft_qp_post_send(handle, &with, &sge, post);
}

int weft_qp_post_mark(struct weft_qp *qp, int recv, uint64_t id, uint64_t ah)
{
    struct ibv_send_wr *bad, wr = {.wr_id = id, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_recv_wr *bad_recv, recv_wr = {.wr_id = id};
    if (weft_datagrams(qp->limits.type) && !recv) {
        enum weft_bad_wr unfit = weft_ah_find(qp->qp->context, ah, &wr.wr.ud.ah);
        if (unfit != 0)
            return -(int)unfit;
    }
    weft_lock(&qp->lock);
    int rc = WEFT_CALL(recv ? ibv_post_recv(qp->qp, &recv_wr, &bad_recv) : weft_send(qp, &wr, &bad));
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
    } else if (weft_count(qp->limits.max_send_wr, &run, in->flags) != 0) {
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
        rc = WEFT_CALL(weft_send(qp, &wr, &bad));
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

void weft_qp_post_recv(weft_handle handle, const struct weft_recv_wr *wrs, const struct weft_sge *sges,
                       struct weft_post *post)
{
    struct weft_qp *qp = (struct weft_qp *)handle;
    weft_crossed(&qp->crossings);
    weft_lock(&qp->lock);
    int rc = -(int)qp->refuses_recvs;
    post->accepted = 0;
    if (rc == 0 && WEFT_RARELY(qp->limits.max_recv_wr == 0 || qp->qp->srq != NULL))
        rc = -WEFT_BAD_QUEUE;
    if (rc == 0)
        rc = -weft_check_recvs(wrs, post->n, post->num_sge, qp->limits.max_recv_sge, &post->accepted);
    if (rc == 0)
        rc = weft_post_recvs(qp->qp, NULL, wrs, post->n, sges, &post->accepted);
    weft_unlock(&qp->lock);
    post->result = rc;
}
