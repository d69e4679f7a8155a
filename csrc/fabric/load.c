/*
 * libfabric is opened when it is first needed, so that a program linked with Weft starts on a machine without it. What
 * loading it and opening its objects must not do to a Go process is undone here.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../common/load.h"
#include "shim.h"
#include "table.h"

/* What a data path rarely does; and what it is made of one function for each constant that it is called with. */
#define WEFT_RARELY(condition) __builtin_expect(condition, 0)
#define WEFT_INLINE            static inline __attribute__((always_inline))

static struct weft_fi_table weft_fi; /* libfabric */

/* libfabric's errors are negative. */
static int weft_fi_result(ssize_t rc)
{
    return rc < 0 ? (int)-rc : 0;
}

/*
 * Go catches signals for its own purposes: SIGSEGV becomes a panic that can be recovered, SIGURG preempts.
 * libinfinipath, which Debian's libfabric loads, takes over SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGINT and SIGTERM as it
 * is loaded, and the shm provider does when an endpoint is opened. So every call that may do that runs between
 * weft_signals_save and weft_signals_restore. WEFT_FI_CALL is such a call.
 *
 * Signal actions belong to the process. If two such calls overlapped, the second would save the handlers that the first
 * call's library has just installed, and restore these last: Go's would be lost for good. One lock of the process
 * therefore covers the whole of each call, and what it saves is kept beside the lock. A call may take long (fi_getinfo
 * asks a name server); others that open something wait for it.
 *
 * All signals but those of faults wait meanwhile on this thread: none meets a foreign handler here, and the threads
 * that a provider starts inherit the mask and take no signals.
 */
enum { WEFT_SIGNALS = 64 };

static struct {
    pthread_mutex_t one;
    struct sigaction actions[WEFT_SIGNALS + 1];
    sigset_t mask;
} weft_signals = {.one = PTHREAD_MUTEX_INITIALIZER};

static void weft_signals_save(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t wait;
    sigfillset(&wait);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&wait, faults[i]);
    pthread_mutex_lock(&weft_signals.one);
    pthread_sigmask(SIG_BLOCK, &wait, &weft_signals.mask);
    memset(weft_signals.actions, 0, sizeof(weft_signals.actions));
    for (int n = 1; n <= WEFT_SIGNALS; n++)
        sigaction(n, NULL, &weft_signals.actions[n]); /* fails for the two that glibc keeps, both times */
}

static void weft_signals_restore(void)
{
    for (int n = 1; n <= WEFT_SIGNALS; n++) {
        const struct sigaction *was = &weft_signals.actions[n];
        struct sigaction now;
        if (sigaction(n, NULL, &now) == 0 && (now.sa_sigaction != was->sa_sigaction || now.sa_flags != was->sa_flags))
            sigaction(n, was, NULL);
    }
    sigset_t mask = weft_signals.mask;
    pthread_mutex_unlock(&weft_signals.one);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* The result of a call that opens, enables, connects or closes something: a positive errno, 0 for success. */
#define WEFT_FI_CALL(call)                                                                                             \
    ({                                                                                                                 \
        weft_signals_save();                                                                                           \
        int weft_fi_call_result = weft_fi_result(call);                                                                \
        weft_signals_restore();                                                                                        \
        weft_fi_call_result;                                                                                           \
    })

/*
 * What libfabric takes from the environment alone. The registration cache finds out that memory was unmapped by
 * intercepting libc's munmap, which Go does not call: it would go on using the pages that were there before. The user's
 * own settings stay. fabric/doc.go lists these.
 */
static void weft_fi_environment(void)
{
    static const char *const settings[][2] = {
        {"FI_MR_CACHE_MONITOR", "disabled"}, {"FI_MR_CACHE_MAX_COUNT", "0"}, {"FI_EFA_MR_CACHE_ENABLE", "0"},
        {"IPATH_NO_BACKTRACE", "1"}, /* libinfinipath's handlers, while it is loaded */
        {"HFI_NO_BACKTRACE", "1"},   /* likewise libpsm2's */
#ifdef WEFT_EFA
        {"FI_EFA_ENABLE_SHM_TRANSFER", "0"}, /* peers of this machine by the NIC too: one path, one order */
        {"FI_EFA_USE_HUGE_PAGE", "1"},
#endif
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        setenv(settings[i][0], settings[i][1], 0);
}

/* The function of the version that the headers are of. */
static void *weft_fi_symbol(void *library, const char *name, const char *version)
{
    return dlvsym(library, name, version);
}

int weft_fi_load(char *reason, size_t size)
{
    const char *missing = "libfabric.so.1";
    weft_fi_environment();
    weft_signals_save();
    void *library = dlopen(missing, RTLD_NOW | RTLD_LOCAL);
    weft_signals_restore();
    if (library == NULL)
        goto failed;
#define WEFT_LOOK_UP(name, version)                                                                                    \
    missing = #name " of " version;                                                                                    \
    *(void **)&weft_fi.name = weft_fi_symbol(library, #name, version);                                                 \
    if (weft_fi.name == NULL)                                                                                          \
        goto failed;
    WEFT_FI_FUNCTIONS(WEFT_LOOK_UP)
#undef WEFT_LOOK_UP
    uint32_t version = weft_fi.fi_version();
    if (FI_VERSION_GE(version, WEFT_FI_API))
        return 0;
    snprintf(reason, size, "it is version %u.%u, and this program was built with the headers of %u.%u",
             FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(WEFT_FI_API), FI_MINOR(WEFT_FI_API));
    return ENOENT;

failed:
    return weft_load_failed(reason, size, missing);
}

uint32_t weft_fi_version(void)
{
    return weft_fi.fi_version();
}

uint32_t weft_fi_headers(void)
{
    return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

const char *weft_fi_error_text(int err)
{
    return weft_fi.fi_strerror(err);
}

/*
 * A lock that is held for a few steps. Its holder may be taken off the processor, so whoever waits gives way.
 */
static void weft_fi_lock(uint32_t *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
}

static void weft_fi_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}
