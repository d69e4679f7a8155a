/*
 * The fabric shim over a provider that does nothing: it notes which of its calls was made and with what, takes as many
 * as it is told, and its queues give what they are told.
 */
#ifndef WEFT_TEST_FABRIC_FAKE_H
#define WEFT_TEST_FABRIC_FAKE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "test.h"

static struct {
    const char *call; /* the last post */
    void *context;
    const void *buf;
    size_t len, count;
    uint64_t addr, data, tag, remote, key, flags;
    void *desc;
    int takes;      /* posts until it says -FI_EAGAIN */
    int refusals;   /* how often it says so; then it takes again */
    int rc;         /* instead of -FI_EAGAIN */
    int posts;      /* that were taken */
    int unrung;     /* that were taken with FI_MORE, since the last call without */
    int progressed; /* reads of no entries, of both queues */
    int polled;     /* other reads */
    int counted;    /* reads of counters */
    int described;  /* segments with the memory's descriptor, of posts that were taken */
    int mores;      /* posts that were taken with FI_MORE */
    const char *refuse;
} fake;

static inline void *fake_calloc(size_t n, size_t size)
{
    return fake.refuse != NULL && strcmp(fake.refuse, "calloc") == 0 ? NULL : calloc(n, size);
}

#define calloc fake_calloc
#include "../fabric/fabric.c"
#undef calloc

static uint8_t memory[256];

static ssize_t noted(const char *call, const void *buf, size_t len, size_t count, void *desc, uint64_t addr,
                     void *context)
{
    int more = strstr(call, "msg") != NULL && (fake.flags & FI_MORE) != 0;
    fake.unrung = more ? fake.unrung : 0;
    if (fake.takes-- <= 0 && fake.refusals > 0) {
        fake.refusals--;
        fake.takes = 0;
        return fake.rc != 0 ? fake.rc : -FI_EAGAIN;
    }
    fake.call = call;
    fake.buf = buf;
    fake.len = len;
    fake.count = count;
    fake.desc = desc;
    fake.addr = addr;
    fake.context = context;
    fake.posts++;
    fake.described += desc == &memory;
    fake.unrung += more;
    fake.mores += more;
    return 0;
}

/* The first descriptor; those of further segments are counted here. */
static void *described(void **desc, size_t count)
{
    for (size_t i = 1; i < count && fake.takes > 0; i++)
        fake.described += desc[i] == &memory;
    return desc[0];
}

#define FIRST(iov, count) (count) > 0 ? (iov)[0].iov_base : NULL, (count) > 0 ? (iov)[0].iov_len : 0, (count)

static ssize_t f_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t addr, void *context)
{
    (void)ep;
    return noted("recv", buf, len, 1, desc, addr, context);
}

static ssize_t f_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t addr, void *c)
{
    (void)ep;
    return noted("recvv", FIRST(iov, count), described(desc, count), addr, c);
}

static ssize_t f_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    (void)ep;
    fake.flags = flags;
    return noted("recvmsg", FIRST(msg->msg_iov, msg->iov_count), described(msg->desc, msg->iov_count), msg->addr,
                 msg->context);
}

static ssize_t f_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t addr, void *context)
{
    (void)ep;
    return noted("send", buf, len, 1, desc, addr, context);
}

static ssize_t f_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t addr, void *c)
{
    (void)ep;
    return noted("sendv", FIRST(iov, count), described(desc, count), addr, c);
}

static ssize_t f_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    (void)ep;
    fake.flags = flags;
    fake.data = msg->data;
    return noted("sendmsg", FIRST(msg->msg_iov, msg->iov_count), described(msg->desc, msg->iov_count), msg->addr,
                 msg->context);
}

static ssize_t f_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t addr)
{
    (void)ep;
    return noted("inject", buf, len, 1, NULL, addr, NULL);
}

static ssize_t f_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t addr,
                          void *context)
{
    (void)ep;
    fake.data = data;
    return noted("senddata", buf, len, 1, desc, addr, context);
}

