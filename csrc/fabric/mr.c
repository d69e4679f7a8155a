/* Memory regions, and the table by which posts find them. */
struct weft_fi_mr {
    struct fid_mr *mr;
    struct weft_fi_domain *domain;
    uint32_t lkey;
};

/*
 * A local key is an index of the table, and a generation of 12 bits: the key of a region that was closed is not that of
 * the next 4,095 in its place. It finds a mistake in this process; peers have other keys.
 */
enum { WEFT_FI_INDEX_BITS = 20, WEFT_FI_INDEX = (1 << WEFT_FI_INDEX_BITS) - 1 };

/* A place that is or was in use. */
static inline struct weft_fi_region *weft_fi_region(const struct weft_fi_domain *d, uint32_t lkey)
{
    uint32_t index = lkey & WEFT_FI_INDEX;
    return &d->regions[index / WEFT_FI_CHUNK][index % WEFT_FI_CHUNK];
}

/* Where a segment's memory is described to the provider; an error where it is not in an open region. */
WEFT_INLINE enum weft_fi_bad_op weft_fi_local(const struct weft_fi_domain *d, const struct weft_fi_seg *seg,
                                              void **desc)
{
    if (seg->lkey == 0 || d->regions[(seg->lkey & WEFT_FI_INDEX) / WEFT_FI_CHUNK] == NULL)
        return WEFT_FI_BAD_LKEY;
    const struct weft_fi_region *region = weft_fi_region(d, seg->lkey);
    if (__atomic_load_n(&region->lkey, __ATOMIC_ACQUIRE) != seg->lkey)
        return WEFT_FI_BAD_LKEY;
    if (seg->addr < region->addr || seg->length > region->length ||
        seg->addr - region->addr > region->length - seg->length)
        return WEFT_FI_BAD_BOUNDS;
    *desc = region->desc;
    return 0;
}

/* Takes a place in the table; 0 if there is none. */
static uint32_t weft_fi_region_take(struct weft_fi_domain *d)
{
    uint32_t index = d->free;
    if (index != 0) {
        d->free = weft_fi_region(d, index)->next;
        return index;
    }
    index = d->used + 1; /* 0 stays empty */
    if (index > WEFT_FI_INDEX)
        return 0;
    struct weft_fi_region **chunk = &d->regions[index / WEFT_FI_CHUNK];
    if (*chunk == NULL) {
        struct weft_fi_region *made = calloc(WEFT_FI_CHUNK, sizeof(*made));
        if (made == NULL)
            return 0;
        __atomic_store_n(chunk, made, __ATOMIC_RELEASE);
    }
    d->used = index;
    return index;
}

static int weft_fi_region_add(struct weft_fi_domain *d, uint64_t addr, uint64_t length, void *desc, uint32_t *lkey)
{
    weft_fi_lock(&d->lock);
    uint32_t index = weft_fi_region_take(d);
    if (index != 0) {
        struct weft_fi_region *region = weft_fi_region(d, index);
        region->addr = addr;
        region->length = length;
        region->desc = desc;
        *lkey = ++region->generation << WEFT_FI_INDEX_BITS | index;
        __atomic_store_n(&region->lkey, *lkey, __ATOMIC_RELEASE);
    }
    weft_fi_unlock(&d->lock);
    return index != 0 ? 0 : ENOSPC;
}

/* Hides a region from posts, or shows it to them again. */
static void weft_fi_region_show(struct weft_fi_domain *d, uint32_t lkey, int shown)
{
    if (lkey != 0)
        __atomic_store_n(&weft_fi_region(d, lkey)->lkey, shown ? lkey : 0, __ATOMIC_RELEASE);
}

/* Gives back the place of a region that is hidden. */
static void weft_fi_region_remove(struct weft_fi_domain *d, uint32_t lkey)
{
    if (lkey == 0)
        return;
    weft_fi_lock(&d->lock);
    weft_fi_region(d, lkey)->next = d->free;
    d->free = lkey & WEFT_FI_INDEX;
    weft_fi_unlock(&d->lock);
}

#ifdef FI_MR_DMABUF
static int weft_fi_reg_dmabuf(struct weft_fi_domain *d, const struct weft_fi_mr_attr *in, struct fi_mr_attr *attr,
                              struct fid_mr **mr)
{
    struct fi_mr_dmabuf dmabuf = {
        .fd = in->fd, .offset = in->offset, .len = in->length, .base_addr = (void *)(uintptr_t)in->addr};
    attr->dmabuf = &dmabuf;
    return weft_fi_result(fi_mr_regattr(d->domain, attr, in->flags | FI_MR_DMABUF, mr));
}
#else
static int weft_fi_reg_dmabuf(struct weft_fi_domain *d, const struct weft_fi_mr_attr *in, struct fi_mr_attr *attr,
                              struct fid_mr **mr)
{
    (void)d, (void)in, (void)attr, (void)mr;
    return EOPNOTSUPP;
}
#endif

