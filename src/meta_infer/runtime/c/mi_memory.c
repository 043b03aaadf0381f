/* memcpy, memmove, memset and memcmp for the freestanding link: compilers call them even where nobody wrote them.
 * The attributes keep a compiler from recognising a loop below as the very function it implements. */
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#define PLAIN __attribute__((visibility("hidden"), no_builtin))
#else
#define PLAIN __attribute__((visibility("hidden"), optimize("no-tree-loop-distribute-patterns")))
#endif

typedef unsigned char block __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t word __attribute__((aligned(1), may_alias));

void *memcpy(void *restrict dst, const void *restrict src, size_t count);
void *memmove(void *dst, const void *src, size_t count);
void *memset(void *dst, int value, size_t count);
int memcmp(const void *a, const void *b, size_t count);

PLAIN void *memmove(void *dst, const void *src, size_t count) {
    unsigned char *d = dst;
    const unsigned char *s = src;
    if ((uintptr_t)d - (uintptr_t)s >= count) {     /* forwards is safe: dst lies before src, or they do not meet */
        for (; count >= sizeof(block); count -= sizeof(block), d += sizeof(block), s += sizeof(block)) {
            *(block *)d = *(const block *)s;
        }
        for (; count >= sizeof(word); count -= sizeof(word), d += sizeof(word), s += sizeof(word)) {
            *(word *)d = *(const word *)s;
        }
        for (; count > 0; count--) {
            *d++ = *s++;
        }
        return dst;
    }
    while (count % sizeof(word) != 0) {
        count--;
        d[count] = s[count];
    }
    while (count > 0) {
        count -= sizeof(word);
        *(word *)(d + count) = *(const word *)(s + count);
    }
    return dst;
}

PLAIN void *memcpy(void *restrict dst, const void *restrict src, size_t count) {
    return memmove(dst, src, count);
}

PLAIN void *memset(void *dst, int value, size_t count) {
    unsigned char *d = dst, byte = (unsigned char)value;
    uint64_t wide = UINT64_C(0x0101010101010101) * byte;
    for (; count >= sizeof(word); count -= sizeof(word), d += sizeof(word)) {
        *(word *)d = wide;
    }
    for (; count > 0; count--) {
        *d++ = byte;
    }
    return dst;
}

PLAIN int memcmp(const void *a, const void *b, size_t count) {
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < count; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}
