/*
 * A test frame: each test is a function without arguments, and main is a list of RUN(test) that returns test_summary().
 * A test that main forgets is an unused function, which the compiler refuses.
 */
#ifndef WEFT_TEST_TEST_H
#define WEFT_TEST_TEST_H

#include <stdio.h>
#include <string.h>

static struct {
    const char *name;
    int broken; /* checks of the current test that did not hold */
    int passed, failed;
} test;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            test_broken(__FILE__, __LINE__, #condition);                                                               \
    } while (0)

/* Compares integers of any type that long long holds, and shows both. */
#define CHECK_EQ(got, want) test_equal(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))

#define RUN(function) test_run(#function, function)

static inline void test_broken(const char *file, int line, const char *what)
{
    /* A loop over hundreds of cases that all fail is told often enough by the first few. */
    if (test.broken++ < 10)
        fprintf(stderr, "%s:%d: %s: %s\n", file, line, test.name, what);
}

static inline void test_equal(const char *file, int line, const char *what, long long got, long long want)
{
    char text[256];

    if (got == want)
        return;
    snprintf(text, sizeof(text), "%s is %lld, not %lld", what, got, want);
    test_broken(file, line, text);
}

static inline void test_run(const char *name, void (*function)(void))
{
    test.name = name;
    test.broken = 0;
    function();
    if (test.broken == 0)
        test.passed++;
    else
        test.failed++;
}

/* Prints the outcome, and returns it as main's exit status. */
static inline int test_summary(void)
{
    printf("%d passed, %d failed\n", test.passed, test.failed);
    return test.failed != 0;
}

#endif
