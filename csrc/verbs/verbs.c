/* All of the verbs shim as one translation unit. */
#if defined(__has_include)
#if !__has_include(<infiniband/verbs.h>)
#error "infiniband/verbs.h is missing: install libibverbs-dev (or rdma-core-devel), or build with -tags noverbs"
#endif
#endif

/* In this order: load.c takes over the names of the library's functions for the others. */
#include "load.c"

#include "device.c"
#include "memory.c"
#include "queue.c"

#include "ah.c"

#include "builder.c"
#include "event.c"
#include "fail.c"
#include "post.c"
#include "qp.c"
#include "srq.c"
#include "template.c"
#include "wrap.c"
