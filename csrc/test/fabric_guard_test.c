/* Calls that never return: which of them are broken off, and what comes after. */
#include "fabric_fake.h"
#include <sys/auxv.h>

static pthread_spinlock_t orphan;                        /* taken, and never released */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER; /* which a call waits for in libc */
static struct {
    uint32_t in_libc;
    uint32_t deaf; /* the thread takes no signal until the lock is held no more */
    uint32_t reads;
} stuck;

static void mask(int how)
{
    sigset_t last;
    sigemptyset(&last);
    sigaddset(&last, SIGRTMAX);
    pthread_sigmask(how, &last, NULL);
}

static ssize_t g_read(struct fid_cq *cq, void *buf, size_t count)
{
    (void)cq, (void)buf, (void)count;
    __atomic_fetch_add(&stuck.reads, 1, __ATOMIC_RELAXED);
    if (stuck.in_libc || stuck.deaf) {
        pthread_mutex_lock(&held); /* a signal does not get it out of there */
        pthread_mutex_unlock(&held);
    }
    if (stuck.deaf)
        mask(SIG_UNBLOCK);
    if (!stuck.in_libc)
        pthread_spin_lock(&orphan);
    return -FI_EAGAIN;
}

static struct fi_ops_cq guarded_ops = {.size = sizeof(guarded_ops), .read = g_read};

static void *poll_once(void *result)
{
    struct weft_fi_completion got;
    *(int *)result = weft_fi_cq_poll((weft_fi_number)&tx, &got, 1, 0);
    return NULL;
}

static void *look_once(void *result)
{
    *(int *)result = weft_fi_cq_look(&tx);
    return NULL;
}

static struct weft_fi_guards *guards;

/* Begins a call on a thread of its own and returns its number, once it is being made. */
static uint64_t make(void *(*call)(void *), uint32_t which, pthread_t *thread, int *result)
{
    uint32_t before = __atomic_load_n(&stuck.reads, __ATOMIC_RELAXED);
    CHECK_EQ(pthread_create(thread, NULL, call, result), 0);
    while (__atomic_load_n(&stuck.reads, __ATOMIC_RELAXED) == before)
        sched_yield();
    return __atomic_load_n(weft_fi_guard_calls(guards, which), __ATOMIC_ACQUIRE);
}

/* Waits until a thread sleeps. */
static void await_sleep(pid_t thread)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    while (state != 'S') {
        FILE *stat = fopen(path, "r");
        CHECK_EQ(stat != NULL, 1);
        CHECK_EQ(fscanf(stat, "%*[^)]) %c", &state), 1);
        fclose(stat);
        sched_yield();
    }
}

/* Breaks a call off. On a busy machine its thread may not get a processor for as long as is tried once. */
static int break_off(uint32_t which, uint64_t call)
{
    int ended = 0;
    for (int i = 0; i < 500 && !ended; i++)
        ended = weft_fi_guard_break(guards, which, call);
    return ended;
}

static void guard(const void *provider)
{
    begin(0);
    memset(&stuck, 0, sizeof(stuck));
    fid_tx.ops = &guarded_ops;
    guards = domain.guards = weft_fi_guards_new(provider);
}

static void unguard(void)
{
    free(domain.guards);
    domain.guards = NULL;
    end();
    memset(&domain, 0, sizeof(domain));
    memset(&av, 0, sizeof(av));
    lkey = 0;
}

/* In a spin lock, which is libc's code, and with a provider that is somewhere else. */
static void a_call_in_a_lock_is_broken_off(void)
{
    static void *(*const calls[])(void *) = {poll_once, look_once};
    for (uint32_t which = 0; which < WEFT_FI_GUARDS; which++) {
        pthread_t thread;
        int result = 0;
        guard(dlsym(RTLD_DEFAULT, "dlopen"));
        uint64_t call = make(calls[which], which, &thread, &result);
        CHECK_EQ(call, 1);
        CHECK_EQ(break_off(which, call), 1);
        pthread_join(thread, NULL);
        CHECK_EQ(result, -ENOTRECOVERABLE);
        CHECK_EQ(weft_fi_guard_broken(guards), 1);
        CHECK_EQ(*weft_fi_guard_calls(guards, which), 2);
        unguard();
    }
}

