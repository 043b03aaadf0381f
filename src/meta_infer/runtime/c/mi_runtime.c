/* The interpreter of the command table. */
#include "mi_runtime.h"

#include "mi_blocks.h"
#include "mi_kernel.h"
#include "mi_os.h"
#include "mi_pool.h"
#include "mi_session.h"

/* One run: what the interpreter carries along. */
typedef struct {
    mi_session *s;
    const mi_tensor *inputs, *outputs;
    const mi_run_options *options;          /* NULL: no threads asked for, nothing measured or watched */
    int32_t threads;
    mi_error *error;
} run_state;

typedef struct {
    const mi_kernel *kernel;
    void *const *args;
    const int64_t *dims;
    unsigned char *scratch;
    size_t stride;
} call_context;

static void copy_bytes(unsigned char *to, const unsigned char *from, size_t count) {
    __builtin_memmove(to, from, count);
}

static int32_t lost(const run_state *r, uint32_t command, uint32_t buffer) {
    const mi_plan *p = &r->s->plan;
    return mi_fail(r->error, MI_OUT_OF_RANGE, "command %d: buffer '%s' has no room for the size its dimensions give",
                   (int64_t)command, p->text + p->buffers[buffer].name);
}

/* Before a command uses a buffer: memory, if it lies in the pool. */
static int32_t hold(const run_state *r, uint32_t buffer) {
    return r->s->blocks == NULL ? MI_OK : mi_blocks_hold(r->s, buffer, r->error);
}

static void call_chunks(void *context, int64_t begin, int64_t end, int32_t thread) {
    const call_context *c = context;
    c->kernel->run(c->args, c->dims, begin, end, c->scratch + (size_t)thread * c->stride);
}

/* What only holds for calls whose dims depend on symbols that grow: a saturated dim is no size to run with, and scratch
 * reserved for modest sizes may be too little. */
static int32_t check_growth(const run_state *r, uint32_t index, const mi_plan_command *c, const mi_kernel *kernel) {
    mi_session *s = r->s;
    for (uint32_t i = 0; i < c->e; i++) {
        if (s->call_dims[i] >= MI_TOO_LARGE || s->call_dims[i] <= -MI_TOO_LARGE) {
            return mi_fail(r->error, MI_NO_MEMORY, "command %d: kernel '%s' would compute %d elements or more",
                           (int64_t)index, kernel->name, MI_TOO_LARGE);
        }
    }
    int64_t scratch = kernel->scratch(s->call_dims);
    if (scratch <= (int64_t)s->scratch_stride || mi_reserve_scratch(s, scratch + scratch / 2, NULL) == MI_OK) {
        return MI_OK;
    }
    return mi_reserve_scratch(s, scratch, r->error);
}

static int32_t do_call(run_state *r, uint32_t index, const mi_plan_command *c) {
    mi_session *s = r->s;
    const mi_kernel *kernel = &mi_kernels[c->a];
    for (uint32_t i = 0; i < c->c; i++) {
        uint32_t buffer = s->plan.refs[c->b + i];
        int32_t code = hold(r, buffer);
        if (code != MI_OK) {
            return code;
        }
        s->args[i] = s->address[buffer];
        if (s->args[i] == NULL) {
            return lost(r, index, buffer);
        }
    }
    mi_gather_dims(s, c);
    if (s->plan.grows) {
        int32_t code = check_growth(r, index, c, kernel);
        if (code != MI_OK) {
            return code;
        }
    }
    int64_t chunks = kernel->chunks(s->call_dims);
    if (chunks <= 0) {
        return MI_OK;
    }
    if (kernel->scratch(s->call_dims) > (int64_t)s->scratch_stride) {
        return mi_fail(r->error, MI_NO_MEMORY, "command %d: kernel '%s' needs more scratch than was reserved",
                       (int64_t)index, kernel->name);
    }
    if (r->threads == 1 || chunks == 1) {
        kernel->run(s->args, s->call_dims, 0, chunks, s->scratch);
        return MI_OK;
    }
    call_context context = {kernel, s->args, s->call_dims, s->scratch, s->scratch_stride};
    mi_pool_run(&(mi_job){call_chunks, &context, chunks, r->threads});
    return MI_OK;
}

/* Bytes [offset, offset + count) of a buffer in elements of `bits`; false when they are not all inside. */
static bool span(const mi_session *s, uint32_t buffer, int64_t offset, int64_t count, int64_t *at, int64_t *bytes) {
    int64_t bits = s->plan.buffers[buffer].bits;
    if (s->address[buffer] == NULL || offset < 0 || count < 0 || offset >= MI_TOO_LARGE || count >= MI_TOO_LARGE
        || offset * bits % 8 != 0) {
        return false;
    }
    *at = offset * bits / 8;
    *bytes = (count * bits + 7) / 8;
    return *at <= s->bytes[buffer] && *bytes <= s->bytes[buffer] - *at;
}

