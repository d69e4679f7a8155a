/* What tests tell the null provider. */
void weft_null_close(struct weft_null *n)
{
    close(n->extended.context.async_fd);
    close(n->event_write);
    free(n);
}

struct ibv_context *weft_null_context(struct weft_null *n)
{
    return &n->extended.context;
}

void weft_null_limits(struct weft_null *n, uint64_t max_mr_size, uint32_t max_qp_wr, uint32_t max_cqe, uint32_t max_sge,
                      uint32_t max_inline)
{
    n->attr.orig_attr.max_mr_size = max_mr_size;
    n->attr.orig_attr.max_qp_wr = (int)max_qp_wr;
    n->attr.orig_attr.max_cqe = (int)max_cqe;
    n->attr.orig_attr.max_sge = (int)max_sge;
    n->max_inline = max_inline;
}

void weft_null_ports(struct weft_null *n, uint32_t ports)
{
    n->attr.orig_attr.phys_port_cnt = (uint8_t)(ports < WEFT_NULL_PORTS ? ports : WEFT_NULL_PORTS);
}

void weft_null_flags(struct weft_null *n, uint32_t flags, uint32_t atomics, uint64_t odp, uint64_t timestamps)
{
    n->attr.orig_attr.device_cap_flags = flags;
    n->attr.orig_attr.atomic_cap = (enum ibv_atomic_cap)atomics;
    n->attr.odp_caps.general_caps = odp;
    n->attr.completion_timestamp_mask = timestamps;
}

void weft_null_port(struct weft_null *n, uint8_t port, uint32_t state, uint32_t mtu, uint32_t max_message, uint16_t lid,
                    uint8_t link_layer)
{
    struct ibv_port_attr *p = &n->ports[port - 1];
    p->state = (enum ibv_port_state)state;
    p->active_mtu = (enum ibv_mtu)mtu;
    p->max_msg_sz = max_message;
    p->lid = lid;
    p->link_layer = link_layer;
}

int weft_null_gids(struct weft_null *n, const struct weft_gid_entry *gids, uint32_t count)
{
    if (count > WEFT_NULL_GIDS)
        return EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        n->gids[i] = (struct ibv_gid_entry){.gid_index = gids[i].index,
                                            .port_num = gids[i].port,
                                            .gid_type = gids[i].type,
                                            .ndev_ifindex = gids[i].ifindex};
        memcpy(n->gids[i].gid.raw, gids[i].gid, sizeof(gids[i].gid));
    }
    n->num_gids = count;
    return 0;
}

void weft_null_clock(struct weft_null *n, uint64_t ticks, uint64_t khz)
{
    n->ticks = ticks;
    n->attr.hca_core_clock = khz;
}

void weft_null_wall_clock(struct weft_null *n, uint64_t ns)
{
    n->wall_ns = ns;
}

void weft_null_pkeys(struct weft_null *n, uint16_t count)
{
    for (int i = 0; i < WEFT_NULL_PORTS; i++)
        n->ports[i].pkey_tbl_len = count;
}

void weft_null_registered(struct weft_null *n, uint64_t *addr, uint64_t *length, uint64_t *iova, uint32_t *access)
{
    *addr = n->registered.addr;
    *length = n->registered.length;
    *iova = n->registered.iova;
    *access = n->registered.access;
}

int weft_null_in_domain(void *cq, void *pd)
{
    return null_cq(cq)->domain == pd;
}

void weft_null_vendor(struct weft_null *n, uint32_t id)
{
    n->attr.orig_attr.vendor_id = id;
}

const uint8_t *weft_null_inlined(struct weft_null *n, uint32_t *size)
{
    *size = n->num_inlined;
    return n->inlined;
}

void weft_null_rate(void *qp, uint32_t *kbps, uint32_t *burst, uint16_t *packet)
{
    const struct ibv_qp_rate_limit_attr *rate = &null_qp(qp)->rate;
    *kbps = rate->rate_limit;
    *burst = rate->max_burst_sz;
    *packet = rate->typical_pkt_sz;
}

void weft_null_moderated(void *cq, uint16_t *count, uint16_t *period)
{
    *count = null_cq(cq)->moderate.cq_count;
    *period = null_cq(cq)->moderate.cq_period;
}

