/* What a poll makes of a queue's entries: successes in batches, errors in between, and what is kept of these. */
#include "fabric_fake.h"

/* The queue: errors stand at the places that are marked. */
static struct {
    int left; /* entries */
    int next; /* number of the next one */
    int error_at;
    int rc;          /* what a read of it gives instead; 0 for none */
    size_t stride;   /* of the entries that it writes */
    int err;         /* of an error */
    size_t err_data; /* bytes that it says there are */
    int clean;       /* whether it was handed zeroed memory and a buffer */
    int reads, call_at;
    uint64_t word; /* changes at the read call_at */
} queue;

static ssize_t q_read(struct fid_cq *cq, void *buf, size_t count)
{
    ssize_t n = 0;

    (void)cq;
    if (++queue.reads == queue.call_at)
        queue.word++;
    if (queue.rc != 0)
        return queue.rc;
    for (; n < (ssize_t)count && queue.left > 0; n++) {
        if (queue.next == queue.error_at)
            return n > 0 ? n : -FI_EAVAIL;
        struct fi_cq_tagged_entry entry = {.op_context = (void *)(uintptr_t)(1000 + queue.next),
                                           .flags = FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA,
                                           .len = 5,
                                           .buf = memory,
                                           .data = (uint64_t)queue.next,
                                           .tag = 42};
        memcpy((uint8_t *)buf + (size_t)n * queue.stride, &entry, queue.stride);
        queue.next++;
        queue.left--;
    }
    return n > 0 ? n : -FI_EAGAIN;
}

static ssize_t q_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    (void)cq, (void)flags;
    queue.clean = entry->op_context == NULL && entry->err == 0 && entry->olen == 0 && entry->err_data != NULL &&
                  entry->err_data_size == WEFT_FI_TEXT;
    memset(entry->err_data, 7, entry->err_data_size); /* as a provider may, up to what it is given */
    entry->op_context = (void *)(uintptr_t)(1000 + queue.next);
    entry->err = queue.err;
    entry->prov_errno = -11;
    entry->olen = 3;
    entry->err_data_size = queue.err_data;
    queue.error_at = -1;
    queue.next++;
    queue.left--;
    return 1;
}

static const char *q_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len)
{
    (void)cq, (void)err_data, (void)buf, (void)len;
    return prov_errno == -11 ? "the provider's own words" : "others";
}

static struct fi_ops_cq queue_ops = {
    .size = sizeof(queue_ops), .read = q_read, .readerr = q_readerr, .strerror = q_strerror};

static void fill(int entries, int error_at, size_t stride)
{
    begin(0);
    memset(&queue, 0, sizeof(queue));
    queue.left = entries;
    queue.error_at = error_at;
    queue.stride = stride;
    weft_fi_cq_format(&tx, stride == sizeof(struct fi_cq_tagged_entry));
    queue.err = FI_ETRUNC;
    fid_tx.ops = &queue_ops;
}

static void entries_come_in_batches(void)
{
    struct weft_fi_completion got[100];
    static const size_t strides[] = {sizeof(struct fi_cq_data_entry), sizeof(struct fi_cq_tagged_entry)};

    for (int s = 0; s < 2; s++) {
        fill(90, -1, strides[s]);
        CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, got, 70, 0), 70);
        CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, got + 70, 30, 0), 20);
        CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, got, 100, 1000), 0);
        for (uint64_t i = 0; i < 70; i++) {
            CHECK_EQ(got[i].id, 1000 + i);
            CHECK_EQ(got[i].data, i);
            CHECK_EQ(got[i].tag, s == 0 ? 0 : 42);
            CHECK_EQ(got[i].length, 5);
            CHECK_EQ(got[i].err, 0);
            CHECK(got[i].source == FI_ADDR_NOTAVAIL);
        }
    }
}

static void a_word_that_changes_ends_the_spin(void)
{
    struct weft_fi_completion got;

    for (int at = 1; at < 6; at++) {
        int least = at < 3 ? 3 : at; /* the first look, one before the clock is read, and one after it */
        int most = 0;
        for (int i = 0; i < 1000 && most < least; i++) { /* the time may be over before */
            fill(0, -1, sizeof(struct fi_cq_data_entry));
            queue.call_at = at;
            CHECK_EQ(weft_fi_cq_poll_while((weft_fi_number)&tx, &got, 1, WEFT_FI_MAX_SPIN_NS, &queue.word, 0), 0);
            CHECK(queue.reads <= least);
            most = queue.reads;
        }
        CHECK_EQ(most, least);
    }
}

static void error_stands_where_it_came(void)
{
    struct weft_fi_completion got[60];
    struct weft_fi_failure failure;

    for (int at = 0; at < 60; at++) {
        fill(60, at, sizeof(struct fi_cq_data_entry));
        int n = weft_fi_cq_poll((weft_fi_number)&tx, got, 60,
                                0); /* as a rule up to the error, which ends a read of the queue */
        CHECK(n == 60 || n == at);
        if (n < 60)
            CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, got + n, 60, 0), 60 - n);
        for (int i = 0; i < 60; i++) {
            CHECK_EQ(got[i].id, 1000 + i);
            CHECK_EQ(got[i].err, i == at ? FI_ETRUNC : 0);
        }
        CHECK(queue.clean);
        CHECK(weft_fi_cq_failure(&tx, got[at].failure, &failure));
        CHECK_EQ(failure.prov_errno, -11);
        CHECK_EQ(failure.overflow, 3);
        CHECK(strcmp(failure.text, "the provider's own words") == 0);
        CHECK(!weft_fi_cq_failure(&tx, got[at].failure + 1, &failure));
        CHECK(!weft_fi_cq_failure(&tx, 0, &failure));
    }
}

static void odd_errors_are_errors(void)
{
    static const struct {
        int err, want;
        size_t data;
    } cases[] = {{0, FI_EOTHER, 0}, {-FI_EIO, FI_EIO, 4}, {FI_EIO, FI_EIO, 1 << 20}};
    struct weft_fi_completion got;
    struct weft_fi_failure failure;

    for (int i = 0; i < 3; i++) {
        fill(1, 0, sizeof(struct fi_cq_data_entry));
        queue.err = cases[i].err;
        queue.err_data = cases[i].data;
        CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, &got, 1, 0), 1);
        CHECK_EQ(got.err, cases[i].want);
        CHECK(weft_fi_cq_failure(&tx, got.failure, &failure));
        CHECK_EQ(failure.data_size, cases[i].data < WEFT_FI_TEXT ? cases[i].data : WEFT_FI_TEXT);
    }
}

static void queue_that_fails_says_so(void)
{
    struct weft_fi_completion got;

    fill(0, -1, sizeof(struct fi_cq_data_entry));
    queue.rc = -FI_EIO;
    CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, &got, 1, 0), -FI_EIO);
    CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, NULL, 0, 0), -FI_EIO);
    queue.rc = -FI_EAVAIL; /* it has an error, which whoever has room takes */
    CHECK_EQ(weft_fi_cq_poll((weft_fi_number)&tx, NULL, 0, 0), 0);
}

int main(void)
{
    RUN(entries_come_in_batches);
    RUN(a_word_that_changes_ends_the_spin);
    RUN(error_stands_where_it_came);
    RUN(odd_errors_are_errors);
    RUN(queue_that_fails_says_so);
    end();
    return test_summary();
}
