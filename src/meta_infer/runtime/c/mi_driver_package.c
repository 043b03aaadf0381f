/* Opens packages for the driver's programs. */
#include "mi_driver_package.h"

static const int64_t MAGIC = 0x315145522d494d;                              /* "MI-REQ1" */

static void must(int32_t code, const mi_error *error) {
    if (code != MI_OK) {
        driver_die(error->text, NULL);
    }
}

const driver_request *driver_read_request(const char *path, unsigned char **batches) {
    int64_t bytes = -1;
    unsigned char *at = driver_map_file(path, 0, &bytes);
    const driver_request *asked = (const driver_request *)at;
    if (bytes < (int64_t)sizeof *asked || asked->magic != MAGIC || asked->inputs > DRIVER_MAX_TENSORS
        || asked->outputs > DRIVER_MAX_TENSORS) {
        driver_die(path, ": is no request that the driver knows", NULL);
    }
    *batches = at + sizeof *asked;
    return asked;
}

driver_package driver_open_package(const char *path, const driver_request *asked) {
    int64_t bytes = asked->code_bytes;
    driver_package p = {.library = driver_load(driver_map_file(path, asked->code, &bytes), bytes)};
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
    int64_t plan_bytes = asked->plan_bytes, weight_bytes = asked->weight_bytes;
    mi_session_config config = {.plan_bytes = (size_t)plan_bytes, .constant_bytes = (size_t)weight_bytes,
                                .threads = (int32_t)asked->threads};
    config.plan = driver_map_file(path, asked->plan, &plan_bytes);
    config.constants = driver_map_file(path, asked->weights, &weight_bytes);
    mi_error error;
    must(p.create(&p.session, &config, &error), &error);
    return p;
}

unsigned char *driver_read_batch(const driver_package *p, const driver_request *asked, unsigned char *at,
                                 mi_tensor *inputs, mi_tensor *outputs) {
    mi_error error;
    for (int64_t i = 0; i < asked->inputs; i++) {
        const driver_record *r = (const driver_record *)at;
        inputs[i] = (mi_tensor){.data = at + sizeof *r, .bytes = r->bytes, .rank = (int32_t)r->rank};
        for (int k = 0; k < MI_MAX_RANK; k++) {
            inputs[i].shape[k] = r->shape[k];
        }
        at += (int64_t)sizeof *r + (r->bytes + 63) / 64 * 64;
    }
    must(p->shapes(p->session, inputs, outputs, &error), &error);
    for (int64_t i = 0; i < asked->outputs; i++) {
        outputs[i].data = driver_memory(outputs[i].bytes < 0 ? 0 : outputs[i].bytes);
    }
    return at;
}

void driver_run(const driver_package *p, const mi_tensor *inputs, mi_tensor *outputs) {
    mi_error error;
    must(p->run(p->session, inputs, outputs, NULL, &error), &error);
}
