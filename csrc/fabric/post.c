/* Posting: what is checked before the provider sees anything, and which of its calls an operation becomes. */
enum weft_fi_side { WEFT_FI_TX, WEFT_FI_RX };

/* When a completion counts as one; the provider's default without any. */
#define WEFT_FI_LEVELS                                                                                                 \
    (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE)
#define WEFT_FI_TX_FLAGS (FI_COMPLETION | FI_INJECT | FI_MORE | FI_FENCE | FI_REMOTE_CQ_DATA | WEFT_FI_LEVELS)
#define WEFT_FI_RX_FLAGS (FI_COMPLETION | FI_MORE | FI_MULTI_RECV)

static const struct weft_fi_rule {
    uint64_t caps; /* that the endpoint needs */
    uint64_t flags;
    enum weft_fi_side side;
} weft_fi_rules[] = {
    [WEFT_FI_SEND] = {FI_MSG | FI_SEND, WEFT_FI_TX_FLAGS | FI_MULTICAST, WEFT_FI_TX},
    [WEFT_FI_RECV] = {FI_MSG | FI_RECV, WEFT_FI_RX_FLAGS, WEFT_FI_RX},
    [WEFT_FI_TSEND] = {FI_TAGGED | FI_SEND, WEFT_FI_TX_FLAGS, WEFT_FI_TX},
    [WEFT_FI_TRECV] = {FI_TAGGED | FI_RECV, WEFT_FI_RX_FLAGS | FI_PEEK | FI_CLAIM | FI_DISCARD, WEFT_FI_RX},
    [WEFT_FI_WRITE] = {FI_RMA | FI_WRITE, WEFT_FI_TX_FLAGS, WEFT_FI_TX},
    [WEFT_FI_READ] = {FI_RMA | FI_READ, WEFT_FI_TX_FLAGS & ~(FI_INJECT | FI_REMOTE_CQ_DATA), WEFT_FI_TX},
};

/* An operation's segments as the provider takes them. */
struct weft_fi_list {
    struct iovec iov[WEFT_FI_IOV];
    void *desc[WEFT_FI_IOV];
    size_t count;
    uint64_t length; /* of all */
};

/* The list of a segment list; memory that is taken at once needs no region. */
static inline enum weft_fi_bad_op weft_fi_gather(const struct weft_fi_domain *d, const struct weft_fi_seg *segs,
                                                 uint32_t n, int at_once, struct weft_fi_list *list)
{
    list->count = n;
    list->length = 0;
    list->iov[0] = (struct iovec){NULL, 0};
    list->desc[0] = NULL;
    for (uint32_t i = 0; i < n; i++) {
        list->iov[i] = (struct iovec){(void *)(uintptr_t)segs[i].addr, segs[i].length};
        list->desc[i] = NULL;
        if (segs[i].lkey != 0 || !at_once) {
            enum weft_fi_bad_op bad = weft_fi_local(d, &segs[i], &list->desc[i]);
            if (bad != 0)
                return bad;
        }
        if (list->length + segs[i].length < list->length)
            return WEFT_FI_BAD_LENGTH;
        list->length += segs[i].length;
    }
    return 0;
}

/* A connected endpoint has one peer; a receive from anyone has none; a multicast goes to a group that was joined. */
static inline int weft_fi_has_peer(struct weft_fi_ep *ep, enum weft_fi_side side, uint64_t flags, uint64_t peer)
{
    if ((flags & FI_MULTICAST) != 0)
        return weft_fi_joined(ep, peer);
    if (ep->av == NULL)
        return 1;
    return (side == WEFT_FI_RX && peer == FI_ADDR_UNSPEC) || weft_fi_known(ep->av, peer);
}

static inline enum weft_fi_bad_op weft_fi_check_length(const struct weft_fi_ep *ep, uint64_t flags, uint64_t length)
{
    if ((flags & FI_INJECT) != 0 && length > ep->inject_size)
        return WEFT_FI_BAD_INJECT;
    return length > ep->max_msg_size ? WEFT_FI_BAD_LENGTH : 0;
}

