/* Runs a whole package without Python, for the sanitizers: every arena mode, one thread and several, two runs each, on
 * the same inputs. All outputs must be the same bytes; the first are written to OUTPUTS.
 *
 *     driver PLAN WEIGHTS INPUTS OUTPUTS THREADS
 *
 * INPUTS holds for each tensor int64 bytes, int64 rank, int64 shape[rank], and the elements; OUTPUTS the same. Every
 * tensor and the weights lie in memory of exactly their size, so that a sanitizer sees the first byte beyond. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mi_runtime.h"

enum { MOST = 64 };

static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void *exactly(int64_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes > 0 ? (size_t)bytes : 1) != 0) {
        die("memory", "none left");
    }
    return memory;
}

static void *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        die(path, "cannot be opened");
    }
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = exactly((int64_t)*bytes);
    if (fread(data, 1, *bytes, file) != *bytes) {
        die(path, "cannot be read");
    }
    fclose(file);
    return data;
}

static int read_tensors(const char *path, mi_tensor *tensors) {
    FILE *file = fopen(path, "rb");
    int64_t head[2];
    int count = 0;
    while (file != NULL && fread(head, 8, 2, file) == 2 && count < MOST) {
        mi_tensor *t = &tensors[count++];
        *t = (mi_tensor){.data = exactly(head[0]), .bytes = head[0], .rank = (int32_t)head[1]};
        if (fread(t->shape, 8, (size_t)head[1], file) != (size_t)head[1]
            || fread(t->data, 1, (size_t)head[0], file) != (size_t)head[0]) {
            die(path, "is cut short");
        }
    }
    if (file == NULL) {
        die(path, "cannot be opened");
    }
    fclose(file);
    return count;
}

static void write_tensors(const char *path, const mi_tensor *tensors, int count) {
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < count; i++) {
        int64_t head[2] = {tensors[i].bytes, tensors[i].rank};
        fwrite(head, 8, 2, file);
        fwrite(tensors[i].shape, 8, (size_t)head[1], file);
        fwrite(tensors[i].data, 1, (size_t)head[0], file);
    }
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        die("usage", "driver PLAN WEIGHTS INPUTS OUTPUTS THREADS");
    }
    mi_tensor inputs[MOST], outputs[MOST] = {0}, first[MOST] = {0};
    mi_session_config config = {0};
    config.plan = read_file(argv[1], &config.plan_bytes);
    config.constants = read_file(argv[2], &config.constant_bytes);
    config.threads = atoi(argv[5]);
    read_tensors(argv[3], inputs);
    int count = 0, pooled[MOST];
    for (int arena = MI_ARENA_SHARED; arena <= MI_ARENA_POISON; arena++) {
        mi_session *session;
        mi_session_info info;
        mi_error error;
        config.arena = arena;
        if (mi_session_create(&session, &config, &error) != MI_OK) {
            die("create", error.text);
        }
        mi_session_describe(session, &info);
        count = info.outputs;
        for (int run = 0; run < 4; run++) {
            mi_run_options options = {.threads = run % 2 == 0 ? 1 : config.threads};
            if (mi_session_shapes(session, inputs, outputs, &error) != MI_OK) {
                die("shapes", error.text);
            }
            for (int i = 0; i < count; i++) {
                pooled[i] = outputs[i].bytes < 0;
                outputs[i].data = pooled[i] ? NULL : exactly(outputs[i].bytes);
            }
            if (mi_session_run(session, inputs, outputs, &options, &error) != MI_OK) {
                die("run", error.text);
            }
            for (int i = 0; i < count; i++) {
                if (pooled[i]) {                        /* in the session's memory until its next run */
                    void *copy = exactly(outputs[i].bytes);
                    memcpy(copy, outputs[i].data, (size_t)outputs[i].bytes);
                    outputs[i].data = copy;
                }
                if (arena + run == 0) {
                    first[i] = outputs[i];
                } else {
                    if (first[i].bytes != outputs[i].bytes
                        || memcmp(first[i].data, outputs[i].data, (size_t)first[i].bytes) != 0) {
                        die("run", "outputs differ between arena modes, threads or runs");
                    }
                    free(outputs[i].data);
                }
            }
        }
        mi_session_destroy(session);
    }
    write_tensors(argv[4], first, count);
    return 0;
}
