/* Asynchronous events, and what is asked of devices that only newer libraries know. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include "verbs_fake.h"

static struct verbs_context extended;
static struct ibv_context *const context = &extended.context;

static struct {
    struct ibv_async_event event;
    int interrupts; /* before it */
    int acked;      /* an event with this object */
    enum ibv_fork_status fork;
    int fork_inits;
    struct ibv_values_ex values;
    uint64_t ticks; /* that values are to be read as */
} driver;

static int fake_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
    CHECK(c == context);
    if (driver.interrupts > 0) {
        driver.interrupts--;
        errno = EINTR;
        return -1;
    }
    *event = driver.event;
    return result_of("ibv_get_async_event");
}

static void fake_ack_async_event(struct ibv_async_event *event)
{
    CHECK_EQ(event->event_type, driver.event.event_type);
    driver.acked += event->element.cq == driver.event.element.cq;
}

static int fake_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input,
                                struct ibv_device_attr_ex *attr, size_t size)
{
    CHECK(c == context);
    CHECK(input == NULL);
    CHECK_EQ(size, sizeof(*attr));
    attr->odp_caps.general_caps = 1;
    attr->odp_caps.per_transport_caps.rc_odp_caps = 2;
    attr->odp_caps.per_transport_caps.uc_odp_caps = 3;
    attr->odp_caps.per_transport_caps.ud_odp_caps = 4;
    attr->completion_timestamp_mask = 5;
    attr->hca_core_clock = 6;
    attr->device_cap_flags_ex = 7;
    attr->cq_mod_caps.max_cq_count = 8;
    attr->cq_mod_caps.max_cq_period = 9;
    attr->packet_pacing_caps.qp_rate_limit_min = 10;
    attr->packet_pacing_caps.qp_rate_limit_max = 11;
    attr->packet_pacing_caps.supported_qpts = 12;
    attr->pci_atomic_caps.fetch_add = 13;
    attr->pci_atomic_caps.swap = 14;
    attr->pci_atomic_caps.compare_swap = 15;
    return result_of("query_device_ex");
}

static void reset(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(&driver, 0, sizeof(driver));
    memset(&extended, 0, sizeof(extended));
    extended.sz = sizeof(extended);
    extended.query_device_ex = fake_query_device_ex;
    context->abi_compat = __VERBS_ABI_IS_EXTENDED;
    weft_ibv = (struct weft_ibv_table){.ibv_get_async_event = fake_get_async_event,
                                       .ibv_ack_async_event = fake_ack_async_event};
}

/* Which of an event's element means what: by the list of verbs.h, from the first event to the last. */
static void every_event_has_its_object_or_port(void)
{
    /* An object, a port, the device, or an object that verbs has not: a work queue, and what may come after it. */
    static const char kinds[] = "oooooooodpppppoooppww";

    for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL + 1; type++) {
        struct weft_async_event got;
        char object;
        reset();
        driver.event.event_type = (enum ibv_event_type)type;
        driver.event.element.cq = (struct ibv_cq *)(void *)&object;
        if (kinds[type] == 'p')
            driver.event.element.port_num = 2;
        CHECK_EQ(weft_context_event(context, &got), 0);
        CHECK_EQ(got.type, type);
        CHECK_EQ(got.object, kinds[type] == 'o' ? (uint64_t)(uintptr_t)&object : 0);
        CHECK_EQ(got.port, kinds[type] == 'p' ? 2 : 0);
        weft_context_ack_event(context, &got);
        CHECK_EQ(driver.acked, 1); /* with what it is about, which the library goes to without a look */
    }
}

static int take_event(void)
{
    struct weft_async_event event;

    driver.interrupts = 2;
    return weft_context_event(context, &event);
}

static void an_event_that_cannot_be_taken_is_an_errno(void)
{
    reset();
    check_results("ibv_get_async_event", take_event);
}

static void the_descriptor_does_not_block(void)
{
    int fds[2], fd = -1;

    reset();
    CHECK_EQ(pipe(fds), 0);
    context->async_fd = fds[0];
    CHECK_EQ(weft_context_nonblocking(context, &fd), 0);
    CHECK_EQ(fd, fds[0]);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    close(fds[0]);
    CHECK_EQ(weft_context_nonblocking(context, &fd), EBADF);
    close(fds[1]);
}