uint32_t weft_null_advised(struct weft_null *n)
{
    return n->advised;
}

void weft_null_refuse_access(struct weft_null *n, uint32_t access)
{
    n->refused_access = access;
}

static int null_call(const char *name)
{
    for (int i = 0; i < CALLS; i++)
        if (strcmp(weft_null_names[i], name) == 0)
            return i;
    return -1;
}

int weft_null_fail(struct weft_null *n, const char *call, uint32_t after, int rc, int err)
{
    int i = null_call(call);
    if (i < 0)
        return ENOENT;
    n->faults[i] = (struct null_fault){.armed = 1, .rc = rc, .err = err, .after = after};
    return 0;
}

int weft_null_fail_late(struct weft_null *n, const char *call, uint32_t after, int rc)
{
    int i = null_call(call);
    if (i < 0)
        return ENOENT;
    n->faults[i] = (struct null_fault){.armed = 1, .late = 1, .rc = rc, .after = after};
    return 0;
}

int64_t weft_null_calls(struct weft_null *n, const char *call)
{
    int i = null_call(call);
    return i < 0 ? -1 : n->calls[i];
}

struct weft_null_dmabuf weft_null_last_dmabuf(struct weft_null *n)
{
    return n->dmabuf;
}

int64_t weft_null_live(struct weft_null *n)
{
    return n->live;
}

void weft_null_fail_send(struct weft_null *n, uint32_t after, uint32_t status, uint32_t vendor_err)
{
    null_lock(n);
    n->send.armed = 1;
    n->send.after = after;
    n->send.status = status;
    n->send.vendor_err = vendor_err;
    null_unlock(n);
}

void weft_null_hold(struct weft_null *n, int hold)
{
    null_lock(n);
    n->hold = hold;
    for (struct null_qp *qp = n->qps; qp != NULL; qp = qp->next)
        null_progress(qp);
    null_unlock(n);
}

void weft_null_break(struct weft_null *n, void *qp)
{
    null_lock(n);
    null_qp(qp)->attr.qp_state = IBV_QPS_ERR;
    null_progress(null_qp(qp));
    null_unlock(n);
}

/* Takes the oldest receive of the queue pair, or of its shared queue. */
static int null_take_recv(struct weft_null *n, uint32_t qpn, uint64_t *id)
{
    struct null_qp *qp = n->qps;
    while (qp != NULL && qp->qp.qp_num != qpn)
        qp = qp->next;
    if (qp == NULL)
        return ENOENT;
    struct null_srq *srq = (struct null_srq *)(void *)qp->qp.srq;
    if (srq != NULL && srq->head != srq->tail) {
        *id = srq->ids[srq->head++ % srq->attr.max_wr];
        return 0;
    }
    if (srq != NULL || qp->head == qp->tail)
        return ENOENT;
    *id = qp->recvs[qp->head++ & qp->recv_mask];
    return 0;
}

int weft_null_complete(struct weft_null *n, void *cq, const struct weft_wc *in, int receive)
{
    struct null_cqe entry = {.wc = {.wr_id = in->id,
                                    .status = (enum ibv_wc_status)in->status,
                                    .opcode = (enum ibv_wc_opcode)in->opcode,
                                    .vendor_err = in->vendor_err,
                                    .byte_len = in->byte_len,
                                    .imm_data = (in->flags & IBV_WC_WITH_INV) != 0 ? in->imm : htobe32(in->imm),
                                    .qp_num = in->qpn,
                                    .src_qp = in->src_qpn,
                                    .wc_flags = in->flags,
                                    .pkey_index = in->pkey_index,
                                    .slid = in->slid,
                                    .sl = in->sl,
                                    .dlid_path_bits = in->dlid_path_bits}};
    null_lock(n);
    int rc = receive ? null_take_recv(n, in->qpn, &entry.wc.wr_id) : 0;
    if (rc == 0)
        null_push(null_cq(cq), entry, 1);
    null_unlock(n);
    return rc;
}

int weft_null_event(struct weft_null *n, uint32_t type, uint32_t port, void *object)
{
    null_report(n, (enum ibv_event_type)type, (int)port, object);
    return 0;
}

void weft_null_empty(void)
{
}
