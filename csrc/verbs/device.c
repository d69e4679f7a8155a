/* Devices, their ports, GIDs and P_Keys, and what they report by themselves. */
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
    return WEFT_CALL(weft_ibv_of(context)->ibv_close_device(context));
}

/* The limits are int in C and never negative. */
#define WEFT_LIMIT(value) ((value) > 0 ? (uint32_t)(value) : 0)

int weft_device_query(struct ibv_context *context, struct weft_device_attr *out)
{
    struct ibv_device_attr attr;
    memset(&attr, 0, sizeof(attr));
    int rc = WEFT_CALL(weft_ibv_of(context)->ibv_query_device(context, &attr));
    if (rc != 0)
        return rc;
    memset(out, 0, sizeof(*out));
    memcpy(out->fw_ver, attr.fw_ver, sizeof(out->fw_ver) - 1);
    out->node_guid = attr.node_guid;
    out->system_image_guid = attr.sys_image_guid;
    out->max_mr_size = attr.max_mr_size;
    out->page_sizes = attr.page_size_cap;
    out->flags = attr.device_cap_flags;
    out->atomics = attr.atomic_cap;
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
    out->max_sge_rd = WEFT_LIMIT(attr.max_sge_rd);
    out->max_res_rd_atom = WEFT_LIMIT(attr.max_res_rd_atom);
    out->max_mw = WEFT_LIMIT(attr.max_mw);
    out->max_srq = WEFT_LIMIT(attr.max_srq);
    out->max_srq_wr = WEFT_LIMIT(attr.max_srq_wr);
    out->max_srq_sge = WEFT_LIMIT(attr.max_srq_sge);
    out->max_mcast_groups = WEFT_LIMIT(attr.max_mcast_grp);
    out->max_mcast_qps = WEFT_LIMIT(attr.max_mcast_qp_attach);
    out->max_pkeys = attr.max_pkeys;
    out->ack_delay = attr.local_ca_ack_delay;
    return 0;
}

int weft_device_extended(struct ibv_context *context, struct weft_extended_attr *out)
{
    struct verbs_context *extended = WEFT_EXTENDED(context, query_device_ex);
    if (extended == NULL)
        return EOPNOTSUPP;
    struct ibv_device_attr_ex attr;
    memset(&attr, 0, sizeof(attr));
    int rc = WEFT_CALL(extended->query_device_ex(context, NULL, &attr, sizeof(attr)));
    if (rc != 0)
        return rc;
    *out = (struct weft_extended_attr){
        .odp = attr.odp_caps.general_caps,
        .completion_timestamp_mask = attr.completion_timestamp_mask,
        .core_clock_khz = attr.hca_core_clock,
        .flags_ex = attr.device_cap_flags_ex,
        .odp_rc = attr.odp_caps.per_transport_caps.rc_odp_caps,
        .odp_uc = attr.odp_caps.per_transport_caps.uc_odp_caps,
        .odp_ud = attr.odp_caps.per_transport_caps.ud_odp_caps,
        .max_moderation_count = attr.cq_mod_caps.max_cq_count,
        .max_moderation_period = attr.cq_mod_caps.max_cq_period,
        .rate_limit_min = attr.packet_pacing_caps.qp_rate_limit_min,
        .rate_limit_max = attr.packet_pacing_caps.qp_rate_limit_max,
        .rate_limit_types = attr.packet_pacing_caps.supported_qpts,
        .atomics_fetch_add = attr.pci_atomic_caps.fetch_add,
        .atomics_swap = attr.pci_atomic_caps.swap,
        .atomics_compare_swap = attr.pci_atomic_caps.compare_swap,
    };
    return 0;
}

/*
 * The counter comes in a struct timespec, which is no time: mlx4 and mlx5 put their cycles into tv_nsec, more than a
 * second of them, and leave tv_sec at 0. A driver that does not read the counter says so in comp_mask.
 */
