/* Devices, ports, GIDs, protection domains, memory regions, address handles. */
#include <arpa/inet.h>

int weft_device_list(struct ibv_device ***list, int *count)
{
    errno = 0;
    *count = 0;
    *list = weft_ibv.ibv_get_device_list(count);
    return *list != NULL ? 0 : weft_errno();
}

struct ibv_device *weft_device_at(struct ibv_device **list, int index)
{
    return list[index];
}

void weft_device_list_free(struct ibv_device **list)
{
    weft_ibv.ibv_free_device_list(list);
}

const char *weft_device_name(struct ibv_device *device)
{
    return weft_ibv.ibv_get_device_name(device);
}

uint64_t weft_device_guid(struct ibv_device *device)
{
    return weft_ibv.ibv_get_device_guid(device);
}

int weft_device_open(struct ibv_device *device, struct ibv_context **context)
{
    errno = 0;
    *context = weft_ibv.ibv_open_device(device);
    return *context != NULL ? 0 : weft_errno();
}

int weft_device_close(struct ibv_context *context)
{
    return WEFT_CALL(weft_ibv.ibv_close_device(context));
}

/* The limits are int in C and never negative. */
#define WEFT_LIMIT(value) ((value) > 0 ? (uint32_t)(value) : 0)

int weft_device_query(struct ibv_context *context, struct weft_device_attr *out)
{
    struct ibv_device_attr attr;
    memset(&attr, 0, sizeof(attr));
    int rc = WEFT_CALL(weft_ibv.ibv_query_device(context, &attr));
    if (rc != 0)
        return rc;
    memset(out, 0, sizeof(*out));
    memcpy(out->fw_ver, attr.fw_ver, sizeof(out->fw_ver) - 1);
    out->node_guid = attr.node_guid;
    out->max_mr_size = attr.max_mr_size;
    out->vendor_id = attr.vendor_id;
    out->vendor_part_id = attr.vendor_part_id;
    out->hw_ver = attr.hw_ver;
    out->max_qp = WEFT_LIMIT(attr.max_qp);
    out->max_qp_wr = WEFT_LIMIT(attr.max_qp_wr);
    out->max_sge = WEFT_LIMIT(attr.max_sge);
    out->max_cq = WEFT_LIMIT(attr.max_cq);
    out->max_cqe = WEFT_LIMIT(attr.max_cqe);
    out->max_mr = WEFT_LIMIT(attr.max_mr);
    out->max_pd = WEFT_LIMIT(attr.max_pd);
    out->max_ah = WEFT_LIMIT(attr.max_ah);
    out->max_qp_rd_atom = WEFT_LIMIT(attr.max_qp_rd_atom);
    out->max_qp_init_rd_atom = WEFT_LIMIT(attr.max_qp_init_rd_atom);
    out->ports = attr.phys_port_cnt;
    return 0;
}

int weft_port_query(struct ibv_context *context, uint8_t port, struct weft_port_attr *out)
{
    struct ibv_port_attr attr;
    memset(&attr, 0, sizeof(attr));
    int rc = WEFT_CALL(___ibv_query_port(context, port, &attr));
    if (rc != 0)
        return rc;
    *out = (struct weft_port_attr){
        .state = attr.state,
        .max_mtu = attr.max_mtu,
        .active_mtu = attr.active_mtu,
        .gid_table_len = WEFT_LIMIT(attr.gid_tbl_len),
        .max_message = attr.max_msg_sz,
        .lid = attr.lid,
        .pkey_table_len = attr.pkey_tbl_len,
        .active_width = attr.active_width,
        .active_speed = attr.active_speed,
        .phys_state = attr.phys_state,
        .link_layer = attr.link_layer,
    };
    return 0;
}

int weft_gid_table(struct ibv_context *context, struct weft_gid_entry *entries, size_t max, size_t *count)
{
    struct ibv_gid_entry *table = calloc(max != 0 ? max : 1, sizeof(*table));
    if (table == NULL)
        return ENOMEM;
    /* Older kernels have no ioctl for the table; the library then reads sysfs. A failure is a negative errno. */
    ssize_t n = weft_ibv._ibv_query_gid_table(context, table, max, 0, sizeof(*table));
    if (n >= 0) {
        *count = (size_t)n;
        for (size_t i = 0; i < *count; i++) {
            memcpy(entries[i].gid, table[i].gid.raw, sizeof(entries[i].gid));
            entries[i].index = table[i].gid_index;
            entries[i].port = table[i].port_num;
            entries[i].type = table[i].gid_type;
            entries[i].ifindex = table[i].ndev_ifindex;
        }
    }
    free(table);
    return n >= 0 ? 0 : (int)-n;
}

int weft_pd_alloc(struct ibv_context *context, struct ibv_pd **pd)
{
    errno = 0;
    *pd = weft_ibv.ibv_alloc_pd(context);
    return *pd != NULL ? 0 : weft_errno();
}

int weft_pd_dealloc(struct ibv_pd *pd)
{
    return WEFT_CALL(weft_ibv.ibv_dealloc_pd(pd));
}

int weft_mr_reg(struct ibv_pd *pd, uint64_t addr, uint64_t length, uint32_t access, struct ibv_mr **mr, uint32_t *lkey,
                uint32_t *rkey)
{
    errno = 0;
    /* Not a constant access: the header's inline chooses the call that knows optional access flags. */
    *mr = __ibv_reg_mr(pd, (void *)(uintptr_t)addr, length, access, 0);
    if (*mr == NULL)
        return weft_errno();
    *lkey = (*mr)->lkey;
    *rkey = (*mr)->rkey;
    return 0;
}

int weft_mr_dereg(struct ibv_mr *mr)
{
    return WEFT_CALL(weft_ibv.ibv_dereg_mr(mr));
}

static struct ibv_ah_attr weft_ah_attr(const struct weft_ah_attr *in)
{
    struct ibv_ah_attr attr;
    memset(&attr, 0, sizeof(attr));
    memcpy(attr.grh.dgid.raw, in->gid, sizeof(in->gid));
    attr.grh.flow_label = in->flow_label;
    attr.grh.sgid_index = in->gid_index;
    attr.grh.hop_limit = in->hop_limit;
    attr.grh.traffic_class = in->traffic_class;
    attr.dlid = in->lid;
    attr.sl = in->service_level;
    attr.is_global = in->is_global;
    attr.port_num = in->port;
    return attr;
}

int weft_ah_create(struct ibv_pd *pd, const struct weft_ah_attr *in, struct ibv_ah **ah)
{
    struct ibv_ah_attr attr = weft_ah_attr(in);
    errno = 0;
    *ah = weft_ibv.ibv_create_ah(pd, &attr);
    return *ah != NULL ? 0 : weft_errno();
}

int weft_ah_destroy(struct ibv_ah *ah)
{
    return WEFT_CALL(weft_ibv.ibv_destroy_ah(ah));
}
