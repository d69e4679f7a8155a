/* Atomics. */
static size_t weft_fi_datatype_size(uint32_t datatype)
{
    static const uint8_t sizes[] = {
        [FI_INT8] = 1,
        [FI_UINT8] = 1,
        [FI_INT16] = 2,
        [FI_UINT16] = 2,
        [FI_INT32] = 4,
        [FI_UINT32] = 4,
        [FI_INT64] = 8,
        [FI_UINT64] = 8,
        [FI_FLOAT] = 4,
        [FI_DOUBLE] = 8,
        [FI_FLOAT_COMPLEX] = 8,
        [FI_DOUBLE_COMPLEX] = 16,
        [FI_LONG_DOUBLE] = sizeof(long double),
        [FI_LONG_DOUBLE_COMPLEX] = 2 * sizeof(long double),
        [FI_INT128] = 16,
        [FI_UINT128] = 16,
    };
    return datatype < sizeof(sizes) ? sizes[datatype] : 0;
}

/* How many lists of segments an operation has: operands; results; what to compare with, between the two. */
static uint32_t weft_fi_atomic_lists(uint32_t kind)
{
    return kind == WEFT_FI_ATOMIC ? 1 : kind == WEFT_FI_FETCH_ATOMIC ? 2 : 3;
}

/* The largest count of values that the provider takes; 0 where it does not have the operation. */
int weft_fi_atomic_valid(struct weft_fi_ep *ep, uint32_t kind, uint32_t datatype, uint32_t op, uint64_t *count)
{
    size_t n = 0;
    int rc;
    if (ep->ep->atomic == NULL || (ep->caps & FI_ATOMIC) == 0 || ep->only == WEFT_FI_ONLY_RECVS)
        return EOPNOTSUPP;
    if (kind == WEFT_FI_ATOMIC)
        rc = fi_atomicvalid(ep->ep, (enum fi_datatype)datatype, (enum fi_op)op, &n);
    else if (kind == WEFT_FI_FETCH_ATOMIC)
        rc = fi_fetch_atomicvalid(ep->ep, (enum fi_datatype)datatype, (enum fi_op)op, &n);
    else
        rc = fi_compare_atomicvalid(ep->ep, (enum fi_datatype)datatype, (enum fi_op)op, &n);
    *count = n;
    return weft_fi_result(rc);
}

int weft_fi_atomic_query(struct weft_fi_domain *d, uint32_t datatype, uint32_t op, uint64_t flags, uint64_t *count,
                         uint64_t *size)
{
    struct fi_atomic_attr attr = {0, 0};
    int rc = weft_fi_result(fi_query_atomic(d->domain, (enum fi_datatype)datatype, (enum fi_op)op, &attr, flags));
    *count = attr.count;
    *size = attr.size;
    return rc;
}

/* A list of values. */
struct weft_fi_values {
    struct fi_ioc ioc[WEFT_FI_IOV];
    void *desc[WEFT_FI_IOV];
    size_t count;   /* of segments */
    uint64_t total; /* of values */
};

static enum weft_fi_bad_op weft_fi_values(const struct weft_fi_domain *d, const struct weft_fi_seg *segs, uint32_t n,
                                          size_t size, int at_once, struct weft_fi_values *out)
{
    out->count = n;
    out->total = 0;
    for (uint32_t i = 0; i < n; i++) {
        out->desc[i] = NULL;
        if (segs[i].lkey != 0 || !at_once) {
            enum weft_fi_bad_op bad = weft_fi_local(d, &segs[i], &out->desc[i]);
            if (bad != 0)
                return bad;
        }
        if (segs[i].length % size != 0)
            return WEFT_FI_BAD_ATOMIC;
        out->ioc[i] = (struct fi_ioc){(void *)(uintptr_t)segs[i].addr, segs[i].length / size};
        out->total += segs[i].length / size;
    }
    return 0;
}

/* The lists of one operation. */
struct weft_fi_operands {
    struct weft_fi_values list[3];
};

