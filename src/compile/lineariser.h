/*
 * Private to linearisation:
 *
 *     linearise.c   the order of the parts; recording bodies; origins and readers of residuals
 *     survey.c      what policies keep and recompute, without bodies
 *     block_cuts.c  the regions of blocks that their policies cut
 *     regions.c     which values each checkpoint region keeps, and which it recomputes
 *     backward.c    the list of residuals, and the backward body
 */
#ifndef COMPILE_LINEARISER_H
#define COMPILE_LINEARISER_H

#include "compile/linearise.h"

struct value_list {
	uint32_t *items;
	size_t count, capacity;
};

/* The values that the backward pass of a checkpoint region needs. */
struct region_plan {
	struct value_list kept, again; /* held when it begins, and recomputed by it */
	uint32_t saver;                /* the innermost region from it outward whose policy saves values; else 0 */
};

/* What linearisation knows of a value of the recording body. */
struct linear_value {
	bool reached;       /* a cotangent reaches it */
	uint32_t stamp;     /* the epoch of the last set that it was added to */
	uint32_t mapped;    /* the same value in the backward body, or NO_VALUE */
	bool path;          /* while a fixed point is solved: it depends on the solution, by derivatives */
	bool ended;         /* a solution, whose fixed point is solved: no derivative goes to it */
	uint32_t cotangent; /* in the backward body: the sum so far of the cotangents that reach it, or NO_VALUE */
};

/* If out of memory, an arena has failed, and the parts below do nothing useful until linearise ends. */
struct lineariser {
	struct arena *arena;  /* for what OUT keeps */
	struct arena scratch; /* freed when linearise ends */
	struct linear *out;
	const struct step *step;
	const struct policy *policy; /* by value, for the whole body; or NULL */
	struct body *body; /* the recording body: its instructions keep what derivatives read, in the end residuals alone */
	struct body *back; /* the backward body */
	struct linear_value *values; /* these, AGAIN and the lists of REGIONS are in SCRATCH */
	bool *again;                 /* by instruction: a region recomputes it */
	struct region_plan *regions;
	uint32_t epoch;
	bool too_long; /* policies of blocks compute too many operations again */
	uint32_t
		given; /* number of instructions up to the place of the gradient: what they make is as given as an input is */
	int32_t solving;      /* number of loops around this place of the backward body: each solves a fixed point */
	struct instr nowhere; /* takes writes once memory is out */
};

/* Returns which derivatives of INSTR the backward pass computes: bit K for its value K (instr_value). */
unsigned derivatives_of(const struct lineariser *l, const struct instr *instr);
/* Returns the NEED_* bits of the values that those derivatives of INSTR read. */
unsigned needs_of(const struct lineariser *l, const struct instr *instr);
/* True if those derivatives read INSTR's value K. */
bool needs_value(const struct lineariser *l, const struct instr *instr, uint32_t k);

/* True if instruction AT of the recording body is the last of its step: it makes the step's value. */
static inline bool ends_step(const struct body *body, size_t at)
{
	return at + 1 == body->instr_count || body->instrs[at + 1].step != body->instrs[at].step;
}

/* Begins an empty set of values; one set exists at a time. */
static inline void begin_set(struct lineariser *l) { l->epoch++; }
static inline bool is_in_set(const struct lineariser *l, uint32_t value) { return l->values[value].stamp == l->epoch; }
/* Adds VALUE to the set. False if it was there. */
static inline bool add_to_set(struct lineariser *l, uint32_t value)
{
	const bool added = !is_in_set(l, value);
	l->values[value].stamp = l->epoch;
	return added;
}

/*
 * linearise.c: does what no policy changes. Makes the bodies, finds the values that cotangents reach, and lets
 * instructions keep values. The caller has set arena, scratch, out and step. False if out of memory, or too long.
 */
bool lineariser_begin(struct lineariser *l);
/* Reports why L has failed. */
enum status lineariser_refuse(const struct lineariser *l, struct diags *diags);

/* regions.c */

static inline const struct region *region_at(const struct lineariser *l, uint32_t id) { return &l->body->regions[id]; }
/* Returns the child of REGION that has instruction AT in it, or REGION if no child has. REGION must have AT. */
static inline uint32_t inner_region(const struct lineariser *l, uint32_t region, uint32_t at)
{
	uint32_t inner = l->body->instrs[at].region;
	while (inner != region && region_at(l, inner)->parent != region)
		inner = region_at(l, inner)->parent;
	return inner;
}
/* block_cuts.c: makes the segments of blocks that their policies cut regions of l->body. False if out of memory, or too long. */
bool block_cuts_make(struct lineariser *l);

/* Decides for each region, from the innermost, what it keeps and what it recomputes. */
void regions_plan(struct lineariser *l);

/* backward.c: makes l->back and the list of residuals, which are its first ins. */

void backward_make(struct lineariser *l);

#endif
