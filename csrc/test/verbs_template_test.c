/* Templates: what is prepared, what a post changes of it, and in which chains it reaches the driver. */
#include "verbs_post.h"

enum { PREPARED = 6, FIRST = 4 }; /* the first 4 are for one queue pair */

static int post_patches(struct weft_template *t, const struct weft_patch *patches, uint32_t n, uint32_t *accepted)
{
    struct weft_post post = {.n = n};
    weft_template_post((weft_handle)t, patches, &post);
    *accepted = post.accepted;
    return post.result;
}

static struct weft_qp qps[2];
static struct ibv_qp other_qp = {.context = &context, .qp_num = 7};

/* Six writes, for two queue pairs. */
static struct weft_template *prepared(uint32_t type, uint32_t opcode)
{
    struct weft_template *t = NULL;

    qps[0] = qp_of(type);
    qps[1] = qps[0];
    qps[1].qp = &other_qp;
    CHECK_EQ(weft_template_create(PREPARED, &t), 0);
    for (uint32_t i = 0; i < PREPARED; i++) {
        struct weft_send_wr wr = {.id = 100 + i,
                                  .opcode = opcode,
                                  .flags = i == 2 ? IBV_SEND_SIGNALED : 0,
                                  .imm = 0x01020304,
                                  .rkey = 500 + i,
                                  .ah = driver_ah_ref(),
                                  .remote_qpn = 600 + i};
        CHECK_EQ(weft_template_add(t, &qps[i >= FIRST], &wr, 900 + i), 0);
    }
    return t;
}

static void discard(struct weft_template *t)
{
    uint32_t accepted = 99;

    weft_template_destroy(t);
    CHECK_EQ(post_patches(t, NULL, 0, &accepted), -WEFT_BAD_CLOSED);
    CHECK_EQ(accepted, 0);
    weft_template_free(t);
}

static struct weft_patch patch(uint32_t index)
{
    return (struct weft_patch){
        .addr = 0x1000 + index, .remote_addr = 0x2000 + index, .length = 8 + index, .index = index};
}

static void a_post_changes_addresses_and_lengths_alone(void)
{
    struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM);
    struct weft_patch patches[] = {patch(0), patch(2), patch(3), patch(5)};
    uint32_t accepted = 99;

    CHECK_EQ(post_patches(t, patches, 4, &accepted), 0);
    CHECK_EQ(accepted, 4);
    CHECK_EQ(driver.num_chains, 2);
    CHECK_EQ(driver.chains[0], 3);
    CHECK_EQ(driver.chains[1], 1);
    for (uint32_t i = 0; i < 4; i++) {
        const struct ibv_send_wr *wr = &driver.sends[i];
        uint32_t k = patches[i].index;
        CHECK_EQ(wr->wr_id, 100 + k);
        CHECK_EQ(wr->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
        CHECK_EQ(wr->imm_data, htonl(0x01020304));
        CHECK_EQ(wr->wr.rdma.rkey, 500 + k);
        CHECK_EQ(wr->wr.rdma.remote_addr, 0x2000 + k);
        CHECK_EQ(wr->num_sge, 1);
        CHECK_EQ(wr->sg_list[0].addr, 0x1000 + k);
        CHECK_EQ(wr->sg_list[0].length, 8 + k);
        CHECK_EQ(wr->sg_list[0].lkey, 900 + k);
    }
    discard(t);
}

static void one_call_posts_to_all_queue_pairs(void)
{
    struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
    struct weft_patch patches[] = {patch(0), patch(5)};
    uint32_t accepted;

    CHECK_EQ(post_patches(t, patches, 2, &accepted), 0);
    CHECK_EQ(weft_template_crossings(t), 1);
    CHECK_EQ(weft_qp_crossings(&qps[0]) + weft_qp_crossings(&qps[1]), 0);
    CHECK_EQ(driver.num_chains, 2);
    discard(t);
}

static void nothing_is_left_of_an_earlier_post(void)
{
    struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
    struct weft_patch all[] = {patch(0), patch(1), patch(2), patch(3)}, one = patch(1);
    uint32_t accepted;

    CHECK_EQ(post_patches(t, all, 4, &accepted), 0);
    one.length = 0;
    CHECK_EQ(post_patches(t, &one, 1, &accepted), 0);
    CHECK_EQ(driver.chains[1], 1);
    CHECK_EQ(driver.sends[4].num_sge, 0); /* no bytes, no entry */
    discard(t);
}

static void a_datagram_keeps_its_peer(void)
{
    struct weft_template *t = prepared(IBV_QPT_UD, IBV_WR_SEND);
    struct weft_patch one = patch(3);
    uint32_t accepted;

    CHECK_EQ(post_patches(t, &one, 1, &accepted), 0);
    CHECK(driver.sends[0].wr.ud.ah == &driver_ah);
    CHECK_EQ(driver.sends[0].wr.ud.remote_qpn, 603);
    discard(t);
}

static void check_patches(const struct weft_patch *patches, uint32_t n, int reason, uint32_t index)
{
    struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
    uint32_t accepted = 99;

    CHECK_EQ(post_patches(t, patches, n, &accepted), -reason);
    CHECK_EQ(accepted, index);
    CHECK_EQ(driver.num_chains, 0);
    discard(t);
}