static ssize_t f_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t addr)
{
    (void)ep;
    fake.data = data;
    return noted("injectdata", buf, len, 1, NULL, addr, NULL);
}

static ssize_t f_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t addr, uint64_t remote,
                       uint64_t key, void *context)
{
    (void)ep;
    fake.remote = remote;
    fake.key = key;
    return noted("write", buf, len, 1, desc, addr, context);
}

static ssize_t f_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t addr,
                        uint64_t remote, uint64_t key, void *context)
{
    (void)ep, (void)remote, (void)key;
    return noted("writev", FIRST(iov, count), described(desc, count), addr, context);
}

static ssize_t f_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    (void)ep;
    fake.flags = flags;
    fake.data = msg->data;
    fake.remote = msg->rma_iov->addr;
    fake.key = msg->rma_iov->key;
    CHECK_EQ(msg->rma_iov_count, 1);
    return noted("writemsg", msg->msg_iov[0].iov_base, msg->rma_iov->len, msg->iov_count,
                 described(msg->desc, msg->iov_count), msg->addr, msg->context);
}

static ssize_t f_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t addr,
                           uint64_t remote, uint64_t key, void *context)
{
    (void)ep;
    fake.data = data;
    fake.remote = remote;
    fake.key = key;
    return noted("writedata", buf, len, 1, desc, addr, context);
}

static ssize_t f_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t addr, uint64_t remote,
                      uint64_t key, void *context)
{
    (void)ep, (void)remote, (void)key;
    return noted("read", buf, len, 1, desc, addr, context);
}

static ssize_t f_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t addr,
                       uint64_t remote, uint64_t key, void *context)
{
    (void)ep, (void)remote, (void)key;
    return noted("readv", FIRST(iov, count), described(desc, count), addr, context);
}

static ssize_t f_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    (void)ep;
    fake.flags = flags;
    return noted("readmsg", FIRST(msg->msg_iov, msg->iov_count), described(msg->desc, msg->iov_count), msg->addr,
                 msg->context);
}

static ssize_t f_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t addr, uint64_t tag,
                       uint64_t ignore, void *context)
{
    (void)ep, (void)tag, (void)ignore;
    return noted("trecv", buf, len, 1, desc, addr, context);
}

static ssize_t f_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t addr,
                        uint64_t tag, uint64_t ignore, void *context)
{
    (void)ep, (void)tag, (void)ignore;
    return noted("trecvv", FIRST(iov, count), described(desc, count), addr, context);
}

static ssize_t f_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    (void)ep;
    fake.flags = flags;
    return noted("trecvmsg", FIRST(msg->msg_iov, msg->iov_count), described(msg->desc, msg->iov_count), msg->addr,
                 msg->context);
}

static ssize_t f_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t addr, uint64_t tag,
                       void *context)
{
    (void)ep, (void)tag;
    return noted("tsend", buf, len, 1, desc, addr, context);
}

static ssize_t f_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t addr,
                        uint64_t tag, void *context)
{
    (void)ep, (void)tag;
    return noted("tsendv", FIRST(iov, count), described(desc, count), addr, context);
}

static ssize_t f_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    (void)ep;
    fake.flags = flags;
    return noted("tsendmsg", FIRST(msg->msg_iov, msg->iov_count), described(msg->desc, msg->iov_count), msg->addr,
                 msg->context);
}

static ssize_t f_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t addr,
                           uint64_t tag, void *context)
{
    (void)ep, (void)data, (void)tag;
    return noted("tsenddata", buf, len, 1, desc, addr, context);
}

static ssize_t f_read_cq(struct fid_cq *cq, void *buf, size_t count)
{
    (void)cq, (void)buf;
    if (count == 0)
        fake.progressed++;
    else
        fake.polled++;
    return -FI_EAGAIN;
}

