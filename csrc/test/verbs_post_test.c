/* Posting: what reaches the driver, in which chains, and how many it took. */
#include "verbs_post.h"

/* Sends one request and returns what the driver saw of it. */
static struct ibv_send_wr sent(uint32_t type, struct weft_send_wr wr)
{
    struct weft_qp qp = qp_of(type);
    struct weft_sge sge = {.addr = 0x1000, .length = 8, .lkey = 3};
    struct batch b = {.n = 1, .num_sge = 1, .sends = &wr, .sges = &sge};

    wr.num_sge = 1;
    check_taken(post_sends, &qp, &b);
    CHECK(driver.sends[0].sg_list == (void *)&sge);
    return driver.sends[0];
}

static void rc_write_carries_its_fields(void)
{
    struct ibv_send_wr wr = sent(IBV_QPT_RC, (struct weft_send_wr){
                                                 .id = 0x1122334455667788,
                                                 .opcode = IBV_WR_RDMA_WRITE,
                                                 .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
                                                 .remote_addr = 0xfedcba9876543210,
                                                 .rkey = 0x89abcdef,
                                             });
    CHECK_EQ(wr.wr_id, 0x1122334455667788);
    CHECK_EQ(wr.opcode, IBV_WR_RDMA_WRITE);
    CHECK_EQ(wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    CHECK_EQ(wr.num_sge, 1);
    CHECK(wr.wr.rdma.remote_addr == 0xfedcba9876543210);
    CHECK_EQ(wr.wr.rdma.rkey, 0x89abcdef);
}

static void immediates_go_out_in_network_order(void)
{
    static const uint32_t types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UD};
    static const uint32_t opcodes[] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM};
    static const uint8_t wire[] = {1, 2, 3, 4};

    for (int i = 0; i < 3; i++) {
        struct ibv_send_wr wr = sent(
            types[i], (struct weft_send_wr){.opcode = opcodes[i], .imm = 0x01020304, .rkey = 5, .ah = driver_ah_ref()});
        CHECK_EQ(wr.opcode, opcodes[i]);
        CHECK(memcmp(&wr.imm_data, wire, sizeof(wire)) == 0);
        CHECK(types[i] == IBV_QPT_UD || wr.wr.rdma.rkey == 5);
    }
}

static void rc_send_carries_its_fields(void)
{
    struct ibv_send_wr wr = sent(IBV_QPT_RC, (struct weft_send_wr){.id = 5, .opcode = IBV_WR_SEND, .flags = 8});
    CHECK_EQ(wr.wr_id, 5);
    CHECK_EQ(wr.opcode, IBV_WR_SEND);
    CHECK_EQ(wr.send_flags, IBV_SEND_INLINE);
}

static void ud_send_carries_its_peer(void)
{
    struct ibv_send_wr wr = sent(IBV_QPT_UD, (struct weft_send_wr){
                                                 .opcode = IBV_WR_SEND,
                                                 .ah = driver_ah_ref(),
                                                 .remote_qpn = 0xabcdef,
                                                 .remote_qkey = 0x80010000,
                                                 .remote_addr = 0x5555555555555555, /* not for UD */
                                                 .rkey = 0x55555555,
                                             });
    CHECK(wr.wr.ud.ah == &driver_ah);
    CHECK_EQ(wr.wr.ud.remote_qpn, 0xabcdef);
    CHECK_EQ(wr.wr.ud.remote_qkey, 0x80010000);
}

static void atomics_carry_their_operands(void)
{
    static const uint32_t opcodes[] = {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};

    for (int i = 0; i < 2; i++) {
        struct ibv_send_wr wr = sent(IBV_QPT_RC, (struct weft_send_wr){.opcode = opcodes[i],
                                                                       .remote_addr = 0xfedcba9876543210,
                                                                       .compare_add = 0x1111111111111111,
                                                                       .swap = 0x2222222222222222,
                                                                       .rkey = 0x89abcdef});
        CHECK_EQ(wr.opcode, opcodes[i]);
        CHECK(wr.wr.atomic.remote_addr == 0xfedcba9876543210);
        CHECK(wr.wr.atomic.compare_add == 0x1111111111111111);
        CHECK(wr.wr.atomic.swap == 0x2222222222222222);
        CHECK_EQ(wr.wr.atomic.rkey, 0x89abcdef);
    }
}

static void invalidations_carry_their_key(void)
{
    static const uint32_t opcodes[] = {IBV_WR_LOCAL_INV, IBV_WR_SEND_WITH_INV};

    for (int i = 0; i < 2; i++) {
        struct ibv_send_wr wr =
            sent(IBV_QPT_UC, (struct weft_send_wr){.opcode = opcodes[i], .imm = 5, .rkey = 0x01020304});
        CHECK_EQ(wr.invalidate_rkey, 0x01020304);
    }
}

