/* Address handles: where they lead, and how posts find them. */
static struct ibv_ah_attr weft_ah_attr(const struct weft_ah_attr *in)
{
    struct ibv_ah_attr attr;
    memset(&attr, 0, sizeof(attr));
    memcpy(attr.grh.dgid.raw, in->gid, sizeof(in->gid));
    attr.grh.flow_label = in->flow_label;
    attr.grh.sgid_index = in->gid_index;
    attr.grh.hop_limit = in->hop_limit;
    attr.grh.traffic_class = in->traffic_class;
    attr.dlid = in->lid;
    attr.sl = in->service_level;
    attr.is_global = in->is_global;
    attr.port_num = in->port;
    attr.static_rate = in->static_rate;
    attr.src_path_bits = in->src_path_bits;
    return attr;
}

static struct weft_ah_attr weft_ah_attr_out(const struct ibv_ah_attr *attr)
{
    struct weft_ah_attr out = {
        .flow_label = attr->grh.flow_label,
        .lid = attr->dlid,
        .is_global = attr->is_global,
        .gid_index = attr->grh.sgid_index,
        .hop_limit = attr->grh.hop_limit,
        .traffic_class = attr->grh.traffic_class,
        .service_level = attr->sl,
        .port = attr->port_num,
        .static_rate = attr->static_rate,
        .src_path_bits = attr->src_path_bits,
    };
    memcpy(out.gid, attr->grh.dgid.raw, sizeof(out.gid));
    return out;
}

/*
 * Address handles, and the table by which posts find them. A work request names its handle by a reference: a place of
 * the table and the generation of what is there. So the reference of a handle that was destroyed is refused, though its
 * place, or its memory, has another handle by now, until 2^32 others have had the place; once as many had it, a
 * reference from before may be refused as one that never was. The table is one for the process: what it has in place of
 * a bound for each device is a look at the device of the handle.
 */
struct weft_ah_place {
    uint64_t ref; /* 0 while no handle is here for posts to find */
    struct ibv_ah *ah;
    struct ibv_context *context;
    uint32_t generation;
    uint32_t next; /* of the places that are free */
};

enum { WEFT_AH_CHUNK = 1024, WEFT_AH_CHUNKS = 4096 };

static struct {
    uint32_t lock; /* guards free and used */
    uint32_t free, used;
    struct weft_ah_place *chunks[WEFT_AH_CHUNKS]; /* never freed: posts look without the lock */
} weft_ahs;

/* The place that a reference names, NULL where no handle ever was. */
static inline struct weft_ah_place *weft_ah_place(uint64_t ref)
{
    uint32_t index = (uint32_t)ref;
    if (index >= WEFT_AH_CHUNK * WEFT_AH_CHUNKS)
        return NULL;
    struct weft_ah_place *chunk = __atomic_load_n(&weft_ahs.chunks[index / WEFT_AH_CHUNK], __ATOMIC_ACQUIRE);
    return chunk != NULL ? &chunk[index % WEFT_AH_CHUNK] : NULL;
}

/* The handle that a post on the context refers to. */
static enum weft_bad_wr weft_ah_find(const struct ibv_context *context, uint64_t ref, struct ibv_ah **ah)
{
    const struct weft_ah_place *place = weft_ah_place(ref);
    uint32_t generation = (uint32_t)(ref >> 32);
    if (generation == 0 || place == NULL || generation > __atomic_load_n(&place->generation, __ATOMIC_RELAXED))
        return WEFT_BAD_AH;
    if (__atomic_load_n(&place->ref, __ATOMIC_ACQUIRE) != ref)
        return WEFT_BAD_AH_CLOSED;
    *ah = place->ah;
    return place->context == context ? 0 : WEFT_BAD_AH;
}

