/*
 * Tables of persistent schedules (persistent.c) for the goals of a search: on which grids of memory
 * they are made, and which of their schedules are offered. A chain of more than BLOCKS parts is cut
 * into at most BLOCKS blocks. An outer table then plans the blocks, and an inner one the parts of each block.
 *
 * A table counts bytes as the cost walk does, in quanta. A judge's bytes may be more or fewer, so
 * tables for a goal go up to its reach (budget.h).
 * Tests: tests/unit/test_budget.c, tests/cases/plan.test
 */
#include "budget/search_parts.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "budget/persistent.h"

enum {
	LEAST_PARTS = 400, /* the most parts for which the schedule of least peak is made */
	LEVELS_MOST = 20000,
	ROW = 2 * sizeof(struct row) / sizeof(float), /* a row of the bounds and one of the table, in floats */
	SLACK = 24,      /* levels beyond a budget whose schedules may fit it: each held state is rounded up */
	EACH = 100000,   /* the most rungs, times steps, of a ladder whose rungs may all be tried */
	TRIES_LONG = 12, /* TRIES for chains of more than NUMBERED steps */
};
/*
 * Limits on the bytes of tables. They start at tables_least. Without a judge they start at tables_walked: schedules of
 * small specs then take 0.1 to 0.2 percent more time on average than with tables_most, and 0.5 with 8 MiB.
 */
static const int64_t tables_least = 1562500, tables_walked = 25000000, tables_most = 100000000;

static const struct policy from_tables = {.kind = POLICY_budget};

/* Returns GOAL's reach, at most save-all's peak; both in bytes beyond costs->fixed. */
static int64_t needed_range(const struct search *s, const struct budget_goal *goal)
{
	return lesser(goal_reach(s, goal), s->range);
}

static int64_t smallest_tables(const struct search *s) { return s->judge ? tables_least : tables_walked; }

/* True if tables of s->table_bytes are offered to GOAL. Exact tables that reach it already are enough, and so is a near goal. */
static bool wants_tables(const struct search *s, const struct budget_goal *goal)
{
	const int64_t available = goal->bytes - s->costs->fixed;
	const bool allowed = s->table_bytes <= smallest_tables(s) || s->table_bytes / 4 * 5 <= available;
	return !goal->near && !goal_is_settled(s, goal) && search_goes_on(s, goal) && available > 0 && allowed &&
	       needed_range(s, goal) >= s->exact;
}

/*
 * Cuts the chain, which has steps, into *COUNT parts: at most effort.parts, all of equally many steps, but the last may have
 * fewer. A part's time is its share of the whole chain's. NULL if out of memory.
 */
static struct part *make_parts(const struct search *s, int64_t *count)
{
	const struct step_costs *costs = s->costs;
	int64_t together = ceil_div(costs->steps, s->effort.parts), step = 0, filled = 0;
	*count = (costs->steps + together - 1) / together;
	struct part *parts = arena_array(s->context.arena, (size_t)*count, sizeof *parts);
	double total = 0;
	if (!parts)
		return NULL;
	for (size_t at = 0; at < costs->run_count; at++) {
		const struct step_run *run = &costs->runs[at];
		const int64_t beyond = step_costs_state_after(costs, at);
		for (int64_t i = 0; i < run->count; i++, step++) {
			struct part part = part_of_step(&run->cost, i + 1 < run->count ? run->cost.state : beyond, step);
			total += part.time + part.last;
			if (step % together) {
				struct part pair[2] = {parts[filled - 1], part};
				parts[filled - 1] = part_join(pair, 2);
			} else {
				parts[filled++] = part;
			}
		}
	}
	/* Tables are in floats, so a part's time is its share of the whole. If no step takes time, steps are counted. */
	for (int64_t i = 0; i < *count; i++) {
		const double steps = (double)(parts[i].end - parts[i].begin) / (double)step;
		parts[i].time = total > 0 ? parts[i].time / total : steps;
		parts[i].last = total > 0 ? parts[i].last / total : steps;
	}
	return parts;
}

int64_t common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* Returns the largest quantum that divides the bytes of all states and residuals of COUNT PARTS; 1 if all are 0. */
static int64_t common_quantum(const struct part *parts, int64_t count)
{
	int64_t quantum = parts[count - 1].next;
	for (int64_t i = 0; i < count; i++)
		quantum = common_divisor(common_divisor(quantum, parts[i].state), parts[i].residual);
	return quantum > 0 ? quantum : 1;
}

