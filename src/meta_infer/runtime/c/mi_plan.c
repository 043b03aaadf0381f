/* Parsing and validation of the command table. After mi_plan_parse has said MI_OK the interpreter indexes without
 * asking again, so every field that is used as an index, offset or count is checked here. */
#include "mi_plan.h"

#define LARGEST ((uint64_t)1 << 56)     /* sums of two sizes below this cannot overflow */

static const char magic[8] = "MI-PLAN";

static int32_t bad(mi_error *error, const char *what, int64_t index) {
    return mi_fail(error, MI_BAD_PLAN, "the command table is damaged: %s %d", what, index);
}

typedef struct {
    const unsigned char *at;
    uint64_t left;
    bool short_of;                      /* some section did not fit */
} cursor;

/* The next section of `count` records of `size` bytes. */
static const void *section(cursor *from, uint64_t count, uint64_t size) {
    const unsigned char *start = from->at;
    uint64_t bytes = count * size;      /* count < 2^32 and size < 2^8 */
    if (bytes > from->left) {
        from->short_of = true;
        return start;
    }
    from->at += bytes;
    from->left -= bytes;
    return start;
}

static bool cut_sections(mi_plan *plan, const unsigned char *bytes, uint64_t byte_count) {
    const mi_plan_header *h = plan->header;
    cursor from = {bytes + sizeof *h, byte_count - sizeof *h, false};
    plan->literals = section(&from, h->literals, sizeof *plan->literals);
    plan->symbols = section(&from, h->symbols, sizeof *plan->symbols);
    plan->buffers = section(&from, h->buffers, sizeof *plan->buffers);
    plan->commands = section(&from, h->commands, sizeof *plan->commands);
    plan->kernels = section(&from, h->kernels, sizeof *plan->kernels);
    plan->inputs = section(&from, h->inputs, sizeof *plan->inputs);
    plan->outputs = section(&from, h->outputs, sizeof *plan->outputs);
    plan->input_dims = section(&from, h->input_dims, sizeof *plan->input_dims);
    plan->refs = section(&from, h->refs, sizeof *plan->refs);
    plan->text = section(&from, h->text_bytes, 1);
    return !from.short_of && from.left == 0 && h->text_bytes > 0 && plan->text[h->text_bytes - 1] == '\0';
}

static bool is_dim(const mi_plan *plan, uint32_t dim) {
    return dim < (uint64_t)plan->header->dims + plan->header->literals;
}

static bool is_buffer(const mi_plan *plan, uint32_t buffer) {
    return buffer < plan->header->buffers;
}

static bool is_range(uint64_t first, uint64_t count, uint64_t limit) {
    return first <= limit && count <= limit - first;
}

static bool are_dims(const mi_plan *plan, uint32_t first, uint32_t count) {
    if (!is_range(first, count, plan->header->refs)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_dim(plan, plan->refs[first + i])) {
            return false;
        }
    }
    return true;
}

uint32_t mi_plan_root(const mi_plan *plan, uint32_t buffer) {
    while (plan->buffers[buffer].parent != MI_NONE) {
        buffer = plan->buffers[buffer].parent;
    }
    return buffer;
}

static bool is_writable(const mi_plan *plan, uint32_t buffer) {
    if (!is_buffer(plan, buffer)) {
        return false;
    }
    uint32_t kind = plan->buffers[mi_plan_root(plan, buffer)].kind;
    return kind == MI_OUTPUT || kind == MI_TEMP || kind == MI_POOL;
}

static bool has_bits(const mi_plan *plan, uint32_t buffer, uint32_t bits) {
    return is_buffer(plan, buffer) && plan->buffers[buffer].bits == bits;
}

static int32_t check_symbols(mi_plan *plan, mi_error *error) {
    for (uint32_t i = 0; i < plan->header->symbols; i++) {
        const mi_plan_symbol *s = &plan->symbols[i];
        if (s->lo < -(int64_t)LARGEST || s->hi < s->lo || s->hi > (int64_t)LARGEST || s->step < 1
            || s->name >= plan->header->text_bytes) {
            return bad(error, "symbol", i);
        }
        plan->grows |= s->grows != 0;
    }
    return MI_OK;
}

