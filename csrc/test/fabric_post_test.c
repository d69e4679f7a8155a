/* Which of a provider's calls an operation becomes, what a full queue does, and where contexts go. */
#include "fabric_fake.h"

static int post(uint32_t kind, uint64_t flags, uint32_t segs)
{
    struct weft_fi_op op = {
        .id = 77, .flags = flags, .peer = 3, .data = 9, .remote_addr = 0x1000, .remote_key = 0x55, .num_seg = segs};
    struct weft_fi_seg list[] = {seg(8, 4), seg(16, 4)};
    uint32_t accepted;
    return weft_fi_post((weft_fi_number)&ep, kind, &op, 1, list, segs, &accepted);
}

static void leanest_call_is_made(void)
{
    static const struct {
        uint32_t kind, segs;
        uint64_t flags;
        const char *call;
    } cases[] = {
        {WEFT_FI_SEND, 1, 0, "send"},
        {WEFT_FI_SEND, 0, 0, "send"},
        {WEFT_FI_SEND, 2, 0, "sendv"},
        {WEFT_FI_SEND, 1, FI_REMOTE_CQ_DATA, "senddata"},
        {WEFT_FI_SEND, 2, FI_REMOTE_CQ_DATA, "sendmsg"},
        {WEFT_FI_SEND, 1, FI_INJECT, "inject"},
        {WEFT_FI_SEND, 1, FI_INJECT | FI_REMOTE_CQ_DATA, "injectdata"},
        {WEFT_FI_SEND, 1, FI_INJECT | FI_COMPLETION, "sendmsg"},
        {WEFT_FI_RECV, 1, 0, "recv"},
        {WEFT_FI_RECV, 2, 0, "recvv"},
        {WEFT_FI_RECV, 1, FI_MULTI_RECV, "recvmsg"},
        {WEFT_FI_WRITE, 1, 0, "write"},
        {WEFT_FI_WRITE, 2, 0, "writev"},
        {WEFT_FI_WRITE, 1, FI_REMOTE_CQ_DATA, "writedata"},
        {WEFT_FI_WRITE, 2, FI_DELIVERY_COMPLETE, "writemsg"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(0);
        CHECK_EQ(post(cases[i].kind, cases[i].flags, cases[i].segs), 0);
        CHECK(fake.call != NULL && strcmp(fake.call, cases[i].call) == 0);
        CHECK_EQ(fake.addr, 3);
        if ((cases[i].flags & (FI_INJECT | FI_COMPLETION)) != FI_INJECT)
            CHECK_EQ((uintptr_t)fake.context, 77);
        if ((cases[i].flags & FI_REMOTE_CQ_DATA) != 0)
            CHECK_EQ(fake.data, 9);
        if (strstr(cases[i].call, "msg") != NULL)
            CHECK_EQ(fake.flags, cases[i].flags);
        if (cases[i].segs > 0) {
            CHECK(fake.buf == memory + 8);
            if (strncmp(cases[i].call, "inject", 6) != 0)
                CHECK(fake.desc == &memory);
        }
    }
}

static void write_names_all_its_bytes(void)
{
    begin(0);
    CHECK_EQ(post(WEFT_FI_WRITE, FI_DELIVERY_COMPLETE, 2), 0);
    CHECK_EQ(fake.len, 8);
    CHECK_EQ(fake.count, 2);
    CHECK_EQ(fake.remote, 0x1000);
    CHECK_EQ(fake.key, 0x55);
}

static int post_many(uint32_t n, uint32_t *accepted)
{
    struct weft_fi_op ops[8];
    struct weft_fi_seg list[8];
    for (uint32_t i = 0; i < n; i++) {
        ops[i] = (struct weft_fi_op){.id = i + 1, .peer = 3, .num_seg = 1};
        list[i] = seg(i, 1);
    }
    return weft_fi_post((weft_fi_number)&ep, WEFT_FI_SEND, ops, n, list, n, accepted);
}

static void full_queue_is_progressed_and_tried_once_more(void)
{
    uint32_t accepted;

    for (int takes = 0; takes < 8; takes++) { /* full at each place, and empty after both queues were read */
        begin(0);
        fake.takes = takes;
        fake.refusals = 1;
        CHECK_EQ(post_many(8, &accepted), 0);
        CHECK_EQ(accepted, 8);
        CHECK_EQ(fake.progressed, 2);
        CHECK_EQ(fake.counted, 2); /* and so were both counters, which may be all that an endpoint has */
    }
    for (int takes = 0; takes < 8; takes++) { /* full for good */
        begin(0);
        fake.takes = takes;
        fake.refusals = 1 << 20;
        CHECK_EQ(post_many(8, &accepted), EAGAIN);
        CHECK_EQ(accepted, (uint32_t)takes);
        CHECK_EQ(fake.posts, takes);
        CHECK_EQ(fake.progressed, 2);
    }
}

/* A check goes by the operation before: what is in another region, or to another peer, is looked up all the same. */
static void each_operation_is_checked_as_if_alone(void)
{
    enum { N = 100 };
    static uint8_t second[64];
    static uint32_t second_key;
    struct weft_fi_op ops[N];
    struct weft_fi_seg list[N];
    uint32_t accepted;

    begin(0);
    if (second_key == 0)
        CHECK_EQ(weft_fi_region_add(&domain, (uint64_t)(uintptr_t)second, sizeof(second), &second, &second_key), 0);
    CHECK_EQ(weft_fi_note(&av, 4, 1), 0);
    for (uint32_t i = 0; i < N; i++) {
        ops[i] = (struct weft_fi_op){
            .id = i + 1, .peer = 3 + i % 3 / 2, .num_seg = 1, .flags = FI_REMOTE_CQ_DATA, .data = i};
        list[i] = seg(i, 1);
        if (i % 5 == 0)
            list[i] =
                (struct weft_fi_seg){.addr = (uint64_t)(uintptr_t)second + i % 64, .length = 1, .lkey = second_key};
    }
    for (uint32_t n = 1; n <= N; n++) { /* the last of each is noted */
        begin(0);
        CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, ops, n, list, n, &accepted), 0);
        CHECK_EQ(accepted, n);
        CHECK_EQ(fake.posts, (int)n);
        CHECK_EQ(fake.addr, ops[n - 1].peer);
        CHECK_EQ(fake.data, n - 1);
        CHECK_EQ((uint64_t)(uintptr_t)fake.buf, list[n - 1].addr);
        CHECK(fake.desc == ((n - 1) % 5 == 0 ? (void *)&second : (void *)&memory));
    }

    static const struct {
        struct weft_fi_op op;
        uint64_t offset, length;
        int bad;
    } cases[] = {
        {{.peer = 3, .num_seg = 1, .flags = FI_MULTI_RECV}, 0, 1, WEFT_FI_BAD_FLAGS},
        {{.peer = 5, .num_seg = 1}, 0, 1, WEFT_FI_BAD_PEER},
        {{.peer = 3, .num_seg = 1}, 256, 1, WEFT_FI_BAD_BOUNDS},
        {{.peer = 3, .num_seg = 1}, (uint64_t)-1, 1, WEFT_FI_BAD_BOUNDS},
        {{.peer = 3, .num_seg = 1}, 8, UINT64_MAX, WEFT_FI_BAD_BOUNDS},
        {{.peer = 3, .num_seg = 1}, 0, 129, WEFT_FI_BAD_LENGTH},
        {{.peer = 3, .num_seg = 1, .flags = FI_INJECT}, 0, 17, WEFT_FI_BAD_INJECT},
        {{.peer = 3, .num_seg = 2}, 0, 1, WEFT_FI_BAD_SEG_LIST},
        {{.peer = 3, .num_seg = 0}, 0, 1, WEFT_FI_BAD_SEG_LIST}, /* one is left over */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct weft_fi_op bad[3] = {ops[1], ops[1], cases[i].op};
        struct weft_fi_seg its[3] = {list[1], list[1], seg(cases[i].offset, cases[i].length)};
        begin(0);
        CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, bad, 3, its, 3, &accepted), -cases[i].bad);
        CHECK_EQ(accepted, 2);
        CHECK_EQ(fake.posts, 0);
        CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, &bad[2], 1, &its[2], 1, &accepted), -cases[i].bad);
        CHECK_EQ(accepted, 0);
        CHECK_EQ(fake.posts, 0);
    }
    struct weft_fi_op one = {.peer = 3, .num_seg = 1};
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, &one, 1, list, 2, &accepted), -WEFT_FI_BAD_SEG_LIST);
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, &one, 1, list, 0, &accepted), -WEFT_FI_BAD_SEG_LIST);
    struct weft_fi_op same[4] = {ops[1], ops[1], ops[1], ops[1]};
    struct weft_fi_seg its[4] = {list[1], list[1], list[1], list[1]};
    begin(0); /* a list that ends early */
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, same, 4, its, 2, &accepted), -WEFT_FI_BAD_SEG_LIST);
    CHECK_EQ(accepted, 2);
    its[3].lkey += 1u << WEFT_FI_INDEX_BITS; /* the key of a region that is closed, of the same memory */
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, same, 4, its, 4, &accepted), -WEFT_FI_BAD_LKEY);
    CHECK_EQ(accepted, 3);
    same[2].num_seg = 2; /* its second segment */
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, same, 3, its, 4, &accepted), -WEFT_FI_BAD_LKEY);
    CHECK_EQ(accepted, 2);
    weft_fi_note(&av, 4, 0);
    begin(0); /* a peer that is gone since */
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_WRITE, ops, 4, list, 4, &accepted), -WEFT_FI_BAD_PEER);
    CHECK_EQ(accepted, 2);
}

