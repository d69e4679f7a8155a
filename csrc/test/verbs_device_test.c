/* Devices, their ports and GIDs. */
#include "verbs_fake.h"

static struct verbs_context extended; /* has the context of new libraries inside */
static struct ibv_context *const context = &extended.context;
static struct ibv_device device;
static struct ibv_device *list[] = {&device, NULL};

static struct {
    int lists; /* that exist */
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_gid_entry gids[3];
    ssize_t gid_result;
} driver;

static struct ibv_device **fake_get_device_list(int *count)
{
    if (refused("ibv_get_device_list"))
        return NULL;
    *count = 1;
    driver.lists++;
    return list;
}

static void fake_free_device_list(struct ibv_device **l)
{
    CHECK(l == list);
    driver.lists--;
}

static const char *fake_get_device_name(struct ibv_device *d)
{
    return d == &device ? "rxe7" : NULL;
}

static __be64 fake_get_device_guid(struct ibv_device *d)
{
    return d == &device ? 0x1122334455667788 : 0;
}

static struct ibv_context *fake_open_device(struct ibv_device *d)
{
    return d != &device || refused("ibv_open_device") ? NULL : context;
}

static int fake_close_device(struct ibv_context *c)
{
    CHECK(c == context);
    return result_of("ibv_close_device");
}

static int fake_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    CHECK(c == context);
    *attr = driver.device;
    return result_of("ibv_query_device");
}

static int fake_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
    CHECK(c == context);
    CHECK_EQ(port, 3);
    CHECK_EQ(size, sizeof(*attr));
    *attr = driver.port;
    return result_of("query_port");
}

/* Libraries from before extended contexts export this one, which fills a shorter struct. */
static int fake_query_port_compat(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    CHECK(c == context);
    CHECK_EQ(port, 3);
    memcpy(attr, &driver.port, offsetof(struct ibv_port_attr, port_cap_flags2));
    return result_of("ibv_query_port");
}

static ssize_t fake_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
                                    size_t size)
{
    CHECK(c == context);
    CHECK_EQ(flags, 0);
    CHECK_EQ(size, sizeof(*entries));
    if (driver.gid_result > 0 && (size_t)driver.gid_result > max)
        return -EINVAL;
    for (ssize_t i = 0; i < driver.gid_result; i++)
        entries[i] = driver.gids[i];
    return driver.gid_result;
}

static void reset(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(&driver, 0, sizeof(driver));
    memset(&extended, 0, sizeof(extended));
    extended.sz = sizeof(extended);
    extended.query_port = fake_query_port;
    context->abi_compat = __VERBS_ABI_IS_EXTENDED;
    weft_ibv = (struct weft_ibv_table){
        .ibv_get_device_list = fake_get_device_list,
        .ibv_free_device_list = fake_free_device_list,
        .ibv_get_device_name = fake_get_device_name,
        .ibv_get_device_guid = fake_get_device_guid,
        .ibv_open_device = fake_open_device,
        .ibv_close_device = fake_close_device,
        .ibv_query_device = fake_query_device,
        .ibv_query_port = fake_query_port_compat,
        ._ibv_query_gid_table = fake_query_gid_table,
    };
}

static void devices_are_listed_and_named(void)
{
    struct ibv_device **devices = NULL;
    int n = 0;

    reset();
    CHECK_EQ(weft_device_list(&devices, &n), 0);
    CHECK_EQ(n, 1);
    CHECK(weft_device_at(devices, 0) == &device);
    CHECK(strcmp(weft_device_name(&device), "rxe7") == 0);
    CHECK_EQ(weft_device_guid(&device), 0x1122334455667788);
    weft_device_list_free(devices);
    CHECK_EQ(driver.lists, 0);
}

static int list_refused(void)
{
    struct ibv_device **devices = list;
    int n = 99;

    int rc = weft_device_list(&devices, &n);
    CHECK(devices == NULL);
    CHECK_EQ(n, 0);
    return rc;
}

static int open_refused(void)
{
    struct ibv_context *c;

    return weft_device_open(&device, &c);
}

static int close_device(void)
{
    return weft_device_close(context);
}

static void devices_are_opened_and_closed(void)
{
    struct ibv_context *c = NULL;

    reset();
    check_null("ibv_get_device_list", list_refused);
    CHECK_EQ(weft_device_open(&device, &c), 0);
    CHECK(c == context);
    check_null("ibv_open_device", open_refused);
    check_results("ibv_close_device", close_device);
}

static void device_attributes_are_copied(void)
{
    struct weft_device_attr got;
    struct weft_device_attr want = {
        .fw_ver = "16.35.2000",
        .node_guid = 0x1122334455667788,
        .max_mr_size = UINT64_MAX,
        .vendor_id = 1,
        .vendor_part_id = 2,
        .hw_ver = 3,
        .max_qp = 4,
        .max_qp_wr = 5,
        .max_sge = 6,
        .max_cq = 7,
        .max_cqe = 8,
        .max_mr = 9,
        .max_pd = 10,
        .max_ah = 11,
        .max_qp_rd_atom = 12,
        .max_qp_init_rd_atom = 13,
        .ports = 14,
    };

    reset();
    memset(&got, 0xff, sizeof(got));
    driver.device = (struct ibv_device_attr){
        .fw_ver = "16.35.2000",
        .node_guid = 0x1122334455667788,
        .max_mr_size = UINT64_MAX,
        .vendor_id = 1,
        .vendor_part_id = 2,
        .hw_ver = 3,
        .max_qp = 4,
        .max_qp_wr = 5,
        .max_sge = 6,
        .max_cq = 7,
        .max_cqe = 8,
        .max_mr = 9,
        .max_pd = 10,
        .max_ah = 11,
        .max_qp_rd_atom = 12,
        .max_qp_init_rd_atom = 13,
        .phys_port_cnt = 14,
    };
    CHECK_EQ(weft_device_query(context, &got), 0);
    CHECK(memcmp(&got, &want, sizeof(got)) == 0);
}

