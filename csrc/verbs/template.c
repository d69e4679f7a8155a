/*
 * Templates: work requests that are filled in once and stay in C memory. A post changes addresses and lengths, links
 * what it posts, and rings each queue pair's doorbell once.
 */
struct weft_prepared {
    struct ibv_send_wr wr; /* first: the driver's *bad leads back here */
    struct ibv_sge sge;
    struct weft_qp *qp;
    uint64_t ah; /* of a datagram, which has wr.ud instead of wr.rdma; looked up at each post */
    uint32_t opcode;
    uint32_t datagram;
    /* For the first of a post to the queue pair: how many there are, how many of them come before the first signalled
     * one, and how many follow the last. */
    uint32_t chain, lead, run;
};

struct weft_template {
    uint64_t crossings; /* calls from Go that posted */
    uint32_t busy;      /* while a post is under way, and from the end on */
    uint32_t room, n;
    struct weft_prepared prepared[];
};

int weft_template_create(uint32_t n, struct weft_template **out)
{
    struct weft_template *t = calloc(1, sizeof(*t) + n * sizeof(t->prepared[0]));
    if (t == NULL)
        return ENOMEM;
    t->room = n;
    *out = t;
    return 0;
}

void weft_template_destroy(struct weft_template *t)
{
    weft_lock(&t->busy); /* for ever: posts are refused */
}

void weft_template_free(struct weft_template *t)
{
    free(t);
}

uint64_t weft_template_crossings(struct weft_template *t)
{
    return __atomic_load_n(&t->crossings, __ATOMIC_RELAXED);
}

/* A prepared request has one entry, which holds nothing yet, so that its length is checked when it is posted. */
static enum weft_bad_wr weft_check_prepared(const struct weft_qp *qp, const struct weft_send_wr *wr)
{
    const struct weft_qp_limits *limits = &qp->limits;
    struct ibv_ah *ah;
    if (wr->opcode >= 32 || (weft_opcodes[limits->type] & 1u << wr->opcode) == 0)
        return WEFT_BAD_OPCODE;
    if (wr->opcode == IBV_WR_LOCAL_INV || (1u << wr->opcode & WEFT_ATOMICS) != 0)
        return WEFT_BAD_OPCODE;
    if ((wr->flags & IBV_SEND_INLINE) != 0 && (1u << wr->opcode & WEFT_FETCHES) != 0)
        return WEFT_BAD_INLINE;
    return weft_datagrams(limits->type) ? weft_ah_find(qp->qp->context, wr->ah, &ah) : 0;
}

int weft_template_add(struct weft_template *t, struct weft_qp *qp, const struct weft_send_wr *wr, uint32_t lkey)
{
    enum weft_bad_wr bad = weft_check_prepared(qp, wr);
    if (bad != 0)
        return -(int)bad;
    if (t->n == t->room)
        return ENOSPC;
    struct weft_prepared *p = &t->prepared[t->n++];
    weft_fill_send(&p->wr, wr, NULL, weft_rules_of(&qp->limits).peer);
    p->wr.sg_list = &p->sge;
    p->sge.lkey = lkey;
    p->qp = qp;
    p->ah = wr->ah;
    p->opcode = wr->opcode;
    p->datagram = (uint32_t)weft_datagrams(qp->limits.type);
    if (p->datagram)
        weft_fill_far(&p->wr, 0, wr->rkey);
    return 0;
}

static void weft_apply(struct weft_prepared *p, const struct weft_patch *patch)
{
    p->sge.addr = patch->addr;
    p->sge.length = patch->length;
    p->wr.num_sge = patch->length != 0;
    if (p->datagram)
        p->wr.bind_mw.bind_info.addr = patch->remote_addr;
    else
        p->wr.wr.rdma.remote_addr = patch->remote_addr;
}

/* A chain as far as it is linked, and what is looked up once for it. */
struct weft_linking {
    struct weft_qp *qp;
    uint32_t max_send_wr, max_message;
    struct weft_prepared *first, *last;
    uint32_t chain, lead, run;
};

static inline void weft_end_chain(const struct weft_linking *l)
{
    if (l->first == NULL)
        return;
    l->first->chain = l->chain;
    l->first->lead = l->lead;
    l->first->run = l->run;
    l->last->wr.next = NULL;
}

/*
 * Checks all patches, and links what they are for into a chain for each queue pair. Patches are in order, and requests
 * of one queue pair lie together: its run of requests without a signal is counted from where it stands.
 */
