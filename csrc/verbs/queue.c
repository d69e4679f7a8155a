/* Completion queues, their channels, and what queue pairs have to do with them. */
#include <fcntl.h>
#include <sched.h>
#include <time.h>

_Static_assert(sizeof(struct weft_sge) == sizeof(struct ibv_sge), "lists are passed on as they are");
_Static_assert(offsetof(struct weft_sge, addr) == offsetof(struct ibv_sge, addr), "addr");
_Static_assert(offsetof(struct weft_sge, length) == offsetof(struct ibv_sge, length), "length");
_Static_assert(offsetof(struct weft_sge, lkey) == offsetof(struct ibv_sge, lkey), "lkey");

struct weft_channel {
    struct ibv_comp_channel *channel;
};

struct weft_cq {
    struct ibv_cq *cq;
    struct ibv_cq_ex *extended; /* the same, if it is read field by field; otherwise NULL */
    struct weft_channel *own;   /* the channel made with the queue; NULL without, or on a shared one */
    uint32_t lock;              /* guards the list */
    struct weft_qp *qps;        /* whose completions come here, by next[] */
    uint32_t due;               /* events that can come at most: each was asked for */
};

/* In next[] a queue pair is on the list of its send completion queue and, where that is another one, its receive one's.
 */
enum { WEFT_SENDS, WEFT_RECVS };

struct weft_qp {
    struct ibv_qp *qp;
    struct ibv_qp_ex *builder; /* the same, if posts are made by ibv_wr_*; otherwise NULL */
    struct weft_qp_limits limits;
    struct weft_cq *cqs[2]; /* NULL where the completion queue is not one of ours */
    struct weft_qp *next[2];
    uint32_t lock;               /* guards posting against destroying, and what follows */
    uint32_t run;                /* sends since the last one that is signalled */
    uint32_t refuses;            /* sends, for this enum weft_bad_wr: failed or closed; 0 as a rule */
    uint32_t refuses_recvs;      /* and receives, which a failed send queue alone still takes */
    uint32_t ending;             /* its owner moved it to the error state: what flushes has been asked for */
    struct weft_failure failure; /* while refuses says failed */
    uint64_t crossings;          /* calls from Go that posted */
};

/*
 * A lock that is held for a post, or for the few steps that a failed completion takes. Its holder may be taken off the
 * processor, so whoever waits gives way.
 */
static void weft_lock(uint32_t *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
}

