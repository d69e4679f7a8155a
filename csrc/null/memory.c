/* The null provider's protection domains, memory and address handles. */
static struct ibv_pd *null_make_pd(struct ibv_context *context, uint32_t handle)
{
    struct ibv_pd *pd = null_make(context, sizeof(*pd));
    if (pd != NULL)
        *pd = (struct ibv_pd){.context = context, .handle = handle};
    return pd;
}

static struct ibv_pd *null_alloc_pd(struct ibv_context *context)
{
    NULL_POINTER(context, ibv_alloc_pd);
    return null_make_pd(context, ++null_of(context)->domains);
}

static int null_dealloc_pd(struct ibv_pd *pd)
{
    NULL_RESULT(pd->context, ibv_dealloc_pd);
    return null_free(pd->context, pd);
}

static struct ibv_td *null_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    NULL_POINTER(context, alloc_td);
    if (attr->comp_mask != 0)
        return null_fail(EINVAL);
    struct ibv_td *td = null_make(context, sizeof(*td));
    if (td != NULL)
        td->context = context;
    return td;
}

static int null_dealloc_td(struct ibv_td *td)
{
    NULL_RESULT(td->context, dealloc_td);
    return null_free(td->context, td);
}

static struct ibv_pd *null_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
    NULL_POINTER(context, alloc_parent_domain);
    if (attr->pd == NULL || attr->td == NULL || attr->comp_mask != 0)
        return null_fail(EINVAL);
    return null_make_pd(context, attr->pd->handle);
}

static struct ibv_pd *null_import_pd(struct ibv_context *context, uint32_t handle)
{
    NULL_POINTER(context, ibv_import_pd);
    return null_make_pd(context, handle);
}

static void null_unimport_pd(struct ibv_pd *pd)
{
    null_of(pd->context)->calls[CALL_ibv_unimport_pd]++;
    null_free(pd->context, pd);
}

static struct ibv_mr *null_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access)
{
    struct weft_null *n = null_of(pd->context);
    if ((access & n->refused_access) != 0)
        return null_fail(EOPNOTSUPP);
    if (length > n->attr.orig_attr.max_mr_size && length != SIZE_MAX) /* that is the whole address space */
        return null_fail(EINVAL);
    n->registered.addr = (uint64_t)(uintptr_t)addr;
    n->registered.length = length;
    n->registered.access = access;
    struct ibv_mr *mr = null_make(pd->context, sizeof(*mr));
    if (mr != NULL)
        *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    if (mr != NULL)
        mr->lkey = mr->rkey = ++n->key << 8;
    return mr;
}

static struct ibv_mr *null_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                        unsigned int access)
{
    NULL_POINTER(pd->context, ibv_reg_mr_iova2);
    null_of(pd->context)->registered.iova = iova;
    return null_mr(pd, addr, length, access);
}

static struct ibv_mr *null_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                         int access)
{
    NULL_POINTER(pd->context, ibv_reg_dmabuf_mr);
    null_of(pd->context)->dmabuf = (struct weft_null_dmabuf){offset, length, iova, fd, 0};
    return null_mr(pd, NULL, length, (unsigned int)access);
}

static struct ibv_mr *null_alloc_null_mr(struct ibv_pd *pd)
{
    NULL_POINTER(pd->context, alloc_null_mr);
    return null_mr(pd, NULL, 0, 0);
}

static struct ibv_mr *null_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    (void)handle;
    NULL_POINTER(pd->context, ibv_import_mr);
    return null_mr(pd, NULL, 0, 0);
}

static void null_unimport_mr(struct ibv_mr *mr)
{
    null_of(mr->context)->calls[CALL_ibv_unimport_mr]++;
    null_free(mr->context, mr);
}

static int null_rereg_mr(struct ibv_mr *mr, int what, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    NULL_RESULT(mr->context, ibv_rereg_mr);
    if (access != 0 && (what & IBV_REREG_MR_CHANGE_ACCESS) == 0) { /* as the library checks it */
        errno = EINVAL;
        return IBV_REREG_MR_ERR_INPUT;
    }
    if ((what & IBV_REREG_MR_CHANGE_PD) != 0)
        mr->pd = pd;
    if ((what & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
        mr->addr = addr;
        mr->length = length;
    }
    mr->lkey = mr->rkey = ++null_of(mr->context)->key << 8;
    return 0;
}

static int null_dereg_mr(struct ibv_mr *mr)
{
    NULL_RESULT(mr->context, ibv_dereg_mr);
    return null_free(mr->context, mr);
}

static int null_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sges,
                          uint32_t n)
{
    NULL_RESULT(pd->context, advise_mr);
    null_of(pd->context)->advised = (uint32_t)advice << 16 | flags;
    return n > 0 && sges[0].lkey != 0 ? 0 : EINVAL;
}

static struct ibv_mw *null_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    NULL_POINTER(pd->context, alloc_mw);
    struct ibv_mw *mw = null_make(pd->context, sizeof(*mw));
    if (mw != NULL)
        *mw = (struct ibv_mw){.context = pd->context, .pd = pd, .rkey = ++null_of(pd->context)->key << 8, .type = type};
    return mw;
}

static int null_dealloc_mw(struct ibv_mw *mw)
{
    NULL_RESULT(mw->context, dealloc_mw);
    return null_free(mw->context, mw);
}

static struct ibv_ah *null_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    (void)attr;
    NULL_POINTER(pd->context, ibv_create_ah);
    struct ibv_ah *ah = null_make(pd->context, sizeof(*ah));
    if (ah != NULL)
        *ah = (struct ibv_ah){.context = pd->context, .pd = pd};
    return ah;
}

static int null_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                                struct ibv_ah_attr *attr)
{
    NULL_RESULT(context, ibv_init_ah_from_wc);
    *attr = (struct ibv_ah_attr){.dlid = wc->slid, .sl = wc->sl, .is_global = 1, .port_num = port};
    attr->grh.dgid = grh->sgid;
    attr->grh.hop_limit = 64;
    return 0;
}

static int null_destroy_ah(struct ibv_ah *ah)
{
    NULL_RESULT(ah->context, ibv_destroy_ah);
    return null_free(ah->context, ah);
}
