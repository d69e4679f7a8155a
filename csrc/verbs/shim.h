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
struct ibv_td;
struct ibv_mr;
struct ibv_mw;
struct ibv_ah;
struct ibv_cq;
struct ibv_srq;
struct ibv_qp;
struct weft_channel;
struct weft_cq;
struct weft_qp;
struct weft_srq;
struct weft_template;

/*
 * A pointer to one of ours where a data path passes it. As an integer, since cgo looks at each pointer to an opaque
 * type for Go memory behind it.
 */
typedef uintptr_t weft_handle;

/* Opens libibverbs; where that fails, reason says why. Not to be called concurrently. */
int weft_verbs_load(char *reason, size_t size);

/* The file that was opened; empty without. */
const char *weft_verbs_path(void);

/* Devices and ports (device.c). Names are the device's own memory. */
int weft_device_list(struct ibv_device ***list, int *count);
struct ibv_device *weft_device_at(struct ibv_device **list, int index);
void weft_device_list_free(struct ibv_device **list);
const char *weft_device_name(struct ibv_device *device);
uint64_t weft_device_guid(struct ibv_device *device);
uint32_t weft_device_node_type(struct ibv_device *device); /* enum ibv_node_type */
int weft_device_index(struct ibv_device *device);          /* -1 if unknown */
int weft_device_open(struct ibv_device *device, struct ibv_context **context);
int weft_device_import(int fd, struct ibv_context **context);
int weft_device_close(struct ibv_context *context);
const char *weft_context_name(struct ibv_context *context);
int weft_context_fd(struct ibv_context *context);
int weft_context_vectors(struct ibv_context *context);
int weft_device_query(struct ibv_context *context, struct weft_device_attr *attr);
int weft_device_extended(struct ibv_context *context, struct weft_extended_attr *attr);
int weft_device_clock(struct ibv_context *context, uint64_t *ticks); /* of the device's own counter */
int weft_port_query(struct ibv_context *context, uint8_t port, struct weft_port_attr *attr);
int weft_pkey_query(struct ibv_context *context, uint8_t port, int index, uint16_t *pkey); /* host order */
int weft_pkey_index(struct ibv_context *context, uint8_t port, uint16_t pkey, int *index);

/* *count is how many of the max entries were filled. A table with more is an error, EINVAL. */
int weft_gid_table(struct ibv_context *context, struct weft_gid_entry *entries, size_t max, size_t *count);
int weft_gid_query(struct ibv_context *context, uint32_t port, uint32_t index, struct weft_gid_entry *entry);
int weft_fork_init(void);   /* does nothing where forks are safe already */
int weft_fork_status(void); /* enum ibv_fork_status; -1 if the library cannot tell */

/* Asynchronous events (event.c). An event keeps its object from being destroyed until it is acknowledged. */
int weft_context_nonblocking(struct ibv_context *context, int *fd);
int weft_context_event(struct ibv_context *context, struct weft_async_event *event); /* EAGAIN without one */
void weft_context_ack_event(struct ibv_context *context, const struct weft_async_event *event);

/* Memory (memory.c). */
int weft_pd_alloc(struct ibv_context *context, struct ibv_pd **pd);
int weft_td_alloc(struct ibv_context *context, struct ibv_td **td);
int weft_td_dealloc(struct ibv_td *td);
int weft_pd_alloc_parent(struct ibv_pd *pd, struct ibv_td *td, struct ibv_pd **parent);
int weft_pd_import(struct ibv_context *context, uint32_t handle, struct ibv_pd **pd);
void weft_pd_unimport(struct ibv_pd *pd);
uint32_t weft_pd_handle(struct ibv_pd *pd);
void *weft_pd_context(struct ibv_pd *pd);
int weft_pd_dealloc(struct ibv_pd *pd);
int weft_mr_reg(struct ibv_pd *pd, uint64_t addr, uint64_t length, uint32_t access, struct ibv_mr **mr, uint32_t *lkey,
                uint32_t *rkey);
int weft_mr_reg_iova(struct ibv_pd *pd, uint64_t addr, uint64_t length, uint64_t iova, uint32_t access,
                     struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey);
int weft_mr_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int fd, uint32_t access,
                       struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey);
int weft_mr_alloc_null(struct ibv_pd *pd, struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey);
int weft_mr_import(struct ibv_pd *pd, uint32_t handle, struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey);
void weft_mr_unimport(struct ibv_mr *mr);
uint32_t weft_mr_handle(struct ibv_mr *mr);

/* What a region that was registered elsewhere is of. */
int weft_mr_import_raw(struct ibv_pd *pd, struct ibv_mr *mr, uint64_t *addr, uint64_t *length, uint32_t *lkey,
                       uint32_t *rkey);
