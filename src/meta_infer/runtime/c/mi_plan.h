/* The binary command table: its records, and a checked view of it. docs/package-format.md describes the format.
 *
 * A "dim" field is an index into the dim table of a session: first the values that mi_eval_dims computes, then the
 * literals. MI_NONE stands for "there is none". All numbers are little-endian. */
#ifndef MI_PLAN_H
#define MI_PLAN_H

#include <stdbool.h>

#include "mi_error.h"

#define MI_PLAN_VERSION 3
#define MI_NONE UINT32_MAX
#define MI_ALIGNMENT 64
#define MI_TOO_LARGE ((int64_t)1 << 56)     /* a dim that reaches this is saturated: no size, whatever it stands for */
#define MI_MAX_DEPTH 32             /* nested regions */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the command table is read in place and needs a little-endian machine"
#endif

typedef struct {
    char magic[8];                  /* "MI-PLAN" and a zero */
    uint32_t version, reserved;
    uint64_t total_bytes, arena_bytes, constant_bytes, prepared_bytes;
    uint32_t symbols, dims, literals, buffers, inputs, outputs, input_dims, refs, commands, kernels;
    uint32_t text_bytes;
    uint32_t prepares;              /* commands at the beginning that are for making a session, not for its runs */
} mi_plan_header;

typedef struct {
    int64_t lo, hi, step;
    uint32_t name;
    uint32_t grows;                 /* begins a run at `lo`: what depends on it is made as large as it becomes */
} mi_plan_symbol;

/* MI_TEMP lies in the arena, MI_POOL in memory that the session obtains while running, for it has no useful bound;
 * MI_PREPARED in memory of the session that is filled when it is made. */
enum { MI_INPUT = 0, MI_OUTPUT = 1, MI_CONST = 2, MI_TEMP = 3, MI_POOL = 4, MI_PREPARED = 5 };

typedef struct {
    uint64_t offset;                /* bytes into the arena, the constants or what is prepared; 0 for the caller's memory and views */
    uint64_t capacity;              /* bytes at the (usual) upper bound of all dims; of a view or in the pool, unused */
    uint32_t kind, bits;            /* bits of one element */
    uint32_t parent;                /* of a view: the buffer it lies in, always an earlier one; else MI_NONE */
    uint32_t view_offset;           /* dim: elements (of this buffer's dtype) into the parent */
    uint32_t elements;              /* dim: elements in memory */
    uint32_t first, last;           /* commands between which a temp or pool buffer is live */
    uint32_t shape, rank;           /* refs[shape .. shape + rank): dims; of inputs and outputs only */
    uint32_t name;
    uint32_t late;                  /* its size depends on a symbol that only running can tell */
    uint32_t outgrows;              /* of a temp: may exceed `capacity`, and lies in the pool while it does */
} mi_plan_buffer;

enum { MI_CALL = 1, MI_COPY, MI_FILL, MI_SET_DIM, MI_IF, MI_LOOP, MI_WAIT, MI_ASSIGN_DIMS, MI_CHECK_DIMS };

typedef struct {
    uint32_t op, queue;
    uint32_t signal;                /* token given when done, or MI_NONE */
    uint32_t waits, wait_count;     /* refs[waits .. ): tokens */
    uint32_t a, b, c, d, e;         /* by op:
        CALL     a kernel, b first ref of args, c count, d first ref of dims, e count; `value` is an MI_JOINED
        COPY     a src, b dst, c count, d src offset, e dst offset (dims, in elements)
        FILL     a dst; `value` holds the element's bits
        SET_DIM  a symbol, b src, c index
        IF       a cond, b commands of the then body that follows, c commands of the else body after it
        LOOP     a trip count or NONE, b cond or NONE, c iteration, d commands of the body, e symbol or NONE
        WAIT     nothing more
        ASSIGN_DIMS  a first ref of symbols, b count, c first ref of dims, d count (the same)
        CHECK_DIMS   a, b dims, c text */
    uint64_t value;
} mi_plan_command;

/* How a call may run together with the calls before it that it is joined to: all as one parallel loop, without waiting
 * between them. MI_BESIDE: neither touches what another one writes. MI_MATCHED: all have the same number of chunks, and
 * chunk i of one touches of what another writes only what chunk i of that one does. */
enum { MI_ALONE = 0, MI_BESIDE = 1, MI_MATCHED = 2 };
#define MI_MOST_JOINED 8

typedef struct {
    uint32_t name, params, dims, reserved;
} mi_plan_kernel;

typedef struct {
    uint32_t symbol, input, axis;
} mi_plan_input_dim;

/* Pointers into a table that has been checked. */
typedef struct {
    const mi_plan_header *header;
    const int64_t *literals;
    const mi_plan_symbol *symbols;
    const mi_plan_buffer *buffers;
    const mi_plan_command *commands;
    const mi_plan_kernel *kernels;
    const uint32_t *inputs, *outputs;
    const mi_plan_input_dim *input_dims;
    const uint32_t *refs;
    const char *text;
    uint32_t most_args, most_dims;  /* of any call, with those joined to it, or assignment */
    uint32_t pools;                 /* root buffers of kind MI_POOL */
    bool grows;                     /* some symbol does */
} mi_plan;

#pragma GCC visibility push(hidden)

/* The buffer whose memory `buffer` lies in. */
uint32_t mi_plan_root(const mi_plan *plan, uint32_t buffer);

/* Check every index, offset and size of the table at `bytes` (8-byte aligned) and point `plan` into it. */
int32_t mi_plan_parse(mi_plan *plan, const void *bytes, size_t byte_count, size_t constant_bytes, mi_error *error);

#pragma GCC visibility pop

#endif
