/*
 * Checkpoint blocks that their policies cut. The block keeps what the policy keeps of a chain of the block's steps alone.
 * In the terms of regions: it keeps what its own instructions need, and the segments that the first sweep of the policy's
 * schedule does not record are regions in it that keep nothing. In such a segment its own sweep makes regions likewise.
 *
 * Invariant: schedules of these policies are persistent. A sweep begins at a state that one before it kept, and ends where
 * the cotangent is. So what it reverses is a segment of an earlier sweep, the last that is not reversed yet.
 * Tests: tests/cases/blocks.test, tests/unit/test_residuals.c
 */
#include "compile/lineariser.h"

#include <assert.h>
#include <string.h>

#include "schedule/action.h"
#include "schedule/step_costs.h"

/* The regions with those of segments, as they are made. */
struct cutting {
	struct lineariser *l;
	struct region *regions;
	size_t count, capacity;
	uint32_t *innermost; /* by instruction: the last region so far that has it */
	int64_t operations;  /* the sum of the segments' */
};

/* Appends REGION, in the last one so far that has its instructions. False if out of memory. */
static bool add_region(struct cutting *c, const struct region *region)
{
	struct region *added = arena_append(&c->l->scratch, &c->regions, &c->count, &c->capacity, sizeof *added);
	if (!added)
		return false;
	*added = *region;
	if (region->first < region->end)
		added->parent = c->innermost[region->first];
	for (uint32_t i = region->first; i < region->end; i++)
		c->innermost[i] = (uint32_t)c->count - 1;
	return true;
}

/* Segments that are not reversed yet, the last of them on top. */
struct pending {
	struct stretch {
		int64_t begin, end; /* steps */
	} * items;
	size_t count, capacity;
	size_t earlier; /* number of those of earlier sweeps */
	int64_t begin;  /* of the segment that this sweep is passing */
};

/* Ends the segment that the sweep is passing at the state END, unless it begins there. False if out of memory. */
static bool end_segment(struct cutting *c, struct pending *pending, int64_t end)
{
	const struct stretch stretch = {pending->begin, end};
	pending->begin = end;
	if (stretch.begin == end)
		return true;
	struct stretch *item =
		arena_append(&c->l->scratch, &pending->items, &pending->count, &pending->capacity, sizeof *item);
	if (item)
		*item = stretch;
	return item != NULL;
}

/* The state AT is kept no longer. If this sweep has kept it, the segments around it are one. */
static void join_segments(struct pending *pending, int64_t at)
{
	struct stretch *items = pending->items;
	size_t i = pending->earlier;
	while (i < pending->count && items[i].end != at)
		i++;
	if (i == pending->count)
		return;
	if (i + 1 == pending->count) {
		pending->begin = items[i].begin;
	} else {
		items[i].end = items[i + 1].end;
		memmove(&items[i + 1], &items[i + 2], (pending->count - i - 2) * sizeof *items);
	}
	pending->count--;
}

/* Makes the segments of this sweep regions of BLOCK. False if out of memory. */
static bool end_sweep(struct cutting *c, const struct region *block, const struct pending *pending)
{
	for (size_t i = pending->earlier; i < pending->count; i++) {
		const struct stretch *segment = &pending->items[i];
		const struct region region = {.first = segment->begin ? block->steps[segment->begin - 1] : block->first,
		                              .end = block->steps[segment->end - 1],
		                              .span = block->span};
		c->operations += region.end - region.first;
		c->l->too_long |= c->operations > MAX_OPERATIONS;
		if (c->l->too_long || !add_region(c, &region))
			return false;
	}
	return true;
}

/* Makes the segments of BLOCK, the last region, by the sweeps of SCHEDULE. False if out of memory. */
static bool cut_block(struct cutting *c, const struct region *block, struct schedule *schedule)
{
	struct pending pending = {0};
	struct action action;
	int64_t at = 0; /* the current state */
	bool good = true;
	while (good && schedule_next(schedule, &action)) {
		switch (action.kind) {
		case ACT_FORWARD:
			at = action.end;
			break;
		case ACT_SAVE:
			good = end_segment(c, &pending, at);
			break;
		case ACT_DROP:
			join_segments(&pending, action.begin);
			break;
		case ACT_RECORD:
			good = end_segment(c, &pending, at) && end_sweep(c, block, &pending);
			pending.earlier = pending.count;
			pending.begin = at = action.end;
			break;
		case ACT_LOAD:
			assert(pending.count > 0 && pending.items[pending.count - 1].begin == action.begin);
			pending.earlier = --pending.count;
			pending.begin = at = action.begin;
			break;
		default:
			break;
		}
	}
	return good;
}

/* Appends REGION, and its segments if a policy cuts it. */
static bool add_with_segments(struct cutting *c, const struct region *region)
{
	if (!add_region(c, region))
		return false;
	if (!region->steps)
		return true;
	const struct step_run run = {.cost = {.forward = 1, .backward = 1, .record = 1, .state = 1},
	                             .count = (int64_t)region->step_count};
	const struct step_costs costs = {.runs = &run, .run_count = 1, .steps = run.count};
	struct schedule *schedule = policy_schedule(region->policy, &costs, c->l->scratch.allocator);
	if (!schedule)
		return false;
	const bool good = cut_block(c, region, schedule);
	schedule_free(schedule);
	return good;
}

bool block_cuts_make(struct lineariser *l)
{
	struct body *body = l->body;
	struct cutting c = {.l = l};
	bool cut = false;
	for (size_t i = 0; i < body->region_count; i++)
		cut |= body->regions[i].step_count > 0;
	if (!cut)
		return true;
	c.innermost = arena_array(&l->scratch, body->instr_count + 1, sizeof *c.innermost);
	for (size_t i = 0; i < body->region_count && c.innermost; i++)
		if (!add_with_segments(&c, &body->regions[i]))
			return false;
	body->regions = arena_array(l->arena, c.count, sizeof *body->regions);
	if (!c.innermost || !body->regions)
		return false;
	memcpy(body->regions, c.regions, c.count * sizeof *c.regions);
	body->region_count = body->region_capacity = c.count;
	for (size_t i = 0; i < body->instr_count; i++)
		body->instrs[i].region = c.innermost[i];
	return true;
}
