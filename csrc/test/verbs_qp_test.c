/* Queue pairs: what is asked of the library, what it granted, and how it is moved from state to state. */
#include "verbs_fake.h"

static struct ibv_context context;
static struct ibv_pd pd = {.context = &context};
static struct ibv_srq srq;
static struct ibv_cq send_queue, recv_queue;
static struct weft_cq send_cq = {.cq = &send_queue}, recv_cq = {.cq = &recv_queue};

static struct {
    int pairs; /* that exist; what is left at the end is a leak for ASan as well */
    struct ibv_qp_init_attr wanted;
    struct ibv_qp_cap granted;
    struct ibv_qp_attr attr; /* of the last change */
    int mask;
} driver;

static struct ibv_qp *fake_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *attr)
{
    CHECK(p == &pd);
    driver.wanted = *attr;
    attr->cap = driver.granted;
    if (refused("ibv_create_qp"))
        return NULL;
    struct ibv_qp *qp = calloc(1, sizeof(*qp));
    qp->qp_num = 0xabcdef;
    qp->context = &context;
    driver.pairs++;
    return qp;
}

static int fake_destroy_qp(struct ibv_qp *qp)
{
    int rc = result_of("ibv_destroy_qp");

    if (rc == 0) {
        free(qp);
        driver.pairs--;
    }
    return rc;
}

static int fake_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    CHECK_EQ(qp->qp_num, 0xabcdef);
    driver.attr = *attr;
    driver.mask = mask;
    return result_of("ibv_modify_qp");
}

static int fake_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    CHECK_EQ(qp->qp_num, 0xabcdef);
    CHECK_EQ(mask, IBV_QP_STATE);
    CHECK(init != NULL);
    attr->qp_state = IBV_QPS_ERR;
    return result_of("ibv_query_qp");
}

static const struct weft_qp_limits wanted = {
    .type = IBV_QPT_UD,
    .max_send_wr = 11,
    .max_recv_wr = 12,
    .max_send_sge = 13,
    .max_recv_sge = 14,
    .max_inline = 15,
};

static void reset(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(&driver, 0, sizeof(driver));
    driver.granted = (struct ibv_qp_cap){
        .max_send_wr = 21, .max_recv_wr = 22, .max_send_sge = 23, .max_recv_sge = 24, .max_inline_data = 25};
    weft_ibv.ibv_create_qp = fake_create_qp;
    weft_ibv.ibv_destroy_qp = fake_destroy_qp;
    weft_ibv.ibv_modify_qp = fake_modify_qp;
    weft_ibv.ibv_query_qp = fake_query_qp;
}

static struct weft_qp *create(void)
{
    struct weft_qp_limits limits = wanted;
    struct weft_qp *qp = NULL;
    uint32_t qpn = 0;

    CHECK_EQ(weft_qp_create(&pd, &send_cq, &recv_cq, &srq, &limits, &qp, &qpn), 0);
    CHECK_EQ(qpn, 0xabcdef);
    return qp;
}

static void check_destroyed(struct weft_qp *qp)
{
    struct weft_post post = {0};

    CHECK_EQ(weft_qp_destroy(qp), 0);
    CHECK_EQ(driver.pairs, 0);
    weft_qp_post_send((weft_handle)qp, NULL, NULL, &post);
    CHECK_EQ(post.result, -WEFT_BAD_CLOSED);
    weft_qp_post_recv((weft_handle)qp, NULL, NULL, &post);
    CHECK_EQ(post.result, -WEFT_BAD_CLOSED);
    CHECK_EQ(post.accepted, 0);
    weft_qp_free(qp);
}

static void creation_asks_for_what_is_wanted(void)
{
    reset();
    struct weft_qp *qp = create();
    CHECK(driver.wanted.send_cq == &send_queue);
    CHECK(driver.wanted.recv_cq == &recv_queue);
    CHECK(driver.wanted.srq == &srq);
    CHECK(driver.wanted.qp_context == NULL);
    CHECK_EQ(driver.wanted.qp_type, IBV_QPT_UD);
    CHECK_EQ(driver.wanted.sq_sig_all, 0);
    CHECK_EQ(driver.wanted.cap.max_send_wr, 11);
    CHECK_EQ(driver.wanted.cap.max_recv_wr, 12);
    CHECK_EQ(driver.wanted.cap.max_send_sge, 13);
    CHECK_EQ(driver.wanted.cap.max_recv_sge, 14);
    CHECK_EQ(driver.wanted.cap.max_inline_data, 15);
    check_destroyed(qp);
}

static void creation_returns_and_keeps_what_was_granted(void)
{
    static const struct weft_qp_limits granted = {
        .type = IBV_QPT_UD,
        .max_send_wr = 21,
        .max_recv_wr = 22,
        .max_send_sge = 23,
        .max_recv_sge = 24,
        .max_inline = 25,
    };
    struct weft_qp_limits limits = wanted;
    struct weft_qp *qp = NULL;
    uint32_t qpn = 0;

    reset();
    CHECK_EQ(weft_qp_create(&pd, &send_cq, &recv_cq, &srq, &limits, &qp, &qpn), 0);
    CHECK(memcmp(&limits, &granted, sizeof(limits)) == 0);
    CHECK(memcmp(&qp->limits, &granted, sizeof(limits)) == 0); /* what posts are checked against */
    CHECK_EQ(((struct ibv_qp *)weft_qp_raw(qp))->qp_num, 0xabcdef);
    check_destroyed(qp);
}

