/*
 * The recurrence of persistent.c for steps that all cost the same. A range is then known by its number of steps and
 * by whether the chain ends with it, and time is counted in forward executions of a step. So 10,000 steps are planned
 * exactly.
 *
 * A step's state takes a bytes; once recorded the first step of a range holds h. With m bytes left, up to r(m)
 * steps can be recorded at once. To record a step while nobody reads the state after it takes l executions: 1 if that costs
 * as much as to advance over it, 0 if it costs nothing. V(n, m), the least time of n steps, is n - 1 + l if n <= r(m). Else
 * a state is kept:
 *
 *     V(n, m) = min over k of  k + V(n-k, m - a) + V(k, m)                                                       (1)
 *
 * To record the first step, and to split the range after it, is never better than (1): one step more fits in the right
 * part there, since that has h bytes more. It is so only where the residuals of a step hold the state after it, but not
 * the state before. There the state after the first step is free as a checkpoint while the step is held:
 *
 *     R(n, m) = min over k of  (k-1) + V(n-k, m - h) + R(k, m),     R(1, m) = 1                                  (2)
 *
 * and V(n, m) is the lesser of (1) and R(n, m). If h = a, (2) is the better one always.
 *
 * Three rules leave out most k. Let "at once" be the steps that can be recorded at once in a part:
 *
 *   - The right part has its steps at once, or more. Each of these costs one execution there, and more on the left.
 *
 *   - l >= 1: if the right part has more, the left part has at least its r(m) steps at once. A shorter left part could be
 *     extended by a step that costs two executions or more on the right.
 *
 *   - l < 1: a step costs only 1 + l if a state is kept for it alone. If h <= a, keeping the step itself is better than
 *     keeping that state. Else all shorter left parts are tried.
 *
 * Where that takes large tables, prices (equal_dual.c) give a bound and a schedule. If the schedule takes more than the
 * bound, tables follow, of the few ranges that a better schedule can have. Prices do not serve ranges before which a head
 * runs. There a table that would be too large is *trimmed*: it tries the k of l >= 1. Then it is mostly right, but not
 * proven.
 *
 * Times are whole numbers of ticks: an execution has `unit` of them. The unit is 1 if l is a whole number. Else l is a
 * fraction of small numbers, by its continued fraction, as near to the true l as 32 bits allow (`error`). Times of `never`
 * or more are all alike.
 *
 * A *tail* may follow the equal steps. It is recorded and reversed at once, so it runs once. So it counts as one step
 * more, without which no range is LAST. It only changes how many steps can be recorded at once there.
 *
 * Only levels m0 - i*a - j*h occur, and ranges get shorter with each level. The lower convex hulls of both terms bound
 * their sum. The sum is evaluated around the minimum of the bound, as far as the bound is below the best sum so far.
 * The tests' oracle is the plain recurrence of persistent.c.
 * Tests: tests/unit/test_equal_chain.c
 */
#include "budget/equal_steps.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "budget/equal_dual.h"
#include "schedule/policy.h"

static const int32_t never = INT32_MAX / 4;

enum {
	WHOLE_ROWS = 32, /* rows that try short parts have all lengths only if they take so many times less than they may */
	/* Additions in the time in which a cell is made, a split is tried, and a value at a price is set: */
	CELL_WORK = 40,
	SPLIT_WORK = 3,
	VALUE_WORK = 60,
};

bool equal_costs(const struct step_cost *a, const struct step_cost *b)
{
	return !(a->forward < b->forward || a->forward > b->forward) && !(a->record < b->record || a->record > b->record) &&
	       a->state == b->state && a->residual == b->residual && a->forward_temporary == b->forward_temporary &&
	       a->record_temporary == b->record_temporary && a->backward_temporary == b->backward_temporary &&
	       a->last_temporary == b->last_temporary && a->keeps_input == b->keeps_input &&
	       a->keeps_output == b->keeps_output;
}

bool equal_steps_apply(const struct step_costs *costs)
{
	bool equal = costs->run_count > 0;
	for (size_t i = 0; i < costs->run_count; i++)
		equal &= equal_costs(&costs->runs[i].cost, &costs->runs[0].cost);
	return equal && costs->output == costs->runs[0].cost.state;
}

