/* Connections, listeners, names and multicast groups. */

/* Whether an endpoint or listener has these calls at all: a shared context has none. */
static int weft_fi_has_cm(void *object)
{
    struct fid_ep *ep = object; /* a struct fid_pep begins likewise */
    return ep->cm != NULL;
}

int weft_fi_name_get(void *object, uint8_t *address, uint64_t *length)
{
    if (!weft_fi_has_cm(object))
        return EOPNOTSUPP;
    size_t size = *length;
    int rc = weft_fi_result(fi_getname(object, address, &size));
    *length = size;
    return rc;
}

int weft_fi_name_set(void *object, const uint8_t *address, uint64_t length)
{
    uint8_t copy[WEFT_FI_ADDR]; /* the header's pointer is not const */
    if (!weft_fi_has_cm(object))
        return EOPNOTSUPP;
    if (length > sizeof(copy))
        return EINVAL;
    memcpy(copy, address, length);
    return weft_fi_result(fi_setname(object, copy, length));
}

int weft_fi_peer_get(struct weft_fi_ep *ep, uint8_t *address, uint64_t *length)
{
    if (!weft_fi_has_cm(ep->ep))
        return EOPNOTSUPP;
    size_t size = *length;
    int rc = weft_fi_result(fi_getpeer(ep->ep, address, &size));
    *length = size;
    return rc;
}

int weft_fi_connect(struct weft_fi_ep *ep, const uint8_t *address, const uint8_t *param, uint64_t length)
{
    if (!weft_fi_has_cm(ep->ep))
        return EOPNOTSUPP;
    return WEFT_FI_CALL(fi_connect(ep->ep, address, param, length));
}

int weft_fi_accept(struct weft_fi_ep *ep, const uint8_t *param, uint64_t length)
{
    if (!weft_fi_has_cm(ep->ep))
        return EOPNOTSUPP;
    return WEFT_FI_CALL(fi_accept(ep->ep, param, length));
}

int weft_fi_shutdown(struct weft_fi_ep *ep)
{
    if (!weft_fi_has_cm(ep->ep))
        return EOPNOTSUPP;
    return weft_fi_result(fi_shutdown(ep->ep, 0));
}

int weft_fi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep)
{
    return WEFT_FI_CALL(fi_passive_ep(fabric, info, pep, NULL));
}

int weft_fi_pep_close(struct fid_pep *pep)
{
    return WEFT_FI_CALL(fi_close(&pep->fid));
}

int weft_fi_pep_bind(struct fid_pep *pep, struct weft_fi_eq *eq)
{
    return weft_fi_result(fi_pep_bind(pep, weft_fi_eq_fid(eq), 0));
}

int weft_fi_listen(struct fid_pep *pep)
{
    return WEFT_FI_CALL(fi_listen(pep));
}

int weft_fi_reject(struct fid_pep *pep, struct fi_info *request, const uint8_t *param, uint64_t length)
{
    return weft_fi_result(fi_reject(pep, request->handle, param, length));
}

int weft_fi_join(struct weft_fi_ep *ep, const uint8_t *address, uint64_t flags, struct weft_fi_group **out)
{
    if (!weft_fi_has_cm(ep->ep))
        return EOPNOTSUPP;
    struct weft_fi_group *group = calloc(1, sizeof(*group));
    if (group == NULL)
        return ENOMEM;
    int rc = WEFT_FI_CALL(fi_join(ep->ep, address, flags, &group->mc, NULL));
    if (rc != 0) {
        free(group);
        return rc;
    }
    group->ep = ep;
    weft_fi_lock(&ep->lock);
    group->next = ep->groups;
    ep->groups = group;
    weft_fi_unlock(&ep->lock);
    *out = group;
    return 0;
}

uint64_t weft_fi_group_addr(struct weft_fi_group *group)
{
    return fi_mc_addr(group->mc);
}

void *weft_fi_group_raw(struct weft_fi_group *group)
{
    return group->mc;
}

int weft_fi_leave(struct weft_fi_group *group)
{
    int rc = WEFT_FI_CALL(fi_close(&group->mc->fid));
    if (rc != 0)
        return rc;
    weft_fi_lock(&group->ep->lock);
    struct weft_fi_group **at = &group->ep->groups;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    weft_fi_unlock(&group->ep->lock);
    free(group);
    return 0;
}

/* Whether a group's address is one that the endpoint joined. */
static int weft_fi_joined(struct weft_fi_ep *ep, uint64_t addr)
{
    int found = 0;
    weft_fi_lock(&ep->lock);
    for (struct weft_fi_group *group = ep->groups; group != NULL && !found; group = group->next)
        found = fi_mc_addr(group->mc) == addr;
    weft_fi_unlock(&ep->lock);
    return found;
}