/* Checks an operation, and fills in its list on the way. */
static inline enum weft_fi_bad_op weft_fi_check(struct weft_fi_ep *ep, const struct weft_fi_rule *rule,
                                                const struct weft_fi_op *op, const struct weft_fi_seg *segs,
                                                uint32_t left, struct weft_fi_list *list)
{
    if ((op->flags & ~rule->flags) != 0)
        return WEFT_FI_BAD_FLAGS;
    uint32_t limit = rule->side == WEFT_FI_RX ? ep->rx_iov_limit : ep->tx_iov_limit;
    int at_once = (op->flags & FI_INJECT) != 0;
    if (op->num_seg > limit || (at_once && op->num_seg > 1))
        return WEFT_FI_BAD_NUM_SEG;
    if (op->num_seg > left)
        return WEFT_FI_BAD_SEG_LIST;
    enum weft_fi_bad_op bad = weft_fi_gather(ep->domain, segs, op->num_seg, at_once, list);
    if (bad != 0)
        return bad;
    if (!weft_fi_has_peer(ep, rule->side, op->flags, op->peer))
        return WEFT_FI_BAD_PEER;
    return rule->side == WEFT_FI_TX ? weft_fi_check_length(ep, op->flags, list->length) : 0;
}

/* The operation and its list, as the calls below take them. */
#define WEFT_FI_ONE list->iov[0].iov_base, list->iov[0].iov_len
#define WEFT_FI_ALL list->iov, list->desc, list->count

/*
 * The leanest call that an operation can be: those that take flags are the general ones. FI_INJECT without
 * FI_COMPLETION is a call of its own, which never gives a completion.
 */
static ssize_t weft_fi_do_send(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                               uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_sendv(ep, WEFT_FI_ALL, op->peer, context)
                               : fi_send(ep, WEFT_FI_ONE, list->desc[0], op->peer, context);
    if (flags == FI_INJECT)
        return fi_inject(ep, WEFT_FI_ONE, op->peer);
    if (flags == (FI_INJECT | FI_REMOTE_CQ_DATA))
        return fi_injectdata(ep, WEFT_FI_ONE, op->data, op->peer);
    if (flags == FI_REMOTE_CQ_DATA && list->count <= 1)
        return fi_senddata(ep, WEFT_FI_ONE, list->desc[0], op->data, op->peer, context);
    struct fi_msg msg = {list->iov, list->desc, list->count, op->peer, context, op->data};
    return fi_sendmsg(ep, &msg, flags);
}

static ssize_t weft_fi_do_recv(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                               uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_recvv(ep, WEFT_FI_ALL, op->peer, context)
                               : fi_recv(ep, WEFT_FI_ONE, list->desc[0], op->peer, context);
    struct fi_msg msg = {list->iov, list->desc, list->count, op->peer, context, op->data};
    return fi_recvmsg(ep, &msg, flags);
}

static ssize_t weft_fi_do_tsend(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                                uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_tsendv(ep, WEFT_FI_ALL, op->peer, op->tag, context)
                               : fi_tsend(ep, WEFT_FI_ONE, list->desc[0], op->peer, op->tag, context);
    if (flags == FI_INJECT)
        return fi_tinject(ep, WEFT_FI_ONE, op->peer, op->tag);
    if (flags == (FI_INJECT | FI_REMOTE_CQ_DATA))
        return fi_tinjectdata(ep, WEFT_FI_ONE, op->data, op->peer, op->tag);
    if (flags == FI_REMOTE_CQ_DATA && list->count <= 1)
        return fi_tsenddata(ep, WEFT_FI_ONE, list->desc[0], op->data, op->peer, op->tag, context);
    struct fi_msg_tagged msg = {list->iov, list->desc, list->count, op->peer, op->tag, 0, context, op->data};
    return fi_tsendmsg(ep, &msg, flags);
}

static ssize_t weft_fi_do_trecv(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                                uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_trecvv(ep, WEFT_FI_ALL, op->peer, op->tag, op->ignore, context)
                               : fi_trecv(ep, WEFT_FI_ONE, list->desc[0], op->peer, op->tag, op->ignore, context);
    struct fi_msg_tagged msg = {list->iov, list->desc, list->count, op->peer, op->tag, op->ignore, context, op->data};
    return fi_trecvmsg(ep, &msg, flags);
}