static int weft_fi_register(struct weft_fi_domain *d, const struct weft_fi_mr_attr *in, struct fid_mr **mr)
{
    void *memory = (void *)(uintptr_t)in->addr;
    if (in->fd < 0 && in->iface == FI_HMEM_SYSTEM)
        return weft_fi_result(
            fi_mr_reg(d->domain, memory, in->length, in->access, 0, in->requested_key, in->flags, mr, NULL));
    struct iovec iov = {.iov_base = memory, .iov_len = in->length};
    struct fi_mr_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.mr_iov = &iov;
    attr.iov_count = 1;
    attr.access = in->access;
    attr.requested_key = in->requested_key;
    attr.iface = (enum fi_hmem_iface)in->iface;
    attr.device.reserved = in->device;
    if (in->fd >= 0)
        return weft_fi_reg_dmabuf(d, in, &attr, mr);
    return weft_fi_result(fi_mr_regattr(d->domain, &attr, in->flags, mr));
}

/* Wraps a region that was made, or closes it again. */
static int weft_fi_mr_made(struct weft_fi_domain *d, struct fid_mr *made, struct weft_fi_mr **out)
{
    struct weft_fi_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        fi_close(&made->fid);
        return ENOMEM;
    }
    mr->mr = made;
    mr->domain = d;
    *out = mr;
    return 0;
}

/* Where a region begins. Of a dma-buf, addr is where the whole of it is mapped. */
static uint64_t weft_fi_region_start(const struct weft_fi_mr_attr *attr)
{
    return attr->fd >= 0 ? attr->addr + attr->offset : attr->addr;
}

int weft_fi_mr_reg(struct weft_fi_domain *d, struct weft_fi_mr_attr *attr, struct weft_fi_mr **out)
{
    struct fid_mr *made;
    int rc = weft_fi_register(d, attr, &made);
    if (rc == 0)
        rc = weft_fi_mr_made(d, made, out);
    if (rc != 0)
        return rc;
    rc = weft_fi_region_add(d, weft_fi_region_start(attr), attr->length, fi_mr_desc(made), &(*out)->lkey);
    if (rc != 0) {
        fi_close(&made->fid);
        free(*out);
        return rc;
    }
    attr->requested_key = fi_mr_key(made);
    attr->lkey = (*out)->lkey;
    return 0;
}

int weft_fi_mr_regv(struct weft_fi_domain *d, const struct weft_fi_seg *segs, uint32_t n, struct weft_fi_mr_attr *attr,
                    struct weft_fi_mr **out)
{
    struct iovec *iov = calloc(n, sizeof(*iov));
    if (iov == NULL)
        return ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        iov[i] = (struct iovec){.iov_base = (void *)(uintptr_t)segs[i].addr, .iov_len = segs[i].length};
    struct fid_mr *made;
    int rc =
        weft_fi_result(fi_mr_regv(d->domain, iov, n, attr->access, 0, attr->requested_key, attr->flags, &made, NULL));
    free(iov);
    if (rc == 0)
        rc = weft_fi_mr_made(d, made, out);
    if (rc == 0)
        attr->requested_key = fi_mr_key(made);
    return rc;
}

int weft_fi_mr_close(struct weft_fi_mr *mr)
{
    weft_fi_region_show(mr->domain, mr->lkey, 0);
    int rc = weft_fi_result(fi_close(&mr->mr->fid));
    if (rc != 0) {
        weft_fi_region_show(mr->domain, mr->lkey, 1);
        return rc;
    }
    weft_fi_region_remove(mr->domain, mr->lkey);
    free(mr);
    return 0;
}

void *weft_fi_mr_raw(struct weft_fi_mr *mr)
{
    return mr->mr;
}

uint64_t weft_fi_mr_key(struct weft_fi_mr *mr)
{
    return fi_mr_key(mr->mr);
}

int weft_fi_mr_bind_ep(struct weft_fi_mr *mr, struct weft_fi_ep *ep, uint64_t flags)
{
    return weft_fi_result(fi_mr_bind(mr->mr, weft_fi_ep_fid(ep), flags));
}

int weft_fi_mr_bind_counter(struct weft_fi_mr *mr, struct fid_cntr *counter, uint64_t flags)
{
    return weft_fi_result(fi_mr_bind(mr->mr, &counter->fid, flags));
}

int weft_fi_mr_enable(struct weft_fi_mr *mr)
{
    return weft_fi_result(fi_mr_enable(mr->mr));
}

int weft_fi_mr_refresh(struct weft_fi_mr *mr, uint64_t addr, uint64_t length)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)addr, .iov_len = length};
    return weft_fi_result(fi_mr_refresh(mr->mr, &iov, 1, 0));
}

int weft_fi_mr_raw_key(struct weft_fi_mr *mr, uint64_t *base, uint8_t *key, uint64_t *size)
{
    size_t room = *size;
    int rc = weft_fi_result(fi_mr_raw_attr(mr->mr, base, key, &room, 0));
    *size = room;
    return rc;
}

int weft_fi_mr_map_key(struct weft_fi_domain *d, uint64_t base, const uint8_t *raw, uint64_t size, uint64_t *key)
{
    return weft_fi_result(fi_mr_map_raw(d->domain, base, (uint8_t *)(uintptr_t)raw, size, key, 0));
}

int weft_fi_mr_unmap_key(struct weft_fi_domain *d, uint64_t key)
{
    return weft_fi_result(fi_mr_unmap_key(d->domain, key));
}