static void weft_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* The counter has one writer as a rule; where it has two, a call may go uncounted, and costs no more for it. */
static void weft_crossed(uint64_t *crossings)
{
    __atomic_store_n(crossings, __atomic_load_n(crossings, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

int weft_channel_create(struct ibv_context *context, struct weft_channel **out, int *fd)
{
    struct weft_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return ENOMEM;
    errno = 0;
    channel->channel = weft_ibv_of(context)->ibv_create_comp_channel(context);
    if (channel->channel != NULL) {
        *fd = channel->channel->fd;
        int flags = fcntl(*fd, F_GETFL);
        if (flags >= 0 && fcntl(*fd, F_SETFL, flags | O_NONBLOCK) >= 0) {
            *out = channel;
            return 0;
        }
    }
    int rc = weft_errno();
    if (channel->channel != NULL)
        WEFT_IBV(channel->channel)->ibv_destroy_comp_channel(channel->channel);
    free(channel);
    return rc;
}

int weft_channel_destroy(struct weft_channel *channel)
{
    int rc = WEFT_CALL(WEFT_IBV(channel->channel)->ibv_destroy_comp_channel(channel->channel));
    if (rc == 0)
        free(channel);
    return rc;
}

int weft_channel_events(struct weft_channel *channel, uint64_t *cqs, uint32_t max)
{
    const struct weft_ibv_table *ibv = WEFT_IBV(channel->channel);
    uint32_t n = 0;
    struct ibv_cq *source;
    void *context;

    /* Until EAGAIN: Go's poller is edge-triggered, an event left behind would never be announced again. */
    errno = 0;
    while (n < max) {
        errno = 0;
        if (ibv->ibv_get_cq_event(channel->channel, &source, &context) == 0) {
            ibv->ibv_ack_cq_events(source, 1);
            cqs[n++] = (uint64_t)(uintptr_t)source;
        } else if (errno != EINTR) {
            break;
        }
    }
    return n > 0 || errno == EAGAIN ? (int)n : -weft_errno();
}

/* What ibv_create_cq_ex has beyond ibv_create_cq; errno says why there is no queue. */
struct weft_cq_wanted {
    struct ibv_pd *domain; /* or NULL */
    uint64_t timestamps;   /* enum ibv_create_cq_wc_flags */
};

static void weft_cq_create_extended(struct ibv_context *context, struct weft_cq *cq, struct weft_channel *channel,
                                    uint32_t vector, uint32_t depth, const struct weft_cq_wanted *wanted)
{
    struct verbs_context *extended = WEFT_EXTENDED(context, create_cq_ex);
    struct ibv_cq_init_attr_ex attr = {
        .cqe = depth,
        .channel = channel != NULL ? channel->channel : NULL,
        .comp_vector = vector,
        .wc_flags = (uint64_t)IBV_WC_STANDARD_FLAGS | wanted->timestamps,
        .parent_domain = wanted->domain,
    };
    if (wanted->domain != NULL) { /* drivers take locks unless the flag says that they need not */
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD | IBV_CQ_INIT_ATTR_MASK_FLAGS;
        attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    }
    errno = EOPNOTSUPP;
    if (extended == NULL)
        return;
    errno = 0;
    cq->extended = extended->create_cq_ex(context, &attr);
    if (cq->extended != NULL)
        cq->cq = ibv_cq_ex_to_cq(cq->extended);
}

static int weft_cq_make(struct ibv_context *context, struct weft_channel *shared, int events, uint32_t vector,
                        const struct weft_cq_wanted *wanted, uint32_t *depth, struct weft_cq **out, int *fd)
{
    int rc = ENOMEM;
    struct weft_cq *cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return rc;
    if (events && (rc = weft_channel_create(context, &cq->own, fd)) != 0)
        goto failed;
    struct weft_channel *channel = events ? cq->own : shared;
    errno = 0;
    if (wanted != NULL)
        weft_cq_create_extended(context, cq, channel, vector, *depth, wanted);
    else
        cq->cq = weft_ibv_of(context)->ibv_create_cq(context, (int)*depth, NULL,
                                                     channel != NULL ? channel->channel : NULL, (int)vector);
    if (cq->cq != NULL) {
        *depth = (uint32_t)cq->cq->cqe;
        *out = cq;
        return 0;
    }
    rc = weft_errno();

failed:
    if (cq->own != NULL)
        weft_channel_destroy(cq->own);
    free(cq);
    return rc;
}

int weft_cq_create(struct ibv_context *context, struct weft_channel *shared, int events, uint32_t vector,
                   uint32_t *depth, struct weft_cq **out, int *fd)
{
    return weft_cq_make(context, shared, events, vector, NULL, depth, out, fd);
}

int weft_cq_create_ex(struct ibv_context *context, struct weft_channel *shared, int events, uint32_t vector,
                      struct ibv_pd *domain, uint32_t timestamps, uint32_t *depth, struct weft_cq **out, int *fd)
{
    struct weft_cq_wanted wanted = {.domain = domain};
    if ((timestamps & WEFT_TIME_TICKS) != 0)
        wanted.timestamps |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    if ((timestamps & WEFT_TIME_WALL) != 0)
        wanted.timestamps |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    return weft_cq_make(context, shared, events, vector, &wanted, depth, out, fd);
}

int weft_cq_destroy(struct weft_cq *cq, int *channel)
{
    *channel = 0;
    int rc = WEFT_CALL(WEFT_IBV(cq->cq)->ibv_destroy_cq(cq->cq));
    if (rc != 0)
        return rc;
    if (cq->own != NULL && (*channel = weft_channel_destroy(cq->own)) != 0)
        free(cq->own); /* ours; the library's is lost */
    free(cq);
    return 0;
}

int weft_cq_resize(struct weft_cq *cq, uint32_t *depth)
{
    int rc = WEFT_CALL(WEFT_IBV(cq->cq)->ibv_resize_cq(cq->cq, (int)*depth));
    *depth = (uint32_t)cq->cq->cqe;
    return rc;
}

int weft_cq_moderate(struct weft_cq *cq, uint16_t count, uint16_t period)
{
    struct verbs_context *extended = WEFT_EXTENDED(cq->cq->context, modify_cq);
    if (extended == NULL)
        return EOPNOTSUPP;
    struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {count, period}};
    return WEFT_CALL(extended->modify_cq(cq->cq, &attr));
}

void *weft_cq_raw(struct weft_cq *cq)
{
    return cq->cq;
}

int weft_cq_arm(struct weft_cq *cq, int solicited_only)
{
    __atomic_fetch_add(&cq->due, 1, __ATOMIC_RELAXED);
    return WEFT_CALL(ibv_req_notify_cq(cq->cq, solicited_only));
}

/*
 * Not until EAGAIN, as above, where no more than was taken can be there: it would be a system call in vain each time.
 * Should there be more after all, for the queue was armed past us, the next call finds it: a wait begins with one.
 */
int weft_cq_events(struct weft_cq *cq)
{
    const struct weft_ibv_table *ibv = WEFT_IBV(cq->cq);
    uint32_t due = __atomic_load_n(&cq->due, __ATOMIC_RELAXED);
    unsigned int n = 0;
    struct ibv_cq *source;
    void *context;

    while (n == 0 || n < due) {
        errno = 0;
        if (ibv->ibv_get_cq_event(cq->own->channel, &source, &context) == 0)
            n++;
        else if (errno != EINTR)
            break;
    }
    int stopped = errno;
    uint32_t left = n < due ? 1 : 0; /* there are none, but it may be armed still */
    __atomic_store_n(&cq->due, left, __ATOMIC_RELAXED);
    if (n > 0)
        ibv->ibv_ack_cq_events(cq->cq, n);
    return n > 0 || stopped == EAGAIN ? (int)n : -(stopped != 0 ? stopped : EIO);
}

/* A completion with an error (fail.c). */
static void weft_qp_fail(struct weft_qp *qp, const struct ibv_wc *wc);

static int weft_cq_list(const struct weft_cq *cq, const struct weft_qp *qp)
{
    return qp->cqs[WEFT_SENDS] == cq ? WEFT_SENDS : WEFT_RECVS;
}

static void weft_cq_failed(struct weft_cq *cq, const struct ibv_wc *wc)
{
    weft_lock(&cq->lock);
    for (struct weft_qp *qp = cq->qps; qp != NULL; qp = qp->next[weft_cq_list(cq, qp)])
        if (qp->qp->qp_num == wc->qp_num)
            weft_qp_fail(qp, wc);
    weft_unlock(&cq->lock);
}

static void weft_cq_add(struct weft_cq *cq, struct weft_qp *qp)
{
    int list = weft_cq_list(cq, qp);
    weft_lock(&cq->lock);
    qp->next[list] = cq->qps;
    cq->qps = qp;
    weft_unlock(&cq->lock);
}

static void weft_cq_remove(struct weft_cq *cq, struct weft_qp *qp)
{
    weft_lock(&cq->lock);
    struct weft_qp **at = &cq->qps;
    while (*at != qp)
        at = &(*at)->next[weft_cq_list(cq, *at)];
    *at = qp->next[weft_cq_list(cq, qp)];
    weft_unlock(&cq->lock);
}

static uint64_t weft_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void weft_wc_fill(struct weft_wc *out, const struct ibv_wc *wc)
{
    *out = (struct weft_wc){.id = wc->wr_id, .status = wc->status, .vendor_err = wc->vendor_err, .qpn = wc->qp_num};
    if (wc->status != IBV_WC_SUCCESS)
        return; /* nothing else is defined, and a driver leaves there what it likes */
    out->opcode = wc->opcode;
    out->byte_len = wc->byte_len;
    if ((wc->wc_flags & IBV_WC_WITH_IMM) != 0)
        out->imm = ntohl(wc->imm_data);
    else if ((wc->wc_flags & IBV_WC_WITH_INV) != 0)
        out->imm = wc->invalidated_rkey;
    out->src_qpn = wc->src_qp;
    out->flags = wc->wc_flags;
    out->pkey_index = wc->pkey_index;
    out->slid = wc->slid;
    out->sl = wc->sl;
    out->dlid_path_bits = wc->dlid_path_bits;
}

#include "extended.c"

enum { WEFT_POLL_BATCH = 32 };

/*
 * Polls once, in batches, until out is full or the queue empty. A failed poll is EIO: no more is promised of what the
 * driver returns than that it is negative, and mlx5's -2 is no errno.
 */
static int weft_cq_poll_once(struct weft_cq *cq, struct weft_wc *out, uint32_t max)
{
    struct ibv_wc wcs[WEFT_POLL_BATCH];
    uint32_t done = 0;

    if (cq->extended != NULL)
        return weft_cq_poll_extended(cq, out, NULL, max);
    while (done < max) {
        int want = max - done < WEFT_POLL_BATCH ? (int)(max - done) : WEFT_POLL_BATCH;
        int n = ibv_poll_cq(cq->cq, want, wcs);
        if (n < 0)
            return done > 0 ? (int)done : -EIO; /* an error that persists comes again at the next call */
        for (int i = 0; i < n; i++) {
            weft_wc_fill(&out[done + (uint32_t)i], &wcs[i]);
            if (wcs[i].status != IBV_WC_SUCCESS)
                weft_cq_failed(cq, &wcs[i]);
        }
        done += (uint32_t)n;
        if (n < want)
            break;
    }
    return (int)done;
}

/*
 * Between two readings of the clock, each of which costs as much as several polls of an empty queue and, in an emulated
 * machine, takes a lock that all its processors share.
 */
enum { WEFT_SPIN_POLLS = 8 };

/* A word that no longer has the value was ends it. */
static int weft_cq_poll_again(struct weft_cq *cq, struct weft_wc *wcs, uint32_t max, uint32_t spin_ns,
                              const uint64_t *word, uint64_t was)
{
    uint64_t until = weft_now_ns() + (spin_ns < WEFT_MAX_SPIN_NS ? spin_ns : WEFT_MAX_SPIN_NS);
    do {
        for (int i = 0; i < WEFT_SPIN_POLLS; i++) {
            int n = weft_cq_poll_once(cq, wcs, max);
            if (n != 0)
                return n;
        }
    } while (__atomic_load_n(word, __ATOMIC_RELAXED) == was && weft_now_ns() < until);
    return 0;
}

void weft_cq_poll(weft_handle handle, struct weft_wc *wcs, uint32_t max, uint32_t spin_ns, int32_t *polled)
{
    struct weft_cq *cq = (struct weft_cq *)handle;
    static const uint64_t never;
    *polled = weft_cq_poll_once(cq, wcs, max);
    if (*polled == 0 && spin_ns != 0)
        *polled = weft_cq_poll_again(cq, wcs, max, spin_ns, &never, never);
}

void weft_cq_poll_while(weft_handle handle, struct weft_wc *wcs, uint32_t max, uint32_t spin_ns, const uint64_t *word,
                        uint64_t was, int32_t *polled)
{
    struct weft_cq *cq = (struct weft_cq *)handle;
    *polled = weft_cq_poll_once(cq, wcs, max);
    if (*polled == 0)
        *polled = weft_cq_poll_again(cq, wcs, max, spin_ns, word, was);
}
