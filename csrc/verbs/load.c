/*
 * libibverbs is opened when it is first needed, so that a program linked with Weft starts on a machine without it. Its
 * functions are called through the table below; posts and polls are inlines of the header, straight to the driver.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* Some names are macros over inlines in the header; what is wanted here is the exported function itself. */
#undef ibv_query_port
#undef ibv_reg_mr

/* clang-format off */
#define WEFT_IBV_FUNCTIONS(F)    \
    F(ibv_get_device_list)       \
    F(ibv_free_device_list)      \
    F(ibv_get_device_name)       \
    F(ibv_get_device_guid)       \
    F(ibv_open_device)           \
    F(ibv_close_device)          \
    F(ibv_query_device)          \
    F(ibv_query_port)            \
    F(_ibv_query_gid_table)      \
    F(ibv_alloc_pd)              \
    F(ibv_dealloc_pd)            \
    F(ibv_reg_mr)                \
    F(ibv_reg_mr_iova2)          \
    F(ibv_dereg_mr)              \
    F(ibv_create_ah)             \
    F(ibv_destroy_ah)            \
    F(ibv_create_comp_channel)   \
    F(ibv_destroy_comp_channel)  \
    F(ibv_create_cq)             \
    F(ibv_destroy_cq)            \
    F(ibv_get_cq_event)          \
    F(ibv_ack_cq_events)         \
    F(ibv_create_qp)             \
    F(ibv_modify_qp)             \
    F(ibv_query_qp)              \
    F(ibv_destroy_qp)
/* clang-format on */

#define WEFT_POINTER(name) __typeof__(&name) name;
static struct {
    WEFT_IBV_FUNCTIONS(WEFT_POINTER)
} weft_ibv;
#undef WEFT_POINTER

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
    return 0;

failed:;
    const char *error = dlerror();
    snprintf(reason, size, "%s", error != NULL ? error : missing);
    return ENOENT;
}

/*
 * The inlines of the header refer to a few exports by name. These hidden functions are those names for this translation
 * unit's program, so that nothing has to be linked with libibverbs. They run only after weft_verbs_load succeeded, as
 * every object comes from a device list.
 */
#define WEFT_FORWARDER __attribute__((visibility("hidden")))

WEFT_FORWARDER int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return weft_ibv.ibv_query_port(context, port, attr);
}

WEFT_FORWARDER struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return weft_ibv.ibv_reg_mr(pd, addr, length, access);
}

WEFT_FORWARDER struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                               unsigned int access)
{
    return weft_ibv.ibv_reg_mr_iova2(pd, addr, length, iova, access);
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
