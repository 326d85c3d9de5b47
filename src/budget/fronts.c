/*
 * The recurrence of persistent.c over bytes in place of quanta. For each range of steps i .. j-1 there is a Pareto front:
 * numbers of bytes, and the least time of the range within them. A front of a range follows from those of shorter ranges:
 * recording the first step moves a front by the bytes that the step holds. A split adds two fronts, of which one is moved
 * by the bytes of a state. The minimum of all these is the range's front.
 *
 * Times are *extra*: beyond save-all's time for the range. Only advancing costs extra time. A schedule's tree has a range
 * once at most, so the extra times of its ranges add up. Two limits follow:
 *
 *   - Extra time. A schedule has at most `most`, and so has each range. A range that does not end the chain is the left side
 *     of a split, which advances over it once before. That time comes off its limit.
 *
 *   - Bytes. Where a range begins, other ranges hold at least the bytes of the cheapest way to get there (set_beside).
 *     These come off the budget.
 *
 * With both limits, fronts of 64 steps have some hundred points, where sums of 64 sizes have 2^64.
 *
 * A front of more than `width` points is thinned. Neighbouring points become one, of the first one's bytes and the last
 * one's extra time. So a front claims too little time, never too much, and gives a lower bound. The schedule is made from
 * the fronts again, with its true time. Its distance from the bound is the gap.
 *
 * The limit `most` is unknown at first. It grows until there is a schedule. Where none is left below a limit, that limit is
 * a lower bound. A schedule from thin fronts is the limit of the next ones, which have more points.
 * Tests: tests/unit/test_budget.c
 */
#include "budget/fronts.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"

enum {
	WIDTH_LEAST = 8,
	WIDTH_FIRST =
		256, /* the most points of the first fronts: of 64 steps, they are mostly within a percent of the best */
	WIDTH_MOST = 1 << 14,
	ROOM = 4, /* the most points of a front while it is made, in widths */
};

static const double rounding = 1e-13; /* of the chain's time: times that differ by less are equal */

static struct front *front_of(const struct fronts *f, struct range r)
{
	return &f->fronts[2 * (r.j * (r.j - 1) / 2 + r.i) + r.pin];
}

static int64_t cotangent_bytes(const struct fronts *f, int64_t j) { return j < f->count ? f->parts[j].state : 0; }

/* Returns the bytes that R's first step holds once recorded. */
static int64_t recorded_bytes(const struct fronts *f, struct range r)
{
	const struct part *part = &f->parts[r.i];
	return part->residual + (part->keeps_input ? range_state(f->parts, r) : 0);
}

/* Returns the bytes that R needs to record its first step now and to reverse it at the end. */
static int64_t bytes_to_record(const struct fronts *f, struct range r)
{
	return range_record_bytes(f->parts, r, cotangent_bytes(f, r.j));
}

/* Returns the extra time of advancing over steps I .. K-1. */
static double extra_of_advance(const struct fronts *f, int64_t i, int64_t k) { return f->ends[k] - f->starts[i]; }

/* The cheapest way to each range's begin: a record holds the step's residuals, a split the state before its range. */
static void set_beside(struct fronts *f)
{
	for (int64_t i = 1; i <= f->count; i++)
		f->beside[i][0] = f->beside[i][1] = INT64_MAX / 2;
	for (int64_t i = 0; i < f->count; i++)
		for (int pin = 0; pin < 2; pin++) {
			const struct range r = {i, i + 1, pin};
			const int64_t held = f->beside[i][pin];
			if (held == INT64_MAX / 2)
				continue;
			int64_t *after = &f->beside[i + 1][f->parts[i].keeps_output];
			*after = lesser(*after, held + recorded_bytes(f, r));
			for (int64_t k = i + 1; k < f->count; k++)
				f->beside[k][0] = lesser(f->beside[k][0], held + range_state(f->parts, r));
		}
}

static void set_parts(struct fronts *f, const struct step_costs *costs)
{
	int64_t step = f->count;
	int64_t next = costs->output;
	for (size_t run = costs->run_count; run-- > 0;)
		for (int64_t i = 0; i < costs->runs[run].count; i++) {
			f->parts[step - 1] = part_of_step(&costs->runs[run].cost, next, step - 1);
			step--;
			next = costs->runs[run].cost.state;
		}
	for (int64_t i = 0; i < f->count; i++) {
		f->starts[i + 1] = f->starts[i] + f->parts[i].time;
		f->ends[i + 1] = f->starts[i] + f->parts[i].last;
		f->total_time += f->parts[i].time + f->parts[i].last;
	}
}

