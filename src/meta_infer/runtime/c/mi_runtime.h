/* The C API of a meta-infer package: what an application without Python includes.
 *
 *     mi_session_config config = {.plan = ..., .plan_bytes = ..., .constants = ..., .threads = 2};
 *     mi_session *session;
 *     mi_error error;
 *     if (mi_session_create(&session, &config, &error) != MI_OK) puts(error.text);
 *     mi_session_run(session, inputs, outputs, NULL, &error);
 *
 * Every function that can fail returns a code of `mi_status` and, when `error` is not NULL, fills it. */
#ifndef MI_RUNTIME_H
#define MI_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define MI_API_VERSION 1
#define MI_MAX_RANK 16
#define MI_MAX_THREADS 63

#if defined(__GNUC__)
#define MI_API __attribute__((visibility("default")))
#else
#define MI_API
#endif

typedef enum {
    MI_OK = 0,
    MI_BAD_PLAN = 1,        /* the command table is damaged, or belongs to other code */
    MI_BAD_ARGUMENT = 2,    /* a null pointer, a count out of range */
    MI_BAD_INPUT = 3,       /* an input's rank, dimension or size */
    MI_NO_MEMORY = 4,
    MI_OUT_OF_RANGE = 5     /* a dimension computed while running leaves its range */
} mi_status;

typedef struct {
    int32_t code;
    char text[508];         /* always terminated */
} mi_error;

typedef struct mi_session mi_session;

/* One tensor in the caller's memory, dense and row-major. `bytes` is what `data` can hold. For an output the
 * runtime fills `rank` and `shape`. `data` needs the alignment of its element type. */
typedef struct {
    void *data;
    int64_t bytes;
    int32_t rank;
    int32_t reserved;
    int64_t shape[MI_MAX_RANK];
} mi_tensor;

typedef enum {
    MI_ARENA_SHARED = 0,    /* one arena, the default */
    MI_ARENA_SEPARATE = 1,  /* every buffer in its own mapping between unreadable pages: overruns fault */
    MI_ARENA_POISON = 2     /* one arena; memory whose value is dead is filled with 0xFF, a NaN */
} mi_arena_mode;

typedef struct {
    const void *plan;       /* the command table; copied */
    size_t plan_bytes;
    const void *constants;  /* the weights, 64-byte aligned; must outlive the session */
    size_t constant_bytes;
    int32_t threads;        /* most threads a run may use, 1..MI_MAX_THREADS; 0 means one per processor */
    int32_t arena;          /* mi_arena_mode */
    int32_t touch;          /* not 0: touch arena, scratch and constants now, so that no run meets a page fault */
    int32_t reserved;
} mi_session_config;

/* Copy of one buffer right after a command, the last one where a loop repeats it. With `data` NULL only `bytes` is
 * filled, with the size there. */
typedef struct {
    int32_t command;        /* index in the command table */
    int32_t buffer;
    void *data;
    int64_t bytes;          /* what data holds, and no more is written there; without data, out: what the buffer took,
                               as it was when the command never ran */
} mi_watch;

typedef struct {
    int32_t threads;        /* 0: those of the session */
    int32_t watch_count;
    int64_t *command_ns;    /* NULL, or one counter per command to which its nanoseconds are added */
    mi_watch *watches;
    int64_t *symbols;       /* NULL, or takes the symbols' values at the end of the run */
} mi_run_options;

/* What the plan holds, for callers that size arrays by it. */
typedef struct {
    int32_t inputs, outputs, symbols, dims, buffers, commands, kernels, threads;
    int64_t arena_bytes, scratch_bytes, constant_bytes, prepared_bytes;
} mi_session_info;

MI_API int32_t mi_api_version(void);

/* Check a command table without running anything. */
MI_API int32_t mi_plan_check(const void *plan, size_t plan_bytes, size_t constant_bytes, mi_error *error);

MI_API int32_t mi_session_create(mi_session **session, const mi_session_config *config, mi_error *error);
MI_API void mi_session_destroy(mi_session *session);
MI_API int32_t mi_session_describe(const mi_session *session, mi_session_info *info);

/* Check the inputs' shapes and fill rank, shape and bytes of every output. An output whose size only running can
 * tell gets its largest shape that the inputs allow and, in `bytes`, its upper bound; one without a useful bound gets -1
 * there: it is not written to the caller's memory but lies in the session's. Data is not touched. */
MI_API int32_t mi_session_shapes(mi_session *session, const mi_tensor *inputs, mi_tensor *outputs, mi_error *error);

/* Run once. Several threads may call this on one session; they take turns. Allocates nothing, but for tensors that are
 * sized while running, and for those only until a run of their sizes has been. For an output of -1 bytes (see above)
 * `data`, `bytes` and `shape` are set to memory of the session that stays as it is until its next run. */
MI_API int32_t mi_session_run(mi_session *session, const mi_tensor *inputs, mi_tensor *outputs,
                              const mi_run_options *options, mi_error *error);

/* Memory mappings this copy of the runtime has ever asked the system for. */
MI_API int64_t mi_allocations(void);

/* --- one thread pool for all packages of a process --- */

#define MI_POOL_VERSION 1

typedef struct {
    void (*body)(void *context, int64_t begin, int64_t end, int32_t thread);
    void *context;
    int64_t chunks;
    int32_t threads;        /* most that may work on it, the caller included; `thread` is below this */
} mi_job;

typedef struct {
    uint32_t version;       /* MI_POOL_VERSION */
    uint32_t bytes;         /* sizeof(mi_pool_api): later versions only append */
    int32_t (*reserve)(int32_t threads);    /* see to it that `threads - 1` workers exist; returns how many do */
    void (*run)(const mi_job *job);         /* returns when every chunk is done */
} mi_pool_api;

/* The pool of this copy of the runtime. Its shared object must stay loaded once the pool was used. */
MI_API const mi_pool_api *mi_pool(void);

/* From now on use `pool`, another copy's. Call before the first session. MI_BAD_ARGUMENT for a wrong version. */
MI_API int32_t mi_use_pool(const mi_pool_api *pool);

#endif
