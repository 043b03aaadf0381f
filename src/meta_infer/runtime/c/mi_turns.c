/* Times whole packages in turns, on a board: turns REQUEST.
 *
 * What search/whole/whole_child.py does where Python is. The request is words in this order:
 *
 *   MI-TURNS-1 patience rounds seconds
 *   packages:  count, then each: key, package file, file with its inputs (a request of mi_driver_package.h)
 *
 * Times are nanoseconds. For every batch of inputs each round gives each package an equal share of the time, begun by
 * a run that is not timed; a line tells the median of a turn as "seconds", and which batch it was as "point". */
#include "mi_agent_text.h"
#include "mi_driver_package.h"

enum { MOST_RUNS = 4096 };

typedef struct {
    int64_t key;
    const char *file;
    const driver_request *asked;
    unsigned char *next;
    driver_package package;
    mi_tensor *inputs, *outputs;
} contender;

static double turn(const contender *c, double *times, int64_t nanoseconds) {
    driver_run(&c->package, c->inputs, c->outputs);
    int64_t count = 0, start = driver_now(), now = start;
    do {
        driver_run(&c->package, c->inputs, c->outputs);
        int64_t end = driver_now();
        times[count++] = (double)(end - now) / 1e9;
        now = end;
    } while (now - start < nanoseconds && count < MOST_RUNS);
    return agent_quantile(times, count, 0.5);
}

int driver_main(int count, char **arguments);

int driver_main(int count, char **arguments) {
    if (count != 2) {
        driver_die("usage: turns REQUEST", NULL);
    }
    agent_words words = agent_read(arguments[1], "MI-TURNS-1");
    int64_t patience = agent_number(&words), rounds = agent_number(&words), seconds = agent_number(&words);
    int64_t packages = agent_number(&words), points = 0;
    contender *all = driver_memory(packages * (int64_t)sizeof *all);
    double *times = driver_memory(MOST_RUNS * (int64_t)sizeof *times);
    for (int64_t i = 0; i < packages; i++) {
        contender *c = &all[i];
        c->key = agent_number(&words);
        c->file = agent_word(&words);
        c->asked = driver_read_request(agent_word(&words), &c->next);
        points = c->asked->batches;
        agent_say_at(c->key, patience);
        c->package = driver_open_package(c->file, c->asked);
        c->inputs = driver_memory(c->asked->inputs * (int64_t)sizeof *c->inputs);
        c->outputs = driver_memory(c->asked->outputs * (int64_t)sizeof *c->outputs);
    }
    for (int64_t point = 0; point < points; point++) {
        for (int64_t i = 0; i < packages; i++) {
            agent_say_at(all[i].key, patience);
            all[i].next = driver_read_batch(&all[i].package, all[i].asked, all[i].next, all[i].inputs, all[i].outputs);
        }
        for (int64_t round = 0; round < rounds; round++) {
            for (int64_t k = 0; k < packages; k++) {
                contender *c = &all[(round + k) % packages];
                agent_say_at(c->key, patience);
                agent_say_time(c->key, turn(c, times, seconds / (points * rounds * packages)), "point", (double)point);
            }
        }
    }
    agent_say_done();
    return 0;
}