static bool is_buffer_ok(mi_plan *plan, uint32_t index) {
    const mi_plan_header *h = plan->header;
    const mi_plan_buffer *b = &plan->buffers[index];
    bool sized = b->bits == 4 || b->bits == 8 || b->bits == 16 || b->bits == 32 || b->bits == 64;
    if (!sized || b->kind > MI_PREPARED || !is_dim(plan, b->elements) || b->name >= h->text_bytes
        || b->rank > MI_MAX_RANK || !are_dims(plan, b->shape, b->rank) || b->capacity > LARGEST) {
        return false;
    }
    if (b->parent != MI_NONE) {
        /* An earlier parent: chains of views end, and addresses are known in index order. */
        return b->parent < index && is_dim(plan, b->view_offset);
    }
    plan->pools += b->kind == MI_POOL || (b->kind == MI_TEMP && b->outgrows);
    if (b->kind == MI_TEMP) {
        return b->offset % MI_ALIGNMENT == 0 && is_range(b->offset, b->capacity, h->arena_bytes);
    }
    if (b->kind == MI_PREPARED) {
        return b->offset % MI_ALIGNMENT == 0 && is_range(b->offset, b->capacity, h->prepared_bytes);
    }
    if (b->kind == MI_CONST) {
        return b->offset % MI_ALIGNMENT == 0 && is_range(b->offset, b->capacity, h->constant_bytes);
    }
    return true;
}

static int32_t check_interface(const mi_plan *plan, mi_error *error) {
    const mi_plan_header *h = plan->header;
    for (uint32_t i = 0; i < h->inputs; i++) {
        uint32_t b = plan->inputs[i];
        if (!is_buffer(plan, b) || plan->buffers[b].kind != MI_INPUT || plan->buffers[b].parent != MI_NONE) {
            return bad(error, "input", i);
        }
    }
    for (uint32_t i = 0; i < h->outputs; i++) {
        if (!is_buffer(plan, plan->outputs[i])) {
            return bad(error, "output", i);
        }
    }
    for (uint32_t i = 0; i < h->input_dims; i++) {
        const mi_plan_input_dim *d = &plan->input_dims[i];
        if (d->symbol >= h->symbols || d->input >= h->inputs || d->axis >= plan->buffers[plan->inputs[d->input]].rank) {
            return bad(error, "input dimension", i);
        }
    }
    return MI_OK;
}

static bool is_call_ok(mi_plan *plan, const mi_plan_command *c) {
    if (c->a >= plan->header->kernels || !is_range(c->b, c->c, plan->header->refs) || !are_dims(plan, c->d, c->e)
        || c->c != plan->kernels[c->a].params || c->e != plan->kernels[c->a].dims) {
        return false;
    }
    for (uint32_t i = 0; i < c->c; i++) {
        if (!is_buffer(plan, plan->refs[c->b + i])) {
            return false;
        }
    }
    return c->value <= MI_MATCHED;
}

/* What the calls so far that run together need, the last of them at hand. */
typedef struct {
    uint64_t args, dims;
    uint32_t count;                 /* 0: the command before was no call of this region */
    uint64_t kind;
} joined_calls;

static bool is_joined_ok(mi_plan *plan, const mi_plan_command *c, joined_calls *together) {
    if (c->op != MI_CALL) {
        *together = (joined_calls){0};
        return true;
    }
    if (c->value == MI_ALONE) {
        *together = (joined_calls){0};
    } else if (together->count == 0 || together->count == MI_MOST_JOINED
               || (together->count > 1 && together->kind != c->value)) {
        return false;
    }
    *together = (joined_calls){together->args + c->c, together->dims + c->e, together->count + 1, c->value};
    plan->most_args = together->args > plan->most_args ? (uint32_t)together->args : plan->most_args;
    plan->most_dims = together->dims > plan->most_dims ? (uint32_t)together->dims : plan->most_dims;
    return true;
}

static bool is_assignment_ok(mi_plan *plan, const mi_plan_command *c) {
    if (c->b != c->d || !is_range(c->a, c->b, plan->header->refs) || !are_dims(plan, c->c, c->d)) {
        return false;
    }
    for (uint32_t i = 0; i < c->b; i++) {
        if (plan->refs[c->a + i] >= plan->header->symbols) {
            return false;
        }
    }
    plan->most_dims = c->d > plan->most_dims ? c->d : plan->most_dims;
    return true;
}

static bool is_command_ok(mi_plan *plan, const mi_plan_command *c) {
    if (c->queue != 0 || !is_range(c->waits, c->wait_count, plan->header->refs)) {
        return false;                   /* a processor has one queue: its order is the program's */
    }
    switch (c->op) {
    case MI_CALL:
        return is_call_ok(plan, c);
    case MI_COPY:
        return is_buffer(plan, c->a) && is_writable(plan, c->b) && is_dim(plan, c->c) && is_dim(plan, c->d)
            && is_dim(plan, c->e) && plan->buffers[c->a].bits == plan->buffers[c->b].bits;
    case MI_FILL:
        return is_writable(plan, c->a) && plan->buffers[c->a].bits >= 8;
    case MI_SET_DIM:
        return c->a < plan->header->symbols && (has_bits(plan, c->b, 64) || has_bits(plan, c->b, 32));
    case MI_IF:
        return has_bits(plan, c->a, 8);
    case MI_LOOP:
        return (c->a == MI_NONE || has_bits(plan, c->a, 64)) && (c->b == MI_NONE || has_bits(plan, c->b, 8))
            && has_bits(plan, c->c, 64) && is_writable(plan, c->c)
            && (c->e == MI_NONE || c->e < plan->header->symbols);
    case MI_WAIT:
        return true;
    case MI_ASSIGN_DIMS:
        return is_assignment_ok(plan, c);
    case MI_CHECK_DIMS:
        return is_dim(plan, c->a) && is_dim(plan, c->b) && c->c < plan->header->text_bytes;
    }
    return false;
}

