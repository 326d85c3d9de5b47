/*
 * The best persistent schedule for a memory of so many quanta, by the recurrence of Theorem 1 in Beaumont,
 * Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal checkpointing for heterogeneous chains", 2019. The
 * memory model is the cost walk's (memory/cost_walk.h). In a *persistent* schedule a kept state or
 * residual is kept until its use in the backward sweep.
 *
 * V(i, j, m) is the least forward time to reverse parts i .. j-1 in m quanta, which include state i and
 * the cotangent at j. State i is current, or in a slot that is given up. Either part i is recorded at
 * once and its residuals, h(i) quanta, are held:
 *
 *     V(i, j, m) = f(i) + V(i+1, j, m - h(i)),     V(i, i+1, m) = l(i)
 *
 * where l(i) is the time of recording part i while nobody reads the state after it, since the range needs no value of its
 * last part.
 * Or state i, a(i) quanta, is kept in a slot and the parts up to some k are advanced over:
 *
 *     V(i, j, m) = min over k of  F(i, k) + V(k, j, m - a(i)) + V(i, k, m)
 *
 * A choice is allowed if m covers the needs of its own steps. The paper always holds a range's input. Here it is
 * given up once the first part is recorded, if that part's backward pass does not read it. If the residuals of
 * part i-1 hold state i, the range is *pinned*: state i costs nothing. Pinned ranges have rows of their own.
 *
 * The time of a range falls between the least level at which it can be reversed and the level at which
 * all of it is recorded. Only these levels are stored. Both bounds follow from the same recurrences
 * without the times, for any number of levels. So the size of a table is known before it is made.
 *
 * A part may be a block of parts. A table of its own, the inner table, then has the times to reverse the block alone.
 * So long chains are planned by one outer table and one inner table for each block.
 *
 * Held residuals are rounded to quanta by their running sum. So a stretch of recorded parts, however long, is off by
 * less than one quantum, up or down. The schedules must be judged, unless the quantum divides the bytes of all states
 * and residuals: then the table is exact.
 * Tests: tests/unit/test_budget.c, tests/cases/plan.test
 */
#include "budget/persistent.h"

#include "base/checked.h"

static const float never = 1e30f;

struct part part_of_step(const struct step_cost *cost, int64_t next, int64_t begin)
{
	return (struct part){.begin = begin,
	                     .end = begin + 1,
	                     .time = cost->forward,
	                     .last = cost->record,
	                     .state = cost->state,
	                     .next = next,
	                     .residual = cost->residual,
	                     .keeps_input = cost->keeps_input,
	                     .keeps_output = cost->keeps_output,
	                     .forward_first = next + cost->forward_temporary,
	                     .forward_inner = cost->state + next + cost->forward_temporary,
	                     .record = cost->residual + (cost->keeps_output ? 0 : next) + cost->record_temporary,
	                     .backward = cost->residual + next + cost->state + cost->backward_temporary};
}

struct part part_join(const struct part *parts, int64_t count)
{
	struct part whole = parts[0];
	for (int64_t i = 1; i < count; i++) {
		const struct part *part = &parts[i];
		bool counted = parts[i - 1].keeps_output; /* the state between is in the residuals before */
		int64_t kept = part->keeps_input && !counted ? part->state : 0;
		whole.forward_first = greater(whole.forward_first, part->forward_inner);
		whole.forward_inner = greater(whole.forward_inner, part->forward_inner);
		whole.record = greater(whole.record, whole.residual + (counted ? 0 : part->state) + part->record);
		whole.backward = greater(whole.backward, whole.residual + kept + part->backward);
		whole.residual += part->residual + kept;
		whole.last = whole.time + part->last;
		whole.time += part->time;
	}
	whole.end = parts[count - 1].end;
	whole.next = parts[count - 1].next;
	whole.keeps_output = parts[count - 1].keeps_output;
	return whole;
}

int64_t range_record_bytes(const struct part *parts, struct range r, int64_t cotangent)
{
	const struct part *part = &parts[r.i];
	const int64_t state = range_state(parts, r);
	return greater(state + part->record + cotangent, (part->keeps_input ? state : 0) + part->backward);
}

