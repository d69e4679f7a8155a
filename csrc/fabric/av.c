/* Address vectors. What was inserted is kept as bits, so that no post hands a provider an address that it does not
 * have. */
enum { WEFT_FI_PEERS = 1 << 16, WEFT_FI_PEER_CHUNKS = 1 << 10 };

/*
 * The insertion of an address that reports to an event queue. The provider writes peer at some time before the event;
 * the context of the event is where this record is. It stays in its address vector's list until the event is read, and
 * only what is in that list is taken for a record.
 */
struct weft_fi_insertion {
    uint64_t peer;
    uint64_t id;
    struct weft_fi_insertion *next;
};

struct weft_fi_av {
    struct fid_av *av;
    struct weft_fi_domain *domain;
    uint32_t insertions_lock;
    struct weft_fi_insertion *insertions; /* under way */
    uint32_t lock;
    uint64_t mask; /* of an address, without the highest bits, which name a receive context */
    uint64_t *known[WEFT_FI_PEER_CHUNKS];
};

static inline int weft_fi_known(const struct weft_fi_av *av, uint64_t peer)
{
    peer &= av->mask;
    if (peer >= (uint64_t)WEFT_FI_PEERS * WEFT_FI_PEER_CHUNKS)
        return 0;
    const uint64_t *bits = __atomic_load_n(&av->known[peer / WEFT_FI_PEERS], __ATOMIC_ACQUIRE);
    return bits != NULL && (bits[peer % WEFT_FI_PEERS / 64] >> peer % 64 & 1) != 0;
}

/* Notes that an address is there, or no longer is. */
static int weft_fi_note(struct weft_fi_av *av, uint64_t peer, int present)
{
    if (peer >= (uint64_t)WEFT_FI_PEERS * WEFT_FI_PEER_CHUNKS)
        return EOVERFLOW;
    weft_fi_lock(&av->lock);
    uint64_t *bits = av->known[peer / WEFT_FI_PEERS];
    if (bits == NULL && present) {
        bits = calloc(WEFT_FI_PEERS / 64, sizeof(*bits));
        __atomic_store_n(&av->known[peer / WEFT_FI_PEERS], bits, __ATOMIC_RELEASE);
    }
    if (bits != NULL) {
        uint64_t bit = 1ULL << peer % 64, *word = &bits[peer % WEFT_FI_PEERS / 64];
        __atomic_store_n(word, present ? *word | bit : *word & ~bit, __ATOMIC_RELAXED);
    }
    weft_fi_unlock(&av->lock);
    return bits != NULL || !present ? 0 : ENOMEM;
}

int weft_fi_av_open(struct weft_fi_domain *d, uint64_t count, uint32_t rx_bits, struct weft_fi_eq *eq,
                    struct weft_fi_av **out)
{
    /* A table's addresses are indexes; those of a map may be pointers, which cannot be checked. */
    struct fi_av_attr attr = {
        .type = FI_AV_TABLE, .count = count, .rx_ctx_bits = (int)rx_bits, .flags = eq != NULL ? FI_EVENT : 0};
    struct weft_fi_av *av = calloc(1, sizeof(*av));
    if (av == NULL)
        return ENOMEM;
    av->domain = d;
    av->mask = UINT64_MAX >> rx_bits;
    int rc = WEFT_FI_CALL(fi_av_open(d->domain, &attr, &av->av, av));
    if (rc == 0 && eq != NULL) {
        rc = weft_fi_result(
            av->av->fid.ops->bind(&av->av->fid, weft_fi_eq_fid(eq), 0)); // fi_av_bind, which 2.x deprecates
        if (rc != 0)
            (void)WEFT_FI_CALL(fi_close(&av->av->fid));
    }
    if (rc == 0)
        *out = av;
    else
        free(av);
    return rc;
}

int weft_fi_av_close(struct weft_fi_av *av)
{
    int rc = WEFT_FI_CALL(fi_close(&av->av->fid));
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < WEFT_FI_PEER_CHUNKS; i++)
        free(av->known[i]);
    while (av->insertions != NULL) { /* their events were not read */
        struct weft_fi_insertion *one = av->insertions;
        av->insertions = one->next;
        free(one);
    }
    free(av);
    return 0;
}

void *weft_fi_av_raw(struct weft_fi_av *av)
{
    return av->av;
}

/* How the insertion of one address ended, of which the provider says that it made n; *peer is then set. */
static int weft_fi_inserted(struct weft_fi_av *av, int n, uint64_t peer, int why)
{
    if (n < 0)
        return -n;
    if (n == 0 || peer == FI_ADDR_NOTAVAIL)
        return why != 0 ? abs(why) : EINVAL;
    return weft_fi_note(av, peer, 1);
}

static int weft_fi_insert_one(struct weft_fi_av *av, const uint8_t *address, uint64_t flags, uint64_t *peer)
{
    int why = 0;
    *peer = FI_ADDR_NOTAVAIL;
    int done = fi_av_insert(av->av, address, 1, peer, flags | FI_SYNC_ERR, &why);
    /* Providers that do not know the flag say so by what they return, and ofi_rxd over verbs by the address's reason.
     */
    if (done == -FI_EINVAL || done == -FI_ENOSYS || done == -FI_EBADFLAGS || (done == 0 && abs(why) == FI_EINVAL)) {
        why = 0;
        done = fi_av_insert(av->av, address, 1, peer, flags, NULL);
    }
    return weft_fi_inserted(av, done, *peer, why);
}

