/* Options of endpoints. */
int weft_fi_option_set(void *object, int name, const uint8_t *value, uint64_t size)
{
    return weft_fi_result(fi_setopt(object, FI_OPT_ENDPOINT, name, value, size));
}

int weft_fi_option_get(void *object, int name, uint8_t *value, uint64_t *size)
{
    size_t room = *size;
    int rc = weft_fi_result(fi_getopt(object, FI_OPT_ENDPOINT, name, value, &room));
    *size = room;
    return rc;
}