static enum weft_fi_bad_op weft_fi_check_atomic(struct weft_fi_ep *ep, uint32_t kind, const struct weft_fi_atomic *op,
                                                const struct weft_fi_seg *segs, uint32_t left,
                                                struct weft_fi_operands *out)
{
    uint32_t lists = weft_fi_atomic_lists(kind);
    size_t size = weft_fi_datatype_size(op->datatype);
    uint64_t most = 0;
    if ((op->flags & ~WEFT_FI_TX_FLAGS) != 0 || ((op->flags & FI_INJECT) != 0 && kind != WEFT_FI_ATOMIC))
        return WEFT_FI_BAD_FLAGS;
    int at_once = (op->flags & FI_INJECT) != 0;
    if (op->num_seg == 0 || op->num_seg > ep->tx_iov_limit || (at_once && op->num_seg > 1))
        return WEFT_FI_BAD_NUM_SEG;
    if ((uint64_t)op->num_seg * lists > left)
        return WEFT_FI_BAD_SEG_LIST;
    if (size == 0 || weft_fi_atomic_valid(ep, kind, op->datatype, op->op, &most) != 0)
        return WEFT_FI_BAD_ATOMIC;
    for (uint32_t i = 0; i < lists; i++) {
        enum weft_fi_bad_op bad =
            weft_fi_values(ep->domain, segs + i * op->num_seg, op->num_seg, size, at_once, &out->list[i]);
        if (bad != 0)
            return bad;
        if (out->list[i].total != out->list[0].total || out->list[i].total == 0 || out->list[i].total > most)
            return WEFT_FI_BAD_ATOMIC;
    }
    if (!weft_fi_has_peer(ep, WEFT_FI_TX, 0, op->peer))
        return WEFT_FI_BAD_PEER;
    return weft_fi_check_length(ep, op->flags, out->list[0].total * size);
}

/* As in post.c: operation, address and values, as the calls take them. */
#define WEFT_FI_TARGET   op->peer, op->remote_addr, op->remote_key
#define WEFT_FI_WHAT     (enum fi_datatype) op->datatype, (enum fi_op)op->op
#define WEFT_FI_V(n)     o->list[n].ioc, o->list[n].desc, o->list[n].count
#define WEFT_FI_FIRST(n) o->list[n].ioc[0].addr

static ssize_t weft_fi_do_atomic(struct fid_ep *ep, const struct weft_fi_atomic *op, struct weft_fi_operands *o,
                                 uint64_t flags, void *context, const struct fi_msg_atomic *msg)
{
    struct weft_fi_values *v = &o->list[0];
    if (flags == FI_INJECT)
        return fi_inject_atomic(ep, v->ioc[0].addr, v->ioc[0].count, WEFT_FI_TARGET, WEFT_FI_WHAT);
    if (flags != 0)
        return fi_atomicmsg(ep, msg, flags);
    if (v->count == 1)
        return fi_atomic(ep, v->ioc[0].addr, v->ioc[0].count, v->desc[0], WEFT_FI_TARGET, WEFT_FI_WHAT, context);
    return fi_atomicv(ep, WEFT_FI_V(0), WEFT_FI_TARGET, WEFT_FI_WHAT, context);
}

static ssize_t weft_fi_do_fetch(struct fid_ep *ep, const struct weft_fi_atomic *op, struct weft_fi_operands *o,
                                uint64_t flags, void *context, const struct fi_msg_atomic *msg)
{
    struct weft_fi_values *v = &o->list[0], *result = &o->list[1];
    if (flags != 0)
        return fi_fetch_atomicmsg(ep, msg, WEFT_FI_V(1), flags);
    if (v->count == 1)
        return fi_fetch_atomic(ep, v->ioc[0].addr, v->ioc[0].count, v->desc[0], WEFT_FI_FIRST(1), result->desc[0],
                               WEFT_FI_TARGET, WEFT_FI_WHAT, context);
    return fi_fetch_atomicv(ep, WEFT_FI_V(0), WEFT_FI_V(1), WEFT_FI_TARGET, WEFT_FI_WHAT, context);
}

static ssize_t weft_fi_do_compare(struct fid_ep *ep, const struct weft_fi_atomic *op, struct weft_fi_operands *o,
                                  uint64_t flags, void *context, const struct fi_msg_atomic *msg)
{
    struct weft_fi_values *v = &o->list[0], *compare = &o->list[1], *result = &o->list[2];
    if (flags != 0)
        return fi_compare_atomicmsg(ep, msg, WEFT_FI_V(1), WEFT_FI_V(2), flags);
    if (v->count == 1)
        return fi_compare_atomic(ep, v->ioc[0].addr, v->ioc[0].count, v->desc[0], WEFT_FI_FIRST(1), compare->desc[0],
                                 WEFT_FI_FIRST(2), result->desc[0], WEFT_FI_TARGET, WEFT_FI_WHAT, context);
    return fi_compare_atomicv(ep, WEFT_FI_V(0), WEFT_FI_V(1), WEFT_FI_V(2), WEFT_FI_TARGET, WEFT_FI_WHAT, context);
}

