/*
 * A verbs context without a device: what it says about itself can be set, and any of its calls can be made to fail, at
 * a chosen time in a chosen way. It carries no data: a send completes when it is posted, unless sends are held, and
 * what arrives is put there by the test. It is for tests and for measuring what a call costs.
 */
#ifndef WEFT_NULL_NULL_H
#define WEFT_NULL_NULL_H

#include <stddef.h>

#include "../common/abi.h"

struct weft_null;
struct ibv_context;
struct ibv_cq;

/* A device of one port, RoCE by 192.0.2.1, with room for everything; NULL without memory. */
struct weft_null *weft_null_open(void);
void weft_null_close(struct weft_null *n);
struct ibv_context *weft_null_context(struct weft_null *n);

/* What the device says about itself, to be changed before it is asked: its limits are also enforced. */
void weft_null_limits(struct weft_null *n, uint64_t max_mr_size, uint32_t max_qp_wr, uint32_t max_cqe, uint32_t max_sge,
                      uint32_t max_inline);
void weft_null_ports(struct weft_null *n, uint32_t ports);
void weft_null_flags(struct weft_null *n, uint32_t flags, uint32_t atomics, uint64_t odp, uint64_t timestamps);
void weft_null_port(struct weft_null *n, uint8_t port, uint32_t state, uint32_t mtu, uint32_t max_message, uint16_t lid,
                    uint8_t link_layer);
int weft_null_gids(struct weft_null *n, const struct weft_gid_entry *gids, uint32_t count);

/* The device's counter, and its frequency; with 0 kHz it has none. */
void weft_null_clock(struct weft_null *n, uint64_t ticks, uint64_t khz);
void weft_null_wall_clock(struct weft_null *n, uint64_t ns);
void weft_null_vendor(struct weft_null *n, uint32_t id);

/* The bytes of the last post that began with an inline send; *size is how many. */
const uint8_t *weft_null_inlined(struct weft_null *n, uint32_t *size);

/* The rate limit of a struct ibv_qp. */
void weft_null_rate(void *qp, uint32_t *kbps, uint32_t *burst, uint16_t *packet);

/* What interrupts a completion queue, a struct ibv_cq, at the earliest: completions, and microseconds. */
void weft_null_moderated(void *cq, uint16_t *count, uint16_t *period);

/* The last advice about memory, enum ibv_advise_mr_advice, and in the low half its flags. */
uint32_t weft_null_advised(struct weft_null *n);

/* The last region that was registered. */
void weft_null_registered(struct weft_null *n, uint64_t *addr, uint64_t *length, uint64_t *iova, uint32_t *access);

/* Whether a struct ibv_cq was made in a parent domain. */
int weft_null_in_domain(void *cq, void *pd);

/*
 * A queue pair of a driver's own transport with builders, as EFA's SRD is: a struct ibv_qp on a struct ibv_pd and
 * ibv_cq; and how it is destroyed.
 */
void *weft_null_srd(struct weft_null *n, void *pd, void *cq, uint32_t max_send_wr, uint32_t max_recv_wr);
void weft_null_destroy_qp(void *qp);

/* A request of the last post that was built, its first entry, and its bytes inline; ENOENT if there is none. */
int weft_null_built(void *qp, uint32_t index, struct weft_send_wr *wr, struct weft_sge *sge, uint32_t *inlined);

/* How many P_Keys each port has. */
void weft_null_pkeys(struct weft_null *n, uint16_t count);

/* Access flags that a registration refuses, with EOPNOTSUPP. */
void weft_null_refuse_access(struct weft_null *n, uint32_t access);

/*
 * Has a call fail, once, after so many more of it have succeeded: it returns rc (NULL where it returns a pointer) and,
 * if err is not 0, leaves err in errno. Posts count work requests. Returns 0, or ENOENT for a name that is no call.
 */
int weft_null_fail(struct weft_null *n, const char *call, uint32_t after, int rc, int err);

/* The same of a call that frees an object: it frees that, and returns rc all the same. */
int weft_null_fail_late(struct weft_null *n, const char *call, uint32_t after, int rc);

/* The last registration of a dma-buf. */
struct weft_null_dmabuf {
    uint64_t offset, length, iova;
    int32_t fd;
    uint32_t zero;
};
struct weft_null_dmabuf weft_null_last_dmabuf(struct weft_null *n);

/* How often a call was made; −1 for a name that is no call. */
int64_t weft_null_calls(struct weft_null *n, const char *call);

/* How many objects of the context are open. */
int64_t weft_null_live(struct weft_null *n);

/* Has a send complete with a status, after so many more have completed well. */
void weft_null_fail_send(struct weft_null *n, uint32_t after, uint32_t status, uint32_t vendor_err);

/* Moves a struct ibv_qp to the error state, as a device does with the target of a bad request. */
void weft_null_break(struct weft_null *n, void *qp);

/* Whether sends stay in their queues; sends that were held complete when that ends. */
void weft_null_hold(struct weft_null *n, int hold);

/* Puts a completion into a queue; wc->id is the next receive's of the queue pair wc->qpn if it is to consume one. */
int weft_null_complete(struct weft_null *n, void *cq, const struct weft_wc *wc, int receive);

/* An asynchronous event; object is the struct ibv_cq, ibv_qp or ibv_srq that it is about. */
int weft_null_event(struct weft_null *n, uint32_t type, uint32_t port, void *object);

/* What the cost of a call into C is measured with. */
void weft_null_empty(void);

#endif