/* An endpoint without an address vector is connected, or receives for several. */
static void receive_for_several_endpoints_is_from_anyone(void)
{
    struct weft_fi_op op = {.id = 1, .peer = 7, .num_seg = 1};
    struct weft_fi_seg its = seg(0, 1);
    uint32_t accepted;

    begin(0);
    ep.av = NULL;
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_RECV, &op, 1, &its, 1, &accepted), 0);
    ep.anyone = 1;
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_RECV, &op, 1, &its, 1, &accepted), -WEFT_FI_BAD_PEER);
    op.peer = FI_ADDR_UNSPEC;
    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, WEFT_FI_RECV, &op, 1, &its, 1, &accepted), 0);
    CHECK_EQ(fake.posts, 2);
}

static void queue_of_both_directions_is_read_once(void)
{
    uint32_t accepted;

    begin(0);
    ep.cqs[WEFT_FI_RECVS] = &tx;
    fake.takes = 0;
    fake.refusals = 1;
    CHECK_EQ(post_many(1, &accepted), 0);
    CHECK_EQ(fake.progressed, 1);
}

static struct weft_fi_post_polled post_poll(uint32_t kind, uint32_t n, uint32_t spin_ns)
{
    struct weft_fi_op ops[4];
    struct weft_fi_seg list[4];
    struct weft_fi_completion out[4];
    struct weft_fi_post_polled done;
    for (uint32_t i = 0; i < 4; i++) {
        ops[i] = (struct weft_fi_op){.id = i + 1, .peer = 3, .num_seg = 1};
        list[i] = seg(i, 1);
    }
    weft_fi_post_poll((weft_fi_number)&ep, kind, ops, n, list, n, out, 4, spin_ns, &done);
    return done;
}

