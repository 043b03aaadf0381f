/* Making and unmaking a session: all memory a run needs is reserved here, but for what mi_blocks.c obtains. */
#include "mi_session.h"

#include "mi_blocks.h"
#include "mi_interpret.h"
#include "mi_kernel.h"
#include "mi_os.h"
#include "mi_pool.h"

/* What a symbol that grows is taken for when a session reserves scratch; a run that needs more reserves more. */
#define MODEST 1024
/* Scratch for each thread beyond which that would be too bold a guess. */
#define GUESSED ((int64_t)64 << 20)

int32_t mi_api_version(void) {
    return MI_API_VERSION;
}

int64_t mi_allocations(void) {
    return mi_os_allocations();
}

int32_t mi_plan_check(const void *plan, size_t plan_bytes, size_t constant_bytes, mi_error *error) {
    mi_plan parsed;
    return mi_plan_parse(&parsed, plan, plan_bytes, constant_bytes, error);
}

static bool same_text(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* The table was made for exactly the kernels and dims of this shared object. */
static int32_t check_code(const mi_plan *plan, mi_error *error) {
    if (plan->header->symbols != (uint32_t)mi_symbol_count || plan->header->dims != (uint32_t)mi_dim_count) {
        return mi_fail(error, MI_BAD_PLAN, "the command table has %d symbols and %d dims, the code %d and %d",
                       (int64_t)plan->header->symbols, (int64_t)plan->header->dims, (int64_t)mi_symbol_count,
                       (int64_t)mi_dim_count);
    }
    if (plan->header->kernels != (uint32_t)mi_kernel_count) {
        return mi_fail(error, MI_BAD_PLAN, "the command table names %d kernels, the code has %d",
                       (int64_t)plan->header->kernels, (int64_t)mi_kernel_count);
    }
    for (uint32_t i = 0; i < plan->header->kernels; i++) {
        const char *name = plan->text + plan->kernels[i].name;
        if (!same_text(name, mi_kernels[i].name)) {
            return mi_fail(error, MI_BAD_PLAN, "kernel %d is '%s' in the command table, '%s' in the code", (int64_t)i,
                           name, mi_kernels[i].name);
        }
    }
    return MI_OK;
}

/* Carves tables out of one mapping; with `base` NULL it only counts. */
typedef struct {
    unsigned char *base;
    size_t used;
} carver;

static void *carve(carver *from, uint64_t count, size_t size) {
    size_t start = (from->used + MI_ALIGNMENT - 1) / MI_ALIGNMENT * MI_ALIGNMENT;
    from->used = start + count * size;
    return from->base == NULL ? NULL : from->base + start;
}

static void carve_tables(carver *from, mi_session *s, const mi_plan *plan, bool separate) {
    const mi_plan_header *h = plan->header;
    s->symbols = carve(from, h->symbols, sizeof *s->symbols);
    s->dims = carve(from, (uint64_t)h->dims + h->literals, sizeof *s->dims);
    s->address = carve(from, h->buffers, sizeof *s->address);
    s->bytes = carve(from, h->buffers, sizeof *s->bytes);
    s->args = carve(from, plan->most_args, sizeof *s->args);
    s->call_dims = carve(from, plan->most_dims, sizeof *s->call_dims);
    if (plan->pools > 0) {
        s->pools = carve(from, plan->pools, sizeof *s->pools);
        s->blocks = carve(from, h->buffers, sizeof *s->blocks);
    }
    if (separate) {
        s->separate = carve(from, h->buffers, sizeof *s->separate);
    }
}

static mi_session *new_workspace(const mi_session_config *config, const mi_plan *plan, mi_error *error) {
    bool separate = config->arena == MI_ARENA_SEPARATE;
    mi_session counted = {0};
    carver measure = {NULL, 0};
    carve(&measure, 1, sizeof(mi_session));
    carve(&measure, config->plan_bytes, 1);
    carve_tables(&measure, &counted, plan, separate);
    carver from = {mi_os_map(measure.used), 0};
    if (from.base == NULL) {
        mi_fail(error, MI_NO_MEMORY, "cannot reserve %d bytes for the tables of a session", (int64_t)measure.used);
        return NULL;
    }
    mi_session *s = carve(&from, 1, sizeof(mi_session));
    unsigned char *copy = carve(&from, config->plan_bytes, 1);
    carve_tables(&from, s, plan, separate);
    for (size_t i = 0; i < config->plan_bytes; i++) {
        copy[i] = ((const unsigned char *)config->plan)[i];
    }
    /* Parsed again: the copy is what runs, and the caller's bytes may have changed since the first look. */
    if (mi_plan_parse(&s->plan, copy, config->plan_bytes, config->constant_bytes, error) != MI_OK
        || s->plan.header->buffers != plan->header->buffers || s->plan.most_args != plan->most_args
        || s->plan.most_dims != plan->most_dims || s->plan.pools != plan->pools) {
        mi_os_unmap(from.base, measure.used);
        return NULL;
    }
    for (uint32_t i = 0, count = 0; i < s->plan.header->buffers && s->pools != NULL; i++) {
        const mi_plan_buffer *b = &s->plan.buffers[i];
        if (b->parent == MI_NONE && (b->kind == MI_POOL || (b->kind == MI_TEMP && b->outgrows))) {
            s->pools[count++] = i;
        }
    }
    s->workspace_bytes = measure.used;
    return s;
}

/* The most scratch any call asks for with the symbols as they are. */
static int64_t scratch_now(mi_session *s) {
    int64_t most = 0;
    mi_resolve(s, NULL, NULL, true);
    for (uint32_t i = 0; i < s->plan.header->commands; i++) {
        const mi_plan_command *c = &s->plan.commands[i];
        if (c->op != MI_CALL) {
            continue;
        }
        mi_gather_dims(s, c, s->call_dims);
        int64_t bytes = mi_kernels[c->a].scratch(s->call_dims);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int32_t mi_reserve_scratch(mi_session *s, int64_t bytes, mi_error *error) {
    size_t page = mi_os_page_bytes(), stride = ((size_t)bytes + page) / page * page;    /* threads do not share a page */
    bool possible = bytes <= (int64_t)1 << 40 && (uint64_t)bytes < SIZE_MAX / (2 * MI_MAX_THREADS);
    unsigned char *scratch = possible ? mi_os_map(stride * (size_t)s->threads) : NULL;
    if (scratch == NULL) {
        return mi_fail(error, MI_NO_MEMORY, "cannot reserve %d bytes of scratch for each of %d threads", bytes,
                       (int64_t)s->threads);
    }
    mi_os_unmap(s->scratch, s->scratch_bytes);
    s->scratch = scratch;
    s->scratch_stride = stride;
    s->scratch_bytes = stride * (size_t)s->threads;
    return MI_OK;
}

/* The least value of a symbol that is not below `wanted`, or the largest there is. */
static int64_t value_from(const mi_plan_symbol *symbol, int64_t wanted) {
    int64_t steps = wanted <= symbol->lo ? 0 : (wanted - symbol->lo - 1) / symbol->step + 1;
    return steps > (symbol->hi - symbol->lo) / symbol->step ? symbol->hi : symbol->lo + steps * symbol->step;
}

static int32_t reserve_scratch(mi_session *s, mi_error *error) {
    int64_t most = 0;
    for (int pass = 0; pass < 2; pass++) {          /* at the upper and at the lower ends of all sizes */
        for (uint32_t i = 0; i < s->plan.header->symbols; i++) {
            const mi_plan_symbol *symbol = &s->plan.symbols[i];
            int64_t large = symbol->grows ? value_from(symbol, MODEST) : symbol->hi;
            s->symbols[i] = pass == 0 ? large : value_from(symbol, 0);
        }
        int64_t bytes = scratch_now(s);
        most = bytes > most && !(s->plan.grows && bytes > GUESSED) ? bytes : most;
    }
    /* A kernel whose need is largest in between finds a spare half. */
    return mi_reserve_scratch(s, most + (s->plan.header->symbols > 0 ? most / 2 : 0), error);
}

static int32_t reserve_buffers(mi_session *s, mi_error *error) {
    const mi_plan *p = &s->plan;
    if (p->header->prepared_bytes > 0) {
        s->prepared = mi_os_map((size_t)p->header->prepared_bytes);
        if (s->prepared == NULL) {
            return mi_fail(error, MI_NO_MEMORY, "cannot reserve %d bytes for what is prepared when a model is loaded",
                           (int64_t)p->header->prepared_bytes);
        }
    }
    if (s->separate == NULL) {
        s->arena = mi_os_map((size_t)p->header->arena_bytes + MI_ALIGNMENT);
        return s->arena != NULL ? MI_OK : mi_fail(error, MI_NO_MEMORY, "cannot reserve an arena of %d bytes",
                                                  (int64_t)p->header->arena_bytes);
    }
    for (uint32_t i = 0; i < p->header->buffers; i++) {
        if (p->buffers[i].kind != MI_TEMP || p->buffers[i].parent != MI_NONE) {
            continue;
        }
        s->separate[i] = mi_os_map_guarded(mi_separate_room(&p->buffers[i]));
        if (s->separate[i] == NULL) {
            return mi_fail(error, MI_NO_MEMORY, "cannot reserve %d bytes for one buffer", (int64_t)p->buffers[i].capacity);
        }
    }
    return MI_OK;
}

/* Read every page, and write those of our own, so that the system provides them now. */
static void touch(const mi_session *s) {
    size_t page = mi_os_page_bytes();
    for (uint32_t k = 0; k < s->plan.header->buffers; k++) {     /* other targets' constants lie among them: not those */
        const mi_plan_buffer *b = &s->plan.buffers[k];
        uint64_t end = b->kind == MI_CONST && b->parent == MI_NONE ? b->offset + b->capacity : 0;
        for (uint64_t i = b->offset / page * page; i < end; i += page) {
            (void)*(const volatile unsigned char *)(s->constants + i);
        }
    }
    for (size_t i = 0; s->arena != NULL && i < s->plan.header->arena_bytes; i += page) {
        *(volatile unsigned char *)(s->arena + i) = 0;
    }
    for (size_t i = 0; i < s->scratch_bytes; i += page) {
        *(volatile unsigned char *)(s->scratch + i) = 0;
    }
}

int32_t mi_session_create(mi_session **session, const mi_session_config *config, mi_error *error) {
    mi_plan plan;
    if (session == NULL || config == NULL || config->threads < 0 || config->threads > MI_MAX_THREADS
        || (config->constants == NULL && config->constant_bytes > 0) || (uint32_t)config->arena > MI_ARENA_POISON) {
        return mi_fail(error, MI_BAD_ARGUMENT, "a session needs a plan, its constants and 0..%d threads",
                       (int64_t)MI_MAX_THREADS);
    }
    int32_t code = mi_plan_parse(&plan, config->plan, config->plan_bytes, config->constant_bytes, error);
    code = code == MI_OK ? check_code(&plan, error) : code;
    if (code != MI_OK) {
        return code;
    }
    mi_session *s = new_workspace(config, &plan, error);
    if (s == NULL) {
        return MI_NO_MEMORY;
    }
    int32_t processors = mi_os_cpu_count();
    s->threads = config->threads > 0 ? config->threads : processors < MI_MAX_THREADS ? processors : MI_MAX_THREADS;
    s->arena_mode = config->arena;
    s->constants = config->constants;
    mi_lock_init(&s->lock);
    for (uint32_t i = 0; i < s->plan.header->literals; i++) {
        s->dims[s->plan.header->dims + i] = s->plan.literals[i];
    }
    code = reserve_buffers(s, error);
    code = code == MI_OK ? reserve_scratch(s, error) : code;
    if (code == MI_OK) {
        mi_pool_reserve(s->threads);
        code = mi_prepare(s, error);
    }
    if (code != MI_OK) {
        mi_session_destroy(s);
        return code;
    }
    if (config->touch) {
        touch(s);
    }
    *session = s;
    return MI_OK;
}

void mi_session_destroy(mi_session *s) {
    if (s == NULL) {
        return;
    }
    const mi_plan *p = &s->plan;
    for (uint32_t i = 0; s->separate != NULL && i < p->header->buffers; i++) {
        mi_os_unmap_guarded(s->separate[i], mi_separate_room(&p->buffers[i]));
    }
    if (s->arena != NULL) {
        mi_os_unmap(s->arena, (size_t)p->header->arena_bytes + MI_ALIGNMENT);
    }
    if (s->prepared != NULL) {
        mi_os_unmap(s->prepared, (size_t)p->header->prepared_bytes);
    }
    if (s->blocks != NULL) {
        mi_blocks_unmap(s);
    }
    mi_os_unmap(s->scratch, s->scratch_bytes);
    mi_os_unmap(s, s->workspace_bytes);
}

int32_t mi_session_describe(const mi_session *s, mi_session_info *info) {
    if (s == NULL || info == NULL) {
        return MI_BAD_ARGUMENT;
    }
    const mi_plan_header *h = s->plan.header;
    *info = (mi_session_info){
        .inputs = (int32_t)h->inputs, .outputs = (int32_t)h->outputs, .symbols = (int32_t)h->symbols,
        .dims = (int32_t)h->dims, .buffers = (int32_t)h->buffers, .commands = (int32_t)h->commands,
        .kernels = (int32_t)h->kernels, .threads = s->threads, .arena_bytes = (int64_t)h->arena_bytes,
        .scratch_bytes = (int64_t)s->scratch_bytes, .constant_bytes = (int64_t)h->constant_bytes,
        .prepared_bytes = (int64_t)h->prepared_bytes,
    };
    return MI_OK;
}
