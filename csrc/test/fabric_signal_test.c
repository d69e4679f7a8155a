/*
 * Calls during which a library may take over signals: each leaves the actions and the mask as they were, also when
 * several threads make such calls at the same time. The provider here takes signals over in every one of its calls.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "test.h"

#include "../fabric/fabric.c"

static int inside;   /* calls of the provider that are under way */
static int overlaps; /* that began while another was */
static int calls;

static void foreign(int number)
{
    (void)number;
}

static void ours(int number)
{
    (void)number;
}

/* What libinfinipath and the shm provider do, and a change of the thread's mask. */
static int take_signals(void)
{
    struct sigaction same;
    sigset_t mask;

    if (__atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST) != 0)
        __atomic_fetch_add(&overlaps, 1, __ATOMIC_SEQ_CST);
    signal(SIGSEGV, foreign);
    signal(SIGTERM, foreign);
    signal(SIGHUP, foreign);
    sigaction(SIGUSR2, NULL, &same);
    same.sa_flags ^= SA_ONSTACK; /* of whose handler the stack would then be a goroutine's */
    sigaction(SIGUSR2, &same, NULL);
    sigemptyset(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sched_yield();
    __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static int r_close(struct fid *fid)
{
    (void)fid;
    return take_signals();
}

static int r_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)arg;
    return command == FI_ENABLE ? take_signals() : 0;
}

static struct fi_ops r_ops = {.size = sizeof(r_ops), .close = r_close, .control = r_control};

#define OPENED(type, object) static struct type object = {.fid = {.ops = &r_ops}};
OPENED(fid_domain, r_domain_fid)
OPENED(fid_cq, r_cq_fid)
OPENED(fid_eq, r_eq_fid)
OPENED(fid_av, r_av_fid)
OPENED(fid_cntr, r_counter_fid)
OPENED(fid_ep, r_ep_fid)
OPENED(fid_pep, r_pep_fid)
OPENED(fid_stx, r_stx_fid)
OPENED(fid_mc, r_mc_fid)
OPENED(fid_fabric, r_fabric_fid)

static int r_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                     const struct fi_info *hints, struct fi_info **info)
{
    (void)version, (void)node, (void)service, (void)flags, (void)hints, (void)info;
    return take_signals();
}

static struct fi_info *r_dupinfo(const struct fi_info *info)
{
    static struct fi_ep_attr ep;
    static struct fi_tx_attr tx;
    static struct fi_rx_attr rx;
    static struct fi_domain_attr domain;
    static struct fi_fabric_attr fabric;
    static struct fi_info empty = {
        .ep_attr = &ep, .tx_attr = &tx, .rx_attr = &rx, .domain_attr = &domain, .fabric_attr = &fabric};
    (void)info;
    return &empty;
}

static void r_freeinfo(struct fi_info *info)
{
    (void)info;
}

static int r_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    (void)attr, (void)context;
    *fabric = &r_fabric_fid;
    return take_signals();
}

static int r_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
    (void)fabric, (void)info, (void)context;
    *domain = &r_domain_fid;
    return take_signals();
}

static int r_pep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
    (void)fabric, (void)info, (void)context;
    *pep = &r_pep_fid;
    return take_signals();
}

static int r_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
    (void)fabric, (void)attr, (void)context;
    *eq = &r_eq_fid;
    return take_signals();
}

static int r_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    (void)domain, (void)attr, (void)context;
    *av = &r_av_fid;
    return take_signals();
}

static int r_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    (void)domain, (void)attr, (void)context;
    *cq = &r_cq_fid;
    return take_signals();
}

static int r_counter(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **counter, void *context)
{
    (void)domain, (void)attr, (void)context;
    *counter = &r_counter_fid;
    return take_signals();
}

static int r_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    (void)domain, (void)info, (void)context;
    *ep = &r_ep_fid;
    return take_signals();
}

static int r_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
    (void)domain, (void)attr, (void)context;
    *stx = &r_stx_fid;
    return take_signals();
}

static int r_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)domain, (void)attr, (void)context;
    *ep = &r_ep_fid;
    return take_signals();
}

static int r_tx_context(struct fid_ep *scalable, int index, struct fi_tx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)scalable, (void)index, (void)attr, (void)context;
    *ep = &r_ep_fid;
    return take_signals();
}

static int r_rx_context(struct fid_ep *scalable, int index, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)scalable, (void)index, (void)attr, (void)context;
    *ep = &r_ep_fid;
    return take_signals();
}

static int r_connect(struct fid_ep *ep, const void *address, const void *param, size_t length)
{
    (void)ep, (void)address, (void)param, (void)length;
    return take_signals();
}

static int r_accept(struct fid_ep *ep, const void *param, size_t length)
{
    (void)ep, (void)param, (void)length;
    return take_signals();
}

static int r_listen(struct fid_pep *pep)
{
    (void)pep;
    return take_signals();
}

static int r_join(struct fid_ep *ep, const void *address, uint64_t flags, struct fid_mc **mc, void *context)
{
    (void)ep, (void)address, (void)flags, (void)context;
    *mc = &r_mc_fid;
    return take_signals();
}

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(fabric_ops), .domain = r_domain, .passive_ep = r_pep, .eq_open = r_eq};
static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = r_av,
    .cq_open = r_cq,
    .endpoint = r_endpoint,
    .scalable_ep = r_endpoint,
    .cntr_open = r_counter,
    .stx_ctx = r_stx,
    .srx_ctx = r_srx,
};
static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops), .tx_ctx = r_tx_context, .rx_ctx = r_rx_context};
static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops), .connect = r_connect, .listen = r_listen, .accept = r_accept, .join = r_join};

