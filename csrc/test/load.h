/*
 * What the tests of opening a library share: a dlopen that opens another one, or none, and what has to be said then. A
 * test includes this, defines dlopen as fake_dlopen, includes the shim, and sets library.load.
 */
#ifndef WEFT_TEST_LOAD_H
#define WEFT_TEST_LOAD_H

#include <dlfcn.h>
#include <errno.h>

#include "test.h"

static struct {
    int (*load)(char *reason, size_t size); /* of the shim, into an empty table */
    const char *name;                       /* of the library */
    void (*opened)(void);                   /* NULL, or what the library does as it is opened */
    const char *instead;                    /* opened instead of it */
    const char *hidden;                     /* the function that it does not have */
    const char *looked_up;                  /* by the last call */
    int without_reason;                     /* dlerror has nothing to say about it */
} library;

static void *fake_dlopen(const char *name, int flags)
{
    if (library.opened != NULL)
        library.opened();
    return dlopen(library.instead != NULL ? library.instead : name, flags);
}

static int load(char *reason, size_t size)
{
    memset(reason, '#', size);
    return library.load(reason, size);
}

static void absent_library_is_named(void)
{
    char reason[256];

    library.instead = "libweft-absent.so.1";
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strstr(reason, "libweft-absent.so.1: cannot open shared object file") != NULL);
    library.instead = NULL;
    CHECK_EQ(load(reason, sizeof(reason)), 0); /* succeeds after a failure */
    CHECK_EQ(reason[0], '#');                  /* untouched */
}

static void reason_fits_its_buffer(void)
{
    char reason[8];

    library.instead = "libweft-absent.so.1";
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(reason, "libweft") == 0);
    library.instead = NULL;
}

static void check_hidden(const char *name)
{
    char reason[256];

    library.hidden = name;
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(library.looked_up, name) == 0);
    CHECK(strstr(reason, library.name) != NULL);
    CHECK(strstr(reason, name) != NULL);
    library.hidden = NULL;
}

/* A symbol whose value is NULL is found, so that dlerror has no message. */
static void check_without_address(const char *name, const char *text)
{
    char reason[256];

    library.hidden = name;
    library.without_reason = 1;
    CHECK_EQ(load(reason, sizeof(reason)), ENOENT);
    CHECK(strcmp(reason, text) == 0);
    library.hidden = NULL;
    library.without_reason = 0;
}

#endif
