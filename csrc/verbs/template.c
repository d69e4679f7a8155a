/*
 * Templates: work requests that are filled in once and stay in C memory. A post changes addresses and lengths, links
 * what it posts, and rings each queue pair's doorbell once.
 */
struct weft_prepared {
    struct ibv_send_wr wr; /* first: the driver's *bad leads back here */
    struct ibv_sge sge;
    struct weft_qp *qp;
    uint32_t opcode;
    uint32_t datagram; /* wr.ud instead of wr.rdma */
};

struct weft_template {
    uint64_t crossings; /* calls from Go that posted */
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
    free(t);
}

uint64_t weft_template_crossings(struct weft_template *t)
{
    return __atomic_load_n(&t->crossings, __ATOMIC_RELAXED);
}

/* A prepared request has one entry, which holds nothing yet, so that its length is checked when it is posted. */
static enum weft_bad_wr weft_check_prepared(const struct weft_qp_limits *limits, const struct weft_send_wr *wr)
{
    if (wr->opcode >= 32 || (weft_opcodes[limits->type] & 1u << wr->opcode) == 0)
        return WEFT_BAD_OPCODE;
    if (wr->opcode == IBV_WR_LOCAL_INV || (1u << wr->opcode & WEFT_ATOMICS) != 0)
        return WEFT_BAD_OPCODE;
    if ((wr->flags & IBV_SEND_INLINE) != 0 && (1u << wr->opcode & WEFT_FETCHES) != 0)
        return WEFT_BAD_INLINE;
    return limits->type == IBV_QPT_UD && wr->ah == 0 ? WEFT_BAD_AH : 0;
}

int weft_template_add(struct weft_template *t, struct weft_qp *qp, const struct weft_send_wr *wr, uint32_t lkey)
{
    enum weft_bad_wr bad = weft_check_prepared(&qp->limits, wr);
    if (bad != 0)
        return -(int)bad;
    if (t->n == t->room)
        return ENOSPC;
    struct weft_prepared *p = &t->prepared[t->n++];
    weft_fill_send(&p->wr, wr, NULL, qp->limits.type);
    p->wr.sg_list = &p->sge;
    p->sge.lkey = lkey;
    p->qp = qp;
    p->opcode = wr->opcode;
    p->datagram = qp->limits.type == IBV_QPT_UD;
    return 0;
}

/*
 * All that is checked, before anything is posted. Requests of one queue pair lie together, and patches are in order: a
 * queue pair's run of requests without a signal is counted from where it stands.
 */
static enum weft_bad_wr weft_check_patches(const struct weft_template *t, const struct weft_patch *patches, uint32_t n,
                                           uint32_t *index)
{
    const struct weft_qp *qp = NULL;
    uint32_t run = 0, least = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct weft_patch *patch = &patches[i];
        *index = i;
        if (patch->index < least || patch->index >= t->n)
            return WEFT_BAD_PATCH;
        least = patch->index + 1;
        const struct weft_prepared *p = &t->prepared[patch->index];
        if (p->qp != qp) {
            qp = p->qp;
            run = __atomic_load_n(&qp->run, __ATOMIC_RELAXED);
            if (__atomic_load_n(&qp->failed, __ATOMIC_RELAXED) != 0)
                return WEFT_BAD_FAILED;
        }
        enum weft_bad_wr bad = weft_check_length(&qp->limits, p->opcode, p->wr.send_flags, 0, patch->length);
        if (bad == 0)
            bad = weft_count(&qp->limits, &run, p->wr.send_flags);
        if (bad != 0)
            return bad;
    }
    return 0;
}

static struct weft_prepared *weft_apply(struct weft_template *t, const struct weft_patch *patch)
{
    struct weft_prepared *p = &t->prepared[patch->index];
    p->sge.addr = patch->addr;
    p->sge.length = patch->length;
    p->wr.num_sge = patch->length != 0;
    if (!p->datagram)
        p->wr.wr.rdma.remote_addr = patch->remote_addr;
    return p;
}

/* Posts the patches of one queue pair, the first n, and returns how many the driver took by *accepted. */
static int weft_post_patches(struct weft_template *t, struct weft_qp *qp, const struct weft_patch *patches, uint32_t n,
                             uint32_t *accepted)
{
    struct weft_prepared *first = weft_apply(t, &patches[0]), *last = first;
    weft_lock(&qp->lock);
    uint32_t before = qp->run;
    weft_count(&qp->limits, &qp->run, first->wr.send_flags);
    for (uint32_t i = 1; i < n; i++) {
        struct weft_prepared *p = weft_apply(t, &patches[i]);
        last->wr.next = &p->wr;
        last = p;
        weft_count(&qp->limits, &qp->run, p->wr.send_flags);
    }
    last->wr.next = NULL;
    struct ibv_send_wr *bad = NULL;
    int rc = WEFT_CALL(ibv_post_send(qp->qp, &first->wr, &bad));
    *accepted = n;
    if (rc != 0) {
        uint32_t taken = 0;
        while (taken < n && bad != &t->prepared[patches[taken].index].wr)
            taken++;
        *accepted = taken < n ? taken : 0; /* a driver that does not say where took none */
        qp->run = before;
        for (uint32_t i = 0; i < *accepted; i++)
            weft_count(&qp->limits, &qp->run, t->prepared[patches[i].index].wr.send_flags);
    }
    weft_unlock(&qp->lock);
    return rc;
}

int weft_template_post(struct weft_template *t, const struct weft_patch *patches, uint32_t n, uint32_t *accepted)
{
    weft_crossed(&t->crossings);
    int rc = -(int)weft_check_patches(t, patches, n, accepted);
    if (rc != 0)
        return rc;
    *accepted = 0;
    while (*accepted < n && rc == 0) {
        struct weft_qp *qp = t->prepared[patches[*accepted].index].qp;
        uint32_t end = *accepted + 1, taken;
        while (end < n && t->prepared[patches[end].index].qp == qp)
            end++;
        rc = weft_post_patches(t, qp, &patches[*accepted], end - *accepted, &taken);
        *accepted += taken;
    }
    return rc;
}