bool equal_table_has_recorded(const struct equal_table *t) { return t->cost.keeps_output && !t->cost.keeps_input; }

/* True if (2) is never worse than (1): a recorded step holds as much as a state. Not for one step, unless l is 1. */
static bool only_recorded(const struct equal_table *t)
{
	return equal_table_has_recorded(t) && t->cost.residual == t->cost.state && t->last == t->unit;
}

/*
 * True if left parts that are recorded at once may be shorter than they could be. False if a recorded step holds at most
 * the bytes of a state, and recording it needs at most the bytes of advancing over it.
 */
static bool tries_short(const struct equal_table *t)
{
	const struct step_cost *cost = &t->cost;
	const int64_t held = cost->residual + (cost->keeps_input ? cost->state : 0);
	const int64_t workspace = greater(cost->record_temporary, cost->backward_temporary);
	const bool in_place = held <= cost->state && !cost->keeps_output && workspace <= cost->forward_temporary;
	return t->last < t->unit && !t->trimmed && !in_place;
}

/* Returns the least number of steps for which a level's rows at PLACE have times. */
static int64_t least_kept(const struct equal_table *t, const struct equal_level *level, int place)
{
	return tries_short(t) ? lesser(level->at_once[place], 1) : level->at_once[place];
}

/* True if the state after N steps at PLACE that are recorded at once is read; WAY: they are the left part of a split by it. */
static bool is_read(const struct equal_table *t, int place, int way, int64_t n)
{
	return (place == LAST && t->tail) || (way == RECORDED && n == 1);
}

/* Returns the ticks of N steps at PLACE that are recorded at once; WAY: the left part of a split by it. */
static int32_t ticks_once(const struct equal_table *t, int place, int way, int64_t n)
{
	return (int32_t)(n - 1) * t->unit + (is_read(t, place, way, n) ? t->unit : t->last);
}

static int64_t cotangent_held(const struct equal_table *t, int place) { return place == LAST ? 0 : t->cost.state; }

/* Returns the bytes with which PART can be recorded, and reversed at the end; PIN: see persistent.c. */
static int64_t part_bytes(const struct part *part, int64_t cotangent_bytes, bool pin)
{
	const int64_t state = pin ? 0 : part->state;
	return greater(state + part->record + cotangent_bytes, (part->keeps_input ? state : 0) + part->backward);
}

/* Returns the bytes with which a step of T can be recorded and reversed. */
static int64_t record_bytes(const struct equal_table *t, int place, bool pin)
{
	const struct part part = part_of_step(&t->cost, t->cost.state, 0);
	return part_bytes(&part, cotangent_held(t, place), pin);
}

/* Returns how many steps that hold NEXT bytes each can be recorded if all but the last of them may hold BYTES. */
static int64_t steps_within(const struct equal_table *t, int64_t bytes, int64_t next)
{
	if (bytes < 0)
		return 0;
	return next > 0 ? lesser(1 + bytes / next, t->steps) : t->steps;
}

int64_t equal_table_recordable(const struct equal_table *t, int64_t bytes, enum equal_place place, bool pin)
{
	const struct step_cost *cost = &t->cost;
	const struct part *tail = place == LAST ? t->tail : NULL;
	const int64_t kept = cost->keeps_input ? cost->state : 0, rest = bytes - cost->residual - (pin ? 0 : kept);
	const int64_t next = cost->residual + (cost->keeps_output ? 0 : kept);
	int64_t count = 0; /* of equal steps, the first of which leaves REST */
	if (tail && bytes < part_bytes(tail, 0, pin))
		return 0;
	if (bytes >= record_bytes(t, place, pin))
		count = 1 + steps_within(t, rest - record_bytes(t, place, cost->keeps_output), next);
	if (tail)
		count = 1 + lesser(steps_within(t, rest - part_bytes(tail, 0, cost->keeps_output), next), count);
	return lesser(count, t->steps);
}

static int64_t recordable(const struct equal_table *t, int64_t bytes, int place)
{
	return equal_table_recordable(t, bytes, place, false);
}

/* Returns the quantity that a split of WAY takes from what is left for the right part: a, or h. */
static int64_t taken(const struct equal_table *t, int way) { return way == BEST ? t->cost.state : t->cost.residual; }

