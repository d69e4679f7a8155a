/*
 * What fabric calls. Objects are opaque; every function that returns int gives 0 or a positive errno of libfabric,
 * unless it says otherwise. Nothing here calls back into Go. What blocks says for how long.
 */
#ifndef WEFT_FABRIC_SHIM_H
#define WEFT_FABRIC_SHIM_H

#include <stddef.h>

#include "../common/fabric.h"

/* Below the 20 µs after which Go's sysmon takes the processor from a thread that is in C. */
#define WEFT_FI_MAX_SPIN_NS 10000

/*
 * An object as the calls of the data path take it, a pointer that Go keeps: for each that it hands over as one, cgo
 * looks whether it is into Go's own memory, which took 4 ns of a crossing of 34.
 */
typedef uintptr_t weft_fi_number;

struct fi_info;
struct fi_param;
struct fid_cntr;
struct fid_fabric;
struct fid_pep;
struct fid_stx;
struct weft_fi_av;
struct weft_fi_cq;
struct weft_fi_domain;
struct weft_fi_ep;
struct weft_fi_eq;
struct weft_fi_group;
struct weft_fi_mr;
struct weft_fi_template;

/* Opens libfabric; where that fails, reason says why. Not to be called concurrently. */
int weft_fi_load(char *reason, size_t size);
uint32_t weft_fi_version(void); /* of the library; major << 16 | minor */
uint32_t weft_fi_headers(void); /* of the headers */
const char *weft_fi_error_text(int err);

/* Infos (info.c). weft_fi_getinfo gives a list, of which each is freed by itself after weft_fi_info_dup. */
int weft_fi_getinfo(const char *node, const char *service, uint64_t flags, const struct weft_fi_info *in,
                    struct fi_info **list);
struct fi_info *weft_fi_info_next(struct fi_info *info);
struct fi_info *weft_fi_info_dup(struct fi_info *info);
void weft_fi_info_free(struct fi_info *list);
void weft_fi_info_read(const struct fi_info *info, struct weft_fi_info *out);
void weft_fi_info_text(const struct fi_info *info, char *out, size_t size);
void weft_fi_text(uint32_t type, uint64_t value, char *out, size_t size); /* enum fi_type */
int weft_fi_params(struct fi_param **params, int *count);
void weft_fi_param_at(const struct fi_param *params, int index, const char **name, uint32_t *type, const char **help,
                      const char **value);
void weft_fi_params_free(struct fi_param *params);

/* Fabrics and domains (domain.c). An object is what the raw functions give: a struct fid or what begins with one. */
int weft_fi_fabric_open(struct fi_info *info, struct fid_fabric **fabric);
int weft_fi_fabric_close(struct fid_fabric *fabric);
int weft_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, uint64_t flags, struct weft_fi_domain **out);
int weft_fi_domain_close(struct weft_fi_domain *d);
void *weft_fi_domain_raw(struct weft_fi_domain *d);
int weft_fi_domain_bind(struct weft_fi_domain *d, struct weft_fi_eq *eq, uint64_t flags);
int weft_fi_open_ops(void *object, const char *name, uint64_t flags, void **ops);
int weft_fi_set_ops(void *object, const char *name, uint64_t flags, void *ops);
int weft_fi_control(void *object, int command, void *argument);
int weft_fi_get_val(void *object, int name, void *value);
int weft_fi_set_val(void *object, int name, void *value);

/* Address vectors (av.c). rx_bits of an address name a receive context; eq is NULL, or what insertions report to. */
int weft_fi_av_open(struct weft_fi_domain *d, uint64_t count, uint32_t rx_bits, struct weft_fi_eq *eq,
                    struct weft_fi_av **out);
int weft_fi_av_close(struct weft_fi_av *av);
void *weft_fi_av_raw(struct weft_fi_av *av);

/* Inserts n addresses; that of index i ends at ends[i]. errors[i] is 0 where peers[i] is its number. */
void weft_fi_av_insert(struct weft_fi_av *av, const uint8_t *addresses, const uint32_t *ends, uint32_t n,
                       uint64_t flags, uint64_t *peers, uint32_t *errors);