/* The tables on one grid: the outer one is of the chain of blocks, each inner one of a block's parts. */
struct tables {
	struct table *inner; /* by block; NULL if each block is one part */
	struct table outer;
};

/* The chain cut into blocks, and the bounds of its tables, from which the tables' sizes are known. */
struct blocks {
	const struct part *parts;
	int64_t part_count, count, width; /* count: of blocks; width: of a block, in parts */
	struct part *joined;              /* by block: its parts as one part */
	struct tables bounds;             /* on the grid `probe`, up to save-all's peak */
	struct tables solved;             /* tables on the current grid */
	struct grid probe;
	double sums; /* effort.sums */
	const struct allocator *allocator;
};

static int64_t block_width(const struct blocks *b, int64_t block)
{
	return lesser(b->part_count - block * b->width, b->width);
}

/* Calls MAKE (table_bound or table_solve) for all TABLES of B on GRID, inner ones first. False if out of memory. */
static bool tables_make(struct tables *tables, const struct blocks *b, const struct grid *grid,
                        bool make(struct table *table, const struct allocator *allocator))
{
	for (int64_t i = 0; tables->inner && i < b->count; i++) {
		tables->inner[i] = (struct table){
			.parts = b->parts + i * b->width, .count = block_width(b, i), .grid = *grid, .last = i + 1 == b->count};
		if (!make(&tables->inner[i], b->allocator))
			return false;
	}
	tables->outer =
		(struct table){.parts = b->joined, .count = b->count, .grid = *grid, .last = true, .inner = tables->inner};
	return make(&tables->outer, b->allocator);
}

static void tables_free(struct tables *tables, const struct blocks *b)
{
	for (int64_t i = 0; tables->inner && i < b->count; i++)
		table_free(&tables->inner[i], b->allocator);
	table_free(&tables->outer, b->allocator);
}

/* Cuts COUNT PARTS into blocks, and bounds their tables up to s->range bytes. False if out of memory. */
static bool blocks_make(const struct search *s, struct blocks *b, const struct part *parts, int64_t count)
{
	const int64_t range = s->range, quantum = (range >> 30) + 1;
	const int64_t width = ceil_div(count, s->effort.blocks), blocks = ceil_div(count, width);
	struct arena *arena = s->context.arena;
	*b = (struct blocks){.parts = parts,
	                     .part_count = count,
	                     .count = blocks,
	                     .width = width,
	                     .joined = arena_array(arena, (size_t)blocks, sizeof *b->joined),
	                     .probe = {.quantum = quantum, .levels = range / quantum + 1},
	                     .sums = s->effort.sums,
	                     .allocator = s->context.allocator};
	if (width > 1) {
		b->bounds.inner = arena_array(arena, (size_t)blocks, sizeof *b->bounds.inner);
		b->solved.inner = arena_array(arena, (size_t)blocks, sizeof *b->solved.inner);
	}
	if (arena->failed)
		return false;
	for (int64_t i = 0; i < blocks; i++)
		b->joined[i] = part_join(parts + i * width, block_width(b, i));
	return tables_make(&b->bounds, b, &b->probe, table_bound);
}

/* Sets SIZE to that of B's tables up to RANGE bytes, on a grid of one byte. */
static void measure_tables(const struct blocks *b, int64_t range, struct table_size *size)
{
	*size = (struct table_size){0};
	for (int64_t i = 0; b->bounds.inner && i < b->count; i++)
		table_measure(&b->bounds.inner[i], range / b->probe.quantum, size);
	table_measure(&b->bounds.outer, range / b->probe.quantum, size);
	size->cells *= (double)b->probe.quantum;
	size->work *= (double)b->probe.quantum;
}

/*
 * Returns the least quantum with which tables up to RANGE bytes, and SLACK levels more, take at most TABLE_BYTES and
 * the effort's sums, and RANGE at most LEVELS_MOST levels; 0 if none. Rounding adds up to two levels to a row's range.
 */
static int64_t quantum_within(const struct blocks *b, int64_t range, int64_t table_bytes)
{
	struct table_size size;
	measure_tables(b, range, &size);
	const double each = 3 + ROW;
	const double cells = (double)table_bytes / sizeof(float) - (double)size.rows * each - (double)size.open * SLACK;
	if (cells <= 0)
		return 0;
	const double quantum = fmax(size.cells / cells, fmax(size.work / b->sums, (double)range / LEVELS_MOST));
	return (int64_t)quantum + 1;
}

