/* Completion queues. */
enum { WEFT_FI_FAILURES = 16, WEFT_FI_POLL = 64 };

struct weft_fi_cq {
    struct fid_cq *cq;
    struct weft_fi_domain *domain;
    size_t stride; /* of an entry as the queue gives it */
    int sources;   /* it tells of whom a completion is */
    int plain;     /* entries have no tag, and a context is no more than a number */
    uint32_t lock; /* of failures */
    uint32_t failed;
    struct weft_fi_failure failures[WEFT_FI_FAILURES]; /* the last ones */
};

/* Newer libraries append to this. A provider writes as much of it as the program's API version has; the rest is room.
 */
union weft_fi_cq_error {
    struct fi_cq_err_entry entry;
    uint8_t room[256];
};

static struct fid *weft_fi_cq_fid(struct weft_fi_cq *cq)
{
    return &cq->cq->fid;
}

/* Whether a context is more than a number, or a completion of what a peer did has one. */
static int weft_fi_has_notes(const struct weft_fi_domain *d)
{
    return (d->mode & (FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA)) != 0;
}

static void weft_fi_cq_format(struct weft_fi_cq *cq, int tagged)
{
    cq->stride = tagged ? sizeof(struct fi_cq_tagged_entry) : sizeof(struct fi_cq_data_entry);
    cq->sources = (cq->domain->caps & FI_SOURCE) != 0;
    cq->plain = !tagged && !weft_fi_has_notes(cq->domain);
}

int weft_fi_cq_open(struct weft_fi_domain *d, uint64_t depth, int tagged, uint32_t wait, int vector, uint64_t flags,
                    struct weft_fi_cq **out, int *fd)
{
    struct fi_cq_attr attr = {
        .size = depth,
        .flags = flags,
        .format = tagged ? FI_CQ_FORMAT_TAGGED : FI_CQ_FORMAT_DATA,
        .wait_obj = (enum fi_wait_obj)wait,
        .signaling_vector = vector,
    };
    struct weft_fi_cq *cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return ENOMEM;
    cq->domain = d;
    weft_fi_cq_format(cq, tagged);
    int rc = WEFT_FI_CALL(fi_cq_open(d->domain, &attr, &cq->cq, cq));
    if (rc == 0 && wait == FI_WAIT_FD)
        rc = weft_fi_result(fi_control(&cq->cq->fid, FI_GETWAIT, fd));
    if (rc == 0) {
        *out = cq;
        return 0;
    }
    if (cq->cq != NULL)
        (void)WEFT_FI_CALL(fi_close(&cq->cq->fid));
    free(cq);
    return rc;
}

int weft_fi_cq_close(struct weft_fi_cq *cq)
{
    int rc = WEFT_FI_CALL(fi_close(&cq->cq->fid));
    if (rc == 0)
        free(cq);
    return rc;
}

void *weft_fi_cq_raw(struct weft_fi_cq *cq)
{
    return cq->cq;
}

int weft_fi_cq_signal(struct weft_fi_cq *cq)
{
    return weft_fi_result(fi_cq_signal(cq->cq));
}

int weft_fi_trywait(struct weft_fi_domain *d, struct fid *fid)
{
    return weft_fi_result(fi_trywait(d->fabric, &fid, 1));
}

int weft_fi_cq_trywait(struct weft_fi_cq *cq)
{
    return weft_fi_trywait(cq->domain, &cq->cq->fid);
}

/*
 * Whether the operation that a completion is of was one of ours: what a peer did has no context here, unless it took a
 * receive. shm of 2.1 says of a peer's write no more than that data came with it.
 */
static inline int weft_fi_own(uint64_t flags)
{
    if ((flags & (FI_REMOTE_WRITE | FI_REMOTE_READ | FI_REMOTE_CQ_DATA)) == 0)
        return 1;
    return (flags & (FI_REMOTE_WRITE | FI_REMOTE_READ)) == 0 && (flags & (FI_SEND | FI_RECV | FI_READ | FI_WRITE)) != 0;
}