int weft_mr_dereg(struct ibv_mr *mr);

/* Returns 0 or enum ibv_rereg_mr_err_code, which says what became of the region; errno has the reason. */
int weft_mr_rereg(struct ibv_mr *mr, uint32_t what, struct ibv_pd *pd, uint64_t addr, uint64_t length, uint32_t access,
                  uint32_t *lkey, uint32_t *rkey);
int weft_mr_advise(struct ibv_pd *pd, uint32_t advice, uint32_t flags, const struct weft_sge *sges, uint32_t n);
int weft_mw_alloc(struct ibv_pd *pd, uint32_t type, struct ibv_mw **mw, uint32_t *rkey);
int weft_mw_dealloc(struct ibv_mw *mw);

/* Address handles (ah.c). *ref is what names the handle in a work request for as long as it is not destroyed. */
int weft_ah_create(struct ibv_pd *pd, const struct weft_ah_attr *attr, struct ibv_ah **ah, uint64_t *ref);
int weft_ah_destroy(struct ibv_ah *ah, uint64_t ref);

/* The 6 bytes of Ethernet address that packets go to, and the VLAN. */
int weft_ah_resolve(struct ibv_context *context, const struct weft_ah_attr *attr, uint8_t *mac, uint16_t *vlan);

/* The way back to the sender of a datagram; grh is the 40 bytes in front of it. */
int weft_ah_from_wc(struct ibv_context *context, uint8_t port, const struct weft_wc *wc, const uint8_t *grh,
                    struct weft_ah_attr *attr);

/* Completion channels and queues (queue.c). Descriptors are non-blocking. */
int weft_channel_create(struct ibv_context *context, struct weft_channel **channel, int *fd);
int weft_channel_destroy(struct weft_channel *channel);

/* Takes up to max events, acknowledges them, and gives the struct ibv_cq of each. Returns how many, or a negative
 * errno. */
int weft_channel_events(struct weft_channel *channel, uint64_t *cqs, uint32_t max);

/* *depth is the depth wanted, then the real one. With events the queue has a channel of its own; *fd is its descriptor.
 */
int weft_cq_create(struct ibv_context *context, struct weft_channel *shared, int events, uint32_t vector,
                   uint32_t *depth, struct weft_cq **cq, int *fd);
/* The same by ibv_create_cq_ex; timestamps is enum weft_time, domain a parent domain or NULL. */
int weft_cq_create_ex(struct ibv_context *context, struct weft_channel *shared, int events, uint32_t vector,
                      struct ibv_pd *domain, uint32_t timestamps, uint32_t *depth, struct weft_cq **cq, int *fd);

/* One that was made elsewhere: a struct ibv_cq or, with extended, an ibv_cq_ex. It is released instead of destroyed. */
int weft_cq_import(struct ibv_context *context, struct ibv_cq *imported, int extended, uint32_t *depth,
                   uint32_t *timestamps, struct weft_cq **cq);
void weft_cq_release(struct weft_cq *cq);
int weft_cq_destroy(struct weft_cq *cq, int *channel); /* what became of its own channel, once the queue is gone */
int weft_cq_resize(struct weft_cq *cq, uint32_t *depth);
int weft_cq_moderate(struct weft_cq *cq, uint16_t count, uint16_t period);
void *weft_cq_raw(struct weft_cq *cq);
int weft_cq_arm(struct weft_cq *cq, int solicited_only);

/* Takes the events that were asked for, as far as they are there, and acknowledges them together. Returns how many, or
 * a negative errno. */
int weft_cq_events(struct weft_cq *cq);

/*
 * Polls up to max completions, again for up to spin_ns while there are none; *polled is how many, or a negative errno.
 * As all that a data path calls, it returns nothing: for a function with a result cgo looks up the goroutine's stack
 * twice more.
 */
void weft_cq_poll(weft_handle cq, struct weft_wc *wcs, uint32_t max, uint32_t spin_ns, int32_t *polled);

/* The same, but not again once *word is no longer was. */
void weft_cq_poll_while(weft_handle cq, struct weft_wc *wcs, uint32_t max, uint32_t spin_ns, const uint64_t *word,
                        uint64_t was, int32_t *polled);

/* Polls once, with the time of each completion, a queue that is an ibv_cq_ex. */
void weft_cq_poll_times(weft_handle cq, struct weft_wc *wcs, struct weft_wc_time *times, uint32_t max, int32_t *polled);

/* Queue pairs (qp.c). limits holds what is wanted (type, depths, entries, inline bytes), then what was granted. */
int weft_qp_create(struct ibv_pd *pd, struct weft_cq *send, struct weft_cq *recv, struct ibv_srq *srq,
                   struct weft_qp_limits *limits, struct weft_qp **qp, uint32_t *qpn);

