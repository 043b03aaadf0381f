/* The three-state futex mutex of Drepper, "Futexes Are Tricky" (2011), with a stamp of the owning process. */
#include "mi_lock.h"

#include "mi_os.h"

void mi_lock_init(mi_lock *lock) {
    atomic_store(&lock->word, 0);
    atomic_store(&lock->process, mi_os_process());
}

/* The parent's holder does not exist in a forked child: exactly one thread of the child frees the lock. */
static void reset_after_fork(mi_lock *lock) {
    uint32_t self = mi_os_process();
    for (;;) {
        uint32_t seen = atomic_load(&lock->process);
        if (seen == self) {
            return;
        }
        if (seen != 0 && atomic_compare_exchange_strong(&lock->process, &seen, 0)) {
            atomic_store(&lock->word, 0);
            atomic_store(&lock->process, self);
            return;
        }
        mi_os_relax();
    }
}

void mi_lock_take(mi_lock *lock) {
    reset_after_fork(lock);
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(&lock->word, &seen, 1)) {
        return;
    }
    while (atomic_exchange(&lock->word, 2) != 0) {
        mi_os_wait(&lock->word, 2);
    }
}

void mi_lock_drop(mi_lock *lock) {
    if (atomic_exchange(&lock->word, 0) == 2) {
        mi_os_wake(&lock->word, 1);
    }
}
