/* The null provider's queue pairs: how they are made and changed. */
static struct ibv_qp *null_make_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct weft_null *n = null_of(pd->context);
    const struct ibv_device_attr *limits = &n->attr.orig_attr;
    if (init->cap.max_send_wr > (uint32_t)limits->max_qp_wr || init->cap.max_recv_wr > (uint32_t)limits->max_qp_wr ||
        init->cap.max_inline_data > n->max_inline)
        return null_fail(EINVAL);
    struct null_qp *qp = null_make(pd->context, sizeof(*qp));
    if (qp == NULL)
        return NULL;
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = init->send_cq,
                             .recv_cq = init->recv_cq,
                             .srq = init->srq,
                             .qp_num = ++n->qpn,
                             .qp_type = init->qp_type};
    qp->cap = init->cap;
    qp->send_mask = null_mask(init->cap.max_send_wr);
    qp->recv_mask = null_mask(init->cap.max_recv_wr);
    qp->sends = calloc(qp->send_mask + 1, sizeof(*qp->sends));
    qp->recvs = calloc(qp->recv_mask + 1, sizeof(*qp->recvs));
    qp->next = n->qps;
    n->qps = qp;
    return &qp->qp;
}

static struct ibv_qp *null_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    NULL_POINTER(pd->context, ibv_create_qp);
    return null_make_qp(pd, init);
}

#define NULL_CHANGE(bit, field)                                                                                        \
    if ((mask & (bit)) != 0)                                                                                           \
    to->field = from->field

static void null_change(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
    NULL_CHANGE(IBV_QP_STATE, qp_state);
    NULL_CHANGE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
    NULL_CHANGE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
    NULL_CHANGE(IBV_QP_PKEY_INDEX, pkey_index);
    NULL_CHANGE(IBV_QP_PORT, port_num);
    NULL_CHANGE(IBV_QP_QKEY, qkey);
    NULL_CHANGE(IBV_QP_DEST_QPN, dest_qp_num);
    NULL_CHANGE(IBV_QP_RQ_PSN, rq_psn);
    NULL_CHANGE(IBV_QP_SQ_PSN, sq_psn);
    NULL_CHANGE(IBV_QP_PATH_MIG_STATE, path_mig_state);
    NULL_CHANGE(IBV_QP_ALT_PATH, alt_ah_attr);
    NULL_CHANGE(IBV_QP_ALT_PATH, alt_pkey_index);
    NULL_CHANGE(IBV_QP_ALT_PATH, alt_port_num);
    NULL_CHANGE(IBV_QP_ALT_PATH, alt_timeout);
    NULL_CHANGE(IBV_QP_AV, ah_attr);
    NULL_CHANGE(IBV_QP_PATH_MTU, path_mtu);
    NULL_CHANGE(IBV_QP_TIMEOUT, timeout);
    NULL_CHANGE(IBV_QP_RETRY_CNT, retry_cnt);
    NULL_CHANGE(IBV_QP_RNR_RETRY, rnr_retry);
    NULL_CHANGE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    NULL_CHANGE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    NULL_CHANGE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
}

static int null_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
    struct null_qp *qp = null_qp(q);
    NULL_RESULT(q->context, ibv_modify_qp);
    null_lock(null_of(q->context));
    null_change(&qp->attr, attr, mask);
    if (qp->attr.qp_state == IBV_QPS_RESET) {
        qp->given_back = qp->reported = qp->completed = qp->posted;
        qp->head = qp->tail;
    }
    null_progress(qp);
    null_unlock(null_of(q->context));
    return 0;
}

static int null_query_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    (void)mask;
    NULL_RESULT(q->context, ibv_query_qp);
    *attr = null_qp(q)->attr;
    init->cap = null_qp(q)->cap;
    return 0;
}

static int null_destroy_qp(struct ibv_qp *q)
{
    struct weft_null *n = null_of(q->context);
    NULL_RESULT(q->context, ibv_destroy_qp);
    null_lock(n);
    struct null_qp **at = &n->qps;
    while (&(*at)->qp != q)
        at = &(*at)->next;
    *at = (*at)->next;
    struct null_cq *cq = null_cq(q->send_cq); /* its completions are still there, and give nothing back */
    for (uint32_t i = cq->head; i != cq->tail; i++)
        if (cq->entries[i & cq->mask].qp == null_qp(q))
            cq->entries[i & cq->mask].qp = NULL;
    null_unlock(n);
    free(null_qp(q)->sends);
    free(null_qp(q)->recvs);
    free(null_qp(q)->built);
    return null_free(q->context, q);
}

static int null_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)gid;
    (void)lid;
    NULL_RESULT(qp->context, ibv_attach_mcast);
    null_qp(qp)->groups++;
    return 0;
}

static int null_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)gid;
    (void)lid;
    NULL_RESULT(qp->context, ibv_detach_mcast);
    return null_qp(qp)->groups-- != 0 ? 0 : EINVAL;
}

static int null_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
    NULL_RESULT(qp->context, rate_limit);
    null_qp(qp)->rate = *attr;
    return 0;
}

static int null_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
    (void)flags;
    NULL_RESULT(qp->context, ibv_query_qp_data_in_order);
    return opcode == IBV_WR_RDMA_WRITE;
}
