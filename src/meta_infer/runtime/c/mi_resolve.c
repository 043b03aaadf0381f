/* From the inputs' shapes to symbols, from symbols to dims, from dims to the size and address of every buffer. */
#include "mi_kernel.h"
#include "mi_os.h"
#include "mi_session.h"

static const char *text_of(const mi_session *s, uint32_t name) {
    return s->plan.text + name;
}

static bool in_range(const mi_plan_symbol *symbol, int64_t value) {
    return value >= symbol->lo && value <= symbol->hi && (value - symbol->lo) % symbol->step == 0;
}

static const char *input_name(const mi_session *s, uint32_t input) {
    return text_of(s, s->plan.buffers[s->plan.inputs[input]].name);
}

int32_t mi_read_symbols(mi_session *s, const mi_tensor *inputs, bool running, mi_error *error) {
    const mi_plan_header *h = s->plan.header;
    for (uint32_t i = 0; i < h->inputs; i++) {
        int64_t rank = s->plan.buffers[s->plan.inputs[i]].rank;
        if (inputs[i].rank != rank) {
            return mi_fail(error, MI_BAD_INPUT, "input '%s' has %d dimensions, expected %d", input_name(s, i),
                           (int64_t)inputs[i].rank, rank);
        }
    }
    for (uint32_t i = 0; i < h->symbols; i++) {
        s->symbols[i] = running && s->plan.symbols[i].grows ? s->plan.symbols[i].lo : s->plan.symbols[i].hi;
    }
    for (uint32_t i = 0; i < h->input_dims; i++) {
        const mi_plan_input_dim *d = &s->plan.input_dims[i];
        const mi_plan_symbol *symbol = &s->plan.symbols[d->symbol];
        int64_t value = inputs[d->input].shape[d->axis];
        if (!in_range(symbol, value)) {
            return mi_fail(error, MI_BAD_INPUT, "input '%s': dimension %d (%s) is %d, allowed are %d..%d in steps of %d",
                           input_name(s, d->input), (int64_t)d->axis, text_of(s, symbol->name), value,
                           symbol->lo, symbol->hi, symbol->step);
        }
        s->symbols[d->symbol] = value;
    }
    return MI_OK;
}

int32_t mi_check_inputs(mi_session *s, const mi_tensor *inputs, mi_error *error) {
    for (uint32_t i = 0; i < s->plan.header->inputs; i++) {
        uint32_t index = s->plan.inputs[i];
        const mi_plan_buffer *b = &s->plan.buffers[index];
        for (uint32_t axis = 0; axis < b->rank; axis++) {
            int64_t wanted = s->dims[s->plan.refs[b->shape + axis]];
            if (inputs[i].shape[axis] != wanted) {
                return mi_fail(error, MI_BAD_INPUT, "input '%s': dimension %d is %d, expected %d", input_name(s, i),
                               (int64_t)axis, inputs[i].shape[axis], wanted);
            }
        }
        if (s->bytes[index] < 0 || inputs[i].bytes < s->bytes[index]) {
            return mi_fail(error, MI_BAD_INPUT, "input '%s' holds %d bytes, its shape needs %d", input_name(s, i),
                           inputs[i].bytes, s->bytes[index]);
        }
    }
    return MI_OK;
}

void mi_fill_shapes(mi_session *s, mi_tensor *outputs) {
    for (uint32_t i = 0; i < s->plan.header->outputs; i++) {
        const mi_plan_buffer *b = &s->plan.buffers[s->plan.outputs[i]];
        outputs[i].rank = (int32_t)b->rank;
        for (uint32_t axis = 0; axis < b->rank; axis++) {
            outputs[i].shape[axis] = s->dims[s->plan.refs[b->shape + axis]];
        }
    }
}

int32_t mi_set_symbol(mi_session *s, uint32_t symbol, int64_t value, mi_error *error) {
    const mi_plan_symbol *info = &s->plan.symbols[symbol];
    if (!in_range(info, value)) {
        return mi_fail(error, MI_OUT_OF_RANGE, "dimension '%s' became %d while running, allowed are %d..%d in steps of %d",
                       text_of(s, info->name), value, info->lo, info->hi, info->step);
    }
    s->symbols[symbol] = value;
    return MI_OK;
}

void mi_gather_dims(const mi_session *s, const mi_plan_command *call, int64_t *dims) {
    for (uint32_t i = 0; i < call->e; i++) {
        dims[i] = s->dims[s->plan.refs[call->d + i]];
    }
}

/* Bytes that `elements` of `bits` each take, or -1 when that is no size. */
static int64_t bytes_of(int64_t elements, uint32_t bits) {
    return elements < 0 || elements >= MI_TOO_LARGE ? -1 : (elements * bits + 7) / 8;
}