static int32_t do_copy(run_state *r, uint32_t index, const mi_plan_command *c) {
    mi_session *s = r->s;
    int64_t from, to, bytes, count = s->dims[c->c];
    int32_t code = hold(r, c->a);
    code = code == MI_OK ? hold(r, c->b) : code;
    if (code != MI_OK) {
        return code;
    }
    if (!span(s, c->a, s->dims[c->d], count, &from, &bytes)) {
        return lost(r, index, c->a);
    }
    if (!span(s, c->b, s->dims[c->e], count, &to, &bytes)) {
        return lost(r, index, c->b);
    }
    copy_bytes(s->address[c->b] + to, s->address[c->a] + from, (size_t)bytes);
    return MI_OK;
}

static int32_t do_fill(run_state *r, uint32_t index, const mi_plan_command *c) {
    mi_session *s = r->s;
    int32_t code = hold(r, c->a);
    if (code != MI_OK) {
        return code;
    }
    unsigned char *at = s->address[c->a];
    if (at == NULL) {
        return lost(r, index, c->a);
    }
    int64_t size = s->plan.buffers[c->a].bits / 8, bytes = s->bytes[c->a];
    for (int64_t i = 0; i < bytes && i < size; i++) {
        at[i] = (unsigned char)(c->value >> (8 * i));
    }
    for (int64_t done = size; done < bytes;) {      /* double what is there: big copies, not single elements */
        int64_t step = done < bytes - done ? done : bytes - done;
        step = step < 16384 ? step : 16384 / size * size;
        copy_bytes(at + done, at, (size_t)step);
        done += step;
    }
    return MI_OK;
}

/* An integer element of 1, 4 or 8 bytes. */
static int32_t read_integer(run_state *r, uint32_t index, uint32_t buffer, int64_t element, int64_t *value) {
    const mi_session *s = r->s;
    int64_t size = s->plan.buffers[buffer].bits / 8;
    int32_t code = hold(r, buffer);
    if (code != MI_OK) {
        return code;
    }
    if (s->address[buffer] == NULL || s->bytes[buffer] < (element + 1) * size) {
        return lost(r, index, buffer);
    }
    const unsigned char *at = s->address[buffer] + element * size;
    int32_t narrow = 0;
    *value = 0;
    if (size == 4) {
        __builtin_memcpy(&narrow, at, 4);
        *value = narrow;
    } else {
        __builtin_memcpy(value, at, (size_t)size);
    }
    return MI_OK;
}

static int32_t change_symbol(run_state *r, uint32_t symbol, int64_t value) {
    int32_t code = mi_set_symbol(r->s, symbol, value, r->error);
    if (code == MI_OK) {
        mi_resolve(r->s, r->inputs, r->outputs, false);
    }
    return code;
}

static int32_t do_set_dim(run_state *r, uint32_t index, const mi_plan_command *c) {
    int64_t value;
    int32_t code = read_integer(r, index, c->b, c->c, &value);
    return code == MI_OK ? change_symbol(r, c->a, value) : code;
}

/* All values are read before the first symbol changes: they may swap. */
static int32_t do_assign_dims(run_state *r, const mi_plan_command *c) {
    mi_session *s = r->s;
    int32_t code = MI_OK;
    for (uint32_t i = 0; i < c->b; i++) {
        s->call_dims[i] = s->dims[s->plan.refs[c->c + i]];
    }
    for (uint32_t i = 0; code == MI_OK && i < c->b; i++) {
        code = mi_set_symbol(s, s->plan.refs[c->a + i], s->call_dims[i], r->error);
    }
    if (code == MI_OK) {
        mi_resolve(s, r->inputs, r->outputs, false);
    }
    return code;
}

static int32_t do_check_dims(const run_state *r, const mi_plan_command *c) {
    int64_t a = r->s->dims[c->a], b = r->s->dims[c->b];
    return a == b ? MI_OK : mi_fail(r->error, MI_OUT_OF_RANGE, "%s: %d is not %d", r->s->plan.text + c->c, a, b);
}

static int32_t run_region(run_state *r, uint32_t begin, uint32_t end);

static int32_t do_if(run_state *r, uint32_t index, const mi_plan_command *c) {
    int64_t chosen;
    int32_t code = read_integer(r, index, c->a, 0, &chosen);
    if (code != MI_OK) {
        return code;
    }
    uint32_t then = index + 1, orelse = then + c->b;
    return chosen ? run_region(r, then, orelse) : run_region(r, orelse, orelse + c->c);
}

