/* The null provider: the context, its faults, and what it says about itself. What is made on it is in other files. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../verbs/table.h"
#include "null.h"

/* The calls that are not functions of the library. */
/* clang-format off */
#define WEFT_NULL_OPS(F) \
    F(query_device_ex)   \
    F(query_rt_values)   \
    F(advise_mr)         \
    F(alloc_null_mr)     \
    F(modify_cq)         \
    F(rate_limit)        \
    F(create_qp_ex)        \
    F(wr_start)            \
    F(wr_complete)         \
    F(create_cq_ex)      \
    F(alloc_td)          \
    F(dealloc_td)        \
    F(alloc_parent_domain) \
    F(start_poll)        \
    F(next_poll)         \
    F(end_poll)          \
    F(alloc_mw)          \
    F(dealloc_mw)        \
    F(bind_mw)           \
    F(poll_cq)           \
    F(req_notify_cq)     \
    F(post_send)         \
    F(post_recv)         \
    F(post_srq_recv)
/* clang-format on */

#define WEFT_CALL_NUMBER(name) CALL_##name,
enum weft_null_call {
    WEFT_IBV_FUNCTIONS(WEFT_CALL_NUMBER) WEFT_IBV_OPTIONAL(WEFT_CALL_NUMBER) WEFT_NULL_OPS(WEFT_CALL_NUMBER) CALLS
};
#undef WEFT_CALL_NUMBER

#define WEFT_CALL_NAME(name) #name,
static const char *const weft_null_names[] = {WEFT_IBV_FUNCTIONS(WEFT_CALL_NAME) WEFT_IBV_OPTIONAL(WEFT_CALL_NAME)
                                                  WEFT_NULL_OPS(WEFT_CALL_NAME)};
#undef WEFT_CALL_NAME

enum { WEFT_NULL_PORTS = 2, WEFT_NULL_GIDS = 16, WEFT_NULL_PKEY = 0x8123 };

struct null_fault {
    int armed, late, rc, err;
    uint32_t after;
};

struct weft_null {
    struct ibv_device device;
    struct verbs_context extended;
    struct ibv_device_attr_ex attr;
    struct ibv_port_attr ports[WEFT_NULL_PORTS];
    struct ibv_gid_entry gids[WEFT_NULL_GIDS];
    uint32_t num_gids, max_inline, refused_access;
    struct null_fault faults[CALLS];
    int64_t calls[CALLS];
    int64_t live;
    int late;                       /* what the call in progress returns once it has freed its object */
    struct weft_null_dmabuf dmabuf; /* the last */
    uint32_t key, qpn, domains;     /* the last that was given out */
    uint64_t ticks;                 /* of the device's counter */
    uint64_t wall_ns;               /* of its wall clock */
    struct {
        int armed;
        uint32_t after, status, vendor_err;
    } send;
    struct {
        uint64_t addr, length, iova;
        uint32_t access;
    } registered;     /* the last region */
    uint32_t advised; /* the last advice, and in its low half the flags */
    int hold;
    uint8_t inlined[4096]; /* the bytes of the last post that began with an inline send */
    uint32_t num_inlined;
    uint32_t lock; /* guards the queues */
    struct null_qp *qps;
    int event_write;
};

static struct weft_null *null_of(struct ibv_context *context)
{
    return (struct weft_null *)(void *)((char *)context - offsetof(struct weft_null, extended.context));
}

