/* Completion queues and queue pairs: the data path. */
#include <fcntl.h>
#include <time.h>

_Static_assert(sizeof(struct weft_sge) == sizeof(struct ibv_sge), "lists are passed on as they are");
_Static_assert(offsetof(struct weft_sge, addr) == offsetof(struct ibv_sge, addr), "addr");
_Static_assert(offsetof(struct weft_sge, length) == offsetof(struct ibv_sge, length), "length");
_Static_assert(offsetof(struct weft_sge, lkey) == offsetof(struct ibv_sge, lkey), "lkey");

struct weft_cq {
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel; /* NULL without events */
};

struct weft_qp {
    struct ibv_qp *qp;
    struct weft_qp_limits limits;
};

int weft_cq_create(struct ibv_context *context, int events, uint32_t *depth, struct weft_cq **out, int *fd)
{
    int rc;
    struct weft_cq *cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return ENOMEM;
    errno = 0;
    if (events) {
        cq->channel = weft_ibv.ibv_create_comp_channel(context);
        if (cq->channel == NULL)
            goto failed;
        *fd = cq->channel->fd;
        int flags = fcntl(*fd, F_GETFL);
        if (flags < 0 || fcntl(*fd, F_SETFL, flags | O_NONBLOCK) < 0)
            goto failed;
    }
    cq->cq = weft_ibv.ibv_create_cq(context, (int)*depth, NULL, cq->channel, 0);
    if (cq->cq == NULL)
        goto failed;
    *depth = (uint32_t)cq->cq->cqe;
    *out = cq;
    return 0;

failed:
    rc = weft_errno();
    if (cq->channel != NULL)
        weft_ibv.ibv_destroy_comp_channel(cq->channel);
    free(cq);
    return rc;
}

int weft_cq_destroy(struct weft_cq *cq)
{
    int rc = WEFT_CALL(weft_ibv.ibv_destroy_cq(cq->cq));
    if (rc != 0)
        return rc;
    /* Refused only while a queue is on it; and an error here would say that the queue is still there. */
    if (cq->channel != NULL)
        weft_ibv.ibv_destroy_comp_channel(cq->channel);
    free(cq);
    return 0;
}

void *weft_cq_raw(struct weft_cq *cq)
{
    return cq->cq;
}

int weft_cq_arm(struct weft_cq *cq)
{
    return WEFT_CALL(ibv_req_notify_cq(cq->cq, 0));
}

int weft_cq_events(struct weft_cq *cq)
{
    unsigned int n = 0;
    struct ibv_cq *source;
    void *context;

    /* Until EAGAIN: Go's poller is edge-triggered, an event left behind would never be announced again. */
    for (;;) {
        errno = 0;
        if (weft_ibv.ibv_get_cq_event(cq->channel, &source, &context) == 0)
            n++;
        else if (errno != EINTR)
            break;
    }
    int stopped = errno;
    if (n > 0)
        weft_ibv.ibv_ack_cq_events(cq->cq, n);
    return n > 0 || stopped == EAGAIN ? (int)n : -(stopped != 0 ? stopped : EIO);
}

