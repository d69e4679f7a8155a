/*
 * The null provider's builders of work requests. What is built is a chain for the queue pair's ordinary post, which
 * takes all of it or nothing, and stays to be looked at until the next wr_start.
 */
enum { NULL_BUILT = 64, NULL_BUILT_SGES = 4 };

struct null_built {
    uint32_t n;
    struct weft_send_wr wrs[NULL_BUILT]; /* as they came in */
    struct weft_sge sges[NULL_BUILT][NULL_BUILT_SGES];
    uint32_t inlined[NULL_BUILT]; /* bytes */
    struct ibv_send_wr chain[NULL_BUILT];
};

static struct null_qp *null_qp_of(struct ibv_qp_ex *ex)
{
    return null_qp(&ex->qp_base);
}

static void null_wr_start(struct ibv_qp_ex *ex)
{
    null_of(ex->qp_base.context)->calls[CALL_wr_start]++;
    null_qp_of(ex)->built->n = 0;
}

static struct weft_send_wr *null_wr_next(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct null_built *b = null_qp_of(ex)->built;
    if (b->n == NULL_BUILT)
        abort(); /* a test that posts more at a time */
    struct weft_send_wr *wr = &b->wrs[b->n];
    b->inlined[b->n] = 0;
    memset(b->sges[b->n], 0, sizeof(b->sges[b->n]));
    b->n++;
    *wr = (struct weft_send_wr){.id = ex->wr_id, .opcode = opcode, .flags = ex->wr_flags};
    return wr;
}

static struct weft_send_wr *null_wr_last(struct ibv_qp_ex *ex)
{
    struct null_built *b = null_qp_of(ex)->built;
    return &b->wrs[b->n - 1];
}

static struct weft_send_wr *null_wr_far(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr)
{
    struct weft_send_wr *wr = null_wr_next(ex, opcode);
    wr->rkey = rkey;
    wr->remote_addr = addr;
    return wr;
}

static void null_wr_send(struct ibv_qp_ex *ex)
{
    null_wr_next(ex, IBV_WR_SEND);
}

static void null_wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    null_wr_next(ex, IBV_WR_SEND_WITH_IMM)->imm = be32toh(imm);
}

static void null_wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    null_wr_next(ex, IBV_WR_SEND_WITH_INV)->rkey = rkey;
}

static void null_wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    null_wr_next(ex, IBV_WR_LOCAL_INV)->rkey = rkey;
}

static void null_wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    null_wr_far(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void null_wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
    null_wr_far(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm = be32toh(imm);
}

static void null_wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    null_wr_far(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void null_wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
    struct weft_send_wr *wr = null_wr_far(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr);
    wr->compare_add = compare;
    wr->swap = swap;
}

static void null_wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
    null_wr_far(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr)->compare_add = add;
}

static void null_wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    (void)mw;
    null_wr_far(ex, IBV_WR_BIND_MW, rkey, info->addr);
}

static void null_wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct weft_send_wr *wr = null_wr_last(ex);
    wr->ah = (uint64_t)(uintptr_t)ah;
    wr->remote_qpn = qpn;
    wr->remote_qkey = qkey;
}

static void null_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sges)
{
    struct null_built *b = null_qp_of(ex)->built;
    null_wr_last(ex)->num_sge = (uint32_t)n;
    for (size_t i = 0; i < n && i < NULL_BUILT_SGES; i++)
        b->sges[b->n - 1][i] = (struct weft_sge){sges[i].addr, sges[i].length, sges[i].lkey};
}

static void null_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct ibv_sge sge = {addr, length, lkey};
    null_wr_set_sge_list(ex, 1, &sge);
}

static void null_wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *bufs)
{
    struct null_qp *qp = null_qp_of(ex);
    struct weft_null *null = null_of(qp->qp.context);
    null->num_inlined = 0;
    for (size_t i = 0; i < n; i++)
        if (null->num_inlined + bufs[i].length <= sizeof(null->inlined)) {
            memcpy(null->inlined + null->num_inlined, bufs[i].addr, bufs[i].length);
            null->num_inlined += (uint32_t)bufs[i].length;
        }
    qp->built->inlined[qp->built->n - 1] = null->num_inlined;
}

static void null_wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    struct ibv_data_buf buf = {addr, length};
    null_wr_set_inline_data_list(ex, 1, &buf);
}

