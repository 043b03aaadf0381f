/* Linux: threads, futex, memory, clock. Only libc symbols whose version never changed are used, because the shared
 * object is linked without libc and finds them in the host process. */
#define _GNU_SOURCE
#include "mi_os.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t allocations;

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

size_t mi_os_page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *map(size_t bytes, int protection, int flags) {
    if (bytes == 0 || bytes > ((size_t)PTRDIFF_MAX >> 8)) {
        return NULL;
    }
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void *map_pages(size_t bytes, int flags) {
    void *memory = map(round_up(bytes, mi_os_page_bytes()), PROT_READ | PROT_WRITE, flags);
#ifdef MADV_HUGEPAGE
    if (memory != NULL && bytes >= ((size_t)4 << 20)) {
        madvise(memory, bytes, MADV_HUGEPAGE);      /* advice only: a refusal costs nothing */
    }
#endif
    return memory;
}

void *mi_os_map(size_t bytes) {
    /* NORESERVE: the upper bound of a dynamic model may be far more than it will ever touch. */
    return map_pages(bytes, MAP_NORESERVE);
}

void *mi_os_map_all(size_t bytes) {
    return map_pages(bytes, 0);
}

void *mi_os_map_guarded(size_t bytes) {
    size_t page = mi_os_page_bytes(), body = round_up(bytes, page);
    char *memory = map(body + 2 * page, PROT_NONE, MAP_NORESERVE);
    if (memory == NULL) {
        return NULL;
    }
    if (mprotect(memory + page, body, PROT_READ | PROT_WRITE) != 0) {
        munmap(memory, body + 2 * page);
        return NULL;
    }
    return memory + page;
}

void mi_os_unmap(void *memory, size_t bytes) {
    if (memory != NULL) {
        munmap(memory, round_up(bytes, mi_os_page_bytes()));
    }
}

void mi_os_unmap_guarded(void *memory, size_t bytes) {
    size_t page = mi_os_page_bytes();
    if (memory != NULL) {
        munmap((char *)memory - page, round_up(bytes, page) + 2 * page);
    }
}

int64_t mi_os_allocations(void) {
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

int mi_os_thread_start(void *(*body)(void *), void *argument) {
    sigset_t all, before;
    pthread_t thread;
    /* Signals belong to the application's threads; a new thread inherits this mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        return -1;
    }
    pthread_detach(thread);
    return 0;
}

int32_t mi_os_cpu_count(void) {
    unsigned long mask[128] = {0};                  /* 8192 processors; the libc wrapper has a versioned symbol */
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    int32_t count = 0;
    for (size_t i = 0; bytes > 0 && i < sizeof mask / sizeof mask[0]; i++) {
        for (unsigned long bits = mask[i]; bits != 0; bits &= bits - 1) {
            count++;
        }
    }
    return count > 0 ? count : 1;
}

void mi_os_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void mi_os_wake(_Atomic uint32_t *word, int32_t count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void mi_os_yield(void) {
    syscall(SYS_sched_yield);
}

uint32_t mi_os_process(void) {
    return (uint32_t)getpid();
}

int64_t mi_os_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
