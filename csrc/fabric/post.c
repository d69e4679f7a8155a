/* Posting: what is checked before the provider sees anything, and which of its calls an operation becomes. */
enum weft_fi_side { WEFT_FI_TX, WEFT_FI_RX };

/* When a completion counts as one; the provider's default without any. */
#define WEFT_FI_LEVELS                                                                                                 \
    (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE)
#define WEFT_FI_TX_FLAGS (FI_COMPLETION | FI_INJECT | FI_MORE | FI_FENCE | FI_REMOTE_CQ_DATA | WEFT_FI_LEVELS)
#define WEFT_FI_RX_FLAGS (FI_COMPLETION | FI_MORE | FI_MULTI_RECV)

static const struct weft_fi_rule {
    uint64_t flags; /* that it takes */
    enum weft_fi_side side;
} weft_fi_rules[] = {
    [WEFT_FI_SEND] = {WEFT_FI_TX_FLAGS | FI_MULTICAST, WEFT_FI_TX},
    [WEFT_FI_RECV] = {WEFT_FI_RX_FLAGS, WEFT_FI_RX},
    [WEFT_FI_TSEND] = {WEFT_FI_TX_FLAGS, WEFT_FI_TX},
    [WEFT_FI_TRECV] = {WEFT_FI_RX_FLAGS | FI_PEEK | FI_CLAIM | FI_DISCARD, WEFT_FI_RX},
    [WEFT_FI_WRITE] = {WEFT_FI_TX_FLAGS, WEFT_FI_TX},
    [WEFT_FI_READ] = {WEFT_FI_TX_FLAGS & ~(FI_INJECT | FI_REMOTE_CQ_DATA), WEFT_FI_TX},
};

/* An operation's segments as the provider takes them. */
struct weft_fi_list {
    struct iovec iov[WEFT_FI_IOV];
    void *desc[WEFT_FI_IOV];
    size_t count;
    uint64_t length; /* of all */
};

/* Appends a segment to a list; memory that is taken at once needs no region. */
WEFT_INLINE enum weft_fi_bad_op weft_fi_append(const struct weft_fi_domain *d, const struct weft_fi_seg *seg,
                                               int at_once, struct weft_fi_list *list)
{
    size_t i = list->count++;
    list->iov[i] = (struct iovec){(void *)(uintptr_t)seg->addr, seg->length};
    list->desc[i] = NULL;
    list->length += seg->length;
    if (list->length < seg->length)
        return WEFT_FI_BAD_LENGTH;
    return seg->lkey == 0 && at_once ? 0 : weft_fi_local(d, seg, &list->desc[i]);
}

/* The list of a segment list. */
static inline enum weft_fi_bad_op weft_fi_gather(const struct weft_fi_domain *d, const struct weft_fi_seg *segs,
                                                 uint32_t n, int at_once, struct weft_fi_list *list)
{
    list->count = 0;
    list->length = 0;
    if (WEFT_RARELY(n == 0)) {
        list->iov[0] = (struct iovec){NULL, 0};
        list->desc[0] = NULL;
        return 0;
    }
    enum weft_fi_bad_op bad = weft_fi_append(d, segs, at_once, list);
    for (uint32_t i = 1; i < n && bad == 0; i++)
        bad = weft_fi_append(d, &segs[i], at_once, list);
    return bad;
}

/* A connected endpoint has one peer; a receive from anyone has none; a multicast goes to a group that was joined. */
static inline int weft_fi_has_peer(struct weft_fi_ep *ep, enum weft_fi_side side, uint64_t flags, uint64_t peer)
{
    if ((flags & FI_MULTICAST) != 0)
        return weft_fi_joined(ep, peer);
    if (ep->av == NULL)
        return !ep->anyone || peer == FI_ADDR_UNSPEC;
    return (side == WEFT_FI_RX && peer == FI_ADDR_UNSPEC) || weft_fi_known(ep->av, peer);
}

static inline enum weft_fi_bad_op weft_fi_check_length(const struct weft_fi_ep *ep, uint64_t flags, uint64_t length)
{
    if ((flags & FI_INJECT) != 0 && length > ep->inject_size)
        return WEFT_FI_BAD_INJECT;
    return length > ep->max_msg_size ? WEFT_FI_BAD_LENGTH : 0;
}