bool fronts_begin(struct fronts *f, const struct step_costs *costs, int64_t bytes, struct fronts_limits limits,
                  const struct allocator *allocator)
{
	const size_t count = (size_t)costs->steps;
	*f = (struct fronts){.allocator = allocator,
	                     .limits = limits,
	                     .remaining = limits,
	                     .bytes = bytes,
	                     .count = costs->steps,
	                     .found = INFINITY};
	arena_init(&f->arena, allocator);
	arena_init(&f->points, allocator);
	f->parts = arena_array(&f->arena, count, sizeof *f->parts);
	f->starts = arena_array(&f->arena, count + 1, sizeof *f->starts);
	f->ends = arena_array(&f->arena, count + 1, sizeof *f->ends);
	f->beside = arena_array(&f->arena, count + 1, sizeof *f->beside);
	f->fronts = arena_array(&f->arena, count * (count + 1), sizeof *f->fronts);
	if (f->arena.failed)
		return false;
	set_parts(f, costs);
	f->beside[0][1] = INT64_MAX / 2;
	set_beside(f);
	return true;
}

void fronts_free(struct fronts *f)
{
	schedule_free(f->schedule);
	arena_free(&f->points);
	arena_free(&f->arena);
}

static double margin(const struct fronts *f) { return f->total_time * rounding; }

/* Sets *BYTES and *EXTRA to the limits of points of R. False if R cannot be part of a schedule. */
static bool limits_of(const struct fronts *f, struct range r, int64_t *bytes, double *extra)
{
	*bytes = f->bytes - f->beside[r.i][r.pin];
	*extra = f->most - (r.j < f->count ? extra_of_advance(f, r.i, r.j) : 0) + margin(f);
	return *bytes >= 0 && *extra >= 0;
}

/*
 * Thins the front of COUNT POINTS to at most WIDTH. No point claims more time than before. The most time that is lost
 * at a point is about as little as WIDTH allows. Returns the number of points that are left.
 */
static int64_t thin(struct front_point *points, int64_t count, int64_t width)
{
	enum { HALVINGS = 16 };
	double low = 0, high = points[0].extra - points[count - 1].extra;
	int64_t kept = 0;
	for (int k = 0; k < HALVINGS; k++) {
		const double lost = low + (high - low) / 2;
		kept = 0;
		for (int64_t i = 0, first = 0; i < count; i++)
			if (i == 0 || points[first].extra - points[i].extra > lost) {
				first = i;
				kept++;
			}
		*(kept <= width ? &high : &low) = lost;
	}
	kept = 0;
	for (int64_t i = 0; i < count;) {
		const struct front_point first = points[i];
		while (i + 1 < count && first.extra - points[i + 1].extra <= high)
			i++;
		points[kept++] = (struct front_point){first.bytes, points[i++].extra};
	}
	return kept;
}

/* Lowers the front f->best, of BEST points, to the front of COUNT points OPTION where that is lower. Returns its points. */
static int64_t merge(struct fronts *f, int64_t best, const struct front_point *option, int64_t count)
{
	const struct front_point *a = f->best, *a_end = a + best, *b = option, *b_end = b + count;
	const double equal = margin(f);
	struct front_point *merged = f->merged;
	double before = INFINITY;
	int64_t n = 0;
	while (a < a_end || b < b_end) {
		const struct front_point *next = b == b_end || (a < a_end && a->bytes <= b->bytes) ? a++ : b++;
		if (next->extra >= before - equal)
			continue;
		n -= n > 0 && merged[n - 1].bytes == next->bytes;
		merged[n++] = *next;
		before = next->extra;
	}
	f->merged = f->best;
	f->best = merged;
	f->remaining.compared -= best + count;
	if (n > 2 * f->width) {
		f->thinned = true;
		n = thin(f->best, n, f->width);
	}
	return n;
}

/* Sets f->best to the points of R whose first step is recorded at once, and returns their number. */
static int64_t record_first(struct fronts *f, struct range r)
{
	const int64_t need = bytes_to_record(f, r), held = recorded_bytes(f, r);
	int64_t bytes;
	double extra;
	int64_t n = 0;
	if (!limits_of(f, r, &bytes, &extra) || need > bytes)
		return 0;
	if (r.j == r.i + 1) {
		f->best[0] = (struct front_point){need, 0};
		return 1;
	}
	const struct front *rest = front_of(f, (struct range){r.i + 1, r.j, f->parts[r.i].keeps_output});
	for (int64_t k = 0; k < rest->count && rest->points[k].bytes + held <= bytes; k++) {
		if (rest->points[k].extra > extra)
			continue;
		n -= n > 0 && rest->points[k].bytes + held <= need;
		f->best[n++] = (struct front_point){greater(rest->points[k].bytes + held, need), rest->points[k].extra};
	}
	return n;
}