static const struct range before_all = {.pin = true};

/* Sets R to the next range of T. Ranges within a range come before it. False at the end. */
static bool next_range(const struct table *t, struct range *r)
{
	r->pin = t->pins && !r->pin;
	if (!r->pin && r->i-- == 0)
		r->i = r->j++;
	return r->j <= t->count;
}

/* True if R is a block, which has a table of its own. */
static bool is_block(const struct table *t, struct range r) { return t->inner && r.j == r.i + 1; }

static struct row *row_at(const struct table *t, int64_t i, int64_t j, bool pin)
{
	int64_t at = j * (j - 1) / 2 + i;
	return &t->rows[t->pins ? 2 * at + pin : at];
}

static int64_t low_at(const struct table *t, int64_t i, int64_t j, bool pin)
{
	const struct row *row = row_at(t, i, j, pin);
	return t->least_peak ? row->least : row->low;
}

static struct row *find_row(const struct table *t, struct range r) { return row_at(t, r.i, r.j, r.pin); }

static const struct row *root_of(const struct table *t, bool pin) { return row_at(t, 0, t->count, pin && t->pins); }

/* Returns the address of ROW's time at level M, which is LOW .. HIGH. */
static float *cell_at(const struct row *row, int64_t m) { return row->cells + (m - row->low); }

/* Returns ROW's time at any level M; `never` below LOW. */
static float time_of_row(const struct row *row, int64_t m)
{
	return m < row->low ? never : *cell_at(row, lesser(m, row->high));
}

static int64_t quanta_of(const struct table *t, int64_t bytes)
{
	return bytes <= 0 ? 0 : (bytes - 1) / t->grid.quantum + 1;
}

/* Returns the least level that covers BYTES. */
static int64_t level_of(const struct table *t, int64_t bytes) { return quanta_of(t, bytes - t->grid.rest); }

/* Returns the bytes of the cotangent at J before part J-1 is reversed: 0 at the chain's end, where it comes later. */
static int64_t cotangent(const struct table *t, int64_t j)
{
	if (j < t->count)
		return t->parts[j].state;
	return t->last ? 0 : t->parts[j - 1].next;
}

/* Returns the quanta that R's first part holds once recorded. */
static int64_t held_quanta(const struct table *t, struct range r)
{
	const struct part *part = &t->parts[r.i];
	/* If the part before keeps the state, the charge leaves it out. But the state is free only in a pinned range. */
	bool apart = !r.pin && part->keeps_input && r.i > 0 && t->parts[r.i - 1].keeps_output;
	return t->charge[r.i] + (apart ? quanta_of(t, part->state) : 0);
}

/* Returns the least level at which the first part of R can be recorded now and reversed at the end. */
static int64_t record_level(const struct table *t, struct range r)
{
	return level_of(t, range_record_bytes(t->parts, r, cotangent(t, r.j)));
}

/* A split of a range before part K. To advance there takes NEED bytes, for which LEVEL is the least level. */
struct split {
	int64_t k, need, level;
};

static struct split split_at(const struct table *t, struct range r, int64_t k, int64_t need)
{
	return (struct split){k, need, level_of(t, range_state(t->parts, r) + need + cotangent(t, r.j))};
}

static struct split first_split(const struct table *t, struct range r)
{
	return split_at(t, r, r.i + 1, t->parts[r.i].forward_first);
}

static void next_split(const struct table *t, struct range r, struct split *split)
{
	const int64_t need = t->parts[split->k++].forward_inner;
	if (need > split->need)
		*split = split_at(t, r, split->k, need);
}

/* Returns the least level at which R, whose state takes STATE quanta, can be split at SPLIT. */
static int64_t split_level(const struct table *t, struct range r, int64_t state, const struct split *split)
{
	const int64_t right = state + low_at(t, split->k, r.j, false), left = low_at(t, r.i, split->k, r.pin);
	return greater(split->level, greater(right, left));
}