/* Returns the most levels, up to RANGE bytes, for which quantum_within says that QUANTUM is enough; 0 if none. */
static int64_t levels_within(const struct blocks *b, int64_t quantum, int64_t range, int64_t table_bytes)
{
	int64_t fits = 0, beyond = range / quantum + 2;
	while (beyond - fits > 1) {
		int64_t middle = fits + (beyond - fits) / 2, least = quantum_within(b, middle * quantum, table_bytes);
		if (least > 0 && least <= quantum)
			fits = middle;
		else
			beyond = middle;
	}
	return fits;
}

/* Returns the least bytes of a schedule of the tables, on the grid `probe`. */
static int64_t least_range(const struct blocks *b) { return table_least(&b->bounds.outer) * b->probe.quantum; }

/* The schedules of TABLE by rising level. A level is a rung if its time is less than at all lower levels by 1e-6. */
struct ladder {
	const struct table *table;
	struct candidate *rungs;
	size_t capacity;
	int64_t count;
};

/* Offers rung I to GOAL. The rung's schedule is made and freed: once to time it, then for each goal that wants it. */
static enum status offer_rung(const struct search *s, struct budget_goal *goal, const struct ladder *l, int64_t i)
{
	struct candidate *c = &l->rungs[i];
	enum status status = STATUS_OK;
	const bool large = candidate_is_large(goal, c);
	if (!c->timed || (goal_wants(s, goal, c) && !large)) {
		struct action_list list = {.allocator = s->context.allocator};
		table_extract(l->table, c->level, &list);
		c->schedule = action_list_schedule(&list);
		TRY_ALLOC(c->schedule, s->context.diags);
		if (!c->timed)
			status = candidate_measure(s, c, true);
	}
	c->result = goal_is_faster(goal, c->time) ? TOO_LARGE : SLOWER;
	if (!status && !large)
		status = goal_offer(s, goal, c);
	else
		goal_charge(s, goal, c);
	schedule_free(c->schedule);
	c->schedule = NULL;
	return status;
}

/* Offers GOAL some of the COUNT lowest rungs, downwards until one fits or is slow; then likewise the gap above it. */
static enum status offer_ladder(const struct search *s, struct budget_goal *goal, const struct ladder *l, int64_t count)
{
	const struct grid *grid = &l->table->grid;
	const int64_t most = s->costs->steps > NUMBERED ? TRIES_LONG : TRIES, tries = lesser(most, s->effort.tries);
	const int64_t reach = goal_reach(s, goal);
	int64_t coarse = 1, above = count, below = count - 1;
	while ((count > EACH / s->costs->steps || count > s->effort.tries) &&
	       (coarse * coarse < count || count / coarse > tries))
		coarse++;
	for (;; below = greater(below - coarse, 0)) {
		const bool reaches = grid->rest + (l->rungs[below].level - SLACK) * grid->quantum <= reach;
		TRY(reaches ? offer_rung(s, goal, l, below) : STATUS_OK);
		if (below == 0 || !search_goes_on(s, goal) || (reaches && l->rungs[below].result != TOO_LARGE))
			break;
		above = below;
	}
	for (int64_t k = above - 1; k > below && search_goes_on(s, goal); k -= ceil_div(coarse, tries)) {
		TRY(offer_rung(s, goal, l, k));
		if (l->rungs[k].result != TOO_LARGE)
			break;
	}
	return STATUS_OK;
}

/* Lists the rungs of L's table. False if out of memory. */
static bool list_rungs(struct ladder *l, const struct allocator *allocator)
{
	double before = INFINITY;
	for (int64_t m = table_least(l->table); m < l->table->grid.levels; m++) {
		const double time = table_time(l->table, m);
		if (time < before * (1 - 1e-6)) {
			if (!allocator_grow(allocator, (void **)&l->rungs, &l->capacity, (size_t)l->count + 1, sizeof *l->rungs))
				return false;
			l->rungs[l->count++] = (struct candidate){.family = &from_tables, .level = m};
		}
		before = fmin(before, time);
	}
	return true;
}