int64_t equal_table_advances(const struct equal_table *t, int64_t bytes, enum equal_place place)
{
	const int64_t rest = bytes - t->cost.state - t->cost.forward_temporary - cotangent_held(t, place);
	if (rest < t->cost.state) /* of more than one step: the states on both sides, neither of them the range's own */
		return rest < 0 ? 0 : 1;
	return t->steps;
}

/* Returns the most steps before the right part of a split of WAY if BYTES are left for the range. */
static int64_t advances(const struct equal_table *t, int64_t bytes, int place, int way)
{
	const int64_t most = equal_table_advances(t, bytes - taken(t, way), place);
	return lesser(way == BEST ? most : most + 1, t->steps); /* (2) with k = 1 advances over nothing */
}

/* True if ranges of LEVEL that are asked for have to be split by WAY. */
static bool splits(const struct equal_table *t, const struct equal_level *level, int way)
{
	const bool more = level->reach[MIDDLE] > level->at_once[MIDDLE] || level->reach[LAST] > level->at_once[LAST];
	return more && level->at_once[MIDDLE] > 0 && (way == BEST ? !only_recorded(t) : equal_table_has_recorded(t));
}

/* Appends the level of BYTES. False if out of memory. */
static bool add_level(struct equal_table *t, int64_t bytes)
{
	if (!allocator_grow(t->allocator, (void **)&t->levels, &t->capacity, t->count + 1, sizeof *t->levels))
		return false;
	struct equal_level *level = &t->levels[t->count++];
	*level = (struct equal_level){.bytes = bytes, .right = {-1, -1}};
	for (int place = 0; place < PLACES; place++) {
		level->at_once[place] = recordable(t, bytes, place);
		for (int way = 0; way < WAYS; way++)
			level->far[place][way] = advances(t, bytes, place, way);
	}
	return true;
}

/* Makes the level RIGHT that of the right parts of LEVEL's splits by WAY. */
static void link_right(struct equal_table *t, struct equal_level *level, int way, int64_t right)
{
	struct equal_level *to = &t->levels[right];
	level->right[way] = right;
	for (int place = 0; place < PLACES; place++) {
		if (level->reach[place] <= level->at_once[place])
			continue;
		const bool all = level->far[place][way] == t->steps;
		const bool longest = all && !tries_short(t);
		const int64_t before = longest ? lesser(level->at_once[MIDDLE], level->reach[place] - 1) : 1;
		to->reach[place] = greater(level->reach[place] - before, to->reach[place]);
	}
}

/* Left parts are ranges of the same level. */
static void reach_left(struct equal_level *level)
{
	if (level->at_once[LAST] > 0 && level->reach[LAST] > level->at_once[LAST])
		level->reach[MIDDLE] = greater(level->reach[LAST] - 1, level->reach[MIDDLE]);
}

/* True if some range is possible within BYTES. */
static bool feasible(const struct equal_table *t, int64_t bytes)
{
	return recordable(t, bytes, LAST) > 0 || recordable(t, bytes, MIDDLE) > 0;
}

/* Lists all levels that the chain within BYTES comes to, by falling bytes. False if out of memory. */
static bool list_levels(struct equal_table *t, int64_t bytes)
{
	size_t parent[WAYS] = {0}; /* the first level whose right one by each way is not listed yet */
	if (!add_level(t, bytes))
		return false;
	t->levels[0].reach[LAST] = t->steps;
	t->levels[0].reach[MIDDLE] = t->all ? t->steps - 1 : 0;
	reach_left(&t->levels[0]);
	for (;;) {
		int64_t next = -1;
		for (int way = 0; way < WAYS; way++) {
			while (parent[way] < t->count && !splits(t, &t->levels[parent[way]], way))
				parent[way]++;
			if (parent[way] < t->count)
				next = greater(t->levels[parent[way]].bytes - taken(t, way), next);
		}
		if (next < 0 || !feasible(t, next))
			return true;
		if (next < t->levels[t->count - 1].bytes && !add_level(t, next))
			return false;
		for (int way = 0; way < WAYS; way++)
			if (parent[way] < t->count && t->levels[parent[way]].bytes - taken(t, way) == next)
				link_right(t, &t->levels[parent[way]++], way, (int64_t)t->count - 1);
		reach_left(&t->levels[t->count - 1]);
	}
}