static void post_is_followed_by_a_poll_of_its_queue(void)
{
    begin(0);
    CHECK_EQ(post_poll(WEFT_FI_SEND, 4, 0).accepted, 4);
    CHECK_EQ(fake.posts, 4);
    CHECK_EQ(fake.polled, 1);
    CHECK_EQ(post_poll(WEFT_FI_SEND, 0, 0).accepted, 0);
    CHECK_EQ(fake.polled, 2);
    CHECK_EQ(post_poll(WEFT_FI_SEND, 1, 100000).accepted, 1);
    CHECK(fake.polled > 4); /* it spun */

    begin(0); /* a queue that is full is polled, and not spun on */
    fake.takes = 1;
    fake.refusals = 1 << 20;
    struct weft_fi_post_polled done = post_poll(WEFT_FI_SEND, 4, 10000);
    CHECK_EQ(done.result, EAGAIN);
    CHECK_EQ(done.accepted, 1);
    CHECK_EQ(fake.polled, 1);

    begin(0); /* nothing is polled where nothing was posted */
    done = post_poll(WEFT_FI_TSEND, 1, 0);
    CHECK_EQ(done.result, -WEFT_FI_BAD_KIND);
    CHECK_EQ(fake.polled, 0);

    begin(0); /* nor posted where nothing can be polled */
    ep.cqs[WEFT_FI_RECVS] = NULL;
    CHECK_EQ(post_poll(WEFT_FI_SEND, 1, 0).result, 0);
    done = post_poll(WEFT_FI_RECV, 1, 0);
    CHECK_EQ(done.result, -WEFT_FI_BAD_QUEUE);
    CHECK_EQ(fake.posts, 1);
}