/* Returns R's least level. Sets *CHOICE to 0 if recording the first part attains that level, else to the split's K. */
static int64_t least_level(const struct table *t, struct range r, int64_t *choice)
{
	const int64_t state = quanta_of(t, range_state(t->parts, r));
	int64_t low = record_level(t, r);
	if (r.j > r.i + 1)
		low = greater(low, held_quanta(t, r) + low_at(t, r.i + 1, r.j, t->parts[r.i].keeps_output));
	*choice = 0;
	for (struct split split = first_split(t, r); split.k < r.j; next_split(t, r, &split)) {
		const int64_t level = split_level(t, r, state, &split);
		*choice = level < low ? split.k : *choice;
		low = lesser(level, low);
	}
	return low;
}

/* Sets the bounds of R. The ranges within R have theirs already. */
static void bound_range(struct table *t, struct range r)
{
	struct row *row = find_row(t, r);
	if (is_block(t, r)) {
		*row = *root_of(&t->inner[r.i], r.pin);
		return;
	}
	int64_t choice, high = record_level(t, r);
	const int64_t low = least_level(t, r, &choice);
	if (t->least_peak) {
		row->least = low;
		return;
	}
	if (r.j > r.i + 1)
		high = greater(high, held_quanta(t, r) + row_at(t, r.i + 1, r.j, t->parts[r.i].keeps_output)->high);
	row->low = (int32_t)lesser(low, t->grid.levels);
	row->high = (int32_t)lesser(high, t->grid.levels - 1);
}

/* The hot loop: BEST = min(BEST, TIME + RIGHT + LEFT). */
__attribute__((optimize("O3"))) static void take_least(float *restrict best, const float *restrict right,
                                                       const float *restrict left, float time, int64_t count)
{
	for (int64_t m = 0; m < count; m++) {
		float sum = time + right[m] + left[m];
		best[m] = sum < best[m] ? sum : best[m];
	}
}

/* take_least where only one side of a split, FALLS, still falls by level: BEST = min(BEST, BEFORE + FALLS + AFTER). */
__attribute__((optimize("O3"))) static void take_least_of_one(float *restrict best, float before,
                                                              const float *restrict falls, float after, int64_t count)
{
	for (int64_t m = 0; m < count; m++) {
		float sum = before + falls[m] + after;
		best[m] = sum < best[m] ? sum : best[m];
	}
}

/*
 * Lowers ROW's times, from level FROM on, to the split's if less: TIME + RIGHT's, HELD levels lower, + LEFT's. Of the
 * levels where neither side falls any further, one is enough: fill_range then lowers the levels above it.
 */
static void take_split(struct row *row, int64_t from, float time, const struct row *right, int64_t held,
                       const struct row *left)
{
	const int64_t right_falls = right->high + held, left_falls = left->high, beyond = row->high + 1;
	const int64_t both = lesser(lesser(right_falls, left_falls), beyond);
	const int64_t one = lesser(greater(right_falls, left_falls), beyond);
	int64_t m = from;
	if (m < both) {
		take_least(cell_at(row, m), cell_at(right, m - held), cell_at(left, m), time, both - m);
		m = both;
	}
	if (m < one) {
		if (right_falls > left_falls)
			take_least_of_one(cell_at(row, m), time, cell_at(right, m - held), *cell_at(left, left_falls), one - m);
		else
			take_least_of_one(cell_at(row, m), time + *cell_at(right, right->high), cell_at(left, m), 0, one - m);
		m = one;
	}
	if (m < beyond) {
		float *best = cell_at(row, m), sum = time + *cell_at(right, right->high) + *cell_at(left, left_falls);
		*best = sum < *best ? sum : *best;
	}
}

