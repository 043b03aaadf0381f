/* Times kernels for the search. Not part of packages.
 *
 * A sequence of launches is run again and again. A buffer with a stride lies somewhere else in each run, as weights
 * do that have left the cache since the last inference; one without is the same memory every time. */
#include "mi_kernel.h"
#include "mi_os.h"
#include "mi_pool.h"

#define MOST_ARGS 64

typedef struct {
    const mi_kernel *kernel;
    const int64_t *dims;
    unsigned char *const *bases;    /* addresses of the arguments in the first copy */
    const int64_t *strides;         /* bytes from one copy to the next, 0 where there is only one */
    int64_t args;
} launch;

typedef struct {
    const mi_kernel *kernel;
    void *const *args;
    const int64_t *dims;
    unsigned char *scratch;
    int64_t stride;
} call_context;

static void call_chunks(void *context, int64_t begin, int64_t end, int32_t thread) {
    const call_context *c = context;
    c->kernel->run(c->args, c->dims, begin, end, c->scratch + thread * c->stride);
}

static void run_once(const launch *l, int64_t copy, int32_t threads, unsigned char *scratch, int64_t stride) {
    void *args[MOST_ARGS];
    for (int64_t i = 0; i < l->args; i++) {
        args[i] = l->bases[i] + copy * l->strides[i];
    }
    int64_t chunks = l->kernel->chunks(l->dims);
    if (threads == 1 || chunks <= 1) {
        l->kernel->run(args, l->dims, 0, chunks, scratch);
        return;
    }
    call_context context = {l->kernel, args, l->dims, scratch, stride};
    mi_pool_run(&(mi_job){call_chunks, &context, chunks, threads});
}

/* Nanoseconds of `repeats` runs of all launches, the first on copy `first` of `copies`; -1 for a wrong argument.
 * `scratch` holds `stride` bytes for each of `threads`. */
MI_API int64_t mi_measure(const launch *launches, int64_t count, int64_t copies, int64_t first, int64_t repeats,
                          int32_t threads, unsigned char *scratch, int64_t stride) {
    for (int64_t i = 0; i < count; i++) {
        if (launches[i].args < 0 || launches[i].args > MOST_ARGS) {
            return -1;
        }
    }
    if (copies < 1 || threads < 1 || threads > MI_MAX_THREADS) {
        return -1;
    }
    mi_pool_reserve(threads);
    int64_t start = mi_os_now();
    for (int64_t r = 0; r < repeats; r++) {
        for (int64_t i = 0; i < count; i++) {
            run_once(&launches[i], (first + r) % copies, threads, scratch, stride);
        }
    }
    return mi_os_now() - start;
}