/*
 * The number of the operation whose context it is. Its slot is done with once the operation is, which for a buffer of
 * many receives is when the completion says so. Returns whether the completion is wanted.
 */
static int weft_fi_identify(struct weft_fi_cq *cq, void *context, uint64_t flags, int failed, uint64_t *id)
{
    if ((cq->domain->mode & FI_RX_CQ_DATA) == 0 && !weft_fi_own(flags)) {
        *id = 0;
        return 1;
    }
    *id = (uint64_t)(uintptr_t)context;
    if (context == NULL || !weft_fi_has_slots(cq->domain))
        return 1;
    struct weft_fi_slot *slot = context;
    int wanted = failed || (slot->what & WEFT_FI_HIDDEN) == 0;
    *id = slot->id;
    if (failed || (slot->what & WEFT_FI_MANY) == 0 || (flags & FI_MULTI_RECV) != 0)
        weft_fi_slot_give(cq->domain, slot);
    return wanted;
}

/* Keeps what there is to know of an error beside its number, for whoever asks before as many more have come. One in
 * 2^32 has the number 0, and nothing beside it. */
static uint32_t weft_fi_keep(struct weft_fi_cq *cq, const struct fi_cq_err_entry *e)
{
    weft_fi_lock(&cq->lock);
    uint32_t number = ++cq->failed;
    struct weft_fi_failure *f = &cq->failures[number % WEFT_FI_FAILURES];
    memset(f, 0, sizeof(*f));
    f->number = number;
    f->overflow = e->olen;
    f->prov_errno = e->prov_errno;
    f->data_size = e->err_data_size < sizeof(f->data) ? (uint32_t)e->err_data_size : (uint32_t)sizeof(f->data);
    if (e->err_data != NULL)
        memcpy(f->data, e->err_data, f->data_size);
    const char *text = fi_cq_strerror(cq->cq, e->prov_errno, e->err_data, NULL, 0);
    if (text != NULL)
        snprintf(f->text, sizeof(f->text), "%s", text);
    weft_fi_unlock(&cq->lock);
    return number;
}

/*
 * Takes the error that stands at the head of the queue. What the provider has more to say goes into a buffer of ours:
 * it writes to whatever err_data points to. Returns 1, 0 if there is none, or a negative errno.
 */
static int weft_fi_cq_error(struct weft_fi_cq *cq, struct weft_fi_completion *out)
{
    uint8_t data[WEFT_FI_TEXT];
    union weft_fi_cq_error error;
    memset(&error, 0, sizeof(error));
    error.entry.err_data = data;
    error.entry.err_data_size = sizeof(data);
    ssize_t rc = fi_cq_readerr(cq->cq, &error.entry, 0);
    if (rc < 0)
        return rc == -FI_EAGAIN ? 0 : (int)rc;
    const struct fi_cq_err_entry *e = &error.entry;
    out->flags = e->flags;
    out->length = e->len;
    out->addr = (uint64_t)(uintptr_t)e->buf;
    out->data = e->data;
    out->tag = e->tag;
    out->source = FI_ADDR_NOTAVAIL;
    out->err = (uint32_t)abs(e->err);
    if (out->err == 0)
        out->err = FI_EOTHER;
    out->failure = weft_fi_keep(cq, e);
    weft_fi_identify(cq, e->op_context, e->flags, 1, &out->id);
    return 1;
}

int weft_fi_cq_failure(struct weft_fi_cq *cq, uint32_t number, struct weft_fi_failure *out)
{
    weft_fi_lock(&cq->lock);
    const struct weft_fi_failure *f = &cq->failures[number % WEFT_FI_FAILURES];
    int found = number != 0 && f->number == number;
    if (found)
        *out = *f;
    weft_fi_unlock(&cq->lock);
    return found;
}

/* Entries as a queue gives them, of either format. */
struct weft_fi_entries {
    _Alignas(struct fi_cq_tagged_entry) uint8_t bytes[WEFT_FI_POLL * sizeof(struct fi_cq_tagged_entry)];
    uint64_t sources[WEFT_FI_POLL]; /* with FI_SOURCE */
};