/* Checks an operation, and fills in its list on the way. */
static __attribute__((noinline)) enum weft_fi_bad_op
weft_fi_check(struct weft_fi_ep *ep, const struct weft_fi_rule *rule, const struct weft_fi_op *op,
              const struct weft_fi_seg *segs, uint32_t left, struct weft_fi_list *list)
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
WEFT_INLINE ssize_t weft_fi_do_send(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
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

WEFT_INLINE ssize_t weft_fi_do_recv(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                                    uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_recvv(ep, WEFT_FI_ALL, op->peer, context)
                               : fi_recv(ep, WEFT_FI_ONE, list->desc[0], op->peer, context);
    struct fi_msg msg = {list->iov, list->desc, list->count, op->peer, context, op->data};
    return fi_recvmsg(ep, &msg, flags);
}

WEFT_INLINE ssize_t weft_fi_do_tsend(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
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

WEFT_INLINE ssize_t weft_fi_do_trecv(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                                     uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_trecvv(ep, WEFT_FI_ALL, op->peer, op->tag, op->ignore, context)
                               : fi_trecv(ep, WEFT_FI_ONE, list->desc[0], op->peer, op->tag, op->ignore, context);
    struct fi_msg_tagged msg = {list->iov, list->desc, list->count, op->peer, op->tag, op->ignore, context, op->data};
    return fi_trecvmsg(ep, &msg, flags);
}

#define WEFT_FI_REMOTE op->peer, op->remote_addr, op->remote_key

WEFT_INLINE ssize_t weft_fi_do_write(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
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

WEFT_INLINE ssize_t weft_fi_do_read(struct fid_ep *ep, const struct weft_fi_op *op, struct weft_fi_list *list,
                                    uint64_t flags, void *context)
{
    if (flags == 0)
        return list->count > 1 ? fi_readv(ep, WEFT_FI_ALL, WEFT_FI_REMOTE, context)
                               : fi_read(ep, WEFT_FI_ONE, list->desc[0], WEFT_FI_REMOTE, context);
    struct fi_rma_iov remote = {op->remote_addr, list->length, op->remote_key};
    struct fi_msg_rma msg = {list->iov, list->desc, list->count, op->peer, &remote, 1, context, op->data};
    return fi_readmsg(ep, &msg, flags);
}

WEFT_INLINE ssize_t weft_fi_do(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *op,
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
    if (__atomic_load_n(&ep->domain->slots, __ATOMIC_RELAXED) == NULL)
        *flags &= ~FI_MORE; /* there may be no memory for the next operation's */
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

/*
 * What comes of an operation that the provider did not take: where its queue is full it is tried once more. What was
 * taken before it may wait for its doorbell (FI_MORE); so the last that the provider hears of a batch never has that
 * flag, and an operation that was refused with it is tried without.
 */
static __attribute__((noinline)) int weft_fi_post_again(struct weft_fi_ep *ep, enum weft_fi_kind kind,
                                                        const struct weft_fi_op *op, struct weft_fi_list *list,
                                                        uint64_t flags, void *context, ssize_t done)
{
    if (done == -FI_EAGAIN)
        weft_fi_progress(ep);
    if (done == -FI_EAGAIN || (flags & FI_MORE) != 0)
        done = weft_fi_do(ep, kind, op, list, flags & ~FI_MORE, context);
    if (done != 0)
        weft_fi_context_unused(ep, flags, context);
    return weft_fi_result(done);
}

/* Posts one; more says whether the same call posts another one after it, without which there is no FI_MORE. */
WEFT_INLINE int weft_fi_post_one(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *op,
                                 struct weft_fi_list *list, int more)
{
    uint64_t flags = more ? op->flags : op->flags & ~FI_MORE;
    void *context = (void *)(uintptr_t)op->id;
    if (WEFT_RARELY(weft_fi_has_slots(ep->domain))) {
        int rc = weft_fi_context(ep, weft_fi_rules[kind].side, op->id, &flags, &context);
        if (rc != 0)
            return rc;
    }
    ssize_t done = weft_fi_do(ep, kind, op, list, flags, context);
    return WEFT_RARELY(done != 0) ? weft_fi_post_again(ep, kind, op, list, flags, context, done) : 0;
}

/*
 * What the last operation of a post was found to be, if it has one segment. Most posts are from one region to one peer:
 * an operation like the one before it needs no look-up.
 */
struct weft_fi_found {
    uint64_t refused; /* flags that need the whole check */
    uint64_t peer;
    uint64_t addr, length; /* of the region */
    uint64_t longest;      /* segment: a message's limit or the region's length */
    void *desc;
    uint32_t lkey;
    uint32_t num_seg; /* 1, or what no operation has while nothing was found */
};

static inline int weft_fi_alike(const struct weft_fi_found *found, const struct weft_fi_op *op,
                                const struct weft_fi_seg *seg)
{
    return op->num_seg == found->num_seg && (op->flags & found->refused) == 0 && op->peer == found->peer &&
           seg->lkey == found->lkey && seg->length <= found->longest &&
           seg->addr - found->addr <= found->length - seg->length;
}

/* Notes an operation that was checked. */
static void weft_fi_find(struct weft_fi_found *found, const struct weft_fi_ep *ep, const struct weft_fi_rule *rule,
                         const struct weft_fi_op *op, const struct weft_fi_seg *seg, void *desc)
{
    found->num_seg = UINT32_MAX;
    if (op->num_seg != 1 || seg->lkey == 0 || (op->flags & FI_MULTICAST) != 0)
        return;
    const struct weft_fi_region *region = weft_fi_region(ep->domain, seg->lkey);
    uint64_t most = rule->side == WEFT_FI_TX ? ep->max_msg_size : UINT64_MAX;
    *found = (struct weft_fi_found){
        .refused = ~rule->flags | FI_INJECT | FI_MULTICAST,
        .peer = op->peer,
        .addr = region->addr,
        .length = region->length,
        .longest = most < region->length ? most : region->length,
        .desc = desc,
        .lkey = seg->lkey,
        .num_seg = 1,
    };
}

/* How many descriptors of memory a check keeps for the posts that follow it. */
enum { WEFT_FI_KEPT = 64 };

/*
 * Checks all; *index is the operation that fails. The descriptors of single segments are kept, of the first operations.
 */
static inline enum weft_fi_bad_op weft_fi_check_all(struct weft_fi_ep *ep, const struct weft_fi_rule *rule,
                                                    const struct weft_fi_op *ops, uint32_t n,
                                                    const struct weft_fi_seg *segs, uint32_t num_seg, void **kept,
                                                    uint32_t *index)
{
    const struct weft_fi_seg *end = segs + num_seg;
    struct weft_fi_found found = {.num_seg = UINT32_MAX};
    struct weft_fi_list list;
    for (uint32_t i = 0; i < n; segs += ops[i++].num_seg) {
        void *desc = found.desc;
        if (WEFT_RARELY(segs == end || !weft_fi_alike(&found, &ops[i], segs))) {
            enum weft_fi_bad_op bad = weft_fi_check(ep, rule, &ops[i], segs, (uint32_t)(end - segs), &list);
            if (bad != 0) {
                *index = i;
                return bad;
            }
            desc = list.desc[0];
            weft_fi_find(&found, ep, rule, &ops[i], segs, desc);
        }
        if (i < WEFT_FI_KEPT)
            kept[i] = desc;
    }
    if (segs == end || n == 0)
        return 0;
    *index = n - 1;
    return WEFT_FI_BAD_SEG_LIST;
}

/* Posts what was checked, until the provider takes no more. */
WEFT_INLINE int weft_fi_post_run(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *ops,
                                 uint32_t n, const struct weft_fi_seg *segs, void *const *kept, uint32_t *accepted)
{
    struct weft_fi_list list;
    uint32_t i = 0;
    int rc = 0;
    for (; i < n; segs += ops[i++].num_seg) {
        if (ops[i].num_seg == 1 && i < WEFT_FI_KEPT) {
            list.iov[0] = (struct iovec){(void *)(uintptr_t)segs->addr, segs->length};
            list.desc[0] = kept[i];
            list.count = 1;
            list.length = segs->length;
        } else {
            weft_fi_gather(ep->domain, segs, ops[i].num_seg, 1, &list);
        }
        rc = weft_fi_post_one(ep, kind, &ops[i], &list, i + 1 < n);
        if (WEFT_RARELY(rc != 0))
            break;
    }
    *accepted = i;
    return rc;
}

/* The loop once for each kind, so that it does not ask which for each operation. */
static int weft_fi_post_kind(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *ops, uint32_t n,
                             const struct weft_fi_seg *segs, void *const *kept, uint32_t *accepted)
{
    switch (kind) {
    case WEFT_FI_SEND:
        return weft_fi_post_run(ep, WEFT_FI_SEND, ops, n, segs, kept, accepted);
    case WEFT_FI_RECV:
        return weft_fi_post_run(ep, WEFT_FI_RECV, ops, n, segs, kept, accepted);
    case WEFT_FI_TSEND:
        return weft_fi_post_run(ep, WEFT_FI_TSEND, ops, n, segs, kept, accepted);
    case WEFT_FI_TRECV:
        return weft_fi_post_run(ep, WEFT_FI_TRECV, ops, n, segs, kept, accepted);
    case WEFT_FI_WRITE:
        return weft_fi_post_run(ep, WEFT_FI_WRITE, ops, n, segs, kept, accepted);
    default:
        return weft_fi_post_run(ep, WEFT_FI_READ, ops, n, segs, kept, accepted);
    }
}

/* All is checked before the first is posted. */
static __attribute__((noinline)) int weft_fi_post_many(struct weft_fi_ep *ep, enum weft_fi_kind kind,
                                                       const struct weft_fi_op *ops, uint32_t n,
                                                       const struct weft_fi_seg *segs, uint32_t num_seg,
                                                       uint32_t *accepted)
{
    void *kept[WEFT_FI_KEPT];
    int rc = -(int)weft_fi_check_all(ep, &weft_fi_rules[kind], ops, n, segs, num_seg, kept, accepted);
    return rc != 0 ? rc : weft_fi_post_kind(ep, kind, ops, n, segs, kept, accepted);
}

/*
 * The common operation: one segment in a region, one peer of the address vector, nothing taken at once. Returns 0 where
 * it is not, or is bad: weft_fi_check tells.
 */
WEFT_INLINE int weft_fi_common(const struct weft_fi_ep *ep, const struct weft_fi_rule *rule,
                               const struct weft_fi_op *op, const struct weft_fi_seg *seg, uint32_t num_seg,
                               struct weft_fi_list *list)
{
    if (num_seg != 1 || op->num_seg != 1 || (op->flags & (~rule->flags | FI_INJECT | FI_MULTICAST)) != 0 ||
        seg->length > ep->max_msg_size || ep->av == NULL || !weft_fi_known(ep->av, op->peer) ||
        weft_fi_local(ep->domain, seg, &list->desc[0]) != 0)
        return 0;
    list->iov[0] = (struct iovec){(void *)(uintptr_t)seg->addr, seg->length};
    list->count = 1;
    list->length = seg->length;
    return 1;
}

/* What weft_fi_post does. A single operation, where every step counts, is part of whoever calls this. */
WEFT_INLINE int weft_fi_do_post(struct weft_fi_ep *ep, enum weft_fi_kind kind, const struct weft_fi_op *ops, uint32_t n,
                                const struct weft_fi_seg *segs, uint32_t num_seg, uint32_t *accepted)
{
    struct weft_fi_list list;
    weft_fi_crossed(&ep->crossings);
    *accepted = 0;
    if (WEFT_RARELY((ep->kinds >> kind & 1) == 0))
        return -WEFT_FI_BAD_KIND;
    if (n != 1)
        return weft_fi_post_many(ep, kind, ops, n, segs, num_seg, accepted);
    if (WEFT_RARELY(!weft_fi_common(ep, &weft_fi_rules[kind], ops, segs, num_seg, &list))) {
        enum weft_fi_bad_op bad = weft_fi_check(ep, &weft_fi_rules[kind], ops, segs, num_seg, &list);
        if (bad != 0 || num_seg != ops->num_seg)
            return bad != 0 ? -(int)bad : -WEFT_FI_BAD_SEG_LIST;
    }
    int rc = weft_fi_post_one(ep, kind, ops, &list, 0);
    *accepted = rc == 0;
    return rc;
}

int weft_fi_post(weft_fi_number ep, uint32_t kind, const struct weft_fi_op *ops, uint32_t n,
                 const struct weft_fi_seg *segs, uint32_t num_seg, uint32_t *accepted)
{
    return weft_fi_do_post((struct weft_fi_ep *)ep, (enum weft_fi_kind)kind, ops, n, segs, num_seg, accepted);
}

int weft_fi_inject(weft_fi_number ep, uint32_t kind, const struct weft_fi_op *op, const void *data, uint64_t length)
{
    struct weft_fi_op one = *op;
    const struct weft_fi_seg seg = {.addr = (uint64_t)(uintptr_t)data, .length = length};
    uint32_t accepted;
    one.flags |= FI_INJECT;
    one.num_seg = length != 0;
    return weft_fi_do_post((struct weft_fi_ep *)ep, (enum weft_fi_kind)kind, &one, 1, &seg, one.num_seg, &accepted);
}

void weft_fi_post_poll(weft_fi_number number, uint32_t kind, const struct weft_fi_op *ops, uint32_t n,
                       const struct weft_fi_seg *segs, uint32_t num_seg, struct weft_fi_completion *out, uint32_t max,
                       uint32_t spin_ns, struct weft_fi_post_polled *done)
{
    struct weft_fi_ep *ep = (struct weft_fi_ep *)number;
    struct weft_fi_cq *cq = ep->cqs[weft_fi_rules[kind].side == WEFT_FI_TX ? WEFT_FI_SENDS : WEFT_FI_RECVS];
    done->completed = 0;
    done->accepted = 0;
    done->result = -WEFT_FI_BAD_QUEUE;
    if (cq == NULL)
        return;
    done->result = weft_fi_do_post(ep, (enum weft_fi_kind)kind, ops, n, segs, num_seg, &done->accepted);
    if (done->result < 0)
        return;
    if (done->accepted < n)
        spin_ns = 0; /* there may be room again before anything completes */
    struct weft_fi_spin spin = {spin_ns, &weft_fi_never, weft_fi_never};
    done->completed = weft_fi_poll(cq, out, max, spin);
}
