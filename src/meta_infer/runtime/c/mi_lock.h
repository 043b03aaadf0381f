/* A mutex on a futex that is free again in a child after fork, whoever held it in the parent. */
#ifndef MI_LOCK_H
#define MI_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef struct {
    _Atomic uint32_t word;          /* 0 free, 1 held, 2 held and somebody may sleep */
    _Atomic uint32_t process;       /* who used it last; 0 while one thread resets it */
} mi_lock;

#define MI_LOCK_FREE {0, UINT32_MAX}     /* a static lock; no process has this number */

void mi_lock_init(mi_lock *lock);
void mi_lock_take(mi_lock *lock);
void mi_lock_drop(mi_lock *lock);

#pragma GCC visibility pop

#endif
