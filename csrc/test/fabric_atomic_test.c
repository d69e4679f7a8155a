/* The doorbell of atomics: what a provider takes with FI_MORE is followed by something without, in the same post. */
#include "fabric_fake.h"

static ssize_t f_atomic(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t addr, uint64_t remote,
                        uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
    (void)fid, (void)remote, (void)key, (void)datatype, (void)op;
    return noted("atomic", buf, count, 1, desc, addr, context);
}

static ssize_t f_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
    (void)fid;
    fake.flags = flags;
    return noted("atomicmsg", msg->msg_iov[0].addr, msg->msg_iov[0].count, msg->iov_count, msg->desc[0], msg->addr,
                 msg->context);
}

static int f_valid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    (void)fid, (void)datatype, (void)op;
    *count = 8;
    return 0;
}

static struct fi_ops_atomic atomic_ops = {
    .size = sizeof(atomic_ops), .write = f_atomic, .writemsg = f_atomicmsg, .writevalid = f_valid};

/* Posts n that all say that more follows. */
static int post_more(uint32_t n, uint32_t *accepted)
{
    struct weft_fi_atomic ops[8];
    struct weft_fi_seg list[8];

    fid_ep.atomic = &atomic_ops;
    ep.caps |= FI_ATOMIC;
    for (uint32_t i = 0; i < n; i++) {
        ops[i] = (struct weft_fi_atomic){
            .id = i + 1, .peer = 3, .num_seg = 1, .flags = FI_MORE, .datatype = FI_UINT64, .op = FI_SUM};
        list[i] = seg(8 * i, 8);
    }
    return weft_fi_post_atomics((weft_fi_number)&ep, WEFT_FI_ATOMIC, ops, n, list, n, accepted);
}

static void doorbell_rings_after_what_was_accepted(void)
{
    static const int errors[] = {-FI_EAGAIN, -FI_ENOMEM};
    uint32_t accepted;

    for (uint32_t n = 1; n <= 8; n++) {
        begin(0);
        CHECK_EQ(post_more(n, &accepted), 0);
        CHECK_EQ(accepted, n);
        CHECK_EQ(fake.mores, n - 1);
        CHECK_EQ(fake.unrung, 0);
    }
    for (int e = 0; e < 2; e++) {
        for (int takes = 0; takes < 8; takes++) { /* refused from here on */
            begin(0);
            fake.takes = takes;
            fake.refusals = 1 << 20;
            fake.rc = errors[e];
            CHECK_EQ(post_more(8, &accepted), -errors[e]);
            CHECK_EQ(accepted, (uint32_t)takes);
            CHECK_EQ(fake.unrung, 0);
        }
    }
}

int main(void)
{
    RUN(doorbell_rings_after_what_was_accepted);
    end();
    return test_summary();
}