static void a_bad_patch_anywhere_and_nothing_is_posted(void)
{
    struct weft_patch patches[] = {patch(0), patch(4), patch(5)};

    patches[2].index = PREPARED;
    check_patches(patches, 3, WEFT_BAD_PATCH, 2);
    patches[2].index = 4; /* twice: the chain would bite its tail */
    check_patches(patches, 3, WEFT_BAD_PATCH, 2);
    patches[2].index = 3;
    check_patches(patches, 3, WEFT_BAD_PATCH, 2);
    patches[2] = patch(5);
    patches[2].length = MAX_MESSAGE + 1;
    check_patches(patches, 3, WEFT_BAD_LENGTH, 2);
}

static void a_failed_queue_pair_stops_the_whole_post(void)
{
    struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
    struct weft_patch patches[] = {patch(0), patch(5)};
    uint32_t accepted = 99;

    qps[1].refuses = WEFT_BAD_FAILED;
    CHECK_EQ(post_patches(t, patches, 2, &accepted), -WEFT_BAD_FAILED);
    CHECK_EQ(accepted, 1);
    CHECK_EQ(driver.num_chains, 0);
    discard(t);
}

static void unsignaled_requests_count(void)
{
    struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
    struct weft_patch patches[] = {patch(0), patch(1), patch(2), patch(3)};
    uint32_t accepted = 99;

    qps[0].limits.max_send_wr = 3;
    CHECK_EQ(post_patches(t, patches, 4, &accepted), 0); /* the third is signalled */
    CHECK_EQ(qps[0].run, 1);
    CHECK_EQ(post_patches(t, patches, 4, &accepted), -WEFT_BAD_UNSIGNALED);
    CHECK_EQ(accepted, 1);
    CHECK_EQ(qps[0].run, 1);
    discard(t);
}

static void post_two_unsignaled(void)
{
    qps[1].run += 2;
}

/* Another thread posts to the second queue pair after the requests were checked: together they would fill its queue. */
static void unsignaled_requests_of_others_count(void)
{
    struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
    struct weft_patch patches[] = {patch(0), patch(4), patch(5)};
    uint32_t accepted = 99;

    for (uint32_t room = 4; room <= 5; room++) {
        int full = room == 4;
        qps[1].limits.max_send_wr = room;
        qps[1].run = 0;
        driver.num_chains = 0;
        meanwhile = post_two_unsignaled;
        CHECK_EQ(post_patches(t, patches, 3, &accepted), full ? ENOMEM : 0);
        CHECK_EQ(accepted, full ? 1 : 3);
        CHECK_EQ(driver.num_chains, full ? 1 : 2);
        CHECK_EQ(qps[1].run, full ? 2 : 4);
    }
    discard(t);
}

/* The driver refuses each of six in turn, and says where or does not. */
static void accepted_is_exact_wherever_a_driver_stops(void)
{
    for (uint32_t i = 0; i < PREPARED; i++) {
        for (enum bad bad = BAD_HERE; bad <= BAD_UNSET; bad++) {
            struct weft_template *t = prepared(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
            struct weft_patch patches[] = {patch(0), patch(1), patch(2), patch(3), patch(4), patch(5)};
            uint32_t accepted = 99;
            fake.refuse = "post";
            fake.rc = ENOMEM;
            driver.refuse_at = i;
            driver.bad = bad;
            CHECK_EQ(post_patches(t, patches, PREPARED, &accepted), ENOMEM);
            CHECK_EQ(accepted, bad == BAD_HERE ? i : i < FIRST ? 0 : FIRST);
            discard(t);
        }
    }
}

static void what_has_no_template_is_refused(void)
{
    static const uint32_t opcodes[] = {
        IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_TSO, 99};
    struct weft_qp rc = qp_of(IBV_QPT_RC), ud = qp_of(IBV_QPT_UD);
    struct weft_template *t = NULL;

    CHECK_EQ(weft_template_create(1, &t), 0);
    for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
        CHECK_EQ(weft_template_add(t, &rc, &(struct weft_send_wr){.opcode = opcodes[i]}, 1), -WEFT_BAD_OPCODE);
    CHECK_EQ(weft_template_add(t, &ud, &(struct weft_send_wr){.opcode = IBV_WR_SEND}, 1), -WEFT_BAD_AH);
    CHECK_EQ(weft_template_add(t, &rc, &(struct weft_send_wr){.opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_INLINE}, 1),
             -WEFT_BAD_INLINE);
    CHECK_EQ(weft_template_add(t, &rc, &(struct weft_send_wr){.opcode = IBV_WR_RDMA_READ}, 1), 0);
    CHECK_EQ(weft_template_add(t, &rc, &(struct weft_send_wr){.opcode = IBV_WR_RDMA_READ}, 1), ENOSPC);
    discard(t);
}

int main(void)
{
    RUN(a_post_changes_addresses_and_lengths_alone);
    RUN(one_call_posts_to_all_queue_pairs);
    RUN(nothing_is_left_of_an_earlier_post);
    RUN(a_datagram_keeps_its_peer);
    RUN(a_bad_patch_anywhere_and_nothing_is_posted);
    RUN(a_failed_queue_pair_stops_the_whole_post);
    RUN(unsignaled_requests_count);
    RUN(unsignaled_requests_of_others_count);
    RUN(accepted_is_exact_wherever_a_driver_stops);
    RUN(what_has_no_template_is_refused);
    return test_summary();
}