/* Sets f->option to the points of R, split before K, which needs NEED bytes, and returns their number. */
static int64_t split_before(struct fronts *f, struct range r, int64_t k, int64_t need)
{
	const struct front *rights = front_of(f, (struct range){k, r.j, false});
	const struct front *lefts = front_of(f, (struct range){r.i, k, r.pin});
	const double advance = extra_of_advance(f, r.i, k);
	const int64_t state = range_state(f->parts, r);
	struct front_point *to = f->option;
	int64_t bytes;
	double extra;
	if (!rights->count || !lefts->count || !limits_of(f, r, &bytes, &extra))
		return 0;
	const struct front_point *right = rights->points, *right_last = right + rights->count - 1;
	const struct front_point *left = lefts->points, *left_last = left + lefts->count - 1;
	for (int64_t at = greater(need, greater(right->bytes + state, left->bytes)); at <= bytes;) {
		while (right < right_last && right[1].bytes + state <= at)
			right++;
		while (left < left_last && left[1].bytes <= at)
			left++;
		const double time = advance + right->extra + left->extra;
		*to = (struct front_point){at, time};
		to += time <= extra;
		at = right < right_last ? right[1].bytes + state : INT64_MAX;
		at = left < left_last ? lesser(at, left[1].bytes) : at;
	}
	f->remaining.compared -= rights->count + lefts->count;
	return to - f->option;
}

/* Sets the front of R. Those of the ranges within R are set. False if out of memory. */
static bool solve_range(struct fronts *f, struct range r)
{
	struct front *front = front_of(f, r);
	int64_t bytes, need = f->parts[r.i].forward_first;
	double extra;
	*front = (struct front){0};
	if (!limits_of(f, r, &bytes, &extra))
		return true;
	int64_t n = record_first(f, r);
	for (int64_t k = r.i + 1; k < r.j && f->starts[k - 1] - f->starts[r.i] <= extra; k++) {
		const int64_t all = range_state(f->parts, r) + need + cotangent_bytes(f, r.j);
		if (all > bytes)
			break;
		if (extra_of_advance(f, r.i, k) <= extra)
			n = merge(f, n, f->option, split_before(f, r, k, all));
		need = greater(need, f->parts[k].forward_inner);
	}
	if (n > f->width) {
		f->thinned = true;
		n = thin(f->best, n, f->width);
	}
	if (n == 0)
		return true;
	front->points = arena_array(&f->points, (size_t)n, sizeof *front->points);
	if (!front->points)
		return false;
	memcpy(front->points, f->best, (size_t)n * sizeof *f->best);
	front->count = n;
	f->remaining.held -= n;
	return true;
}

const struct front *fronts_whole(const struct fronts *f) { return front_of(f, (struct range){0, f->count, false}); }

