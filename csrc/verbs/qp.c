/* Queue pairs: how they are made and moved from state to state. */
static void weft_qp_join(struct weft_qp *qp)
{
    if (qp->cqs[WEFT_SENDS] != NULL)
        weft_cq_add(qp->cqs[WEFT_SENDS], qp);
    if (qp->cqs[WEFT_RECVS] != NULL && qp->cqs[WEFT_RECVS] != qp->cqs[WEFT_SENDS])
        weft_cq_add(qp->cqs[WEFT_RECVS], qp);
}

static void weft_qp_leave(struct weft_qp *qp)
{
    if (qp->cqs[WEFT_SENDS] != NULL)
        weft_cq_remove(qp->cqs[WEFT_SENDS], qp);
    if (qp->cqs[WEFT_RECVS] != NULL && qp->cqs[WEFT_RECVS] != qp->cqs[WEFT_SENDS])
        weft_cq_remove(qp->cqs[WEFT_RECVS], qp);
}

int weft_qp_create(struct ibv_pd *pd, struct weft_cq *send, struct weft_cq *recv, struct ibv_srq *srq,
                   struct weft_qp_limits *limits, struct weft_qp **out, uint32_t *qpn)
{
    struct ibv_qp_init_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.send_cq = send->cq;
    attr.recv_cq = recv->cq;
    attr.srq = srq;
    attr.qp_type = (enum ibv_qp_type)limits->type;
    attr.cap.max_send_wr = limits->max_send_wr;
    attr.cap.max_recv_wr = limits->max_recv_wr;
    attr.cap.max_send_sge = limits->max_send_sge;
    attr.cap.max_recv_sge = limits->max_recv_sge;
    attr.cap.max_inline_data = limits->max_inline;

    struct weft_qp *qp = calloc(1, sizeof(*qp));
    if (qp == NULL)
        return ENOMEM;
    errno = 0;
    qp->qp = limits->builders != 0 ? weft_qp_create_built(pd, limits->builders, &attr, &qp->builder)
                                   : WEFT_IBV(pd)->ibv_create_qp(pd, &attr);
    if (qp->qp == NULL) {
        int rc = weft_errno();
        free(qp);
        return rc;
    }
    limits->max_send_wr = attr.cap.max_send_wr;
    limits->max_recv_wr = attr.cap.max_recv_wr;
    limits->max_send_sge = attr.cap.max_send_sge;
    limits->max_recv_sge = attr.cap.max_recv_sge;
    limits->max_inline = attr.cap.max_inline_data;
    qp->limits = *limits;
    qp->cqs[WEFT_SENDS] = send;
    qp->cqs[WEFT_RECVS] = recv;
    weft_qp_join(qp);
    *qpn = qp->qp->qp_num;
    *out = qp;
    return 0;
}

/* Refuses posts for good; with the lock. */
static void weft_qp_shut(struct weft_qp *qp)
{
    qp->refuses_recvs = WEFT_BAD_CLOSED;
    __atomic_store_n(&qp->refuses, WEFT_BAD_CLOSED, __ATOMIC_RELEASE);
}

/*
 * Posts are not guarded by Go, for which they are too frequent: the lock that they take anyway does it. So a queue
 * pair's memory outlives it, until nothing refers to it any more.
 */
void weft_qp_release(struct weft_qp *qp)
{
    weft_qp_leave(qp);
    weft_lock(&qp->lock);
    weft_qp_shut(qp);
    weft_unlock(&qp->lock);
}

int weft_qp_destroy(struct weft_qp *qp)
{
    weft_qp_leave(qp); /* first: its number may be another's as soon as it is destroyed */
    weft_lock(&qp->lock);
    int rc = WEFT_CALL(WEFT_IBV(qp->qp)->ibv_destroy_qp(qp->qp));
    if (rc == 0)
        weft_qp_shut(qp);
    weft_unlock(&qp->lock);
    if (rc != 0)
        weft_qp_join(qp);
    return rc;
}

void weft_qp_free(struct weft_qp *qp)
{
    free(qp);
}

uint32_t weft_qp_num(struct weft_qp *qp)
{
    return qp->qp->qp_num;
}

uint64_t weft_qp_crossings(struct weft_qp *qp)
{
    return __atomic_load_n(&qp->crossings, __ATOMIC_RELAXED);
}

void *weft_qp_raw(struct weft_qp *qp)
{
    return qp->qp;
}

void weft_qp_set_max_message(struct weft_qp *qp, uint32_t bytes)
{
    weft_lock(&qp->lock);
    qp->limits.max_message = bytes;
    weft_unlock(&qp->lock);
}