/* One that was made elsewhere. send and recv are its completion queues, or NULL where they are none of ours. */
int weft_qp_import(struct ibv_pd *pd, struct ibv_qp *imported, struct weft_cq *send, struct weft_cq *recv,
                   struct weft_qp_limits *limits, struct weft_qp **qp, uint32_t *state);
void weft_qp_queues(struct ibv_qp *qp, uint64_t *send, uint64_t *recv, uint64_t *srq); /* the pointers it has */
int weft_qp_destroy(struct weft_qp *qp);
void weft_qp_release(struct weft_qp *qp); /* instead, one that was imported */

/* Posts may be called until this, and are refused after the above. */
void weft_qp_free(struct weft_qp *qp);
void *weft_qp_raw(struct weft_qp *qp);
uint32_t weft_qp_num(struct weft_qp *qp);
int weft_qp_modify(struct weft_qp *qp, const struct weft_qp_attr *attr);
int weft_qp_query(struct weft_qp *qp, uint32_t mask, struct weft_qp_attr *attr);
int weft_qp_rate_limit(struct weft_qp *qp, uint32_t kbps, uint32_t burst, uint16_t packet);
int weft_qp_in_order(struct weft_qp *qp, uint32_t opcode);
int weft_qp_multicast(struct weft_qp *qp, const uint8_t *gid, uint16_t lid, int attach);
void weft_qp_set_max_message(struct weft_qp *qp, uint32_t bytes);

/* Whether it failed, and why (fail.c). */
int weft_qp_failure(struct weft_qp *qp, struct weft_failure *failure);

/* An asynchronous event, enum ibv_event_type, says that it failed. */
void weft_qp_fail_event(struct weft_qp *qp, uint32_t event);

/* How often Go has called to post to the queue pair itself. */
uint64_t weft_qp_crossings(struct weft_qp *qp);

/* Posting (post.c): n work requests, wrs[i] with the next wrs[i].num_sge of the num_sge entries of sges. */
void weft_qp_post_send(weft_handle qp, const struct weft_send_wr *wrs, const struct weft_sge *sges,
                       struct weft_post *post);
void weft_qp_post_recv(weft_handle qp, const struct weft_recv_wr *wrs, const struct weft_sge *sges,
                       struct weft_post *post);

/* Posts one request that takes its bytes inline, from any memory; its flags and num_sge are set here. */
void weft_qp_post_inline(weft_handle qp, const struct weft_send_wr *wr, const void *bytes, uint32_t length,
                         struct weft_post *post);

/*
 * Posts a send or receive without bytes that completes after everything before it in its queue, also where the queue
 * pair takes no more posts. ah is for UD. Returns the result of a post.
 */
int weft_qp_post_mark(struct weft_qp *qp, int recv, uint64_t id, uint64_t ah);

/* Posts the binding of a memory window; *rkey is its new key. Returns the result of a post. */
int weft_qp_bind_mw(struct weft_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr, const struct weft_mw_bind *bind,
                    uint32_t *rkey);

/* Shared receive queues (srq.c). */
int weft_srq_create(struct ibv_pd *pd, struct weft_srq_attr *attr, struct weft_srq **srq);
int weft_srq_import(struct ibv_pd *pd, struct ibv_srq *imported, struct weft_srq_attr *attr, struct weft_srq **srq);
void weft_srq_release(struct weft_srq *srq); /* instead, one that was imported */
int weft_srq_destroy(struct weft_srq *srq);
void *weft_srq_raw(struct weft_srq *srq);
int weft_srq_modify(struct weft_srq *srq, const struct weft_srq_attr *attr, uint32_t mask); /* enum ibv_srq_attr_mask */
int weft_srq_query(struct weft_srq *srq, struct weft_srq_attr *attr);
void weft_srq_post_recv(weft_handle srq, const struct weft_recv_wr *wrs, const struct weft_sge *sges,
                        struct weft_post *post);

/*
 * Templates (template.c). Requests are added in order, those of one queue pair together; weft_template_add returns the
 * result of a post. A post patches prepared requests, each at most once and in order; what is for one queue pair is one
 * chain.
 */
int weft_template_create(uint32_t n, struct weft_template **t);
void weft_template_destroy(struct weft_template *t);

/* Posts may be called until this; they are refused with WEFT_BAD_CLOSED after the above, and during another post. */
void weft_template_free(struct weft_template *t);
int weft_template_add(struct weft_template *t, struct weft_qp *qp, const struct weft_send_wr *wr, uint32_t lkey);
void weft_template_post(weft_handle t, const struct weft_patch *patches, struct weft_post *post);
uint64_t weft_template_crossings(struct weft_template *t);

#endif
