/* What a post refuses before the driver sees anything. */
#include "verbs_post.h"

/* A batch of which request i is bad for the reason. */
static struct batch spoilt(uint32_t n, uint32_t i, enum weft_bad_wr reason)
{
    struct batch b = batch_of(n, 1);

    switch (reason) {
    case WEFT_BAD_OPCODE:
        b.sends[i].opcode = IBV_WR_TSO;
        break;
    case WEFT_BAD_NUM_SGE:
        b.sends[i].num_sge = MAX_SEND_SGE + 1;
        b.recvs[i].num_sge = MAX_RECV_SGE + 1;
        break;
    case WEFT_BAD_SGE_LIST:
        b.num_sge = i;
        break;
    case WEFT_BAD_INLINE:
        b.sends[i].flags = IBV_SEND_INLINE;
        b.sges[i].length = MAX_INLINE + 1;
        break;
    case WEFT_BAD_LENGTH:
        b.sges[i].length = MAX_MESSAGE + 1;
        break;
    case WEFT_BAD_AH:
        b.sends[i].ah = 0;
        break;
    case WEFT_BAD_ATOMIC:
        b.sends[i].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        break;
    case WEFT_BAD_UNSIGNALED:
    case WEFT_BAD_FAILED:
    case WEFT_BAD_CLOSED:
    case WEFT_BAD_PATCH:
    case WEFT_BAD_AH_CLOSED:
    case WEFT_BAD_QUEUE: /* no fault of a single request */
        break;
    }
    return b;
}

static void check_spoilt(post *p, uint32_t type, enum weft_bad_wr reason)
{
    static const uint32_t indexes[] = {0, 1, 150, 256, 299};

    for (size_t k = 0; k < sizeof(indexes) / sizeof(indexes[0]); k++) {
        struct weft_qp qp = qp_of(type);
        struct batch b = spoilt(300, indexes[k], reason);
        check_refused(p, &qp, &b, (int)reason, indexes[k]);
        batch_free(&b);
    }
}

static void one_bad_send_anywhere_and_nothing_is_posted(void)
{
    for (enum weft_bad_wr reason = WEFT_BAD_OPCODE; reason <= WEFT_BAD_AH; reason++) {
        if (reason != WEFT_BAD_AH)
            check_spoilt(post_sends, IBV_QPT_RC, reason);
        check_spoilt(post_sends, IBV_QPT_UD, reason);
    }
    check_spoilt(post_sends, IBV_QPT_RC, WEFT_BAD_ATOMIC);
}

static void one_bad_receive_anywhere_and_nothing_is_posted(void)
{
    check_spoilt(post_recvs, IBV_QPT_RC, WEFT_BAD_NUM_SGE);
    check_spoilt(post_recvs, IBV_QPT_RC, WEFT_BAD_SGE_LIST);
    check_spoilt(post_recvs, IBV_QPT_UD, WEFT_BAD_NUM_SGE);
    check_spoilt(post_recvs, IBV_QPT_UD, WEFT_BAD_SGE_LIST);
}

static void check_left_over(post *p)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);
    struct batch b = batch_of(300, MIXED);

    b.sends[299].num_sge--;
    b.recvs[299].num_sge--;
    check_refused(p, &qp, &b, WEFT_BAD_SGE_LIST, 299);
    batch_free(&b);
}

static void entries_left_over_are_refused_at_the_last_request(void)
{
    FOR_BOTH(check_left_over);
}

static void check_list_of(post *p, uint32_t num_sge)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);
    struct batch b = batch_of(1, num_sge);

    b.sends[0].num_sge = b.recvs[0].num_sge = 3;
    if (num_sge == 3)
        check_taken(p, &qp, &b);
    else
        check_refused(p, &qp, &b, WEFT_BAD_SGE_LIST, 0);
    batch_free(&b);
}

/* The entries that are missing would lie past the end of the allocation. */
static void a_list_that_ends_inside_a_request_is_refused(void)
{
    for (uint32_t num_sge = 1; num_sge <= 3; num_sge++) {
        check_list_of(post_sends, num_sge);
        check_list_of(post_recvs, num_sge);
    }
}

static void check_num_sge(post *p, uint32_t num_sge, uint32_t limit)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);
    struct batch b = batch_of(1, num_sge);

    if (num_sge <= limit)
        check_taken(p, &qp, &b);
    else
        check_refused(p, &qp, &b, WEFT_BAD_NUM_SGE, 0);
    b.sends[0].num_sge = b.recvs[0].num_sge = UINT32_MAX;
    driver.num_chains = 0;
    check_refused(p, &qp, &b, WEFT_BAD_NUM_SGE, 0);
    batch_free(&b);
}

