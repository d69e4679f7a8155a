/*
 * What libfabric does without Weft: writes with data in batches, each polled for until it has completed. fabric_loop.c
 * is a program of it; internal/cgotest has it run on an endpoint of the binding's, in turns with the binding.
 */
#ifndef WEFT_TEST_FABRIC_WRITE_H
#define WEFT_TEST_FABRIC_WRITE_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum { WEFT_TEST_MOST = 64 };

struct weft_test_writes {
    struct fid_ep *ep;
    struct fid_cq *cq;
    void *desc; /* of the memory */
    const void *memory;
    uint64_t size; /* bytes of a write */
    uint64_t peer, base, key;
};

/* Returns how many completions there were, or a negative errno. */
static inline ssize_t weft_test_poll(struct fid_cq *cq, int batch)
{
    struct fi_cq_data_entry entries[WEFT_TEST_MOST];
    ssize_t n = fi_cq_read(cq, entries, (size_t)(batch < WEFT_TEST_MOST ? batch : WEFT_TEST_MOST));
    return n == -FI_EAGAIN ? 0 : n;
}

/* Writes a batch; returns 0 or a negative errno. */
static inline ssize_t weft_test_write_batch(const struct weft_test_writes *w, int batch)
{
    for (int posted = 0, done = 0; done < batch;) {
        while (posted < batch) {
            ssize_t rc = fi_writedata(w->ep, w->memory, w->size, w->desc, (uint64_t)posted, w->peer, w->base, w->key,
                                      (void *)(uintptr_t)(posted + 1));
            if (rc == -FI_EAGAIN)
                break;
            if (rc != 0)
                return rc;
            posted++;
        }
        ssize_t n = weft_test_poll(w->cq, batch);
        if (n < 0)
            return n;
        done += (int)n;
    }
    return 0;
}

/* Writes n batches. */
static inline ssize_t weft_test_write_batches(const struct weft_test_writes *w, int batch, int n)
{
    ssize_t rc = 0;
    for (int i = 0; i < n && rc == 0; i++)
        rc = weft_test_write_batch(w, batch);
    return rc;
}

#endif
