/* Blocks are mappings of a power of two of bytes, and serve only buffers that need a block of their size. So a run asks
 * for the same blocks as one before it of the same sizes, whatever other runs left behind, and finds them: it asks the
 * system for nothing. Runs of all sizes leave a geometric series behind: less than three times the largest of a buffer. */
#include "mi_blocks.h"

#include "mi_os.h"

#define LEAST ((size_t)64 << 10)

_Static_assert(sizeof(mi_block) % MI_ALIGNMENT == 0, "contents lie behind the block");

static size_t mapping_of(const mi_block *b) {
    return sizeof *b + b->room;
}

static void unmap(const mi_session *s, mi_block *b) {
    if (s->arena_mode == MI_ARENA_SEPARATE) {
        mi_os_unmap_guarded(b, mapping_of(b));
    } else {
        mi_os_unmap(b, mapping_of(b));
    }
}

static void unmap_free(mi_session *s) {
    for (mi_block *b = s->free_blocks; b != NULL; b = s->free_blocks) {
        s->free_blocks = b->next;
        unmap(s, b);
    }
}

static mi_block *map(const mi_session *s, size_t bytes) {
    mi_block *b = s->arena_mode == MI_ARENA_SEPARATE ? mi_os_map_guarded(bytes) : mi_os_map_all(bytes);
    if (b != NULL) {
        b->room = bytes - sizeof *b;
    }
    return b;
}

static mi_block *take_free(mi_session *s, size_t least, size_t most) {
    for (mi_block **at = &s->free_blocks; *at != NULL; at = &(*at)->next) {
        mi_block *b = *at;
        if (mapping_of(b) >= least && mapping_of(b) <= most) {
            *at = b->next;
            return b;
        }
    }
    return NULL;
}

/* A block for `bytes` of contents, or NULL. */
static mi_block *obtain(mi_session *s, int64_t bytes) {
    if ((uint64_t)bytes > SIZE_MAX / 4) {
        return NULL;
    }
    size_t page = mi_os_page_bytes(), least = ((size_t)bytes + sizeof(mi_block) + page - 1) / page * page, size = LEAST;
    while (size < least) {
        size *= 2;
    }
    mi_block *b = take_free(s, least, size);
    b = b == NULL ? map(s, size) : b;
    b = b == NULL ? map(s, least) : b;              /* the machine has that much, but not up to the power of two */
    if (b == NULL) {
        unmap_free(s);
        b = map(s, least);
    }
    if (b != NULL && s->arena_mode == MI_ARENA_POISON) {        /* fresh, or of a buffer that is dead by now */
        __builtin_memset(b + 1, 0xFF, b->room);
    }
    return b;
}

/* Where contents of `bytes` lie: in MI_ARENA_SEPARATE against the guard page. */
static void lay(const mi_session *s, mi_block *b, int64_t bytes) {
    unsigned char *first = (unsigned char *)(b + 1);
    size_t taken = ((size_t)bytes + MI_ALIGNMENT - 1) / MI_ALIGNMENT * MI_ALIGNMENT;
    b->data = s->arena_mode == MI_ARENA_SEPARATE ? first + (b->room - taken) : first;
    b->bytes = bytes;
}

static void give_back(mi_session *s, mi_block *b) {
    b->next = s->free_blocks;
    s->free_blocks = b;
}

/* The block of a root buffer, made at least as large as the buffer is now; NULL when there is no memory. */
static mi_block *grow(mi_session *s, uint32_t root) {
    mi_block *old = s->blocks[root], *b = old;
    int64_t bytes = s->bytes[root];
    if (old != NULL && bytes <= old->bytes) {
        return old;
    }
    if (old == NULL || (uint64_t)bytes > old->room) {
        b = obtain(s, bytes);
    }
    if (b == NULL) {
        return NULL;
    }
    unsigned char *from = old == NULL ? NULL : old->data;
    int64_t held = old == NULL ? 0 : old->bytes;
    lay(s, b, bytes);
    if (held > 0 && from != b->data) {
        __builtin_memmove(b->data, from, (size_t)held);
    }
    if (old != NULL && old != b) {
        give_back(s, old);
    }
    s->blocks[root] = b;
    return b;
}

bool mi_in_pool(const mi_session *s, uint32_t root) {
    const mi_plan_buffer *b = &s->plan.buffers[root];
    return b->kind == MI_POOL || (b->kind == MI_TEMP && b->outgrows && s->bytes[root] > (int64_t)b->capacity);
}

int32_t mi_blocks_hold(mi_session *s, uint32_t buffer, mi_error *error) {
    uint32_t root = mi_plan_root(&s->plan, buffer);
    const mi_plan_buffer *info = &s->plan.buffers[root];
    if (!mi_in_pool(s, root)) {
        return MI_OK;
    }
    const char *name = s->plan.text + info->name;
    if (s->bytes[root] < 0 && s->dims[info->elements] >= MI_TOO_LARGE) {
        return mi_fail(error, MI_NO_MEMORY, "buffer '%s' would need %d elements or more", name, MI_TOO_LARGE);
    }
    if (s->bytes[root] >= 0 && s->arena_mode != MI_ARENA_SEPARATE && s->bytes[root] == 0 && s->blocks[root] == NULL) {
        s->address[root] = mi_nothing;
    } else if (s->bytes[root] >= 0) {
        mi_block *block = grow(s, root);
        if (block == NULL) {
            return mi_fail(error, MI_NO_MEMORY, "buffer '%s' needs %d bytes, which this machine does not have", name,
                           s->bytes[root]);
        }
        s->address[root] = block->data;
    }
    s->address[buffer] = mi_address_now(s, buffer);
    return MI_OK;
}

static void release(mi_session *s, uint32_t root) {
    if (s->blocks[root] != NULL) {
        give_back(s, s->blocks[root]);
    } else if (s->plan.buffers[root].kind != MI_POOL) {
        return;                                     /* it fits its place in the arena */
    }
    s->blocks[root] = NULL;
    s->address[root] = NULL;
}

void mi_blocks_release(mi_session *s, uint32_t region, uint32_t index, uint32_t end) {
    for (uint32_t i = 0; i < s->plan.pools; i++) {
        const mi_plan_buffer *b = &s->plan.buffers[s->pools[i]];
        if (b->last >= index && b->last < end && b->first >= region) {
            release(s, s->pools[i]);
        }
    }
}

void mi_blocks_release_all(mi_session *s) {
    for (uint32_t i = 0; i < s->plan.pools; i++) {
        release(s, s->pools[i]);
    }
}

void mi_blocks_unmap(mi_session *s) {
    mi_blocks_release_all(s);
    unmap_free(s);
}