static void null_lock(struct weft_null *n)
{
    while (__atomic_exchange_n(&n->lock, 1, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
}

static void null_unlock(struct weft_null *n)
{
    __atomic_store_n(&n->lock, 0, __ATOMIC_RELEASE);
}

/* Counts a call and tells whether it is the one that is to fail. */
static int null_refuses(struct weft_null *n, enum weft_null_call call)
{
    struct null_fault *f = &n->faults[call];
    n->calls[call]++;
    if (!f->armed || f->after-- != 0)
        return 0;
    f->armed = 0;
    if (f->late) {
        n->late = f->rc;
        return 0;
    }
    if (f->err != 0)
        errno = f->err;
    return 1;
}

/* The first line of a call that returns int. */
#define NULL_RESULT(context, name)                                                                                     \
    if (null_refuses(null_of(context), CALL_##name))                                                                   \
    return null_of(context)->faults[CALL_##name].rc

/* The first line of one that returns an object. */
#define NULL_POINTER(context, name)                                                                                    \
    if (null_refuses(null_of(context), CALL_##name))                                                                   \
    return NULL

static void *null_make(struct ibv_context *context, size_t size)
{
    void *object = calloc(1, size);
    if (object != NULL)
        null_of(context)->live++;
    return object;
}

static int null_free(struct ibv_context *context, void *object)
{
    struct weft_null *n = null_of(context);
    int rc = n->late;
    free(object);
    n->live--;
    n->late = 0;
    return rc;
}

static void *null_fail(int err)
{
    errno = err;
    return NULL;
}

#include "memory.c"
#include "queue.c"

#include "extended.c"
#include "qp.c"

#include "builder.c"
#include "srq.c"

static int null_close_device(struct ibv_context *context)
{
    NULL_RESULT(context, ibv_close_device);
    return 0; /* the context is the test's */
}

static int null_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    NULL_RESULT(context, ibv_query_device);
    *attr = null_of(context)->attr.orig_attr;
    return 0;
}

static int null_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                                struct ibv_device_attr_ex *attr, size_t size)
{
    (void)input;
    (void)size;
    NULL_RESULT(context, query_device_ex);
    *attr = null_of(context)->attr;
    return 0;
}

static int null_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    NULL_RESULT(context, query_rt_values);
    values->raw_clock = (struct timespec){.tv_nsec = (long)null_of(context)->ticks}; /* as mlx5 does */
    values->comp_mask = null_of(context)->attr.hca_core_clock != 0 ? IBV_VALUES_MASK_RAW_CLOCK : 0;
    return 0;
}

static int null_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
    NULL_RESULT(context, ibv_query_port);
    if (port < 1 || port > null_of(context)->attr.orig_attr.phys_port_cnt || size < sizeof(*attr))
        return EINVAL;
    *attr = null_of(context)->ports[port - 1];
    return 0;
}

/* What the header's inline takes for a context that is not one of the library's; attr is a whole struct ibv_port_attr.
 */
static int null_query_port_compat(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return null_query_port(context, port, (struct ibv_port_attr *)attr, sizeof(struct ibv_port_attr));
}

static ssize_t null_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                                    uint32_t flags, size_t size)
{
    struct weft_null *n = null_of(context);
    (void)flags;
    NULL_RESULT(context, _ibv_query_gid_table);
    if (n->num_gids > max || size != sizeof(*entries))
        return -EINVAL;
    memcpy(entries, n->gids, n->num_gids * sizeof(*entries));
    return n->num_gids;
}

static int null_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                             uint32_t flags, size_t size)
{
    struct weft_null *n = null_of(context);
    (void)flags;
    NULL_RESULT(context, _ibv_query_gid_ex);
    for (uint32_t i = 0; i < n->num_gids; i++)
        if (n->gids[i].gid_index == index && n->gids[i].port_num == port && size == sizeof(*entry)) {
            *entry = n->gids[i];
            return 0;
        }
    return ENODATA;
}

static int null_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6],
                                        uint16_t *vlan)
{
    NULL_RESULT(context, ibv_resolve_eth_l2_from_gid);
    memcpy(mac, attr->grh.dgid.raw + 10, 6);
    *vlan = 0xffff;
    return 0;
}

static int null_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)port;
    NULL_RESULT(context, ibv_query_pkey);
    *pkey = htobe16(WEFT_NULL_PKEY);
    return index == 0 ? 0 : -1;
}

static int null_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    (void)port;
    NULL_RESULT(context, ibv_get_pkey_index);
    return pkey == htobe16(WEFT_NULL_PKEY) ? 0 : -1;
}

static int null_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    NULL_RESULT(context, ibv_get_async_event);
    return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

/* As the library does it: by the type of the event, it goes to what that is about without a look. All of these begin
 * with their context. */
static void null_ack_async_event(struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_WQ_FATAL:
        null_of(event->element.cq->context)->calls[CALL_ibv_ack_async_event]++;
        break;
    default:
        break;
    }
}

