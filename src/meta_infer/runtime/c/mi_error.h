/* Filling an mi_error. */
#ifndef MI_ERROR_H
#define MI_ERROR_H

#include "mi_runtime.h"

#pragma GCC visibility push(hidden)

/* Write `format` into `error` (may be NULL) and return `code`. Knows %s, %d (int64_t) and %%. */
int32_t mi_fail(mi_error *error, int32_t code, const char *format, ...);

#pragma GCC visibility pop

#endif
