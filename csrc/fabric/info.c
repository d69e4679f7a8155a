/* What providers offer: hints into struct fi_info, and struct fi_info into plain numbers. */

/* fi_freeinfo frees the strings, so they are libc's. */
static int weft_fi_string(char **out, const char *text)
{
    if (text[0] == '\0')
        return 0;
    *out = strdup(text);
    return *out != NULL ? 0 : ENOMEM;
}

static void weft_fi_hint_ep(struct fi_info *hints, const struct weft_fi_info *in)
{
    hints->caps = in->caps;
    hints->mode = in->mode;
    hints->addr_format = in->addr_format;
    hints->ep_attr->type = (enum fi_ep_type)in->ep_type;
    hints->ep_attr->protocol = in->protocol;
    hints->ep_attr->max_msg_size = in->max_msg_size;
    hints->ep_attr->mem_tag_format = in->mem_tag_format;
    hints->ep_attr->tx_ctx_cnt = in->ep_tx_ctx_cnt;
    hints->ep_attr->rx_ctx_cnt = in->ep_rx_ctx_cnt;
    hints->tx_attr->op_flags = in->tx_op_flags;
    hints->tx_attr->msg_order = in->tx_msg_order;
    hints->tx_attr->comp_order = in->tx_comp_order;
    hints->tx_attr->inject_size = in->tx_inject_size;
    hints->tx_attr->size = in->tx_size;
    hints->tx_attr->iov_limit = in->tx_iov_limit;
    hints->tx_attr->rma_iov_limit = in->tx_rma_iov_limit;
    hints->tx_attr->tclass = in->tclass;
    hints->rx_attr->op_flags = in->rx_op_flags;
    hints->rx_attr->msg_order = in->rx_msg_order;
    hints->rx_attr->comp_order = in->rx_comp_order;
    hints->rx_attr->size = in->rx_size;
    hints->rx_attr->iov_limit = in->rx_iov_limit;
}

static int weft_fi_hints(struct fi_info *hints, const struct weft_fi_info *in)
{
    weft_fi_hint_ep(hints, in);
    hints->domain_attr->threading = (enum fi_threading)in->threading;
    hints->domain_attr->control_progress = (enum fi_progress)in->control_progress;
    hints->domain_attr->data_progress = (enum fi_progress)in->data_progress;
    hints->domain_attr->resource_mgmt = (enum fi_resource_mgmt)in->resource_mgmt;
    hints->domain_attr->av_type = (enum fi_av_type)in->av_type;
    hints->domain_attr->mr_mode = (int)in->mr_mode;
    hints->domain_attr->caps = in->domain_caps;
    int rc = weft_fi_string(&hints->fabric_attr->prov_name, in->provider);
    if (rc == 0)
        rc = weft_fi_string(&hints->fabric_attr->name, in->fabric);
    if (rc == 0)
        rc = weft_fi_string(&hints->domain_attr->name, in->domain);
    return rc;
}

int weft_fi_getinfo(const char *node, const char *service, uint64_t flags, const struct weft_fi_info *in,
                    struct fi_info **list)
{
    struct fi_info *hints = weft_fi.fi_dupinfo(NULL);
    if (hints == NULL)
        return ENOMEM;
    int rc = weft_fi_hints(hints, in);
    if (rc == 0) {
        rc = WEFT_FI_CALL(weft_fi.fi_getinfo(WEFT_FI_API, node, service, flags, hints, list));
    }
    weft_fi.fi_freeinfo(hints);
    return rc;
}

struct fi_info *weft_fi_info_next(struct fi_info *info)
{
    return info->next;
}

struct fi_info *weft_fi_info_dup(struct fi_info *info)
{
    return weft_fi.fi_dupinfo(info);
}

void weft_fi_info_free(struct fi_info *list)
{
    weft_fi.fi_freeinfo(list);
}

static void weft_fi_name(char out[WEFT_FI_NAME], const char *name)
{
    if (name != NULL)
        snprintf(out, WEFT_FI_NAME, "%s", name);
}

static uint32_t weft_fi_address(uint8_t out[WEFT_FI_ADDR], const void *address, size_t length)
{
    if (address == NULL)
        return 0;
    memcpy(out, address, length < WEFT_FI_ADDR ? length : WEFT_FI_ADDR);
    return (uint32_t)length;
}

static void weft_fi_read_contexts(struct weft_fi_info *out, const struct fi_tx_attr *tx, const struct fi_rx_attr *rx)
{
    out->tx_caps = tx->caps;
    out->tx_mode = tx->mode;
    out->tx_op_flags = tx->op_flags;
    out->tx_msg_order = tx->msg_order;
    out->tx_comp_order = tx->comp_order;
    out->tx_inject_size = tx->inject_size;
    out->tx_size = tx->size;
    out->tx_iov_limit = tx->iov_limit;
    out->tx_rma_iov_limit = tx->rma_iov_limit;
    out->tclass = tx->tclass;
    out->rx_caps = rx->caps;
    out->rx_mode = rx->mode;
    out->rx_op_flags = rx->op_flags;
    out->rx_msg_order = rx->msg_order;
    out->rx_comp_order = rx->comp_order;
    out->rx_size = rx->size;
    out->rx_iov_limit = rx->iov_limit;
}

