/* How the fabric shim opens libfabric: the installed one, one that is not there, one that lacks a function, and an old
 * one; and what is left of the signals' actions after it. */
#include <rdma/fabric.h>
#include <signal.h>

#include "load.h"

static uint32_t version; /* what the library says; 0 for its own */

static void foreign(int number)
{
    (void)number;
}

/* Installs handlers, as libinfinipath does, and lets through all signals. */
static void take_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGSEGV, foreign);
    signal(SIGTERM, foreign);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static uint32_t fake_version(void)
{
    return version;
}

static void *fake_dlvsym(void *from, const char *name, const char *wanted)
{
    library.looked_up = name;
    if (version != 0 && strcmp(name, "fi_version") == 0)
        return (void *)fake_version;
    if (library.hidden == NULL || strcmp(name, library.hidden) != 0)
        return dlvsym(from, name, wanted);
    return library.without_reason ? NULL : dlvsym(from, name, "FABRIC_99");
}

#define dlopen fake_dlopen
#define dlvsym fake_dlvsym
#include "../fabric/fabric.c"
#undef dlopen
#undef dlvsym

static int load_fabric(char *reason, size_t size)
{
    memset(&weft_fi, 0, sizeof(weft_fi));
    return weft_fi_load(reason, size);
}

static void installed_library_fills_the_table(void)
{
    char reason[256];
    void *installed = dlopen(library.name, RTLD_NOW);

    CHECK(installed != NULL);
    CHECK_EQ(load(reason, sizeof(reason)), 0);
#define SAME(name, of) CHECK((void *)weft_fi.name == dlvsym(installed, #name, of));
    WEFT_FI_FUNCTIONS(SAME)
#undef SAME
    CHECK(weft_fi_version() >= weft_fi_headers());
    CHECK(strcmp(weft_fi_error_text(FI_ETRUNC), "Truncation error") == 0);
    dlclose(installed);
}

static void absent_function_is_named(void)
{
#define HIDE(name, of) check_hidden(#name);
    WEFT_FI_FUNCTIONS(HIDE)
#undef HIDE
}

static void function_without_address_is_named(void)
{
    check_without_address("fi_fabric", "fi_fabric of FABRIC_1.1");
}

static void older_library_is_refused(void)
{
    char reason[256];

    version = FI_VERSION(1, 9);
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strstr(reason, "it is version 1.9, and this program was built with the headers of ") == reason);
    version = 0;
}

static void handlers_of_the_library_are_taken_away(void)
{
    char reason[256];
    struct sigaction before, after;
    sigset_t mask;

    for (int i = 0; i < 2; i++) {
        int number = i == 0 ? SIGSEGV : SIGTERM;
        sigemptyset(&mask); /* of one signal, which is neither the mask during a call nor the library's */
        sigaddset(&mask, SIGUSR1);
        CHECK_EQ(pthread_sigmask(SIG_SETMASK, &mask, NULL), 0);
        CHECK_EQ(sigaction(number, NULL, &before), 0);
        library.opened = take_signals;
        CHECK_EQ(load(reason, sizeof(reason)), 0);
        library.opened = NULL;
        CHECK_EQ(sigaction(number, NULL, &after), 0);
        CHECK(after.sa_handler == before.sa_handler);
        CHECK_EQ(after.sa_flags, before.sa_flags);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
        for (int n = 1; n <= WEFT_SIGNALS; n++) {
            if (n != 32 && n != 33) /* glibc's, which no mask has */
                CHECK_EQ(sigismember(&mask, n), n == SIGUSR1);
        }
    }
    sigemptyset(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void environment_is_set_but_not_overwritten(void)
{
    char reason[256];

    setenv("FI_MR_CACHE_MAX_COUNT", "7", 1);
    unsetenv("FI_MR_CACHE_MONITOR");
    CHECK_EQ(load(reason, sizeof(reason)), 0);
    CHECK(strcmp(getenv("FI_MR_CACHE_MAX_COUNT"), "7") == 0);
    CHECK(strcmp(getenv("FI_MR_CACHE_MONITOR"), "disabled") == 0);
}

int main(void)
{
    library.load = load_fabric;
    library.name = "libfabric.so.1";
    RUN(installed_library_fills_the_table);
    RUN(absent_library_is_named);
    RUN(absent_function_is_named);
    RUN(function_without_address_is_named);
    RUN(older_library_is_refused);
    RUN(handlers_of_the_library_are_taken_away);
    RUN(environment_is_set_but_not_overwritten);
    RUN(reason_fits_its_buffer);
    return test_summary();
}
