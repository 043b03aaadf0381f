/* A package as the driver's programs open it: its code, its plan and its weights, and the inputs of a request.
 *
 * backends/cpu/emulated.py writes requests. All numbers are int64, little-endian: a `driver_request`, then for every
 * batch every input as a `driver_record` and its data, each padded to 64 bytes. */
#ifndef MI_DRIVER_PACKAGE_H
#define MI_DRIVER_PACKAGE_H

#include "mi_driver.h"
#include "mi_runtime.h"

#pragma GCC visibility push(hidden)

enum { DRIVER_MAX_TENSORS = 4096 };

typedef struct {
    int64_t magic, threads, runs, batches, inputs, outputs;
    int64_t code, code_bytes, plan, plan_bytes, weights, weight_bytes;      /* places in the package */
    int64_t seconds;                                                        /* most for all of it; 0: no limit */
    int64_t unused[3];
} driver_request;

typedef struct {
    int64_t rank, bytes, shape[MI_MAX_RANK], unused[6];
} driver_record;

typedef struct {
    driver_library library;
    mi_session *session;
    int32_t (*create)(mi_session **, const mi_session_config *, mi_error *);
    int32_t (*shapes)(mi_session *, const mi_tensor *, mi_tensor *, mi_error *);
    int32_t (*run)(mi_session *, const mi_tensor *, mi_tensor *, const mi_run_options *, mi_error *);
    int32_t (*version)(void);
} driver_package;

/* All of these die, saying why, when something is wrong. */

/* The request in a file; `batches` receives where its first batch lies. */
const driver_request *driver_read_request(const char *path, unsigned char **batches);
driver_package driver_open_package(const char *path, const driver_request *asked);

/* The inputs of the batch at `at`, and outputs with memory for what they make; returns where the next batch lies. */
unsigned char *driver_read_batch(const driver_package *p, const driver_request *asked, unsigned char *at,
                                 mi_tensor *inputs, mi_tensor *outputs);
void driver_run(const driver_package *p, const mi_tensor *inputs, mi_tensor *outputs);

#pragma GCC visibility pop

#endif
