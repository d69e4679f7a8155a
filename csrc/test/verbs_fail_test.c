/* Queue pairs that fail: what a poll does with completions that have an error. */
#include "verbs_fake.h"

enum { PAIRS = 4 };

static struct ibv_wc queue[8]; /* what the next poll finds */
static int there;

static struct {
    int changes[PAIRS]; /* to the error state, by queue pair */
    int rc;
    int queries;
    enum ibv_qp_state state; /* what the device says */
    uint32_t number;         /* of the next queue pair */
} driver;

static struct ibv_context context;
static struct ibv_pd pd = {.context = &context};
static struct ibv_cq send_queue = {.context = &context}, recv_queue = {.context = &context};
static struct weft_cq send_cq = {.cq = &send_queue}, recv_cq = {.cq = &recv_queue};
static struct weft_qp *pairs[PAIRS]; /* the first is on one completion queue, the others on two */

static int fake_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
    int n = there;

    CHECK(cq == &send_queue || cq == &recv_queue);
    CHECK(n <= max);
    memcpy(wcs, queue, (size_t)n * sizeof(queue[0]));
    there = 0;
    return n;
}

static struct ibv_qp *fake_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp *qp = calloc(1, sizeof(*qp));

    CHECK(p == &pd && attr != NULL);
    qp->context = &context;
    qp->qp_num = driver.number++;
    return qp;
}

static void (*meanwhile)(void); /* what another thread does while the device is asked for the state */

static int fake_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    CHECK(qp->context == &context && init != NULL);
    CHECK_EQ(mask, IBV_QP_STATE);
    driver.queries++;
    if (meanwhile != NULL)
        meanwhile();
    attr->qp_state = driver.state;
    return driver.rc;
}

static int fake_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    CHECK_EQ(mask & ~IBV_QP_CUR_STATE, IBV_QP_STATE);
    if (attr->qp_state == IBV_QPS_ERR)
        driver.changes[qp->qp_num - 100]++;
    return driver.rc;
}

static int fake_destroy_qp(struct ibv_qp *qp)
{
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i] != NULL && pairs[i]->qp == qp)
            CHECK_EQ(pairs[i]->lock, 1); /* no post is in progress */
    free(qp);
    return 0;
}

static void open_pairs(void)
{
    memset(&driver, 0, sizeof(driver));
    driver.number = 100;
    there = 0;
    context.ops.poll_cq = fake_poll_cq;
    weft_ibv.ibv_create_qp = fake_create_qp;
    weft_ibv.ibv_modify_qp = fake_modify_qp;
    weft_ibv.ibv_query_qp = fake_query_qp;
    driver.state = IBV_QPS_ERR;
    weft_ibv.ibv_destroy_qp = fake_destroy_qp;
    for (int i = 0; i < PAIRS; i++) {
        struct weft_qp_limits limits = {.type = IBV_QPT_RC, .max_send_wr = 4};
        uint32_t qpn;
        CHECK_EQ(weft_qp_create(&pd, &send_cq, i == 0 ? &send_cq : &recv_cq, NULL, &limits, &pairs[i], &qpn), 0);
        CHECK_EQ(qpn, 100 + i);
    }
}

static void close_pairs(void)
{
    static const int order[PAIRS] = {2, 0, 3, 1}; /* from the middle and both ends of the lists */

    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_qp_destroy(pairs[order[i]]), 0);
        weft_qp_free(pairs[order[i]]);
        pairs[order[i]] = NULL;
    }
    CHECK(send_cq.qps == NULL);
    CHECK(recv_cq.qps == NULL);
}

static void arrive(uint32_t pair, uint64_t id, enum ibv_wc_status status)
{
    queue[there++] =
        (struct ibv_wc){.wr_id = id, .status = status, .vendor_err = (uint32_t)id + 1, .qp_num = 100 + pair};
}

static void poll_all(struct weft_cq *cq)
{
    struct weft_wc wcs[8];
    int n = there;
    int32_t polled;

    weft_cq_poll((weft_handle)cq, wcs, 8, 0, &polled);
    CHECK_EQ(polled, n);
}

static void check_failure(uint32_t pair, uint64_t id, uint32_t status)
{
    struct weft_failure failure = {.event = 0};

    CHECK_EQ(weft_qp_failure(pairs[pair], &failure), status != 0);
    CHECK_EQ(failure.event, 0);
    CHECK_EQ(failure.id, status != 0 ? id : 0);
    CHECK_EQ(failure.status, status);
    CHECK_EQ(failure.vendor_err, status != 0 ? id + 1 : 0);
    CHECK_EQ(driver.changes[pair], status != 0);
    CHECK_EQ(pairs[pair]->refuses, status != 0 ? WEFT_BAD_FAILED : 0);
    CHECK_EQ(pairs[pair]->refuses_recvs, pairs[pair]->refuses);
}