int weft_qp_modify(struct weft_qp *qp, const struct weft_qp_attr *in)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.qp_state = (enum ibv_qp_state)in->state;
    attr.path_mtu = (enum ibv_mtu)in->path_mtu;
    attr.qkey = in->qkey;
    attr.rq_psn = in->rq_psn;
    attr.sq_psn = in->sq_psn;
    attr.dest_qp_num = in->remote_qpn;
    attr.qp_access_flags = in->access;
    attr.ah_attr = weft_ah_attr(&in->ah);
    attr.pkey_index = in->pkey_index;
    attr.max_rd_atomic = in->max_rd_atomic;
    attr.max_dest_rd_atomic = in->max_dest_rd_atomic;
    attr.min_rnr_timer = in->min_rnr_timer;
    attr.timeout = in->timeout;
    attr.retry_cnt = in->retry_count;
    attr.rnr_retry = in->rnr_retry;
    attr.port_num = in->port;
    attr.cur_qp_state = (enum ibv_qp_state)in->current_state;
    attr.en_sqd_async_notify = in->sqd_notify;
    attr.rate_limit = in->rate_limit;
    attr.path_mig_state = (enum ibv_mig_state)in->mig_state;
    attr.alt_ah_attr = weft_ah_attr(&in->alt_ah);
    attr.alt_pkey_index = in->alt_pkey_index;
    attr.alt_port_num = in->alt_port;
    attr.alt_timeout = in->alt_timeout;
    int moves = (in->mask & IBV_QP_STATE) != 0, ends = moves && in->state == IBV_QPS_ERR;
    uint32_t before = ends ? weft_qp_end(qp, 1) : 0; /* first: it may flush at once */
    int rc = WEFT_CALL(WEFT_IBV(qp->qp)->ibv_modify_qp(qp->qp, &attr, (int)in->mask));
    if (rc != 0 && ends)
        weft_qp_end(qp, before);
    int back = in->state == IBV_QPS_RTS && (in->mask & IBV_QP_CUR_STATE) != 0 && in->current_state == IBV_QPS_SQE;
    if (rc == 0 && moves && (in->state == IBV_QPS_RESET || back))
        weft_qp_renew(qp);
    return rc;
}

int weft_qp_query(struct weft_qp *qp, uint32_t mask, struct weft_qp_attr *out)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    memset(&attr, 0, sizeof(attr));
    memset(&init, 0, sizeof(init));
    int rc = WEFT_CALL(WEFT_IBV(qp->qp)->ibv_query_qp(qp->qp, &attr, (int)mask, &init));
    *out = (struct weft_qp_attr){
        .mask = mask,
        .state = attr.qp_state,
        .path_mtu = attr.path_mtu,
        .qkey = attr.qkey,
        .rq_psn = attr.rq_psn,
        .sq_psn = attr.sq_psn,
        .remote_qpn = attr.dest_qp_num,
        .access = attr.qp_access_flags,
        .current_state = attr.cur_qp_state,
        .rate_limit = attr.rate_limit,
        .ah = weft_ah_attr_out(&attr.ah_attr),
        .pkey_index = attr.pkey_index,
        .max_rd_atomic = attr.max_rd_atomic,
        .max_dest_rd_atomic = attr.max_dest_rd_atomic,
        .min_rnr_timer = attr.min_rnr_timer,
        .timeout = attr.timeout,
        .retry_count = attr.retry_cnt,
        .rnr_retry = attr.rnr_retry,
        .port = attr.port_num,
        .sqd_notify = attr.en_sqd_async_notify,
        .sq_draining = attr.sq_draining,
        .mig_state = attr.path_mig_state,
        .alt_ah = weft_ah_attr_out(&attr.alt_ah_attr),
        .alt_pkey_index = attr.alt_pkey_index,
        .alt_port = attr.alt_port_num,
        .alt_timeout = attr.alt_timeout,
    };
    return rc;
}

int weft_qp_rate_limit(struct weft_qp *qp, uint32_t kbps, uint32_t burst, uint16_t packet)
{
    struct verbs_context *extended = WEFT_EXTENDED(qp->qp->context, modify_qp_rate_limit);
    if (extended == NULL)
        return EOPNOTSUPP;
    struct ibv_qp_rate_limit_attr attr = {.rate_limit = kbps, .max_burst_sz = burst, .typical_pkt_sz = packet};
    return WEFT_CALL(extended->modify_qp_rate_limit(qp->qp, &attr));
}

int weft_qp_in_order(struct weft_qp *qp, uint32_t opcode)
{
    if (WEFT_IBV(qp->qp)->ibv_query_qp_data_in_order == NULL)
        return 0;
    return WEFT_IBV(qp->qp)->ibv_query_qp_data_in_order(qp->qp, (enum ibv_wr_opcode)opcode, 0);
}

int weft_qp_multicast(struct weft_qp *qp, const uint8_t *gid, uint16_t lid, int attach)
{
    union ibv_gid group;
    memcpy(group.raw, gid, sizeof(group.raw));
    const struct weft_ibv_table *ibv = WEFT_IBV(qp->qp);
    return WEFT_CALL((attach ? ibv->ibv_attach_mcast : ibv->ibv_detach_mcast)(qp->qp, &group, lid));
}