int weft_device_clock(struct ibv_context *context, uint64_t *ticks)
{
    struct verbs_context *extended = WEFT_EXTENDED(context, query_rt_values);
    if (extended == NULL)
        return EOPNOTSUPP;
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    int rc = WEFT_CALL(extended->query_rt_values(context, &values));
    if (rc == 0 && (values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0)
        rc = EOPNOTSUPP;
    *ticks = (uint64_t)values.raw_clock.tv_sec * 1000000000 + (uint64_t)values.raw_clock.tv_nsec;
    return rc;
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
        .flags = attr.port_cap_flags,
        .bad_pkeys = attr.bad_pkey_cntr,
        .qkey_violations = attr.qkey_viol_cntr,
        .lid = attr.lid,
        .sm_lid = attr.sm_lid,
        .pkey_table_len = attr.pkey_tbl_len,
        .flags2 = attr.port_cap_flags2,
        .active_width = attr.active_width,
        .active_speed = attr.active_speed,
        .phys_state = attr.phys_state,
        .link_layer = attr.link_layer,
        .lmc = attr.lmc,
        .sm_sl = attr.sm_sl,
        .subnet_timeout = attr.subnet_timeout,
        .virtual_lanes = attr.max_vl_num,
    };
    return 0;
}

static void weft_gid_fill(struct weft_gid_entry *out, const struct ibv_gid_entry *entry)
{
    memcpy(out->gid, entry->gid.raw, sizeof(out->gid));
    out->index = entry->gid_index;
    out->port = entry->port_num;
    out->type = entry->gid_type;
    out->ifindex = entry->ndev_ifindex;
}

int weft_gid_table(struct ibv_context *context, struct weft_gid_entry *entries, size_t max, size_t *count)
{
    struct ibv_gid_entry *table = calloc(max != 0 ? max : 1, sizeof(*table));
    if (table == NULL)
        return ENOMEM;
    /* Older kernels have no ioctl for the table; the library then reads sysfs. A failure is a negative errno. */
    ssize_t n = weft_ibv_of(context)->_ibv_query_gid_table(context, table, max, 0, sizeof(*table));
    if (n >= 0) {
        *count = (size_t)n;
        for (size_t i = 0; i < *count; i++)
            weft_gid_fill(&entries[i], &table[i]);
    }
    free(table);
    return n >= 0 ? 0 : (int)-n;
}

int weft_gid_query(struct ibv_context *context, uint32_t port, uint32_t index, struct weft_gid_entry *out)
{
    struct ibv_gid_entry entry;
    memset(&entry, 0, sizeof(entry));
    if (weft_ibv_of(context)->_ibv_query_gid_ex == NULL)
        return EOPNOTSUPP;
    int rc = WEFT_CALL(weft_ibv_of(context)->_ibv_query_gid_ex(context, port, index, &entry, 0, sizeof(entry)));
    weft_gid_fill(out, &entry);
    return rc;
}

int weft_pkey_query(struct ibv_context *context, uint8_t port, int index, uint16_t *pkey)
{
    __be16 raw = 0;
    int rc = WEFT_CALL(weft_ibv_of(context)->ibv_query_pkey(context, port, index, &raw));
    *pkey = ntohs(raw);
    return rc;
}

int weft_pkey_index(struct ibv_context *context, uint8_t port, uint16_t pkey, int *index)
{
    errno = 0;
    *index = weft_ibv_of(context)->ibv_get_pkey_index(context, port, htons(pkey));
    return *index >= 0 ? 0 : weft_errno();
}

uint32_t weft_device_node_type(struct ibv_device *device)
{
    return (uint32_t)device->node_type; /* negative if unknown */
}

int weft_device_index(struct ibv_device *device)
{
    return weft_ibv.ibv_get_device_index != NULL ? weft_ibv.ibv_get_device_index(device) : -1;
}

int weft_device_import(int fd, struct ibv_context **context)
{
    errno = 0;
    if (weft_ibv.ibv_import_device == NULL)
        return EOPNOTSUPP;
    *context = weft_ibv.ibv_import_device(fd);
    return *context != NULL ? 0 : weft_errno();
}

const char *weft_context_name(struct ibv_context *context)
{
    return context->device->name;
}

int weft_context_fd(struct ibv_context *context)
{
    return context->cmd_fd;
}

int weft_context_vectors(struct ibv_context *context)
{
    return context->num_comp_vectors;
}

int weft_fork_status(void)
{
    return weft_ibv.ibv_is_fork_initialized != NULL ? (int)weft_ibv.ibv_is_fork_initialized() : -1;
}

/* Where the kernel protects registered pages, madvise would only split the address space at each region. */
int weft_fork_init(void)
{
    int status = weft_fork_status();
    if (status == IBV_FORK_ENABLED || status == IBV_FORK_UNNEEDED)
        return 0;
    return WEFT_CALL(weft_ibv.ibv_fork_init());
}
