/* The interpreter of the command table. */
#include "mi_interpret.h"

#include "mi_blocks.h"
#include "mi_kernel.h"
#include "mi_os.h"
#include "mi_pool.h"

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

static int32_t lost(const mi_run *r, uint32_t command, uint32_t buffer) {
    const mi_plan *p = &r->s->plan;
    return mi_fail(r->error, MI_OUT_OF_RANGE, "command %d: buffer '%s' has no room for the size its dimensions give",
                   (int64_t)command, p->text + p->buffers[buffer].name);
}

/* Before a command uses a buffer: memory, if it lies in the pool. */
static int32_t hold(const mi_run *r, uint32_t buffer) {
    return r->s->blocks == NULL ? MI_OK : mi_blocks_hold(r->s, buffer, r->error);
}

static int32_t hold_all(const mi_run *r, const mi_plan_command *call) {
    int32_t code = MI_OK;
    for (uint32_t i = 0; code == MI_OK && i < call->c; i++) {
        code = mi_blocks_hold(r->s, r->s->plan.refs[call->b + i], r->error);
    }
    return code;
}

static void call_chunks(void *context, int64_t begin, int64_t end, int32_t thread) {
    const call_context *c = context;
    c->kernel->run(c->args, c->dims, begin, end, c->scratch + (size_t)thread * c->stride);
}

/* Calls that run together; `ends[i]` is the first chunk after those of call i, counted over all of them. */
typedef struct {
    call_context calls[MI_MOST_JOINED];
    int64_t ends[MI_MOST_JOINED];
    int32_t count;
} joined_context;

static void beside_chunks(void *context, int64_t begin, int64_t end, int32_t thread) {
    joined_context *j = context;
    int64_t first = 0;
    for (int32_t i = 0; i < j->count && first < end; first = j->ends[i++]) {
        int64_t from = begin > first ? begin : first, to = end < j->ends[i] ? end : j->ends[i];
        if (from < to) {
            call_chunks(&j->calls[i], from - first, to - first, thread);
        }
    }
}

static void matched_chunks(void *context, int64_t begin, int64_t end, int32_t thread) {
    joined_context *j = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        for (int32_t i = 0; i < j->count; i++) {
            call_chunks(&j->calls[i], chunk, chunk + 1, thread);
        }
    }
}

/* What only holds for calls whose dims depend on symbols that grow: a saturated dim is no size to run with, and scratch
 * reserved for modest sizes may be too little. */
static int32_t check_growth(const mi_run *r, uint32_t index, const mi_plan_command *c, const mi_kernel *kernel,
                            const int64_t *dims) {
    mi_session *s = r->s;
    for (uint32_t i = 0; i < c->e; i++) {
        if (dims[i] >= MI_TOO_LARGE || dims[i] <= -MI_TOO_LARGE) {
            return mi_fail(r->error, MI_NO_MEMORY, "command %d: kernel '%s' would compute %d elements or more",
                           (int64_t)index, kernel->name, MI_TOO_LARGE);
        }
    }
    int64_t scratch = kernel->scratch(dims);
    if (scratch <= (int64_t)s->scratch_stride || mi_reserve_scratch(s, scratch + scratch / 2, NULL) == MI_OK) {
        return MI_OK;
    }
    return mi_reserve_scratch(s, scratch, r->error);
}

/* The arguments and dims of a call, at the beginning of `args` and `dims`, and the chunks it has. */
static int32_t make_call(mi_run *r, uint32_t index, void **args, int64_t *dims, call_context *call, int64_t *chunks) {
    mi_session *s = r->s;
    const mi_plan_command *c = &s->plan.commands[index];
    const mi_kernel *kernel = &mi_kernels[c->a];
    int32_t code = s->blocks == NULL ? MI_OK : hold_all(r, c);
    if (code != MI_OK) {
        return code;
    }
    for (uint32_t i = 0; i < c->c; i++) {
        uint32_t buffer = s->plan.refs[c->b + i];
        args[i] = s->address[buffer];
        if (args[i] == NULL) {
            return lost(r, index, buffer);
        }
    }
    mi_gather_dims(s, c, dims);
    if (s->plan.grows && (code = check_growth(r, index, c, kernel, dims)) != MI_OK) {
        return code;
    }
    *chunks = kernel->chunks(dims);
    *chunks = *chunks > 0 ? *chunks : 0;
    if (*chunks > 0 && kernel->scratch(dims) > (int64_t)s->scratch_stride) {
        return mi_fail(r->error, MI_NO_MEMORY, "command %d: kernel '%s' needs more scratch than was reserved",
                       (int64_t)index, kernel->name);
    }
    *call = (call_context){kernel, args, dims, s->scratch, s->scratch_stride};
    return MI_OK;
}

static int32_t do_call(mi_run *r, uint32_t index) {
    call_context call;
    int64_t chunks;
    int32_t code = make_call(r, index, r->s->args, r->s->call_dims, &call, &chunks);
    if (code != MI_OK || chunks == 0) {
        return code;
    }
    if (r->threads == 1 || chunks == 1) {
        call_chunks(&call, 0, chunks, 0);
        return MI_OK;
    }
    mi_pool_run(&(mi_job){call_chunks, &call, chunks, r->threads});
    return MI_OK;
}

