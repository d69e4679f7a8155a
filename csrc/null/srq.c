/* The null provider's shared receive queues. */
struct null_srq {
    struct ibv_srq srq;
    struct ibv_srq_attr attr;
    uint32_t head, tail;
    uint64_t *ids;
};

static int null_post_srq_recv(struct ibv_srq *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct null_srq *srq = (struct null_srq *)(void *)s;
    int rc = 0;
    for (; wr != NULL && rc == 0; wr = rc == 0 ? wr->next : wr) {
        if (null_refuses(null_of(s->context), CALL_post_srq_recv))
            rc = null_of(s->context)->faults[CALL_post_srq_recv].rc;
        else if (srq->tail - srq->head == srq->attr.max_wr)
            rc = ENOMEM;
        else
            srq->ids[srq->tail++ % srq->attr.max_wr] = wr->wr_id;
    }
    if (rc != 0)
        *bad = wr;
    return rc;
}

static struct ibv_srq *null_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    NULL_POINTER(pd->context, ibv_create_srq);
    struct null_srq *srq = null_make(pd->context, sizeof(*srq));
    if (srq == NULL)
        return NULL;
    srq->srq = (struct ibv_srq){.context = pd->context, .pd = pd};
    init->attr.max_wr = null_mask(init->attr.max_wr) + 1; /* as rxe does */
    srq->attr = init->attr;
    srq->ids = calloc(init->attr.max_wr, sizeof(*srq->ids));
    return &srq->srq;
}

static int null_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    NULL_RESULT(srq->context, ibv_modify_srq);
    struct null_srq *n = (struct null_srq *)(void *)srq;
    if ((mask & IBV_SRQ_LIMIT) != 0)
        n->attr.srq_limit = attr->srq_limit;
    if ((mask & IBV_SRQ_MAX_WR) == 0)
        return 0;
    if (n->head != n->tail)
        return EBUSY;
    free(n->ids);
    n->ids = calloc(attr->max_wr, sizeof(*n->ids));
    n->attr.max_wr = attr->max_wr;
    n->head = n->tail = 0;
    return 0;
}

static int null_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    NULL_RESULT(srq->context, ibv_query_srq);
    *attr = ((struct null_srq *)(void *)srq)->attr;
    return 0;
}

static int null_destroy_srq(struct ibv_srq *srq)
{
    NULL_RESULT(srq->context, ibv_destroy_srq);
    free(((struct null_srq *)(void *)srq)->ids);
    return null_free(srq->context, srq);
}
