/* The verbs shim, with nothing loaded: each test fills in the functions that it needs, and says here which one fails.
 */
#ifndef WEFT_TEST_VERBS_FAKE_H
#define WEFT_TEST_VERBS_FAKE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "test.h"

static struct {
    const char *refuse; /* the function that fails; NULL for none */
    int rc;             /* what it returns, unless that is NULL */
    int err;            /* what it leaves in errno; 0 leaves errno alone */
} fake;

/* Whether the function that asks is the one to fail. */
static inline int refused(const char *function)
{
    if (fake.refuse == NULL || strcmp(fake.refuse, function) != 0)
        return 0;
    if (fake.err != 0)
        errno = fake.err;
    return 1;
}

/* What a verb that returns int gives back. */
static inline int result_of(const char *function)
{
    return refused(function) ? fake.rc : 0;
}

static inline void *fake_calloc(size_t n, size_t size)
{
    return refused("calloc") ? NULL : calloc(n, size);
}

#define calloc fake_calloc
#include "../verbs/verbs.c"
#undef calloc

/* Has the function fail in each way that drivers have, and checks what the call of the shim that ends in it returns. */
static inline void check_results(const char *function, int (*call)(void))
{
    static const struct {
        int rc, err, want;
    } cases[] = {
        {0, 0, 0}, {EINVAL, 0, EINVAL}, {-EBUSY, 0, EBUSY}, {-1, ENOSPC, ENOSPC}, {-1, 0, EIO},
    };

    fake.refuse = function;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake.rc = cases[i].rc;
        fake.err = cases[i].err;
        errno = ENOMEM; /* left over from something else */
        CHECK_EQ(call(), cases[i].want);
    }
    fake.refuse = NULL;
}

/* The same for functions that return NULL. */
static inline void check_null(const char *function, int (*call)(void))
{
    fake.refuse = function;
    fake.err = ENOSPC;
    CHECK_EQ(call(), ENOSPC);
    fake.err = 0;
    errno = ENOMEM;
    CHECK_EQ(call(), EIO);
    fake.refuse = NULL;
}

#endif