/* One at a time: providers differ in how an array of addresses is laid out, and in what they say of the one that fails.
 */
void weft_fi_av_insert(struct weft_fi_av *av, const uint8_t *addresses, const uint32_t *ends, uint32_t n,
                       uint64_t flags, uint64_t *peers, uint32_t *errors)
{
    uint32_t start = 0;
    for (uint32_t i = 0; i < n; start = ends[i++])
        errors[i] = (uint32_t)weft_fi_insert_one(av, addresses + start, flags, &peers[i]);
}

static struct weft_fi_insertion **weft_fi_insertion_find(struct weft_fi_av *av, uint64_t record)
{
    struct weft_fi_insertion **at = &av->insertions;
    while (*at != NULL && (uint64_t)(uintptr_t)*at != record)
        at = &(*at)->next;
    return at;
}

/* Takes an insertion out of the list, if it is there. */
static struct weft_fi_insertion *weft_fi_insertion_take(struct weft_fi_av *av, uint64_t record)
{
    weft_fi_lock(&av->insertions_lock);
    struct weft_fi_insertion **at = weft_fi_insertion_find(av, record);
    struct weft_fi_insertion *found = *at;
    if (found != NULL)
        *at = found->next;
    weft_fi_unlock(&av->insertions_lock);
    return found;
}

int weft_fi_av_insert_later(struct weft_fi_av *av, const uint8_t *address, uint64_t id)
{
    struct weft_fi_insertion *one = calloc(1, sizeof(*one));
    if (one == NULL)
        return ENOMEM;
    one->peer = FI_ADDR_NOTAVAIL;
    one->id = id;
    weft_fi_lock(&av->insertions_lock);
    one->next = av->insertions;
    av->insertions = one;
    weft_fi_unlock(&av->insertions_lock);
    int rc = fi_av_insert(av->av, address, 1, &one->peer, 0, one);
    if (rc >= 0)
        return 0;
    free(weft_fi_insertion_take(av, (uint64_t)(uintptr_t)one));
    return -rc;
}

int weft_fi_av_inserted(struct weft_fi_av *av, uint64_t record, int ended, uint64_t *id, uint64_t *peer)
{
    weft_fi_lock(&av->insertions_lock);
    struct weft_fi_insertion *one = *weft_fi_insertion_find(av, record);
    if (one != NULL)
        *id = one->id;
    weft_fi_unlock(&av->insertions_lock);
    if (one == NULL)
        return ENOENT;
    if (!ended)
        return 0;
    one = weft_fi_insertion_take(av, record);
    if (one == NULL)
        return ENOENT;
    *peer = one->peer;
    free(one);
    return *peer == FI_ADDR_NOTAVAIL ? 0 : weft_fi_note(av, *peer, 1);
}

/* An address that a provider inserts without telling it is of no use to anyone. */
int weft_fi_av_insert_service(struct weft_fi_av *av, const char *node, const char *service, uint64_t flags,
                              uint64_t *peer)
{
    *peer = FI_ADDR_NOTAVAIL;
    int n = fi_av_insertsvc(av->av, node, service, peer, flags, NULL);
    return n > 0 && *peer == FI_ADDR_NOTAVAIL ? EOPNOTSUPP : weft_fi_inserted(av, n, *peer, 0);
}

int weft_fi_av_insert_symmetric(struct weft_fi_av *av, const char *node, uint64_t nodes, const char *service,
                                uint64_t services, uint64_t flags, uint64_t *peers)
{
    for (uint64_t i = 0; i < nodes * services; i++)
        peers[i] = FI_ADDR_NOTAVAIL;
    int n = fi_av_insertsym(av->av, node, nodes, service, services, peers, flags, NULL);
    if (n < 0)
        return -n;
    int told = 0;
    for (uint64_t i = 0; i < nodes * services; i++) {
        if (peers[i] == FI_ADDR_NOTAVAIL)
            continue;
        int rc = weft_fi_note(av, peers[i], 1);
        if (rc != 0)
            return rc;
        told++;
    }
    return told >= n ? 0 : EOPNOTSUPP; /* as above */
}

int weft_fi_av_remove(struct weft_fi_av *av, uint64_t *peers, uint32_t n)
{
    uint32_t gone = 0;
    int rc = 0;
    for (; gone < n && rc == 0; gone += rc == 0) /* one that is named twice is not there the second time */
        rc = weft_fi_known(av, peers[gone]) ? weft_fi_note(av, peers[gone], 0) : ENOENT;
    if (rc == 0)
        rc = weft_fi_result(fi_av_remove(av->av, peers, n, 0));
    for (uint32_t i = 0; rc != 0 && i < gone; i++)
        weft_fi_note(av, peers[i], 1);
    return rc;
}

int weft_fi_av_lookup(struct weft_fi_av *av, uint64_t peer, uint8_t *address, uint64_t *length)
{
    if (!weft_fi_known(av, peer))
        return ENOENT;
    size_t size = *length;
    int rc = weft_fi_result(fi_av_lookup(av->av, peer, address, &size));
    *length = size;
    return rc;
}

void weft_fi_av_text(struct weft_fi_av *av, const uint8_t *address, char *out, size_t size)
{
    size_t length = size;
    out[0] = '\0';
    fi_av_straddr(av->av, address, out, &length);
    out[size - 1] = '\0';
}