static uint64_t weft_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void weft_wc_fill(struct weft_wc *out, const struct ibv_wc *wc)
{
    out->id = wc->wr_id;
    out->status = wc->status;
    out->opcode = wc->opcode;
    out->vendor_err = wc->vendor_err;
    out->byte_len = wc->byte_len;
    out->imm = (wc->wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(wc->imm_data) : 0;
    out->qpn = wc->qp_num;
    out->src_qpn = wc->src_qp;
    out->flags = wc->wc_flags;
    out->pkey_index = wc->pkey_index;
    out->slid = wc->slid;
    out->sl = wc->sl;
    out->dlid_path_bits = wc->dlid_path_bits;
    out->zero = 0;
}

enum { WEFT_POLL_BATCH = 32 };

/*
 * Polls once, in batches, until out is full or the queue empty. A failed poll is EIO: no more is promised of what the
 * driver returns than that it is negative, and mlx5's -2 is no errno.
 */
static int weft_cq_poll_once(struct ibv_cq *cq, struct weft_wc *out, uint32_t max)
{
    struct ibv_wc wcs[WEFT_POLL_BATCH];
    uint32_t done = 0;

    while (done < max) {
        int want = max - done < WEFT_POLL_BATCH ? (int)(max - done) : WEFT_POLL_BATCH;
        int n = ibv_poll_cq(cq, want, wcs);
        if (n < 0)
            return done > 0 ? (int)done : -EIO; /* an error that persists comes again at the next call */
        for (int i = 0; i < n; i++)
            weft_wc_fill(&out[done + (uint32_t)i], &wcs[i]);
        done += (uint32_t)n;
        if (n < want)
            break;
    }
    return (int)done;
}

int weft_cq_poll(struct weft_cq *cq, struct weft_wc *wcs, uint32_t max, uint32_t spin_ns)
{
    int n = weft_cq_poll_once(cq->cq, wcs, max);
    if (n != 0 || spin_ns == 0)
        return n;
    if (spin_ns > WEFT_MAX_SPIN_NS)
        spin_ns = WEFT_MAX_SPIN_NS;
    uint64_t until = weft_now_ns() + spin_ns;
    do {
        n = weft_cq_poll_once(cq->cq, wcs, max);
    } while (n == 0 && weft_now_ns() < until);
    return n;
}

int weft_qp_create(struct ibv_pd *pd, struct weft_cq *send, struct weft_cq *recv, struct weft_qp_limits *limits,
                   struct weft_qp **out, uint32_t *qpn)
{
    struct ibv_qp_init_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.send_cq = send->cq;
    attr.recv_cq = recv->cq;
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
    qp->qp = weft_ibv.ibv_create_qp(pd, &attr);
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
    *qpn = qp->qp->qp_num;
    *out = qp;
    return 0;
}

int weft_qp_destroy(struct weft_qp *qp)
{
    int rc = WEFT_CALL(weft_ibv.ibv_destroy_qp(qp->qp));
    if (rc == 0)
        free(qp);
    return rc;
}

void *weft_qp_raw(struct weft_qp *qp)
{
    return qp->qp;
}

void weft_qp_set_max_message(struct weft_qp *qp, uint32_t bytes)
{
    qp->limits.max_message = bytes;
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
    return WEFT_CALL(weft_ibv.ibv_modify_qp(qp->qp, &attr, (int)in->mask));
}

int weft_qp_state(struct weft_qp *qp, uint32_t *state)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    memset(&attr, 0, sizeof(attr));
    memset(&init, 0, sizeof(init));
    int rc = WEFT_CALL(weft_ibv.ibv_query_qp(qp->qp, &attr, IBV_QP_STATE, &init));
    *state = attr.qp_state;
    return rc;
}

/* Which opcodes a queue pair of the type takes, as bits of enum ibv_wr_opcode. */
static uint32_t weft_opcodes(uint32_t type)
{
    uint32_t sends = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
    return type == IBV_QPT_UD ? sends : sends | 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM;
}

static enum weft_bad_wr weft_check_send(const struct weft_qp_limits *limits, const struct weft_send_wr *wr,
                                        const struct weft_sge *sges, uint32_t left)
{
    if (wr->opcode >= 32 || (weft_opcodes(limits->type) & 1u << wr->opcode) == 0)
        return WEFT_BAD_OPCODE;
    if (wr->num_sge > limits->max_send_sge)
        return WEFT_BAD_NUM_SGE;
    if (wr->num_sge > left)
        return WEFT_BAD_SGE_LIST;
    uint64_t length = 0;
    for (uint32_t i = 0; i < wr->num_sge; i++)
        length += sges[i].length;
    if ((wr->flags & IBV_SEND_INLINE) != 0 && length > limits->max_inline)
        return WEFT_BAD_INLINE;
    if (length > limits->max_message)
        return WEFT_BAD_LENGTH;
    if (limits->type == IBV_QPT_UD && wr->ah == 0)
        return WEFT_BAD_AH;
    return 0;
}

/* How many work requests one chain holds: 32 KiB, which fits on a stack. Longer posts are several chains. */
enum { WEFT_CHAIN = 256 };

/*
 * The list entries are only read, for the length of the call: the header's pointer is not const for historical reasons.
 * The same holds for the payload's addresses, which are integers until here.
 */
static struct ibv_sge *weft_sges(const struct weft_sge *sges)
{
    return (struct ibv_sge *)(uintptr_t)sges;
}

