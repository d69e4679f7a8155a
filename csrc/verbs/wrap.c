/*
 * Objects that were made by other means, such as mlx5dv or efadv, on a context that is known here. They are released
 * instead of destroyed. EXDEV is one of another context, EPERM one of another protection domain.
 */
static int weft_not_of(const struct ibv_pd *pd, const struct ibv_context *context, const struct ibv_pd *own)
{
    if (context != pd->context)
        return EXDEV;
    /* A parent domain and an imported one have their own structs for the kernel's domain; drivers may name none. */
    return own == NULL || own == pd || own->handle == pd->handle ? 0 : EPERM;
}

int weft_cq_import(struct ibv_context *context, struct ibv_cq *imported, int extended, uint32_t *depth,
                   uint32_t *timestamps, struct weft_cq **out)
{
    if (imported->context != context)
        return EXDEV;
    if (extended && ((struct ibv_cq_ex *)(void *)imported)->read_qp_num == NULL)
        return EINVAL; /* whose completions these are, could not be told */
    struct weft_cq *cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return ENOMEM;
    cq->cq = imported;
    if (extended) {
        cq->extended = (struct ibv_cq_ex *)(void *)imported;
        *timestamps = (cq->extended->read_completion_ts != NULL ? WEFT_TIME_TICKS : 0) |
                      (cq->extended->read_completion_wallclock_ns != NULL ? WEFT_TIME_WALL : 0);
    }
    *depth = (uint32_t)imported->cqe;
    *out = cq;
    return 0;
}

void weft_cq_release(struct weft_cq *cq)
{
    free(cq);
}

int weft_qp_import(struct ibv_pd *pd, struct ibv_qp *imported, struct weft_cq *send, struct weft_cq *recv,
                   struct weft_qp_limits *limits, struct weft_qp **out, uint32_t *state)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    memset(&attr, 0, sizeof(attr));
    memset(&init, 0, sizeof(init));
    int rc = weft_not_of(pd, imported->context, imported->pd);
    if (rc != 0)
        return rc;
    struct ibv_qp_ex *builder = NULL;
    uint32_t type = imported->qp_type;
    if (type == IBV_QPT_DRIVER) {
        /* A driver's own transport, which is SRD if its requests are built with the address of datagrams. */
        if (WEFT_IBV(imported)->ibv_qp_to_qp_ex != NULL)
            builder = WEFT_IBV(imported)->ibv_qp_to_qp_ex(imported);
        type = builder != NULL && builder->wr_set_ud_addr != NULL && builder->wr_send != NULL ? WEFT_QPT_SRD : 0;
    }
    if (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_UD && type != WEFT_QPT_SRD)
        return EOPNOTSUPP;
    rc = WEFT_CALL(WEFT_IBV(imported)->ibv_query_qp(imported, &attr, IBV_QP_STATE | IBV_QP_CAP, &init));
    if (rc != 0)
        return rc;
    struct weft_qp *qp = calloc(1, sizeof(*qp));
    if (qp == NULL)
        return ENOMEM;
    qp->qp = imported;
    qp->builder = builder;
    *limits = (struct weft_qp_limits){
        .type = type,
        .builders = builder != NULL,
        .max_send_wr = init.cap.max_send_wr,
        .max_recv_wr = init.cap.max_recv_wr,
        .max_send_sge = init.cap.max_send_sge,
        .max_recv_sge = init.cap.max_recv_sge,
        .max_inline = init.cap.max_inline_data,
    };
    qp->limits = *limits;
    qp->ending = attr.qp_state == IBV_QPS_ERR;
    qp->cqs[WEFT_SENDS] = send;
    qp->cqs[WEFT_RECVS] = recv;
    weft_qp_join(qp);
    *state = attr.qp_state;
    *out = qp;
    return 0;
}

void weft_qp_queues(struct ibv_qp *qp, uint64_t *send, uint64_t *recv, uint64_t *srq)
{
    *srq = (uint64_t)(uintptr_t)qp->srq;
    *send = (uint64_t)(uintptr_t)qp->send_cq;
    *recv = (uint64_t)(uintptr_t)qp->recv_cq;
}

int weft_srq_import(struct ibv_pd *pd, struct ibv_srq *imported, struct weft_srq_attr *attr, struct weft_srq **out)
{
    int rc = weft_not_of(pd, imported->context, imported->pd);
    if (rc != 0)
        return rc;
    struct weft_srq *srq = calloc(1, sizeof(*srq));
    if (srq == NULL)
        return ENOMEM;
    srq->srq = imported;
    rc = weft_srq_query(srq, attr);
    if (rc != 0) {
        free(srq);
        return rc;
    }
    srq->max_sge = attr->max_sge;
    *out = srq;
    return 0;
}

void weft_srq_release(struct weft_srq *srq)
{
    free(srq);
}

int weft_mr_import_raw(struct ibv_pd *pd, struct ibv_mr *mr, uint64_t *addr, uint64_t *length, uint32_t *lkey,
                       uint32_t *rkey)
{
    int rc = weft_not_of(pd, mr->context, mr->pd);
    if (rc != 0)
        return rc;
    *addr = (uint64_t)(uintptr_t)mr->addr;
    *length = mr->length;
    *lkey = mr->lkey;
    *rkey = mr->rkey;
    return 0;
}
