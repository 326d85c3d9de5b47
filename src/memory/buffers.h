/*
 * Buffers in the slab, and their holders. A holder (a slot of the state, a snapshot, a
 * residual, a cotangent) holds a buffer by its number. A buffer counts its holders, and
 * its place is freed when the last one releases it. Numbers of freed buffers are reused.
 *
 * Invariant: between actions every buffer in use has a holder, and the sum of the holds equals the number of holders.
 */
#ifndef MEMORY_BUFFERS_H
#define MEMORY_BUFFERS_H

#include "base/pool.h"
#include "compile/compiled.h"

enum { NO_BUFFER = -1 };

struct buffer {
	int64_t offset, size;
	int32_t holds;     /* number of its holders */
	int32_t next_free; /* once it is freed: the next freed buffer, or NO_BUFFER */
	int32_t copy;      /* scratch of states.c: its converted copy; else NO_BUFFER */
	bool narrow;       /* a checkpoint's copy of an array: its `size` bytes have fewer bits an element than `type` */
	bool stored;       /* snapshots or residuals held it at the end of the first sweep */
	bool collected;    /* a loop makes it part by part: see collected.c */
	bool streamed;     /* as of its value (ir/body.h) */
	const struct type *type;
	const struct body *body; /* the body that made it, as its value `value`; NULL: the input, a seed, or fetched */
	uint32_t value;
	const struct naming *names;
	int64_t step;     /* the step that made it; if fetched, the one before its state; -1: the input or a seed */
	int64_t sequence; /* its place in program order: where it was made, or named later */
};

struct buffers {
	struct pool pool;
	struct buffer *items; /* by buffer number */
	size_t count, capacity;
	int32_t free;     /* the first freed buffer, or NO_BUFFER */
	int64_t sequence; /* of the next buffer that is made */
};

void buffers_free(struct buffers *b);
/* Returns a new buffer of SIZE bytes, without a holder; NO_BUFFER if out of memory or beyond POOL_MOST. */
int32_t buffers_make(struct buffers *b, const struct type *type, int64_t size);
/* As buffers_make, for bytes from OFFSET on that the pool has as in use, or will have (pool_set). */
int32_t buffers_make_at(struct buffers *b, const struct type *type, int64_t size, int64_t offset);
/* Counts one more holder of ID, which may be NO_BUFFER here and below. The next two return false if out of memory. */
static inline void buffers_hold(struct buffers *b, int32_t id)
{
	if (id != NO_BUFFER)
		b->items[id].holds++;
}
bool buffers_release(struct buffers *b, int32_t id);
/* Makes *HOLDER a holder of ID, and releases the buffer that it held before. */
bool buffers_move(struct buffers *b, int32_t *holder, int32_t id);
/* True if some buffer has a holder. */
bool buffers_any_held(const struct buffers *b);
/* Returns the offset of ID in the slab; -1 for NO_BUFFER. */
static inline int64_t buffers_offset(const struct buffers *b, int32_t id)
{
	return id == NO_BUFFER ? -1 : b->items[id].offset;
}

#endif
