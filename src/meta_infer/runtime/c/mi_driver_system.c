/* Linux without a C library, for the driver: the entry point, system calls, threads, and the few functions that the
 * code of a package takes from its host. A thread lives as long as the process, as those of the runtime's pool do. */
#define _GNU_SOURCE
#include "mi_driver.h"

#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#if defined(__x86_64__)
#define KERNEL_CLOCK "__vdso_clock_gettime"
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall driver_start\n\tud2\n");

static long raw(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__("driver_clone:\n\tsub $16, %rsi\n\tmov %rdx, (%rsi)\n\tmov %rcx, 8(%rsi)\n"
        "\txor %edx, %edx\n\txor %r10d, %r10d\n\txor %r8d, %r8d\n\tmov $56, %eax\n\tsyscall\n"
        "\ttest %rax, %rax\n\tjnz 1f\n\txor %ebp, %ebp\n\tmov (%rsp), %rax\n\tmov 8(%rsp), %rdi\n"
        "\tcall *%rax\n\tmov $60, %eax\n\txor %edi, %edi\n\tsyscall\n1:\tret\n");
#elif defined(__aarch64__)
#define KERNEL_CLOCK "__kernel_clock_gettime"
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl driver_start\n\tbrk #0\n");

static long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

__asm__("driver_clone:\n\tstp x2, x3, [x1, #-16]!\n\tmov x2, #0\n\tmov x3, #0\n\tmov x4, #0\n"
        "\tmov x8, #220\n\tsvc #0\n\tcbnz x0, 1f\n\tmov x29, #0\n\tldp x1, x0, [sp]\n\tblr x1\n"
        "\tmov x0, #0\n\tmov x8, #93\n\tsvc #0\n1:\tret\n");
#elif defined(__riscv) && __riscv_xlen == 64
#define KERNEL_CLOCK "__vdso_clock_gettime"
__asm__(".globl _start\n_start:\n\tmv a0, sp\n\tandi sp, sp, -16\n\tcall driver_start\n\tebreak\n");

static long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long a7 __asm__("a7") = number;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    register long a5 __asm__("a5") = f;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
}

__asm__("driver_clone:\n\taddi a1, a1, -16\n\tsd a2, 0(a1)\n\tsd a3, 8(a1)\n\tli a2, 0\n\tli a3, 0\n"
        "\tli a4, 0\n\tli a7, 220\n\tecall\n\tbnez a0, 1f\n\tld a1, 0(sp)\n\tld a0, 8(sp)\n\tjalr a1\n"
        "\tli a0, 0\n\tli a7, 93\n\tecall\n1:\tret\n");
#else
#error "the driver knows no system calls of this processor: add them here and its relocations in mi_driver_elf.c"
#endif

/* clone(2) onto the top of a new stack, where the new thread calls `body(argument)` and ends; number of the thread, or
 * a negative error. */
long driver_clone(long flags, void *stack, void *(*body)(void *), void *argument);

int driver_main(int count, char **arguments);

/* clock_gettime as the kernel offers it without a system call, which takes ten times as long; NULL where it does not. */
static int (*quick_clock)(clockid_t, struct timespec *);

static void find_clock(const unsigned long *auxiliary) {
    for (; auxiliary[0] != AT_NULL; auxiliary += 2) {
        if (auxiliary[0] == AT_SYSINFO_EHDR && auxiliary[1] != 0) {
            driver_library kernel = driver_open_mapped((const unsigned char *)auxiliary[1]);
            quick_clock = (int (*)(clockid_t, struct timespec *))driver_find(&kernel, KERNEL_CLOCK);
        }
    }
}

/* What the kernel leaves on the stack: the count of arguments, these, NULL, the environment, NULL, the auxiliary vector.
 * System V ABI, processor supplements, "Initial Stack". */
__attribute__((used)) _Noreturn void driver_start(long *stack) {
    long *at = stack + 1 + stack[0] + 1;
    while (*at != 0) {
        at++;
    }
    find_clock((const unsigned long *)(at + 1));
    int code = driver_main((int)stack[0], (char **)(stack + 1));
    for (;;) {
        raw(SYS_exit_group, code, 0, 0, 0, 0, 0);
    }
}

static int64_t length(const char *text) {
    int64_t n = 0;
    while (text[n] != 0) {
        n++;
    }
    return n;
}

int driver_same(const char *a, const char *b) {
    while (*a != 0 && *a == *b) {
        a++, b++;
    }
    return *a == *b;
}

_Noreturn void driver_die(const char *first, ...) {
    va_list rest;
    va_start(rest, first);
    for (const char *text = first; text != NULL; text = va_arg(rest, const char *)) {
        raw(SYS_write, 2, (long)text, length(text), 0, 0, 0);
    }
    raw(SYS_write, 2, (long)"\n", 1, 0, 0, 0);
    for (;;) {
        raw(SYS_exit_group, 1, 0, 0, 0, 0, 0);
    }
}

/* --- what packages ask of a C library --- */

static void *host_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    long found = raw(SYS_mmap, (long)at, (long)bytes, protection, flags, file, offset);
    return found < 0 && found > -4096 ? MAP_FAILED : (void *)found;
}

static int host_munmap(void *at, size_t bytes) {
    return (int)raw(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0);
}

