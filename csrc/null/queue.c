/* The null provider's queues. A send completes when it is posted, unless it is held. */

struct null_cqe {
    struct ibv_wc wc;
    uint64_t ticks, wall_ns; /* in a queue with timestamps */
    struct null_qp *qp;
    uint32_t done; /* sends that this one gives back */
};

struct null_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex; /* where wc_flags is not 0 */
    };
    uint64_t wc_flags;
    const struct ibv_pd *domain;
    struct ibv_moderate_cq moderate;
    const struct null_cqe *read;      /* between start_poll and end_poll */
    uint32_t armed, head, tail, mask; /* armed: 1 for any completion, 2 for solicited ones */
    struct null_cqe *entries;
};

struct null_send {
    uint64_t id;
    uint32_t flags;
    enum ibv_wc_opcode opcode;
};

struct null_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex ex; /* with builders */
    };
    struct null_built *built; /* by builders since wr_start; NULL where it has none */
    struct ibv_qp_attr attr;
    struct ibv_qp_cap cap;
    struct null_qp *next;
    uint32_t given_back, reported, completed,
        posted; /* sends; reported: by a completion that gives their places back */
    uint32_t send_mask, recv_mask;
    struct null_send *sends;
    uint32_t head, tail; /* receives */
    uint64_t *recvs;
    struct ibv_qp_rate_limit_attr rate;
    uint32_t groups; /* multicast groups that it is in */
};

/* One less than the power of two that holds n, so that an index into a ring costs no division. */
static uint32_t null_mask(uint32_t n)
{
    uint32_t mask = 1;
    while (mask < n)
        mask = mask << 1 | 1;
    return mask;
}

static struct null_cq *null_cq(struct ibv_cq *cq)
{
    return (struct null_cq *)(void *)cq;
}

static struct null_qp *null_qp(struct ibv_qp *qp)
{
    return (struct null_qp *)(void *)qp;
}

static struct ibv_comp_channel *null_create_comp_channel(struct ibv_context *context)
{
    int fds[2];
    NULL_POINTER(context, ibv_create_comp_channel);
    struct ibv_comp_channel *channel = null_make(context, sizeof(*channel));
    if (channel == NULL || pipe(fds) != 0)
        return NULL;
    /* A duplicate of the kernel's descriptor is not told of the end of the channel. So this one writes, too. */
    char name[32];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fds[0]);
    int both = open(name, O_RDWR);
    if (both < 0)
        abort();
    close(fds[0]);
    fds[0] = both;
    *channel = (struct ibv_comp_channel){.context = context, .fd = fds[0], .refcnt = fds[1]};
    return channel;
}

static int null_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    NULL_RESULT(channel->context, ibv_destroy_comp_channel);
    close(channel->fd);
    close(channel->refcnt);
    return null_free(channel->context, channel);
}

static struct ibv_cq *null_make_cq(struct ibv_context *context, int depth, void *cq_context,
                                   struct ibv_comp_channel *channel)
{
    struct null_cq *cq = null_make(context, sizeof(*cq));
    if (cq == NULL)
        return NULL;
    cq->cq = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = depth};
    cq->mask = null_mask((uint32_t)depth);
    cq->entries = calloc(cq->mask + 1, sizeof(*cq->entries));
    return &cq->cq;
}

static struct ibv_cq *null_create_cq(struct ibv_context *context, int depth, void *cq_context,
                                     struct ibv_comp_channel *channel, int vector)
{
    (void)vector;
    NULL_POINTER(context, ibv_create_cq);
    return null_make_cq(context, depth, cq_context, channel);
}

