/* The interface between the runtime and the code generated for one package: the kernel table and the dims. */
#ifndef MI_KERNEL_H
#define MI_KERNEL_H

#include <stdint.h>

/* One kernel: a parallel loop over `chunks(dims)` chunks.
 *
 * `run` computes chunks [begin, end); chunks may run in any order and on any thread. `bufs` are the addresses of
 * the kernel's parameters in order, `scratch` is memory of this thread alone: at least `scratch(dims)` bytes,
 * 64-byte aligned, contents undefined. */
typedef struct {
    const char *name;
    int64_t (*chunks)(const int64_t *dims);
    int64_t (*scratch)(const int64_t *dims);
    void (*run)(void *const *bufs, const int64_t *dims, int64_t begin, int64_t end, void *scratch);
} mi_kernel;

#pragma GCC visibility push(hidden)

extern const mi_kernel mi_kernels[];
extern const int32_t mi_kernel_count;

/* Every symbolic dimension of the program from the symbols' values, in the slot order of the command table: reads
 * mi_symbol_count values, writes mi_dim_count. */
extern const int32_t mi_symbol_count, mi_dim_count;
void mi_eval_dims(const int64_t *symbols, int64_t *dims);

#pragma GCC visibility pop

#endif
