/*
 * What libfabric does without Weft: writes with data from one process to another, in batches, by the same calls.
 *
 *   fabric_loop PROVIDER target               tells its address and memory, reads the other's address, and polls
 *   fabric_loop PROVIDER write SIZE N BATCH   does the reverse, writes N times, and prints nanoseconds for each
 *
 * Both end with their input. scripts/bench-fabric.sh connects the two, and runs fabric's own in the same way.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY = 16 << 20, MOST = 64 };

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static char *memory;

static void must(const char *what, int rc)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, fi_strerror(-rc));
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

static void learn(fi_addr_t *peer, unsigned long long *base, unsigned long long *key)
{
    char hex[513];
    uint8_t name[257] = {0};
    if (scanf("%512s %llu %llu", hex, base, key) != 3)
        exit(1);
    for (size_t i = 0; hex[2 * i] != '\0'; i++)
        sscanf(hex + 2 * i, "%2hhx", &name[i]);
    must("fi_av_insert", fi_av_insert(av, name, 1, peer, 0, NULL) - 1);
}

static int poll_once(size_t max)
{
    struct fi_cq_data_entry entries[MOST];
    ssize_t n = fi_cq_read(cq, entries, max < MOST ? max : MOST);
    if (n != -FI_EAGAIN)
        must("fi_cq_read", (int)n);
    return n > 0 ? (int)n : 0;
}

static void serve(void)
{
    char rest[16];
    fcntl(0, F_SETFL, O_NONBLOCK);
    for (;;) {
        for (int i = 0; i < 10000; i++)
            poll_once(MOST);
        if (read(0, rest, sizeof(rest)) == 0)
            return;
    }
}

static void write_batch(fi_addr_t peer, uint64_t base, uint64_t key, size_t size, int batch)
{
    for (int posted = 0, done = 0; done < batch;) {
        while (posted < batch) {
            ssize_t rc = fi_writedata(ep, memory, size, fi_mr_desc(mr), (uint64_t)posted, peer, base, key,
                                      (void *)(uintptr_t)(posted + 1));
            if (rc == -FI_EAGAIN)
                break;
            must("fi_writedata", (int)rc);
            posted++;
        }
        done += poll_once((size_t)batch);
    }
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    fi_addr_t peer = 0;
    unsigned long long base, key;
    if (argc < 3)
        return 2;
    open_all(argv[1]);
    tell();
    learn(&peer, &base, &key);
    if (argc < 6) {
        serve();
    } else {
        size_t size = (size_t)atol(argv[3]);
        int n = atoi(argv[4]), batch = atoi(argv[5]);
        write_batch(peer, base, key, size, batch); /* connects, and warms up */
        for (int i = 0; i < n / 10; i += batch)
            write_batch(peer, base, key, size, batch);
        double begin = now_ns();
        for (int i = 0; i < n; i += batch)
            write_batch(peer, base, key, size, batch);
        printf("%.1f\n", (now_ns() - begin) / n);
    }
    fi_close(&ep->fid);
    return 0;
}
