/* The pool that this copy of the runtime uses: its own, or the one it was handed. */
#ifndef MI_POOL_H
#define MI_POOL_H

#include "mi_runtime.h"

#pragma GCC visibility push(hidden)

int32_t mi_pool_reserve(int32_t threads);
void mi_pool_run(const mi_job *job);

#pragma GCC visibility pop

#endif
