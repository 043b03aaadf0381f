/* Memory of the buffers that are sized while running (MI_POOL): obtained when a command is about to use one, grown
 * with its contents, given back after its last use and kept for the next. */
#ifndef MI_BLOCKS_H
#define MI_BLOCKS_H

#include "mi_session.h"

#pragma GCC visibility push(hidden)

/* Whether a root buffer lies in the pool: always, or because it is larger now than its place in the arena. */
bool mi_in_pool(const mi_session *s, uint32_t root);

/* See to it that `buffer`, if it lies in the pool, has memory for its present size, and that its address is right.
 * One whose size makes no sense keeps the address NULL. MI_NO_MEMORY names the buffer and the bytes. */
int32_t mi_blocks_hold(mi_session *s, uint32_t buffer, mi_error *error);

/* Give back what died with the commands [index, end), one of the region that begins at `region` with its bodies.
 * Buffers born outside the region outlive it, for the next pass of a loop uses them again. */
void mi_blocks_release(mi_session *s, uint32_t region, uint32_t index, uint32_t end);

/* Give back all that the last run still held: outputs above all. */
void mi_blocks_release_all(mi_session *s);

/* Return all memory to the system. */
void mi_blocks_unmap(mi_session *s);

#pragma GCC visibility pop

#endif