/* On either completion queue, and wherever it is on their lists. */
static void the_first_error_is_the_cause(void)
{
    for (uint32_t pair = 0; pair < PAIRS; pair++) {
        for (int recvs = 0; recvs < 2; recvs++) {
            if (pair == 0 && recvs)
                continue; /* not on that one */
            open_pairs();
            arrive(pair, 6, IBV_WC_SUCCESS);
            arrive(pair, 7, IBV_WC_REM_ACCESS_ERR);
            arrive(pair, 8, IBV_WC_WR_FLUSH_ERR);
            arrive(pair, 9, IBV_WC_RETRY_EXC_ERR);
            poll_all(recvs ? &recv_cq : &send_cq);
            for (uint32_t other = 0; other < PAIRS; other++)
                check_failure(other, 7, other == pair ? IBV_WC_REM_ACCESS_ERR : 0);
            close_pairs();
        }
    }
}

static int move(uint32_t pair, uint32_t state, uint32_t from)
{
    struct weft_qp_attr attr = {.mask = IBV_QP_STATE, .state = state, .current_state = from};

    if (from != state)
        attr.mask |= IBV_QP_CUR_STATE;
    return weft_qp_modify(pairs[pair], &attr);
}

static void a_flush_that_was_asked_for_is_no_cause(void)
{
    open_pairs();
    CHECK_EQ(move(1, IBV_QPS_ERR, IBV_QPS_ERR), 0);
    driver.changes[1] = 0;
    arrive(1, 5, IBV_WC_WR_FLUSH_ERR);
    poll_all(&send_cq);
    check_failure(1, 0, 0);
    CHECK_EQ(driver.queries, 0);
    CHECK_EQ(move(1, IBV_QPS_RESET, IBV_QPS_RESET), 0); /* takes back that it was asked for */
    driver.rc = EINVAL;
    CHECK_EQ(move(1, IBV_QPS_ERR, IBV_QPS_ERR), EINVAL); /* it was not moved */
    driver.rc = 0;
    driver.changes[1] = 0;
    arrive(1, 6, IBV_WC_WR_FLUSH_ERR);
    poll_all(&send_cq);
    check_failure(1, 6, IBV_WC_WR_FLUSH_ERR);
    close_pairs();
}

/* The target of a bad request: the order of two completion queues, and of events, is not that of the errors. */
static void a_flush_that_nobody_asked_for_is_the_cause_until_a_better_one_comes(void)
{
    open_pairs();
    arrive(1, 5, IBV_WC_WR_FLUSH_ERR);
    arrive(1, 6, IBV_WC_WR_FLUSH_ERR);
    poll_all(&send_cq);
    check_failure(1, 5, IBV_WC_WR_FLUSH_ERR);
    CHECK_EQ(driver.queries, 1);
    arrive(1, 6, IBV_WC_LOC_PROT_ERR);
    poll_all(&recv_cq);
    check_failure(1, 6, IBV_WC_LOC_PROT_ERR);
    weft_qp_fail_event(pairs[1], IBV_EVENT_QP_FATAL);
    check_failure(1, 6, IBV_WC_LOC_PROT_ERR);
    close_pairs();
}

static void an_event_is_a_cause(void)
{
    struct weft_failure failure;

    for (int flushed = 0; flushed < 2; flushed++) {
        open_pairs();
        if (flushed)
            arrive(1, 5, IBV_WC_WR_FLUSH_ERR);
        poll_all(&send_cq);
        weft_qp_fail_event(pairs[1], IBV_EVENT_QP_ACCESS_ERR);
        arrive(1, 6, IBV_WC_WR_FLUSH_ERR);
        poll_all(&send_cq);
        CHECK_EQ(weft_qp_failure(pairs[1], &failure), 1);
        CHECK_EQ(failure.status, 0);
        CHECK_EQ(failure.event, IBV_EVENT_QP_ACCESS_ERR);
        CHECK_EQ(driver.changes[1], 1);
        CHECK_EQ(pairs[1]->refuses_recvs, WEFT_BAD_FAILED);
        close_pairs();
    }
}

static void a_flush_of_before_a_reset_is_no_cause(void)
{
    static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

    open_pairs();
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        driver.state = states[i];
        arrive(1, 5, IBV_WC_WR_FLUSH_ERR);
        poll_all(&send_cq);
        check_failure(1, 0, 0);
    }
    driver.rc = EIO; /* a device that says nothing any more */
    arrive(1, 6, IBV_WC_WR_FLUSH_ERR);
    poll_all(&send_cq);
    check_failure(1, 6, IBV_WC_WR_FLUSH_ERR);
    close_pairs();
}