static int null_resize_cq(struct ibv_cq *c, int depth)
{
    struct null_cq *cq = null_cq(c);
    NULL_RESULT(c->context, ibv_resize_cq);
    if ((uint32_t)depth < cq->tail - cq->head)
        return EINVAL;
    uint32_t mask = null_mask((uint32_t)depth);
    struct null_cqe *entries = calloc(mask + 1, sizeof(*entries));
    null_lock(null_of(c->context));
    uint32_t there = cq->tail - cq->head;
    for (uint32_t i = 0; i < there; i++)
        entries[i] = cq->entries[(cq->head + i) & cq->mask];
    free(cq->entries);
    cq->entries = entries;
    cq->mask = mask;
    cq->head = 0;
    cq->tail = there;
    c->cqe = depth;
    null_unlock(null_of(c->context));
    return 0;
}

static int null_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    NULL_RESULT(cq->context, modify_cq);
    null_cq(cq)->moderate = attr->moderate;
    return attr->attr_mask == IBV_CQ_ATTR_MODERATE ? 0 : EINVAL;
}

static int null_destroy_cq(struct ibv_cq *cq)
{
    NULL_RESULT(cq->context, ibv_destroy_cq);
    for (struct null_qp *qp = null_of(cq->context)->qps; qp != NULL; qp = qp->next)
        if (qp->qp.send_cq == cq || qp->qp.recv_cq == cq)
            return EBUSY;
    free(null_cq(cq)->entries);
    return null_free(cq->context, cq);
}

static int null_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    NULL_RESULT(cq->context, req_notify_cq);
    null_cq(cq)->armed = solicited_only ? 2 : 1;
    return 0;
}

static int null_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    NULL_RESULT(channel->context, ibv_get_cq_event);
    if (read(channel->fd, cq, sizeof(*cq)) != sizeof(*cq))
        return -1;
    *cq_context = (*cq)->cq_context;
    return 0;
}

static void null_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    null_of(cq->context)->calls[CALL_ibv_ack_cq_events] += n;
}

static void null_report(struct weft_null *n, enum ibv_event_type type, int port, void *object)
{
    struct ibv_async_event event = {.event_type = type};
    if (object != NULL)
        event.element.cq = object;
    else
        event.element.port_num = port;
    if (write(n->event_write, &event, sizeof(event)) != sizeof(event))
        abort(); /* a pipe that is full of events that nobody reads */
}

/* A completion that does not fit is lost, and the queue with it. */
static void null_push(struct null_cq *cq, struct null_cqe entry, int solicited)
{
    struct ibv_cq *c = &cq->cq;
    if (cq->tail - cq->head == (uint32_t)c->cqe) {
        null_report(null_of(c->context), IBV_EVENT_CQ_ERR, 0, c);
        return;
    }
    if (cq->wc_flags != 0) {
        entry.ticks = null_of(c->context)->ticks;
        entry.wall_ns = null_of(c->context)->wall_ns;
    }
    cq->entries[cq->tail++ & cq->mask] = entry;
    if (cq->armed == 0 || (cq->armed == 2 && !solicited && entry.wc.status == IBV_WC_SUCCESS))
        return;
    cq->armed = 0;
    if (c->channel != NULL && write(c->channel->refcnt, &c, sizeof(c)) != sizeof(c))
        abort();
}

static int null_poll_cq(struct ibv_cq *c, int max, struct ibv_wc *wcs)
{
    struct null_cq *cq = null_cq(c);
    struct weft_null *n = null_of(c->context);
    int got = 0;
    NULL_RESULT(c->context, poll_cq);
    null_lock(n);
    for (; got < max && cq->head != cq->tail; got++) {
        struct null_cqe *entry = &cq->entries[cq->head++ & cq->mask];
        wcs[got] = entry->wc;
        if (entry->qp != NULL)
            entry->qp->given_back += entry->done;
    }
    null_unlock(n);
    return got;
}