static int host_mprotect(void *at, size_t bytes, int protection) {
    return raw(SYS_mprotect, (long)at, (long)bytes, protection, 0, 0, 0) == 0 ? 0 : -1;
}

static int host_madvise(void *at, size_t bytes, int advice) {
    return (int)raw(SYS_madvise, (long)at, (long)bytes, advice, 0, 0, 0);
}

/* Only the page size is ever asked for. 64 KiB is a multiple of every page size that Linux uses on these processors. */
static long host_sysconf(int name) {
    (void)name;
    return 65536;
}

static long host_syscall(long number, long a, long b, long c, long d, long e, long f) {
    return raw(number, a, b, c, d, e, f);
}

static int host_getpid(void) {
    return (int)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static int host_clock_gettime(clockid_t clock, struct timespec *now) {
    if (quick_clock != NULL) {
        return quick_clock(clock, now);
    }
    return (int)raw(SYS_clock_gettime, clock, (long)now, 0, 0, 0, 0);
}

static int host_nothing(void) {
    return 0;
}

enum { STACK_BYTES = 8 << 20, GUARD_BYTES = 64 << 10, AGAIN = 11 };
enum { THREAD = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 };    /* VM FS FILES SIGHAND THREAD SYSVSEM */

static int host_thread(void *thread, const void *attributes, void *(*body)(void *), void *argument) {
    (void)thread, (void)attributes;
    char *stack = host_mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        return AGAIN;
    }
    host_mprotect(stack, GUARD_BYTES, PROT_NONE);
    if (driver_clone(THREAD, stack + STACK_BYTES, body, argument) < 0) {
        host_munmap(stack, STACK_BYTES);
        return AGAIN;
    }
    return 0;
}

/* mi_memory.c */
void *memcpy(void *restrict dst, const void *restrict src, size_t count);
void *memmove(void *dst, const void *src, size_t count);
void *memset(void *dst, int value, size_t count);
int memcmp(const void *a, const void *b, size_t count);

typedef void (*any_function)(void);

void *driver_function(const char *name) {
    static const struct {
        const char *name;
        any_function function;
    } known[] = {
        {"mmap", (any_function)host_mmap}, {"munmap", (any_function)host_munmap},
        {"mprotect", (any_function)host_mprotect}, {"madvise", (any_function)host_madvise},
        {"sysconf", (any_function)host_sysconf}, {"syscall", (any_function)host_syscall},
        {"getpid", (any_function)host_getpid}, {"clock_gettime", (any_function)host_clock_gettime},
        {"sigfillset", (any_function)host_nothing}, {"pthread_sigmask", (any_function)host_nothing},
        {"pthread_detach", (any_function)host_nothing}, {"pthread_create", (any_function)host_thread},
        {"memcpy", (any_function)memcpy}, {"memmove", (any_function)memmove}, {"memset", (any_function)memset},
        {"memcmp", (any_function)memcmp},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (driver_same(name, known[i].name)) {
            return (void *)known[i].function;
        }
    }
    return NULL;
}

/* --- files, memory, time --- */

void *driver_memory(int64_t bytes) {
    void *memory = host_mmap(NULL, (size_t)bytes + 1, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        driver_die("no memory", NULL);
    }
    if (bytes >= 4 << 20) {
        host_madvise(memory, (size_t)bytes, MADV_HUGEPAGE);             /* as mi_os.c and numpy ask for */
    }
    return memory;
}

void driver_make_executable(void *memory, int64_t bytes) {
    if (host_mprotect(memory, (size_t)bytes, PROT_READ | PROT_EXEC) != 0) {
        driver_die("the system lets no code be loaded", NULL);
    }
}

void *driver_map_file(const char *path, int64_t offset, int64_t *bytes) {
    int file = (int)raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY, 0, 0, 0);
    int64_t size = file < 0 ? -1 : raw(SYS_lseek, file, 0, 2, 0, 0, 0);
    if (size < 0) {
        driver_die(path, ": cannot be read", NULL);
    }
    if (*bytes < 0) {
        *bytes = size - offset;
    }
    if (offset < 0 || *bytes < 0 || offset > size || *bytes > size - offset) {
        driver_die(path, ": is shorter than it should be", NULL);
    }
    void *found = host_mmap(NULL, (size_t)*bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, offset);
    if (found == MAP_FAILED) {
        driver_die(path, ": cannot be mapped", NULL);
    }
    raw(SYS_close, file, 0, 0, 0, 0, 0);
    return found;
}

int driver_create(const char *path) {
    int file = (int)raw(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_TRUNC, 0600, 0, 0);
    if (file < 0) {
        driver_die(path, ": cannot be written", NULL);
    }
    return file;
}

void driver_write(int file, const void *data, int64_t bytes) {
    for (const char *at = data; bytes > 0;) {
        long done = raw(SYS_write, file, (long)at, bytes, 0, 0, 0);
        if (done <= 0) {
            driver_die("the results cannot be written", NULL);
        }
        at += done, bytes -= done;
    }
}

int64_t driver_now(void) {
    struct timespec now;
    host_clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void driver_alarm(int64_t nanoseconds) {
    int64_t us = (nanoseconds + 999) / 1000;
    struct itimerval timer = {.it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};
    raw(SYS_setitimer, ITIMER_REAL, (long)&timer, 0, 0, 0, 0);
}