static uint64_t more(uint32_t i)
{
    return i < 8 ? FI_MORE : 0;
}

/* Posts n sends that all say that more follows; where, *accepted counts. */
static int post_more(uint32_t n, uint32_t *accepted)
{
    struct weft_fi_op ops[8];
    struct weft_fi_seg list[8];
    for (uint32_t i = 0; i < n; i++) {
        ops[i] = (struct weft_fi_op){.id = i + 1, .peer = 3, .num_seg = 1, .flags = more(i)};
        list[i] = seg(i, 1);
    }
    return weft_fi_post((weft_fi_number)&ep, WEFT_FI_SEND, ops, n, list, n, accepted);
}

/* A provider may keep what comes with FI_MORE until something comes without: that is in the same post, taken or not. */
static void doorbell_rings_after_what_was_accepted(void)
{
    uint32_t accepted;

    for (uint32_t n = 1; n <= 8; n++) {
        begin(0);
        CHECK_EQ(post_more(n, &accepted), 0);
        CHECK_EQ(accepted, n);
        CHECK_EQ(fake.mores, n - 1);
        CHECK_EQ(fake.unrung, 0);
    }
    static const int errors[] = {0, -FI_ENOMEM};
    for (int e = 0; e < 2; e++) {
        for (int takes = 0; takes < 8; takes++) { /* refused from here on */
            begin(0);
            fake.takes = takes;
            fake.refusals = 1 << 20;
            fake.rc = errors[e];
            CHECK_EQ(post_more(8, &accepted), e == 0 ? EAGAIN : FI_ENOMEM);
            CHECK_EQ(accepted, (uint32_t)takes);
            CHECK_EQ(fake.mores, takes);
            CHECK_EQ(fake.unrung, 0);
        }
    }

    begin(FI_CONTEXT); /* the next operation finds no memory for its slot, and never comes to the provider */
    CHECK_EQ(post_more(1, &accepted), 0);
    struct weft_fi_slot *first = fake.context;
    struct weft_fi_slot *free_ones = domain.slots;
    struct weft_fi_slot *rest = free_ones->next;
    free_ones->next = NULL; /* one is left */
    fake.refuse = "calloc";
    CHECK_EQ(post_more(4, &accepted), ENOMEM);
    CHECK_EQ(accepted, 1);
    CHECK_EQ(fake.unrung, 0);
    fake.refuse = NULL;
    domain.slots = rest;
    weft_fi_slot_give(&domain, fake.context);
    weft_fi_slot_give(&domain, first);
}

