/* Programs that run packages and kernels without Python and without a C library: statically linked, system calls only,
 * so they are built in an instant for any target and run on a bare Linux board as well as under qemu. */
#ifndef MI_DRIVER_H
#define MI_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* --- mi_driver_system.c: Linux --- */

/* Print and end the process with code 1. Strings are printed one after another; NULL ends them. */
_Noreturn void driver_die(const char *first, ...);

/* A whole file, or `bytes` of it from `offset` (a multiple of 4096), in private memory. Dies when it cannot be read. */
void *driver_map_file(const char *path, int64_t offset, int64_t *bytes);

/* Zeroed memory. Dies when there is none. */
void *driver_memory(int64_t bytes);

/* Make memory from driver_memory readable and executable. */
void driver_make_executable(void *memory, int64_t bytes);

/* A new file open for writing; then bytes to it. Both die when the system refuses. */
int driver_create(const char *path);
void driver_write(int file, const void *data, int64_t bytes);

int64_t driver_now(void);                   /* nanoseconds */

/* End the process by SIGALRM unless this is called again within `nanoseconds`; 0 takes the alarm back. */
void driver_alarm(int64_t nanoseconds);

/* The C library's functions that code of a package may ask for; NULL for a name that is none of them. */
void *driver_function(const char *name);

int driver_same(const char *a, const char *b);

/* --- mi_driver_elf.c: a loader for shared objects that need nothing but such functions --- */

/* Map a shared object that lies in memory and bind it; returns its base, to find symbols in. Dies with the reason. */
typedef struct {
    unsigned char *base;
    const void *symbols;
    const char *strings;
    uint32_t count;
} driver_library;

driver_library driver_load(const unsigned char *file, int64_t bytes);

/* A shared object that already lies where it runs, such as the kernel's own; `count` is 0 where it has no symbols. */
driver_library driver_open_mapped(const unsigned char *file);

/* The address of a symbol: the first dies when there is none, the second gives NULL. */
void *driver_symbol(const driver_library *library, const char *name);
void *driver_find(const driver_library *library, const char *name);

#pragma GCC visibility pop

#endif