static struct fi_ops_msg msg_ops = {sizeof(msg_ops), f_recv,    f_recvv,  f_recvmsg,  f_send,
                                    f_sendv,         f_sendmsg, f_inject, f_senddata, f_injectdata};
static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops),
                                    .read = f_read,
                                    .readv = f_readv,
                                    .readmsg = f_readmsg,
                                    .write = f_write,
                                    .writev = f_writev,
                                    .writemsg = f_writemsg,
                                    .writedata = f_writedata};
static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops),
                                          .recv = f_trecv,
                                          .recvv = f_trecvv,
                                          .recvmsg = f_trecvmsg,
                                          .send = f_tsend,
                                          .sendv = f_tsendv,
                                          .sendmsg = f_tsendmsg,
                                          .senddata = f_tsenddata};
static uint64_t f_read_counter(struct fid_cntr *counter)
{
    (void)counter;
    fake.counted++;
    return 0;
}

static struct fi_ops_cntr counter_ops = {.size = sizeof(counter_ops), .read = f_read_counter};
static struct fid_cntr fid_counters[2] = {{.ops = &counter_ops}, {.ops = &counter_ops}};
static struct fi_ops_cq cq_ops = {.size = sizeof(cq_ops), .read = f_read_cq};
static struct fid_ep fid_ep = {.msg = &msg_ops, .rma = &rma_ops, .tagged = &tagged_ops};
static struct fid_cq fid_tx = {.ops = &cq_ops}, fid_rx = {.ops = &cq_ops};
static struct weft_fi_domain domain;
static struct weft_fi_av av;
static struct weft_fi_cq tx = {.cq = &fid_tx, .domain = &domain}, rx = {.cq = &fid_rx, .domain = &domain};
static struct weft_fi_ep ep;
static uint32_t lkey;

/* A fresh endpoint with one peer, number 3, and the memory registered. */
static inline void begin(uint64_t mode)
{
    fake = (__typeof__(fake)){.takes = 1 << 30};
    domain.mode = mode;
    ep = (struct weft_fi_ep){
        .ep = &fid_ep,
        .domain = &domain,
        .av = &av,
        .cqs = {&tx, &rx},
        .counters = {&fid_counters[0], &fid_counters[1]},
        .num_counters = 2,
        .kinds = weft_fi_kinds(FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_WRITE | FI_READ),
        .inject_size = 16,
        .max_msg_size = 128,
        .tx_iov_limit = 4,
        .rx_iov_limit = 4,
    };
    weft_fi_cq_format(&tx, 0);
    weft_fi_cq_format(&rx, 0);
    av.mask = UINT64_MAX;
    CHECK_EQ(weft_fi_note(&av, 3, 1), 0);
    if (lkey == 0)
        CHECK_EQ(weft_fi_region_add(&domain, (uint64_t)(uintptr_t)memory, sizeof(memory), &memory, &lkey), 0);
}

static inline struct weft_fi_seg seg(uint64_t offset, uint64_t length)
{
    return (struct weft_fi_seg){.addr = (uint64_t)(uintptr_t)memory + offset, .length = length, .lkey = lkey};
}

/* How many slots are in use. */
static inline int slots_in_use(void)
{
    int n = 0;
    for (struct weft_fi_slab *slab = domain.slabs; slab != NULL; slab = slab->next)
        for (size_t i = 0; i < WEFT_FI_SLAB; i++)
            n += slab->slots[i].ep != NULL;
    return n;
}

/* Gives back what a test's tables hold. */
static inline void end(void)
{
    for (size_t i = 0; i < WEFT_FI_CHUNKS; i++)
        free(domain.regions[i]);
    for (size_t i = 0; i < WEFT_FI_PEER_CHUNKS; i++)
        free(av.known[i]);
    while (domain.slabs != NULL) {
        struct weft_fi_slab *slab = domain.slabs;
        domain.slabs = slab->next;
        free(slab);
    }
}

#endif