/* Offers each goal some of TABLE's rungs at levels below the goal's number in s->levels. */
static enum status offer_table(const struct search *s, const struct table *table)
{
	struct ladder l = {.table = table};
	enum status status = list_rungs(&l, s->context.allocator) ? STATUS_OK : diag_memory(s->context.diags);
	for (size_t i = s->count; i-- > 0 && !status;) {
		int64_t count = 0;
		while (count < l.count && l.rungs[count].level < s->levels[i])
			count++;
		status = count ? offer_ladder(s, &s->goals[i], &l, count) : STATUS_OK;
	}
	allocator_put(s->context.allocator, l.rungs, l.capacity * sizeof *l.rungs);
	return status;
}

/* Takes the work of tables of QUANTUM, with as many levels as s->levels has for a goal, from that goal's. */
static void charge_tables(const struct search *s, const struct blocks *b, int64_t quantum)
{
	for (size_t i = 0; i < s->count; i++) {
		struct table_size size = {0};
		if (s->levels[i] > 0)
			measure_tables(b, s->levels[i] * quantum, &size);
		search_spend(s, &s->goals[i], size.work / (double)quantum * SUM_WORK);
	}
}

/* Solves tables of QUANTUM and REST with as many levels as s->levels needs, and offers them. */
static enum status solve_and_offer(const struct search *s, struct blocks *b, int64_t quantum, int64_t rest)
{
	struct grid grid = {quantum, rest, 0};
	for (size_t i = 0; i < s->count; i++)
		grid.levels = greater(s->levels[i], grid.levels);
	if (grid.levels == 0)
		return STATUS_OK;
	charge_tables(s, b, quantum);
	const bool solved = tables_make(&b->solved, b, &grid, table_solve);
	enum status status = solved ? offer_table(s, &b->solved.outer) : diag_memory(s->context.diags);
	tables_free(&b->solved, b);
	return status;
}

/* The workspaces of a step, by kind. */
enum { WORKSPACES = 3 };

static int64_t workspace_of(const struct step_cost *cost, int kind)
{
	return kind == 0 ? cost->forward_temporary : kind == 1 ? cost->record_temporary : cost->backward_temporary;
}

/* Lists 0 and, for each kind, the largest workspace's remainder by QUANTUM, each rest once. Returns their number. */
static int workspace_rests(const struct search *s, int64_t quantum, int64_t rests[WORKSPACES + 1])
{
	int count = 1;
	rests[0] = 0;
	for (int kind = 0; kind < WORKSPACES; kind++) {
		int64_t largest = 0;
		for (size_t i = 0; i < s->costs->run_count; i++)
			largest = greater(largest, workspace_of(&s->costs->runs[i].cost, kind));
		rests[count] = largest % quantum;
		int known = 0;
		while (rests[known] != rests[count])
			known++;
		count += known == count;
	}
	return count;
}

/*
 * Returns the least rest that gives the same table as the rest BYTES % QUANTUM. Arrays take whole quanta, so a
 * table's rest only decides which steps' workspaces fit in it.
 */
static int64_t rest_within(const struct search *s, int64_t quantum, int64_t bytes)
{
	int64_t rest = 0;
	for (size_t i = 0; i < s->costs->run_count; i++)
		for (int kind = 0; kind < WORKSPACES; kind++) {
			int64_t left = workspace_of(&s->costs->runs[i].cost, kind) % quantum;
			rest = left > rest && left <= bytes % quantum ? left : rest;
		}
	return rest;
}

/* With a judge: offers tables of at most MOST levels with the rests of workspaces, one of which ends most peaks. */
static enum status offer_judged_quanta(const struct search *s, struct blocks *b, int64_t quantum, int64_t most)
{
	int64_t rests[WORKSPACES + 1];
	const int count = workspace_rests(s, quantum, rests);
	for (int k = 0; k < count; k++) {
		for (size_t i = 0; i < s->count; i++) {
			const int64_t levels = (needed_range(s, &s->goals[i]) - rests[k]) / quantum + 2;
			s->levels[i] = wants_tables(s, &s->goals[i]) ? lesser(levels, most) : 0;
		}
		TRY(solve_and_offer(s, b, quantum, rests[k]));
	}
	return STATUS_OK;
}

/* Without a judge: offers tables of at most MOST levels that end at budgets. Goals of one rest share a table. */
static enum status offer_exact_quanta(const struct search *s, struct blocks *b, int64_t quantum, int64_t most)
{
	const int64_t fixed = s->costs->fixed;
	for (size_t i = 0; i < s->count; i++)
		s->rests[i] = wants_tables(s, &s->goals[i]) ? rest_within(s, quantum, s->goals[i].bytes - fixed) : -1;
	for (size_t first = 0; first < s->count; first++) {
		const int64_t rest = s->rests[first];
		for (size_t i = 0; i < s->count; i++) {
			const bool now = i >= first && rest >= 0 && s->rests[i] == rest;
			s->levels[i] = now ? lesser((s->goals[i].bytes - fixed - rest) / quantum + 1, most) : 0;
			s->rests[i] = now ? -1 : s->rests[i];
		}
		TRY(solve_and_offer(s, b, quantum, rest));
	}
	return STATUS_OK;
}

