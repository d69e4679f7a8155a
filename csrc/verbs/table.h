/*
 * The functions of libibverbs that the shim calls. They are called through a table, since the library is opened with
 * dlopen; and through the table of the context that they are called for, so that a context can bring functions of its
 * own (csrc/null).
 */
#ifndef WEFT_VERBS_TABLE_H
#define WEFT_VERBS_TABLE_H

#include <infiniband/verbs.h>
#include <stddef.h>

/* Some names are macros over inlines in the header; what is wanted here is the exported function itself. */
#undef ibv_query_port
#undef ibv_reg_mr

/* clang-format off */
/* What every libibverbs has. */
#define WEFT_IBV_FUNCTIONS(F)    \
    F(ibv_get_device_list)       \
    F(ibv_free_device_list)      \
    F(ibv_get_device_name)       \
    F(ibv_get_device_guid)       \
    F(ibv_open_device)           \
    F(ibv_close_device)          \
    F(ibv_query_device)          \
    F(ibv_query_port)            \
    F(ibv_query_pkey)            \
    F(ibv_get_pkey_index)        \
    F(_ibv_query_gid_table)      \
    F(ibv_fork_init)             \
    F(ibv_alloc_pd)              \
    F(ibv_dealloc_pd)            \
    F(ibv_reg_mr)                \
    F(ibv_reg_mr_iova2)          \
    F(ibv_rereg_mr)              \
    F(ibv_dereg_mr)              \
    F(ibv_create_ah)             \
    F(ibv_init_ah_from_wc)       \
    F(ibv_destroy_ah)            \
    F(ibv_create_comp_channel)   \
    F(ibv_destroy_comp_channel)  \
    F(ibv_create_cq)             \
    F(ibv_resize_cq)             \
    F(ibv_destroy_cq)            \
    F(ibv_get_cq_event)          \
    F(ibv_ack_cq_events)         \
    F(ibv_create_srq)            \
    F(ibv_modify_srq)            \
    F(ibv_query_srq)             \
    F(ibv_destroy_srq)           \
    F(ibv_create_qp)             \
    F(ibv_modify_qp)             \
    F(ibv_query_qp)              \
    F(ibv_destroy_qp)            \
    F(ibv_attach_mcast)          \
    F(ibv_detach_mcast)          \
    F(ibv_get_async_event)       \
    F(ibv_ack_async_event)

/* What newer ones have: NULL where the library does not. */
#define WEFT_IBV_OPTIONAL(F)     \
    F(ibv_get_device_index)      \
    F(_ibv_query_gid_ex)         \
    F(ibv_resolve_eth_l2_from_gid) \
    F(ibv_is_fork_initialized)   \
    F(ibv_import_device)         \
    F(ibv_import_pd)             \
    F(ibv_unimport_pd)           \
    F(ibv_import_mr)             \
    F(ibv_unimport_mr)           \
    F(ibv_reg_dmabuf_mr)         \
    F(ibv_query_qp_data_in_order) \
    F(ibv_qp_to_qp_ex)
/* clang-format on */

#define WEFT_POINTER(name) __typeof__(&name) name;
struct weft_ibv_table {
    WEFT_IBV_FUNCTIONS(WEFT_POINTER)
    WEFT_IBV_OPTIONAL(WEFT_POINTER)
};
#undef WEFT_POINTER

#endif
