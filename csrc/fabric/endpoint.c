/* Endpoints: how they are opened, bound to what they need, and enabled. */
enum { WEFT_FI_SENDS, WEFT_FI_RECVS, WEFT_FI_COUNTERS = 6 };
enum { WEFT_FI_ONLY_SENDS = 1, WEFT_FI_ONLY_RECVS };

struct weft_fi_ep {
    struct fid_ep *ep;
    struct weft_fi_domain *domain;
    struct weft_fi_av *av;     /* NULL for a connected endpoint */
    struct weft_fi_cq *cqs[2]; /* of its sends and its receives; NULL without */
    struct fid_cntr *counters[WEFT_FI_COUNTERS];
    uint32_t num_counters;
    uint32_t selective; /* completions of sends, and of receives, are only those asked for */
    uint64_t caps;
    uint32_t kinds; /* bits of enum weft_fi_kind: what can be posted */
    uint64_t inject_size;
    uint64_t max_msg_size;
    uint32_t tx_iov_limit, rx_iov_limit;
    uint32_t only;      /* it is a context: of sends, or of receives */
    int anyone;         /* receives for several endpoints, whose addresses are not known here, are from anyone */
    uint64_t crossings; /* calls from Go that posted */
    uint32_t lock;      /* guards groups */
    struct weft_fi_group *groups;
};

/* A multicast group that the endpoint joined. */
struct weft_fi_group {
    struct fid_mc *mc;
    struct weft_fi_ep *ep;
    struct weft_fi_group *next;
};

static struct fid *weft_fi_ep_fid(struct weft_fi_ep *ep)
{
    return &ep->ep->fid;
}

/* How many segments the shim itself makes a list of. */
enum { WEFT_FI_IOV = 16 };

static uint32_t weft_fi_iov_limit(size_t limit)
{
    return limit == 0 ? 1 : limit < WEFT_FI_IOV ? (uint32_t)limit : WEFT_FI_IOV;
}

static uint32_t weft_fi_kinds(uint64_t caps)
{
    static const uint64_t needed[] = {
        [WEFT_FI_SEND] = FI_MSG | FI_SEND,     [WEFT_FI_RECV] = FI_MSG | FI_RECV,
        [WEFT_FI_TSEND] = FI_TAGGED | FI_SEND, [WEFT_FI_TRECV] = FI_TAGGED | FI_RECV,
        [WEFT_FI_WRITE] = FI_RMA | FI_WRITE,   [WEFT_FI_READ] = FI_RMA | FI_READ,
    };
    uint32_t kinds = 0;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        kinds |= (caps & needed[i]) == needed[i] ? 1u << i : 0;
    return kinds;
}

/* What can be posted to an endpoint that was opened: a context has the calls of one direction, a shared one no RMA. */
static void weft_fi_ep_opened(struct weft_fi_ep *ep)
{
    uint32_t sends = 1u << WEFT_FI_SEND | 1u << WEFT_FI_TSEND | 1u << WEFT_FI_WRITE | 1u << WEFT_FI_READ;
    uint32_t receives = 1u << WEFT_FI_RECV | 1u << WEFT_FI_TRECV;
    if (ep->ep->msg == NULL)
        ep->kinds &= ~(1u << WEFT_FI_SEND | 1u << WEFT_FI_RECV);
    if (ep->ep->tagged == NULL)
        ep->kinds &= ~(1u << WEFT_FI_TSEND | 1u << WEFT_FI_TRECV);
    if (ep->ep->rma == NULL)
        ep->kinds &= ~(1u << WEFT_FI_WRITE | 1u << WEFT_FI_READ);
    if (ep->only == WEFT_FI_ONLY_SENDS)
        ep->kinds &= sends;
    if (ep->only == WEFT_FI_ONLY_RECVS)
        ep->kinds &= receives;
}

/* An endpoint, or a context of one, with what its info promises. */
static struct weft_fi_ep *weft_fi_ep_made(struct weft_fi_domain *d, const struct fi_info *info)
{
    struct weft_fi_ep *ep = calloc(1, sizeof(*ep));
    if (ep == NULL)
        return NULL;
    ep->domain = d;
    ep->caps = info->caps;
    ep->kinds = weft_fi_kinds(info->caps);
    ep->inject_size = info->tx_attr->inject_size;
    ep->max_msg_size = info->ep_attr->max_msg_size;
    ep->tx_iov_limit = weft_fi_iov_limit(info->tx_attr->iov_limit);
    ep->rx_iov_limit = weft_fi_iov_limit(info->rx_attr->iov_limit);
    return ep;
}

