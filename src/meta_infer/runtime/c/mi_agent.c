/* Times candidate kernels in turns, on a board: agent REQUEST.
 *
 * What search/measure/measure_child.py does where Python is, in the same order and with the same numbers, which come in the
 * request. search/measure/measure_board.py writes it and reads the lines. The request is words in this order:
 *
 *   MI-MEASURE-1 patience batch batches longest_turn probe_every fewest_rounds good_spread threads driver
 *   fills:       count, then a file each               contents that memory is filled with, again and again
 *   regions:     count, then bytes and fill each       (fill -1: zeros)
 *   candidates:  count, then each: key library copies launches, and for each launch:
 *                kernel, count of dims, dims, count of args, and for each arg: region, offset, stride
 *   groups:      count, then each: rounds seconds count, candidates by number
 *
 * Times are nanoseconds, good_spread millionths. Candidate 0 is the probe. */
#include "mi_agent_text.h"
#include "mi_driver.h"
#include "mi_kernel.h"

enum { LINE = 64, MOST_ROUNDS = 4096 };

typedef struct {
    const mi_kernel *kernel;
    const int64_t *dims;
    unsigned char **bases;
    const int64_t *strides;
    int64_t args;
} launch;                                   /* as in mi_measure.c */

typedef int64_t measure_function(const launch *launches, int64_t count, int64_t copies, int64_t first,
                                 int64_t repeats, int32_t threads, unsigned char *scratch, int64_t stride);

typedef struct {
    int64_t key, copies, count;
    const char *library, **kernels;         /* the launches' kernels by name, found when it first runs */
    launch *launches;
    int prepared;
    int64_t stride, next, repeats, batches; /* stride: bytes of scratch for a thread */
    double *times;
    int64_t rounds;
} candidate;

typedef struct {
    int64_t patience, batch, batches, longest_turn, probe_every, fewest_rounds;
    double good_spread;
    int32_t threads;
    measure_function *measure;
    candidate *candidates;
    int64_t count;
    unsigned char *scratch;                 /* of all candidates: they run one at a time */
    int64_t scratch_bytes;
    double peak;                            /* seconds of the probe's last turn, and when that was */
    int64_t probed;
} session;

static driver_library load(const char *path) {
    int64_t bytes = -1;
    unsigned char *file = driver_map_file(path, 0, &bytes);
    return driver_load(file, bytes);
}

/* The library at `path`; all candidates from one file share it. */
static driver_library *library_of(const char *path) {
    static struct loaded {
        const char *path;
        driver_library library;
        struct loaded *next;
    } *known;
    for (struct loaded *l = known; l != NULL; l = l->next) {
        if (driver_same(l->path, path)) {
            return &l->library;
        }
    }
    struct loaded *made = driver_memory(sizeof *made);
    *made = (struct loaded){path, load(path), known};
    known = made;
    return &made->library;
}

static const mi_kernel *kernel_of(const candidate *c, const char *name) {
    const driver_library *library = library_of(c->library);
    const mi_kernel *table = driver_symbol(library, "mi_kernels");
    int32_t count = *(const int32_t *)driver_symbol(library, "mi_kernel_count");
    for (int32_t i = 0; i < count; i++) {
        if (driver_same(table[i].name, name)) {
            return &table[i];
        }
    }
    driver_die("the library lacks the kernel ", name, NULL);
}

/* --- the request --- */

/* Memory of all regions, filled. */
static unsigned char **read_regions(agent_words *words) {
    int64_t fills = agent_number(words);
    unsigned char **fill = driver_memory(fills * (int64_t)sizeof *fill);
    int64_t *lengths = driver_memory(fills * (int64_t)sizeof *lengths);
    for (int64_t i = 0; i < fills; i++) {
        lengths[i] = -1;
        fill[i] = driver_map_file(agent_word(words), 0, &lengths[i]);
    }
    int64_t count = agent_number(words);
    unsigned char **regions = driver_memory(count * (int64_t)sizeof *regions);
    for (int64_t i = 0; i < count; i++) {
        int64_t bytes = agent_number(words), with = agent_number(words);
        regions[i] = driver_memory(bytes);
        if (with < 0) {
            __builtin_memset(regions[i], 0, (size_t)bytes);           /* touched: the first run is no other than the next */
        }
        for (int64_t at = 0; with >= 0 && at < bytes; at += lengths[with]) {
            int64_t left = bytes - at < lengths[with] ? bytes - at : lengths[with];
            __builtin_memcpy(regions[i] + at, fill[with], (size_t)left);
        }
    }
    return regions;
}

static void read_candidate(agent_words *words, unsigned char **regions, candidate *c) {
    c->key = agent_number(words);
    c->library = agent_word(words);
    c->copies = agent_number(words);
    c->count = agent_number(words);
    c->launches = driver_memory(c->count * (int64_t)sizeof *c->launches);
    c->kernels = driver_memory(c->count * (int64_t)sizeof *c->kernels);
    c->times = driver_memory(MOST_ROUNDS * (int64_t)sizeof *c->times);
    for (int64_t i = 0; i < c->count; i++) {
        launch *l = &c->launches[i];
        c->kernels[i] = agent_word(words);
        int64_t dims = agent_number(words);
        l->dims = agent_numbers(words, dims);
        l->args = agent_number(words);
        l->bases = driver_memory(l->args * (int64_t)sizeof *l->bases);
        int64_t *strides = driver_memory(l->args * (int64_t)sizeof *strides);
        for (int64_t k = 0; k < l->args; k++) {
            int64_t region = agent_number(words);
            l->bases[k] = regions[region] + agent_number(words);
            strides[k] = agent_number(words);
        }
        l->strides = strides;
    }
}

