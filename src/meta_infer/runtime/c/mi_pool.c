/* The thread pool.
 *
 * A job is published in a slot; idle workers enter it, claim batches of chunks from an atomic counter, and leave.
 * The caller works like any other and never waits for a worker to begin, only for those inside to finish the batch
 * they have. Chunk boundaries come from the kernel, so results do not depend on who computes what.
 *
 * `gate` of a slot is the whole protocol: bit 63 is set while the job may be entered, bit t while thread t is
 * inside (the caller is thread 0 and needs no bit). A slot is reused only when its gate is 0, so whoever enters by
 * compare-and-swap reads the fields of the job that is there now. */
#include "mi_pool.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "mi_lock.h"
#include "mi_os.h"

#define SLOTS 16
#define OPEN (UINT64_C(1) << 63)
#define SPIN 3000               /* pauses; some 50 us: longer than the gap between two kernels of a run */
#define SPIN_CROWDED 50         /* when there are more threads than processors, spinning takes time from work */
#define YIELD_EVERY 64
#define BATCHES_PER_THREAD 16   /* batches small enough that the last one out costs little */

typedef struct {
    _Alignas(64) _Atomic uint64_t gate;
    _Atomic uint32_t taken;         /* some caller owns the slot */
    _Atomic uint32_t done;          /* counts departures that emptied a closed gate; the caller sleeps on it */
    _Atomic uint32_t sleeping;
    _Alignas(64) _Atomic int64_t next;
    _Atomic int64_t chunks;
    int64_t batch;
    int32_t threads;
    void (*body)(void *, int64_t, int64_t, int32_t);
    void *context;
} slot;

static struct {
    slot slots[SLOTS];
    _Alignas(64) _Atomic uint32_t epoch;    /* rises with every job; idle workers sleep on it */
    _Atomic int32_t sleepers;
    _Alignas(64) _Atomic int32_t workers;
    _Atomic uint32_t process;
    _Atomic int32_t spin;
    mi_lock growing;
} pool = {.growing = MI_LOCK_FREE};

/* One step of a spin. Now and then it offers the core: on a busy machine the thread waited for may need this one. */
static void relax(int32_t step) {
    if (step % YIELD_EVERY == 0) {
        mi_os_yield();
    } else {
        mi_os_relax();
    }
}

static void work(slot *s, int32_t thread) {
    int64_t chunks = atomic_load_explicit(&s->chunks, memory_order_relaxed), batch = s->batch;
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&s->next, batch, memory_order_relaxed);
        if (begin >= chunks) {
            return;
        }
        s->body(s->context, begin, chunks - begin < batch ? chunks : begin + batch, thread);
    }
}

/* The thread number a newcomer may take, or 0 when the slot has nothing for it. */
static int32_t vacancy(slot *s, uint64_t gate) {
    if (!(gate & OPEN) || atomic_load_explicit(&s->next, memory_order_relaxed)
                              >= atomic_load_explicit(&s->chunks, memory_order_relaxed)) {
        return 0;
    }
    return (int32_t)__builtin_ctzll(~(gate | 1));
}

static bool join(slot *s) {
    uint64_t gate = atomic_load(&s->gate);
    int32_t thread = vacancy(s, gate);
    if (thread == 0 || thread > MI_MAX_THREADS - 1) {
        return false;
    }
    uint64_t bit = UINT64_C(1) << thread;
    if (!atomic_compare_exchange_strong(&s->gate, &gate, gate | bit)) {
        return true;                        /* the slot changed under us: look again */
    }
    bool worked = thread < s->threads;
    if (worked) {
        work(s, thread);
    }
    gate = atomic_fetch_and(&s->gate, ~bit) & ~bit;
    if (gate == 0) {                        /* closed, and we were the last inside */
        atomic_fetch_add(&s->done, 1);
        if (atomic_load(&s->sleeping)) {
            mi_os_wake(&s->done, 1);
        }
    }
    return worked;
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        uint32_t seen = atomic_load(&pool.epoch);
        bool worked = false;
        for (int i = 0; i < SLOTS; i++) {
            worked |= join(&pool.slots[i]);
        }
        if (worked) {
            continue;
        }
        int32_t spin = atomic_load_explicit(&pool.spin, memory_order_relaxed);
        while (spin-- > 0 && atomic_load_explicit(&pool.epoch, memory_order_relaxed) == seen) {
            relax(spin);
        }
        if (atomic_load(&pool.epoch) != seen) {
            continue;
        }
        /* Pairs with publish(): it raises the epoch, then reads sleepers; we raise sleepers, then the system
         * compares the epoch. One of the two sees the other. */
        atomic_fetch_add(&pool.sleepers, 1);
        mi_os_wait(&pool.epoch, seen);
        atomic_fetch_sub(&pool.sleepers, 1);
    }
    return NULL;
}