#define WEFT_FI_REMOTE op->peer, op->remote_addr, op->remote_key

static ssize_t weft_fi_do_write(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                                uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_writev(ep, WEFT_FI_ALL, WEFT_FI_REMOTE, context)
                               : fi_write(ep, WEFT_FI_ONE, list->desc[0], WEFT_FI_REMOTE, context);
    if (flags == FI_INJECT)
        return fi_inject_write(ep, WEFT_FI_ONE, WEFT_FI_REMOTE);
    if (flags == (FI_INJECT | FI_REMOTE_CQ_DATA))
        return fi_inject_writedata(ep, WEFT_FI_ONE, op->data, WEFT_FI_REMOTE);
    if (flags == FI_REMOTE_CQ_DATA && list->count <= 1)
        return fi_writedata(ep, WEFT_FI_ONE, list->desc[0], op->data, WEFT_FI_REMOTE, context);
    struct fi_rma_iov remote = {op->remote_addr, list->length, op->remote_key};
    struct fi_msg_rma msg = {list->iov, list->desc, list->count, op->peer, &remote, 1, context, op->data};
    return fi_writemsg(ep, &msg, flags);
}

static ssize_t weft_fi_do_read(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                               uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_readv(ep, WEFT_FI_ALL, WEFT_FI_REMOTE, context)
                               : fi_read(ep, WEFT_FI_ONE, list->desc[0], WEFT_FI_REMOTE, context);
    struct fi_rma_iov remote = {op->remote_addr, list->length, op->remote_key};
    struct fi_msg_rma msg = {list->iov, list->desc, list->count, op->peer, &remote, 1, context, op->data};
    return fi_readmsg(ep, &msg, flags);
}

static ssize_t weft_fi_do(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *op,
                          struct weft_fi_list *list, uint64_t flags, void *context)
{
    switch (kind) {
    case WEFT_FI_SEND:
        return weft_fi_do_send(ep->ep, op, list, flags, context);
    case WEFT_FI_RECV:
        return weft_fi_do_recv(ep->ep, op, list, flags, context);
    case WEFT_FI_TSEND:
        return weft_fi_do_tsend(ep->ep, op, list, flags, context);
    case WEFT_FI_TRECV:
        return weft_fi_do_trecv(ep->ep, op, list, flags, context);
    case WEFT_FI_WRITE:
        return weft_fi_do_write(ep->ep, op, list, flags, context);
    default:
        return weft_fi_do_read(ep->ep, op, list, flags, context);
    }
}

/*
 * The context of an operation: its number or, where the provider keeps notes there, a slot that has the number. A slot
 * is had back by the completion, so that one is asked for there in any case. NULL where there is no memory for it.
 */
static int weft_fi_context(struct weft_fi_ep *ep, enum weft_fi_side side, uint64_t id, uint64_t *flags, void **context)
{
    *context = (void *)(uintptr_t)id;
    if (!weft_fi_has_slots(ep->domain) || (*flags & (FI_INJECT | FI_COMPLETION)) == FI_INJECT)
        return 0;
    int hidden = (ep->selective >> side & 1) != 0 && (*flags & FI_COMPLETION) == 0;
    if (hidden)
        *flags |= FI_COMPLETION;
    uint32_t what = (hidden ? WEFT_FI_HIDDEN : 0) | ((*flags & FI_MULTI_RECV) != 0 ? WEFT_FI_MANY : 0);
    *context = weft_fi_slot_take(ep->domain, ep, id, what);
    return *context != NULL ? 0 : ENOMEM;
}

static void weft_fi_context_unused(struct weft_fi_ep *ep, uint64_t flags, void *context)
{
    if (weft_fi_has_slots(ep->domain) && (flags & (FI_INJECT | FI_COMPLETION)) != FI_INJECT)
        weft_fi_slot_give(ep->domain, context);
}

/*
 * An endpoint that takes no more may be waiting for its own queues to be read, of sends and of receives alike: a
 * provider whose progress is manual moves only then. Reading no entries moves it and leaves the completions where they
 * are.
 */
