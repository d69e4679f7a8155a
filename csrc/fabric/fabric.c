/* All of the fabric shim as one translation unit. */
#if defined(__has_include)
#if !__has_include(<rdma/fabric.h>)
#error "rdma/fabric.h is missing: install libfabric-dev (or libfabric-devel), or build with -tags nofabric"
#endif
#endif

/* In this order: a file uses what stands in those before it. */
#include "load.c"

#include "info.c"

#include "domain.c"

#include "av.c"
#include "cq.c"

#include "endpoint.c"

#include "cm.c"
#include "counter.c"
#include "eq.c"
#include "mr.c"
#include "option.c"
#include "scalable.c"

#include "post.c"

#include "atomic.c"
#include "template.c"
