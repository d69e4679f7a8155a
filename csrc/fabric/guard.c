/*
 * Calls that never return.
 *
 * shm takes spin locks in the memory of its peers, and lets them take its own. A process that is killed while it holds
 * one leaves it locked for ever, and whoever wants it spins. Such a call is broken off from outside: a signal to its
 * thread jumps back to where the call was made. What it was about to do is left as it is, so the domain takes no call
 * from then on. The signal is only ever sent to a call that has outlasted its bound, and is let go unheeded unless the
 * thread is found in the provider's code or in the lock itself: in libc it might have a lock of libc's, as malloc does.
 */
struct weft_fi_guard {
    uint64_t calls; /* begun and ended: odd while one is being made */
    pid_t thread;   /* that makes it */
    jmp_buf back;
};

/* A range of code. */
struct weft_fi_code {
    uintptr_t from, to;
};

struct weft_fi_guards {
    struct weft_fi_guard guards[WEFT_FI_GUARDS]; /* one for each call that may be under way at a time */
    struct weft_fi_code provider, lock;
    uint32_t broken; /* a call was broken off */
};

/* What is being broken off, of which there is one in a process. The signal has the address of this with it. */
static struct {
    pthread_mutex_t one;
    struct weft_fi_guards *guards;
    struct weft_fi_guard *guard;
    uint64_t call;
    struct sigaction before;
} weft_fi_break = {.one = PTHREAD_MUTEX_INITIALIZER};

static uintptr_t weft_fi_counter(const void *context)
{
    const ucontext_t *c = context;
#if defined(__x86_64__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)c->uc_mcontext.pc;
#else
    (void)c; /* nothing is broken off here */
    return 0;
#endif
}

static int weft_fi_within(struct weft_fi_code code, uintptr_t at)
{
    return at >= code.from && at < code.to;
}

/* Jumps out of the call, if it is the one that is meant and stands where that harms nobody. */
static void weft_fi_broken_off(int number, siginfo_t *info, void *context)
{
    if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &weft_fi_break) {
        const struct sigaction *before = &weft_fi_break.before;
        if ((before->sa_flags & SA_SIGINFO) != 0)
            before->sa_sigaction(number, info, context);
        else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
            before->sa_handler(number);
        return;
    }
    struct weft_fi_guards *guards = weft_fi_break.guards;
    struct weft_fi_guard *guard = weft_fi_break.guard;
    uintptr_t at = weft_fi_counter(context);
    /* A signal for a call that has ended may come as late as here, when the call that is to be broken off is another.
     */
    if (guard == NULL || guard->thread != (pid_t)syscall(SYS_gettid) ||
        __atomic_load_n(&guard->calls, __ATOMIC_RELAXED) != weft_fi_break.call ||
        (!weft_fi_within(guards->provider, at) && !weft_fi_within(guards->lock, at)))
        return;
    __atomic_store_n(&guards->broken, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&guard->calls, guard->calls + 1, __ATOMIC_RELEASE);
    sigset_t this; /* the jump would leave it blocked; those that wait find the call ended */
    sigemptyset(&this);
    sigaddset(&this, number);
    pthread_sigmask(SIG_UNBLOCK, &this, NULL);
    _longjmp(guard->back, 1);
}

/*
 * The last signal: Go uses none of these, and leaves one that it has a handler for alone.
 *
 * Signals that come while the thread has no processor wait, each of them. They are handled one after the other: handled
 * on top of one another, 20 of them take more than the 32 KiB that Go's threads have for signals (a frame is 3 KiB with
 * AVX-512, 11 KiB with AMX), and all but the first would find the thread in the handler and not in its call.
 */