static int create_refused(void)
{
    struct weft_qp_limits limits = wanted;
    struct weft_qp *qp = NULL;
    uint32_t qpn = 0;

    int rc = weft_qp_create(&pd, &send_cq, &recv_cq, &srq, &limits, &qp, &qpn);
    CHECK(qp == NULL);
    CHECK_EQ(qpn, 0);
    CHECK(memcmp(&limits, &wanted, sizeof(limits)) == 0);
    CHECK_EQ(driver.pairs, 0);
    return rc;
}

static void a_refused_creation_leaves_nothing(void)
{
    reset();
    check_null("ibv_create_qp", create_refused);
    fake.refuse = "calloc";
    CHECK_EQ(create_refused(), ENOMEM);
}

static struct weft_qp *shared; /* with calls that are functions without arguments */

static int destroy_shared(void)
{
    int rc = weft_qp_destroy(shared);

    CHECK_EQ(driver.pairs, rc != 0);
    CHECK_EQ(send_cq.qps == shared, rc != 0); /* its completions are still looked for */
    if (rc != 0)
        return rc;
    weft_qp_free(shared);
    shared = create();
    return rc;
}

static void a_queue_pair_that_is_not_destroyed_stays_whole(void)
{
    reset();
    shared = create();
    check_results("ibv_destroy_qp", destroy_shared);
    check_destroyed(shared);
}

/* Every field has a value of its own. */
static const struct weft_qp_attr change = {
    .mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN,
    .state = IBV_QPS_RTR,
    .path_mtu = IBV_MTU_4096,
    .qkey = 0x80010001,
    .rq_psn = 0xfffff1,
    .sq_psn = 0xfffff2,
    .remote_qpn = 0xfffff3,
    .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    .ah = {.gid = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
           .flow_label = 0xfffff,
           .lid = 0xc001,
           .is_global = 1,
           .gid_index = 201,
           .hop_limit = 202,
           .traffic_class = 203,
           .service_level = 14,
           .port = 204},
    .pkey_index = 0x7001,
    .max_rd_atomic = 101,
    .max_dest_rd_atomic = 102,
    .min_rnr_timer = 103,
    .timeout = 104,
    .retry_count = 105,
    .rnr_retry = 106,
    .port = 107,
    .mig_state = IBV_MIG_ARMED,
    .alt_ah = {.gid = {17}, .lid = 0xc002, .gid_index = 205, .port = 206},
    .alt_pkey_index = 0x7002,
    .alt_port = 108,
    .alt_timeout = 109,
};

/* What the library must be given for it: whatever is not here stays 0. */
static struct ibv_qp_attr changed(void)
{
    struct ibv_qp_attr want;

    memset(&want, 0, sizeof(want));
    want.qp_state = IBV_QPS_RTR;
    want.path_mtu = IBV_MTU_4096;
    want.qkey = 0x80010001;
    want.rq_psn = 0xfffff1;
    want.sq_psn = 0xfffff2;
    want.dest_qp_num = 0xfffff3;
    want.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    for (uint8_t i = 0; i < 16; i++)
        want.ah_attr.grh.dgid.raw[i] = (uint8_t)(i + 1);
    want.ah_attr.grh.flow_label = 0xfffff;
    want.ah_attr.grh.sgid_index = 201;
    want.ah_attr.grh.hop_limit = 202;
    want.ah_attr.grh.traffic_class = 203;
    want.ah_attr.dlid = 0xc001;
    want.ah_attr.sl = 14;
    want.ah_attr.is_global = 1;
    want.ah_attr.port_num = 204;
    want.pkey_index = 0x7001;
    want.max_rd_atomic = 101;
    want.max_dest_rd_atomic = 102;
    want.min_rnr_timer = 103;
    want.timeout = 104;
    want.retry_cnt = 105;
    want.rnr_retry = 106;
    want.port_num = 107;
    want.path_mig_state = IBV_MIG_ARMED;
    want.alt_ah_attr.grh.dgid.raw[0] = 17;
    want.alt_ah_attr.grh.sgid_index = 205;
    want.alt_ah_attr.dlid = 0xc002;
    want.alt_ah_attr.port_num = 206;
    want.alt_pkey_index = 0x7002;
    want.alt_port_num = 108;
    want.alt_timeout = 109;
    return want;
}

static void a_change_carries_every_field_and_the_mask(void)
{
    struct ibv_qp_attr want = changed();

    reset();
    struct weft_qp *qp = create();
    CHECK_EQ(weft_qp_modify(qp, &change), 0);
    CHECK_EQ(driver.mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
    CHECK(memcmp(&driver.attr, &want, sizeof(want)) == 0);
    check_destroyed(qp);
}

static int modify_shared(void)
{
    return weft_qp_modify(shared, &change);
}

static int query_shared(void)
{
    struct weft_qp_attr got;
    int rc = weft_qp_query(shared, IBV_QP_STATE, &got);

    CHECK(rc != 0 || got.state == IBV_QPS_ERR);
    return rc;
}

static void a_refused_change_is_an_errno(void)
{
    reset();
    shared = create();
    check_results("ibv_modify_qp", modify_shared);
    check_destroyed(shared);
}

static void the_state_is_the_drivers(void)
{
    reset();
    shared = create();
    check_results("ibv_query_qp", query_shared);
    check_destroyed(shared);
}

int main(void)
{
    RUN(creation_asks_for_what_is_wanted);
    RUN(creation_returns_and_keeps_what_was_granted);
    RUN(a_refused_creation_leaves_nothing);
    RUN(a_queue_pair_that_is_not_destroyed_stays_whole);
    RUN(a_change_carries_every_field_and_the_mask);
    RUN(a_refused_change_is_an_errno);
    RUN(the_state_is_the_drivers);
    return test_summary();
}