/* Takes a free place, NULL if there is none; with the lock. */
static struct weft_ah_place *weft_ah_take(uint32_t *index)
{
    *index = weft_ahs.free;
    if (*index != 0) {
        struct weft_ah_place *place = weft_ah_place(*index);
        weft_ahs.free = place->next;
        return place;
    }
    *index = weft_ahs.used + 1; /* 0 stays empty */
    if (*index >= WEFT_AH_CHUNK * WEFT_AH_CHUNKS)
        return NULL;
    if (weft_ah_place(*index) == NULL) {
        struct weft_ah_place *chunk = calloc(WEFT_AH_CHUNK, sizeof(*chunk));
        if (chunk == NULL)
            return NULL;
        __atomic_store_n(&weft_ahs.chunks[*index / WEFT_AH_CHUNK], chunk, __ATOMIC_RELEASE);
    }
    weft_ahs.used = *index;
    return weft_ah_place(*index);
}

/* Shows a handle to posts; its reference, or 0 without a place. */
static uint64_t weft_ah_add(struct ibv_ah *ah)
{
    uint64_t ref = 0;
    uint32_t index;
    weft_lock(&weft_ahs.lock);
    struct weft_ah_place *place = weft_ah_take(&index);
    if (place != NULL) {
        place->ah = ah;
        place->context = ah->context;
        uint32_t generation = place->generation + 1 != 0 ? place->generation + 1 : 1;
        __atomic_store_n(&place->generation, generation, __ATOMIC_RELAXED);
        ref = (uint64_t)generation << 32 | index;
        __atomic_store_n(&place->ref, ref, __ATOMIC_RELEASE);
    }
    weft_unlock(&weft_ahs.lock);
    return ref;
}

/* Gives back the place of a handle that is gone. */
static void weft_ah_remove(uint64_t ref)
{
    weft_lock(&weft_ahs.lock);
    weft_ah_place(ref)->next = weft_ahs.free;
    weft_ahs.free = (uint32_t)ref;
    weft_unlock(&weft_ahs.lock);
}

int weft_ah_create(struct ibv_pd *pd, const struct weft_ah_attr *in, struct ibv_ah **ah, uint64_t *ref)
{
    struct ibv_ah_attr attr = weft_ah_attr(in);
    errno = 0;
    *ah = WEFT_IBV(pd)->ibv_create_ah(pd, &attr);
    if (*ah == NULL)
        return weft_errno();
    *ref = weft_ah_add(*ah);
    if (*ref != 0)
        return 0;
    WEFT_IBV(*ah)->ibv_destroy_ah(*ah);
    *ah = NULL;
    return ENOSPC;
}

int weft_ah_destroy(struct ibv_ah *ah, uint64_t ref)
{
    struct weft_ah_place *place = weft_ah_place(ref);
    __atomic_store_n(&place->ref, 0, __ATOMIC_RELEASE); /* first: no post finds what is being freed */
    int rc = WEFT_CALL(WEFT_IBV(ah)->ibv_destroy_ah(ah));
    if (rc == 0)
        weft_ah_remove(ref);
    else
        __atomic_store_n(&place->ref, ref, __ATOMIC_RELEASE);
    return rc;
}

int weft_ah_from_wc(struct ibv_context *context, uint8_t port, const struct weft_wc *in, const uint8_t *grh,
                    struct weft_ah_attr *out)
{
    struct ibv_grh header; /* the buffer that it comes from need not be aligned */
    memcpy(&header, grh, sizeof(header));
    struct ibv_wc wc = {.wc_flags = in->flags,
                        .slid = in->slid,
                        .sl = in->sl,
                        .dlid_path_bits = in->dlid_path_bits,
                        .src_qp = in->src_qpn};
    struct ibv_ah_attr attr;
    memset(&attr, 0, sizeof(attr));
    int rc = WEFT_CALL(weft_ibv_of(context)->ibv_init_ah_from_wc(context, port, &wc, &header, &attr));
    if (rc != 0)
        return rc;
    *out = weft_ah_attr_out(&attr);
    return 0;
}

int weft_ah_resolve(struct ibv_context *context, const struct weft_ah_attr *in, uint8_t *mac, uint16_t *vlan)
{
    struct ibv_ah_attr attr = weft_ah_attr(in);
    if (weft_ibv_of(context)->ibv_resolve_eth_l2_from_gid == NULL)
        return EOPNOTSUPP;
    return WEFT_CALL(weft_ibv_of(context)->ibv_resolve_eth_l2_from_gid(context, &attr, mac, vlan));
}
