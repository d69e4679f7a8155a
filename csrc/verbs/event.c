/* Asynchronous events of a device. */
_Static_assert(sizeof(((struct ibv_async_event *)0)->element) == sizeof(((struct weft_async_event *)0)->element),
               "what an event is about");

int weft_context_nonblocking(struct ibv_context *context, int *fd)
{
    *fd = context->async_fd;
    int flags = fcntl(*fd, F_GETFL);
    return flags < 0 || fcntl(*fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

/* Which object of verbs the event is about, by its type; 0 if none. */
static uint64_t weft_event_object(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return (uint64_t)(uintptr_t)event->element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return (uint64_t)(uintptr_t)event->element.qp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return (uint64_t)(uintptr_t)event->element.srq;
    default:
        return 0;
    }
}

static int weft_event_of_port(enum ibv_event_type type)
{
    return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_LID_CHANGE ||
           type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE || type == IBV_EVENT_CLIENT_REREGISTER ||
           type == IBV_EVENT_GID_CHANGE;
}

int weft_context_event(struct ibv_context *context, struct weft_async_event *out)
{
    struct ibv_async_event event;
    int rc;
    do {
        errno = 0;
        memset(&event, 0, sizeof(event));
        rc = WEFT_CALL(weft_ibv_of(context)->ibv_get_async_event(context, &event));
    } while (rc == EINTR);
    if (rc != 0)
        return rc;
    *out = (struct weft_async_event){
        .object = weft_event_object(&event),
        .element = 0,
        .type = event.event_type,
        .port = weft_event_of_port(event.event_type) ? (uint32_t)event.element.port_num : 0,
    };
    memcpy(&out->element, &event.element, sizeof(event.element));
    return 0;
}

/*
 * Acknowledged is what came, whatever it is about: the library counts an event at its object, and goes to that without
 * a look. Of work queues, and of what newer libraries report, there are no objects here.
 */
void weft_context_ack_event(struct ibv_context *context, const struct weft_async_event *in)
{
    struct ibv_async_event event = {.event_type = (enum ibv_event_type)in->type};
    memcpy(&event.element, &in->element, sizeof(event.element));
    weft_ibv_of(context)->ibv_ack_async_event(&event);
}