/* Begins to insert an address; the event of its end has a record as its context. */
int weft_fi_av_insert_later(struct weft_fi_av *av, const uint8_t *address, uint64_t id);

/*
 * What the record in an event of the address vector is of: the insertion's id; where the event says that it has ended,
 * also the peer, FI_ADDR_NOTAVAIL for none. ENOENT for no insertion that is under way.
 */
int weft_fi_av_inserted(struct weft_fi_av *av, uint64_t record, int ended, uint64_t *id, uint64_t *peer);
int weft_fi_av_insert_service(struct weft_fi_av *av, const char *node, const char *service, uint64_t flags,
                              uint64_t *peer);
int weft_fi_av_insert_symmetric(struct weft_fi_av *av, const char *node, uint64_t nodes, const char *service,
                                uint64_t services, uint64_t flags, uint64_t *peers);
int weft_fi_av_remove(struct weft_fi_av *av, uint64_t *peers,
                      uint32_t n); /* ENOENT, and nothing done, for one unknown */
int weft_fi_av_lookup(struct weft_fi_av *av, uint64_t peer, uint8_t *address, uint64_t *length);
void weft_fi_av_text(struct weft_fi_av *av, const uint8_t *address, char *out, size_t size);

/* Memory regions (mr.c). */
int weft_fi_mr_reg(struct weft_fi_domain *d, struct weft_fi_mr_attr *attr, struct weft_fi_mr **out);
int weft_fi_mr_regv(struct weft_fi_domain *d, const struct weft_fi_seg *segs, uint32_t n, struct weft_fi_mr_attr *attr,
                    struct weft_fi_mr **out);
int weft_fi_mr_close(struct weft_fi_mr *mr);
void *weft_fi_mr_raw(struct weft_fi_mr *mr);
uint64_t weft_fi_mr_key(struct weft_fi_mr *mr);
int weft_fi_mr_bind_ep(struct weft_fi_mr *mr, struct weft_fi_ep *ep, uint64_t flags);
int weft_fi_mr_bind_counter(struct weft_fi_mr *mr, struct fid_cntr *counter, uint64_t flags);
int weft_fi_mr_enable(struct weft_fi_mr *mr);
int weft_fi_mr_refresh(struct weft_fi_mr *mr, uint64_t addr, uint64_t length);
int weft_fi_mr_raw_key(struct weft_fi_mr *mr, uint64_t *base, uint8_t *key, uint64_t *size);
int weft_fi_mr_map_key(struct weft_fi_domain *d, uint64_t base, const uint8_t *raw, uint64_t size, uint64_t *key);
int weft_fi_mr_unmap_key(struct weft_fi_domain *d, uint64_t key);

/* Endpoints (endpoint.c); name, if not NULL, becomes the source address. */
int weft_fi_ep_open(struct weft_fi_domain *d, struct fi_info *info, const char *name, uint64_t flags,
                    struct weft_fi_ep **out);
int weft_fi_ep_close(struct weft_fi_ep *ep);
void *weft_fi_ep_raw(struct weft_fi_ep *ep);
int weft_fi_ep_bind_av(struct weft_fi_ep *ep, struct weft_fi_av *av);
int weft_fi_ep_bind_eq(struct weft_fi_ep *ep, struct weft_fi_eq *eq);
int weft_fi_ep_bind_cq(struct weft_fi_ep *ep, struct weft_fi_cq *cq, uint64_t flags);
int weft_fi_ep_bind_counter(struct weft_fi_ep *ep, struct fid_cntr *counter, uint64_t flags);
int weft_fi_ep_enable(struct weft_fi_ep *ep);
int weft_fi_ep_cancel(struct weft_fi_ep *ep, uint64_t id);
int weft_fi_ep_alias(struct weft_fi_ep *ep, uint64_t flags, struct weft_fi_ep **out);
uint64_t weft_fi_ep_crossings(struct weft_fi_ep *ep); /* how often Go has called to post to the endpoint itself */
int weft_fi_option_set(void *object, int name, const uint8_t *value, uint64_t size);
int weft_fi_option_get(void *object, int name, uint8_t *value, uint64_t *size);