/* Reads up to max, at most WEFT_FI_POLL. Returns what the queue does. */
static inline ssize_t weft_fi_read_entries(struct weft_fi_cq *cq, struct weft_fi_entries *entries, size_t max)
{
    if (cq->sources)
        return fi_cq_readfrom(cq->cq, entries->bytes, max, entries->sources);
    return fi_cq_read(cq->cq, entries->bytes, max);
}

WEFT_INLINE uint32_t weft_fi_move_all(struct weft_fi_cq *cq, const struct weft_fi_entries *entries, size_t stride,
                                      int sources, int identify, size_t n, struct weft_fi_completion *out)
{
    struct weft_fi_completion *to = out;
    for (size_t i = 0; i < n; i++) {
        const struct fi_cq_tagged_entry *entry = (const void *)(entries->bytes + i * stride);
        uint64_t flags = entry->flags;
        to->flags = flags;
        to->length = entry->len;
        to->addr = (uint64_t)(uintptr_t)entry->buf;
        to->data = (flags & FI_REMOTE_CQ_DATA) != 0 ? entry->data : 0;
        to->tag = stride == sizeof(*entry) ? entry->tag : 0;
        to->source = sources ? entries->sources[i] : FI_ADDR_NOTAVAIL;
        to->err = 0;
        to->failure = 0;
        if (identify) {
            to += weft_fi_identify(cq, entry->op_context, flags, 0, &to->id);
        } else {
            to->id = weft_fi_own(flags) ? (uint64_t)(uintptr_t)entry->op_context : 0;
            to++;
        }
    }
    return (uint32_t)(to - out);
}

/*
 * Moves n entries to out; those that nobody asked for are left out. Returns how many. The loop is there once for what
 * is common, where it asks nothing for each, with sources and without, and once for the rest.
 */
WEFT_INLINE uint32_t weft_fi_move(struct weft_fi_cq *cq, const struct weft_fi_entries *entries, size_t n,
                                  struct weft_fi_completion *out)
{
    const size_t data = sizeof(struct fi_cq_data_entry);
    if (WEFT_RARELY(!cq->plain))
        return weft_fi_move_all(cq, entries, cq->stride, cq->sources, weft_fi_has_notes(cq->domain), n, out);
    return cq->sources ? weft_fi_move_all(cq, entries, data, 1, 0, n, out)
                       : weft_fi_move_all(cq, entries, data, 0, 0, n, out);
}

static inline size_t weft_fi_at_a_time(uint32_t max)
{
    return max < WEFT_FI_POLL ? max : WEFT_FI_POLL;
}

/* Reads in batches until out is full or the queue empty. */
static int weft_fi_cq_poll_once(struct weft_fi_cq *cq, struct weft_fi_completion *out, uint32_t max)
{
    struct weft_fi_entries entries;
    uint32_t done = 0;

    while (done < max) {
        size_t want = weft_fi_at_a_time(max - done);
        ssize_t n = weft_fi_read_entries(cq, &entries, want);
        if (n > 0) {
            done += weft_fi_move(cq, &entries, (size_t)n, &out[done]);
        } else if (n == -FI_EAVAIL) {
            int one = weft_fi_cq_error(cq, &out[done]);
            if (one <= 0)
                return done > 0 ? (int)done : one;
            done++;
            continue;
        } else if (n < 0 && n != -FI_EAGAIN) {
            return done > 0 ? (int)done : (int)n; /* an error that persists comes again at the next call */
        }
        if (n < (ssize_t)want)
            break;
    }
    return (int)done;
}

/* How long to poll an empty queue again: for ns, while *word is was. */
struct weft_fi_spin {
    uint32_t ns;
    const uint64_t *word;
    uint64_t was;
};

static const uint64_t weft_fi_never;