static void weft_fi_read_ep(struct weft_fi_info *out, const struct fi_ep_attr *ep)
{
    out->ep_type = ep->type;
    out->protocol = ep->protocol;
    out->protocol_version = ep->protocol_version;
    out->max_msg_size = ep->max_msg_size;
    out->msg_prefix_size = ep->msg_prefix_size;
    out->max_order_raw_size = ep->max_order_raw_size;
    out->max_order_war_size = ep->max_order_war_size;
    out->max_order_waw_size = ep->max_order_waw_size;
    out->mem_tag_format = ep->mem_tag_format;
    out->ep_tx_ctx_cnt = ep->tx_ctx_cnt;
    out->ep_rx_ctx_cnt = ep->rx_ctx_cnt;
}

static void weft_fi_read_domain(struct weft_fi_info *out, const struct fi_domain_attr *domain)
{
    out->threading = domain->threading;
    out->control_progress = domain->control_progress;
    out->data_progress = domain->data_progress;
    out->resource_mgmt = domain->resource_mgmt;
    out->av_type = domain->av_type;
    out->mr_mode = (uint32_t)domain->mr_mode;
    out->mr_key_size = domain->mr_key_size;
    out->cq_data_size = domain->cq_data_size;
    out->cq_cnt = domain->cq_cnt;
    out->ep_cnt = domain->ep_cnt;
    out->max_ep_tx_ctx = domain->max_ep_tx_ctx;
    out->max_ep_rx_ctx = domain->max_ep_rx_ctx;
    out->max_ep_stx_ctx = domain->max_ep_stx_ctx;
    out->max_ep_srx_ctx = domain->max_ep_srx_ctx;
    out->cntr_cnt = domain->cntr_cnt;
    out->mr_iov_limit = domain->mr_iov_limit;
    out->mr_cnt = domain->mr_cnt;
    out->max_err_data = domain->max_err_data;
    out->domain_caps = domain->caps;
    out->domain_mode = domain->mode;
    weft_fi_name(out->domain, domain->name);
}

static void weft_fi_read_nic(struct weft_fi_info *out, const struct fid_nic *nic)
{
    if (nic == NULL)
        return;
    if (nic->device_attr != NULL)
        weft_fi_name(out->nic, nic->device_attr->name);
    if (nic->link_attr != NULL) {
        out->link_speed = nic->link_attr->speed;
        out->link_mtu = nic->link_attr->mtu;
        out->link_state = nic->link_attr->state;
    }
}

void weft_fi_info_read(const struct fi_info *info, struct weft_fi_info *out)
{
    memset(out, 0, sizeof(*out));
    out->caps = info->caps;
    out->mode = info->mode;
    out->addr_format = info->addr_format;
    out->src_addr_len = weft_fi_address(out->src_addr, info->src_addr, info->src_addrlen);
    out->dest_addr_len = weft_fi_address(out->dest_addr, info->dest_addr, info->dest_addrlen);
    weft_fi_read_contexts(out, info->tx_attr, info->rx_attr);
    weft_fi_read_ep(out, info->ep_attr);
    weft_fi_read_domain(out, info->domain_attr);
    weft_fi_read_nic(out, info->nic);
    out->prov_version = info->fabric_attr->prov_version;
    out->api_version = info->fabric_attr->api_version;
    weft_fi_name(out->provider, info->fabric_attr->prov_name);
    weft_fi_name(out->fabric, info->fabric_attr->name);
}

void weft_fi_info_text(const struct fi_info *info, char *out, size_t size)
{
    out[0] = '\0';
    weft_fi.fi_tostr_r(out, size, info, FI_TYPE_INFO);
    out[size - 1] = '\0';
}

void weft_fi_text(uint32_t type, uint64_t value, char *out, size_t size)
{
    uint32_t narrow = (uint32_t)value;
    int wide = type == FI_TYPE_CAPS || type == FI_TYPE_MODE || type == FI_TYPE_OP_FLAGS || type == FI_TYPE_MSG_ORDER ||
               type == FI_TYPE_CQ_EVENT_FLAGS;
    out[0] = '\0';
    weft_fi.fi_tostr_r(out, size, wide ? (const void *)&value : &narrow, (enum fi_type)type);
    out[size - 1] = '\0';
}

int weft_fi_params(struct fi_param **params, int *count)
{
    return weft_fi_result(weft_fi.fi_getparams(params, count));
}

void weft_fi_param_at(const struct fi_param *params, int index, const char **name, uint32_t *type, const char **help,
                      const char **value)
{
    *name = params[index].name;
    *type = params[index].type;
    *help = params[index].help_string;
    *value = params[index].value;
}

void weft_fi_params_free(struct fi_param *params)
{
    weft_fi.fi_freeparams(params);
}