static int32_t do_loop(run_state *r, uint32_t index, const mi_plan_command *c) {
    mi_session *s = r->s;
    const mi_plan_symbol *passes = c->e == MI_NONE ? NULL : &s->plan.symbols[c->e];
    int64_t trips = INT64_MAX, going = 1, pass = 0;
    int32_t code = c->a == MI_NONE ? MI_OK : read_integer(r, index, c->a, 0, &trips);
    if (code == MI_OK && passes != NULL) {              /* a loop around this one may have run it before, with fewer */
        code = change_symbol(r, c->e, passes->grows ? passes->lo : passes->hi);
    }
    if (code == MI_OK && c->b != MI_NONE) {
        code = read_integer(r, index, c->b, 0, &going);
    }
    for (; code == MI_OK && pass < trips && going; pass++) {
        if (passes != NULL && passes->grows) {          /* room for one more row of what all passes write */
            code = change_symbol(r, c->e, pass + 1);
        }
        code = code == MI_OK ? hold(r, c->c) : code;
        if (code != MI_OK) {
            break;
        }
        if (s->address[c->c] == NULL || s->bytes[c->c] < 8) {
            return lost(r, index, c->c);
        }
        __builtin_memcpy(s->address[c->c], &pass, 8);
        code = run_region(r, index + 1, index + 1 + c->d);
        if (code == MI_OK && c->b != MI_NONE) {
            code = read_integer(r, index, c->b, 0, &going);
        }
    }
    return code == MI_OK && c->e != MI_NONE ? change_symbol(r, c->e, pass) : code;
}

static int32_t do_command(run_state *r, uint32_t index, const mi_plan_command *c) {
    switch (c->op) {
    case MI_CALL:
        return do_call(r, index, c);
    case MI_COPY:
        return do_copy(r, index, c);
    case MI_FILL:
        return do_fill(r, index, c);
    case MI_SET_DIM:
        return do_set_dim(r, index, c);
    case MI_ASSIGN_DIMS:
        return do_assign_dims(r, c);
    case MI_CHECK_DIMS:
        return do_check_dims(r, c);
    case MI_IF:
        return do_if(r, index, c);
    case MI_LOOP:
        return do_loop(r, index, c);
    }
    return MI_OK;                                   /* MI_WAIT: one queue in order has nothing to wait for */
}

static void copy_watched(run_state *r, uint32_t index) {
    for (int32_t i = 0; i < r->options->watch_count; i++) {
        mi_watch *w = &r->options->watches[i];
        if (w->command != (int32_t)index || (uint32_t)w->buffer >= r->s->plan.header->buffers) {
            continue;
        }
        uint32_t root = mi_plan_root(&r->s->plan, (uint32_t)w->buffer);
        bool pooled = r->s->plan.buffers[root].kind == MI_POOL;     /* its views move with it */
        const unsigned char *at = pooled ? mi_address_now(r->s, (uint32_t)w->buffer) : r->s->address[w->buffer];
        int64_t bytes = r->s->bytes[w->buffer];
        if (w->data == NULL) {
            w->bytes = at == NULL ? -1 : bytes;
        } else if (at != NULL && bytes <= w->bytes) {
            copy_bytes(w->data, at, (size_t)bytes);
        }
    }
}

/* Whether memory of buffer i belongs by now to one that is live after command end - 1. A body may have put its result
 * where the condition was. */
static int is_taken(const mi_session *s, const mi_plan_buffer *dead, uint32_t end) {
    for (uint32_t i = 0; i < s->plan.header->buffers; i++) {
        const mi_plan_buffer *b = &s->plan.buffers[i];
        if (b->kind == MI_TEMP && b->parent == MI_NONE && b->first < end && b->last >= end
            && b->offset < dead->offset + dead->capacity && dead->offset < b->offset + b->capacity) {
            return 1;
        }
    }
    return 0;
}

/* Fill what died with the command over [index, end): buffers born in this region at or before it. Those born inside
 * its bodies died there; those born outside this region outlive it, for the next pass of a loop reads them again. */
static void poison(const mi_session *s, uint32_t region, uint32_t index, uint32_t end) {
    for (uint32_t i = 0; i < s->plan.header->buffers; i++) {
        const mi_plan_buffer *b = &s->plan.buffers[i];
        if (b->kind == MI_TEMP && b->parent == MI_NONE && b->last >= index && b->last < end && b->first <= index
            && b->first >= region && !is_taken(s, b, end)) {
            __builtin_memset(s->arena + b->offset, 0xFF, (size_t)b->capacity);
        }
    }
}