/* True if LEVEL has times of its own for ranges at PLACE that begin by WAY. */
static bool has_times(const struct equal_table *t, const struct equal_level *level, int place, int way)
{
	return level->at_once[place] > 0 && level->to[place] >= level->from[place] &&
	       (way == BEST ? !only_recorded(t) : equal_table_has_recorded(t));
}

/* Points the times of all levels at their places in CELLS; not if CELLS is NULL. Returns the number of cells. */
static size_t place_times(struct equal_table *t, int32_t *cells)
{
	size_t count = 0;
	for (size_t i = 0; i < t->count; i++)
		for (int place = 0; place < PLACES; place++) {
			struct equal_level *level = &t->levels[i];
			for (int way = WAYS; way-- > 0;) {
				if (has_times(t, level, place, way)) {
					level->times[place][way] = cells ? cells + count - level->from[place] : NULL;
					count += (size_t)(level->to[place] - level->from[place] + 1);
				} else if (way == BEST) {
					level->times[place][way] = level->times[place][RECORDED];
				}
			}
		}
	return count;
}

/* Returns the ticks of N steps at PLACE that begin by WAY, if LEVEL (-1: none) is left for them. */
static int32_t time_at(const struct equal_table *t, int64_t level, int place, int way, int64_t n)
{
	const struct equal_level *at = level < 0 ? NULL : &t->levels[level];
	if (!at || at->at_once[place] == 0)
		return never;
	if (n <= at->at_once[place])
		return ticks_once(t, place, way, n);
	return n >= at->from[place] && n <= at->to[place] && at->times[place][way] ? at->times[place][way][n] : never;
}

void hull_add(struct hull *h, int64_t x, double height)
{
	for (; h->count > 1; h->count--) {
		const int64_t b = h->corners[h->count - 1], a = h->corners[h->count - 2];
		const double low = h->heights[h->count - 2], middle = h->heights[h->count - 1];
		if ((middle - low) * (double)(x - b) < (height - middle) * (double)(b - a))
			break;
	}
	h->heights[h->count] = height;
	h->corners[h->count++] = (int32_t)x;
	h->near = lesser(h->near, h->count - 1);
}

/* Returns the height of H at X, which lies between the first and the last point. */
static double hull_at(struct hull *h, int64_t x)
{
	while (h->near > 0 && h->corners[h->near] > x)
		h->near--;
	while (h->near + 1 < h->count && h->corners[h->near + 1] <= x)
		h->near++;
	const int64_t a = h->corners[h->near];
	const double height = h->heights[h->near];
	if (a == x)
		return height;
	const int64_t b = h->corners[h->near + 1];
	return height + (h->heights[h->near + 1] - height) * (double)(x - a) / (double)(b - a);
}

double hulls_bound(struct hulls *h, int64_t n, int64_t k)
{
	return (double)((k - h->saved) * h->each) + hull_at(&h->left, k) + hull_at(&h->right, n - k);
}

void hulls_find_middle(struct hulls *h, int64_t n, int64_t low, int64_t high)
{
	int64_t k = greater(low, lesser(h->middle + 1, high));
	double here = hulls_bound(h, n, k);
	for (int64_t to = k + 1; to <= high && hulls_bound(h, n, to) < here; to++)
		here = hulls_bound(h, n, k = to);
	for (int64_t to = k - 1; to >= low && hulls_bound(h, n, to) < here; to--)
		here = hulls_bound(h, n, k = to);
	h->middle = k;
}

/* Splits by (1) or (2) of ranges of N steps, for one N after another. */
struct splitting {
	const int32_t *left_times, *right_times;
	struct hulls hulls;
	int64_t low, high; /* the k to look at */
	int64_t tried;     /* splits, in all */
};

/* The hot loop. Returns the least time of the splits at FROM .. TO-1. */
static int32_t least_between(struct splitting *s, int64_t n, int64_t from, int64_t to)
{
	s->tried += to - from;
	const int32_t *left = s->left_times, *right = s->right_times + n;
	const int32_t unit = (int32_t)s->hulls.each, saved = (int32_t)s->hulls.saved * unit;
	int32_t best = never + saved;
	for (int64_t k = from; k < to; k++) {
		const int32_t time = (int32_t)k * unit + left[k] + right[-k];
		best = time < best ? time : best;
	}
	return best - saved;
}