static void negative_limits_are_none(void)
{
    struct weft_device_attr attr;
    struct weft_port_attr port;

    reset();
    driver.device = (struct ibv_device_attr){.max_qp = -1,
                                             .max_qp_wr = INT32_MIN,
                                             .max_sge = -1,
                                             .max_cq = -1,
                                             .max_cqe = -1,
                                             .max_mr = -1,
                                             .max_pd = -1,
                                             .max_ah = -1,
                                             .max_qp_rd_atom = -1,
                                             .max_qp_init_rd_atom = -1};
    driver.port.gid_tbl_len = -1;
    CHECK_EQ(weft_device_query(context, &attr), 0);
    CHECK_EQ(attr.max_qp | attr.max_qp_wr | attr.max_sge | attr.max_cq | attr.max_cqe, 0);
    CHECK_EQ(attr.max_mr | attr.max_pd | attr.max_ah | attr.max_qp_rd_atom | attr.max_qp_init_rd_atom, 0);
    CHECK_EQ(weft_port_query(context, 3, &port), 0);
    CHECK_EQ(port.gid_table_len, 0);
}

static void a_long_firmware_version_ends_with_a_zero(void)
{
    struct weft_device_attr attr;

    reset();
    memset(driver.device.fw_ver, 'x', sizeof(driver.device.fw_ver));
    CHECK_EQ(weft_device_query(context, &attr), 0);
    CHECK_EQ(attr.fw_ver[62], 'x');
    CHECK_EQ(attr.fw_ver[63], 0);
}

static int query_device(void)
{
    struct weft_device_attr attr;

    return weft_device_query(context, &attr);
}

static int query_port(void)
{
    struct weft_port_attr attr;

    return weft_port_query(context, 3, &attr);
}

static void refused_queries_are_errnos(void)
{
    reset();
    check_results("ibv_query_device", query_device);
    check_results("query_port", query_port);
    context->abi_compat = NULL;
    check_results("ibv_query_port", query_port);
}

static void port_attributes_are_copied_from_either_library(void)
{
    static const struct weft_port_attr want = {
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_1024,
        .gid_table_len = 1000,
        .max_message = 0x80000000,
        .lid = 2000,
        .pkey_table_len = 3000,
        .active_width = 5,
        .active_speed = 6,
        .phys_state = 7,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };

    reset();
    driver.port = (struct ibv_port_attr){
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_1024,
        .gid_tbl_len = 1000,
        .max_msg_sz = 0x80000000,
        .lid = 2000,
        .pkey_tbl_len = 3000,
        .active_width = 5,
        .active_speed = 6,
        .phys_state = 7,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };
    for (int old = 0; old < 2; old++) {
        struct weft_port_attr got;
        memset(&got, 0xff, sizeof(got));
        if (old)
            context->abi_compat = NULL;
        CHECK_EQ(weft_port_query(context, 3, &got), 0);
        CHECK(memcmp(&got, &want, sizeof(got)) == 0);
    }
}

/* Reads the table into an allocation of just max entries. */
static int gid_table(struct weft_gid_entry **entries, size_t max, size_t *count)
{
    *entries = calloc(max, sizeof(**entries));
    *count = 99;
    return weft_gid_table(context, *entries, max, count);
}

static void gid_entries_are_copied(void)
{
    struct weft_gid_entry *got;
    size_t n;

    reset();
    driver.gid_result = 3;
    for (uint32_t i = 0; i < 3; i++) {
        memset(driver.gids[i].gid.raw, (int)(0xa0 + i), 16);
        driver.gids[i].gid_index = 10 + i;
        driver.gids[i].port_num = 20 + i;
        driver.gids[i].gid_type = IBV_GID_TYPE_ROCE_V2;
        driver.gids[i].ndev_ifindex = 30 + i;
    }
    CHECK_EQ(gid_table(&got, 3, &n), 0);
    CHECK_EQ(n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(memcmp(got[i].gid, driver.gids[i].gid.raw, 16) == 0);
        CHECK_EQ(got[i].index, 10 + i);
        CHECK_EQ(got[i].port, 20 + i);
        CHECK_EQ(got[i].type, IBV_GID_TYPE_ROCE_V2);
        CHECK_EQ(got[i].ifindex, 30 + i);
    }
    free(got);
}

static void check_gid_result(ssize_t result, size_t max, int want)
{
    struct weft_gid_entry *got;
    size_t n;

    driver.gid_result = result;
    CHECK_EQ(gid_table(&got, max, &n), want);
    CHECK_EQ(n, want == 0 ? result : 99);
    free(got);
}

static void gid_table_without_room_or_answer_is_an_errno(void)
{
    reset();
    check_gid_result(0, 4, 0);
    check_gid_result(0, 0, 0);
    check_gid_result(3, 4, 0);
    check_gid_result(3, 2, EINVAL);
    check_gid_result(-EOPNOTSUPP, 4, EOPNOTSUPP);
    fake.refuse = "calloc";
    check_gid_result(3, 4, ENOMEM);
}

int main(void)
{
    RUN(devices_are_listed_and_named);
    RUN(devices_are_opened_and_closed);
    RUN(device_attributes_are_copied);
    RUN(negative_limits_are_none);
    RUN(a_long_firmware_version_ends_with_a_zero);
    RUN(refused_queries_are_errnos);
    RUN(port_attributes_are_copied_from_either_library);
    RUN(gid_entries_are_copied);
    RUN(gid_table_without_room_or_answer_is_an_errno);
    return test_summary();
}
