/* Runs a package on batches of inputs: driver PACKAGE REQUEST ANSWER.
 *
 * The request is that of mi_driver_package.h. The answer has for every batch the nanoseconds of each timed run, then
 * every output as a `driver_record` and its data without padding. */
#include "mi_driver_package.h"

static void write_outputs(int file, const mi_tensor *outputs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        driver_record r = {.rank = outputs[i].rank, .bytes = outputs[i].bytes};
        for (int k = 0; k < MI_MAX_RANK; k++) {
            r.shape[k] = outputs[i].shape[k];
        }
        driver_write(file, &r, (int64_t)sizeof r);
        driver_write(file, outputs[i].data, outputs[i].bytes);
    }
}

int driver_main(int count, char **arguments);

int driver_main(int count, char **arguments) {
    static mi_tensor inputs[DRIVER_MAX_TENSORS], outputs[DRIVER_MAX_TENSORS];
    if (count != 4) {
        driver_die("usage: driver PACKAGE REQUEST ANSWER", NULL);
    }
    unsigned char *at;
    const driver_request *asked = driver_read_request(arguments[2], &at);
    driver_alarm(asked->seconds * 1000000000);
    driver_package p = driver_open_package(arguments[1], asked);
    int answer = driver_create(arguments[3]);
    for (int64_t batch = 0; batch < asked->batches; batch++) {
        at = driver_read_batch(&p, asked, at, inputs, outputs);
        driver_run(&p, inputs, outputs);
        for (int64_t run = 0; run < asked->runs; run++) {
            int64_t start = driver_now();
            driver_run(&p, inputs, outputs);
            int64_t taken = driver_now() - start;
            driver_write(answer, &taken, (int64_t)sizeof taken);
        }
        write_outputs(answer, outputs, asked->outputs);
    }
    return 0;
}
