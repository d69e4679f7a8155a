/* Protection domains, memory regions and address handles. */
#include "verbs_fake.h"

static struct ibv_context context;
static struct ibv_pd pd = {.context = &context};
static struct ibv_mr mr = {.context = &context, .lkey = 0x11223344, .rkey = 0x55667788};
static struct ibv_ah ah = {.context = &context};
static uint64_t ah_ref;
static struct ibv_ah_attr ah_attr; /* of the last handle */

static struct ibv_pd *fake_alloc_pd(struct ibv_context *c)
{
    CHECK(c == &context);
    return refused("ibv_alloc_pd") ? NULL : &pd;
}

static int fake_dealloc_pd(struct ibv_pd *p)
{
    CHECK(p == &pd);
    return result_of("ibv_dealloc_pd");
}

static struct ibv_mr *fake_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t length, uint64_t iova, unsigned int access)
{
    CHECK(p == &pd);
    CHECK(addr == (void *)0x7f0000001000);
    CHECK_EQ(iova, 0x7f0000001000);
    CHECK_EQ(length, 0x123456789);
    CHECK_EQ(access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    return refused("ibv_reg_mr_iova2") ? NULL : &mr;
}

static int fake_dereg_mr(struct ibv_mr *m)
{
    CHECK(m == &mr);
    return result_of("ibv_dereg_mr");
}

static struct ibv_ah *fake_create_ah(struct ibv_pd *p, struct ibv_ah_attr *attr)
{
    CHECK(p == &pd);
    ah_attr = *attr;
    return refused("ibv_create_ah") ? NULL : &ah;
}

static int fake_destroy_ah(struct ibv_ah *a)
{
    CHECK(a == &ah);
    return result_of("ibv_destroy_ah");
}

static void reset(void)
{
    memset(&fake, 0, sizeof(fake));
    weft_ibv = (__typeof__(weft_ibv)){
        .ibv_alloc_pd = fake_alloc_pd,
        .ibv_dealloc_pd = fake_dealloc_pd,
        .ibv_reg_mr_iova2 = fake_reg_mr_iova2,
        .ibv_dereg_mr = fake_dereg_mr,
        .ibv_create_ah = fake_create_ah,
        .ibv_destroy_ah = fake_destroy_ah,
    };
}

static int alloc_pd(void)
{
    struct ibv_pd *p = NULL;
    int rc = weft_pd_alloc(&context, &p);

    CHECK(p == (rc == 0 ? &pd : NULL));
    return rc;
}

static int dealloc_pd(void)
{
    return weft_pd_dealloc(&pd);
}

static void protection_domains_are_made_and_given_back(void)
{
    reset();
    CHECK_EQ(alloc_pd(), 0);
    check_null("ibv_alloc_pd", alloc_pd);
    check_results("ibv_dealloc_pd", dealloc_pd);
}

static int reg_mr(void)
{
    struct ibv_mr *m = NULL;
    uint32_t lkey = 0, rkey = 0;
    int rc = weft_mr_reg(&pd, 0x7f0000001000, 0x123456789, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING, &m,
                         &lkey, &rkey);

    CHECK(m == (rc == 0 ? &mr : NULL));
    CHECK_EQ(lkey, rc == 0 ? 0x11223344 : 0);
    CHECK_EQ(rkey, rc == 0 ? 0x55667788 : 0);
    return rc;
}

static int dereg_mr(void)
{
    return weft_mr_dereg(&mr);
}

/* With an optional flag, which only the newer of the two calls takes: the older one is not even there. */
static void memory_is_registered_with_its_access(void)
{
    reset();
    CHECK_EQ(reg_mr(), 0);
    check_null("ibv_reg_mr_iova2", reg_mr);
    check_results("ibv_dereg_mr", dereg_mr);
}

static int create_ah(void)
{
    static const struct weft_ah_attr attr = {
        .gid = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
        .flow_label = 0xabcde,
        .lid = 0xc001,
        .is_global = 1,
        .gid_index = 201,
        .hop_limit = 202,
        .traffic_class = 203,
        .service_level = 14,
        .port = 204,
        .static_rate = 205,
        .src_path_bits = 206,
    };
    struct ibv_ah *a = NULL;
    int rc = weft_ah_create(&pd, &attr, &a, &ah_ref);

    CHECK(a == (rc == 0 ? &ah : NULL));
    CHECK(memcmp(ah_attr.grh.dgid.raw, attr.gid, 16) == 0);
    return rc;
}

static int destroy_ah(void)
{
    int rc = weft_ah_destroy(&ah, ah_ref);
    if (rc == 0)
        ah_ref = weft_ah_add(&ah);
    return rc;
}

static void address_handles_carry_every_field(void)
{
    reset();
    CHECK_EQ(create_ah(), 0);
    CHECK_EQ(ah_attr.grh.flow_label, 0xabcde);
    CHECK_EQ(ah_attr.grh.sgid_index, 201);
    CHECK_EQ(ah_attr.grh.hop_limit, 202);
    CHECK_EQ(ah_attr.grh.traffic_class, 203);
    CHECK_EQ(ah_attr.dlid, 0xc001);
    CHECK_EQ(ah_attr.sl, 14);
    CHECK_EQ(ah_attr.src_path_bits, 206);
    CHECK_EQ(ah_attr.static_rate, 205);
    CHECK_EQ(ah_attr.is_global, 1);
    CHECK_EQ(ah_attr.port_num, 204);
    check_null("ibv_create_ah", create_ah);
    check_results("ibv_destroy_ah", destroy_ah);
}

int main(void)
{
    RUN(protection_domains_are_made_and_given_back);
    RUN(memory_is_registered_with_its_access);
    RUN(address_handles_carry_every_field);
    return test_summary();
}