static int query_extended(void)
{
    struct weft_extended_attr got;
    static const struct weft_extended_attr want = {.odp = 1,
                                                   .odp_rc = 2,
                                                   .odp_uc = 3,
                                                   .odp_ud = 4,
                                                   .completion_timestamp_mask = 5,
                                                   .core_clock_khz = 6,
                                                   .flags_ex = 7,
                                                   .max_moderation_count = 8,
                                                   .max_moderation_period = 9,
                                                   .rate_limit_min = 10,
                                                   .rate_limit_max = 11,
                                                   .rate_limit_types = 12,
                                                   .atomics_fetch_add = 13,
                                                   .atomics_swap = 14,
                                                   .atomics_compare_swap = 15};

    int rc = weft_device_extended(context, &got);
    CHECK(rc != 0 || memcmp(&got, &want, sizeof(got)) == 0);
    return rc;
}

static void extended_attributes_carry_every_field(void)
{
    reset();
    check_results("query_device_ex", query_extended);
}

static int fake_query_rt_values(struct ibv_context *c, struct ibv_values_ex *values)
{
    CHECK(c == context);
    CHECK_EQ(values->comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
    *values = driver.values;
    return result_of("query_rt_values");
}

static int read_clock(void)
{
    uint64_t ticks = 0;
    int rc = weft_device_clock(context, &ticks);
    CHECK(rc != 0 || ticks == driver.ticks);
    return rc;
}

static void the_clock_is_the_devices_counter(void)
{
    reset();
    extended.query_rt_values = fake_query_rt_values;
    driver.values = (struct ibv_values_ex){.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock.tv_nsec = 5000000007};
    driver.ticks = 5000000007; /* cycles, as mlx5 has them */
    check_results("query_rt_values", read_clock);
    driver.values.raw_clock = (struct timespec){.tv_sec = 5, .tv_nsec = 7}; /* a driver whose tick is a nanosecond */
    CHECK_EQ(read_clock(), 0);
    driver.values.comp_mask = 0;
    CHECK_EQ(read_clock(), EOPNOTSUPP);
}

/* A library that is older than the question, and a driver that does not know it. */
static void what_is_not_there_is_unsupported(void)
{
    uint64_t ns;

    reset();
    CHECK_EQ(weft_device_clock(context, &ns), EOPNOTSUPP);
    extended.query_device_ex = NULL;
    CHECK_EQ(query_extended(), EOPNOTSUPP);
    extended.query_device_ex = fake_query_device_ex;
    extended.sz = sizeof(extended) - offsetof(struct verbs_context, query_device_ex) - 1;
    CHECK_EQ(query_extended(), EOPNOTSUPP);
    extended.sz++;
    CHECK_EQ(query_extended(), 0);
    context->abi_compat = NULL;
    CHECK_EQ(query_extended(), EOPNOTSUPP);
    CHECK_EQ(weft_fork_status(), -1);
}

static enum ibv_fork_status fake_is_fork_initialized(void)
{
    return driver.fork;
}

static int fake_fork_init(void)
{
    driver.fork_inits++;
    return result_of("ibv_fork_init");
}

static void forks_are_made_safe_only_where_they_are_not(void)
{
    static const enum ibv_fork_status safe[] = {IBV_FORK_ENABLED, IBV_FORK_UNNEEDED};

    reset();
    weft_ibv.ibv_fork_init = fake_fork_init;
    weft_ibv.ibv_is_fork_initialized = fake_is_fork_initialized;
    for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++) {
        driver.fork = safe[i];
        CHECK_EQ(weft_fork_status(), safe[i]);
        CHECK_EQ(weft_fork_init(), 0);
        CHECK_EQ(driver.fork_inits, 0);
    }
    driver.fork = IBV_FORK_DISABLED;
    check_results("ibv_fork_init", weft_fork_init);
    driver.fork_inits = 0;
    weft_ibv.ibv_is_fork_initialized = NULL; /* a library that cannot tell */
    CHECK_EQ(weft_fork_init(), 0);
    CHECK_EQ(driver.fork_inits, 1);
}

/* A context with functions of its own does not reach the library, and is asked as new ones are. */
static void a_context_can_bring_its_own_functions(void)
{
    struct weft_ibv_table own = {.ibv_get_async_event = fake_get_async_event};
    struct weft_async_event event;

    reset();
    weft_ibv.ibv_get_async_event = NULL;
    context->abi_compat = &own;
    CHECK_EQ(weft_context_event(context, &event), 0);
    CHECK_EQ(query_extended(), 0);
}

int main(void)
{
    RUN(every_event_has_its_object_or_port);
    RUN(an_event_that_cannot_be_taken_is_an_errno);
    RUN(the_descriptor_does_not_block);
    RUN(extended_attributes_carry_every_field);
    RUN(the_clock_is_the_devices_counter);
    RUN(what_is_not_there_is_unsupported);
    RUN(forks_are_made_safe_only_where_they_are_not);
    RUN(a_context_can_bring_its_own_functions);
    return test_summary();
}