static session read_request(agent_words *words) {
    session s = {.patience = agent_number(words)};
    s.batch = agent_number(words);
    s.batches = agent_number(words);
    s.longest_turn = agent_number(words);
    s.probe_every = agent_number(words);
    s.fewest_rounds = agent_number(words);
    s.good_spread = (double)agent_number(words) / 1e6;
    s.threads = (int32_t)agent_number(words);
    s.probed = -s.probe_every;
    driver_library *driver = library_of(agent_word(words));
    s.measure = (measure_function *)driver_symbol(driver, "mi_measure");
    unsigned char **regions = read_regions(words);
    s.count = agent_number(words);
    s.candidates = driver_memory(s.count * (int64_t)sizeof *s.candidates);
    for (int64_t i = 0; i < s.count; i++) {
        read_candidate(words, regions, &s.candidates[i]);
    }
    return s;
}

/* --- turns --- */

/* Finds the candidate's code and makes the scratch as large as it needs, once. */
static void prepare(session *s, candidate *c) {
    if (c->prepared) {
        return;
    }
    c->prepared = 1;
    int64_t most = 0;
    for (int64_t i = 0; i < c->count; i++) {
        launch *l = &c->launches[i];
        l->kernel = kernel_of(c, c->kernels[i]);
        int64_t bytes = l->kernel->scratch(l->dims);
        most = bytes > most ? bytes : most;
    }
    c->stride = (most + LINE - 1) / LINE * LINE;
    if (c->stride * s->threads > s->scratch_bytes) {
        s->scratch_bytes = c->stride * s->threads;
        s->scratch = driver_memory(s->scratch_bytes);
    }
}

/* Nanoseconds of so many runs, on the next copies of the weights. */
static int64_t run(const session *s, candidate *c, int64_t repeats) {
    int64_t spent = s->measure(c->launches, c->count, c->copies, c->next, repeats, s->threads, s->scratch, c->stride);
    if (spent < 0) {
        driver_die("a launch has too many arguments, or there are too many threads", NULL);
    }
    c->next = (c->next + repeats) % c->copies;
    return spent;
}

/* Seconds of one run: the mean over the quickest batch, after an untimed run. */
static double turn(session *s, candidate *c) {
    prepare(s, c);
    run(s, c, 1);
    if (c->repeats == 0) {
        int64_t spent = run(s, c, c->repeats = 1);
        while (spent < s->batch / 4) {
            spent = run(s, c, c->repeats *= 4);
        }
        double one = (double)(spent > 0 ? spent : 1) / (double)c->repeats;
        int64_t repeats = (int64_t)((double)s->batch / one + 0.5);
        c->repeats = repeats > 0 ? repeats : 1;
        int64_t batches = (int64_t)((double)s->longest_turn / (one * (double)c->repeats));
        c->batches = batches < 1 ? 1 : batches > s->batches ? s->batches : batches;
    }
    int64_t least = INT64_MAX;
    for (int64_t i = 0; i < c->batches; i++) {
        int64_t spent = run(s, c, c->repeats);
        least = spent < least ? spent : least;
    }
    return (double)least / (double)c->repeats / 1e9;
}

static int settled(const session *s, const int64_t *members, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const candidate *c = &s->candidates[members[i]];
        double low = agent_quantile(c->times, c->rounds, 0.25), high = agent_quantile(c->times, c->rounds, 0.75);
        if ((high - low) / 2 > s->good_spread * agent_quantile(c->times, c->rounds, 0.5)) {
            return 0;
        }
    }
    return 1;
}

static void take_turn(session *s, candidate *c) {
    if (driver_now() - s->probed >= s->probe_every) {
        agent_say_at(s->candidates[0].key, s->patience);
        s->peak = turn(s, &s->candidates[0]);
        s->probed = driver_now();
    }
    agent_say_at(c->key, s->patience);
    double seconds = turn(s, c);
    agent_say_time(c->key, seconds, "probe", s->peak);
    c->times[c->rounds++] = seconds;
}

/* Rounds until all is settled, the time is over, or there were enough of them. */
static void run_group(session *s, agent_words *words) {
    int64_t rounds = agent_number(words), nanoseconds = agent_number(words), count = agent_number(words);
    int64_t *members = agent_numbers(words, count), start = driver_now();
    rounds = rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS;
    for (int64_t i = 0; i < rounds; i++) {
        for (int64_t k = 0; k < count; k++) {
            take_turn(s, &s->candidates[members[(i + k) % count]]);
        }
        if (driver_now() - start >= nanoseconds || (i + 1 >= s->fewest_rounds && settled(s, members, count))) {
            return;
        }
    }
}

int driver_main(int count, char **arguments);

int driver_main(int count, char **arguments) {
    if (count != 2) {
        driver_die("usage: agent REQUEST", NULL);
    }
    agent_words words = agent_read(arguments[1], "MI-MEASURE-1");
    session s = read_request(&words);
    for (int64_t groups = agent_number(&words); groups > 0; groups--) {
        run_group(&s, &words);
    }
    agent_say_done();
    return 0;
}