/* Contexts (scalable.c). */
int weft_fi_scalable_open(struct weft_fi_domain *d, struct fi_info *info, struct weft_fi_ep **out);
int weft_fi_scalable_bind_av(struct weft_fi_ep *scalable, struct weft_fi_av *av);
int weft_fi_context_open(struct weft_fi_ep *scalable, int receive, int index, struct weft_fi_ep **out);
int weft_fi_stx_open(struct weft_fi_domain *d, struct fi_info *info, struct fid_stx **stx);
int weft_fi_stx_close(struct fid_stx *stx);
int weft_fi_srx_open(struct weft_fi_domain *d, struct fi_info *info, struct weft_fi_ep **out);
int weft_fi_ep_bind_stx(struct weft_fi_ep *ep, struct fid_stx *stx);
int weft_fi_ep_bind_srx(struct weft_fi_ep *ep, struct weft_fi_ep *srx);

/* Connections, listeners, names and groups (cm.c). */
int weft_fi_name_get(void *object, uint8_t *address, uint64_t *length);
int weft_fi_name_set(void *object, const uint8_t *address, uint64_t length);
int weft_fi_peer_get(struct weft_fi_ep *ep, uint8_t *address, uint64_t *length);
int weft_fi_connect(struct weft_fi_ep *ep, const uint8_t *address, const uint8_t *param, uint64_t length);
int weft_fi_accept(struct weft_fi_ep *ep, const uint8_t *param, uint64_t length);
int weft_fi_shutdown(struct weft_fi_ep *ep);
int weft_fi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep);
int weft_fi_pep_close(struct fid_pep *pep);
int weft_fi_pep_bind(struct fid_pep *pep, struct weft_fi_eq *eq);
int weft_fi_listen(struct fid_pep *pep);
int weft_fi_reject(struct fid_pep *pep, struct fi_info *request, const uint8_t *param, uint64_t length);
int weft_fi_join(struct weft_fi_ep *ep, const uint8_t *address, uint64_t flags, struct weft_fi_group **out);
uint64_t weft_fi_group_addr(struct weft_fi_group *group);
void *weft_fi_group_raw(struct weft_fi_group *group);
int weft_fi_leave(struct weft_fi_group *group);

/* Completion queues (cq.c); wait is enum fi_wait_obj, and *fd the descriptor of FI_WAIT_FD. */
int weft_fi_cq_open(struct weft_fi_domain *d, uint64_t depth, int tagged, uint32_t wait, int vector, uint64_t flags,
                    struct weft_fi_cq **out, int *fd);
int weft_fi_cq_close(struct weft_fi_cq *cq);
void *weft_fi_cq_raw(struct weft_fi_cq *cq);
int weft_fi_cq_signal(struct weft_fi_cq *cq);
int weft_fi_cq_trywait(struct weft_fi_cq *cq); /* EAGAIN: poll first */

/* Polls up to max completions, again for up to spin_ns while there are none; max 0 progresses and leaves them. Returns
 * how many, or a negative errno. */
int weft_fi_cq_poll(weft_fi_number cq, struct weft_fi_completion *out, uint32_t max, uint32_t spin_ns);

/* The same, but not again once *word is no longer was. */
int weft_fi_cq_poll_while(weft_fi_number cq, struct weft_fi_completion *out, uint32_t max, uint32_t spin_ns,
                          const uint64_t *word, uint64_t was);

/* Progresses, and returns whether there is a completion, which it leaves there; or a negative errno. */
int weft_fi_cq_look(struct weft_fi_cq *cq);

/* The same as weft_fi_cq_poll, blocking for up to timeout_ms. */
int weft_fi_cq_wait(struct weft_fi_cq *cq, struct weft_fi_completion *out, uint32_t max, int timeout_ms);

/* Whether what was kept of that failure is still there. */
int weft_fi_cq_failure(struct weft_fi_cq *cq, uint32_t number, struct weft_fi_failure *out);

