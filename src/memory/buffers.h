/*
 * Buffers in the slab, and their holders. A holder (a slot of the state, a snapshot, a
 * residual, a cotangent) holds a buffer by its number. A buffer counts its holders, and
 * gives its place back when there are none. The numbers of freed buffers are used again.
 *
 * Invariant: between calls every buffer in use has a holder, and the sum of the holds
 * equals the number of holders.
 */
#ifndef MEMORY_BUFFERS_H
#define MEMORY_BUFFERS_H

#include "base/pool.h"
#include "compile/compiled.h"

enum { NO_BUFFER = -1 };

struct buffer {
	int64_t offset, size;
	int32_t holds;
	int32_t next_free;
	bool narrow; /* a copy in fewer bits than TYPE's */
	bool stored; /* snapshots or residuals held it at the end of the first sweep */
	const struct type *type;
	const struct body *body; /* that made it as VALUE; NULL: the input */
	uint32_t value;
	const struct naming *names;
	int64_t step;     /* that made it; -1: the input */
	int64_t sequence; /* where it was made or named last, in program order */
};

struct buffers {
	struct pool pool;
	struct buffer *items; /* by number */
	size_t count, capacity;
	int32_t free;     /* the first of the freed, or NO_BUFFER */
	int64_t sequence; /* of the next that is made */
};

void buffers_free(struct buffers *b);
/* A buffer that nothing holds yet; NO_BUFFER if out of memory. */
int32_t buffers_make(struct buffers *b, const struct type *type, int64_t size);
/* ID may be NO_BUFFER, here and below. The functions return false if out of memory. */
static inline void buffers_hold(struct buffers *b, int32_t id)
{
	if (id != NO_BUFFER)
		b->items[id].holds++;
}
bool buffers_release(struct buffers *b, int32_t id);
/* Makes *HOLDER hold ID, and release the buffer that it held. */
bool buffers_move(struct buffers *b, int32_t *holder, int32_t id);
/* True if some buffer has a holder. */
bool buffers_any_held(const struct buffers *b);
/* The place of ID, or -1. */
static inline int64_t buffers_offset(const struct buffers *b, int32_t id)
{
	return id == NO_BUFFER ? -1 : b->items[id].offset;
}

#endif