static void after_that_no_call_is_made(void)
{
    struct weft_fi_completion got;
    struct weft_fi_op op = {.num_seg = 1, .peer = 3};
    struct weft_fi_seg one = seg(0, 8);
    struct weft_fi_post_polled done;
    uint32_t accepted = 9, error = 0;
    uint64_t peer = 3;
    guard((const void *)g_read);
    one.lkey = lkey;
    guards->broken = 1;
    CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, &got, 1, 0), -ENOTRECOVERABLE);
    CHECK_EQ(weft_fi_cq_look(&tx), -ENOTRECOVERABLE);
    CHECK_EQ(weft_fi_cq_nap(&tx, NULL, weft_fi_cq_rings(&tx), 1000, 1000), -ENOTRECOVERABLE);
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, &op, 1, &one, 1, &accepted), ENOTRECOVERABLE);
    CHECK_EQ(accepted, 0);
    weft_fi_post_poll((weft_fi_number)&ep, WEFT_FI_WRITE, &op, 1, &one, 1, &got, 1, 0, &done);
    CHECK_EQ(done.result, ENOTRECOVERABLE);
    CHECK_EQ(weft_fi_post_atomics((weft_fi_number)&ep, 0, NULL, 0, NULL, 0, &accepted), ENOTRECOVERABLE);
    struct weft_fi_template *t;
    struct weft_fi_patch patch = {0};
    CHECK_EQ(weft_fi_template_create(1, &t), 0);
    CHECK_EQ(weft_fi_template_add(t, &ep, WEFT_FI_WRITE, &op, lkey), 0);
    CHECK_EQ(weft_fi_template_post((weft_fi_number)t, &patch, 1, &accepted), ENOTRECOVERABLE);
    weft_fi_template_free(t);
    av.domain = &domain;
    weft_fi_av_insert(&av, (const uint8_t *)"x", &(uint32_t){1}, 1, 0, &peer, &error);
    CHECK_EQ(error, ENOTRECOVERABLE);
    peer = 3;
    CHECK_EQ(weft_fi_av_remove(&av, &peer, 1), ENOTRECOVERABLE);
    CHECK_EQ(fake.posts, 0);
    CHECK_EQ(stuck.reads, 0);
    unguard();
}

/* It may hold a lock of libc's. */
static void a_call_in_libc_is_left_alone(void)
{
    pthread_t thread;
    int result = 1;
    guard((const void *)g_read);
    stuck.in_libc = 1;
    pthread_mutex_lock(&held);
    uint64_t call = make(poll_once, WEFT_FI_GUARD_CALL, &thread, &result);
    await_sleep(guards->guards[WEFT_FI_GUARD_CALL].thread);
    CHECK_EQ(weft_fi_guard_break(guards, WEFT_FI_GUARD_CALL, call), 0);
    CHECK_EQ(weft_fi_guard_broken(guards), 0);
    pthread_mutex_unlock(&held);
    pthread_join(thread, NULL);
    CHECK_EQ(result, 0);
    CHECK_EQ(weft_fi_guard_break(guards, WEFT_FI_GUARD_CALL, call), 1); /* it has ended */
    CHECK_EQ(weft_fi_guard_broken(guards), 0);
    unguard();
}

enum { STACK = 1 << 20 };
static unsigned char signal_stack[STACK];

static void *poll_once_deaf(void *result)
{
    const stack_t own = {.ss_sp = signal_stack, .ss_size = STACK}, none = {.ss_flags = SS_DISABLE};
    stack_t before;
    CHECK_EQ(sigaltstack(&own, &before), 0);
    mask(SIG_BLOCK);
    poll_once(result);
    CHECK_EQ(sigaltstack((before.ss_flags & SS_DISABLE) != 0 ? &none : &before, NULL), 0);
    return NULL;
}

/* A thread that had no processor finds many signals at once, and has little room for them. */
static void signals_do_not_pile_up(void)
{
    pthread_t thread;
    int result = 0;
    size_t untouched = 0;
    guard((const void *)g_read);
    memset(signal_stack, 0xa5, STACK);
    stuck.deaf = 1;
    pthread_mutex_lock(&held);
    uint64_t call = make(poll_once_deaf, WEFT_FI_GUARD_CALL, &thread, &result);
    await_sleep(guards->guards[WEFT_FI_GUARD_CALL].thread);
    CHECK_EQ(weft_fi_guard_break(guards, WEFT_FI_GUARD_CALL, call), 0);
    pthread_mutex_unlock(&held);
    CHECK_EQ(break_off(WEFT_FI_GUARD_CALL, call), 1);
    pthread_join(thread, NULL);
    CHECK_EQ(result, -ENOTRECOVERABLE);
    while (signal_stack[untouched] == 0xa5)
        untouched++;
    CHECK_EQ(STACK - untouched < 10 * (getauxval(AT_MINSIGSTKSZ) ?: 2048), 1); /* of some 20 signals */
    unguard();
}

