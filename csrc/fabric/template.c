/*
 * Templates: operations that are filled in once and stay in C memory, for one peer each. A post changes addresses and
 * lengths alone, and posts to all of them in one crossing.
 */
struct weft_fi_prepared {
    struct weft_fi_ep *ep;
    struct weft_fi_op op;
    enum weft_fi_kind kind;
    uint32_t lkey;
};

struct weft_fi_template {
    uint64_t crossings; /* calls from Go that posted */
    uint32_t busy;
    uint32_t room, n;
    struct weft_fi_prepared prepared[];
};

int weft_fi_template_create(uint32_t n, struct weft_fi_template **out)
{
    struct weft_fi_template *t = calloc(1, sizeof(*t) + n * sizeof(t->prepared[0]));
    if (t == NULL)
        return ENOMEM;
    t->room = n;
    *out = t;
    return 0;
}

void weft_fi_template_free(struct weft_fi_template *t)
{
    free(t);
}

uint64_t weft_fi_template_crossings(struct weft_fi_template *t)
{
    return __atomic_load_n(&t->crossings, __ATOMIC_RELAXED);
}

/* What can be checked before the address and the length are known. */
int weft_fi_template_add(struct weft_fi_template *t, struct weft_fi_ep *ep, uint32_t kind, const struct weft_fi_op *op,
                         uint32_t lkey)
{
    const struct weft_fi_rule *rule = &weft_fi_rules[kind];
    if (t->n == t->room)
        return ENOSPC;
    if ((ep->kinds >> kind & 1) == 0)
        return -WEFT_FI_BAD_KIND;
    if ((op->flags & ~rule->flags) != 0)
        return -WEFT_FI_BAD_FLAGS;
    if (!weft_fi_has_peer(ep, rule->side, op->flags, op->peer))
        return -WEFT_FI_BAD_PEER;
    t->prepared[t->n++] = (struct weft_fi_prepared){.ep = ep, .op = *op, .kind = (enum weft_fi_kind)kind, .lkey = lkey};
    return 0;
}

/* Checks a patch, and fills in the list of its one segment; none where it has no bytes. */
static enum weft_fi_bad_op weft_fi_patched(const struct weft_fi_prepared *p, const struct weft_fi_patch *patch,
                                           struct weft_fi_list *list)
{
    const struct weft_fi_seg seg = {.addr = patch->addr, .length = patch->length, .lkey = p->lkey};
    enum weft_fi_bad_op bad =
        weft_fi_gather(p->ep->domain, &seg, patch->length != 0, (p->op.flags & FI_INJECT) != 0, list);
    return bad != 0 ? bad : weft_fi_check_length(p->ep, p->op.flags, patch->length);
}

static enum weft_fi_bad_op weft_fi_check_patches(struct weft_fi_template *t, const struct weft_fi_patch *patches,
                                                 uint32_t n, uint32_t *index)
{
    struct weft_fi_list list;
    uint32_t least = 0;
    for (uint32_t i = 0; i < n; i++) {
        *index = i;
        if (patches[i].index < least || patches[i].index >= t->n)
            return WEFT_FI_BAD_PATCH;
        least = patches[i].index + 1;
        struct weft_fi_prepared *p = &t->prepared[patches[i].index];
        enum weft_fi_bad_op bad = weft_fi_patched(p, &patches[i], &list);
        if (bad == 0 && !weft_fi_has_peer(p->ep, weft_fi_rules[p->kind].side, p->op.flags, p->op.peer))
            bad = WEFT_FI_BAD_PEER; /* taken from the AV since */
        if (bad != 0)
            return bad;
    }
    return 0;
}

static int weft_fi_post_patches(struct weft_fi_template *t, const struct weft_fi_patch *patches, uint32_t n,
                                uint32_t *accepted)
{
    struct weft_fi_list list;
    int rc = -(int)weft_fi_check_patches(t, patches, n, accepted);
    if (rc != 0)
        return rc;
    *accepted = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        struct weft_fi_prepared *p = &t->prepared[patches[i].index];
        weft_fi_patched(p, &patches[i], &list);
        p->op.remote_addr = patches[i].remote_addr;
        /* the doorbell of one endpoint's operations is not rung by another's */
        int more = i + 1 < n && t->prepared[patches[i + 1].index].ep == p->ep;
        rc = weft_fi_post_one(p->ep, p->kind, &p->op, &list, more);
        *accepted += rc == 0;
    }
    return rc;
}

int weft_fi_template_post(weft_fi_number number, const struct weft_fi_patch *patches, uint32_t n, uint32_t *accepted)
{
    struct weft_fi_template *t = (struct weft_fi_template *)number;
    *accepted = 0;
    if (__atomic_exchange_n(&t->busy, 1, __ATOMIC_ACQUIRE) != 0)
        return -WEFT_FI_BAD_BUSY;
    weft_fi_crossed(&t->crossings);
    int rc = weft_fi_post_patches(t, patches, n, accepted);
    weft_fi_unlock(&t->busy);
    return rc;
}