static void weft_fill_send(struct ibv_send_wr *out, const struct weft_send_wr *wr, const struct weft_sge *sges,
                           uint32_t type)
{
    out->wr_id = wr->id;
    out->next = out + 1;
    out->sg_list = weft_sges(sges);
    out->num_sge = (int)wr->num_sge;
    out->opcode = (enum ibv_wr_opcode)wr->opcode;
    out->send_flags = wr->flags;
    out->imm_data = htonl(wr->imm);
    if (type == IBV_QPT_UD) {
        out->wr.ud.ah = (struct ibv_ah *)(uintptr_t)wr->ah;
        out->wr.ud.remote_qpn = wr->remote_qpn;
        out->wr.ud.remote_qkey = wr->remote_qkey;
    } else {
        out->wr.rdma.remote_addr = wr->remote_addr;
        out->wr.rdma.rkey = wr->rkey;
    }
}

/*
 * The index of *bad in its chain of n is how many the driver took. A driver that fails without saying where took none:
 * counting a request as posted that was not would wait for its completion for ever.
 */
#define WEFT_TAKEN(chain, n, bad) ((bad) >= (chain) && (bad) < (chain) + (n) ? (uint32_t)((bad) - (chain)) : 0)

int weft_qp_post_send(struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n, const struct weft_sge *sges,
                      uint32_t num_sge, uint32_t *accepted)
{
    const struct weft_sge *at = sges;
    uint32_t left = num_sge;
    for (uint32_t i = 0; i < n; i++) {
        enum weft_bad_wr bad = weft_check_send(&qp->limits, &wrs[i], at, left);
        if (bad == 0 && i == n - 1 && left != wrs[i].num_sge)
            bad = WEFT_BAD_SGE_LIST;
        if (bad != 0) {
            *accepted = i;
            return -(int)bad;
        }
        at += wrs[i].num_sge;
        left -= wrs[i].num_sge;
    }

    struct ibv_send_wr chain[WEFT_CHAIN];
    *accepted = 0;
    while (*accepted < n) {
        uint32_t length = n - *accepted < WEFT_CHAIN ? n - *accepted : WEFT_CHAIN;
        for (uint32_t i = 0; i < length; i++) {
            const struct weft_send_wr *wr = &wrs[*accepted + i];
            weft_fill_send(&chain[i], wr, sges, qp->limits.type);
            sges += wr->num_sge;
        }
        chain[length - 1].next = NULL;
        struct ibv_send_wr *bad = NULL;
        int rc = WEFT_CALL(ibv_post_send(qp->qp, chain, &bad));
        if (rc != 0) {
            *accepted += WEFT_TAKEN(chain, length, bad);
            return rc;
        }
        *accepted += length;
    }
    return 0;
}

int weft_qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs, uint32_t n, const struct weft_sge *sges,
                      uint32_t num_sge, uint32_t *accepted)
{
    uint32_t left = num_sge;
    for (uint32_t i = 0; i < n; i++) {
        int bad = 0;
        if (wrs[i].num_sge > qp->limits.max_recv_sge)
            bad = WEFT_BAD_NUM_SGE;
        else if (wrs[i].num_sge > left || (i == n - 1 && left != wrs[i].num_sge))
            bad = WEFT_BAD_SGE_LIST;
        if (bad != 0) {
            *accepted = i;
            return -bad;
        }
        left -= wrs[i].num_sge;
    }

    struct ibv_recv_wr chain[WEFT_CHAIN];
    *accepted = 0;
    while (*accepted < n) {
        uint32_t length = n - *accepted < WEFT_CHAIN ? n - *accepted : WEFT_CHAIN;
        for (uint32_t i = 0; i < length; i++) {
            const struct weft_recv_wr *wr = &wrs[*accepted + i];
            chain[i].wr_id = wr->id;
            chain[i].next = i + 1 < length ? &chain[i + 1] : NULL;
            chain[i].sg_list = weft_sges(sges);
            chain[i].num_sge = (int)wr->num_sge;
            sges += wr->num_sge;
        }
        struct ibv_recv_wr *bad = NULL;
        int rc = WEFT_CALL(ibv_post_recv(qp->qp, chain, &bad));
        if (rc != 0) {
            *accepted += WEFT_TAKEN(chain, length, bad);
            return rc;
        }
        *accepted += length;
    }
    return 0;
}