/* Returns the least time of N steps over the splits at s->low .. s->high. */
static int32_t least_split_time(struct splitting *s, int64_t n)
{
	enum { CHUNK = 32 };
	hulls_find_middle(&s->hulls, n, s->low, s->high);
	int64_t from = greater(s->hulls.middle - CHUNK / 2, s->low), to = lesser(s->hulls.middle + CHUNK / 2, s->high + 1);
	int32_t best = least_between(s, n, from, to);
	/* times are whole numbers: a bound above best - 1 does not allow a lesser one */
	while (from > s->low && hulls_bound(&s->hulls, n, from - 1) < best - 1 + 1e-6) {
		const int64_t before = greater(from - CHUNK, s->low);
		best = (int32_t)lesser(least_between(s, n, before, from), best);
		from = before;
	}
	while (to <= s->high && hulls_bound(&s->hulls, n, to) < best - 1 + 1e-6) {
		const int64_t after = lesser(to + CHUNK, s->high + 1);
		best = (int32_t)lesser(least_between(s, n, to, after), best);
		to = after;
	}
	return best;
}

/* A row of times that is filled: of LEVEL, at PLACE, by WAY. */
struct filling {
	const struct equal_table *t;
	int64_t level;
	int place, way;
};

/* Returns the least time of N steps of F over the splits at 1 .. MOST, each looked at; *BEST_K: where it is found. */
static int32_t try_splits(const struct filling *f, int64_t n, int64_t most, int64_t *best_k)
{
	const int64_t right = f->t->levels[f->level].right[f->way];
	int32_t best = never;
	for (int64_t k = 1; k <= lesser(most, n - 1); k++) {
		const int32_t left_time = time_at(f->t, f->level, MIDDLE, f->way, k);
		const int32_t time =
			((int32_t)k - f->way) * f->t->unit + left_time + time_at(f->t, right, f->place, BEST, n - k);
		if (time < best) {
			best = time;
			*best_k = k;
		}
	}
	return best;
}

/* Returns the length of the shortest right part, with TO's bytes left, that is tried. */
static int64_t least_right(const struct equal_table *t, const struct equal_level *to, int place)
{
	return t->windows ? to->from[place] : to->at_once[place];
}

/* Returns the least time of N steps by the splits of F. */
static int32_t time_by_splits(const struct filling *f, struct splitting *s, int64_t n)
{
	const struct equal_level *level = &f->t->levels[f->level], *right = &f->t->levels[level->right[f->way]];
	int64_t k;
	if (level->far[f->place][f->way] < f->t->steps)
		return try_splits(f, n, level->far[f->place][f->way], &k);
	s->low = greater(level->from[MIDDLE], n - right->to[f->place]);
	s->high = lesser(n - least_right(f->t, right, f->place), f->place == MIDDLE ? n - 1 : level->to[MIDDLE]);
	if (s->high >= s->low)
		return least_split_time(s, n);
	if (f->t->windows)
		return never;
	s->high = n - right->at_once[f->place]; /* both parts at once */
	return (int32_t)(s->high - s->hulls.saved) * f->t->unit +
	       ticks_once(f->t, f->place, BEST, right->at_once[f->place]) + ticks_once(f->t, MIDDLE, f->way, s->high);
}

/*
 * Fills the row of F, but stops once more than MOST splits are tried. Returns how many were. The cells and heights of its
 * table begin with memory for two hulls.
 */
