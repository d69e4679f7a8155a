/* How the fabric shim opens libfabric: the installed one, one that is not there, one that lacks a function, and an old
 * one; and what is left of the signals' actions after it. */
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <signal.h>

#include "test.h"

static const char *instead;   /* opened instead of the library */
static const char *hidden;    /* what the library does not have */
static const char *looked_up; /* by the last call */
static int without_reason;    /* dlerror has nothing to say about it */
static int takes_signals;     /* what is opened installs a handler, as libinfinipath does */
static uint32_t version;      /* what it says; 0 for its own */

static void foreign(int number)
{
    (void)number;
}

static void *fake_dlopen(const char *name, int flags)
{
    if (takes_signals) {
        signal(SIGSEGV, foreign);
        signal(SIGTERM, foreign);
    }
    return dlopen(instead != NULL ? instead : name, flags);
}

static uint32_t fake_version(void)
{
    return version;
}

static void *fake_dlvsym(void *library, const char *name, const char *wanted)
{
    looked_up = name;
    if (version != 0 && strcmp(name, "fi_version") == 0)
        return (void *)fake_version;
    if (hidden == NULL || strcmp(name, hidden) != 0)
        return dlvsym(library, name, wanted);
    return without_reason ? NULL : dlvsym(library, name, "FABRIC_99");
}

#define dlopen fake_dlopen
#define dlvsym fake_dlvsym
#include "../fabric/fabric.c"
#undef dlopen
#undef dlvsym

static int load(char *reason, size_t size)
{
    memset(&weft_fi, 0, sizeof(weft_fi));
    memset(reason, '#', size);
    return weft_fi_load(reason, size);
}

static void installed_library_fills_the_table(void)
{
    char reason[256];
    void *library = dlopen("libfabric.so.1", RTLD_NOW);

    CHECK(library != NULL);
    CHECK_EQ(load(reason, sizeof(reason)), 0);
#define SAME(name, of) CHECK((void *)weft_fi.name == dlvsym(library, #name, of));
    WEFT_FI_FUNCTIONS(SAME)
#undef SAME
    CHECK_EQ(reason[0], '#'); /* untouched */
    CHECK(weft_fi_version() >= weft_fi_headers());
    CHECK(strcmp(weft_fi_error_text(FI_ETRUNC), "Truncation error") == 0);
    dlclose(library);
}

static void absent_library_is_named(void)
{
    char reason[256];

    instead = "libweft-absent.so.1";
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strstr(reason, "libweft-absent.so.1: cannot open shared object file") != NULL);
    instead = NULL;
}

static void check_hidden(const char *name)
{
    char reason[256];

    hidden = name;
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(looked_up, name) == 0);
    CHECK(strstr(reason, "libfabric.so.1") != NULL);
    CHECK(strstr(reason, name) != NULL);
    hidden = NULL;
}

static void absent_function_is_named(void)
{
#define HIDE(name, of) check_hidden(#name);
    WEFT_FI_FUNCTIONS(HIDE)
#undef HIDE
}

static void function_without_address_is_named(void)
{
    char reason[256];

    hidden = "fi_fabric";
    without_reason = 1;
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(reason, "fi_fabric of FABRIC_1.1") == 0);
    hidden = NULL;
    without_reason = 0;
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
    sigset_t mask_before, mask_after;

    for (int i = 0; i < 2; i++) {
        int number = i == 0 ? SIGSEGV : SIGTERM;
        sigemptyset(&mask_before);
        sigemptyset(&mask_after);
        CHECK_EQ(sigaction(number, NULL, &before), 0);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask_before), 0);
        takes_signals = 1;
        CHECK_EQ(load(reason, sizeof(reason)), 0);
        takes_signals = 0;
        CHECK_EQ(sigaction(number, NULL, &after), 0);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask_after), 0);
        CHECK(after.sa_handler == before.sa_handler);
        CHECK_EQ(after.sa_flags, before.sa_flags);
        for (int n = 1; n <= WEFT_SIGNALS; n++)
            CHECK_EQ(sigismember(&mask_after, n), sigismember(&mask_before, n));
    }
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

static void reason_fits_its_buffer(void)
{
    char reason[8];

    instead = "libweft-absent.so.1";
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(reason, "libweft") == 0);
    instead = NULL;
    CHECK_EQ(load(reason, sizeof(reason)), 0); /* succeeds after a failure */
}

int main(void)
{
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