static void doorbell_rings_after_a_template(void)
{
    struct weft_fi_template *t;
    struct weft_fi_ep other;
    uint32_t accepted;

    begin(0);
    other = ep;
    CHECK_EQ(weft_fi_template_create(4, &t), 0);
    for (int i = 0; i < 4; i++) {
        struct weft_fi_op op = {.id = 1, .peer = 3, .flags = FI_MORE};
        CHECK_EQ(weft_fi_template_add(t, i < 2 ? &ep : &other, WEFT_FI_SEND, &op, lkey), 0);
    }
    struct weft_fi_patch patches[4];
    for (uint32_t i = 0; i < 4; i++)
        patches[i] = (struct weft_fi_patch){.addr = (uint64_t)(uintptr_t)memory, .length = 1, .index = i};
    for (uint32_t n = 1; n <= 4; n++) { /* the last of each endpoint rings */
        begin(0);
        CHECK_EQ(weft_fi_template_post((weft_fi_number)t, patches, n, &accepted), 0);
        CHECK_EQ(accepted, n);
        CHECK_EQ(fake.mores, n <= 2 ? n - 1 : n - 2);
        CHECK_EQ(fake.unrung, 0);
    }
    weft_fi_template_free(t);
}

/* With FI_MR_LOCAL a provider finds memory by its descriptor: each form of each call has that of each segment. */
static void every_form_has_the_descriptors_of_its_memory(void)
{
    enum { N = 70 }; /* more than a post keeps from its check */
    static const uint64_t forms[] = {0, FI_REMOTE_CQ_DATA, FI_DELIVERY_COMPLETE, FI_COMPLETION};
    struct weft_fi_op ops[N];
    struct weft_fi_seg list[2 * N];
    uint32_t accepted;

    for (uint32_t kind = WEFT_FI_SEND; kind <= WEFT_FI_READ; kind++) {
        const struct weft_fi_rule *rule = &weft_fi_rules[kind];
        for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
            if ((forms[f] & ~rule->flags) != 0)
                continue;
            for (uint32_t segs = 1; segs <= 2; segs++) {
                for (uint32_t n = 1; n <= N; n += N - 1) {
                    begin(0);
                    ep.kinds = UINT32_MAX;
                    for (uint32_t i = 0; i < n; i++) {
                        ops[i] = (struct weft_fi_op){.id = 1, .peer = 3, .num_seg = segs, .flags = forms[f]};
                        list[segs * i] = seg(8, 1);
                        list[segs * i + segs - 1] = seg(9, 1);
                    }
                    CHECK_EQ(weft_fi_post((weft_fi_number)&ep, kind, ops, n, list, segs * n, &accepted), 0);
                    CHECK_EQ(fake.described, segs * n);
                }
            }
        }
    }
}

static void other_errors_stop_the_batch(void)
{
    uint32_t accepted;

    begin(0);
    fake.takes = 3;
    fake.refusals = 1 << 20;
    fake.rc = -FI_ENOMEM;
    CHECK_EQ(post_many(8, &accepted), FI_ENOMEM);
    CHECK_EQ(accepted, 3);
    CHECK_EQ(fake.progressed, 0);
}

/* With FI_CONTEXT the provider is given memory of its own, until the completion. */
static void context_is_a_slot(void)
{
    uint64_t id;

    begin(FI_CONTEXT2);
    CHECK_EQ(post(WEFT_FI_SEND, 0, 1), 0);
    CHECK_EQ(slots_in_use(), 1);
    struct weft_fi_slot *slot = fake.context;
    CHECK_EQ(slot->id, 77);
    memset(&slot->context, 0xff, sizeof(slot->context)); /* the provider's notes */
    CHECK_EQ(weft_fi_identify(&tx, slot, FI_SEND | FI_MSG, 0, &id), 1);
    CHECK_EQ(id, 77);
    CHECK_EQ(slots_in_use(), 0);
}

static void slot_is_had_back_where_the_post_fails(void)
{
    begin(FI_CONTEXT);
    fake.takes = 0;
    fake.refusals = 2;
    CHECK_EQ(post(WEFT_FI_SEND, 0, 1), EAGAIN);
    CHECK_EQ(slots_in_use(), 0);
    CHECK_EQ(post(WEFT_FI_SEND, FI_INJECT, 1), 0); /* has none */
    CHECK_EQ(slots_in_use(), 0);
}

