/*
 * libibverbs is opened when it is first needed, so that a program linked with Weft starts on a machine without it. Its
 * functions are called through the table below; posts and polls are inlines of the header, straight to the driver.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/load.h"
#include "shim.h"
#include "table.h"

static struct weft_ibv_table weft_ibv; /* libibverbs */

/*
 * The functions for a context. libibverbs marks its contexts in abi_compat (older ones with NULL); a context that did
 * not come from it has its table there.
 */
static const struct weft_ibv_table *weft_ibv_of(const struct ibv_context *context)
{
    void *own = context->abi_compat;
    return own == NULL || own == __VERBS_ABI_IS_EXTENDED ? &weft_ibv : own;
}

/* The same for anything that was made on a context. */
#define WEFT_IBV(object) weft_ibv_of((object)->context)

static struct verbs_context *weft_extended(struct ibv_context *context)
{
    return (struct verbs_context *)(void *)((char *)context - offsetof(struct verbs_context, context));
}

static int weft_has(struct ibv_context *context, size_t size)
{
    return context->abi_compat != NULL && weft_extended(context)->sz >= size;
}

/*
 * The context as newer libraries lay it out, NULL if it has no function op. The header's verbs_get_ctx_op would take a
 * context with a table of its own for an old one.
 */
#define WEFT_EXTENDED(context, op)                                                                                     \
    (weft_has((context), sizeof(struct verbs_context) - offsetof(struct verbs_context, op)) &&                         \
             weft_extended(context)->op != NULL                                                                        \
         ? weft_extended(context)                                                                                      \
         : NULL)

static void *weft_library;

const char *weft_verbs_path(void)
{
    struct link_map *map = NULL;
    return weft_library != NULL && dlinfo(weft_library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

int weft_verbs_load(char *reason, size_t size)
{
    const char *missing = "libibverbs.so.1";
    void *library = dlopen(missing, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        goto failed;
#define WEFT_LOOK_UP(name)                                                                                             \
    missing = #name;                                                                                                   \
    *(void **)&weft_ibv.name = dlsym(library, missing);                                                                \
    if (weft_ibv.name == NULL)                                                                                         \
        goto failed;
    WEFT_IBV_FUNCTIONS(WEFT_LOOK_UP)
#undef WEFT_LOOK_UP
#define WEFT_LOOK_UP(name) *(void **)&weft_ibv.name = dlsym(library, #name);
    WEFT_IBV_OPTIONAL(WEFT_LOOK_UP)
#undef WEFT_LOOK_UP
    weft_library = library;
    return 0;

failed:
    return weft_load_failed(reason, size, missing);
}

/*
 * The inlines of the header refer to a few exports by name. These hidden functions are those names for this translation
 * unit's program, so that nothing has to be linked with libibverbs. They run only after weft_verbs_load succeeded, as
 * every object comes from a device list.
 */
#define WEFT_FORWARDER __attribute__((visibility("hidden")))

WEFT_FORWARDER int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return weft_ibv_of(context)->ibv_query_port(context, port, attr);
}

WEFT_FORWARDER struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return WEFT_IBV(pd)->ibv_reg_mr(pd, addr, length, access);
}

WEFT_FORWARDER struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                               unsigned int access)
{
    return WEFT_IBV(pd)->ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

/* libibverbs reports through errno; a call that fails without setting it must still not look like success. */
static int weft_errno(void)
{
    return errno != 0 ? errno : EIO;
}

/*
 * What a verb returned, as 0 or a positive errno. The manual pages promise an errno value, but drivers also return -1
 * with errno set (older mlx5), -1 without (mthca), or a negative errno (rxe before rdma-core 44).
 */
static int weft_result(int rc)
{
    if (rc == -1)
        return weft_errno();
    return rc < 0 ? -rc : rc;
}

/* Calls a verb. An errno that an earlier call left must not pass for its reason: ENOMEM would mean a full queue. */
#define WEFT_CALL(verb) (errno = 0, weft_result(verb))