static int null_wr_complete(struct ibv_qp_ex *ex)
{
    struct null_qp *qp = null_qp_of(ex);
    struct null_built *b = qp->built;
    struct ibv_send_wr *bad;
    NULL_RESULT(qp->qp.context, wr_complete);
    if (b->n > qp->cap.max_send_wr - (qp->posted - qp->given_back))
        return ENOMEM;
    for (uint32_t i = 0; i < b->n; i++)
        b->chain[i] = (struct ibv_send_wr){.wr_id = b->wrs[i].id,
                                           .next = i + 1 < b->n ? &b->chain[i + 1] : NULL,
                                           .opcode = (enum ibv_wr_opcode)b->wrs[i].opcode,
                                           .send_flags = b->wrs[i].flags};
    return b->n == 0 ? 0 : null_post_send(&qp->qp, b->chain, &bad);
}

/* As drivers do: a function for each operation that was asked for. */
#define NULL_BUILDS(flag, name)                                                                                        \
    if ((ops & (flag)) != 0)                                                                                           \
    ex->name = null_##name

static void null_add_builders(struct null_qp *qp, uint64_t ops)
{
    struct ibv_qp_ex *ex = &qp->ex;
    NULL_BUILDS(IBV_QP_EX_WITH_SEND, wr_send);
    NULL_BUILDS(IBV_QP_EX_WITH_SEND_WITH_IMM, wr_send_imm);
    NULL_BUILDS(IBV_QP_EX_WITH_SEND_WITH_INV, wr_send_inv);
    NULL_BUILDS(IBV_QP_EX_WITH_LOCAL_INV, wr_local_inv);
    NULL_BUILDS(IBV_QP_EX_WITH_RDMA_WRITE, wr_rdma_write);
    NULL_BUILDS(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
    NULL_BUILDS(IBV_QP_EX_WITH_RDMA_READ, wr_rdma_read);
    NULL_BUILDS(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
    NULL_BUILDS(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
    NULL_BUILDS(IBV_QP_EX_WITH_BIND_MW, wr_bind_mw);
    ex->wr_start = null_wr_start;
    ex->wr_complete = null_wr_complete;
    ex->wr_set_sge = null_wr_set_sge;
    ex->wr_set_sge_list = null_wr_set_sge_list;
    ex->wr_set_inline_data = null_wr_set_inline_data;
    ex->wr_set_inline_data_list = null_wr_set_inline_data_list;
    if (qp->qp.qp_type == IBV_QPT_UD || qp->qp.qp_type == IBV_QPT_DRIVER)
        ex->wr_set_ud_addr = null_wr_set_ud_addr;
}

static struct ibv_qp *null_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
    struct ibv_qp_init_attr plain = {.send_cq = init->send_cq,
                                     .recv_cq = init->recv_cq,
                                     .srq = init->srq,
                                     .cap = init->cap,
                                     .qp_type = init->qp_type};
    NULL_POINTER(context, create_qp_ex);
    if (init->comp_mask != (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        return null_fail(EINVAL);
    struct ibv_qp *qp = null_make_qp(init->pd, &plain);
    if (qp == NULL)
        return NULL;
    init->cap = plain.cap;
    null_qp(qp)->built = calloc(1, sizeof(struct null_built));
    null_add_builders(null_qp(qp), init->send_ops_flags);
    return qp;
}

static struct ibv_qp_ex *null_qp_to_qp_ex(struct ibv_qp *qp)
{
    return null_qp(qp)->built != NULL ? &null_qp(qp)->ex : NULL;
}

/* What efadv_create_qp_ex makes of a device with reads and writes: a driver's transport with builders. */
void *weft_null_srd(struct weft_null *n, void *pd, void *cq, uint32_t max_send_wr, uint32_t max_recv_wr)
{
    struct ibv_qp_init_attr_ex init = {.send_cq = cq,
                                       .recv_cq = cq,
                                       .cap = {max_send_wr, max_recv_wr, 2, 2, 32},
                                       .qp_type = IBV_QPT_DRIVER,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = pd,
                                       .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                                         IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
                                                         IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM};
    return null_create_qp_ex(&n->extended.context, &init);
}

void weft_null_destroy_qp(void *qp)
{
    null_destroy_qp(qp);
}

int weft_null_built(void *qp, uint32_t index, struct weft_send_wr *wr, struct weft_sge *sge, uint32_t *inlined)
{
    const struct null_built *b = null_qp(qp)->built;
    if (b == NULL || index >= b->n)
        return ENOENT;
    *wr = b->wrs[index];
    *sge = b->sges[index][0];
    *inlined = b->inlined[index];
    return 0;
}