static int64_t fill_row(const struct filling *f, int64_t most_tried)
{
	const struct equal_table *t = f->t;
	const struct equal_level *level = &t->levels[f->level];
	const struct equal_level *to = level->right[f->way] < 0 ? NULL : &t->levels[level->right[f->way]];
	const int64_t most = level->to[f->place], least = lesser(level->at_once[f->place], most);
	int32_t *times = level->times[f->place][f->way];
	const int32_t *recorded = f->way == BEST && equal_table_has_recorded(t) ? level->times[f->place][RECORDED] : NULL;
	const bool open =
		to && to->at_once[f->place] > 0 && to->to[f->place] >= to->from[f->place] && level->at_once[MIDDLE] > 0;
	const bool growing = f->place == MIDDLE; /* the left parts are ranges of the same row */
	struct splitting s = {.hulls = {.each = t->unit, .saved = f->way == RECORDED}};
	for (int64_t n = level->from[f->place]; n <= least; n++)
		times[n] = ticks_once(t, f->place, f->way, n);
	if (open && most > least) {
		s.left_times = level->times[MIDDLE][f->way];
		s.right_times = to->times[f->place][BEST];
		s.hulls.left = (struct hull){.corners = t->cells, .heights = t->heights};
		s.hulls.right = (struct hull){.corners = t->cells + t->steps + 1, .heights = t->heights + t->steps + 1};
		for (int64_t x = least_right(t, to, f->place); x <= to->to[f->place]; x++)
			hull_add(&s.hulls.right, x, s.right_times[x]);
		for (int64_t x = level->from[MIDDLE]; x <= (growing ? least : level->to[MIDDLE]); x++)
			hull_add(&s.hulls.left, x, s.left_times[x]);
	}
	const int64_t first = f->level == 0 && f->place == LAST && !t->all ? most : least + 1;
	for (int64_t n = greater(first, level->from[f->place]); n <= most && s.tried <= most_tried; n++) {
		const int32_t split = open ? time_by_splits(f, &s, n) : never;
		times[n] = (int32_t)lesser(lesser(split, never), recorded ? recorded[n] : never);
		if (growing && open)
			hull_add(&s.hulls.left, n, times[n]);
	}
	return s.tried;
}

/* Returns a number of executions that is enough for the steps of T within BYTES: one step after another from few states. */
static double enough_time(const struct equal_table *t, int64_t bytes)
{
	const struct step_cost *cost = &t->cost;
	const int64_t workspace =
		greater(cost->forward_temporary, greater(cost->record_temporary, cost->backward_temporary));
	int64_t needed = 3 * cost->state + cost->residual + workspace;
	if (t->tail)
		needed = greater(needed, 2 * cost->state + greater(part_bytes(t->tail, 0, false), 0));
	const int64_t states = (bytes - needed) / cost->state;
	const double steps = (double)t->steps;
	if (bytes < needed || states < 1)
		return steps * (steps + 1) / 2;
	return (double)policy_evaluations(&(struct policy){.kind = POLICY_revolve, .number = states}, t->steps);
}

/*
 * Sets the ticks of T: LAST / UNIT is the last convergent of l's continued fraction whose unit keeps times of TIME well below
 * `never`, and so those of the best schedule if that takes TIME. False if no unit does.
 */
static bool set_ticks(struct equal_table *t, double time)
{
	const double steps = (double)t->steps, limit = 0.8 * (double)never, l = fmin(t->record, floor(limit / steps));
	const double most = limit / fmax(time, steps * fmax(l, 1));
	double rest = l, number = 1, unit = 0, number_before = 0, unit_before = 1;
	for (int i = 0; i < 40; i++) {
		const double whole = floor(rest), next_unit = whole * unit + unit_before;
		const double next_number = whole * number + number_before;
		if (i > 0 && next_unit > most)
			break;
		number_before = number;
		unit_before = unit;
		number = next_number;
		unit = next_unit;
		if (fabs(number / unit - l) <= 1e-12 * l)
			break;
		rest = 1 / (rest - whole);
	}
	t->last = (int32_t)number;
	t->unit = (int32_t)unit;
	const double error = fabs(number / unit - t->record);
	t->error = error > 1e-12 * fmax(l, 1) ? 2 * steps * error : 0;
	return most >= 1;
}

/* Makes the rows of LEVEL those of all ranges that are asked for. */
static void set_whole_rows(const struct equal_table *t, struct equal_level *level)
{
	for (int place = 0; place < PLACES; place++) {
		level->from[place] = least_kept(t, level, place);
		level->to[place] = level->reach[place] > 0 ? greater(level->reach[place], level->at_once[place]) : -1;
	}
}

/* Lists the levels of T within BYTES. *TIMES: the number of their cells. False if out of memory. */
static bool make_levels(struct equal_table *t, int64_t bytes, size_t *times)
{
	t->count = 0;
	if (!list_levels(t, bytes))
		return false;
	for (size_t i = 0; i < t->count; i++)
		set_whole_rows(t, &t->levels[i]);
	*times = place_times(t, NULL);
	return true;
}

