/* Regions: where the table has them, what is kept of one that cannot be closed, and that of a dma-buf. */
#include "fabric_fake.h"

static struct {
    int registered, closed;
    int close_rc; /* of the next close */
    const void *addr;
    int fd;
    uint64_t offset, length, key;
} provider;

static int m_close(struct fid *fid)
{
    int rc = provider.close_rc;
    (void)fid;
    provider.close_rc = 0;
    provider.closed += rc == 0;
    return rc;
}

static struct fi_ops m_ops = {.size = sizeof(m_ops), .close = m_close};
static struct fid_mr fid_mr = {.fid = {.ops = &m_ops}, .mem_desc = &provider, .key = 99};

static int m_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                 uint64_t flags, struct fid_mr **mr, void *context)
{
    (void)fid, (void)access, (void)offset, (void)flags, (void)context;
    provider.registered++;
    provider.addr = buf;
    provider.length = len;
    provider.key = key;
    *mr = &fid_mr;
    return 0;
}

static int m_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
    (void)fid, (void)attr, (void)flags;
#ifdef FI_MR_DMABUF
    CHECK((flags & FI_MR_DMABUF) != 0);
    provider.addr = attr->dmabuf->base_addr;
    provider.fd = attr->dmabuf->fd;
    provider.offset = attr->dmabuf->offset;
    provider.length = attr->dmabuf->len;
#endif
    provider.registered++;
    *mr = &fid_mr;
    return 0;
}

static struct fi_ops_mr mr_ops = {.size = sizeof(mr_ops), .reg = m_reg, .regattr = m_regattr};
static struct fid_domain fid_domain = {.mr = &mr_ops};

static struct weft_fi_mr *reg(struct weft_fi_mr_attr *attr)
{
    struct weft_fi_mr *mr = NULL;
    begin(0);
    domain.domain = &fid_domain;
    memset(&provider, 0, sizeof(provider));
    CHECK_EQ(weft_fi_mr_reg(&domain, attr, &mr), 0);
    return mr;
}

/* How a segment of a region is found. */
static int look_up(uint32_t key, uint64_t addr, uint64_t length, void **desc)
{
    const struct weft_fi_seg s = {.addr = addr, .length = length, .lkey = key};
    *desc = NULL;
    return (int)weft_fi_local(&domain, &s, desc);
}

static void region_that_cannot_be_closed_is_still_found(void)
{
    struct weft_fi_mr_attr attr = {.addr = 0x1000, .length = 0x100, .requested_key = 7, .fd = -1};
    void *desc;
    struct weft_fi_mr *mr = reg(&attr);

    CHECK_EQ(provider.key, 7);
    CHECK_EQ(attr.requested_key, 99); /* the provider's */
    CHECK_EQ(look_up(attr.lkey, 0x1000, 0x100, &desc), 0);
    CHECK(desc == &provider);
    provider.close_rc = -FI_EBUSY;
    CHECK_EQ(weft_fi_mr_close(mr), FI_EBUSY);
    CHECK_EQ(look_up(attr.lkey, 0x1000, 0x100, &desc), 0);
    CHECK_EQ(weft_fi_mr_close(mr), 0);
    CHECK_EQ(look_up(attr.lkey, 0x1000, 0x100, &desc), WEFT_FI_BAD_LKEY);
}

static void dmabuf_region_begins_at_its_offset(void)
{
    struct weft_fi_mr_attr attr = {.addr = 0x100000, .length = 0x1000, .offset = 0x2000, .fd = 3};
    void *desc;
    struct weft_fi_mr *mr;

    CHECK_EQ(weft_fi_region_start(&attr), 0x102000);
    attr.fd = -1;
    CHECK_EQ(weft_fi_region_start(&attr), 0x100000);
    attr.fd = 3;
#ifdef FI_MR_DMABUF
    mr = reg(&attr);
    CHECK_EQ(provider.fd, 3);
    CHECK_EQ(provider.offset, 0x2000);
    CHECK_EQ(provider.length, 0x1000);
    CHECK_EQ((uintptr_t)provider.addr, 0x100000);
    CHECK_EQ(look_up(attr.lkey, 0x102000, 0x1000, &desc), 0);
    CHECK_EQ(look_up(attr.lkey, 0x101fff, 1, &desc), WEFT_FI_BAD_BOUNDS);
    CHECK_EQ(look_up(attr.lkey, 0x102000, 0x1001, &desc), WEFT_FI_BAD_BOUNDS);
    CHECK_EQ(weft_fi_mr_close(mr), 0);
#else
    begin(0);
    (void)look_up(1, 0, 0, &desc);
    CHECK_EQ(weft_fi_mr_reg(&domain, &attr, &mr), EOPNOTSUPP); /* the headers know of none */
#endif
}

int main(void)
{
    RUN(region_that_cannot_be_closed_is_still_found);
    RUN(dmabuf_region_begins_at_its_offset);
    end();
    return test_summary();
}