/* A completion that nobody asked for brings the slot back, and is not shown. */
static void selective_operation_completes_hidden(void)
{
    uint64_t id;

    begin(FI_CONTEXT);
    ep.selective = 1u << WEFT_FI_TX;
    CHECK_EQ(post(WEFT_FI_SEND, 0, 1), 0);
    CHECK(strcmp(fake.call, "sendmsg") == 0);
    CHECK_EQ(fake.flags, FI_COMPLETION);
    CHECK_EQ(weft_fi_identify(&tx, fake.context, FI_SEND | FI_MSG, 0, &id), 0);
    CHECK_EQ(slots_in_use(), 0);
    CHECK_EQ(post(WEFT_FI_SEND, FI_COMPLETION, 1), 0);
    CHECK_EQ(weft_fi_identify(&tx, fake.context, FI_SEND | FI_MSG, 0, &id), 1);
    CHECK_EQ(post(WEFT_FI_SEND, 0, 1), 0); /* one that failed is shown */
    CHECK_EQ(weft_fi_identify(&tx, fake.context, FI_SEND | FI_MSG, 1, &id), 1);
    CHECK_EQ(slots_in_use(), 0);
}

static void slot_of_a_multi_receive_stays_until_the_last(void)
{
    uint64_t id;

    begin(FI_CONTEXT);
    CHECK_EQ(post(WEFT_FI_RECV, FI_MULTI_RECV, 1), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_fi_identify(&rx, fake.context, FI_RECV | FI_MSG, 0, &id), 1);
        CHECK_EQ(id, 77);
        CHECK_EQ(slots_in_use(), 1);
    }
    CHECK_EQ(weft_fi_identify(&rx, fake.context, FI_RECV | FI_MSG | FI_MULTI_RECV, 0, &id), 1);
    CHECK_EQ(slots_in_use(), 0);
}

static void what_a_peer_did_has_no_context(void)
{
    uint64_t id = 1;

    begin(FI_CONTEXT);
    CHECK_EQ(weft_fi_identify(&rx, (void *)0xdead, FI_REMOTE_WRITE | FI_RMA, 0, &id), 1);
    CHECK_EQ(id, 0);
    begin(FI_CONTEXT | FI_RX_CQ_DATA); /* it took a receive */
    CHECK_EQ(post(WEFT_FI_RECV, 0, 1), 0);
    CHECK_EQ(weft_fi_identify(&rx, fake.context, FI_REMOTE_WRITE | FI_RMA, 0, &id), 1);
    CHECK_EQ(id, 77);
    CHECK_EQ(slots_in_use(), 0);
}

static void no_memory_for_a_slot_is_an_error(void)
{
    begin(FI_CONTEXT);
    struct weft_fi_slot *free_ones = domain.slots;
    domain.slots = NULL;
    fake.refuse = "calloc";
    CHECK_EQ(post(WEFT_FI_SEND, 0, 1), ENOMEM);
    CHECK_EQ(fake.posts, 0);
    domain.slots = free_ones;
}

int main(void)
{
    RUN(leanest_call_is_made);
    RUN(write_names_all_its_bytes);
    RUN(full_queue_is_progressed_and_tried_once_more);
    RUN(each_operation_is_checked_as_if_alone);
    RUN(receive_for_several_endpoints_is_from_anyone);
    RUN(queue_of_both_directions_is_read_once);
    RUN(post_is_followed_by_a_poll_of_its_queue);
    RUN(doorbell_rings_after_what_was_accepted);
    RUN(doorbell_rings_after_a_template);
    RUN(every_form_has_the_descriptors_of_its_memory);
    RUN(other_errors_stop_the_batch);
    RUN(context_is_a_slot);
    RUN(slot_is_had_back_where_the_post_fails);
    RUN(selective_operation_completes_hidden);
    RUN(slot_of_a_multi_receive_stays_until_the_last);
    RUN(what_a_peer_did_has_no_context);
    RUN(no_memory_for_a_slot_is_an_error);
    end();
    return test_summary();
}
