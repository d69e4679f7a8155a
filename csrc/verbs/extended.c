/*
 * Completion queues that are read field by field: what the driver keeps of a completion beyond struct ibv_wc is asked
 * for between ibv_start_poll and ibv_end_poll, during which the driver may hold the queue's lock. Nothing else of the
 * driver is called meanwhile. A driver has no function for a field that the queue was made without.
 */
#define WEFT_FIELD(cq, read) ((cq)->read != NULL ? (cq)->read(cq) : 0)

static void weft_wc_read(struct weft_wc *out, struct ibv_cq_ex *cq)
{
    *out = (struct weft_wc){.id = cq->wr_id, .status = cq->status, .qpn = cq->read_qp_num(cq)};
    if (cq->status != IBV_WC_SUCCESS) {
        out->vendor_err = cq->read_vendor_err(cq);
        return; /* nothing else is defined */
    }
    out->opcode = cq->read_opcode(cq);
    out->flags = cq->read_wc_flags(cq);
    out->byte_len = WEFT_FIELD(cq, read_byte_len);
    if ((out->flags & IBV_WC_WITH_IMM) != 0)
        out->imm = ntohl(WEFT_FIELD(cq, read_imm_data));
    else if ((out->flags & IBV_WC_WITH_INV) != 0)
        out->imm = WEFT_FIELD(cq, read_imm_data); /* in host order, as ibv_wc_read_invalidated_rkey has it */
    out->src_qpn = WEFT_FIELD(cq, read_src_qp);
    out->slid = (uint16_t)WEFT_FIELD(cq, read_slid);
    out->sl = (uint8_t)WEFT_FIELD(cq, read_sl);
    out->dlid_path_bits = (uint8_t)WEFT_FIELD(cq, read_dlid_path_bits);
}

/* A completion with an error has no time. */
static void weft_wc_read_time(struct weft_wc_time *out, struct ibv_cq_ex *cq)
{
    *out = (struct weft_wc_time){0, 0};
    if (cq->status != IBV_WC_SUCCESS)
        return;
    out->ticks = WEFT_FIELD(cq, read_completion_ts);
    out->wall_ns = WEFT_FIELD(cq, read_completion_wallclock_ns);
}

/* Polls once, as far as there is room and something to take; times may be NULL. */
static int weft_cq_poll_extended(struct weft_cq *cq, struct weft_wc *out, struct weft_wc_time *times, uint32_t max)
{
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};
    uint32_t n = 0;
    if (max == 0)
        return 0;
    int rc = ibv_start_poll(cq->extended, &attr);
    if (rc != 0)
        return rc == ENOENT ? 0 : -EIO; /* nothing was started, and nothing is ended */
    do {
        weft_wc_read(&out[n], cq->extended);
        if (times != NULL)
            weft_wc_read_time(&times[n], cq->extended);
        n++;
    } while (n < max && ibv_next_poll(cq->extended) == 0);
    ibv_end_poll(cq->extended);
    for (uint32_t i = 0; i < n; i++)
        if (out[i].status != IBV_WC_SUCCESS) {
            struct ibv_wc wc = {.wr_id = out[i].id,
                                .status = (enum ibv_wc_status)out[i].status,
                                .vendor_err = out[i].vendor_err,
                                .qp_num = out[i].qpn};
            weft_cq_failed(cq, &wc);
        }
    return (int)n;
}

void weft_cq_poll_times(weft_handle handle, struct weft_wc *wcs, struct weft_wc_time *times, uint32_t max,
                        int32_t *polled)
{
    *polled = weft_cq_poll_extended((struct weft_cq *)handle, wcs, times, max);
}
