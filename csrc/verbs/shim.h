/*
 * What verbs calls. Objects are opaque; every function that can fail returns 0 or a positive errno, unless it says
 * otherwise. Nothing here calls back into Go, and nothing blocks but weft_cq_poll, for at most WEFT_MAX_SPIN_NS.
 */
#ifndef WEFT_VERBS_SHIM_H
#define WEFT_VERBS_SHIM_H

#include <stddef.h>

#include "../common/abi.h"

/* Below the 20 µs after which Go's sysmon takes the processor from a thread that is in C. */
#define WEFT_MAX_SPIN_NS 10000

struct ibv_device;
struct ibv_context;
struct ibv_pd;
struct ibv_mr;
struct ibv_ah;
struct weft_cq;
struct weft_qp;

/* Opens libibverbs; where that fails, reason says why. Not to be called concurrently. */
int weft_verbs_load(char *reason, size_t size);

int weft_device_list(struct ibv_device ***list, int *count);
struct ibv_device *weft_device_at(struct ibv_device **list, int index);
void weft_device_list_free(struct ibv_device **list);
const char *weft_device_name(struct ibv_device *device);
uint64_t weft_device_guid(struct ibv_device *device);
int weft_device_open(struct ibv_device *device, struct ibv_context **context);
int weft_device_close(struct ibv_context *context);
int weft_device_query(struct ibv_context *context, struct weft_device_attr *attr);
int weft_port_query(struct ibv_context *context, uint8_t port, struct weft_port_attr *attr);

/* *count is how many of the max entries were filled. A table with more is an error, EINVAL. */
int weft_gid_table(struct ibv_context *context, struct weft_gid_entry *entries, size_t max, size_t *count);

int weft_pd_alloc(struct ibv_context *context, struct ibv_pd **pd);
int weft_pd_dealloc(struct ibv_pd *pd);
int weft_mr_reg(struct ibv_pd *pd, uint64_t addr, uint64_t length, uint32_t access, struct ibv_mr **mr, uint32_t *lkey,
                uint32_t *rkey);
int weft_mr_dereg(struct ibv_mr *mr);
int weft_ah_create(struct ibv_pd *pd, const struct weft_ah_attr *attr, struct ibv_ah **ah);
int weft_ah_destroy(struct ibv_ah *ah);

/* *depth is the depth wanted, then the real one. With events, *fd is the completion channel's, non-blocking. */
int weft_cq_create(struct ibv_context *context, int events, uint32_t *depth, struct weft_cq **cq, int *fd);
int weft_cq_destroy(struct weft_cq *cq);
void *weft_cq_raw(struct weft_cq *cq);
int weft_cq_arm(struct weft_cq *cq);

/* Takes every event that is there and acknowledges them together. Returns how many, or a negative errno. */
int weft_cq_events(struct weft_cq *cq);

/* Polls up to max completions, again for up to spin_ns while there are none. Returns how many, or a negative errno. */
int weft_cq_poll(struct weft_cq *cq, struct weft_wc *wcs, uint32_t max, uint32_t spin_ns);

/* limits holds what is wanted (type, depths, entries, inline bytes), then what was granted. */
int weft_qp_create(struct ibv_pd *pd, struct weft_cq *send, struct weft_cq *recv, struct weft_qp_limits *limits,
                   struct weft_qp **qp, uint32_t *qpn);
int weft_qp_destroy(struct weft_qp *qp);
void *weft_qp_raw(struct weft_qp *qp);
int weft_qp_modify(struct weft_qp *qp, const struct weft_qp_attr *attr);

/* Asks the driver for the state (enum ibv_qp_state). */
int weft_qp_state(struct weft_qp *qp, uint32_t *state);
void weft_qp_set_max_message(struct weft_qp *qp, uint32_t bytes);

/*
 * Post n work requests, wrs[i] with the next wrs[i].num_sge of the num_sge entries of sges. *accepted is how many the
 * driver took, from the first on. Returns 0; a positive errno of the driver; or a negative enum weft_bad_wr for
 * wrs[*accepted], in which case nothing was posted.
 */
int weft_qp_post_send(struct weft_qp *qp, const struct weft_send_wr *wrs, uint32_t n, const struct weft_sge *sges,
                      uint32_t num_sge, uint32_t *accepted);
int weft_qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs, uint32_t n, const struct weft_sge *sges,
                      uint32_t num_sge, uint32_t *accepted);

#endif
