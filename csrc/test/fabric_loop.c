/*
 * The ends of a measurement that have nothing of Weft: writes with data from one process to another.
 *
 *   fabric_loop PROVIDER target N   tells its address and memory, reads those of N writers, and polls
 *   fabric_loop PROVIDER write      tells its own, reads its target's, then for each line SIZE BATCH BATCHES writes
 * that many times, and prints how many nanoseconds a write took
 *
 * Both end with their input. fabric's bench_test.go starts them, and takes turns with the writer.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fabric_write.h"

enum { MEMORY = 16 << 20 };

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static char *memory;

static void must(const char *what, ssize_t rc)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-rc));
        exit(1);
    }
}

static void open_all(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    const char *node = strcmp(provider, "shm") == 0 ? NULL : "127.0.0.1";
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), node, NULL, node != NULL ? FI_SOURCE : 0, hints, &info));
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA};
    must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
    must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    must("fi_enable", fi_enable(ep));
    memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_POPULATE, -1, 0);
    uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    must("fi_mr_reg", fi_mr_reg(domain, memory, MEMORY, access, 0, (uint64_t)getpid(), 0, &mr, NULL));
}

/* An address as hexadecimal, and with it where the memory is. */
static void tell(void)
{
    uint8_t name[256];
    size_t size = sizeof(name);
    must("fi_getname", fi_getname(&ep->fid, name, &size));
    for (size_t i = 0; i < size; i++)
        printf("%02x", name[i]);
    uint64_t base = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0 ? (uintptr_t)memory : 0;
    printf(" %llu %llu\n", (unsigned long long)base, (unsigned long long)fi_mr_key(mr));
    fflush(stdout);
}

static struct weft_test_writes learn(void)
{
    struct weft_test_writes w = {.ep = ep, .cq = cq, .desc = fi_mr_desc(mr), .memory = memory};
    char hex[513];
    uint8_t name[257] = {0};
    unsigned long long base, key;
    if (scanf("%512s %llu %llu", hex, &base, &key) != 3)
        exit(1);
    for (size_t i = 0; hex[2 * i] != '\0'; i++)
        sscanf(hex + 2 * i, "%2hhx", &name[i]);
    must("fi_av_insert", fi_av_insert(av, name, 1, &w.peer, 0, NULL) - 1);
    w.base = base;
    w.key = key;
    return w;
}

static void serve(void)
{
    char rest[16];
    fcntl(0, F_SETFL, O_NONBLOCK);
    do {
        for (int i = 0; i < 10000; i++)
            must("fi_cq_read", weft_test_poll(cq, WEFT_TEST_MOST));
    } while (read(0, rest, sizeof(rest)) != 0);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void write_as_told(struct weft_test_writes w)
{
    int batch, batches;
    while (scanf("%lu %d %d", &w.size, &batch, &batches) == 3) {
        must("fi_writedata", weft_test_write_batch(&w, batch)); /* connects, and finds its way back into the caches */
        double begin = now_ns();
        must("fi_writedata", weft_test_write_batches(&w, batch, batches));
        printf("%.2f\n", (now_ns() - begin) / batch / batches);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    open_all(argv[1]);
    tell();
    if (strcmp(argv[2], "write") == 0) {
        write_as_told(learn());
    } else {
        for (int i = 0; i < (argc > 3 ? atoi(argv[3]) : 1); i++)
            learn();
        serve();
    }
    fi_close(&ep->fid);
    return 0;
}