static __attribute__((noinline)) int weft_fi_cq_spin(struct weft_fi_cq *cq, struct weft_fi_completion *out,
                                                     uint32_t max, struct weft_fi_spin spin)
{
    int n = weft_fi_cq_poll_once(cq, out, max);
    if (n != 0 || spin.ns == 0)
        return n;
    uint64_t until = weft_fi_now_ns() + (spin.ns < WEFT_FI_MAX_SPIN_NS ? spin.ns : WEFT_FI_MAX_SPIN_NS);
    do {
        n = weft_fi_cq_poll_once(cq, out, max);
    } while (n == 0 && __atomic_load_n(spin.word, __ATOMIC_RELAXED) == spin.was && weft_fi_now_ns() < until);
    return n;
}

/* What weft_fi_cq_poll does; the read that there mostly is one of is part of whoever calls this. */
WEFT_INLINE int weft_fi_poll(struct weft_fi_cq *cq, struct weft_fi_completion *out, uint32_t max,
                             struct weft_fi_spin spin)
{
    struct weft_fi_entries entries;
    size_t want = weft_fi_at_a_time(max);
    if (max == 0) { /* progress alone */
        ssize_t rc = fi_cq_read(cq->cq, NULL, 0);
        return rc < 0 && rc != -FI_EAGAIN && rc != -FI_EAVAIL ? (int)rc : 0;
    }
    ssize_t n = weft_fi_read_entries(cq, &entries, want);
    if (n <= 0) {
        if (n < 0 && n != -FI_EAGAIN && n != -FI_EAVAIL)
            return (int)n;
        return n != -FI_EAVAIL && spin.ns == 0 ? 0 : weft_fi_cq_spin(cq, out, max, spin);
    }
    int done = (int)weft_fi_move(cq, &entries, (size_t)n, out);
    if (WEFT_RARELY(done == 0)) /* nobody asked for these */
        return weft_fi_cq_spin(cq, out, max, spin);
    if (WEFT_RARELY(n == WEFT_FI_POLL && done < (int)max)) {
        int more = weft_fi_cq_poll_once(cq, &out[done], max - (uint32_t)done);
        return more > 0 ? done + more : done;
    }
    return done;
}

int weft_fi_cq_poll(weft_fi_number number, struct weft_fi_completion *out, uint32_t max, uint32_t spin_ns)
{
    return weft_fi_cq_poll_while(number, out, max, spin_ns, &weft_fi_never, weft_fi_never);
}

int weft_fi_cq_poll_while(weft_fi_number number, struct weft_fi_completion *out, uint32_t max, uint32_t spin_ns,
                          const uint64_t *word, uint64_t was)
{
    struct weft_fi_cq *cq = (struct weft_fi_cq *)number;
    struct weft_fi_spin spin = {spin_ns, word, was};
    return weft_fi_poll(cq, out, max, spin);
}

int weft_fi_cq_look(struct weft_fi_cq *cq)
{
    ssize_t rc = fi_cq_read(cq->cq, NULL, 0);
    if (rc == -FI_EAGAIN)
        return 0;
    return rc < 0 && rc != -FI_EAVAIL ? (int)rc : 1;
}

int weft_fi_cq_wait(struct weft_fi_cq *cq, struct weft_fi_completion *out, uint32_t max, int timeout_ms)
{
    struct weft_fi_entries entries;
    size_t want = weft_fi_at_a_time(max);
    if (weft_fi_yields(&cq->cq->fid)) {
        uint64_t until = weft_fi_deadline(timeout_ms);
        int done;
        do {
            done = weft_fi_cq_poll_once(cq, out, max);
        } while (done == 0 && weft_fi_yield(until));
        return done;
    }
    ssize_t n = cq->sources ? fi_cq_sreadfrom(cq->cq, entries.bytes, want, entries.sources, NULL, timeout_ms)
                            : fi_cq_sread(cq->cq, entries.bytes, want, NULL, timeout_ms);
    if (n > 0)
        return (int)weft_fi_move(cq, &entries, (size_t)n, out);
    if (n == -FI_EAVAIL)
        return weft_fi_cq_error(cq, out);
    return n == -FI_EAGAIN || n == -FI_ETIMEDOUT || n == -FI_EINTR || n == -FI_ECANCELED ? 0 : (int)n;
}
