/* What the shims share that open a library when it is first needed. */
#ifndef WEFT_LOAD_H
#define WEFT_LOAD_H

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

/* Says what kept a library from being opened: in dlerror's words, or else by the name that was looked for. */
static inline int weft_load_failed(char *reason, size_t size, const char *missing)
{
    const char *error = dlerror();
    snprintf(reason, size, "%s", error != NULL ? error : missing);
    return ENOENT;
}

#endif
