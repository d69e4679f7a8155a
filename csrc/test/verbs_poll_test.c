/* Polling, with a clock that moves only while the driver is asked. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <time.h>

#include "test.h"

enum { POLL_NS = 100 }; /* what one look into the queue takes */

static struct {
    uint64_t now;
    uint32_t clock_readings;
    uint32_t there; /* completions in the queue, from the time appears_at on */
    uint64_t appears_at;
    uint32_t taken;
    uint32_t polls;
    uint32_t fail_at; /* the poll that fails, from 1 on; 0 for none */
    int rc;
    uint32_t call_at; /* the poll at which the word changes, likewise */
    uint64_t word;
} driver;

static int fake_clock_gettime(clockid_t clock, struct timespec *t)
{
    CHECK_EQ(clock, CLOCK_MONOTONIC);
    driver.clock_readings++;
    t->tv_sec = (time_t)(driver.now / 1000000000);
    t->tv_nsec = (long)(driver.now % 1000000000);
    return 0;
}

#define clock_gettime fake_clock_gettime
#include "verbs_fake.h"
#undef clock_gettime

/* The completion with this number: no two fields have the same value. */
static struct ibv_wc completion(uint32_t i)
{
    return (struct ibv_wc){
        .wr_id = 0x1122334455660000 + i,
        .status = IBV_WC_RETRY_EXC_ERR,
        .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
        .vendor_err = 1000 + i,
        .byte_len = 2000 + i,
        .imm_data = htonl(3000 + i),
        .qp_num = 4000 + i,
        .src_qp = 5000 + i,
        .wc_flags = IBV_WC_GRH | IBV_WC_WITH_IMM,
        .pkey_index = 6000,
        .slid = 7000,
        .sl = 8,
        .dlid_path_bits = 9,
    };
}

static int fake_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
    int n = 0;

    CHECK_EQ(cq->cqe, 77);
    CHECK(max > 0 && max <= 32);
    driver.now += POLL_NS;
    if (++driver.polls == driver.call_at)
        driver.word++;
    if (driver.polls == driver.fail_at)
        return driver.rc;
    while (driver.now >= driver.appears_at && n < max && driver.taken < driver.there)
        wcs[n++] = completion(driver.taken++);
    return n;
}

static struct ibv_context context = {.ops.poll_cq = fake_poll_cq};
static struct ibv_cq driver_cq = {.context = &context, .cqe = 77};
static struct weft_cq cq = {.cq = &driver_cq};

/* A driver with so many completions. */
static void driver_of(uint32_t there)
{
    memset(&driver, 0, sizeof(driver));
    driver.now = 999999500; /* just before a full second */
    driver.there = there;
}

/* Polls for up to max into an allocation of just that, and checks the completions against their numbers from first on.
 */
static int poll_from(uint32_t first, uint32_t max, uint32_t spin_ns)
{
    struct weft_wc *wcs = calloc(max, sizeof(*wcs));
    int32_t n;
    weft_cq_poll((weft_handle)&cq, wcs, max, spin_ns, &n);

    for (int i = 0; i < n; i++) {
        struct ibv_wc want = completion(first + (uint32_t)i);
        CHECK_EQ(wcs[i].id, want.wr_id);
        CHECK_EQ(wcs[i].qpn, want.qp_num);
    }
    free(wcs);
    return n;
}

static void any_number_of_completions_is_taken_in_batches(void)
{
    static const uint32_t there[] = {0, 1, 31, 32, 33, 64, 100};
    static const uint32_t polls[] = {1, 1, 1, 2, 2, 3, 4};

    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++) {
        driver_of(there[i]);
        CHECK_EQ(poll_from(0, 128, 0), there[i]);
        CHECK_EQ(driver.polls, polls[i]);
    }
}

static void no_more_are_taken_than_there_is_room_for(void)
{
    static const uint32_t room[] = {1, 31, 32, 33, 64, 99};

    for (size_t i = 0; i < sizeof(room) / sizeof(room[0]); i++) {
        driver_of(100);
        CHECK_EQ(poll_from(0, room[i], 0), room[i]);
        CHECK_EQ(driver.taken, room[i]);
        CHECK_EQ(poll_from(room[i], 100, 0), 100 - room[i]);
    }
    driver_of(100);
    CHECK_EQ(poll_from(0, 0, 0), 0);
    CHECK_EQ(driver.polls, 0);
}

static void every_field_is_copied(void)
{
    struct ibv_wc in = completion(0);
    struct weft_wc wc;
    struct weft_wc want = {
        .id = 0x1122334455660000,
        .status = IBV_WC_SUCCESS,
        .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
        .vendor_err = 1000,
        .byte_len = 2000,
        .imm = 3000,
        .qpn = 4000,
        .src_qpn = 5000,
        .flags = IBV_WC_GRH | IBV_WC_WITH_IMM,
        .pkey_index = 6000,
        .slid = 7000,
        .sl = 8,
        .dlid_path_bits = 9,
    };

    memset(&wc, 0xff, sizeof(wc));
    in.status = IBV_WC_SUCCESS;
    weft_wc_fill(&wc, &in);
    CHECK(memcmp(&wc, &want, sizeof(wc)) == 0);
}

/* A driver leaves in the other fields what it likes. */
static void an_error_has_four_fields(void)
{
    struct weft_wc wc;
    struct weft_wc want = {.id = 0x1122334455660000, .status = IBV_WC_RETRY_EXC_ERR, .vendor_err = 1000, .qpn = 4000};

    memset(&wc, 0xff, sizeof(wc));
    driver_of(1);
    int32_t polled;
    weft_cq_poll((weft_handle)&cq, &wc, 1, 0, &polled);
    CHECK_EQ(polled, 1);
    CHECK(memcmp(&wc, &want, sizeof(wc)) == 0);
}