/* Calls that need nothing of a run: no dims, no memory of the caller, nothing that is sized while running. */
static int32_t check_prepares(const mi_plan *plan, mi_error *error) {
    if (plan->header->prepares > plan->header->commands) {
        return bad(error, "commands before a run:", plan->header->prepares);
    }
    for (uint32_t i = 0; i < plan->header->prepares; i++) {
        const mi_plan_command *c = &plan->commands[i];
        bool fits = c->op == MI_CALL && c->e == 0;
        for (uint32_t k = 0; fits && k < c->c; k++) {
            uint32_t kind = plan->buffers[mi_plan_root(plan, plan->refs[c->b + k])].kind;
            fits = kind == MI_CONST || kind == MI_PREPARED;
        }
        if (!fits) {
            return bad(error, "a command before a run,", i);
        }
    }
    return MI_OK;
}

static int32_t check_commands(mi_plan *plan, uint64_t begin, uint64_t end, int depth, mi_error *error) {
    if (depth > MI_MAX_DEPTH) {
        return bad(error, "regions are nested too deep at command", (int64_t)begin);
    }
    joined_calls together = {0};
    for (uint64_t i = begin; i < end; i++) {
        const mi_plan_command *c = &plan->commands[i];
        if (i == plan->header->prepares) {
            together = (joined_calls){0};
        }
        if (!is_command_ok(plan, c) || !is_joined_ok(plan, c, &together)) {
            return bad(error, "command", (int64_t)i);
        }
        if (c->op != MI_IF && c->op != MI_LOOP) {
            continue;
        }
        uint64_t first = c->op == MI_IF ? c->b : c->d, second = c->op == MI_IF ? c->c : 0, body = i + 1;
        if (first + second > end - body) {
            return bad(error, "a region leaves its parent at command", (int64_t)i);
        }
        int32_t code = check_commands(plan, body, body + first, depth + 1, error);
        if (code == MI_OK) {
            code = check_commands(plan, body + first, body + first + second, depth + 1, error);
        }
        if (code != MI_OK) {
            return code;
        }
        i += first + second;
    }
    return MI_OK;
}

int32_t mi_plan_parse(mi_plan *plan, const void *bytes, size_t byte_count, size_t constant_bytes, mi_error *error) {
    const mi_plan_header *h = bytes;
    *plan = (mi_plan){.header = h};
    if (bytes == NULL || (uintptr_t)bytes % 8 != 0 || byte_count < sizeof *h) {
        return mi_fail(error, MI_BAD_PLAN, "the command table is cut short: %d bytes", (int64_t)byte_count);
    }
    for (size_t i = 0; i < sizeof magic; i++) {
        if (h->magic[i] != magic[i]) {
            return mi_fail(error, MI_BAD_PLAN, "this is not a command table");
        }
    }
    if (h->version != MI_PLAN_VERSION) {
        return mi_fail(error, MI_BAD_PLAN, "the command table has version %d, this runtime reads %d",
                       (int64_t)h->version, (int64_t)MI_PLAN_VERSION);
    }
    if (h->total_bytes != byte_count || h->constant_bytes != constant_bytes || h->arena_bytes > LARGEST
        || h->prepared_bytes > LARGEST || !cut_sections(plan, bytes, byte_count)) {
        return mi_fail(error, MI_BAD_PLAN, "the command table is damaged: sizes of its sections do not add up");
    }
    int32_t code = check_symbols(plan, error);
    for (uint32_t i = 0; code == MI_OK && i < h->buffers; i++) {
        code = is_buffer_ok(plan, i) ? MI_OK : bad(error, "buffer", i);
    }
    for (uint32_t i = 0; code == MI_OK && i < h->kernels; i++) {
        code = plan->kernels[i].name < h->text_bytes ? MI_OK : bad(error, "kernel", i);
    }
    if (code == MI_OK) {
        code = check_interface(plan, error);
    }
    code = code == MI_OK ? check_commands(plan, 0, h->commands, 0, error) : code;
    return code == MI_OK ? check_prepares(plan, error) : code;
}
