/*
 * Tables of persistent schedules (persistent.c) for the goals of a search: on which
 * grids of memory they are made, and which of their schedules are offered. A chain is
 * cut into at most PARTS blocks, planned in two levels.
 */
#include "budget/search_parts.h"

#include <math.h>
#include <string.h>

#include "budget/persistent.h"

enum {
	PARTS = 160,       /* blocks of the outer table */
	LEAST_PARTS = 400, /* parts that the schedule of least peak is sought for */
	LEVELS_MOST = 20000,
	SLACK = 24,      /* levels beyond a budget whose schedules may fit it: each state that is held is rounded up */
	EACH = 100000,   /* rungs of so many steps in all are all tried */
	TRIES = 150,     /* of a table's ladder: first, and again between two rungs */
	TRIES_LONG = 12, /* for more than NUMBERED steps */
};
/* What tables may take: a budget of a run has those up to its own bytes, and the first; others the largest. */
static const int64_t tables_least = 6250000, tables_most = 100000000, table_work = 700000000;

static const struct policy from_tables = {.kind = POLICY_budget};

/* Whether the tables at hand are made for GOAL. */
static bool is_sought(const struct search *s, const struct budget_goal *goal)
{
	const bool room = !s->judge || s->room <= tables_least || s->room / 4 * 5 <= goal->bytes - s->costs->fixed;
	return !goal_is_settled(goal) && goal->bytes > s->costs->fixed && room && goal_needed_range(s, goal) >= s->exact;
}

/* LIST as a schedule; frees LIST. NULL where memory is or was short. */
static struct schedule *take_list(const struct search *s, struct action_list *list)
{
	struct schedule *schedule = action_list_schedule(list, s->allocator);
	action_list_free(list);
	return schedule;
}

/* Parts of the chain: one for each step, or for each of several in a row. */

