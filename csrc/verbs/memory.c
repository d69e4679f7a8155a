/* Protection domains, memory regions and windows. */
int weft_pd_alloc(struct ibv_context *context, struct ibv_pd **pd)
{
    errno = 0;
    *pd = weft_ibv_of(context)->ibv_alloc_pd(context);
    return *pd != NULL ? 0 : weft_errno();
}

int weft_td_alloc(struct ibv_context *context, struct ibv_td **td)
{
    struct verbs_context *extended = WEFT_EXTENDED(context, alloc_td);
    struct ibv_td_init_attr attr = {.comp_mask = 0};
    errno = 0;
    if (extended == NULL)
        return EOPNOTSUPP;
    *td = extended->alloc_td(context, &attr);
    return *td != NULL ? 0 : weft_errno();
}

int weft_td_dealloc(struct ibv_td *td)
{
    struct verbs_context *extended = WEFT_EXTENDED(td->context, dealloc_td);
    return extended == NULL ? EOPNOTSUPP : WEFT_CALL(extended->dealloc_td(td));
}

int weft_pd_alloc_parent(struct ibv_pd *pd, struct ibv_td *td, struct ibv_pd **parent)
{
    struct verbs_context *extended = WEFT_EXTENDED(pd->context, alloc_parent_domain);
    struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
    errno = 0;
    if (extended == NULL)
        return EOPNOTSUPP;
    *parent = extended->alloc_parent_domain(pd->context, &attr);
    return *parent != NULL ? 0 : weft_errno();
}

int weft_pd_import(struct ibv_context *context, uint32_t handle, struct ibv_pd **pd)
{
    errno = 0;
    if (weft_ibv_of(context)->ibv_import_pd == NULL)
        return EOPNOTSUPP;
    *pd = weft_ibv_of(context)->ibv_import_pd(context, handle);
    return *pd != NULL ? 0 : weft_errno();
}

void weft_pd_unimport(struct ibv_pd *pd)
{
    WEFT_IBV(pd)->ibv_unimport_pd(pd);
}

uint32_t weft_pd_handle(struct ibv_pd *pd)
{
    return pd->handle;
}

void *weft_pd_context(struct ibv_pd *pd)
{
    return pd->context;
}

int weft_pd_dealloc(struct ibv_pd *pd)
{
    return WEFT_CALL(WEFT_IBV(pd)->ibv_dealloc_pd(pd));
}

static int weft_mr_made(struct ibv_mr *made, struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
    *mr = made;
    if (made == NULL)
        return weft_errno();
    *lkey = made->lkey;
    *rkey = made->rkey;
    return 0;
}

int weft_mr_reg(struct ibv_pd *pd, uint64_t addr, uint64_t length, uint32_t access, struct ibv_mr **mr, uint32_t *lkey,
                uint32_t *rkey)
{
    errno = 0;
    /* Not a constant access: the header's inline chooses the call that knows optional access flags. */
    return weft_mr_made(__ibv_reg_mr(pd, (void *)(uintptr_t)addr, length, access, 0), mr, lkey, rkey);
}

int weft_mr_reg_iova(struct ibv_pd *pd, uint64_t addr, uint64_t length, uint64_t iova, uint32_t access,
                     struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
    errno = 0;
    return weft_mr_made(WEFT_IBV(pd)->ibv_reg_mr_iova2(pd, (void *)(uintptr_t)addr, length, iova, access), mr, lkey,
                        rkey);
}

int weft_mr_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int fd, uint32_t access,
                       struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
    errno = 0;
    if (WEFT_IBV(pd)->ibv_reg_dmabuf_mr == NULL)
        return EOPNOTSUPP;
    return weft_mr_made(WEFT_IBV(pd)->ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, (int)access), mr, lkey, rkey);
}

int weft_mr_alloc_null(struct ibv_pd *pd, struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
    struct verbs_context *extended = WEFT_EXTENDED(pd->context, alloc_null_mr);
    errno = 0;
    if (extended == NULL)
        return EOPNOTSUPP;
    return weft_mr_made(extended->alloc_null_mr(pd), mr, lkey, rkey);
}

int weft_mr_import(struct ibv_pd *pd, uint32_t handle, struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
    errno = 0;
    if (WEFT_IBV(pd)->ibv_import_mr == NULL)
        return EOPNOTSUPP;
    return weft_mr_made(WEFT_IBV(pd)->ibv_import_mr(pd, handle), mr, lkey, rkey);
}

void weft_mr_unimport(struct ibv_mr *mr)
{
    WEFT_IBV(mr)->ibv_unimport_mr(mr);
}

int weft_mr_rereg(struct ibv_mr *mr, uint32_t what, struct ibv_pd *pd, uint64_t addr, uint64_t length, uint32_t access,
                  uint32_t *lkey, uint32_t *rkey)
{
    errno = 0;
    int rc = WEFT_IBV(mr)->ibv_rereg_mr(mr, (int)what, pd, (void *)(uintptr_t)addr, length, (int)access);
    *lkey = mr->lkey;
    *rkey = mr->rkey;
    return rc; /* enum ibv_rereg_mr_err_code: what became of the region */
}

int weft_mr_advise(struct ibv_pd *pd, uint32_t advice, uint32_t flags, const struct weft_sge *sges, uint32_t n)
{
    struct verbs_context *extended = WEFT_EXTENDED(pd->context, advise_mr);
    if (extended == NULL)
        return EOPNOTSUPP;
    return WEFT_CALL(extended->advise_mr(pd, advice, flags, (struct ibv_sge *)(uintptr_t)sges, n));
}

uint32_t weft_mr_handle(struct ibv_mr *mr)
{
    return mr->handle;
}

int weft_mr_dereg(struct ibv_mr *mr)
{
    return WEFT_CALL(WEFT_IBV(mr)->ibv_dereg_mr(mr));
}

int weft_mw_alloc(struct ibv_pd *pd, uint32_t type, struct ibv_mw **mw, uint32_t *rkey)
{
    errno = 0;
    if (pd->context->ops.alloc_mw == NULL)
        return EOPNOTSUPP;
    *mw = ibv_alloc_mw(pd, (enum ibv_mw_type)type);
    if (*mw == NULL)
        return weft_errno();
    *rkey = (*mw)->rkey;
    return 0;
}

int weft_mw_dealloc(struct ibv_mw *mw)
{
    return WEFT_CALL(ibv_dealloc_mw(mw));
}