static uint32_t heard;

static void hear(int number)
{
    (void)number;
    __atomic_fetch_add(&heard, 1, __ATOMIC_RELAXED);
}

/* Whoever had the signal before gets what is not for the guard. */
static void others_get_their_signal(void)
{
    struct sigaction theirs = {.sa_handler = hear};
    CHECK_EQ(sigaction(SIGRTMAX, &theirs, NULL), 0);
    guard((const void *)g_read);
    CHECK_EQ(weft_fi_guard_break(guards, WEFT_FI_GUARD_CALL, 1), 1); /* there is no such call */
    CHECK_EQ(raise(SIGRTMAX), 0);
    CHECK_EQ(heard, 1);
    unguard();
}

static void *nap(void *result)
{
    *(int *)result = weft_fi_cq_nap(&tx, NULL, 0, 1000000, 60000);
    return NULL;
}

static void a_nap_ends_when_somebody_rings(void)
{
    struct weft_fi_completion got;
    pthread_t thread;
    int result = 0;
    begin(0);
    fid_tx.ops = &cq_ops;
    CHECK_EQ(weft_fi_cq_nap(&tx, NULL, 0, 1000, 3), 0); /* nobody did */
    CHECK_EQ(fake.progressed >= 1, 1);
    CHECK_EQ(pthread_create(&thread, NULL, nap, &result), 0);
    weft_fi_cq_ring(&tx);
    pthread_join(thread, NULL);
    CHECK_EQ(result, 1);
    CHECK_EQ(weft_fi_cq_nap(&tx, NULL, 0, 1000000, 60000), 1); /* it was before */
    guard((const void *)f_read_cq);
    fid_tx.ops = &cq_ops;
    weft_fi_cq_poll((weft_fi_number)&tx, &got, 1, 0);
    CHECK_EQ(tx.polled, 1); /* which the next look sees */
    unguard();
}

static struct {
    uint32_t bell, looks, there;
} shared; /* with whoever posts */

static ssize_t g_look(struct fid_cq *cq, void *buf, size_t count)
{
    (void)cq, (void)buf, (void)count;
    __atomic_fetch_add(&shared.looks, 1, __ATOMIC_RELAXED);
    return __atomic_load_n(&shared.there, __ATOMIC_ACQUIRE) != 0 ? 0 : -FI_EAGAIN;
}

static void *sleep_by_bell(void *result)
{
    *(int *)result = weft_fi_cq_nap(&tx, &shared.bell, 0, 60000000, 120000);
    return NULL;
}

static void whoever_sleeps_looks_when_rung_for(void)
{
    static struct fi_ops_cq looks = {.size = sizeof(looks), .read = g_look};
    pthread_t thread;
    int result = 0;
    begin(0);
    tx.rings = 0;
    fid_tx.ops = &looks;
    CHECK_EQ(pthread_create(&thread, NULL, sleep_by_bell, &result), 0);
    for (uint32_t i = 0; i < 3; i++) { /* nothing is there yet */
        while (__atomic_load_n(&shared.bell, __ATOMIC_ACQUIRE) == 0)
            sched_yield();
        uint32_t before = __atomic_load_n(&shared.looks, __ATOMIC_RELAXED);
        weft_fi_ring(&shared.bell);
        while (__atomic_load_n(&shared.looks, __ATOMIC_RELAXED) == before)
            sched_yield();
    }
    __atomic_store_n(&shared.there, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&shared.bell, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    weft_fi_ring(&shared.bell);
    pthread_join(thread, NULL);
    CHECK_EQ(result, 1);
    CHECK_EQ(shared.bell, 0);
    weft_fi_ring(&shared.bell); /* nobody sleeps */
    CHECK_EQ(shared.bell, 0);
    end();
    memset(&domain, 0, sizeof(domain));
    memset(&av, 0, sizeof(av));
    lkey = 0;
}

int main(void)
{
    pthread_spin_init(&orphan, PTHREAD_PROCESS_PRIVATE);
    pthread_spin_lock(&orphan);
    RUN(a_call_in_a_lock_is_broken_off);
    RUN(after_that_no_call_is_made);
    RUN(a_call_in_libc_is_left_alone);
    RUN(signals_do_not_pile_up);
    RUN(others_get_their_signal);
    RUN(a_nap_ends_when_somebody_rings);
    RUN(whoever_sleeps_looks_when_rung_for);
    return test_summary();
}
