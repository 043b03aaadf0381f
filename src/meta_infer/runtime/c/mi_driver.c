/* Runs a package on batches of inputs: driver PACKAGE REQUEST ANSWER.
 *
 * backends/cpu/emulated.py writes the request and reads the answer. All numbers are int64, little-endian. The request
 * is a `request`, then for every batch every input as a `record` and its data, each padded to 64 bytes. The answer has
 * for every batch the nanoseconds of each timed run, then every output as a `record` and its data without padding. */
#include "mi_driver.h"
#include "mi_runtime.h"

enum { MAX_TENSORS = 4096 };

typedef struct {
    int64_t magic, threads, runs, batches, inputs, outputs;
    int64_t code, code_bytes, plan, plan_bytes, weights, weight_bytes;      /* places in the package */
    int64_t unused[4];
} request;

typedef struct {
    int64_t rank, bytes, shape[MI_MAX_RANK], unused[6];
} record;

static const int64_t MAGIC = 0x315145522d494d;                              /* "MI-REQ1" */

typedef struct {
    driver_library library;
    int32_t (*create)(mi_session **, const mi_session_config *, mi_error *);
    int32_t (*shapes)(mi_session *, const mi_tensor *, mi_tensor *, mi_error *);
    int32_t (*run)(mi_session *, const mi_tensor *, mi_tensor *, const mi_run_options *, mi_error *);
    int32_t (*version)(void);
} package;

static package open_package(const char *path, const request *asked) {
    int64_t bytes = asked->code_bytes;
    package p = {.library = driver_load(driver_map_file(path, asked->code, &bytes), bytes)};
    p.create = (int32_t (*)(mi_session **, const mi_session_config *, mi_error *))driver_symbol(&p.library,
                                                                                              "mi_session_create");
    p.shapes = (int32_t (*)(mi_session *, const mi_tensor *, mi_tensor *, mi_error *))driver_symbol(
        &p.library, "mi_session_shapes");
    p.run = (int32_t (*)(mi_session *, const mi_tensor *, mi_tensor *, const mi_run_options *, mi_error *))
        driver_symbol(&p.library, "mi_session_run");
    p.version = (int32_t (*)(void))driver_symbol(&p.library, "mi_api_version");
    if (p.version() != MI_API_VERSION) {
        driver_die("the code's runtime has another API version", NULL);
    }
    return p;
}

static mi_session *open_session(const package *p, const char *path, const request *asked) {
    int64_t plan_bytes = asked->plan_bytes, weight_bytes = asked->weight_bytes;
    mi_session_config config = {.plan_bytes = (size_t)plan_bytes, .constant_bytes = (size_t)weight_bytes,
                                .threads = (int32_t)asked->threads};
    config.plan = driver_map_file(path, asked->plan, &plan_bytes);
    config.constants = driver_map_file(path, asked->weights, &weight_bytes);
    mi_session *session;
    mi_error error;
    if (p->create(&session, &config, &error) != MI_OK) {
        driver_die(error.text, NULL);
    }
    return session;
}

/* The inputs of the next batch; `at` moves behind them. */
static void read_inputs(unsigned char **at, mi_tensor *inputs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const record *r = (const record *)*at;
        inputs[i] = (mi_tensor){.data = *at + sizeof *r, .bytes = r->bytes, .rank = (int32_t)r->rank};
        for (int k = 0; k < MI_MAX_RANK; k++) {
            inputs[i].shape[k] = r->shape[k];
        }
        *at += (int64_t)sizeof *r + (r->bytes + 63) / 64 * 64;
    }
}

static void write_outputs(int file, const mi_tensor *outputs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        record r = {.rank = outputs[i].rank, .bytes = outputs[i].bytes};
        for (int k = 0; k < MI_MAX_RANK; k++) {
            r.shape[k] = outputs[i].shape[k];
        }
        driver_write(file, &r, (int64_t)sizeof r);
        driver_write(file, outputs[i].data, outputs[i].bytes);
    }
}

static void must(int32_t code, const mi_error *error) {
    if (code != MI_OK) {
        driver_die(error->text, NULL);
    }
}

int driver_main(int count, char **arguments);

int driver_main(int count, char **arguments) {
    static mi_tensor inputs[MAX_TENSORS], outputs[MAX_TENSORS];
    if (count != 4) {
        driver_die("usage: driver PACKAGE REQUEST ANSWER", NULL);
    }
    int64_t bytes = -1;
    unsigned char *at = driver_map_file(arguments[2], 0, &bytes);
    const request *asked = (const request *)at;
    if (bytes < (int64_t)sizeof *asked || asked->magic != MAGIC || asked->inputs > MAX_TENSORS
        || asked->outputs > MAX_TENSORS) {
        driver_die(arguments[2], ": is no request that the driver knows", NULL);
    }
    package p = open_package(arguments[1], asked);
    mi_session *session = open_session(&p, arguments[1], asked);
    int answer = driver_create(arguments[3]);
    at += sizeof *asked;
    for (int64_t batch = 0; batch < asked->batches; batch++) {
        mi_error error;
        read_inputs(&at, inputs, asked->inputs);
        must(p.shapes(session, inputs, outputs, &error), &error);
        for (int64_t i = 0; i < asked->outputs; i++) {
            outputs[i].data = driver_memory(outputs[i].bytes < 0 ? 0 : outputs[i].bytes);
        }
        must(p.run(session, inputs, outputs, NULL, &error), &error);
        for (int64_t run = 0; run < asked->runs; run++) {
            int64_t start = driver_now();
            must(p.run(session, inputs, outputs, NULL, &error), &error);
            int64_t taken = driver_now() - start;
            driver_write(answer, &taken, (int64_t)sizeof taken);
        }
        write_outputs(answer, outputs, asked->outputs);
    }
    return 0;
}
