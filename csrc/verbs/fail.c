/*
 * Queue pairs that fail. The cause is the first completion with an error, or an asynchronous event; what follows says
 * "flushed". From then on posts are refused, and the queue pair is moved to the error state whatever the driver did: on
 * rxe, requests that were posted to one that failed by itself never complete otherwise. The exceptions:
 *
 *   - A queue pair that its owner moved to the error state flushes, and has not failed (ending).
 *   - A flush that nobody asked for is all that the target of a bad request sees of it: the device has moved the queue
 *     pair to the error state. It is the cause until a better one comes, since the order of two completion queues, and
 * of the events, is not that of what happened. It may also be left of before a reset: the device is asked for the
 * state.
 *   - A datagram or an unreliable connection whose send failed may be in the send queue error state: only sends are
 *     refused then, and it stays as it is, so that its owner can bring it back.
 *
 * All of it is written under the queue pair's lock, since two threads may poll its two completion queues, and a third
 * take events. The driver is called without it.
 */
static int weft_flushed(const struct weft_failure *failure)
{
    return failure->status == IBV_WC_WR_FLUSH_ERR;
}

/* What the device says of the state; the error state if it says nothing. */
static enum ibv_qp_state weft_qp_state(struct weft_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    memset(&attr, 0, sizeof(attr));
    memset(&init, 0, sizeof(init));
    int rc = WEFT_CALL(WEFT_IBV(qp->qp)->ibv_query_qp(qp->qp, &attr, IBV_QP_STATE, &init));
    return rc == 0 ? attr.qp_state : IBV_QPS_ERR;
}

/* Whether this changes nothing any more; with the lock. */
static int weft_qp_settled(const struct weft_qp *qp, const struct weft_failure *failure)
{
    if (qp->refuses == WEFT_BAD_CLOSED || (weft_flushed(failure) && qp->ending))
        return 1;
    return qp->refuses_recvs != 0 && (weft_flushed(failure) || !weft_flushed(&qp->failure));
}

/* Enters a failure, of the send queue alone or of the queue pair, which is then to be moved to the error state. */
static void weft_qp_blame(struct weft_qp *qp, const struct weft_failure *failure, int sends_alone)
{
    weft_lock(&qp->lock);
    int settled = weft_qp_settled(qp, failure), move = !settled && !sends_alone && qp->refuses_recvs == 0;
    if (!settled && (qp->refuses == 0 || weft_flushed(&qp->failure)))
        qp->failure = *failure;
    if (!settled)
        __atomic_store_n(&qp->refuses, WEFT_BAD_FAILED, __ATOMIC_RELEASE);
    if (move)
        qp->refuses_recvs = WEFT_BAD_FAILED;
    weft_unlock(&qp->lock);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (move)
        WEFT_IBV(qp->qp)->ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE); /* if refused, there is nothing to flush */
}

static void weft_qp_fail(struct weft_qp *qp, const struct ibv_wc *wc)
{
    struct weft_failure failure = {.id = wc->wr_id, .status = wc->status, .vendor_err = wc->vendor_err};
    weft_lock(&qp->lock);
    int settled = weft_qp_settled(qp, &failure);
    weft_unlock(&qp->lock);
    if (settled)
        return;
    int ask = weft_flushed(&failure) || qp->limits.type != IBV_QPT_RC;
    enum ibv_qp_state state = ask ? weft_qp_state(qp) : IBV_QPS_ERR;
    if (weft_flushed(&failure) && state != IBV_QPS_ERR && state != IBV_QPS_SQE)
        return; /* of before a reset */
    weft_qp_blame(qp, &failure, state == IBV_QPS_SQE);
}

void weft_qp_fail_event(struct weft_qp *qp, uint32_t event)
{
    struct weft_failure failure = {.event = event};
    weft_qp_blame(qp, &failure, 0);
}

int weft_qp_failure(struct weft_qp *qp, struct weft_failure *failure)
{
    weft_lock(&qp->lock);
    int failed = qp->refuses == WEFT_BAD_FAILED;
    if (failed)
        *failure = qp->failure;
    weft_unlock(&qp->lock);
    return failed;
}

/* A queue pair that was reset is as new, and so is the send queue of one that was brought back. */
static void weft_qp_renew(struct weft_qp *qp)
{
    weft_lock(&qp->lock);
    qp->run = 0;
    qp->refuses_recvs = qp->ending = 0;
    __atomic_store_n(&qp->refuses, 0, __ATOMIC_RELEASE);
    weft_unlock(&qp->lock);
}

/* Whether its owner moves it to the error state; returns whether it was moved there before. */
static uint32_t weft_qp_end(struct weft_qp *qp, uint32_t ending)
{
    weft_lock(&qp->lock);
    uint32_t before = qp->ending;
    qp->ending = ending;
    weft_unlock(&qp->lock);
    return before;
}
