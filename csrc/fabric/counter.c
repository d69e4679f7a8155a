/* Counters of completed operations. */
int weft_fi_counter_open(struct weft_fi_domain *d, uint32_t wait, uint64_t flags, struct fid_cntr **counter)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = (enum fi_wait_obj)wait, .flags = flags};
    return WEFT_FI_CALL(fi_cntr_open(d->domain, &attr, counter, NULL));
}

int weft_fi_counter_close(struct fid_cntr *counter)
{
    return WEFT_FI_CALL(fi_close(&counter->fid));
}

uint64_t weft_fi_counter_read(struct fid_cntr *counter)
{
    return fi_cntr_read(counter);
}

uint64_t weft_fi_counter_read_errors(struct fid_cntr *counter)
{
    return fi_cntr_readerr(counter);
}

int weft_fi_counter_add(struct fid_cntr *counter, uint64_t value)
{
    return weft_fi_result(fi_cntr_add(counter, value));
}

int weft_fi_counter_add_errors(struct fid_cntr *counter, uint64_t value)
{
    return weft_fi_result(fi_cntr_adderr(counter, value));
}

int weft_fi_counter_set(struct fid_cntr *counter, uint64_t value)
{
    return weft_fi_result(fi_cntr_set(counter, value));
}

int weft_fi_counter_set_errors(struct fid_cntr *counter, uint64_t value)
{
    return weft_fi_result(fi_cntr_seterr(counter, value));
}

int weft_fi_counter_wait(struct fid_cntr *counter, uint64_t threshold, int timeout_ms)
{
    if (!weft_fi_yields(&counter->fid))
        return weft_fi_result(fi_cntr_wait(counter, threshold, timeout_ms));
    uint64_t until = weft_fi_deadline(timeout_ms), errors = fi_cntr_readerr(counter);
    do {
        if (fi_cntr_read(counter) >= threshold)
            return 0;
        if (fi_cntr_readerr(counter) != errors)
            return FI_EAVAIL;
    } while (weft_fi_yield(until));
    return ETIMEDOUT;
}