/* Offers tables of each range (search.c, invariant), unless the smaller tables before already had its quantum. */
static enum status offer_ranges(const struct search *s, struct blocks *b)
{
	const bool larger = s->table_bytes > smallest_tables(s);
	const int64_t least = least_range(b);
	for (int64_t range = s->range; range > 0 && range >= least; range /= 2) {
		const int64_t quantum = quantum_within(b, range, s->table_bytes);
		if (quantum == 0 || (larger && quantum == quantum_within(b, range, s->table_bytes / 4)))
			continue;
		for (size_t i = 0; i < s->count; i++) {
			const struct budget_goal *goal = &s->goals[i];
			const bool within = wants_tables(s, goal) && range > (goal->bytes - s->costs->fixed) / 2;
			s->levels[i] = within ? lesser(goal_reach(s, goal), range) / quantum + 1 + SLACK : 0;
		}
		TRY(solve_and_offer(s, b, quantum, 0));
	}
	return STATUS_OK;
}

static bool parts_are_steps(const struct search *s, const struct blocks *b)
{
	return b->width == 1 && b->part_count == s->costs->steps;
}

/* Marks the goals that the exact tables of BYTES were offered to and reach, if each part is a step. */
static void mark_exact(const struct search *s, const struct blocks *b, int64_t bytes)
{
	for (size_t i = 0; i < s->count; i++)
		s->goals[i].exact |=
			parts_are_steps(s, b) && wants_tables(s, &s->goals[i]) && needed_range(s, &s->goals[i]) <= bytes;
}

/*
 * Offers tables of the common QUANTUM that take at most TABLE_BYTES, if they reach beyond *BEFORE levels. Without a judge
 * they are exact up to their top level.
 */
static enum status offer_quanta(struct search *s, struct blocks *b, int64_t quantum, int64_t table_bytes,
                                int64_t *before)
{
	const int64_t levels = levels_within(b, quantum, s->range, table_bytes);
	if (levels <= *before)
		return STATUS_OK;
	TRY(s->judge ? offer_judged_quanta(s, b, quantum, levels + 2) : offer_exact_quanta(s, b, quantum, levels + 2));
	mark_exact(s, b, levels * quantum);
	s->exact = s->judge ? 0 : levels * quantum;
	*before = levels;
	return STATUS_OK;
}

/*
 * Offers ever larger tables to goals of enough bytes. Without a judge, tables of the common quantum are exact if each
 * part is a step: then they may take tables_most for all goals. Tables of ranges serve the goals above their top level.
 */
static enum status offer_tables(struct search *s, struct blocks *b)
{
	const int64_t quantum = common_quantum(b->parts, b->part_count);
	int64_t before = least_range(b) / quantum;
	s->exact = 0;
	for (s->table_bytes = smallest_tables(s); s->table_bytes <= tables_most; s->table_bytes *= 4) {
		const bool exact = !s->judge && parts_are_steps(s, b);
		TRY(offer_quanta(s, b, quantum, exact ? tables_most : s->table_bytes, &before));
		TRY(offer_ranges(s, b));
	}
	return STATUS_OK;
}

enum status search_tables(struct search *s)
{
	struct blocks b;
	int64_t count;
	struct part *parts = make_parts(s, &count);
	TRY_ALLOC(parts, s->context.diags);
	if (count <= LEAST_PARTS && (!s->judge || count <= 2 * s->effort.blocks)) {
		struct action_list list = {.allocator = s->context.allocator};
		least_peak_extract(parts, count, &list);
		TRY(search_offer(s, &from_tables, action_list_schedule(&list)));
	}
	if (s->costs->steps <= FRONTS_STEPS_MOST)
		TRY(search_fronts(s));
	if (search_needs_no_tables(s))
		return STATUS_OK;
	const bool made = blocks_make(s, &b, parts, count);
	const enum status status = made ? offer_tables(s, &b) : diag_memory(s->context.diags);
	tables_free(&b.bounds, &b);
	return status;
}
