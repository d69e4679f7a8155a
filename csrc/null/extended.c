/* The null provider's completion queues that are read field by field. Polling one holds the lock of the device. */
static int null_read_next(struct null_cq *cq)
{
    if (cq->head == cq->tail)
        return ENOENT;
    struct null_cqe *entry = &cq->entries[cq->head++ & cq->mask];
    if (entry->qp != NULL)
        entry->qp->given_back += entry->done;
    cq->read = entry;
    cq->ex.wr_id = entry->wc.wr_id;
    cq->ex.status = entry->wc.status;
    return 0;
}

static struct null_cq *null_cq_of(struct ibv_cq_ex *ex)
{
    return null_cq(ibv_cq_ex_to_cq(ex));
}

static int null_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    (void)attr;
    NULL_RESULT(ex->context, start_poll);
    null_lock(null_of(ex->context));
    int rc = null_read_next(null_cq_of(ex));
    if (rc != 0)
        null_unlock(null_of(ex->context));
    return rc;
}

static int null_next_poll(struct ibv_cq_ex *ex)
{
    NULL_RESULT(ex->context, next_poll);
    return null_read_next(null_cq_of(ex));
}

static void null_end_poll(struct ibv_cq_ex *ex)
{
    null_of(ex->context)->calls[CALL_end_poll]++;
    null_unlock(null_of(ex->context));
}

#define NULL_READ(type, name, value)                                                                                   \
    static type null_read_##name(struct ibv_cq_ex *ex)                                                                 \
    {                                                                                                                  \
        const struct null_cqe *entry = null_cq_of(ex)->read;                                                           \
        return value;                                                                                                  \
    }
NULL_READ(enum ibv_wc_opcode, opcode, entry->wc.opcode)
NULL_READ(uint32_t, vendor_err, entry->wc.vendor_err)
NULL_READ(uint32_t, byte_len, entry->wc.byte_len)
NULL_READ(__be32, imm_data, entry->wc.imm_data)
NULL_READ(uint32_t, qp_num, entry->wc.qp_num)
NULL_READ(uint32_t, src_qp, entry->wc.src_qp)
NULL_READ(unsigned int, wc_flags, entry->wc.wc_flags)
NULL_READ(uint32_t, slid, entry->wc.slid)
NULL_READ(uint8_t, sl, entry->wc.sl)
NULL_READ(uint8_t, dlid_path_bits, entry->wc.dlid_path_bits)
NULL_READ(uint64_t, completion_ts, entry->ticks)
NULL_READ(uint64_t, completion_wallclock_ns, entry->wall_ns)
#undef NULL_READ

/* As drivers do: a function for each field that was asked for, and for those that are always there. */
#define NULL_HAS(flag, name)                                                                                           \
    if ((wc_flags & (flag)) != 0)                                                                                      \
    ex->read_##name = null_read_##name

static void null_extend_cq(struct null_cq *cq, uint64_t wc_flags)
{
    struct ibv_cq_ex *ex = &cq->ex;
    cq->wc_flags = wc_flags;
    ex->start_poll = null_start_poll;
    ex->next_poll = null_next_poll;
    ex->end_poll = null_end_poll;
    ex->read_opcode = null_read_opcode;
    ex->read_vendor_err = null_read_vendor_err;
    ex->read_wc_flags = null_read_wc_flags;
    NULL_HAS(IBV_WC_EX_WITH_BYTE_LEN, byte_len);
    NULL_HAS(IBV_WC_EX_WITH_IMM, imm_data);
    NULL_HAS(IBV_WC_EX_WITH_QP_NUM, qp_num);
    NULL_HAS(IBV_WC_EX_WITH_SRC_QP, src_qp);
    NULL_HAS(IBV_WC_EX_WITH_SLID, slid);
    NULL_HAS(IBV_WC_EX_WITH_SL, sl);
    NULL_HAS(IBV_WC_EX_WITH_DLID_PATH_BITS, dlid_path_bits);
    NULL_HAS(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, completion_ts);
    NULL_HAS(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, completion_wallclock_ns);
}

/* Timestamps are refused by a device without them. */
static struct ibv_cq_ex *null_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    const uint64_t timestamps =
        (uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    NULL_POINTER(context, create_cq_ex);
    if ((attr->wc_flags & timestamps) != 0 && null_of(context)->attr.completion_timestamp_mask == 0)
        return null_fail(EOPNOTSUPP);
    const int in_domain = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
    const int alone =
        (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && attr->flags == IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    if (in_domain != alone || (in_domain && attr->parent_domain == NULL))
        return null_fail(EINVAL);
    struct ibv_cq *cq = null_make_cq(context, (int)attr->cqe, attr->cq_context, attr->channel);
    if (cq == NULL)
        return NULL;
    null_extend_cq(null_cq(cq), attr->wc_flags);
    null_cq(cq)->domain = in_domain ? attr->parent_domain : NULL;
    return &null_cq(cq)->ex;
}