static void weft_fi_progress(struct weft_fi_ep *ep)
{
    for (int i = 0; i < 2; i++) {
        if (ep->cqs[i] != NULL && (i == 0 || ep->cqs[0] != ep->cqs[1]))
            fi_cq_read(ep->cqs[i]->cq, NULL, 0);
    }
    for (uint32_t i = 0; i < ep->num_counters; i++)
        fi_cntr_read(ep->counters[i]);
}

static inline int weft_fi_post_one(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *op,
                                   struct weft_fi_list *list)
{
    uint64_t flags = op->flags;
    void *context;
    int rc = weft_fi_context(ep, weft_fi_rules[kind].side, op->id, &flags, &context);
    if (rc != 0)
        return rc;
    ssize_t done = weft_fi_do(ep, kind, op, list, flags, context);
    if (done == -FI_EAGAIN) {
        weft_fi_progress(ep);
        done = weft_fi_do(ep, kind, op, list, flags, context);
    }
    if (done != 0)
        weft_fi_context_unused(ep, flags, context);
    return weft_fi_result(done);
}

/* How many descriptors of memory a check keeps for the posts that follow it. */
enum { WEFT_FI_KEPT = 64 };

/* Checks all; *index is the operation that fails. The descriptors of single segments are kept, of the first operations.
 */
static enum weft_fi_bad_op weft_fi_check_all(struct weft_fi_ep *ep, const struct weft_fi_rule *rule,
                                             const struct weft_fi_op *ops, uint32_t n, const struct weft_fi_seg *segs,
                                             uint32_t num_seg, void **kept, uint32_t *index)
{
    struct weft_fi_list list;
    for (uint32_t i = 0; i < n; i++) {
        enum weft_fi_bad_op bad = weft_fi_check(ep, rule, &ops[i], segs, num_seg, &list);
        if (bad == 0 && i == n - 1 && num_seg != ops[i].num_seg)
            bad = WEFT_FI_BAD_SEG_LIST;
        if (bad != 0) {
            *index = i;
            return bad;
        }
        if (i < WEFT_FI_KEPT)
            kept[i] = list.desc[0];
        segs += ops[i].num_seg;
        num_seg -= ops[i].num_seg;
    }
    return 0;
}

/* More than one: all is checked before the first is posted. */
static int weft_fi_post_all(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *ops, uint32_t n,
                            const struct weft_fi_seg *segs, uint32_t num_seg, uint32_t *accepted)
{
    struct weft_fi_list list;
    void *kept[WEFT_FI_KEPT];
    int rc = -(int)weft_fi_check_all(ep, &weft_fi_rules[kind], ops, n, segs, num_seg, kept, accepted);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (ops[i].num_seg == 1 && i < WEFT_FI_KEPT) {
            list.iov[0] = (struct iovec){(void *)(uintptr_t)segs->addr, segs->length};
            list.desc[0] = kept[i];
            list.count = 1;
            list.length = segs->length;
        } else {
            weft_fi_gather(ep->domain, segs, ops[i].num_seg, 1, &list);
        }
        rc = weft_fi_post_one(ep, kind, &ops[i], &list);
        *accepted += rc == 0;
        segs += ops[i].num_seg;
    }
    return rc;
}

int weft_fi_post(struct weft_fi_ep *ep, uint32_t kind, const struct weft_fi_op *ops, uint32_t n,
                 const struct weft_fi_seg *segs, uint32_t num_seg, uint32_t *accepted)
{
    const struct weft_fi_rule *rule = &weft_fi_rules[kind];
    struct weft_fi_list list;
    weft_fi_crossed(&ep->crossings);
    *accepted = 0;
    if ((ep->caps & rule->caps) != rule->caps)
        return -WEFT_FI_BAD_KIND;
    if (n != 1)
        return weft_fi_post_all(ep, (enum weft_fi_kind)kind, ops, n, segs, num_seg, accepted);
    enum weft_fi_bad_op bad = weft_fi_check(ep, rule, ops, segs, num_seg, &list);
    if (bad == 0 && num_seg != ops->num_seg)
        bad = WEFT_FI_BAD_SEG_LIST;
    if (bad != 0)
        return -(int)bad;
    int rc = weft_fi_post_one(ep, (enum weft_fi_kind)kind, ops, &list);
    *accepted = rc == 0;
    return rc;
}