static int32_t run_region(run_state *r, uint32_t begin, uint32_t end) {
    int64_t *times = r->options == NULL ? NULL : r->options->command_ns;
    for (uint32_t i = begin; i < end;) {
        const mi_plan_command *c = &r->s->plan.commands[i];
        int64_t start = times == NULL ? 0 : mi_os_now();
        int32_t code = do_command(r, i, c);
        if (code != MI_OK) {
            return code;
        }
        if (times != NULL) {
            times[i] += mi_os_now() - start;
        }
        if (r->options != NULL && r->options->watch_count > 0) {
            copy_watched(r, i);
        }
        uint32_t next = i + 1 + (c->op == MI_IF ? c->b + c->c : c->op == MI_LOOP ? c->d : 0);
        if (r->s->arena_mode == MI_ARENA_POISON) {
            poison(r->s, begin, i, next);
        }
        if (r->s->blocks != NULL) {
            mi_blocks_release(r->s, begin, i, next);
        }
        i = next;
    }
    return MI_OK;
}

/* Outputs that no command writes in place: inputs and constants passed through, views, names listed twice. Those in the
 * pool stay there, and the caller learns where. */
static int32_t deliver(const run_state *r, mi_tensor *outputs) {
    const mi_plan *p = &r->s->plan;
    for (uint32_t i = 0; i < p->header->outputs; i++) {
        uint32_t b = p->outputs[i];
        int32_t code = hold(r, b);
        if (code != MI_OK) {
            return code;
        }
        unsigned char *at = r->s->address[b];
        if (at != NULL && p->buffers[mi_plan_root(p, b)].kind == MI_POOL) {
            outputs[i].data = at;
            outputs[i].bytes = r->s->bytes[b];
            continue;
        }
        if (at == NULL || r->s->bytes[b] > outputs[i].bytes) {
            return mi_fail(r->error, MI_BAD_ARGUMENT, "output '%s' needs %d bytes, the caller gave %d",
                           p->text + p->buffers[b].name, r->s->bytes[b], outputs[i].bytes);
        }
        if (r->s->bytes[b] > 0 && at != outputs[i].data) {
            copy_bytes(outputs[i].data, at, (size_t)r->s->bytes[b]);
        }
    }
    return MI_OK;
}

static int32_t start(mi_session *s, const mi_tensor *inputs, const mi_tensor *outputs, bool running,
                     mi_error *error) {
    int32_t code = mi_read_symbols(s, inputs, running, error);
    if (code != MI_OK) {
        return code;
    }
    mi_resolve(s, inputs, outputs, true);
    return mi_check_inputs(s, inputs, error);
}

int32_t mi_session_shapes(mi_session *s, const mi_tensor *inputs, mi_tensor *outputs, mi_error *error) {
    if (s == NULL || inputs == NULL || outputs == NULL) {
        return mi_fail(error, MI_BAD_ARGUMENT, "a session, its inputs and its outputs are needed");
    }
    mi_lock_take(&s->lock);
    int32_t code = start(s, inputs, outputs, false, error);
    if (code == MI_OK) {
        mi_fill_shapes(s, outputs);
        for (uint32_t i = 0; i < s->plan.header->outputs; i++) {
            uint32_t b = s->plan.outputs[i];
            bool late = s->plan.buffers[b].late != 0;
            bool pooled = s->plan.buffers[mi_plan_root(&s->plan, b)].kind == MI_POOL;
            outputs[i].bytes = pooled ? -1 : late ? (int64_t)s->plan.buffers[b].capacity : s->bytes[b];
        }
    }
    mi_lock_drop(&s->lock);
    return code;
}

int32_t mi_session_run(mi_session *s, const mi_tensor *inputs, mi_tensor *outputs, const mi_run_options *options,
                       mi_error *error) {
    if (s == NULL || inputs == NULL || outputs == NULL) {
        return mi_fail(error, MI_BAD_ARGUMENT, "a session, its inputs and its outputs are needed");
    }
    int32_t threads = options != NULL && options->threads > 0 ? options->threads : s->threads;
    if (threads > s->threads) {
        return mi_fail(error, MI_BAD_ARGUMENT, "%d threads asked of a session made for %d", (int64_t)threads,
                       (int64_t)s->threads);
    }
    mi_lock_take(&s->lock);
    run_state r = {s, inputs, outputs, options, threads, error};
    if (s->blocks != NULL) {
        mi_blocks_release_all(s);
    }
    int32_t code = start(s, inputs, outputs, true, error);
    if (code == MI_OK) {
        if (threads > 1) {
            mi_pool_reserve(threads);               /* there already, but for a child after fork */
        }
        if (s->arena_mode == MI_ARENA_POISON) {
            __builtin_memset(s->arena, 0xFF, (size_t)s->plan.header->arena_bytes);
        }
        code = run_region(&r, 0, s->plan.header->commands);
    }
    if (code == MI_OK) {
        mi_fill_shapes(s, outputs);
        code = deliver(&r, outputs);
    }
    for (uint32_t i = 0; code == MI_OK && options != NULL && options->symbols != NULL && i < s->plan.header->symbols; i++) {
        options->symbols[i] = s->symbols[i];
    }
    mi_lock_drop(&s->lock);
    return code;
}
