/* How the verbs shim opens libibverbs: the installed one, one that is not there, and one that lacks a function. */
#include "load.h"

static void *fake_dlsym(void *from, const char *name)
{
    char absent[128];

    library.looked_up = name;
    if (library.hidden == NULL || strcmp(name, library.hidden) != 0)
        return dlsym(from, name);
    if (library.without_reason)
        return NULL;
    snprintf(absent, sizeof(absent), "%s_hidden", name);
    return dlsym(from, absent);
}

#define dlopen fake_dlopen
#define dlsym  fake_dlsym
#include "../verbs/verbs.c"
#undef dlopen
#undef dlsym

static int load_verbs(char *reason, size_t size)
{
    memset(&weft_ibv, 0, sizeof(weft_ibv));
    return weft_verbs_load(reason, size);
}

static void installed_library_fills_the_table(void)
{
    char reason[256];
    void *installed = dlopen(library.name, RTLD_NOW);

    CHECK(installed != NULL);
    CHECK_EQ(load(reason, sizeof(reason)), 0);
#define SAME(name) CHECK((void *)weft_ibv.name == dlsym(installed, #name));
    WEFT_IBV_FUNCTIONS(SAME)
#undef SAME
    dlclose(installed);
}

static void absent_function_is_named(void)
{
#define HIDE(name) check_hidden(#name);
    WEFT_IBV_FUNCTIONS(HIDE)
#undef HIDE
}

static void function_without_address_is_named(void)
{
    check_without_address("ibv_create_qp", "ibv_create_qp");
}

int main(void)
{
    library.load = load_verbs;
    library.name = "libibverbs.so.1";
    RUN(installed_library_fills_the_table);
    RUN(absent_library_is_named);
    RUN(absent_function_is_named);
    RUN(function_without_address_is_named);
    RUN(reason_fits_its_buffer);
    return test_summary();
}
