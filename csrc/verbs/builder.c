/*
 * Posting by builders, ibv_wr_*: the only way for EFA's SRD. A chain is built from the same struct ibv_send_wr as
 * ibv_post_send takes, request by request, and rung for once. All of it is posted, or nothing.
 *
 * A request of SRD names a peer and memory of that peer, for which the union of struct ibv_send_wr has no room. They
 * stand where it has a memory window, which SRD does not have: see weft_fill_far.
 */
static int weft_datagrams(uint32_t type)
{
    return type == IBV_QPT_UD || type == WEFT_QPT_SRD;
}

static void weft_fill_far(struct ibv_send_wr *out, uint64_t remote_addr, uint32_t rkey)
{
    out->bind_mw.bind_info.addr = remote_addr;
    out->bind_mw.rkey = rkey;
}

/* Whether the driver has a function for the request: it need not have one for each opcode. */
static int weft_builds(const struct ibv_qp_ex *b, const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
        return b->wr_rdma_write != NULL;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return b->wr_rdma_write_imm != NULL;
    case IBV_WR_SEND:
        return b->wr_send != NULL;
    case IBV_WR_SEND_WITH_IMM:
        return b->wr_send_imm != NULL;
    case IBV_WR_RDMA_READ:
        return b->wr_rdma_read != NULL;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return b->wr_atomic_cmp_swp != NULL;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return b->wr_atomic_fetch_add != NULL;
    case IBV_WR_LOCAL_INV:
        return b->wr_local_inv != NULL;
    case IBV_WR_BIND_MW:
        return b->wr_bind_mw != NULL;
    case IBV_WR_SEND_WITH_INV:
        return b->wr_send_inv != NULL;
    default:
        return 0;
    }
}

static void weft_build_operation(struct ibv_qp_ex *b, const struct ibv_send_wr *wr, uint64_t remote_addr, uint32_t rkey)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(b, rkey, remote_addr);
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        ibv_wr_rdma_write_imm(b, rkey, remote_addr, wr->imm_data);
        break;
    case IBV_WR_SEND:
        ibv_wr_send(b);
        break;
    case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(b, wr->imm_data);
        break;
    case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(b, rkey, remote_addr);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        ibv_wr_atomic_cmp_swp(b, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
                              wr->wr.atomic.swap);
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ibv_wr_atomic_fetch_add(b, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
        break;
    case IBV_WR_LOCAL_INV:
        ibv_wr_local_inv(b, wr->invalidate_rkey);
        break;
    case IBV_WR_BIND_MW:
        ibv_wr_bind_mw(b, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
        break;
    default: /* weft_builds knows no other */
        ibv_wr_send_inv(b, wr->invalidate_rkey);
        break;
    }
}

/* More entries of inline data than this are not built: no device takes as many. */
enum { WEFT_INLINE_ENTRIES = 64 };

/* Some drivers finish a request in this step, so that one without bytes has it too. */
static void weft_build_data(struct ibv_qp_ex *b, const struct ibv_send_wr *wr)
{
    if ((wr->send_flags & IBV_SEND_INLINE) == 0 || wr->num_sge == 0) {
        ibv_wr_set_sge_list(b, (size_t)wr->num_sge, wr->sg_list);
        return;
    }
    struct ibv_data_buf bufs[WEFT_INLINE_ENTRIES];
    for (int i = 0; i < wr->num_sge; i++)
        bufs[i] = (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length};
    if (wr->num_sge == 1)
        ibv_wr_set_inline_data(b, bufs[0].addr, bufs[0].length);
    else
        ibv_wr_set_inline_data_list(b, (size_t)wr->num_sge, bufs);
}

static int weft_build(struct weft_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad)
{
    struct ibv_qp_ex *b = qp->builder;
    int datagrams = weft_datagrams(qp->limits.type);
    *bad = first;
    for (struct ibv_send_wr *wr = first; wr != NULL; wr = wr->next)
        if (!weft_builds(b, wr))
            return EOPNOTSUPP;
        else if ((wr->send_flags & IBV_SEND_INLINE) != 0 && wr->num_sge > WEFT_INLINE_ENTRIES)
            return EINVAL;
    ibv_wr_start(b);
    for (struct ibv_send_wr *wr = first; wr != NULL; wr = wr->next) {
        b->wr_id = wr->wr_id;
        b->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE; /* is said by how the bytes are given */
        if (datagrams)
            weft_build_operation(b, wr, wr->bind_mw.bind_info.addr, wr->bind_mw.rkey);
        else
            weft_build_operation(b, wr, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
        if (datagrams)
            ibv_wr_set_ud_addr(b, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
        if (wr->opcode != IBV_WR_LOCAL_INV && wr->opcode != IBV_WR_BIND_MW)
            weft_build_data(b, wr);
    }
    return ibv_wr_complete(b);
}

/* What a queue pair of the type may have built. */
static uint64_t weft_send_ops(uint32_t type, uint32_t builders)
{
    uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    if (type != IBV_QPT_UD)
        ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    if (type == IBV_QPT_RC)
        ops |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    if (type == IBV_QPT_RC && (builders & WEFT_BUILDERS_WINDOWS) != 0)
        ops |= IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
    return ops;
}

/* Makes a queue pair whose requests are built; NULL with errno. */
static struct ibv_qp *weft_qp_create_built(struct ibv_pd *pd, uint32_t builders, struct ibv_qp_init_attr *attr,
                                           struct ibv_qp_ex **builder)
{
    struct verbs_context *extended = WEFT_EXTENDED(pd->context, create_qp_ex);
    struct ibv_qp_init_attr_ex with = {
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = weft_send_ops(attr->qp_type, builders),
    };
    errno = EOPNOTSUPP;
    if (extended == NULL || WEFT_IBV(pd)->ibv_qp_to_qp_ex == NULL)
        return NULL;
    errno = 0;
    struct ibv_qp *qp = extended->create_qp_ex(pd->context, &with);
    if (qp == NULL)
        return NULL;
    attr->cap = with.cap;
    *builder = WEFT_IBV(pd)->ibv_qp_to_qp_ex(qp);
    if (*builder != NULL)
        return qp;
    WEFT_IBV(pd)->ibv_destroy_qp(qp);
    errno = EOPNOTSUPP;
    return NULL;
}
