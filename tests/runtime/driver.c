/* Exercises the C API on the hand-written program, without Python: for sanitizers and for counting allocations.
 *
 *     driver run|fuzz|alloc PLAN WEIGHTS */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mi_runtime.h"

enum { CALLERS = 4, RUNS = 40, LARGEST = 8 * 256, STEPS = 6 };

static void *plan, *weights;
static size_t plan_bytes, weight_bytes;

static void die(const char *what, const mi_error *error) {
    fprintf(stderr, "%s: %s\n", what, error == NULL ? "" : error->text);
    exit(1);
}

static void *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        die(path, NULL);
    }
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = aligned_alloc(64, (*bytes + 64) / 64 * 64);
    if (data == NULL || fread(data, 1, *bytes, file) != *bytes) {
        die(path, NULL);
    }
    fclose(file);
    return data;
}

typedef struct {
    float x[LARGEST], rows[STEPS * LARGEST], tail[256], same[LARGEST];
    int64_t steps;
    unsigned char flag;
} tensors;

/* One run at a shape; checks every element of the results. */
static void run_once(mi_session *session, tensors *t, int64_t batch, int64_t width, int64_t steps, int threads) {
    int64_t n = batch * width;
    for (int64_t i = 0; i < n; i++) {
        t->x[i] = (float)(i % 17) - 8;
    }
    t->steps = steps;
    t->flag = steps % 2 == 0;
    mi_tensor inputs[3] = {{t->x, n * 4, 2, 0, {batch, width}}, {&t->steps, 8, 0, 0, {0}}, {&t->flag, 1, 0, 0, {0}}};
    mi_tensor outputs[3] = {{.data = t->rows, .bytes = sizeof t->rows}, {.data = t->tail, .bytes = sizeof t->tail},
                            {.data = t->same, .bytes = sizeof t->same}};
    mi_error error;
    mi_run_options options = {.threads = threads};
    if (mi_session_run(session, inputs, outputs, &options, &error) != MI_OK) {
        die("run", &error);
    }
    if (outputs[0].rank != 3 || outputs[0].shape[0] != steps || outputs[0].shape[2] != width) {
        die("wrong shape", NULL);
    }
    for (int64_t i = 0; i < n; i++) {
        float chosen = t->x[i] * 2 + t->flag;
        for (int64_t step = 0; step < steps; step++) {
            if (t->rows[step * n + i] != chosen * (float)(step + 1)) {
                die("wrong row", NULL);
            }
        }
        if (t->same[i] != t->x[i] || (i >= n - width && t->tail[i - (n - width)] != chosen)) {
            die("wrong output", NULL);
        }
    }
}

static mi_session *open_session(int threads, int arena) {
    mi_session *session;
    mi_error error;
    mi_session_config config = {plan, plan_bytes, weights, weight_bytes, threads, arena};
    if (mi_session_create(&session, &config, &error) != MI_OK) {
        die("create", &error);
    }
    return session;
}

static void *caller(void *session) {
    tensors *t = malloc(sizeof *t);
    for (int i = 0; i < RUNS; i++) {
        run_once(session, t, 1 + i % 8, 4 + i * 12 % 256, i % 7, 1 + i % 3);
    }
    free(t);
    return NULL;
}

static void run_in_parallel(void) {
    for (int arena = MI_ARENA_SHARED; arena <= MI_ARENA_POISON; arena++) {
        mi_session *sessions[2] = {open_session(3, arena), open_session(3, arena)};
        pthread_t threads[CALLERS];
        for (int i = 0; i < CALLERS; i++) {
            pthread_create(&threads[i], NULL, caller, sessions[i % 2]);
        }
        for (int i = 0; i < CALLERS; i++) {
            pthread_join(threads[i], NULL);
        }
        mi_session_destroy(sessions[0]);
        mi_session_destroy(sessions[1]);
    }
}

/* Damaged tables: bytes changed, and the end cut off. The copy has exactly its size, so that a sanitizer sees any
 * read beyond it. */
static void fuzz(void) {
    unsigned long state = 88172645463325252ul;
    int accepted = 0;
    for (int round = 0; round < 3000; round++) {
        unsigned char *bytes = malloc(plan_bytes);
        memcpy(bytes, plan, plan_bytes);
        for (int i = 0; i <= round % 4; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            bytes[state % plan_bytes] = (unsigned char)(round % 3 == 0 ? 0xFF : round % 3 == 1 ? state >> 32 : 0x80);
        }
        size_t size = round % 5 == 0 ? state % plan_bytes : plan_bytes;
        unsigned char *copy = malloc(size + 1);
        memcpy(copy, bytes, size);
        mi_error error;
        mi_session *session;
        mi_session_config config = {copy, size, weights, weight_bytes, 1, round % 3};
        mi_plan_check(copy, size, weight_bytes, &error);
        if (mi_session_create(&session, &config, &error) == MI_OK) {
            accepted++;                                 /* the change met a name, a range, a size that still fits */
            mi_session_destroy(session);
        } else if (memchr(error.text, 0, sizeof error.text) == NULL || error.text[0] == 0) {
            die("an error without text", NULL);
        }
        free(copy);
        free(bytes);
    }
    printf("accepted %d of 3000\n", accepted);
}

#ifdef COUNT_ALLOCATIONS
static _Atomic long allocations;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

void *malloc(size_t bytes) {
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    allocations++;
    return __libc_realloc(memory, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    allocations++;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument) {
    allocations++;
    return __real_pthread_create(thread, how, body, argument);
}

static void count(void) {
    static tensors t;
    mi_session *session = open_session(2, MI_ARENA_SHARED);
    if (allocations == 0) {
        die("the counters count nothing", NULL);
    }
    long before = allocations;
    for (int i = 0; i < 200; i++) {
        run_once(session, &t, 1 + i % 8, 4 + i * 12 % 256, i % 7, 1 + i % 2);
    }
    long made = allocations - before;               /* read before printf, which allocates its buffer */
    printf("allocations while running: %ld\n", made);
    if (made != 0) {
        exit(1);
    }
    mi_session_destroy(session);
}
#endif

int main(int argc, char **argv) {
    if (argc != 4) {
        die("usage: driver run|fuzz|alloc PLAN WEIGHTS", NULL);
    }
    plan = read_file(argv[2], &plan_bytes);
    weights = read_file(argv[3], &weight_bytes);
    if (strcmp(argv[1], "run") == 0) {
        run_in_parallel();
    } else if (strcmp(argv[1], "fuzz") == 0) {
        fuzz();
    }
#ifdef COUNT_ALLOCATIONS
    if (strcmp(argv[1], "alloc") == 0) {
        count();
    }
#endif
    free(plan);
    free(weights);
    return 0;
}