/* The field holds an immediate, in network order; an invalidated key, in host order; or nothing. */
static void an_immediate_needs_its_flag(void)
{
    struct ibv_wc in = completion(0);
    struct weft_wc out;

    in.status = IBV_WC_SUCCESS;
    weft_wc_fill(&out, &in);
    CHECK_EQ(out.imm, 3000);
    in.wc_flags = IBV_WC_GRH;
    weft_wc_fill(&out, &in);
    CHECK_EQ(out.imm, 0);
    in.invalidated_rkey = 0x01020304;
    in.wc_flags = IBV_WC_GRH | IBV_WC_WITH_INV;
    weft_wc_fill(&out, &in);
    CHECK_EQ(out.imm, 0x01020304);
    CHECK_EQ(out.flags, IBV_WC_GRH | IBV_WC_WITH_INV);
}

static void a_failed_poll_is_an_io_error(void)
{
    static const int rcs[] = {-1, -2, -EINVAL};

    for (size_t i = 0; i < sizeof(rcs) / sizeof(rcs[0]); i++) {
        driver_of(100);
        driver.fail_at = 1;
        driver.rc = rcs[i];
        errno = EAGAIN;
        CHECK_EQ(poll_from(0, 100, 0), -EIO);
    }
}

static void completions_before_a_failure_are_kept(void)
{
    driver_of(100);
    driver.fail_at = 3;
    driver.rc = -1;
    CHECK_EQ(poll_from(0, 100, 0), 64);
    driver.fail_at = 4;
    CHECK_EQ(poll_from(64, 100, 0), -EIO);
}

static void a_failure_ends_the_spin(void)
{
    driver_of(0);
    driver.fail_at = 5;
    driver.rc = -1;
    CHECK_EQ(poll_from(0, 1, 10000), -EIO);
    CHECK_EQ(driver.polls, 5);
}

static void without_spin_the_clock_is_not_read(void)
{
    driver_of(0);
    CHECK_EQ(poll_from(0, 1, 0), 0);
    CHECK_EQ(driver.polls, 1);
    CHECK_EQ(driver.clock_readings, 0);
    driver_of(1);
    CHECK_EQ(poll_from(0, 1, 10000), 1);
    CHECK_EQ(driver.clock_readings, 0);
}

/* After a first look, rounds of polls until the time is over. */
static uint32_t polls_in(uint32_t spin_ns)
{
    const uint32_t round = WEFT_SPIN_POLLS * POLL_NS;
    return 1 + (spin_ns + round - 1) / round * WEFT_SPIN_POLLS;
}

static void a_spin_ends_in_time(void)
{
    static const uint32_t spins[] = {1, 799, 800, 801, 1600, 9999, 10000};

    CHECK_EQ(polls_in(800), 9);
    CHECK_EQ(polls_in(801), 17);

    for (size_t i = 0; i < sizeof(spins) / sizeof(spins[0]); i++) {
        driver_of(0);
        CHECK_EQ(poll_from(0, 1, spins[i]), 0);
        CHECK_EQ(driver.polls, polls_in(spins[i]));
    }
}

static void no_spin_is_longer_than_the_limit(void)
{
    static const uint32_t spins[] = {WEFT_MAX_SPIN_NS + 1, 1000000000, UINT32_MAX};

    CHECK_EQ(WEFT_MAX_SPIN_NS, 10000);
    for (size_t i = 0; i < sizeof(spins) / sizeof(spins[0]); i++) {
        driver_of(0);
        CHECK_EQ(poll_from(0, 1, spins[i]), 0);
        CHECK_EQ(driver.polls, polls_in(WEFT_MAX_SPIN_NS));
    }
}

static void a_word_that_changes_ends_the_spin(void)
{
    struct weft_wc wc;
    int32_t n;

    for (uint32_t at = 0; at < 40; at++) {
        driver_of(0);
        driver.call_at = at;
        weft_cq_poll_while((weft_handle)&cq, &wc, 1, 1000, &driver.word, 0, &n);
        CHECK_EQ(n, 0);
        /* The first look, and groups of WEFT_SPIN_POLLS up to the end of that in which it changes. */
        uint32_t groups = at < 2 ? 1 : (at - 2) / WEFT_SPIN_POLLS + 1;
        uint32_t called = 1 + groups * WEFT_SPIN_POLLS;
        if (at == 0 || called > polls_in(1000))
            called = polls_in(1000);
        CHECK_EQ(driver.polls, called);
    }
    driver_of(1); /* at least one look */
    weft_cq_poll_while((weft_handle)&cq, &wc, 1, 1000, &driver.word, 7, &n);
    CHECK_EQ(n, 1);
}

static void a_spin_finds_what_appears_meanwhile(void)
{
    driver_of(40);
    driver.appears_at = driver.now + 2500;
    CHECK_EQ(poll_from(0, 100, 10000), 40);
    CHECK_EQ(driver.now, driver.appears_at + POLL_NS); /* the second batch */
}

int main(void)
{
    RUN(any_number_of_completions_is_taken_in_batches);
    RUN(no_more_are_taken_than_there_is_room_for);
    RUN(every_field_is_copied);
    RUN(an_error_has_four_fields);
    RUN(an_immediate_needs_its_flag);
    RUN(a_failed_poll_is_an_io_error);
    RUN(completions_before_a_failure_are_kept);
    RUN(a_failure_ends_the_spin);
    RUN(without_spin_the_clock_is_not_read);
    RUN(a_spin_ends_in_time);
    RUN(no_spin_is_longer_than_the_limit);
    RUN(a_word_that_changes_ends_the_spin);
    RUN(a_spin_finds_what_appears_meanwhile);
    return test_summary();
}
