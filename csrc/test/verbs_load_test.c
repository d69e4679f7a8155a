/* How the verbs shim opens libibverbs: the installed one, one that is not there, and one that lacks a function. */
#include <dlfcn.h>

#include "test.h"

static const char *instead;   /* opened instead of the library */
static const char *hidden;    /* what the library does not have */
static int without_reason;    /* dlerror has nothing to say about it */
static const char *looked_up; /* by the last call */

static void *fake_dlopen(const char *name, int flags)
{
    return dlopen(instead != NULL ? instead : name, flags);
}

static void *fake_dlsym(void *library, const char *name)
{
    char absent[128];

    looked_up = name;
    if (hidden == NULL || strcmp(name, hidden) != 0)
        return dlsym(library, name);
    if (without_reason)
        return NULL;
    snprintf(absent, sizeof(absent), "%s_hidden", name);
    return dlsym(library, absent);
}

#define dlopen fake_dlopen
#define dlsym  fake_dlsym
#include "../verbs/verbs.c"
#undef dlopen
#undef dlsym

static int load(char *reason, size_t size)
{
    memset(&weft_ibv, 0, sizeof(weft_ibv));
    memset(reason, '#', size);
    return weft_verbs_load(reason, size);
}

static void installed_library_fills_the_table(void)
{
    char reason[256];
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);

    CHECK(library != NULL);
    CHECK_EQ(load(reason, sizeof(reason)), 0);
#define SAME(name) CHECK((void *)weft_ibv.name == dlsym(library, #name));
    WEFT_IBV_FUNCTIONS(SAME)
#undef SAME
    CHECK_EQ(reason[0], '#'); /* untouched */
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
    CHECK(strstr(reason, "libibverbs.so.1") != NULL);
    CHECK(strstr(reason, name) != NULL);
    hidden = NULL;
}

static void absent_function_is_named(void)
{
#define HIDE(name) check_hidden(#name);
    WEFT_IBV_FUNCTIONS(HIDE)
#undef HIDE
}

/* A symbol whose value is NULL is found, so that dlerror has no message. */
static void function_without_address_is_named(void)
{
    char reason[256];

    hidden = "ibv_create_qp";
    without_reason = 1;
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(reason, "ibv_create_qp") == 0);
    hidden = NULL;
    without_reason = 0;
}

static void reason_fits_its_buffer(void)
{
    char reason[8];

    instead = "libweft-absent.so.1";
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(reason, "libweft") == 0);
    instead = NULL;
}

static void load_succeeds_after_a_failure(void)
{
    char reason[256];

    instead = "libweft-absent.so.1";
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    instead = NULL;
    CHECK_EQ(load(reason, sizeof(reason)), 0);
}

int main(void)
{
    RUN(installed_library_fills_the_table);
    RUN(absent_library_is_named);
    RUN(absent_function_is_named);
    RUN(function_without_address_is_named);
    RUN(reason_fits_its_buffer);
    RUN(load_succeeds_after_a_failure);
    return test_summary();
}