/* Counters (counter.c). */
int weft_fi_counter_open(struct weft_fi_domain *d, uint32_t wait, uint64_t flags, struct fid_cntr **counter);
int weft_fi_counter_close(struct fid_cntr *counter);
uint64_t weft_fi_counter_read(struct fid_cntr *counter);
uint64_t weft_fi_counter_read_errors(struct fid_cntr *counter);
int weft_fi_counter_add(struct fid_cntr *counter, uint64_t value);
int weft_fi_counter_add_errors(struct fid_cntr *counter, uint64_t value);
int weft_fi_counter_set(struct fid_cntr *counter, uint64_t value);
int weft_fi_counter_set_errors(struct fid_cntr *counter, uint64_t value);
int weft_fi_counter_wait(struct fid_cntr *counter, uint64_t threshold, int timeout_ms); /* blocks for up to that */

/* Event queues (eq.c). EAGAIN: there is none, or not within timeout_ms. */
int weft_fi_eq_open(struct fid_fabric *fabric, uint64_t depth, uint32_t wait, struct weft_fi_eq **out, int *fd);
int weft_fi_eq_close(struct weft_fi_eq *eq);
void *weft_fi_eq_raw(struct weft_fi_eq *eq);
int weft_fi_eq_trywait(struct weft_fi_eq *eq);
int weft_fi_eq_read(struct weft_fi_eq *eq, struct weft_fi_event *out);
int weft_fi_eq_wait(struct weft_fi_eq *eq, struct weft_fi_event *out, int timeout_ms);
int weft_fi_eq_write(struct weft_fi_eq *eq, uint32_t type, uint64_t context, uint64_t data);

/*
 * Posting (post.c, atomic.c): n operations, ops[i] with the next ops[i].num_seg of the num_seg segments. *accepted is
 * how many the provider took, from the first on. Returns 0; a positive errno of the provider, EAGAIN for a queue that
 * is full; or a negative enum weft_fi_bad_op for ops[*accepted], in which case nothing was posted.
 */
int weft_fi_post(weft_fi_number ep, uint32_t kind, const struct weft_fi_op *ops, uint32_t n,
                 const struct weft_fi_seg *segs, uint32_t num_seg, uint32_t *accepted);

/* Posts one operation whose bytes, of any memory, are taken at once; the same result. */
int weft_fi_inject(weft_fi_number ep, uint32_t kind, const struct weft_fi_op *op, const void *data, uint64_t length);

/* The same, and then, unless nothing was posted for a bad operation, weft_fi_cq_poll of the endpoint's queue for it. */
void weft_fi_post_poll(weft_fi_number ep, uint32_t kind, const struct weft_fi_op *ops, uint32_t n,
                       const struct weft_fi_seg *segs, uint32_t num_seg, struct weft_fi_completion *out, uint32_t max,
                       uint32_t spin_ns, struct weft_fi_post_polled *done);
int weft_fi_post_atomics(weft_fi_number ep, uint32_t kind, const struct weft_fi_atomic *ops, uint32_t n,
                         const struct weft_fi_seg *segs, uint32_t num_seg, uint32_t *accepted);
int weft_fi_atomic_valid(struct weft_fi_ep *ep, uint32_t kind, uint32_t datatype, uint32_t op, uint64_t *count);
int weft_fi_atomic_query(struct weft_fi_domain *d, uint32_t datatype, uint32_t op, uint64_t flags, uint64_t *count,
                         uint64_t *size);

/* Templates (template.c); a post returns as the posts above do. */
int weft_fi_template_create(uint32_t n, struct weft_fi_template **out);
void weft_fi_template_free(struct weft_fi_template *t);
uint64_t weft_fi_template_crossings(struct weft_fi_template *t);
int weft_fi_template_add(struct weft_fi_template *t, struct weft_fi_ep *ep, uint32_t kind, const struct weft_fi_op *op,
                         uint32_t lkey);
int weft_fi_template_post(weft_fi_number t, const struct weft_fi_patch *patches, uint32_t n, uint32_t *accepted);

#endif