/* Returns the extra time of FRONT within BYTES; INFINITY if these are too few. */
static double extra_within(const struct front *front, int64_t bytes)
{
	int64_t low = 0, high = front->count;
	while (low < high) {
		const int64_t middle = low + (high - low) / 2;
		if (front->points[middle].bytes <= bytes)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? front->points[low - 1].extra : INFINITY;
}

/* Returns the best choice for R within BYTES, of at least two steps: 0 to record the first, else the k of a split. */
static int64_t best_choice(const struct fronts *f, struct range r, int64_t bytes)
{
	const struct front *rest = front_of(f, (struct range){r.i + 1, r.j, f->parts[r.i].keeps_output});
	const int64_t state = range_state(f->parts, r), around = state + cotangent_bytes(f, r.j);
	int64_t best = 0, need = f->parts[r.i].forward_first;
	double least = bytes < bytes_to_record(f, r) ? INFINITY : extra_within(rest, bytes - recorded_bytes(f, r));
	for (int64_t k = r.i + 1; k < r.j && around + need <= bytes; k++) {
		const double extra = extra_of_advance(f, r.i, k) +
		                     extra_within(front_of(f, (struct range){k, r.j, false}), bytes - state) +
		                     extra_within(front_of(f, (struct range){r.i, k, r.pin}), bytes);
		if (extra < least) {
			least = extra;
			best = k;
		}
		need = greater(need, f->parts[k].forward_inner);
	}
	return best;
}

/* Appends the actions of R within BYTES. SLOT holds its state; -1: that is the current one. Returns R's extra time. */
static double extract_range(const struct fronts *f, struct range r, int64_t bytes, int64_t slot,
                            struct action_list *list)
{
	double extra = 0;
	int64_t k;
	while (r.j > r.i + 1 && (k = best_choice(f, r, bytes)) > 0) {
		slot = action_list_keep(list, r.i, slot);
		action_list_push(list, ACT_FORWARD, r.i, k, 0);
		extra += extra_of_advance(f, r.i, k);
		extra += extract_range(f, (struct range){k, r.j, false}, bytes - range_state(f->parts, r), -1, list);
		r.j = k;
	}
	action_list_record(list, r.i, r.i + 1, slot);
	if (r.j > r.i + 1)
		extra += extract_range(f, (struct range){r.i + 1, r.j, f->parts[r.i].keeps_output},
		                       bytes - recorded_bytes(f, r), -1, list);
	action_list_push(list, ACT_BACKWARD, r.i, r.i + 1, 0);
	return extra;
}

struct schedule *fronts_extract(const struct fronts *f, int64_t bytes, double *extra)
{
	struct action_list list = {.allocator = f->allocator};
	*extra = extract_range(f, (struct range){0, f->count, false}, bytes, -1, &list);
	return action_list_schedule(&list);
}

/* Makes space for the front of a range while it is made. False if out of memory. */
static bool make_space(struct fronts *f)
{
	const size_t most = ROOM * (size_t)f->width + 1;
	f->best = arena_array(&f->points, most, sizeof *f->best);
	f->merged = arena_array(&f->points, most, sizeof *f->merged);
	f->option = arena_array(&f->points, most, sizeof *f->option);
	return !f->points.failed;
}

enum fronts_result fronts_solve(struct fronts *f, double most, int64_t width)
{
	f->most = most;
	f->width = width;
	f->thinned = false;
	f->remaining.held = f->limits.held;
	arena_free(&f->points);
	arena_init(&f->points, f->allocator);
	if (!make_space(f))
		return FRONTS_NO_MEMORY;
	for (int64_t j = 1; j <= f->count; j++)
		for (int64_t i = j; i-- > 0;)
			for (int pin = 1; pin >= 0; pin--) {
				if (!solve_range(f, (struct range){i, j, pin}))
					return FRONTS_NO_MEMORY;
				if (f->remaining.compared < 0 || f->remaining.held < 0)
					return FRONTS_STOPPED;
			}
	const struct front *whole = fronts_whole(f);
	f->least = fmax(f->least, whole->count ? whole->points[whole->count - 1].extra : most);
	return FRONTS_SOLVED;
}

bool fronts_closed(const struct fronts *f) { return f->found - f->least <= f->total_time * 1e-9; }

double fronts_next_most(const struct fronts *f)
{
	const double all = f->total_time * (double)f->count; /* no step runs more often than there are steps */
	return f->most <= 0 ? f->total_time / 32 : f->most < all ? f->most * 2 : 0;
}

int64_t fronts_first_width(const struct fronts *f)
{
	const double count = (double)f->count, splits = count * count * count / 3, ranges = count * (count + 1);
	const double compared = (double)f->remaining.compared / (4 * splits), held = (double)f->limits.held / ranges;
	return (int64_t)fmax(fmin(fmin(compared, held), WIDTH_FIRST), WIDTH_LEAST);
}

/* Makes the schedule that the fronts lead to, and takes it if it is better. False if out of memory. */
static bool take_schedule(struct fronts *f)
{
	const struct front *whole = fronts_whole(f);
	double extra;
	if (!whole->count)
		return true;
	/* Of the fastest schedules, the one of fewest bytes. Points of thin fronts may have too few bytes for their times. */
	struct schedule *schedule =
		fronts_extract(f, f->thinned ? f->bytes : whole->points[whole->count - 1].bytes, &extra);
	if (!schedule)
		return false;
	if (extra < f->found) {
		struct schedule *worse = f->schedule;
		f->schedule = schedule;
		f->found = extra;
		schedule = worse;
	}
	schedule_free(schedule);
	return true;
}

enum fronts_result fronts_close(struct fronts *f)
{
	int64_t width = fronts_first_width(f);
	for (double most; width <= WIDTH_MOST && !fronts_closed(f) && (most = fronts_next_most(f)) > 0;) {
		const enum fronts_result result = fronts_solve(f, fmin(most, f->found), width);
		if (result != FRONTS_SOLVED)
			return result;
		if (!take_schedule(f))
			return FRONTS_NO_MEMORY;
		if (f->thinned && fronts_whole(f)->count)
			width *= 4;
	}
	return FRONTS_SOLVED;
}