/* Bytes from the beginning of its parent to a view, or -1 when the view does not lie in it. */
static int64_t view_offset(const mi_session *s, uint32_t view) {
    const mi_plan_buffer *b = &s->plan.buffers[view];
    int64_t offset = s->dims[b->view_offset];
    if (s->bytes[view] < 0 || offset < 0 || offset >= MI_TOO_LARGE || offset * b->bits % 8 != 0) {
        return -1;
    }
    offset = offset * b->bits / 8;
    return s->bytes[view] <= s->bytes[b->parent] - offset ? offset : -1;
}

static unsigned char *view_address(const mi_session *s, uint32_t view) {
    unsigned char *parent = s->address[s->plan.buffers[view].parent];
    int64_t offset = view_offset(s, view);
    return parent == NULL || offset < 0 ? NULL : parent + offset;
}

unsigned char *mi_address_now(const mi_session *s, uint32_t buffer) {
    int64_t offset = 0;
    for (; s->plan.buffers[buffer].parent != MI_NONE; buffer = s->plan.buffers[buffer].parent) {
        int64_t step = view_offset(s, buffer);
        if (step < 0) {
            return NULL;
        }
        offset += step;
    }
    return s->address[buffer] == NULL ? NULL : s->address[buffer] + offset;
}

size_t mi_separate_room(const mi_plan_buffer *buffer) {
    size_t page = mi_os_page_bytes();
    return ((size_t)buffer->capacity / page + 1) * page;
}

_Alignas(MI_ALIGNMENT) unsigned char mi_nothing[MI_ALIGNMENT];

static unsigned char *pool_address(const mi_session *s, uint32_t index, int64_t bytes) {
    const mi_block *block = s->blocks[index];
    return block != NULL && bytes <= block->bytes ? block->data : NULL;     /* the next command to use it will grow it */
}

/* `before` are the bytes that the buffer had until now, where it had an address. */
static unsigned char *root_address(mi_session *s, uint32_t index, int64_t bytes, int64_t before, bool moving) {
    const mi_plan_buffer *b = &s->plan.buffers[index];
    if (b->kind == MI_POOL || (b->kind == MI_TEMP && b->outgrows && (uint64_t)bytes > b->capacity)) {
        return pool_address(s, index, bytes);
    }
    if (b->kind == MI_INPUT || b->kind == MI_OUTPUT) {
        return NULL;                                /* the caller's: bound afterwards, from its own list */
    }
    if ((uint64_t)bytes > b->capacity) {
        return NULL;
    }
    if (b->kind == MI_PREPARED) {
        return s->prepared + b->offset;
    }
    if (b->kind == MI_CONST) {
        return (unsigned char *)(uintptr_t)s->constants + b->offset;
    }
    if (s->separate == NULL) {
        return s->arena + b->offset;
    }
    uint64_t room = mi_separate_room(b);
    uint64_t taken = ((uint64_t)bytes + MI_ALIGNMENT - 1) / MI_ALIGNMENT * MI_ALIGNMENT;
    unsigned char *least = s->separate[index] + (room - taken);
    unsigned char *now = s->address[index];
    if (moving || now == NULL) {
        return least;
    }
    if (now > least) {                              /* it grew: what it holds moves along, as it would stay in an arena */
        __builtin_memmove(least, now, (size_t)before);
    }
    return now > least ? least : now;
}

static void bind(mi_session *s, const mi_tensor *tensors, const uint32_t *buffers, uint32_t count, uint32_t kind) {
    for (uint32_t i = count; i-- > 0;) {            /* backwards, so that the first of equal names wins */
        uint32_t index = buffers[i];
        const mi_plan_buffer *b = &s->plan.buffers[index];
        if (b->kind != kind || b->parent != MI_NONE || s->bytes[index] < 0 || tensors[i].bytes < s->bytes[index]) {
            continue;
        }
        s->address[index] = s->bytes[index] == 0 ? mi_nothing : tensors[i].data;
    }
}

void mi_resolve(mi_session *s, const mi_tensor *inputs, const mi_tensor *outputs, bool moving) {
    const mi_plan *p = &s->plan;
    mi_eval_dims(s->symbols, s->dims);
    for (uint32_t i = 0; i < p->header->buffers; i++) {
        const mi_plan_buffer *b = &p->buffers[i];
        int64_t before = s->bytes[i];
        s->bytes[i] = bytes_of(s->dims[b->elements], b->bits);
        if (b->parent == MI_NONE) {
            s->address[i] = s->bytes[i] < 0 ? NULL : root_address(s, i, s->bytes[i], before, moving);
        }
    }
    if (inputs != NULL) {
        bind(s, inputs, p->inputs, p->header->inputs, MI_INPUT);
        bind(s, outputs, p->outputs, p->header->outputs, MI_OUTPUT);
    }
    for (uint32_t i = 0; i < p->header->buffers; i++) {
        if (p->buffers[i].parent != MI_NONE) {
            s->address[i] = view_address(s, i);
        }
    }
}