static enum weft_bad_wr weft_link(struct weft_template *t, const struct weft_patch *patches, uint32_t n,
                                  uint32_t *index)
{
    struct weft_linking l = {.qp = NULL};
    struct weft_prepared *const prepared = t->prepared;
    const uint32_t all = t->n;
    uint32_t least = 0, i = 0;
    enum weft_bad_wr bad = 0;
    for (; i < n; i++) {
        const struct weft_patch *patch = &patches[i];
        bad = patch->index < least || patch->index >= all ? WEFT_BAD_PATCH : 0;
        if (bad != 0)
            break;
        least = patch->index + 1;
        struct weft_prepared *p = prepared + patch->index;
        if (p->qp != l.qp) {
            weft_end_chain(&l);
            l = (struct weft_linking){.qp = p->qp, .first = p};
            l.max_send_wr = p->qp->limits.max_send_wr;
            l.max_message = p->qp->limits.max_message;
            l.run = __atomic_load_n(&l.qp->run, __ATOMIC_RELAXED);
            bad = __atomic_load_n(&l.qp->refuses, __ATOMIC_RELAXED);
        } else {
            l.last->wr.next = &p->wr;
        }
        if (WEFT_RARELY((p->wr.send_flags & IBV_SEND_INLINE) != 0 && bad == 0))
            bad = weft_check_inline(&l.qp->limits, p->opcode, patch->length);
        if (WEFT_RARELY(p->datagram && bad == 0))
            bad = weft_ah_find(l.qp->qp->context, p->ah, &p->wr.wr.ud.ah);
        if (bad == 0 && patch->length > l.max_message)
            bad = WEFT_BAD_LENGTH;
        if (bad == 0)
            bad = weft_count(l.max_send_wr, &l.run, p->wr.send_flags);
        if (bad != 0)
            break;
        weft_apply(p, patch);
        l.lead += l.lead == l.chain && (p->wr.send_flags & IBV_SEND_SIGNALED) == 0;
        l.chain++;
        l.last = p;
    }
    if (bad == 0)
        weft_end_chain(&l);
    *index = i;
    return bad;
}

/* How many of a chain a driver took that stopped at bad; one that does not say where took none. */
static uint32_t weft_taken(struct weft_template *t, const struct weft_patch *patches, uint32_t n,
                           const struct ibv_send_wr *bad)
{
    for (uint32_t i = 0; i < n; i++)
        if (bad == &t->prepared[patches[i].index].wr)
            return i;
    return 0;
}

/* Posts the chain that the first patch begins. */
static int weft_post_linked(struct weft_template *t, const struct weft_patch *patches, uint32_t *taken)
{
    struct weft_prepared *first = &t->prepared[patches[0].index];
    struct weft_qp *qp = first->qp;
    struct ibv_send_wr *bad = NULL;
    weft_lock(&qp->lock);
    /* What others have posted since the check may leave no room for a completion; the next check says so in full. */
    int full = qp->run + first->lead >= qp->limits.max_send_wr;
    int rc = WEFT_RARELY(full) ? ENOMEM : WEFT_CALL(weft_send(qp, &first->wr, &bad));
    *taken = rc == 0 ? first->chain : weft_taken(t, patches, first->chain, bad);
    if (rc == 0) /* a run that is shorter than the chain began in it; else it goes on from where it stands now */
        qp->run = first->run < first->chain ? first->run : qp->run + first->chain;
    for (uint32_t i = 0; rc != 0 && i < *taken; i++)
        weft_count(qp->limits.max_send_wr, &qp->run, t->prepared[patches[i].index].wr.send_flags);
    weft_unlock(&qp->lock);
    return rc;
}

static int weft_post_patches(struct weft_template *t, const struct weft_patch *patches, uint32_t n, uint32_t *accepted)
{
    int rc = -(int)weft_link(t, patches, n, accepted);
    if (rc != 0)
        return rc;
    *accepted = 0;
    while (*accepted < n && rc == 0) {
        uint32_t taken;
        rc = weft_post_linked(t, &patches[*accepted], &taken);
        *accepted += taken;
    }
    return rc;
}

void weft_template_post(weft_handle handle, const struct weft_patch *patches, struct weft_post *post)
{
    struct weft_template *t = (struct weft_template *)handle;
    post->result = -WEFT_BAD_CLOSED;
    if (__atomic_exchange_n(&t->busy, 1, __ATOMIC_ACQUIRE) != 0)
        return;
    weft_crossed(&t->crossings);
    post->result = weft_post_patches(t, patches, post->n, &post->accepted);
    weft_unlock(&t->busy);
}