/*
 * Allocates the cells of T, TIMES of them beside the hulls, and fills all rows. TOO_LARGE: more than EACH_CELL splits are tried
 * for each of MOST_CELLS numbers. That happens where l is a fraction of large numbers. With EQUAL_CELLS_MANY no run waits, or a
 * long one: then the table is exact, however long it takes.
 */
static enum equal_result fill_rows(struct equal_table *t, size_t times, size_t most_cells)
{
	enum { EACH_CELL = 64 };
	const int64_t most = most_cells < EQUAL_CELLS_MANY ? (int64_t)most_cells * EACH_CELL : INT64_MAX / 2;
	int64_t left = most;
	const size_t hulls = 2 * ((size_t)t->steps + 1);
	t->cell_count = times + hulls;
	t->cells = allocator_get(t->allocator, t->cell_count, sizeof *t->cells);
	t->heights = allocator_get(t->allocator, hulls, sizeof *t->heights);
	if (!t->cells || !t->heights)
		return EQUAL_NO_MEMORY;
	(void)place_times(t, t->cells + hulls);
	for (size_t i = t->count; i-- > 0 && left >= 0;)
		for (int place = 0; place < PLACES; place++)
			for (int way = WAYS; way-- > 0;)
				if (has_times(t, &t->levels[i], place, way) && left >= 0)
					left -= fill_row(&(struct filling){t, (int64_t)i, place, way}, left);
	t->work += (double)times * CELL_WORK + (double)(most - left) * SPLIT_WORK;
	return left >= 0 ? EQUAL_SOLVED : EQUAL_TOO_LARGE;
}

static void free_cells(struct equal_table *t)
{
	allocator_put(t->allocator, t->cells, t->cell_count * sizeof *t->cells);
	allocator_put(t->allocator, t->heights, 2 * ((size_t)t->steps + 1) * sizeof *t->heights);
	t->cells = NULL;
	t->heights = NULL;
	t->cell_count = 0;
}

/* Frees the prices of T, whose rows have times from now on. */
static void drop_dual(struct equal_table *t)
{
	if (t->dual) {
		t->work += (double)equal_dual_values(t->dual) * VALUE_WORK;
		equal_dual_free(t->dual);
		allocator_put(t->allocator, t->dual, sizeof *t->dual);
	}
	t->dual = NULL;
}

/*
 * Sets the rows of T to the times of ranges that schedules of at most TIME can have. Returns false, with *RESULT as it was,
 * if these times, or the work on them, exceed a quarter of MOST_CELLS. Returns false, with EQUAL_NO_MEMORY, if out of memory.
 */
static bool search_windows(struct equal_table *t, double time, size_t most_cells, enum equal_result *result)
{
	free_cells(t);
	if (equal_dual_window_work(t->dual, time) > most_cells / 4)
		return false;
	t->windows = equal_dual_windows(t->dual, t, time);
	const size_t times = place_times(t, NULL);
	if (t->windows && times > most_cells / 4)
		return false;
	const enum equal_result filled = t->windows ? fill_rows(t, times, most_cells / 4) : EQUAL_NO_MEMORY;
	if (filled == EQUAL_NO_MEMORY)
		*result = EQUAL_NO_MEMORY;
	return filled == EQUAL_SOLVED;
}

/* Looks for the best schedule of T: its prices have one that takes more than their bound. */
static enum equal_result solve_windows(struct equal_table *t, size_t most_cells)
{
	enum equal_result result = EQUAL_SOLVED;
	const double bound = t->dual->bound, ticks = t->error;
	t->error = t->dual_time - bound;
	for (double excess = 1; search_windows(t, fmin(bound + excess, t->dual_time), most_cells, &result); excess *= 4) {
		const double time = (double)time_at(t, 0, LAST, BEST, t->steps) / t->unit;
		if (time > bound + excess + ticks && bound + excess < t->dual_time)
			continue;
		t->error = fmin(ticks, t->error);
		if (time < t->dual_time * (1 - 1e-9))
			drop_dual(t);
		break;
	}
	return result;
}

