/* A session: one plan with the memory to run it. Shared by its making (mi_session.c), its sizes (mi_resolve.c) and
 * running it (mi_runtime.c, mi_interpret.c). */
#ifndef MI_SESSION_H
#define MI_SESSION_H

#include <stdbool.h>

#include "mi_lock.h"
#include "mi_plan.h"

/* Memory of a pool buffer: the beginning of a mapping, the contents behind it. */
typedef struct mi_block {
    _Alignas(MI_ALIGNMENT)          /* the contents keep the alignment of buffers */
    struct mi_block *next;          /* of the free ones */
    size_t room;                    /* bytes for contents */
    unsigned char *data;            /* where they begin */
    int64_t bytes;                  /* what they were laid out for */
} mi_block;

struct mi_session {
    mi_plan plan;                   /* of the copy that lies behind this struct */
    size_t workspace_bytes;         /* of the mapping that holds this struct and every table below */
    mi_lock lock;
    int32_t threads, arena_mode;

    const unsigned char *constants;
    unsigned char *arena;
    unsigned char *prepared;        /* filled when the session is made, then only read */
    unsigned char *scratch;         /* `scratch_stride` bytes for each thread */
    size_t scratch_stride, scratch_bytes;
    uint32_t *pools;                /* the root buffers of kind MI_POOL, plan.pools of them */
    mi_block **blocks;              /* of every buffer: what one of MI_POOL has obtained, else NULL; no table without */
    mi_block *free_blocks;          /* obtained before, and given back */
    unsigned char **separate;       /* MI_ARENA_SEPARATE: the mapping of each root temp, else NULL */

    int64_t *symbols;
    int64_t *dims;                  /* evaluated, then literals: what "dim" fields index */
    unsigned char **address;        /* of every buffer now; NULL while it has none that is valid */
    int64_t *bytes;                 /* of every buffer now; -1 when its size makes no sense */
    void **args;                    /* of the calls being made */
    int64_t *call_dims;
};

#pragma GCC visibility push(hidden)

/* Bytes between the guard pages of a buffer under MI_ARENA_SEPARATE: whole pages. */
size_t mi_separate_room(const mi_plan_buffer *buffer);

/* Read the symbols out of the inputs' shapes. Those that only running can tell take their largest value; with
 * `running`, those that grow take their least. */
int32_t mi_read_symbols(mi_session *s, const mi_tensor *inputs, bool running, mi_error *error);

/* Evaluate all dims from the symbols, and from them size and address of every buffer. With `moving`, buffers of
 * MI_ARENA_SEPARATE are laid against their guard page at their present size. */
void mi_resolve(mi_session *s, const mi_tensor *inputs, const mi_tensor *outputs, bool moving);

/* Compare the inputs with the shapes the plan wants, now that the dims are known. */
int32_t mi_check_inputs(mi_session *s, const mi_tensor *inputs, mi_error *error);

/* Write rank and shape of every output as the dims are now. */
void mi_fill_shapes(mi_session *s, mi_tensor *outputs);

/* Give a symbol a value that running has found. */
int32_t mi_set_symbol(mi_session *s, uint32_t symbol, int64_t value, mi_error *error);

/* Address of a buffer as its root's address is now: views of pool buffers move with it. */
unsigned char *mi_address_now(const mi_session *s, uint32_t buffer);

/* What a buffer without bytes points at. */
extern unsigned char mi_nothing[MI_ALIGNMENT];

/* Reserve `bytes` of scratch for each thread; what there was before goes. */
int32_t mi_reserve_scratch(mi_session *s, int64_t bytes, mi_error *error);

/* Copy the dims that a call wants into `dims`. */
void mi_gather_dims(const mi_session *s, const mi_plan_command *call, int64_t *dims);

#pragma GCC visibility pop

#endif
