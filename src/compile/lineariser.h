/*
 * Private to linearisation:
 *
 *     linearise.c   the order of its parts; the recording bodies; where residuals come from and who reads them
 *     regions.c     which values each checkpoint region keeps, and which it recomputes
 *     backward.c    the backward body
 */
#ifndef COMPILE_LINEARISER_H
#define COMPILE_LINEARISER_H

#include "compile/linearise.h"

struct value_list {
	uint32_t *items;
	size_t count, capacity;
};

/* What a checkpoint region does with the values that its backward pass needs. */
struct region_plan {
	struct value_list kept, again; /* again: recomputed */
};

/* What is known of a value of the recording body. */
struct linear_value {
	bool reached;       /* by a cotangent */
	uint32_t stamp;     /* the last epoch that has seen it */
	uint32_t mapped;    /* the same value in the backward body, or NO_VALUE */
	uint32_t cotangent; /* the sum, so far, of the cotangents that reach it; in the backward body, or NO_VALUE */
};

/* Out of memory, arena->failed is set, and the parts below do nothing useful until linearise ends. */
struct lineariser {
	struct arena *arena;
	struct linear *out;
	const struct step *step;
	const struct policy *policy; /* of the whole body, or NULL */
	struct body *body; /* the recording body: at first all that derivatives may want is kept, then residuals */
	struct body *back; /* the backward body */
	struct linear_value *values;
	struct region_plan *regions;
	uint32_t epoch;
	struct instr nowhere; /* takes what is written once memory is out */
};

/* The derivatives that INSTR has: bit 0 for v, bit 1 for a. */
unsigned derivatives_of(const struct lineariser *l, const struct instr *instr);
/* NEED_* of the values that these read. */
unsigned needs_of(const struct lineariser *l, const struct instr *instr);

/* A new set of values, empty. */
static inline void begin_set(struct lineariser *l) { l->epoch++; }
static inline bool is_in_set(const struct lineariser *l, uint32_t value) { return l->values[value].stamp == l->epoch; }
/* False if VALUE was in the set. */
static inline bool add_to_set(struct lineariser *l, uint32_t value)
{
	const bool added = !is_in_set(l, value);
	l->values[value].stamp = l->epoch;
	return added;
}

/* regions.c */

static inline const struct region *region_at(const struct lineariser *l, uint32_t id) { return &l->body->regions[id]; }
/* The region right within REGION that holds the instruction at AT; REGION if there is none. */
static inline uint32_t inner_region(const struct lineariser *l, uint32_t region, uint32_t at)
{
	uint32_t inner = l->body->instrs[at].region;
	while (inner != region && region_at(l, inner)->parent != region)
		inner = region_at(l, inner)->parent;
	return inner;
}
/* Decides for each region, from the innermost, what it keeps and what it recomputes. */
void regions_plan(struct lineariser *l);

/* backward.c: makes l->back and the residuals that are its inputs. */

void backward_make(struct lineariser *l);

#endif