/* Completes the oldest send that has not completed. */
static inline void null_complete(struct null_qp *qp, const struct null_send *send, enum ibv_wc_status status,
                                 uint32_t vendor)
{
    qp->completed++;
    if (status == IBV_WC_SUCCESS && (send->flags & IBV_SEND_SIGNALED) == 0)
        return;
    struct null_cqe entry = {.qp = qp, .done = qp->completed - qp->reported};
    qp->reported = qp->completed;
    entry.wc = (struct ibv_wc){.wr_id = send->id, .status = status, .vendor_err = vendor, .qp_num = qp->qp.qp_num};
    if (status == IBV_WC_SUCCESS)
        entry.wc.opcode = send->opcode;
    null_push(null_cq(qp->qp.send_cq), entry, 0);
}

static void null_flush_sends(struct null_qp *qp)
{
    while (qp->completed != qp->posted)
        null_complete(qp, &qp->sends[qp->completed & qp->send_mask], IBV_WC_WR_FLUSH_ERR, 0);
}

static void null_flush(struct null_qp *qp)
{
    null_flush_sends(qp);
    for (; qp->head != qp->tail; qp->head++) {
        struct null_cqe entry = {.wc = {.wr_id = qp->recvs[qp->head & qp->recv_mask],
                                        .status = IBV_WC_WR_FLUSH_ERR,
                                        .qp_num = qp->qp.qp_num}};
        null_push(null_cq(qp->qp.recv_cq), entry, 0);
    }
}

/*
 * Carries out what is posted. After a send that fails nothing more happens on a connection until it is moved to the
 * error state, as on rxe; of datagrams, sends are flushed until the queue pair is brought back.
 */
static void null_progress(struct null_qp *qp)
{
    struct weft_null *n = null_of(qp->qp.context);
    if (qp->attr.qp_state == IBV_QPS_ERR)
        null_flush(qp);
    while (qp->completed != qp->posted && !n->hold && qp->attr.qp_state == IBV_QPS_RTS) {
        const struct null_send *send = &qp->sends[qp->completed & qp->send_mask];
        if (!n->send.armed || n->send.after-- != 0) {
            null_complete(qp, send, IBV_WC_SUCCESS, 0);
            continue;
        }
        n->send.armed = 0;
        qp->attr.qp_state = IBV_QPS_SQE;
        null_complete(qp, send, (enum ibv_wc_status)n->send.status, n->send.vendor_err);
    }
    if (qp->attr.qp_state == IBV_QPS_SQE && qp->qp.qp_type == IBV_QPT_UD)
        null_flush_sends(qp);
}

