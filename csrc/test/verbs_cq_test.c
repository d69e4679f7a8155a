/* Completion queues: what is created and given back on every way out, arming, and events. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <unistd.h>

#include "test.h"

static int fake_fcntl(int fd, int command, ...);

#define fcntl fake_fcntl
#include "verbs_fake.h"
#undef fcntl

static struct ibv_context context;

enum { VECTOR = 3 };

static struct {
    int channels, queues; /* that exist; what is left at the end is a leak for ASan as well */
    int wanted;           /* depth of the last queue */
    uint32_t armed;
    int solicited;
    int events;     /* that can be taken */
    int interrupts; /* reads that fail before the next event */
    int reads;      /* that did not fail so */
    int stop;       /* errno when there are no more */
    uint32_t acks, acked;
} driver;

static int fake_fcntl(int fd, int command, ...)
{
    va_list arguments;

    if (refused(command == F_GETFL ? "F_GETFL" : "F_SETFL"))
        return -1;
    va_start(arguments, command);
    int value = command == F_SETFL ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return fcntl(fd, command, value);
}

static struct ibv_comp_channel *fake_create_comp_channel(struct ibv_context *c)
{
    CHECK(c == &context);
    if (refused("ibv_create_comp_channel"))
        return NULL;
    struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));
    channel->context = &context;
    channel->fd = open("/dev/null", O_RDONLY | O_APPEND);
    driver.channels++;
    return channel;
}

static int fake_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    CHECK_EQ(driver.queues, 0); /* the library refuses otherwise */
    close(channel->fd);
    free(channel);
    driver.channels--;
    return result_of("ibv_destroy_comp_channel");
}

static struct ibv_cq *fake_create_cq(struct ibv_context *c, int depth, void *cq_context,
                                     struct ibv_comp_channel *channel, int vector)
{
    CHECK(c == &context);
    CHECK(cq_context == NULL);
    CHECK_EQ(vector, VECTOR);
    if (refused("ibv_create_cq"))
        return NULL;
    struct ibv_cq *cq = calloc(1, sizeof(*cq));
    cq->context = &context;
    cq->channel = channel;
    cq->cqe = depth + 27;
    driver.wanted = depth;
    driver.queues++;
    return cq;
}

static int fake_destroy_cq(struct ibv_cq *cq)
{
    int rc = result_of("ibv_destroy_cq");

    if (rc == 0) {
        free(cq);
        driver.queues--;
    }
    return rc;
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    CHECK(cq->context == &context);
    CHECK_EQ(solicited_only, driver.solicited);
    driver.armed++;
    return result_of("ibv_req_notify_cq");
}

static int fake_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    CHECK(channel != NULL && cq != NULL && cq_context != NULL);
    if (driver.interrupts > 0) {
        driver.interrupts--;
        errno = EINTR;
        return -1;
    }
    driver.reads++;
    if (driver.events == 0) {
        errno = driver.stop;
        return -1;
    }
    driver.events--;
    return 0;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    CHECK(cq->context == &context);
    driver.acks++;
    driver.acked += n;
}

static void reset(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(&driver, 0, sizeof(driver));
    context.ops.req_notify_cq = fake_req_notify_cq;
    weft_ibv.ibv_create_comp_channel = fake_create_comp_channel;
    weft_ibv.ibv_destroy_comp_channel = fake_destroy_comp_channel;
    weft_ibv.ibv_create_cq = fake_create_cq;
    weft_ibv.ibv_destroy_cq = fake_destroy_cq;
    weft_ibv.ibv_get_cq_event = fake_get_cq_event;
    weft_ibv.ibv_ack_cq_events = fake_ack_cq_events;
}

static struct weft_cq *create(int events)
{
    struct weft_cq *cq = NULL;
    uint32_t depth = 100;
    int fd;

    CHECK_EQ(weft_cq_create(&context, NULL, events, VECTOR, &depth, &cq, &fd), 0);
    return cq;
}

static void check_destroyed(struct weft_cq *cq)
{
    int left = -1;

    CHECK_EQ(weft_cq_destroy(cq, &left), 0);
    CHECK_EQ(left, 0);
    CHECK_EQ(driver.queues, 0);
    CHECK_EQ(driver.channels, 0);
}

static void queue_without_events_has_no_channel(void)
{
    struct weft_cq *cq = NULL;
    uint32_t depth = 100;
    int fd = -5;

    reset();
    CHECK_EQ(weft_cq_create(&context, NULL, 0, VECTOR, &depth, &cq, &fd), 0);
    CHECK_EQ(driver.wanted, 100);
    CHECK_EQ(depth, 127);
    CHECK_EQ(fd, -5);
    CHECK_EQ(driver.channels, 0);
    CHECK(((struct ibv_cq *)weft_cq_raw(cq))->channel == NULL);
    check_destroyed(cq);
}

static void queue_with_events_has_a_descriptor_that_does_not_block(void)
{
    struct weft_cq *cq = NULL;
    uint32_t depth = 100;
    int fd = -5;

    reset();
    CHECK_EQ(weft_cq_create(&context, NULL, 1, VECTOR, &depth, &cq, &fd), 0);
    CHECK_EQ(depth, 127);
    struct ibv_comp_channel *channel = ((struct ibv_cq *)weft_cq_raw(cq))->channel;
    CHECK(channel != NULL);
    CHECK_EQ(fd, channel->fd);
    CHECK_EQ(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND), O_NONBLOCK | O_APPEND); /* what was set stays */
    check_destroyed(cq);
    CHECK_EQ(fcntl(fd, F_GETFL), -1); /* closed */
}