static void weft_fi_take_signal(int number)
{
    struct sigaction now;
    struct sigaction ours = {.sa_sigaction = weft_fi_broken_off, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaction(number, NULL, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == weft_fi_broken_off)
        return;
    weft_fi_break.before = now;
    sigaction(number, &ours, NULL);
}

int weft_fi_guard_break(struct weft_fi_guards *guards, uint32_t which, uint64_t call)
{
    enum { TRIES = 20 };
    struct weft_fi_guard *guard = &guards->guards[which];
    siginfo_t info = {.si_code = SI_QUEUE, .si_value = {.sival_ptr = &weft_fi_break}};
    const struct timespec pause = {.tv_nsec = 1000000};
    int number = SIGRTMAX;

    pthread_mutex_lock(&weft_fi_break.one);
    weft_fi_break.guards = guards;
    weft_fi_break.call = call;
    __atomic_store_n(&weft_fi_break.guard, guard, __ATOMIC_RELEASE);
    weft_fi_take_signal(number);
    int ended = __atomic_load_n(&guard->calls, __ATOMIC_ACQUIRE) != call;
    for (int i = 0; i < TRIES && !ended; i++) {
        syscall(SYS_rt_tgsigqueueinfo, getpid(), guard->thread, number, &info);
        nanosleep(&pause, NULL);
        ended = __atomic_load_n(&guard->calls, __ATOMIC_ACQUIRE) != call;
    }
    __atomic_store_n(&weft_fi_break.guard, NULL, __ATOMIC_RELEASE); /* a signal that comes later finds nothing */
    pthread_mutex_unlock(&weft_fi_break.one);
    return ended;
}

/* Makes a call. Returns 0, or ENOTRECOVERABLE if it was broken off, or not made because another one was. */
static __attribute__((noinline)) int weft_fi_guarded(struct weft_fi_guards *guards, uint32_t which,
                                                     void (*call)(void *), void *arguments)
{
    static __thread pid_t self;
    struct weft_fi_guard *guard = &guards->guards[which];
    if (__atomic_load_n(&guards->broken, __ATOMIC_ACQUIRE) != 0)
        return ENOTRECOVERABLE;
    if (WEFT_RARELY(self == 0))
        self = (pid_t)syscall(SYS_gettid);
    guard->thread = self;
    if (_setjmp(guard->back) != 0)
        return ENOTRECOVERABLE;
    __atomic_store_n(&guard->calls, guard->calls + 1, __ATOMIC_RELEASE);
    call(arguments);
    __atomic_store_n(&guard->calls, guard->calls + 1, __ATOMIC_RELEASE);
    return 0;
}

/* The code that an address is in. */
struct weft_fi_code_at {
    uintptr_t address;
    struct weft_fi_code code;
};

static int weft_fi_code_look(struct dl_phdr_info *object, size_t size, void *out)
{
    struct weft_fi_code_at *found = out;
    (void)size;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        struct weft_fi_code code = {object->dlpi_addr + segment->p_vaddr, 0};
        code.to = code.from + segment->p_memsz;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0 && weft_fi_within(code, found->address)) {
            found->code = code;
            return 1;
        }
    }
    return 0;
}

/* Of a provider, by one of its functions. */
static struct weft_fi_guards *weft_fi_guards_new(const void *function)
{
    enum { LOCK = 64 }; /* bytes of pthread_spin_lock, at most; after it stand its siblings, which are as good */
    struct weft_fi_guards *guards = calloc(1, sizeof(*guards));
    if (guards == NULL)
        return NULL;
    struct weft_fi_code_at provider = {.address = (uintptr_t)function};
    dl_iterate_phdr(weft_fi_code_look, &provider);
    guards->provider = provider.code;
    uintptr_t lock = (uintptr_t)dlsym(RTLD_NEXT, "pthread_spin_lock"); /* libc's, not the way there */
    guards->lock = (struct weft_fi_code){lock, lock != 0 ? lock + LOCK : 0};
    return guards;
}

uint64_t *weft_fi_guard_calls(struct weft_fi_guards *guards, uint32_t which)
{
    return &guards->guards[which].calls;
}

int weft_fi_guard_broken(struct weft_fi_guards *guards)
{
    return __atomic_load_n(&guards->broken, __ATOMIC_ACQUIRE) != 0;
}