static const enum ibv_wc_opcode null_completes_as[] = {
    [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
    [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
    [IBV_WR_SEND] = IBV_WC_SEND,
    [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
    [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
    [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
    [IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
    [IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
    [IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
};

static void null_take_inline(struct weft_null *n, const struct ibv_send_wr *wr)
{
    n->num_inlined = 0;
    for (int i = 0; i < wr->num_sge; i++)
        if (n->num_inlined + wr->sg_list[i].length <= sizeof(n->inlined)) {
            memcpy(n->inlined + n->num_inlined, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
            n->num_inlined += wr->sg_list[i].length;
        }
}

static int null_post_one(struct null_qp *qp, const struct ibv_send_wr *wr)
{
    NULL_RESULT(qp->qp.context, post_send);
    if ((wr->send_flags & IBV_SEND_INLINE) != 0)
        null_take_inline(null_of(qp->qp.context), wr);
    if (qp->attr.qp_state < IBV_QPS_RTS)
        return EINVAL;
    if (qp->posted - qp->given_back >= qp->cap.max_send_wr)
        return ENOMEM;
    qp->sends[qp->posted++ & qp->send_mask] =
        (struct null_send){wr->wr_id, wr->send_flags, null_completes_as[wr->opcode]};
    return 0;
}

static uint32_t null_room(const struct null_qp *qp)
{
    return qp->cap.max_send_wr - (qp->posted - qp->given_back);
}

static void null_count(struct null_qp *qp, uint32_t taken)
{
    qp->posted += taken;
    qp->completed += taken;
    null_of(qp->qp.context)->calls[CALL_post_send] += taken;
}

static __attribute__((noinline)) void null_post_signalled(struct null_qp *qp, const struct ibv_send_wr *wr,
                                                          uint32_t taken)
{
    struct null_send send = {wr->wr_id, wr->send_flags, null_completes_as[wr->opcode]};
    null_lock(null_of(qp->qp.context));
    null_count(qp, taken);
    qp->completed--; /* null_complete adds this one */
    null_complete(qp, &send, IBV_WC_SUCCESS, 0);
    null_unlock(null_of(qp->qp.context));
}

/* Nothing is asked of the sends, nothing is in the queue, and nothing goes wrong: what the cost of a post is measured
 * with. */
static struct ibv_send_wr *null_post_at_once(struct null_qp *qp, struct ibv_send_wr *wr)
{
    uint32_t room = null_room(qp);
    uint32_t taken = 0;
    for (; wr != NULL && taken < room; wr = wr->next) {
        taken++;
        if ((wr->send_flags & IBV_SEND_SIGNALED) == 0)
            continue;
        null_post_signalled(qp, wr, taken);
        room -= taken;
        taken = 0;
    }
    null_count(qp, taken);
    return wr;
}

static __attribute__((noinline)) int null_post_queued(struct null_qp *qp, struct ibv_send_wr *wr,
                                                      struct ibv_send_wr **bad)
{
    struct weft_null *n = null_of(qp->qp.context);
    int rc = 0;
    null_lock(n);
    for (; wr != NULL && rc == 0; wr = rc == 0 ? wr->next : wr)
        rc = null_post_one(qp, wr);
    if (rc != 0)
        *bad = wr;
    null_progress(qp);
    null_unlock(n);
    return rc;
}

static __attribute__((noinline)) int null_post_list(struct null_qp *qp, struct ibv_send_wr *wr,
                                                    struct ibv_send_wr **bad)
{
    *bad = null_post_at_once(qp, wr);
    return *bad != NULL ? ENOMEM : 0;
}

static int null_post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct null_qp *qp = null_qp(q);
    struct weft_null *n = null_of(q->context);
    if (n->hold || n->send.armed || n->faults[CALL_post_send].armed || qp->completed != qp->posted ||
        qp->attr.qp_state != IBV_QPS_RTS || (wr != NULL && (wr->send_flags & IBV_SEND_INLINE) != 0))
        return null_post_queued(qp, wr, bad);
    if (wr != NULL && wr->next == NULL && (wr->send_flags & IBV_SEND_SIGNALED) == 0 && null_room(qp) > 0) {
        null_count(qp, 1); /* what benchmarks post one by one; all else needs registers that are saved first */
        return 0;
    }
    return null_post_list(qp, wr, bad);
}

static int null_bind_mw(struct ibv_qp *q, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct ibv_send_wr *bad, wr = {.wr_id = bind->wr_id, .send_flags = bind->send_flags, .opcode = IBV_WR_BIND_MW};
    NULL_RESULT(q->context, bind_mw);
    mw->rkey = ibv_inc_rkey(mw->rkey);
    return null_post_send(q, &wr, &bad);
}

static int null_post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct null_qp *qp = null_qp(q);
    int rc = 0;
    null_lock(null_of(q->context));
    for (; wr != NULL && rc == 0; wr = rc == 0 ? wr->next : wr) {
        if (null_refuses(null_of(q->context), CALL_post_recv))
            rc = null_of(q->context)->faults[CALL_post_recv].rc;
        else if (qp->tail - qp->head == qp->cap.max_recv_wr)
            rc = ENOMEM;
        else
            qp->recvs[qp->tail++ & qp->recv_mask] = wr->wr_id;
    }
    if (rc != 0)
        *bad = wr;
    null_progress(qp);
    null_unlock(null_of(q->context));
    return rc;
}