static struct part *make_parts(const struct search *s, int64_t *count)
{
	const struct step_costs *costs = s->costs;
	int64_t together = (costs->steps + MANY - 1) / MANY, step = 0, filled = 0;
	*count = (costs->steps + together - 1) / together;
	struct part *parts = allocator_get(s->allocator, (size_t)*count, sizeof *parts);
	double total = 0;
	if (!parts)
		return NULL;
	for (size_t run = 0; run < costs->run_count; run++) {
		const struct step_run *r = &costs->runs[run];
		const struct step_run *after = r + 1;
		while (after < costs->runs + costs->run_count && after->count == 0)
			after++;
		int64_t beyond = after < costs->runs + costs->run_count ? after->cost.state : costs->output;
		for (int64_t i = 0; i < r->count; i++, step++) {
			struct part part = part_of_step(&r->cost, i + 1 < r->count ? r->cost.state : beyond, step);
			total += part.time;
			if (step % together) {
				struct part pair[2] = {parts[filled - 1], part};
				parts[filled - 1] = part_join(pair, 2);
			} else {
				parts[filled++] = part;
			}
		}
	}
	/* Times as shares of the whole: the tables are in floats. Without any, executions are what counts. */
	for (int64_t i = 0; i < *count; i++)
		parts[i].time = total > 0 ? parts[i].time / total : (double)(parts[i].end - parts[i].begin) / (double)step;
	return parts;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* What all sizes that may be held are multiples of. */
static int64_t common_unit(const struct part *parts, int64_t count)
{
	int64_t unit = parts[count - 1].next;
	for (int64_t i = 0; i < count; i++)
		unit = common_divisor(common_divisor(unit, parts[i].state), parts[i].residual);
	return unit > 0 ? unit : 1;
}

/* Two levels of tables over one list of parts. */
struct tables {
	struct table *inner; /* by block; NULL where a block is a part */
	struct table outer;
};

struct levels {
	const struct part *parts;
	int64_t count, blocks, width; /* of a block in parts */
	struct part *joined;          /* by block */
	struct tables bounds;         /* on the grid of PROBE, for all that save-all takes */
	struct grid probe;
};

static int64_t block_width(const struct levels *l, int64_t block)
{
	int64_t left = l->count - block * l->width;
	return left < l->width ? left : l->width;
}

/* All tables on GRID, the blocks' first: by table_bound or table_solve. */
static bool tables_make(struct tables *tables, const struct levels *l, const struct grid *grid,
                        bool make(struct table *table, const struct allocator *allocator),
                        const struct allocator *allocator)
{
	*tables = (struct tables){0};
	if (l->width > 1) {
		tables->inner = allocator_get(allocator, (size_t)l->blocks, sizeof *tables->inner);
		if (!tables->inner)
			return false;
		memset(tables->inner, 0, (size_t)l->blocks * sizeof *tables->inner);
	}
	for (int64_t i = 0; tables->inner && i < l->blocks; i++) {
		tables->inner[i] = (struct table){
			.parts = l->parts + i * l->width, .count = block_width(l, i), .grid = *grid, .last = i + 1 == l->blocks};
		if (!make(&tables->inner[i], allocator))
			return false;
	}
	tables->outer =
		(struct table){.parts = l->joined, .count = l->blocks, .grid = *grid, .last = true, .inner = tables->inner};
	return make(&tables->outer, allocator);
}

static void tables_free(struct tables *tables, const struct levels *l, const struct allocator *allocator)
{
	for (int64_t i = 0; tables->inner && i < l->blocks; i++)
		table_free(&tables->inner[i], allocator);
	if (tables->inner)
		allocator_put(allocator, tables->inner, (size_t)l->blocks * sizeof *tables->inner);
	table_free(&tables->outer, allocator);
}

/* For schedules that take up to RANGE bytes. */
static bool levels_make(struct levels *l, const struct part *parts, int64_t count, int64_t range,
                        const struct allocator *allocator)
{
	const int64_t unit = (range >> 30) + 1;
	*l = (struct levels){.parts = parts,
	                     .count = count,
	                     .width = (count + PARTS - 1) / PARTS,
	                     .probe = {.unit = unit, .levels = range / unit + 1}};
	l->blocks = (count + l->width - 1) / l->width;
	l->joined = allocator_get(allocator, (size_t)l->blocks, sizeof *l->joined);
	if (!l->joined)
		return false;
	for (int64_t i = 0; i < l->blocks; i++)
		l->joined[i] = part_join(parts + i * l->width, block_width(l, i));
	return tables_make(&l->bounds, l, &l->probe, table_bound, allocator);
}

static void levels_free(struct levels *l, const struct allocator *allocator)
{
	tables_free(&l->bounds, l, allocator);
	allocator_put(allocator, l->joined, (size_t)l->blocks * sizeof *l->joined);
}

/* What tables up to RANGE bytes are to hold, in bytes and rows. */
static struct table_size size_of(const struct levels *l, int64_t range)
{
	struct table_size size = {0};
	for (int64_t i = 0; l->bounds.inner && i < l->blocks; i++)
		table_measure(&l->bounds.inner[i], range / l->probe.unit, &size);
	table_measure(&l->bounds.outer, range / l->probe.unit, &size);
	size.cells *= (double)l->probe.unit;
	size.work *= (double)l->probe.unit;
	return size;
}

/*
 * The least unit for tables up to RANGE bytes, and SLACK, that take at most ROOM, of
 * which a row has two levels more than its range of bytes as sizes are rounded; 0 where
 * none is.
 */
static int64_t unit_within(const struct levels *l, int64_t range, int64_t room)
{
	const struct table_size size = size_of(l, range);
	const double each = 3 + 2.0 * sizeof(struct row) / sizeof(float);
	const double cells = (double)room / sizeof(float) - (double)size.rows * each - (double)size.open * SLACK;
	if (cells <= 0)
		return 0;
	const double unit = fmax(size.cells / cells, fmax(size.work / table_work, (double)range / LEVELS_MOST));
	return (int64_t)unit + 1;
}

/* How many levels of UNIT, up to RANGE bytes, tables may have that take at most ROOM. */
static int64_t levels_within(const struct levels *l, int64_t unit, int64_t range, int64_t room)
{
	int64_t fits = 0, beyond = range / unit + 2;
	while (beyond - fits > 1) {
		int64_t middle = fits + (beyond - fits) / 2, least = unit_within(l, middle * unit, room);
		if (least > 0 && least <= unit)
			fits = middle;
		else
			beyond = middle;
	}
	return fits;
}

/* The bytes below which nothing can be had. */
static int64_t least_range(const struct levels *l) { return table_least(&l->bounds.outer) * l->probe.unit; }

/* Levels of TABLE at which the time falls, ascending, and what is known of the schedules that it has for them. */
struct ladder {
	const struct table *table;
	int64_t *levels;
	struct candidate *rungs;
	int64_t count;
};

/* Offers rung I to GOAL. What was made for another goal is not made again unless it is taken. */
static enum status offer_rung(const struct search *s, struct budget_goal *goal, const struct ladder *l, int64_t i,
                              enum verdict_on *on)
{
	struct candidate *c = &l->rungs[i];
	enum status status = STATUS_OK;
	bool right = true;
	const bool large = c->judged && !goal_must_ask(goal, c) && c->truth > goal->bytes && c->truth >= goal->least;
	if (!c->verified || (goal_may_want(s, goal, c->time, c->peak) && !large)) {
		struct action_list list = {.allocator = s->allocator};
		table_extract(l->table, l->levels[i], &list);
		c->family = &from_tables;
		c->schedule = take_list(s, &list);
		status = c->schedule ? candidate_verify(s, c, true, &right) : diag_memory(s->diags);
	}
	*on = goal_is_faster(goal, c->time) ? TOO_LARGE : SLOWER;
	if (!status && right && !large)
		status = goal_offer(s, goal, c, on);
	schedule_free(c->schedule);
	c->schedule = NULL;
	return status;
}

/*
 * First every so-many-th of the ladder's rungs from the top of those that are for
 * GOAL, and where one fits, those between it and the one above.
 */
static enum status offer_ladder(const struct search *s, struct budget_goal *goal, const struct ladder *l, int64_t count)
{
	const struct grid *grid = &l->table->grid;
	int64_t tries = s->costs->steps > NUMBERED ? TRIES_LONG : TRIES, coarse = 1;
	while (count > EACH / s->costs->steps && (coarse * coarse < count || count / coarse > tries))
		coarse++;
	int64_t fine = (coarse + tries - 1) / tries, above = count, below = 0,
			reach = goal_reach(s, goal) - s->costs->fixed;
	enum status status = STATUS_OK;
	enum verdict_on on = TOO_LARGE;
	for (int64_t i = count - 1; status == STATUS_OK; i = i > coarse ? i - coarse : 0) {
		if (grid->rest + (l->levels[i] - SLACK) * grid->unit <= reach)
			status = offer_rung(s, goal, l, i, &on);
		if (i == 0 || on != TOO_LARGE) {
			below = i;
			break;
		}
		above = i;
	}
	on = TOO_LARGE;
	for (int64_t k = above - 1; k > below && !status && on == TOO_LARGE; k -= fine)
		status = offer_rung(s, goal, l, k, &on);
	return status;
}

/* The levels at which TABLE's time falls, as many as there are where TO is NULL. */
static int64_t falling_levels(const struct table *table, int64_t *to)
{
	int64_t count = 0;
	double before = INFINITY;
	for (int64_t m = table_least(table); m < table->grid.levels; m++) {
		double time = table_time(table, m);
		if (time < before * (1 - 1e-6)) {
			if (to)
				to[count] = m;
			count++;
		}
		before = time < before ? time : before;
	}
	return count;
}

/* The ladders of all goals in one table. */
static enum status offer_table(const struct search *s, const struct table *table)
{
	struct ladder l = {.table = table, .count = falling_levels(table, NULL)};
	const size_t room = (size_t)l.count + 1;
	l.levels = allocator_get(s->allocator, room, sizeof *l.levels);
	l.rungs = allocator_get(s->allocator, room, sizeof *l.rungs);
	enum status status = l.levels && l.rungs ? STATUS_OK : diag_memory(s->diags);
	if (status == STATUS_OK) {
		(void)falling_levels(table, l.levels);
		memset(l.rungs, 0, room * sizeof *l.rungs);
	}
	for (size_t i = s->count; i-- > 0 && !status;) {
		int64_t count = 0;
		while (count < l.count && l.levels[count] < s->levels[i])
			count++;
		if (count)
			status = offer_ladder(s, &s->goals[i], &l, count);
	}
	allocator_put(s->allocator, l.levels, room * sizeof *l.levels);
	allocator_put(s->allocator, l.rungs, room * sizeof *l.rungs);
	return status;
}

/* For the goals that s->levels says, on a grid of UNIT and REST with levels for all of them. */
static enum status solve_and_offer(const struct search *s, const struct levels *l, int64_t unit, int64_t rest)
{
	struct grid grid = {unit, rest, 0};
	struct tables tables;
	for (size_t i = 0; i < s->count; i++)
		grid.levels = s->levels[i] > grid.levels ? s->levels[i] : grid.levels;
	if (grid.levels == 0)
		return STATUS_OK;
	bool solved = tables_make(&tables, l, &grid, table_solve, s->allocator);
	enum status status = solved ? offer_table(s, &tables.outer) : diag_memory(s->diags);
	tables_free(&tables, l, s->allocator);
	return status;
}

/* What a step of COST needs for a while, by KIND, of which there are NEEDS. */
enum { NEEDS = 3 };

static int64_t need_of(const struct step_cost *cost, int kind)
{
	return kind == 0 ? cost->forward_temporary : kind == 1 ? cost->record_temporary : cost->backward_temporary;
}

/* The remainders by UNIT of the most that steps need for a while, each once, with 0. Returns how many. */
static int needed_rests(const struct search *s, int64_t unit, int64_t rests[NEEDS + 1])
{
	int count = 1;
	rests[0] = 0;
	for (int kind = 0; kind < NEEDS; kind++) {
		int64_t most_needed = 0;
		for (size_t i = 0; i < s->costs->run_count; i++) {
			int64_t need = need_of(&s->costs->runs[i].cost, kind);
			most_needed = need > most_needed ? need : most_needed;
		}
		bool known = false;
		for (int k = 0; k < count; k++)
			known |= rests[k] == most_needed % unit;
		if (!known)
			rests[count++] = most_needed % unit;
	}
	return count;
}

/*
 * The least rest that is as good as BYTES % UNIT: what is held is whole units, so a
 * table depends on its rest only by which steps' needs leave no more than that.
 */
static int64_t rest_within(const struct search *s, int64_t unit, int64_t bytes)
{
	int64_t rest = 0;
	for (size_t i = 0; i < s->costs->run_count; i++)
		for (int kind = 0; kind < NEEDS; kind++) {
			int64_t left = need_of(&s->costs->runs[i].cost, kind) % unit;
			rest = left > rest && left <= bytes % unit ? left : rest;
		}
	return rest;
}

/*
 * Where UNIT divides all that is held: peaks are so many units and what one step
 * needs for a while. The verifier's alone can be had exactly, by levels that end at
 * the budget; else levels are tried that end at what the steps need. MOST levels.
 */
static enum status offer_units(struct search *s, const struct levels *l, int64_t unit, int64_t most)
{
	enum status status = STATUS_OK;
	if (s->judge) {
		int64_t rests[NEEDS + 1];
		int count = needed_rests(s, unit, rests);
		for (int k = 0; k < count && !status; k++) {
			for (size_t i = 0; i < s->count; i++) {
				int64_t levels = (goal_needed_range(s, &s->goals[i]) - rests[k]) / unit + 2;
				s->levels[i] = !is_sought(s, &s->goals[i]) ? 0 : levels < most ? levels : most;
			}
			status = solve_and_offer(s, l, unit, rests[k]);
		}
		return status;
	}
	/* Goals of one rest share a table, which is made with the first of them. */
	for (size_t i = 0; i < s->count; i++)
		s->rests[i] = is_sought(s, &s->goals[i]) ? rest_within(s, unit, s->goals[i].bytes - s->costs->fixed) : -1;
	for (size_t first = 0; first < s->count && !status; first++) {
		const int64_t rest = s->rests[first];
		for (size_t i = 0; i < s->count; i++) {
			bool now = i >= first && rest >= 0 && s->rests[i] == rest;
			int64_t levels = (s->goals[i].bytes - s->costs->fixed - rest) / unit + 1;
			s->levels[i] = !now ? 0 : levels < most ? levels : most;
			s->rests[i] = now ? -1 : s->rests[i];
		}
		status = solve_and_offer(s, l, unit, rest);
	}
	return status;
}

/* The tables on the grids that the invariant asks for, but those that less room had. */
static enum status offer_ranges(struct search *s, const struct levels *l)
{
	const int64_t least = least_range(l);
	enum status status = STATUS_OK;
	for (int64_t range = s->range; range > 0 && range >= least && !status; range /= 2) {
		int64_t each = unit_within(l, range, s->room);
		if (each == 0 || (s->judge && s->room > tables_least && each == unit_within(l, range, s->room / 4)))
			continue;
		for (size_t i = 0; i < s->count; i++) {
			const struct budget_goal *goal = &s->goals[i];
			int64_t available = goal->bytes - s->costs->fixed, reach = goal_reach(s, goal) - s->costs->fixed;
			bool within = is_sought(s, goal) && range > available / 2;
			s->levels[i] = within ? (reach < range ? reach : range) / each + 1 + SLACK : 0;
		}
		status = solve_and_offer(s, l, each, 0);
	}
	return status;
}

/*
 * The tables, ever larger. Those on the grid that divides all sizes are exact by the
 * verifier as far as their levels reach: the others are for the goals beyond, which
 * have these too, and for a judge.
 */
static enum status offer_tables(struct search *s, const struct levels *l)
{
	const int64_t unit = common_unit(l->parts, l->count);
	enum status status = STATUS_OK;
	int64_t before = least_range(l) / unit;
	s->exact = 0;
	for (s->room = s->judge ? tables_least : tables_most; s->room <= tables_most && !status; s->room *= 4) {
		const int64_t levels = levels_within(l, unit, s->range, s->room);
		if (levels > before) {
			status = offer_units(s, l, unit, levels + 2);
			s->exact = s->judge ? 0 : levels * unit;
			before = levels;
		}
		if (status == STATUS_OK)
			status = offer_ranges(s, l);
	}
	return status;
}

enum status search_tables(struct search *s)
{
	int64_t count;
	struct part *parts = make_parts(s, &count);
	enum status status = parts ? STATUS_OK : diag_memory(s->diags);
	if (status == STATUS_OK && count <= LEAST_PARTS) {
		struct action_list list = {.allocator = s->allocator};
		(void)least_peak_extract(parts, count, &list);
		status = search_offer(s, &from_tables, take_list(s, &list));
	}
	if (status == STATUS_OK) {
		struct levels l;
		status = levels_make(&l, parts, count, s->range, s->allocator) ? offer_tables(s, &l) : diag_memory(s->diags);
		levels_free(&l, s->allocator);
	}
	if (parts)
		allocator_put(s->allocator, parts, (size_t)count * sizeof *parts);
	return status;
}
