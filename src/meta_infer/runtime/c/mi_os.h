/* Everything the runtime asks of the operating system. A port to another system replaces mi_os.c alone. */
#ifndef MI_OS_H
#define MI_OS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* `bytes` of zeroed memory at a page boundary, reserved but not touched; NULL when there is none. */
void *mi_os_map(size_t bytes);

/* Like mi_os_map, for memory that will all be used: NULL when the machine has not that much. */
void *mi_os_map_all(size_t bytes);

/* Like mi_os_map, with an unreadable page before and after. Returns the first byte after the first guard. */
void *mi_os_map_guarded(size_t bytes);

void mi_os_unmap(void *memory, size_t bytes);
void mi_os_unmap_guarded(void *memory, size_t bytes);

/* How often this runtime has asked the system for memory, ever: what a test of "no allocation" reads. */
int64_t mi_os_allocations(void);

size_t mi_os_page_bytes(void);

/* Start a detached thread that blocks all signals. Returns 0, or -1 when the system refuses. */
int mi_os_thread_start(void *(*body)(void *), void *argument);

/* Processors this process may use; at least 1. */
int32_t mi_os_cpu_count(void);

/* Sleep while *word == expected, until woken; may return early. */
void mi_os_wait(_Atomic uint32_t *word, uint32_t expected);
void mi_os_wake(_Atomic uint32_t *word, int32_t count);

/* Identifies the process: another value in a child after fork. Never 0. */
uint32_t mi_os_process(void);

/* Monotonic time in nanoseconds. */
int64_t mi_os_now(void);

/* Let another thread have this core, if one is ready. */
void mi_os_yield(void);

/* Tell the core that it spins. */
static inline void mi_os_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

#pragma GCC visibility pop

#endif
