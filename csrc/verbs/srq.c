/* Shared receive queues. */
struct weft_srq {
    struct ibv_srq *srq;
    uint32_t max_sge;
};

int weft_srq_create(struct ibv_pd *pd, struct weft_srq_attr *attr, struct weft_srq **out)
{
    struct ibv_srq_init_attr init = {.attr = {attr->max_wr, attr->max_sge, attr->limit}};
    struct weft_srq *srq = calloc(1, sizeof(*srq));
    if (srq == NULL)
        return ENOMEM;
    errno = 0;
    srq->srq = WEFT_IBV(pd)->ibv_create_srq(pd, &init);
    if (srq->srq == NULL) {
        int rc = weft_errno();
        free(srq);
        return rc;
    }
    /* The library writes what was granted over what was wanted. */
    *attr = (struct weft_srq_attr){init.attr.max_wr, init.attr.max_sge, attr->limit};
    srq->max_sge = attr->max_sge;
    *out = srq;
    return 0;
}

int weft_srq_destroy(struct weft_srq *srq)
{
    int rc = WEFT_CALL(WEFT_IBV(srq->srq)->ibv_destroy_srq(srq->srq));
    if (rc == 0)
        free(srq);
    return rc;
}

void *weft_srq_raw(struct weft_srq *srq)
{
    return srq->srq;
}

int weft_srq_modify(struct weft_srq *srq, const struct weft_srq_attr *in, uint32_t mask)
{
    struct ibv_srq_attr attr = {in->max_wr, in->max_sge, in->limit};
    return WEFT_CALL(WEFT_IBV(srq->srq)->ibv_modify_srq(srq->srq, &attr, (int)mask));
}

int weft_srq_query(struct weft_srq *srq, struct weft_srq_attr *out)
{
    struct ibv_srq_attr attr = {0};
    int rc = WEFT_CALL(WEFT_IBV(srq->srq)->ibv_query_srq(srq->srq, &attr));
    *out = (struct weft_srq_attr){attr.max_wr, attr.max_sge, attr.srq_limit};
    return rc;
}

void weft_srq_post_recv(weft_handle handle, const struct weft_recv_wr *wrs, const struct weft_sge *sges,
                        struct weft_post *post)
{
    struct weft_srq *srq = (struct weft_srq *)handle;
    post->result = -weft_check_recvs(wrs, post->n, post->num_sge, srq->max_sge, &post->accepted);
    if (post->result == 0)
        post->result = weft_post_recvs(NULL, srq->srq, wrs, post->n, sges, &post->accepted);
}