static const struct weft_ibv_table null_table = {
    .ibv_close_device = null_close_device,
    .ibv_query_device = null_query_device,
    .ibv_query_port = null_query_port_compat,
    .ibv_query_pkey = null_query_pkey,
    .ibv_get_pkey_index = null_get_pkey_index,
    ._ibv_query_gid_table = null_query_gid_table,
    ._ibv_query_gid_ex = null_query_gid_ex,
    .ibv_resolve_eth_l2_from_gid = null_resolve_eth_l2_from_gid,
    .ibv_alloc_pd = null_alloc_pd,
    .ibv_dealloc_pd = null_dealloc_pd,
    .ibv_import_pd = null_import_pd,
    .ibv_unimport_pd = null_unimport_pd,
    .ibv_reg_mr_iova2 = null_reg_mr_iova2,
    .ibv_reg_dmabuf_mr = null_reg_dmabuf_mr,
    .ibv_import_mr = null_import_mr,
    .ibv_unimport_mr = null_unimport_mr,
    .ibv_rereg_mr = null_rereg_mr,
    .ibv_dereg_mr = null_dereg_mr,
    .ibv_create_ah = null_create_ah,
    .ibv_init_ah_from_wc = null_init_ah_from_wc,
    .ibv_destroy_ah = null_destroy_ah,
    .ibv_create_comp_channel = null_create_comp_channel,
    .ibv_destroy_comp_channel = null_destroy_comp_channel,
    .ibv_create_cq = null_create_cq,
    .ibv_resize_cq = null_resize_cq,
    .ibv_destroy_cq = null_destroy_cq,
    .ibv_get_cq_event = null_get_cq_event,
    .ibv_ack_cq_events = null_ack_cq_events,
    .ibv_create_srq = null_create_srq,
    .ibv_modify_srq = null_modify_srq,
    .ibv_query_srq = null_query_srq,
    .ibv_destroy_srq = null_destroy_srq,
    .ibv_create_qp = null_create_qp,
    .ibv_modify_qp = null_modify_qp,
    .ibv_query_qp = null_query_qp,
    .ibv_destroy_qp = null_destroy_qp,
    .ibv_attach_mcast = null_attach_mcast,
    .ibv_detach_mcast = null_detach_mcast,
    .ibv_qp_to_qp_ex = null_qp_to_qp_ex,
    .ibv_query_qp_data_in_order = null_query_qp_data_in_order,
    .ibv_get_async_event = null_get_async_event,
    .ibv_ack_async_event = null_ack_async_event,
};

static void null_describe(struct weft_null *n)
{
    struct ibv_device_attr *a = &n->attr.orig_attr;
    strcpy(n->device.name, "null0");
    strcpy(a->fw_ver, "1.0");
    a->vendor_id = 1; /* soft-RoCE of older kernels has 0 */
    a->max_mr_size = UINT64_MAX;
    a->max_qp = a->max_cq = a->max_mr = a->max_pd = a->max_ah = a->max_mw = a->max_srq = 1 << 16;
    a->max_qp_wr = a->max_srq_wr = 1 << 14;
    a->max_cqe = 1 << 16;
    a->max_sge = a->max_sge_rd = a->max_srq_sge = 16;
    a->max_qp_rd_atom = a->max_qp_init_rd_atom = 16;
    a->atomic_cap = IBV_ATOMIC_HCA;
    a->device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    a->page_size_cap = 0x1000;
    a->max_pkeys = 1;
    a->phys_port_cnt = 1;
    n->max_inline = 512;
    for (int i = 0; i < WEFT_NULL_PORTS; i++) {
        n->ports[i].state = IBV_PORT_ACTIVE;
        n->ports[i].max_mtu = n->ports[i].active_mtu = IBV_MTU_4096;
        n->ports[i].gid_tbl_len = WEFT_NULL_GIDS;
        n->ports[i].pkey_tbl_len = 1;
        n->ports[i].max_msg_sz = 1u << 30;
        n->ports[i].link_layer = IBV_LINK_LAYER_ETHERNET;
    }
    static const uint8_t mapped[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
    n->gids[0] = (struct ibv_gid_entry){.gid_index = 1, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
    memcpy(n->gids[0].gid.raw, mapped, sizeof(mapped));
    n->num_gids = 1;
}

struct weft_null *weft_null_open(void)
{
    int fds[2];
    struct weft_null *n = calloc(1, sizeof(*n));
    if (n == NULL || pipe(fds) != 0) {
        free(n);
        return NULL;
    }
    null_describe(n);
    n->event_write = fds[1];
    n->extended.sz = sizeof(n->extended);
    n->extended.query_device_ex = null_query_device_ex;
    n->extended.query_rt_values = null_query_rt_values;
    n->extended.advise_mr = null_advise_mr;
    n->extended.alloc_null_mr = null_alloc_null_mr;
    n->extended.modify_cq = null_modify_cq;
    n->extended.create_cq_ex = null_create_cq_ex;
    n->extended.create_qp_ex = null_create_qp_ex;
    n->extended.alloc_td = null_alloc_td;
    n->extended.dealloc_td = null_dealloc_td;
    n->extended.alloc_parent_domain = null_alloc_parent_domain;
    n->extended.modify_qp_rate_limit = null_rate_limit;
    struct ibv_context *context = &n->extended.context;
    context->device = &n->device;
    context->abi_compat = (void *)(uintptr_t)&null_table;
    context->async_fd = fds[0];
    context->cmd_fd = -1;
    context->num_comp_vectors = 2;
    context->ops.alloc_mw = null_alloc_mw;
    context->ops.dealloc_mw = null_dealloc_mw;
    context->ops.bind_mw = null_bind_mw;
    context->ops.poll_cq = null_poll_cq;
    context->ops.req_notify_cq = null_req_notify_cq;
    context->ops.post_send = null_post_send;
    context->ops.post_recv = null_post_recv;
    context->ops.post_srq_recv = null_post_srq_recv;
    return n;
}

#include "script.c"