/* In a forked child no worker exists and no job runs, whatever the memory copied from the parent says. */
static void reset(uint32_t self) {
    for (int i = 0; i < SLOTS; i++) {
        atomic_store(&pool.slots[i].gate, 0);
        atomic_store(&pool.slots[i].sleeping, 0);
        atomic_store(&pool.slots[i].taken, 0);
    }
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.workers, 0);
    atomic_store(&pool.process, self);
}

static int32_t reserve(int32_t threads) {
    uint32_t self = mi_os_process();
    int32_t wanted = (threads < MI_MAX_THREADS ? threads : MI_MAX_THREADS) - 1;
    if (atomic_load(&pool.process) == self && atomic_load(&pool.workers) >= wanted) {
        return atomic_load(&pool.workers);
    }
    mi_lock_take(&pool.growing);
    if (atomic_load(&pool.process) != self) {
        reset(self);
    }
    int32_t workers = atomic_load(&pool.workers);
    while (workers < wanted && mi_os_thread_start(worker, NULL) == 0) {
        workers++;                          /* a refusal leaves fewer workers: slower, never wrong */
    }
    atomic_store(&pool.spin, workers < mi_os_cpu_count() ? SPIN : SPIN_CROWDED);
    atomic_store(&pool.workers, workers);
    mi_lock_drop(&pool.growing);
    return workers;
}

static slot *take_slot(void) {
    for (int i = 0; i < SLOTS; i++) {
        uint32_t freed = 0;
        if (atomic_load_explicit(&pool.slots[i].taken, memory_order_relaxed) == 0
            && atomic_compare_exchange_strong(&pool.slots[i].taken, &freed, 1)) {
            return &pool.slots[i];
        }
    }
    return NULL;
}

static void publish(slot *s, const mi_job *job) {
    int64_t batch = job->chunks / ((int64_t)job->threads * BATCHES_PER_THREAD);
    s->batch = batch > 0 ? batch : 1;
    s->threads = job->threads;
    s->body = job->body;
    s->context = job->context;
    atomic_store_explicit(&s->chunks, job->chunks, memory_order_relaxed);
    atomic_store_explicit(&s->next, 0, memory_order_relaxed);
    atomic_store(&s->gate, OPEN);
    atomic_fetch_add(&pool.epoch, 1);
    int32_t sleepers = atomic_load(&pool.sleepers), helpers = job->threads - 1;
    if (sleepers > 0) {
        mi_os_wake(&pool.epoch, helpers < sleepers ? helpers : sleepers);
    }
}

static void wait_for_others(slot *s) {
    int32_t spin = atomic_load_explicit(&pool.spin, memory_order_relaxed);
    while (atomic_load(&s->gate) != 0) {
        if (spin-- > 0) {
            relax(spin);
            continue;
        }
        uint32_t seen = atomic_load(&s->done);
        atomic_store(&s->sleeping, 1);
        if (atomic_load(&s->gate) != 0) {
            mi_os_wait(&s->done, seen);
        }
        atomic_store(&s->sleeping, 0);
    }
}

static void run(const mi_job *job) {
    slot *s = job->threads > 1 && job->chunks > 1 && atomic_load_explicit(&pool.workers, memory_order_relaxed) > 0
                  ? take_slot() : NULL;
    if (s == NULL) {
        if (job->chunks > 0) {
            job->body(job->context, 0, job->chunks, 0);
        }
        return;
    }
    publish(s, job);
    work(s, 0);
    atomic_fetch_and(&s->gate, ~OPEN);
    wait_for_others(s);
    atomic_store(&s->taken, 0);
}

static const mi_pool_api own = {MI_POOL_VERSION, sizeof(mi_pool_api), reserve, run};
static const mi_pool_api *_Atomic used = &own;

const mi_pool_api *mi_pool(void) {
    return &own;
}

int32_t mi_use_pool(const mi_pool_api *other) {
    if (other == NULL || other->version != MI_POOL_VERSION || other->bytes < sizeof(mi_pool_api)) {
        return MI_BAD_ARGUMENT;
    }
    atomic_store(&used, other);
    return MI_OK;
}

int32_t mi_pool_reserve(int32_t threads) {
    return atomic_load(&used)->reserve(threads);
}

void mi_pool_run(const mi_job *job) {
    atomic_load(&used)->run(job);
}