static ssize_t weft_fi_do_any_atomic(struct weft_fi_ep *ep, uint32_t kind, const struct weft_fi_atomic *op,
                                     struct weft_fi_operands *o, uint64_t flags, void *context)
{
    struct fi_rma_ioc remote = {op->remote_addr, o->list[0].total, op->remote_key};
    struct fi_msg_atomic msg = {
        .msg_iov = o->list[0].ioc,
        .desc = o->list[0].desc,
        .iov_count = o->list[0].count,
        .addr = op->peer,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .datatype = (enum fi_datatype)op->datatype,
        .op = (enum fi_op)op->op,
        .context = context,
        .data = op->data,
    };
    if (kind == WEFT_FI_ATOMIC)
        return weft_fi_do_atomic(ep->ep, op, o, flags, context, &msg);
    if (kind == WEFT_FI_FETCH_ATOMIC)
        return weft_fi_do_fetch(ep->ep, op, o, flags, context, &msg);
    return weft_fi_do_compare(ep->ep, op, o, flags, context, &msg);
}

static int weft_fi_post_atomic(struct weft_fi_ep *ep, uint32_t kind, const struct weft_fi_atomic *op,
                               struct weft_fi_operands *o, int more)
{
    uint64_t flags = more ? op->flags : op->flags & ~FI_MORE; /* as in post.c */
    void *context;
    int rc = weft_fi_context(ep, WEFT_FI_TX, op->id, &flags, &context);
    if (rc != 0)
        return rc;
    ssize_t done = weft_fi_do_any_atomic(ep, kind, op, o, flags, context);
    if (done == -FI_EAGAIN)
        weft_fi_progress(ep);
    if (done == -FI_EAGAIN || (done != 0 && (flags & FI_MORE) != 0))
        done = weft_fi_do_any_atomic(ep, kind, op, o, flags & ~FI_MORE, context);
    if (done != 0)
        weft_fi_context_unused(ep, flags, context);
    return weft_fi_result(done);
}

static enum weft_fi_bad_op weft_fi_check_atomics(struct weft_fi_ep *ep, uint32_t kind, const struct weft_fi_atomic *ops,
                                                 uint32_t n, const struct weft_fi_seg *segs, uint32_t num_seg,
                                                 uint32_t *index)
{
    struct weft_fi_operands operands;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t takes = ops[i].num_seg * weft_fi_atomic_lists(kind);
        enum weft_fi_bad_op bad = weft_fi_check_atomic(ep, kind, &ops[i], segs, num_seg, &operands);
        if (bad == 0 && i == n - 1 && num_seg != takes)
            bad = WEFT_FI_BAD_SEG_LIST;
        if (bad != 0) {
            *index = i;
            return bad;
        }
        segs += takes;
        num_seg -= takes;
    }
    return 0;
}

int weft_fi_post_atomics(weft_fi_number number, uint32_t kind, const struct weft_fi_atomic *ops, uint32_t n,
                         const struct weft_fi_seg *segs, uint32_t num_seg, uint32_t *accepted)
{
    struct weft_fi_ep *ep = (struct weft_fi_ep *)number;
    struct weft_fi_operands operands;
    weft_fi_crossed(&ep->crossings);
    *accepted = 0;
    if (ep->ep->atomic == NULL || (ep->caps & FI_ATOMIC) == 0 || ep->only == WEFT_FI_ONLY_RECVS)
        return -WEFT_FI_BAD_KIND;
    int rc = -(int)weft_fi_check_atomics(ep, kind, ops, n, segs, num_seg, accepted);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        weft_fi_check_atomic(ep, kind, &ops[i], segs, num_seg, &operands);
        rc = weft_fi_post_atomic(ep, kind, &ops[i], &operands, i + 1 < n);
        *accepted += rc == 0;
        segs += ops[i].num_seg * weft_fi_atomic_lists(kind);
        num_seg -= ops[i].num_seg * weft_fi_atomic_lists(kind);
    }
    return rc;
}