/* Sets the times of R between its bounds. */
static void fill_range(struct table *t, struct range r)
{
	struct row *row = find_row(t, r);
	if (row->low > row->high || is_block(t, r))
		return;
	const struct part *part = &t->parts[r.i];
	const struct row *rest = r.j > r.i + 1 ? row_at(t, r.i + 1, r.j, part->keeps_output) : NULL;
	const int64_t held = held_quanta(t, r), record = record_level(t, r), state = quanta_of(t, range_state(t->parts, r));
	float best = never;
	for (int64_t m = row->low; m <= row->high; m++)
		*cell_at(row, m) = m < record ? never
		                   : rest     ? (float)part->time + time_of_row(rest, m - held)
		                              : (float)part->last;
	for (struct split split = first_split(t, r); split.k < r.j; next_split(t, r, &split))
		take_split(row, split_level(t, r, state, &split), (float)(t->sums[split.k] - t->sums[r.i]),
		           row_at(t, split.k, r.j, false), state, row_at(t, r.i, split.k, r.pin));
	/* More memory never takes more time. This mends rounding, and sets the levels that take_split leaves out. */
	for (int64_t m = row->low; m <= row->high; m++) {
		float *time = cell_at(row, m);
		best = *time < best ? *time : best;
		*time = best;
	}
}

/* Sets `sums`, and `charge`, the residuals in quanta by their running sum. */
static void set_charges(struct table *t)
{
	int64_t bytes = 0, quanta = 0;
	t->sums[0] = 0;
	for (int64_t i = 0; i < t->count; i++) {
		const struct part *part = &t->parts[i];
		bool counted = i > 0 && t->parts[i - 1].keeps_output;
		bytes += part->residual + (part->keeps_input && !counted ? part->state : 0);
		t->charge[i] = quanta_of(t, bytes) - quanta;
		quanta += t->charge[i];
		t->sums[i + 1] = t->sums[i] + part->time;
	}
}

bool table_bound(struct table *t, const struct allocator *allocator)
{
	/* A block is pinned if the block before keeps its output. The last one may lack a pinned row: see root_of. */
	t->pins = !t->last;
	for (int64_t i = 0; i < t->count; i++)
		t->pins |= t->parts[i].keeps_output;
	const size_t count = (size_t)t->count, sums = (count + 1) * sizeof *t->sums, charges = count * sizeof *t->charge;
	t->memory_size = sums + charges + count * (count + 1) / 2 * (t->pins ? 2 : 1) * sizeof *t->rows;
	t->memory = allocator_get(allocator, 1, t->memory_size);
	if (!t->memory)
		return false;
	t->sums = t->memory;
	t->charge = (int64_t *)(t->sums + count + 1);
	t->rows = (struct row *)(t->charge + count);
	set_charges(t);
	for (struct range r = before_all; next_range(t, &r);)
		bound_range(t, r);
	return true;
}

/* Points each row, unless it is a block's, at its place in CELLS; not if CELLS is NULL. Returns the number of cells. */
static size_t place_rows(struct table *t, float *cells)
{
	size_t count = 0;
	for (struct range r = before_all; next_range(t, &r);) {
		struct row *row = find_row(t, r);
		if (is_block(t, r)) /* its row shares the inner table's cells */
			continue;
		if (cells)
			row->cells = cells + count;
		count += (size_t)(row->high - row->low + 1);
	}
	return count;
}

bool table_solve(struct table *t, const struct allocator *allocator)
{
	if (!table_bound(t, allocator))
		return false;
	t->cells_size = (place_rows(t, NULL) + 1) * sizeof *t->cells;
	t->cells = allocator_get(allocator, 1, t->cells_size);
	if (!t->cells)
		return false;
	(void)place_rows(t, t->cells);
	/* The rows (i, k) of one i lie far apart. While they are in the cache, they serve TOGETHER values of j. */
	enum { TOGETHER = 16 };
	for (int64_t first = 1; first <= t->count; first += TOGETHER) {
		const int64_t last = lesser(first + TOGETHER - 1, t->count);
		for (int64_t i = last; i-- > 0;)
			for (int64_t j = greater(first, i + 1); j <= last; j++)
				for (int pin = 0; pin <= t->pins; pin++)
					fill_range(t, (struct range){i, j, pin});
	}
	return true;
}

void table_free(struct table *table, const struct allocator *allocator)
{
	allocator_put(allocator, table->memory, table->memory_size);
	allocator_put(allocator, table->cells, table->cells_size);
	table->memory = NULL;
	table->cells = NULL;
}