static int create_refused(void)
{
    struct weft_cq *cq = NULL;
    uint32_t depth = 100;
    int fd;

    int rc = weft_cq_create(&context, NULL, 1, VECTOR, &depth, &cq, &fd);
    CHECK(cq == NULL);
    CHECK_EQ(depth, 100);
    CHECK_EQ(driver.queues, 0);
    CHECK_EQ(driver.channels, 0);
    return rc;
}

static void a_failure_at_any_step_gives_everything_back(void)
{
    reset();
    check_null("ibv_create_comp_channel", create_refused);
    check_null("F_GETFL", create_refused);
    check_null("F_SETFL", create_refused);
    check_null("ibv_create_cq", create_refused);
    fake.refuse = "calloc";
    CHECK_EQ(create_refused(), ENOMEM);
}

static struct weft_cq *shared; /* with calls that are functions without arguments */

static int destroy_shared(void)
{
    int left, rc = weft_cq_destroy(shared, &left);

    CHECK_EQ(driver.queues, rc != 0);
    CHECK_EQ(driver.channels, rc != 0);
    if (rc == 0)
        shared = create(1);
    return rc;
}

static void a_queue_that_is_not_destroyed_stays_whole(void)
{
    reset();
    shared = create(1);
    check_results("ibv_destroy_cq", destroy_shared);
    check_destroyed(shared);
}

/* The queue is gone: the result would have the caller destroy it again. */
static void a_channel_that_stays_is_told_once_the_queue_is_gone(void)
{
    reset();
    struct weft_cq *cq = create(1);
    fake.refuse = "ibv_destroy_comp_channel";
    fake.rc = EBUSY;
    int left = 0;
    CHECK_EQ(weft_cq_destroy(cq, &left), 0);
    CHECK_EQ(left, EBUSY);
    CHECK_EQ(driver.queues, 0);
}

static int arm_shared(void)
{
    driver.armed = 0;
    int rc = weft_cq_arm(shared, driver.solicited);
    CHECK_EQ(driver.armed, 1);
    return rc;
}

static void arming_asks_for_every_completion_or_the_solicited(void)
{
    reset();
    shared = create(1);
    check_results("ibv_req_notify_cq", arm_shared);
    driver.solicited = 1;
    CHECK_EQ(arm_shared(), 0);
    check_destroyed(shared);
}

/* Takes what the driver has, of what was asked for; all of it must be acknowledged, in one call. */
static void check_events(int events, int interrupts, int stop, int want)
{
    reset();
    struct weft_cq *cq = create(1);
    for (int i = 0; i <= events; i++)
        CHECK_EQ(weft_cq_arm(cq, 0), 0);
    driver.events = events;
    driver.interrupts = interrupts;
    driver.stop = stop;
    CHECK_EQ(weft_cq_events(cq), want);
    CHECK_EQ(driver.events, 0);
    CHECK_EQ(driver.acks, events > 0);
    CHECK_EQ(driver.acked, events);
    check_destroyed(cq);
}

static void all_events_are_taken_and_acknowledged_at_once(void)
{
    check_events(1, 0, EAGAIN, 1);
    check_events(5, 0, EAGAIN, 5);
}

static void no_event_is_no_error(void)
{
    check_events(0, 0, EAGAIN, 0);
}

static void a_broken_channel_is_an_error(void)
{
    check_events(0, 0, EBADF, -EBADF);
    check_events(0, 0, 0, -EIO);
}

static void events_before_an_error_count(void)
{
    check_events(3, 0, EBADF, 3);
}

static void an_interrupted_read_leaves_no_event_behind(void)
{
    check_events(2, 3, EAGAIN, 2);
    check_events(0, 3, EAGAIN, 0);
}

static void check_reads(struct weft_cq *cq, int events, int reads)
{
    driver.events = events;
    driver.reads = 0;
    driver.stop = EAGAIN;
    CHECK_EQ(weft_cq_events(cq), events > 0);
    CHECK_EQ(driver.reads, reads);
}

/* A wait that looks, sleeps, and looks again. */
static void a_read_beyond_what_was_asked_for_is_spared(void)
{
    reset();
    struct weft_cq *cq = create(1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_cq_arm(cq, 0), 0);
        check_reads(cq, 0, 1);
        check_reads(cq, 1, 1);
    }
    CHECK_EQ(weft_cq_arm(cq, 0), 0);
    check_reads(cq, 1, 1);
    CHECK_EQ(weft_cq_arm(cq, 0), 0);
    CHECK_EQ(weft_cq_arm(cq, 0), 0); /* which may be one event or two */
    check_reads(cq, 1, 2);
    check_reads(cq, 1, 1); /* of an arm that was not counted, or is still there */
    check_reads(cq, 1, 1);
    check_destroyed(cq);
}

int main(void)
{
    RUN(queue_without_events_has_no_channel);
    RUN(queue_with_events_has_a_descriptor_that_does_not_block);
    RUN(a_failure_at_any_step_gives_everything_back);
    RUN(a_queue_that_is_not_destroyed_stays_whole);
    RUN(a_channel_that_stays_is_told_once_the_queue_is_gone);
    RUN(arming_asks_for_every_completion_or_the_solicited);
    RUN(all_events_are_taken_and_acknowledged_at_once);
    RUN(no_event_is_no_error);
    RUN(a_broken_channel_is_an_error);
    RUN(events_before_an_error_count);
    RUN(an_interrupted_read_leaves_no_event_behind);
    RUN(a_read_beyond_what_was_asked_for_is_spared);
    return test_summary();
}