static void each_kind_has_its_own_limit_of_entries(void)
{
    for (uint32_t num_sge = 1; num_sge <= 5; num_sge++) {
        check_num_sge(post_sends, num_sge, MAX_SEND_SGE);
        check_num_sge(post_recvs, num_sge, MAX_RECV_SGE);
    }
}

/* Sends one request of two entries with these lengths. */
static void check_lengths(struct weft_qp qp, uint32_t flags, uint32_t first, uint32_t second, int reason)
{
    struct batch b = batch_of(1, 2);

    b.sends[0].flags = flags;
    b.sges[0].length = first;
    b.sges[1].length = second;
    if (reason == 0)
        check_taken(post_sends, &qp, &b);
    else
        check_refused(post_sends, &qp, &b, reason, 0);
    batch_free(&b);
}

static void inline_data_has_a_limit(void)
{
    check_lengths(qp_of(IBV_QPT_RC), IBV_SEND_INLINE, 0, 0, 0);
    check_lengths(qp_of(IBV_QPT_RC), IBV_SEND_INLINE, MAX_INLINE - 1, 1, 0);
    check_lengths(qp_of(IBV_QPT_RC), IBV_SEND_INLINE, MAX_INLINE, 1, WEFT_BAD_INLINE);
    check_lengths(qp_of(IBV_QPT_RC), IBV_SEND_INLINE, 0, MAX_INLINE + 1, WEFT_BAD_INLINE);
    check_lengths(qp_of(IBV_QPT_RC), IBV_SEND_INLINE, 1u << 31, 1u << 31, WEFT_BAD_INLINE); /* 0 in 32 bits */
    check_lengths(qp_of(IBV_QPT_RC), IBV_SEND_SIGNALED, MAX_INLINE, 1, 0);
}

static void messages_have_a_limit(void)
{
    check_lengths(qp_of(IBV_QPT_RC), 0, MAX_MESSAGE - 1, 1, 0);
    check_lengths(qp_of(IBV_QPT_RC), 0, MAX_MESSAGE, 1, WEFT_BAD_LENGTH);
    check_lengths(qp_of(IBV_QPT_RC), 0, 0, MAX_MESSAGE + 1, WEFT_BAD_LENGTH);
    check_lengths(qp_of(IBV_QPT_RC), 0, 1u << 31, 1u << 31, WEFT_BAD_LENGTH); /* 0 in 32 bits */
    check_lengths(qp_of(IBV_QPT_RC), 0, UINT32_MAX, 2, WEFT_BAD_LENGTH);      /* 1 in 32 bits */
}

static void the_limit_of_messages_can_be_set(void)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);

    weft_qp_set_max_message(&qp, UINT32_MAX);
    check_lengths(qp, 0, UINT32_MAX, 0, 0);
    driver.num_chains = 0;
    check_lengths(qp, 0, UINT32_MAX, 1, WEFT_BAD_LENGTH);
    weft_qp_set_max_message(&qp, 0); /* as long as the port is not known */
    check_lengths(qp, 0, 1, 0, WEFT_BAD_LENGTH);
    check_lengths(qp, 0, 0, 0, 0);
}

static void check_opcode(uint32_t type, uint32_t opcode, int good)
{
    struct weft_qp qp = qp_of(type);
    struct batch b = batch_of(1, 1);

    b.sends[0].opcode = opcode;
    b.sends[0].remote_addr = 64;
    b.sges[0].length = 8;
    if (good)
        check_taken(post_sends, &qp, &b);
    else
        check_refused(post_sends, &qp, &b, WEFT_BAD_OPCODE, 0);
    batch_free(&b);
}

static void each_transport_has_its_opcodes(void)
{
    for (uint32_t opcode = 0; opcode < 70; opcode++) {
        int send = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
        int unacknowledged = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
                             opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_SEND_WITH_INV;
        int answered =
            opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
        check_opcode(IBV_QPT_RC, opcode, send || unacknowledged || answered);
        check_opcode(IBV_QPT_UC, opcode, send || unacknowledged);
        check_opcode(IBV_QPT_UD, opcode, send);
    }
    check_opcode(IBV_QPT_RC, 1u << 31, 0);
    check_opcode(IBV_QPT_RC, UINT32_MAX, 0);
    check_opcode(IBV_QPT_UD, UINT32_MAX, 0);
}