/* How many calls from `index` on run together: one where each must be looked at by itself, or one thread runs all. */
static int32_t joined(const mi_run *r, uint32_t index, uint32_t end) {
    const mi_plan_command *c = &r->s->plan.commands[index];
    bool watched = r->options != NULL && (r->options->command_ns != NULL || r->options->watch_count > 0);
    int32_t count = 1;
    if (r->threads == 1 || c->op != MI_CALL || watched || r->s->blocks != NULL) {
        return count;
    }
    while (index + (uint32_t)count < end && c[count].op == MI_CALL && c[count].value != MI_ALONE) {
        count++;
    }
    return count;
}

static int32_t do_joined(mi_run *r, uint32_t index, int32_t count) {
    mi_session *s = r->s;
    joined_context together = {.count = count};
    void **args = s->args;
    int64_t *dims = s->call_dims, chunks = 0, all = 0;
    for (int32_t i = 0; i < count; i++) {
        const mi_plan_command *c = &s->plan.commands[index + (uint32_t)i];
        int32_t code = make_call(r, index + (uint32_t)i, args, dims, &together.calls[i], &chunks);
        if (code != MI_OK) {
            return code;
        }
        together.ends[i] = all += chunks;
        args += c->c;
        dims += c->e;
    }
    bool matched = s->plan.commands[index + 1].value == MI_MATCHED;
    if (matched && all != chunks * count) {
        return mi_fail(r->error, MI_BAD_PLAN, "command %d: calls that are matched have other numbers of chunks",
                       (int64_t)index);
    }
    if (all > 0) {
        mi_pool_run(&(mi_job){matched ? matched_chunks : beside_chunks, &together, matched ? chunks : all, r->threads});
    }
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

static int32_t do_copy(mi_run *r, uint32_t index, const mi_plan_command *c) {
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

static int32_t do_fill(mi_run *r, uint32_t index, const mi_plan_command *c) {
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
static int32_t read_integer(mi_run *r, uint32_t index, uint32_t buffer, int64_t element, int64_t *value) {
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

static int32_t change_symbol(mi_run *r, uint32_t symbol, int64_t value) {
    int32_t code = mi_set_symbol(r->s, symbol, value, r->error);
    if (code == MI_OK) {
        mi_resolve(r->s, r->inputs, r->outputs, false);
    }
    return code;
}

static int32_t do_set_dim(mi_run *r, uint32_t index, const mi_plan_command *c) {
    int64_t value;
    int32_t code = read_integer(r, index, c->b, c->c, &value);
    return code == MI_OK ? change_symbol(r, c->a, value) : code;
}

/* All values are read before the first symbol changes: they may swap. */
static int32_t do_assign_dims(mi_run *r, const mi_plan_command *c) {
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

static int32_t do_check_dims(const mi_run *r, const mi_plan_command *c) {
    int64_t a = r->s->dims[c->a], b = r->s->dims[c->b];
    return a == b ? MI_OK : mi_fail(r->error, MI_OUT_OF_RANGE, "%s: %d is not %d", r->s->plan.text + c->c, a, b);
}

static int32_t run_region(mi_run *r, uint32_t begin, uint32_t end);

static int32_t do_if(mi_run *r, uint32_t index, const mi_plan_command *c) {
    int64_t chosen;
    int32_t code = read_integer(r, index, c->a, 0, &chosen);
    if (code != MI_OK) {
        return code;
    }
    uint32_t then = index + 1, orelse = then + c->b;
    return chosen ? run_region(r, then, orelse) : run_region(r, orelse, orelse + c->c);
}

static int32_t do_loop(mi_run *r, uint32_t index, const mi_plan_command *c) {
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

static int32_t do_command(mi_run *r, uint32_t index, const mi_plan_command *c) {
    switch (c->op) {
    case MI_CALL:
        return do_call(r, index);
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

static void copy_watched(mi_run *r, uint32_t index) {
    for (int32_t i = 0; i < r->options->watch_count; i++) {
        mi_watch *w = &r->options->watches[i];
        if (w->command != (int32_t)index || (uint32_t)w->buffer >= r->s->plan.header->buffers) {
            continue;
        }
        uint32_t root = mi_plan_root(&r->s->plan, (uint32_t)w->buffer);
        bool pooled = mi_in_pool(r->s, root);       /* its views move with it */
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

static int32_t run_region(mi_run *r, uint32_t begin, uint32_t end) {
    int64_t *times = r->options == NULL ? NULL : r->options->command_ns;
    for (uint32_t i = begin; i < end;) {
        const mi_plan_command *c = &r->s->plan.commands[i];
        int32_t together = joined(r, i, end);
        int64_t start = times == NULL ? 0 : mi_os_now();
        int32_t code = together > 1 ? do_joined(r, i, together) : do_command(r, i, c);
        if (code != MI_OK) {
            return code;
        }
        if (times != NULL) {
            times[i] += mi_os_now() - start;
        }
        if (r->options != NULL && r->options->watch_count > 0) {
            copy_watched(r, i);
        }
        uint32_t next = i + (uint32_t)together + (c->op == MI_IF ? c->b + c->c : c->op == MI_LOOP ? c->d : 0);
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

int32_t mi_interpret(mi_run *r) {
    return run_region(r, r->s->plan.header->prepares, r->s->plan.header->commands);
}

int32_t mi_prepare(mi_session *s, mi_error *error) {
    if (s->plan.header->prepares == 0) {
        return MI_OK;
    }
    mi_resolve(s, NULL, NULL, true);
    mi_run r = {.s = s, .threads = s->threads, .error = error};
    for (uint32_t i = 0; i < s->plan.header->prepares; i++) {
        int32_t code = do_call(&r, i);
        if (code != MI_OK) {
            return code;
        }
    }
    return MI_OK;
}
