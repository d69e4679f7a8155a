/* Insertions that report to an event queue: what is known of one before, at and after its event. */
#include "fabric_fake.h"

static struct {
    int insert_rc;
    fi_addr_t *peer; /* of the last insertion */
    void *context;
} provider;

static int a_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *peer, uint64_t flags, void *context)
{
    (void)fid, (void)addr, (void)count, (void)flags;
    provider.peer = peer;
    provider.context = context;
    return provider.insert_rc;
}

static int a_close(struct fid *fid)
{
    (void)fid;
    return 0;
}

static int a_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    (void)fid, (void)to, (void)flags;
    return 0;
}

static struct fi_ops a_ops = {.size = sizeof(a_ops), .close = a_close, .bind = a_bind};
static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .insert = a_insert};
static struct fid_av fid_av = {.fid = {.ops = &a_ops}, .ops = &av_ops};
static uint64_t asked; /* flags that it was opened with */

static int a_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
    (void)fid, (void)context;
    asked = attr->flags;
    *out = &fid_av;
    return 0;
}

static struct fi_ops_domain domain_ops = {.size = sizeof(domain_ops), .av_open = a_open};
static struct fid_domain fid_domain = {.ops = &domain_ops};
static struct fid_eq fid_eq;
static struct weft_fi_eq eq = {.eq = &fid_eq};

static struct weft_fi_av *opened(void)
{
    struct weft_fi_av *made = NULL;
    begin(0);
    domain.domain = &fid_domain;
    memset(&provider, 0, sizeof(provider));
    CHECK_EQ(weft_fi_av_open(&domain, 0, 0, &eq, &made), 0);
    CHECK_EQ(asked, FI_EVENT);
    return made;
}

static void peer_is_known_once_its_event_is_read(void)
{
    struct weft_fi_av *later = opened();
    uint64_t id = 0, peer = 0;

    CHECK_EQ(weft_fi_av_insert_later(later, memory, 71), 0);
    uint64_t first = (uint64_t)(uintptr_t)provider.context;
    fi_addr_t *at = provider.peer;
    CHECK_EQ(weft_fi_av_insert_later(later, memory, 72), 0);
    uint64_t second = (uint64_t)(uintptr_t)provider.context;
    *at = 5; /* the provider's, some time before the event */
    CHECK(!weft_fi_known(later, 5));
    CHECK_EQ(weft_fi_av_inserted(later, first, 1, &id, &peer), 0);
    CHECK_EQ(id, 71);
    CHECK_EQ(peer, 5);
    CHECK(weft_fi_known(later, 5));
    CHECK_EQ(weft_fi_av_inserted(later, first, 1, &id, &peer), ENOENT); /* once */
    CHECK_EQ(weft_fi_av_inserted(later, 0, 1, &id, &peer), ENOENT);

    CHECK_EQ(weft_fi_av_inserted(later, second, 0, &id, &peer), 0); /* the error of an address comes before the end */
    CHECK_EQ(id, 72);
    CHECK_EQ(weft_fi_av_inserted(later, second, 1, &id, &peer), 0);
    CHECK_EQ(id, 72);
    CHECK(peer == FI_ADDR_NOTAVAIL);
    CHECK(later->insertions == NULL);
    CHECK_EQ(weft_fi_av_close(later), 0);
}

static void insertion_that_is_refused_leaves_nothing(void)
{
    struct weft_fi_av *later = opened();

    provider.insert_rc = -FI_EINVAL;
    CHECK_EQ(weft_fi_av_insert_later(later, memory, 1), EINVAL);
    CHECK(later->insertions == NULL);
    fake.refuse = "calloc";
    CHECK_EQ(weft_fi_av_insert_later(later, memory, 1), ENOMEM);
    fake.refuse = NULL;
    provider.insert_rc = 0; /* nobody reads its event */
    CHECK_EQ(weft_fi_av_insert_later(later, memory, 1), 0);
    CHECK_EQ(weft_fi_av_close(later), 0);
}

int main(void)
{
    RUN(peer_is_known_once_its_event_is_read);
    RUN(insertion_that_is_refused_leaves_nothing);
    end();
    return test_summary();
}
