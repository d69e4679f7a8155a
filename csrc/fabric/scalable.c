/* Endpoints of several contexts, and contexts that several endpoints share. */
int weft_fi_scalable_open(struct weft_fi_domain *d, struct fi_info *info, struct weft_fi_ep **out)
{
    struct weft_fi_ep *ep = weft_fi_ep_made(d, info);
    if (ep == NULL)
        return ENOMEM;
    int rc = WEFT_FI_CALL(fi_scalable_ep(d->domain, info, &ep->ep, ep));
    if (rc == 0)
        *out = ep;
    else
        free(ep);
    return rc;
}

int weft_fi_scalable_bind_av(struct weft_fi_ep *scalable, struct weft_fi_av *av)
{
    scalable->av = av;
    return weft_fi_result(fi_scalable_ep_bind(scalable->ep, &av->av->fid, 0));
}

/* A context of a scalable endpoint, which is used like an endpoint of one direction. */
int weft_fi_context_open(struct weft_fi_ep *scalable, int receive, int index, struct weft_fi_ep **out)
{
    struct weft_fi_ep *context = calloc(1, sizeof(*context));
    if (context == NULL)
        return ENOMEM;
    *context = *scalable;
    context->crossings = 0;
    int rc = WEFT_FI_CALL(receive ? fi_rx_context(scalable->ep, index, NULL, &context->ep, context)
                                  : fi_tx_context(scalable->ep, index, NULL, &context->ep, context));
    if (rc == 0) {
        context->only = receive ? WEFT_FI_ONLY_RECVS : WEFT_FI_ONLY_SENDS;
        weft_fi_ep_opened(context);
        *out = context;
    } else {
        free(context);
    }
    return rc;
}

int weft_fi_stx_open(struct weft_fi_domain *d, struct fi_info *info, struct fid_stx **stx)
{
    return WEFT_FI_CALL(fi_stx_context(d->domain, info->tx_attr, stx, NULL));
}

int weft_fi_stx_close(struct fid_stx *stx)
{
    return WEFT_FI_CALL(fi_close(&stx->fid));
}

int weft_fi_srx_open(struct weft_fi_domain *d, struct fi_info *info, struct weft_fi_ep **out)
{
    struct weft_fi_ep *srx = weft_fi_ep_made(d, info);
    if (srx == NULL)
        return ENOMEM;
    srx->anyone = info->ep_attr->type != FI_EP_MSG;
    int rc = WEFT_FI_CALL(fi_srx_context(d->domain, info->rx_attr, &srx->ep, srx));
    if (rc == 0) {
        srx->only = WEFT_FI_ONLY_RECVS;
        weft_fi_ep_opened(srx);
        *out = srx;
    } else {
        free(srx);
    }
    return rc;
}

int weft_fi_ep_bind_stx(struct weft_fi_ep *ep, struct fid_stx *stx)
{
    return weft_fi_result(fi_ep_bind(ep->ep, &stx->fid, 0));
}

int weft_fi_ep_bind_srx(struct weft_fi_ep *ep, struct weft_fi_ep *srx)
{
    return weft_fi_result(fi_ep_bind(ep->ep, &srx->ep->fid, 0));
}
