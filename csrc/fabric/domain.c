/* Fabrics and domains, and what every object of libfabric has. */

/* A region as posts look it up by its local key; lkey is 0 where there is none. */
struct weft_fi_region {
    uint64_t addr, length;
    void *desc;
    uint32_t lkey;
    uint32_t generation; /* of the last key here */
    uint32_t next;       /* index of the next free one */
};

enum { WEFT_FI_CHUNK = 1024, WEFT_FI_CHUNKS = 1024 };

/*
 * Some providers keep their own notes where an operation's context points to (FI_CONTEXT, FI_CONTEXT2). There the
 * number that names the operation is kept in a slot behind them. Slots are the domain's: a completion may be taken from
 * its queue after the endpoint was closed.
 */
struct weft_fi_slot {
    struct fi_context2 context; /* first: it leads back here */
    uint64_t id;
    struct weft_fi_slot *next;
    const struct weft_fi_ep *ep; /* NULL while the slot is free */
    uint32_t what;
};

enum {
    WEFT_FI_HIDDEN = 1, /* nobody asked for the completion */
    WEFT_FI_MANY = 2,   /* a buffer of many receives */
    WEFT_FI_SLAB = 256,
};

struct weft_fi_slab {
    struct weft_fi_slab *next;
    struct weft_fi_slot slots[WEFT_FI_SLAB];
};

/* An event queue; here because whatever reports events is bound to one. */
struct weft_fi_eq {
    struct fid_eq *eq;
    struct fid_fabric *fabric;
};

static struct fid *weft_fi_eq_fid(struct weft_fi_eq *eq)
{
    return &eq->eq->fid;
}

struct weft_fi_domain {
    struct fid_domain *domain;
    struct fid_fabric *fabric;
    uint64_t caps;
    uint64_t mode;
    uint32_t lock;                                  /* guards the table but for look-ups */
    uint32_t free;                                  /* index of a free region; 0 for none */
    uint32_t used;                                  /* regions up to here have been in use */
    struct weft_fi_region *regions[WEFT_FI_CHUNKS]; /* the table, which never moves */
    uint32_t slot_lock;
    struct weft_fi_slot *slots; /* free ones */
    struct weft_fi_slab *slabs;
};

static inline int weft_fi_has_slots(const struct weft_fi_domain *d)
{
    return (d->mode & (FI_CONTEXT | FI_CONTEXT2)) != 0;
}

/* Adds a slab; called with slot_lock. */
static void weft_fi_slab_add(struct weft_fi_domain *d)
{
    struct weft_fi_slab *slab = calloc(1, sizeof(*slab));
    if (slab == NULL)
        return;
    slab->next = d->slabs;
    d->slabs = slab;
    for (size_t i = 0; i < WEFT_FI_SLAB; i++) {
        slab->slots[i].next = d->slots;
        d->slots = &slab->slots[i];
    }
}

static struct weft_fi_slot *weft_fi_slot_take(struct weft_fi_domain *d, const struct weft_fi_ep *ep, uint64_t id,
                                              uint32_t what)
{
    weft_fi_lock(&d->slot_lock);
    if (d->slots == NULL)
        weft_fi_slab_add(d);
    struct weft_fi_slot *slot = d->slots;
    if (slot != NULL) {
        d->slots = slot->next;
        slot->id = id;
        slot->ep = ep;
        slot->what = what;
    }
    weft_fi_unlock(&d->slot_lock);
    return slot;
}

static void weft_fi_slot_give(struct weft_fi_domain *d, struct weft_fi_slot *slot)
{
    weft_fi_lock(&d->slot_lock);
    slot->ep = NULL;
    slot->next = d->slots;
    d->slots = slot;
    weft_fi_unlock(&d->slot_lock);
}

/* The slot of an operation that is under way; NULL if there is none. */
static struct weft_fi_slot *weft_fi_slot_find(struct weft_fi_domain *d, const struct weft_fi_ep *ep, uint64_t id)
{
    struct weft_fi_slot *found = NULL;
    weft_fi_lock(&d->slot_lock);
    for (struct weft_fi_slab *slab = d->slabs; slab != NULL && found == NULL; slab = slab->next) {
        for (size_t i = 0; i < WEFT_FI_SLAB && found == NULL; i++) {
            if (slab->slots[i].ep == ep && slab->slots[i].id == id)
                found = &slab->slots[i];
        }
    }
    weft_fi_unlock(&d->slot_lock);
    return found;
}

int weft_fi_fabric_open(struct fi_info *info, struct fid_fabric **fabric)
{
    return WEFT_FI_CALL(weft_fi.fi_fabric(info->fabric_attr, fabric, NULL));
}

int weft_fi_fabric_close(struct fid_fabric *fabric)
{
    return WEFT_FI_CALL(fi_close(&fabric->fid));
}

int weft_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, uint64_t flags, struct weft_fi_domain **out)
{
    struct weft_fi_domain *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return ENOMEM;
    d->fabric = fabric;
    d->caps = info->caps;
    d->mode = info->mode;
    int rc = WEFT_FI_CALL(fi_domain2(fabric, info, &d->domain, flags, d));
    if (rc == 0)
        *out = d;
    else
        free(d);
    return rc;
}

int weft_fi_domain_close(struct weft_fi_domain *d)
{
    int rc = WEFT_FI_CALL(fi_close(&d->domain->fid));
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < WEFT_FI_CHUNKS; i++)
        free(d->regions[i]);
    while (d->slabs != NULL) {
        struct weft_fi_slab *slab = d->slabs;
        d->slabs = slab->next;
        free(slab);
    }
    free(d);
    return 0;
}

void *weft_fi_domain_raw(struct weft_fi_domain *d)
{
    return d->domain;
}

int weft_fi_domain_bind(struct weft_fi_domain *d, struct weft_fi_eq *eq, uint64_t flags)
{
    return weft_fi_result(fi_domain_bind(d->domain, weft_fi_eq_fid(eq), flags));
}

int weft_fi_open_ops(void *object, const char *name, uint64_t flags, void **ops)
{
    return weft_fi_result(fi_open_ops(object, name, flags, ops, NULL));
}

int weft_fi_set_ops(void *object, const char *name, uint64_t flags, void *ops)
{
    return weft_fi_result(fi_set_ops(object, name, flags, ops, NULL));
}

int weft_fi_control(void *object, int command, void *argument)
{
    struct fid *fid = object;
    return weft_fi_result(fi_control(fid, command, argument));
}

int weft_fi_get_val(void *object, int name, void *value)
{
    return weft_fi_result(fi_get_val(object, name, value));
}

int weft_fi_set_val(void *object, int name, void *value)
{
    return weft_fi_result(fi_set_val(object, name, value));
}

static uint64_t weft_fi_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * Whether the waits of a queue or counter only yield, as they do where a provider has nothing to sleep on. Those of
 * libfabric 1.17 do not look at their time limit then; so the shim waits itself, as below.
 */
static int weft_fi_yields(struct fid *fid)
{
    enum fi_wait_obj wait = FI_WAIT_NONE;
    return fi_control(fid, FI_GETWAITOBJ, &wait) != 0 || wait == FI_WAIT_NONE || wait == FI_WAIT_YIELD;
}

/* Gives the processor away; returns whether there is time left. */
static int weft_fi_yield(uint64_t until)
{
    sched_yield();
    return weft_fi_now_ns() < until;
}

static uint64_t weft_fi_deadline(int timeout_ms)
{
    return weft_fi_now_ns() + (uint64_t)timeout_ms * 1000000;
}
