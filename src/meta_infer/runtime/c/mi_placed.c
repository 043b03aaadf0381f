/* Times a package as a whole and with a clock around every command, on a board: placed REQUEST.
 *
 * What search/whole/in_place.py does where Python is. The request is words in this order:
 *
 *   MI-PLACED-1 patience rounds fewest_rounds seconds commands package inputs
 *   holders:  count, then commands whose time counts as none, because it is that of what they hold
 *
 * Times are nanoseconds; `inputs` is a request of mi_driver_package.h. After each round of each batch of inputs comes a
 * line with the batch, the nanoseconds of the whole, and those of every command: the least of the round. */
#include "mi_agent_text.h"
#include "mi_driver_package.h"

typedef struct {
    driver_package package;
    mi_tensor *inputs, *outputs;
    int64_t commands, *holders, holder_count, *clocks, *least;
} place;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The least time of a run, over those that begin within so many nanoseconds, after one that is not timed. */
static int64_t time_whole(const place *p, int64_t nanoseconds) {
    driver_run(&p->package, p->inputs, p->outputs);
    int64_t least = INT64_MAX, start = driver_now(), now = start;
    do {
        driver_run(&p->package, p->inputs, p->outputs);
        int64_t end = driver_now();
        least = smaller(least, end - now);
        now = end;
    } while (now - start < nanoseconds);
    return least;
}

/* The least of every command, over at least two runs; returns the least time that a run took beyond its commands. */
static int64_t time_commands(const place *p, int64_t nanoseconds) {
    int64_t outside = INT64_MAX, start = driver_now();
    mi_run_options options = {.command_ns = p->clocks};
    for (int64_t i = 0; i < p->commands; i++) {
        p->least[i] = INT64_MAX;
    }
    for (int64_t runs = 0; runs < 2 || driver_now() - start < nanoseconds; runs++) {
        __builtin_memset(p->clocks, 0, (size_t)p->commands * sizeof *p->clocks);
        mi_error error;
        int64_t begin = driver_now(), sum = 0;
        if (p->package.run(p->package.session, p->inputs, p->outputs, &options, &error) != MI_OK) {
            driver_die(error.text, NULL);
        }
        int64_t taken = driver_now() - begin;
        for (int64_t i = 0; i < p->holder_count; i++) {
            p->clocks[p->holders[i]] = 0;
        }
        for (int64_t i = 0; i < p->commands; i++) {
            sum += p->clocks[i];
            p->least[i] = smaller(p->least[i], p->clocks[i]);
        }
        outside = smaller(outside, taken - sum);
    }
    return outside;
}

int driver_main(int count, char **arguments);

int driver_main(int count, char **arguments) {
    if (count != 2) {
        driver_die("usage: placed REQUEST", NULL);
    }
    agent_words words = agent_read(arguments[1], "MI-PLACED-1");
    int64_t patience = agent_number(&words), rounds = agent_number(&words), fewest = agent_number(&words);
    int64_t nanoseconds = agent_number(&words);
    place p = {.commands = agent_number(&words)};
    const char *file = agent_word(&words);
    unsigned char *at;
    const driver_request *asked = driver_read_request(agent_word(&words), &at);
    p.holder_count = agent_number(&words);
    p.holders = agent_numbers(&words, p.holder_count);
    p.clocks = driver_memory(p.commands * (int64_t)sizeof *p.clocks);
    p.least = driver_memory(p.commands * (int64_t)sizeof *p.least);
    p.inputs = driver_memory(asked->inputs * (int64_t)sizeof *p.inputs);
    p.outputs = driver_memory(asked->outputs * (int64_t)sizeof *p.outputs);
    driver_alarm(patience);
    p.package = driver_open_package(file, asked);
    for (int64_t point = 0; point < asked->batches; point++) {
        at = driver_read_batch(&p.package, asked, at, p.inputs, p.outputs);
        driver_run(&p.package, p.inputs, p.outputs);
        int64_t length = nanoseconds / asked->batches, end = driver_now() + length, share = length * 10 / (rounds * 22);
        for (int64_t round = 0; round < rounds && (round < fewest || driver_now() <= end); round++) {
            driver_alarm(patience);
            int64_t whole = time_whole(&p, share), sum = time_commands(&p, share);
            for (int64_t i = 0; i < p.commands; i++) {
                sum += p.least[i];
            }
            agent_say_round(point, smaller(whole, sum), p.least, p.commands);
        }
    }
    agent_say_done();
    return 0;
}
