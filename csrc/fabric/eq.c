/* Event queues: what happens to connections, beside the data. */
int weft_fi_eq_open(struct fid_fabric *fabric, uint64_t depth, uint32_t wait, struct weft_fi_eq **out, int *fd)
{
    /* Events can be put into it by its owner, too. */
    struct fi_eq_attr attr = {.size = depth, .flags = FI_WRITE, .wait_obj = (enum fi_wait_obj)wait};
    struct weft_fi_eq *eq = calloc(1, sizeof(*eq));
    if (eq == NULL)
        return ENOMEM;
    eq->fabric = fabric;
    int rc = WEFT_FI_CALL(fi_eq_open(fabric, &attr, &eq->eq, eq));
    if (rc == 0 && wait == FI_WAIT_FD)
        rc = weft_fi_result(fi_control(&eq->eq->fid, FI_GETWAIT, fd));
    if (rc == 0) {
        *out = eq;
        return 0;
    }
    if (eq->eq != NULL)
        (void)WEFT_FI_CALL(fi_close(&eq->eq->fid));
    free(eq);
    return rc;
}

int weft_fi_eq_close(struct weft_fi_eq *eq)
{
    int rc = WEFT_FI_CALL(fi_close(&eq->eq->fid));
    if (rc == 0)
        free(eq);
    return rc;
}

void *weft_fi_eq_raw(struct weft_fi_eq *eq)
{
    return eq->eq;
}

int weft_fi_eq_trywait(struct weft_fi_eq *eq)
{
    struct fid *fid = &eq->eq->fid;
    return weft_fi_result(fi_trywait(eq->fabric, &fid, 1));
}

/* Takes the error that stands at the head of the queue; EAGAIN without one. */
static int weft_fi_eq_error(struct weft_fi_eq *eq, struct weft_fi_event *out)
{
    struct fi_eq_err_entry e;
    uint8_t data[WEFT_FI_ADDR];
    memset(&e, 0, sizeof(e));
    e.err_data = data;
    e.err_data_size = sizeof(data);
    ssize_t rc = fi_eq_readerr(eq->eq, &e, 0);
    if (rc < 0)
        return (int)-rc;
    out->object = (uint64_t)(uintptr_t)e.fid;
    out->context = (uint64_t)(uintptr_t)e.context;
    out->data = e.data;
    out->err = e.err != 0 ? (uint32_t)abs(e.err) : FI_EOTHER;
    out->prov_errno = e.prov_errno;
    if (e.err_data != NULL && e.err_data_size <= sizeof(out->param)) { /* a reject's parameters */
        out->param_len = (uint32_t)e.err_data_size;
        memcpy(out->param, e.err_data, e.err_data_size);
    }
    const char *text = fi_eq_strerror(eq->eq, e.prov_errno, e.err_data, NULL, 0);
    if (text != NULL)
        snprintf(out->text, sizeof(out->text), "%s", text);
    return 0;
}

/* Connection events have another layout than the rest. */
union weft_fi_eq_entry {
    struct fi_eq_entry plain;
    struct fi_eq_cm_entry cm;
    uint8_t room[sizeof(struct fi_eq_cm_entry) + WEFT_FI_ADDR];
};

static void weft_fi_eq_fill(struct weft_fi_event *out, uint32_t type, const union weft_fi_eq_entry *entry, size_t size)
{
    out->type = type;
    if (type != FI_CONNREQ && type != FI_CONNECTED && type != FI_SHUTDOWN) {
        out->object = (uint64_t)(uintptr_t)entry->plain.fid;
        out->context = (uint64_t)(uintptr_t)entry->plain.context;
        out->data = entry->plain.data;
        return;
    }
    out->object = (uint64_t)(uintptr_t)entry->cm.fid;
    out->info = type == FI_CONNREQ ? (uint64_t)(uintptr_t)entry->cm.info : 0;
    out->param_len = size > sizeof(entry->cm) ? (uint32_t)(size - sizeof(entry->cm)) : 0;
    memcpy(out->param, entry->cm.data, out->param_len);
}

static int weft_fi_eq_got(struct weft_fi_eq *eq, ssize_t n, uint32_t type, const union weft_fi_eq_entry *entry,
                          struct weft_fi_event *out)
{
    memset(out, 0, sizeof(*out));
    if (n == -FI_EAVAIL)
        return weft_fi_eq_error(eq, out);
    if (n < 0)
        return n == -FI_ETIMEDOUT || n == -FI_EINTR ? EAGAIN : (int)-n;
    weft_fi_eq_fill(out, type, entry, (size_t)n < sizeof(*entry) ? (size_t)n : sizeof(*entry));
    return 0;
}

int weft_fi_eq_read(struct weft_fi_eq *eq, struct weft_fi_event *out)
{
    union weft_fi_eq_entry entry;
    uint32_t type = 0;
    ssize_t n = fi_eq_read(eq->eq, &type, &entry, sizeof(entry), 0);
    return weft_fi_eq_got(eq, n, type, &entry, out);
}

int weft_fi_eq_wait(struct weft_fi_eq *eq, struct weft_fi_event *out, int timeout_ms)
{
    union weft_fi_eq_entry entry;
    uint32_t type = 0;
    if (!weft_fi_yields(&eq->eq->fid)) {
        ssize_t n = fi_eq_sread(eq->eq, &type, &entry, sizeof(entry), timeout_ms, 0);
        return weft_fi_eq_got(eq, n, type, &entry, out);
    }
    uint64_t until = weft_fi_deadline(timeout_ms);
    int rc;
    do {
        rc = weft_fi_eq_read(eq, out);
    } while (rc == EAGAIN && weft_fi_yield(until));
    return rc;
}

int weft_fi_eq_write(struct weft_fi_eq *eq, uint32_t type, uint64_t context, uint64_t data)
{
    struct fi_eq_entry entry = {.fid = &eq->eq->fid, .context = (void *)(uintptr_t)context, .data = data};
    return weft_fi_result(fi_eq_write(eq->eq, type, &entry, sizeof(entry), 0));
}