/* Puts a source address of one's own into an info; NULL leaves it as it is. */
static struct fi_info *weft_fi_named(struct fi_info *info, const char *name)
{
    struct fi_info *own = weft_fi.fi_dupinfo(info);
    if (own == NULL || name == NULL)
        return own;
    free(own->src_addr);
    own->src_addr = strdup(name);
    own->src_addrlen = own->src_addr != NULL ? strlen(name) + 1 : 0;
    own->handle = info->handle;
    if (own->src_addr == NULL) {
        weft_fi.fi_freeinfo(own);
        return NULL;
    }
    return own;
}

int weft_fi_ep_open(struct weft_fi_domain *d, struct fi_info *info, const char *name, uint64_t flags,
                    struct weft_fi_ep **out)
{
    struct weft_fi_ep *ep = weft_fi_ep_made(d, info);
    struct fi_info *own = name != NULL ? weft_fi_named(info, name) : info;
    int rc = ENOMEM;
    if (ep != NULL && own != NULL) {
        rc = WEFT_FI_CALL(fi_endpoint2(d->domain, own, &ep->ep, flags, ep));
    }
    if (own != info && own != NULL)
        weft_fi.fi_freeinfo(own);
    if (rc == 0) {
        weft_fi_ep_opened(ep);
        *out = ep;
    } else {
        free(ep);
    }
    return rc;
}

int weft_fi_ep_close(struct weft_fi_ep *ep)
{
    int rc = WEFT_FI_CALL(fi_close(&ep->ep->fid));
    if (rc == 0)
        free(ep);
    return rc;
}

void *weft_fi_ep_raw(struct weft_fi_ep *ep)
{
    return ep->ep;
}

int weft_fi_ep_bind_av(struct weft_fi_ep *ep, struct weft_fi_av *av)
{
    ep->av = av;
    return weft_fi_result(fi_ep_bind(ep->ep, &av->av->fid, 0));
}

int weft_fi_ep_bind_eq(struct weft_fi_ep *ep, struct weft_fi_eq *eq)
{
    return weft_fi_result(fi_ep_bind(ep->ep, weft_fi_eq_fid(eq), 0));
}

int weft_fi_ep_bind_cq(struct weft_fi_ep *ep, struct weft_fi_cq *cq, uint64_t flags)
{
    if ((flags & FI_TRANSMIT) != 0)
        ep->cqs[WEFT_FI_SENDS] = cq;
    if ((flags & FI_RECV) != 0)
        ep->cqs[WEFT_FI_RECVS] = cq;
    if ((flags & FI_SELECTIVE_COMPLETION) != 0)
        ep->selective |= (flags & FI_TRANSMIT) != 0 ? 1u << WEFT_FI_SENDS : 1u << WEFT_FI_RECVS;
    return weft_fi_result(fi_ep_bind(ep->ep, weft_fi_cq_fid(cq), flags));
}

int weft_fi_ep_bind_counter(struct weft_fi_ep *ep, struct fid_cntr *counter, uint64_t flags)
{
    if (ep->num_counters == WEFT_FI_COUNTERS)
        return ENOSPC;
    int rc = weft_fi_result(fi_ep_bind(ep->ep, &counter->fid, flags));
    if (rc == 0)
        ep->counters[ep->num_counters++] = counter;
    return rc;
}

int weft_fi_ep_enable(struct weft_fi_ep *ep)
{
    return WEFT_FI_CALL(fi_enable(ep->ep));
}

/* Cancels the operation of that number. */
int weft_fi_ep_cancel(struct weft_fi_ep *ep, uint64_t id)
{
    void *context = (void *)(uintptr_t)id;
    if (weft_fi_has_slots(ep->domain)) {
        context = weft_fi_slot_find(ep->domain, ep, id);
        if (context == NULL)
            return ENOENT;
    }
    return weft_fi_result(fi_cancel(&ep->ep->fid, context));
}

/* An endpoint of the same hardware queues, whose operations have other flags by default. */
int weft_fi_ep_alias(struct weft_fi_ep *ep, uint64_t flags, struct weft_fi_ep **out)
{
    struct weft_fi_ep *alias = calloc(1, sizeof(*alias));
    if (alias == NULL)
        return ENOMEM;
    *alias = *ep;
    alias->crossings = 0;
    int rc = WEFT_FI_CALL(fi_ep_alias(ep->ep, &alias->ep, flags));
    if (rc == 0)
        *out = alias;
    else
        free(alias);
    return rc;
}

uint64_t weft_fi_ep_crossings(struct weft_fi_ep *ep)
{
    return __atomic_load_n(&ep->crossings, __ATOMIC_RELAXED);
}

/* The counter has one writer as a rule; where it has two, a call may go uncounted, and costs no more for it. */
static void weft_fi_crossed(uint64_t *crossings)
{
    __atomic_store_n(crossings, __atomic_load_n(crossings, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}