/* Finds a schedule by prices, and the best one if its windows fit in MOST_CELLS. */
static enum equal_result solve_by_prices(struct equal_table *t, size_t most_cells)
{
	t->dual = allocator_get(t->allocator, 1, sizeof *t->dual);
	if (!t->dual)
		return EQUAL_NO_MEMORY;
	const enum equal_result result = equal_dual_solve(t->dual, t, most_cells);
	if (result != EQUAL_SOLVED)
		return result;
	t->dual_time = equal_table_walk_time(t);
	if (t->dual_time < 0)
		return EQUAL_NO_MEMORY;
	if (t->dual_time >= EQUAL_NEVER)
		return EQUAL_TOO_LARGE;
	const bool fits = set_ticks(t, t->dual_time);
	if (t->dual_time > t->dual->bound + 1e-9 * t->dual_time)
		return fits ? solve_windows(t, most_cells) : EQUAL_SOLVED;
	t->error = 0;
	return EQUAL_SOLVED;
}

/* Makes T as it was before its prices: all ranges that are asked for have times. */
static void reset_rows(struct equal_table *t)
{
	drop_dual(t);
	free_cells(t);
	t->windows = false;
	for (size_t i = 0; i < t->count; i++)
		set_whole_rows(t, &t->levels[i]);
	(void)place_times(t, NULL);
}

/* True if prices serve T: they know all its steps alone. Sets *RESULT to what they find. */
static bool solved_by_prices(struct equal_table *t, size_t most_cells, bool whole, enum equal_result *result)
{
	if (t->all)
		return false;
	*result = solve_by_prices(t, most_cells);
	return *result == EQUAL_NO_MEMORY || (*result != EQUAL_TOO_LARGE && !(whole && t->error > 0));
}

enum equal_result equal_table_solve(struct equal_table *t, int64_t bytes, size_t most_cells)
{
	enum equal_result result;
	size_t times;
	t->record = t->cost.forward > 0 ? t->cost.record / t->cost.forward : 1;
	const bool fits = set_ticks(t, enough_time(t, bytes));
	if (!feasible(t, bytes))
		return EQUAL_INFEASIBLE;
	if (!make_levels(t, bytes, &times))
		return EQUAL_NO_MEMORY;
	const bool rounded = t->error > 0, whole = fits && times <= most_cells;
	if ((!whole || rounded || times > most_cells / WHOLE_ROWS) &&
	    solved_by_prices(t, most_cells, whole && !rounded, &result))
		return result;
	reset_rows(t);
	(void)set_ticks(t, enough_time(t, bytes));
	if (times > most_cells && tries_short(t)) {
		t->trimmed = true;
		t->error = INFINITY;
		if (!make_levels(t, bytes, &times))
			return EQUAL_NO_MEMORY;
	}
	if (times > most_cells || !fits)
		return EQUAL_TOO_LARGE;
	return fill_rows(t, times, most_cells);
}

double equal_table_time(const struct equal_table *t, enum equal_place place, int64_t n)
{
	if (t->dual)
		return place == LAST && n == t->steps ? t->dual_time : EQUAL_NEVER;
	const int32_t ticks = time_at(t, t->count ? 0 : -1, place, BEST, n);
	return ticks < never ? (double)ticks / t->unit : EQUAL_NEVER;
}

double equal_table_once(const struct equal_table *t, enum equal_place place, int64_t n)
{
	return (double)ticks_once(t, place, BEST, n) / t->unit;
}

double equal_table_once_by(const struct equal_table *t, enum equal_place place, enum equal_way way, int64_t n)
{
	return (double)(n - 1) + (is_read(t, place, way, n) ? 1 : t->record);
}

struct equal_choice equal_table_choose(const struct equal_table *t, int64_t level, enum equal_place place,
                                       enum equal_way way, int64_t n)
{
	struct equal_choice choice = {way, 0};
	if (way == BEST && equal_table_has_recorded(t) &&
	    time_at(t, level, place, BEST, n) == time_at(t, level, place, RECORDED, n))
		return (struct equal_choice){RECORDED, 0};
	(void)try_splits(&(struct filling){t, level, place, way}, n, t->levels[level].far[place][way], &choice.k);
	return choice;
}

void equal_table_free(struct equal_table *t)
{
	drop_dual(t);
	free_cells(t);
	allocator_put(t->allocator, t->levels, t->capacity * sizeof *t->levels);
	t->levels = NULL;
}