/* Sends one fetch-and-add. */
static int atomic(uint32_t length, uint32_t num_sge, uint64_t remote_addr, uint32_t flags)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);
    struct batch b = batch_of(1, num_sge);
    uint32_t accepted;

    b.sends[0].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    b.sends[0].remote_addr = remote_addr;
    b.sends[0].flags = flags;
    b.sges[0].length = length;
    int rc = post_sends(&qp, &b, &accepted);
    batch_free(&b);
    return rc;
}

static void atomics_are_of_8_bytes_at_a_multiple_of_8(void)
{
    CHECK_EQ(atomic(8, 1, 64, 0), 0);
    CHECK_EQ(atomic(7, 1, 64, 0), -WEFT_BAD_ATOMIC);
    CHECK_EQ(atomic(8, 2, 64, 0), -WEFT_BAD_ATOMIC); /* 9 bytes */
    CHECK_EQ(atomic(8, 1, 65, 0), -WEFT_BAD_ATOMIC);
    CHECK_EQ(atomic(8, 1, 64, IBV_SEND_INLINE), -WEFT_BAD_INLINE); /* nothing is sent */
}

/* Posts a batch in which the requests at these bits are signalled, to a queue of 4 where so many wait unsignalled. */
static int unsignaled(uint32_t waiting, uint32_t n, uint32_t signaled, uint32_t *run)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);
    struct batch b = batch_of(n, 1);
    uint32_t accepted;

    qp.limits.max_send_wr = 4;
    qp.run = waiting;
    for (uint32_t i = 0; i < n; i++)
        b.sends[i].flags = (signaled & 1u << i) != 0 ? IBV_SEND_SIGNALED : 0;
    int rc = post_sends(&qp, &b, &accepted);
    CHECK(rc == 0 || driver.n == 0);
    *run = qp.run;
    batch_free(&b);
    return rc;
}

static void a_queue_never_fills_with_nothing_signaled(void)
{
    uint32_t run;

    CHECK_EQ(unsignaled(0, 3, 0, &run), 0);
    CHECK_EQ(run, 3);
    CHECK_EQ(unsignaled(0, 4, 0, &run), -WEFT_BAD_UNSIGNALED);
    CHECK_EQ(run, 0);
    CHECK_EQ(unsignaled(3, 1, 0, &run), -WEFT_BAD_UNSIGNALED);
    CHECK_EQ(run, 3);
    CHECK_EQ(unsignaled(3, 1, 1, &run), 0);
    CHECK_EQ(run, 0);
    CHECK_EQ(unsignaled(1, 4, 4, &run), 0); /* the third */
    CHECK_EQ(run, 1);
}

/* What the driver did not take is not in the queue. */
static void a_partial_post_counts_what_was_taken(void)
{
    static const uint32_t runs[] = {10, 11, 0, 1, 2}; /* after so many were taken; ten were there before */
    struct batch b = batch_of(5, 1);

    b.sends[1].flags = IBV_SEND_SIGNALED;
    for (uint32_t i = 0; i < b.n; i++) {
        struct weft_qp qp = qp_of(IBV_QPT_RC);
        uint32_t accepted;
        qp.run = 10;
        fake.refuse = "post";
        fake.rc = ENOMEM;
        driver.refuse_at = i;
        CHECK_EQ(post_sends(&qp, &b, &accepted), ENOMEM);
        CHECK_EQ(accepted, i);
        CHECK_EQ(qp.run, runs[i]);
    }
    batch_free(&b);
}

static void check_failed(post *p)
{
    struct weft_qp qp = qp_of(IBV_QPT_RC);
    struct batch b = batch_of(2, 1);

    qp.refuses = qp.refuses_recvs = WEFT_BAD_FAILED;
    check_refused(p, &qp, &b, WEFT_BAD_FAILED, 0);
    batch_free(&b);
}

static void a_queue_pair_that_failed_takes_nothing(void)
{
    FOR_BOTH(check_failed);
}

int main(void)
{
    RUN(atomics_are_of_8_bytes_at_a_multiple_of_8);
    RUN(a_queue_never_fills_with_nothing_signaled);
    RUN(a_partial_post_counts_what_was_taken);
    RUN(a_queue_pair_that_failed_takes_nothing);
    RUN(one_bad_send_anywhere_and_nothing_is_posted);
    RUN(one_bad_receive_anywhere_and_nothing_is_posted);
    RUN(entries_left_over_are_refused_at_the_last_request);
    RUN(a_list_that_ends_inside_a_request_is_refused);
    RUN(each_kind_has_its_own_limit_of_entries);
    RUN(inline_data_has_a_limit);
    RUN(messages_have_a_limit);
    RUN(the_limit_of_messages_can_be_set);
    RUN(each_transport_has_its_opcodes);
    return test_summary();
}