void table_measure(const struct table *t, int64_t top, struct table_size *size)
{
	for (struct range r = before_all; next_range(t, &r);) {
		const struct row *row = find_row(t, r);
		const int64_t high = lesser(row->high, top);
		if (is_block(t, r) || row->low > high)
			continue;
		size->rows++;
		size->open += row->high > top;
		size->cells += (double)(high - row->low);
		size->work += (double)(high - row->low) * (double)(r.j - r.i);
	}
}

int64_t table_least(const struct table *t) { return root_of(t, false)->low; }

double table_time(const struct table *t, int64_t level) { return (double)time_of_row(root_of(t, false), level); }

/* Returns V's choice for R, of at least two parts, at level M: 0 to record the first part, else the k of a split. */
static int64_t choice_at(const struct table *t, struct range r, int64_t m)
{
	const int64_t held = quanta_of(t, range_state(t->parts, r));
	int64_t best = 0;
	float least_time = never;
	if (m >= record_level(t, r))
		least_time = (float)t->parts[r.i].time +
		             time_of_row(row_at(t, r.i + 1, r.j, t->parts[r.i].keeps_output), m - held_quanta(t, r));
	for (struct split split = first_split(t, r); split.k < r.j; next_split(t, r, &split)) {
		if (m < split_level(t, r, held, &split))
			continue;
		const float right = time_of_row(row_at(t, split.k, r.j, false), m - held);
		const float time =
			(float)(t->sums[split.k] - t->sums[r.i]) + right + time_of_row(row_at(t, r.i, split.k, r.pin), m);
		if (time < least_time) {
			least_time = time;
			best = split.k;
		}
	}
	return best;
}

/* Lowers *M to the least level of the same time, and returns R's choice there. For least peak, *M does not matter. */
static int64_t choose(const struct table *t, struct range r, int64_t *m)
{
	const struct row *row = find_row(t, r);
	int64_t k;
	if (t->least_peak) {
		(void)least_level(t, r, &k);
		return k;
	}
	/* A row never rises: its time at M may be that of a lower level. */
	*m = lesser(*m, row->high);
	while (*m > row->low && time_of_row(row, *m - 1) <= time_of_row(row, *m))
		--*m;
	return r.j == r.i + 1 ? 0 : choice_at(t, r, *m);
}

/*
 * Appends the actions of R at level M. SLOT holds the state before R; -1: that state is the current one. The
 * recursion is at most one call deep for each part of the outer table and of one inner table.
 */
static void append_range(const struct table *t, struct range r, int64_t m, int64_t slot, struct action_list *list)
{
	const struct part *part = &t->parts[r.i];
	/* The left side of a split is R with an earlier end: the next iteration. */
	for (;;) {
		if (is_block(t, r)) {
			const struct table *inner = &t->inner[r.i];
			append_range(inner, (struct range){0, inner->count, r.pin && inner->pins}, m, slot, list);
			return;
		}
		const int64_t k = choose(t, r, &m);
		if (k == 0)
			break;
		slot = action_list_keep(list, part->begin, slot);
		action_list_push(list, ACT_FORWARD, part->begin, t->parts[k].begin, 0);
		append_range(t, (struct range){k, r.j, false}, m - quanta_of(t, range_state(t->parts, r)), -1, list);
		r.j = k;
	}
	action_list_record(list, part->begin, part->end, slot);
	if (r.j > r.i + 1)
		append_range(t, (struct range){r.i + 1, r.j, part->keeps_output}, m - held_quanta(t, r), -1, list);
	action_list_push(list, ACT_BACKWARD, part->begin, part->end, 0);
}

void table_extract(const struct table *table, int64_t level, struct action_list *list)
{
	append_range(table, (struct range){0, table->count, false}, level, -1, list);
}

void least_peak_extract(const struct part *parts, int64_t count, struct action_list *list)
{
	struct table table = {.parts = parts, .count = count, .last = true, .grid.quantum = 1, .least_peak = true};
	if (table_bound(&table, list->allocator))
		table_extract(&table, 0, list);
	else
		list->failed = true;
	table_free(&table, list->allocator);
}
