/* The functions of libfabric that the shim calls by name; all others are reached through the objects. */
#ifndef WEFT_FABRIC_TABLE_H
#define WEFT_FABRIC_TABLE_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* What this code is written for: newer headers only append to what it knows. */
#if FI_MAJOR_VERSION * 100 + FI_MINOR_VERSION < 201
#define WEFT_FI_API FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
#else
#define WEFT_FI_API FI_VERSION(2, 1)
#endif

/*
 * The symbol version whose struct fi_info is that of the headers (fabric(7), "ABI changes"). A newer library exports
 * the older ones beside its own, and dlsym would find its own: a program must ask for the one that it was compiled for,
 * as the linker does.
 */
#if FI_MAJOR_VERSION >= 2
#define WEFT_FI_ABI "FABRIC_1.8"
#elif FI_MINOR_VERSION >= 20
#define WEFT_FI_ABI "FABRIC_1.7"
#else
#define WEFT_FI_ABI "FABRIC_1.3"
#endif

/* clang-format off */
#define WEFT_FI_FUNCTIONS(F)            \
    F(fi_getinfo, WEFT_FI_ABI)          \
    F(fi_freeinfo, WEFT_FI_ABI)         \
    F(fi_dupinfo, WEFT_FI_ABI)          \
    F(fi_fabric, "FABRIC_1.1")          \
    F(fi_version, "FABRIC_1.0")         \
    F(fi_strerror, "FABRIC_1.0")        \
    F(fi_tostr_r, "FABRIC_1.4")         \
    F(fi_getparams, "FABRIC_1.0")       \
    F(fi_freeparams, "FABRIC_1.0")      \
    F(fi_open, "FABRIC_1.5")
/* clang-format on */

#define WEFT_FI_POINTER(name, version) __typeof__(&name) name;
struct weft_fi_table {
    WEFT_FI_FUNCTIONS(WEFT_FI_POINTER)
};
#undef WEFT_FI_POINTER

#endif
