/* A queue pair whose driver keeps what is posted to it, and batches to post. */
#ifndef WEFT_TEST_VERBS_POST_H
#define WEFT_TEST_VERBS_POST_H

#include "verbs_fake.h"

enum {
    MOST = 600,
    MAX_SEND_SGE = 4,
    MAX_RECV_SGE = 3,
    MAX_INLINE = 64,
    MAX_MESSAGE = 1 << 20,
    MIXED = 0, /* 0, 1 or 2 entries by turns */
};

/* What a driver that refuses a request says about where: the truth, nothing, or an address past the chain. */
enum bad { BAD_HERE, BAD_UNSET, BAD_PAST };

static struct {
    struct ibv_send_wr sends[MOST];
    struct ibv_recv_wr recvs[MOST];
    uint32_t n; /* requests taken */
    uint32_t chains[8];
    uint32_t num_chains;
    uint32_t refuse_at; /* if fake.refuse says so */
    enum bad bad;
} driver;

static void (*meanwhile)(void); /* what another thread does while the driver takes the next chain */

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    uint32_t *length = &driver.chains[driver.num_chains++];

    CHECK_EQ(qp->qp_num, 7);
    if (meanwhile != NULL)
        meanwhile();
    meanwhile = NULL;
    for (; wr != NULL; wr = wr->next, ++*length) {
        if (driver.n == driver.refuse_at && refused("post")) {
            if (driver.bad == BAD_HERE)
                *bad = wr;
            for (; driver.bad == BAD_PAST && wr != NULL; wr = wr->next)
                *bad = wr + 1;
            return fake.rc;
        }
        driver.sends[driver.n++] = *wr;
    }
    return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    uint32_t *length = &driver.chains[driver.num_chains++];

    CHECK_EQ(qp->qp_num, 7);
    for (; wr != NULL; wr = wr->next, ++*length) {
        if (driver.n == driver.refuse_at && refused("post")) {
            if (driver.bad == BAD_HERE)
                *bad = wr;
            for (; driver.bad == BAD_PAST && wr != NULL; wr = wr->next)
                *bad = wr + 1;
            return fake.rc;
        }
        driver.recvs[driver.n++] = *wr;
    }
    return 0;
}

static struct ibv_context context = {.ops = {.post_send = fake_post_send, .post_recv = fake_post_recv}};
static struct ibv_qp driver_qp = {.context = &context, .qp_num = 7};
static struct ibv_ah driver_ah = {.context = &context};

/* What names the handle in requests. */
static inline uint64_t driver_ah_ref(void)
{
    static uint64_t ref;
    if (ref == 0)
        ref = weft_ah_add(&driver_ah);
    return ref;
}

/* A queue pair of a driver that has taken nothing yet and takes everything. */
static inline struct weft_qp qp_of(uint32_t type)
{
    memset(&driver, 0, sizeof(driver));
    memset(&fake, 0, sizeof(fake));
    return (struct weft_qp){
        .qp = &driver_qp,
        .limits = {.type = type,
                   .max_send_wr = MOST + 1,
                   .max_recv_wr = MOST + 1,
                   .max_send_sge = MAX_SEND_SGE,
                   .max_recv_sge = MAX_RECV_SGE,
                   .max_inline = MAX_INLINE,
                   .max_message = MAX_MESSAGE},
    };
}

/* Requests and their entries, allocated to the byte so that a read past them is seen. */
struct batch {
    uint32_t n, num_sge;
    struct weft_send_wr *sends;
    struct weft_recv_wr *recvs;
    struct weft_sge *sges;
};

/* n sends, good for every transport, or receives, of so many entries each. */
static inline struct batch batch_of(uint32_t n, uint32_t sges_each)
{
    struct batch b = {.n = n, .sends = calloc(n, sizeof(*b.sends)), .recvs = calloc(n, sizeof(*b.recvs))};

    for (uint32_t i = 0; i < n; i++) {
        uint32_t num_sge = sges_each == MIXED ? i % 3 : sges_each;
        b.sends[i] = (struct weft_send_wr){.id = 1000 + i, .opcode = IBV_WR_SEND, .num_sge = num_sge, .remote_addr = i};
        b.sends[i].ah = driver_ah_ref();
        b.recvs[i] = (struct weft_recv_wr){.id = 1000 + i, .num_sge = num_sge};
        b.num_sge += num_sge;
    }
    b.sges = calloc(b.num_sge, sizeof(*b.sges));
    for (uint32_t i = 0; i < b.num_sge; i++)
        b.sges[i] = (struct weft_sge){.addr = 0x10000 + i, .length = 1, .lkey = i};
    return b;
}

static inline void batch_free(struct batch *b)
{
    free(b->sends);
    free(b->recvs);
    free(b->sges);
}

/* The two posts as one kind of function, so that what holds for both is tested once. */
typedef int post(struct weft_qp *qp, const struct batch *b, uint32_t *accepted);

static inline int post_sends(struct weft_qp *qp, const struct batch *b, uint32_t *accepted)
{
    struct weft_post post = {.n = b->n, .num_sge = b->num_sge};
    weft_qp_post_send((weft_handle)qp, b->sends, b->sges, &post);
    *accepted = post.accepted;
    return post.result;
}

static inline int post_recvs(struct weft_qp *qp, const struct batch *b, uint32_t *accepted)
{
    struct weft_post post = {.n = b->n, .num_sge = b->num_sge};
    weft_qp_post_recv((weft_handle)qp, b->recvs, b->sges, &post);
    *accepted = post.accepted;
    return post.result;
}

#define FOR_BOTH(check)                                                                                                \
    do {                                                                                                               \
        check(post_sends);                                                                                             \
        check(post_recvs);                                                                                             \
    } while (0)

static inline void check_refused(post *p, struct weft_qp *qp, const struct batch *b, int reason, uint32_t index)
{
    uint32_t accepted = 99;

    CHECK_EQ(p(qp, b, &accepted), -reason);
    CHECK_EQ(accepted, index);
    CHECK_EQ(driver.num_chains, 0);
}

static inline void check_taken(post *p, struct weft_qp *qp, const struct batch *b)
{
    uint32_t accepted = 99;

    driver.n = 0;
    CHECK_EQ(p(qp, b, &accepted), 0);
    CHECK_EQ(accepted, b->n);
    CHECK_EQ(driver.n, b->n);
}

#endif
