/* One run of a session, from the caller's tensors to the caller's tensors. */
#include "mi_runtime.h"

#include "mi_blocks.h"
#include "mi_interpret.h"
#include "mi_pool.h"

/* Outputs that no command writes in place: inputs and constants passed through, views, names listed twice. Those in the
 * pool stay there, and the caller learns where. */
static int32_t deliver(const mi_run *r, mi_tensor *outputs) {
    const mi_plan *p = &r->s->plan;
    for (uint32_t i = 0; i < p->header->outputs; i++) {
        uint32_t b = p->outputs[i];
        int32_t code = r->s->blocks == NULL ? MI_OK : mi_blocks_hold(r->s, b, r->error);
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
            __builtin_memmove(outputs[i].data, at, (size_t)r->s->bytes[b]);
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
    mi_run r = {s, inputs, outputs, options, threads, error};
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
        code = mi_interpret(&r);
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