static void fail_meanwhile(void)
{
    meanwhile = NULL;
    there = 0;
    arrive(1, 9, IBV_WC_REM_OP_ERR);
    poll_all(&recv_cq);
}

/* Two threads poll its two completion queues. */
static void a_failure_that_comes_meanwhile_is_kept(void)
{
    open_pairs();
    pairs[1]->limits.type = IBV_QPT_UD;
    arrive(1, 5, IBV_WC_LOC_PROT_ERR);
    meanwhile = fail_meanwhile;
    poll_all(&send_cq);
    check_failure(1, 9, IBV_WC_REM_OP_ERR);
    close_pairs();
}

static void a_send_queue_that_failed_is_brought_back(void)
{
    struct weft_failure failure;

    open_pairs();
    pairs[1]->limits.type = IBV_QPT_UD;
    driver.state = IBV_QPS_SQE;
    arrive(1, 5, IBV_WC_LOC_PROT_ERR);
    arrive(1, 6, IBV_WC_WR_FLUSH_ERR);
    poll_all(&send_cq);
    CHECK_EQ(weft_qp_failure(pairs[1], &failure), 1);
    CHECK_EQ(failure.status, IBV_WC_LOC_PROT_ERR);
    CHECK_EQ(driver.changes[1], 0);
    CHECK_EQ(pairs[1]->refuses, WEFT_BAD_FAILED);
    CHECK_EQ(pairs[1]->refuses_recvs, 0);
    CHECK_EQ(move(1, IBV_QPS_RTS, IBV_QPS_SQE), 0);
    driver.state = IBV_QPS_RTS;
    check_failure(1, 0, 0);
    arrive(1, 7, IBV_WC_WR_FLUSH_ERR); /* of the time before */
    poll_all(&send_cq);
    check_failure(1, 0, 0);
    driver.state = IBV_QPS_SQE;
    arrive(1, 8, IBV_WC_LOC_PROT_ERR);
    poll_all(&send_cq);
    CHECK_EQ(driver.changes[1], 0);
    driver.state = IBV_QPS_ERR; /* and then the rest of it */
    arrive(1, 9, IBV_WC_WR_FLUSH_ERR);
    poll_all(&recv_cq);
    check_failure(1, 8, IBV_WC_LOC_PROT_ERR);
    close_pairs();
}

static void a_queue_pair_that_is_gone_is_not_looked_for(void)
{
    open_pairs();
    CHECK_EQ(weft_qp_destroy(pairs[2]), 0);
    weft_qp_free(pairs[2]);
    pairs[2] = NULL;
    arrive(2, 5, IBV_WC_REM_OP_ERR);
    poll_all(&send_cq);
    for (uint32_t other = 0; other < PAIRS; other++)
        CHECK_EQ(driver.changes[other], 0);
    struct weft_qp_limits limits = {.type = IBV_QPT_RC};
    uint32_t qpn;
    CHECK_EQ(weft_qp_create(&pd, &send_cq, &recv_cq, NULL, &limits, &pairs[2], &qpn), 0);
    close_pairs();
}

static void a_reset_makes_it_as_new(void)
{
    struct weft_qp_attr attr = {.mask = IBV_QP_STATE, .state = IBV_QPS_RESET};

    open_pairs();
    arrive(1, 5, IBV_WC_REM_OP_ERR);
    poll_all(&send_cq);
    pairs[1]->run = 3;
    driver.rc = EINVAL;
    CHECK_EQ(weft_qp_modify(pairs[1], &attr), EINVAL);
    CHECK_EQ(pairs[1]->refuses, WEFT_BAD_FAILED);
    driver.rc = 0;
    CHECK_EQ(weft_qp_modify(pairs[1], &attr), 0);
    CHECK_EQ(pairs[1]->refuses, 0);
    CHECK_EQ(pairs[1]->run, 0);
    driver.changes[1] = 0;
    arrive(1, 6, IBV_WC_REM_OP_ERR);
    poll_all(&send_cq);
    check_failure(1, 6, IBV_WC_REM_OP_ERR);
    close_pairs();
}

int main(void)
{
    RUN(the_first_error_is_the_cause);
    RUN(a_flush_that_was_asked_for_is_no_cause);
    RUN(a_flush_that_nobody_asked_for_is_the_cause_until_a_better_one_comes);
    RUN(an_event_is_a_cause);
    RUN(a_flush_of_before_a_reset_is_no_cause);
    RUN(a_failure_that_comes_meanwhile_is_kept);
    RUN(a_send_queue_that_failed_is_brought_back);
    RUN(a_queue_pair_that_is_gone_is_not_looked_for);
    RUN(a_reset_makes_it_as_new);
    return test_summary();
}