/* Identifier, entries and their place in the list of each request that the driver took. */
static void check_order(post *p, const struct batch *b)
{
    const struct weft_sge *at = b->sges;

    for (uint32_t i = 0; i < driver.n; i++) {
        uint64_t id = p == post_sends ? driver.sends[i].wr_id : driver.recvs[i].wr_id;
        int num_sge = p == post_sends ? driver.sends[i].num_sge : driver.recvs[i].num_sge;
        struct ibv_sge *list = p == post_sends ? driver.sends[i].sg_list : driver.recvs[i].sg_list;
        CHECK_EQ(id, 1000 + i);
        CHECK_EQ(num_sge, b->sends[i].num_sge);
        CHECK(list == (void *)at);
        at += num_sge;
    }
}

static void check_chains(post *p)
{
    static const uint32_t sizes[] = {1, 2, 255, 256, 257, 512, 513, 600};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct weft_qp qp = qp_of(IBV_QPT_RC);
        struct batch b = batch_of(sizes[i], MIXED);
        check_taken(p, &qp, &b);
        check_order(p, &b);
        uint32_t left = sizes[i];
        for (uint32_t k = 0; k < driver.num_chains; k++) {
            CHECK_EQ(driver.chains[k], left < 256 ? left : 256);
            left -= driver.chains[k];
        }
        CHECK_EQ(driver.num_chains, (sizes[i] + 255) / 256);
        batch_free(&b);
    }
}

static void long_posts_are_chains_of_256_in_order(void)
{
    FOR_BOTH(check_chains);
}

static void check_no_entries(post *p)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);
    struct batch b = batch_of(1, MIXED);

    CHECK_EQ(b.num_sge, 0);
    check_taken(p, &qp, &b);
    CHECK_EQ(driver.sends[0].num_sge, 0);
    CHECK_EQ(driver.recvs[0].num_sge, 0);
    batch_free(&b);
}

static void a_request_may_have_no_entries(void)
{
    FOR_BOTH(check_no_entries);
}

static void check_empty(post *p)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);

    check_taken(p, &qp, &(struct batch){.n = 0});
    CHECK_EQ(driver.num_chains, 0);
}

static void an_empty_post_does_not_reach_the_driver(void)
{
    FOR_BOTH(check_empty);
}

/* Refuses the request at every index of a post of two chains; want tells how many then count as accepted. */
static void check_partial(post *p, enum bad bad, uint32_t (*want)(uint32_t index))
{
    struct batch b = batch_of(300, 1);

    for (uint32_t i = 0; i < b.n; i++) {
        struct weft_qp qp = qp_of(IBV_QPT_RC);
        uint32_t accepted = 9999;
        driver.refuse_at = i;
        driver.bad = bad;
        fake.refuse = "post";
        fake.rc = ENOMEM;
        CHECK_EQ(p(&qp, &b, &accepted), ENOMEM);
        CHECK_EQ(accepted, want(i));
        CHECK_EQ(driver.n, i); /* nothing after the refusal was offered again */
        CHECK_EQ(driver.num_chains, i < 256 ? 1 : 2);
        check_order(p, &b);
    }
    batch_free(&b);
}

static uint32_t exactly(uint32_t index)
{
    return index;
}

static uint32_t whole_chains(uint32_t index)
{
    return index / 256 * 256;
}

static void accepted_is_exact_wherever_the_queue_fills_up(void)
{
    check_partial(post_sends, BAD_HERE, exactly);
    check_partial(post_recvs, BAD_HERE, exactly);
}

static void a_driver_that_does_not_say_where_took_nothing(void)
{
    check_partial(post_sends, BAD_UNSET, whole_chains);
    check_partial(post_recvs, BAD_UNSET, whole_chains);
    check_partial(post_sends, BAD_PAST, whole_chains);
    check_partial(post_recvs, BAD_PAST, whole_chains);
}

static int post_one(post *p)
{
    struct weft_qp qp = {.qp = &driver_qp, .limits = {.type = IBV_QPT_RC, .max_send_wr = 2, .max_recv_wr = 2}};
    struct batch b = batch_of(1, MIXED);
    uint32_t accepted = 99;

    driver.n = driver.num_chains = 0;
    int rc = p(&qp, &b, &accepted);
    CHECK_EQ(accepted, rc == 0);
    batch_free(&b);
    return rc;
}

static int post_one_send(void)
{
    return post_one(post_sends);
}

static int post_one_recv(void)
{
    return post_one(post_recvs);
}

static void results_of_posts_are_errnos(void)
{
    qp_of(IBV_QPT_RC);
    check_results("post", post_one_send);
    check_results("post", post_one_recv);
}

int main(void)
{
    RUN(rc_write_carries_its_fields);
    RUN(immediates_go_out_in_network_order);
    RUN(rc_send_carries_its_fields);
    RUN(ud_send_carries_its_peer);
    RUN(atomics_carry_their_operands);
    RUN(invalidations_carry_their_key);
    RUN(long_posts_are_chains_of_256_in_order);
    RUN(a_request_may_have_no_entries);
    RUN(an_empty_post_does_not_reach_the_driver);
    RUN(accepted_is_exact_wherever_the_queue_fills_up);
    RUN(a_driver_that_does_not_say_where_took_nothing);
    RUN(results_of_posts_are_errnos);
    return test_summary();
}