/* Makes every call once, each of which reaches the provider once; returns how many there were. */
static int each_call(void (*after)(const char *call))
{
    struct fi_info *info = r_dupinfo(NULL), *list = NULL;
    struct fid_fabric *fabric;
    struct weft_fi_domain *domain;
    struct weft_fi_ep *ep, *scalable, *tx, *rx, *srx;
    struct weft_fi_av *av;
    struct weft_fi_cq *cq;
    struct weft_fi_eq *eq;
    struct fid_cntr *counter;
    struct fid_pep *pep;
    struct fid_stx *stx;
    struct weft_fi_group *group;
    static const struct weft_fi_info hints;
    int fd, made = 0;

#define CALL(call)                                                                                                     \
    do {                                                                                                               \
        CHECK((call) == 0);                                                                                            \
        after(#call);                                                                                                  \
        made++;                                                                                                        \
    } while (0)
    CALL(weft_fi_getinfo(NULL, NULL, 0, &hints, &list));
    CALL(weft_fi_fabric_open(info, &fabric));
    CALL(weft_fi_domain_open(fabric, info, 0, &domain));
    CALL(weft_fi_av_open(domain, 0, 0, NULL, &av));
    CALL(weft_fi_cq_open(domain, 0, 0, FI_WAIT_NONE, 0, 0, &cq, &fd));
    CALL(weft_fi_eq_open(fabric, 0, FI_WAIT_NONE, &eq, &fd));
    CALL(weft_fi_counter_open(domain, FI_WAIT_NONE, 0, &counter));
    CALL(weft_fi_pep_open(fabric, info, &pep));
    CALL(weft_fi_listen(pep));
    CALL(weft_fi_stx_open(domain, info, &stx));
    CALL(weft_fi_srx_open(domain, info, &srx));
    CALL(weft_fi_scalable_open(domain, info, &scalable));
    CALL(weft_fi_context_open(scalable, 0, 0, &tx));
    CALL(weft_fi_context_open(scalable, 1, 0, &rx));
    CALL(weft_fi_ep_open(domain, info, NULL, 0, &ep));
    CALL(weft_fi_ep_enable(ep));
    CALL(weft_fi_connect(ep, (const uint8_t *)"", NULL, 0));
    CALL(weft_fi_accept(ep, NULL, 0));
    CALL(weft_fi_join(ep, (const uint8_t *)"", 0, &group));
    CALL(weft_fi_leave(group));
    CALL(weft_fi_ep_close(ep));
    CALL(weft_fi_ep_close(rx));
    CALL(weft_fi_ep_close(tx));
    CALL(weft_fi_ep_close(scalable));
    CALL(weft_fi_ep_close(srx));
    CALL(weft_fi_stx_close(stx));
    CALL(weft_fi_pep_close(pep));
    CALL(weft_fi_counter_close(counter));
    CALL(weft_fi_eq_close(eq));
    CALL(weft_fi_cq_close(cq));
    CALL(weft_fi_av_close(av));
    CALL(weft_fi_domain_close(domain));
    CALL(weft_fi_fabric_close(fabric));
#undef CALL
    return made;
}

static const int watched[] = {SIGSEGV, SIGTERM, SIGHUP, SIGUSR2};

static void begin(void)
{
    sigset_t mask;

    weft_fi.fi_getinfo = r_getinfo;
    weft_fi.fi_dupinfo = r_dupinfo;
    weft_fi.fi_freeinfo = r_freeinfo;
    weft_fi.fi_fabric = r_fabric;
    r_fabric_fid.ops = &fabric_ops;
    r_domain_fid.ops = &domain_ops;
    r_ep_fid.ops = &ep_ops;
    r_ep_fid.cm = r_pep_fid.cm = &cm_ops;
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        signal(watched[i], ours);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1); /* neither the mask of a call nor the provider's */
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    calls = overlaps = 0;
}

static void check_left_alone(const char *call)
{
    int broken = 0;
    sigset_t mask;

    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        struct sigaction now;
        sigaction(watched[i], NULL, &now);
        broken |= now.sa_handler != ours || (now.sa_flags & SA_ONSTACK) != 0;
        signal(watched[i], ours);
    }
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int n = 1; n <= WEFT_SIGNALS; n++)
        broken |= n != 32 && n != 33 && sigismember(&mask, n) != (n == SIGUSR1); /* these two are glibc's */
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (broken)
        test_broken(__FILE__, __LINE__, call);
}

static void every_call_leaves_signals_as_they_were(void)
{
    begin();
    int made = each_call(check_left_alone);
    CHECK_EQ(calls, made); /* the provider was reached by each */
}

static void look_at_nothing(const char *call)
{
    (void)call;
}

static void *many_calls(void *arg)
{
    for (int i = 0; i < 8; i++)
        each_call(look_at_nothing);
    return arg;
}

static void calls_of_several_threads_do_not_overlap(void)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];

    begin();
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, many_calls, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(overlaps, 0);
    check_left_alone("calls of several threads");
}

int main(void)
{
    RUN(every_call_leaves_signals_as_they_were);
    RUN(calls_of_several_threads_do_not_overlap);
    return test_summary();
}
