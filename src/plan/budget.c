/*
 * budget:BYTES: the least recomputation whose peak is within so many bytes.
 *
 * What is decided here is which schedules are tried. They come from
 *   - the persistent schedule of least peak (persistent.c);
 *   - the best persistent schedules for a memory in units (persistent.c);
 *   - the other policies, with each number of a fixed set;
 *   - binomial checkpointing of parts of q steps with S snapshots (revolve.c), for
 *     a fixed set of q and S.
 * Each is put through the verifier, and then the judge says what it takes in truth;
 * the fastest that fits is taken. Nothing rests on a prediction but the choice.
 * One search is for any number of budgets, the goals: each is offered what it would
 * be offered alone, in the same order, of candidates that are made once.
 *
 * Invariant: which schedules are tried depends on the budget only so that more
 * bytes never lose one: the sets are fixed, units depend on the chain alone (2^-g of
 * what save-all takes, for those g whose range is more than half the budget: each as
 * small as the room for tables allows, which is known before they are made), and of a
 * table's levels, up to the budget and SLACK, the highest whose schedule fits is sought
 * along a fixed ladder; where a judge says that there will be a run, small tables are
 * made for all budgets, finer ones beside them for budgets that leave the steps more
 * than the tables take, so that planning takes no more than the run will. So the cost
 * does not rise with the budget. Where one unit divides all sizes, and the verifier is
 * the judge, the tables are exact.
 *
 * Up to MANY steps, a chain is cut into at most PARTS blocks, planned in two
 * levels. Equal steps beyond that are planned by closed forms, in time that
 * hardly depends on their number, from bounds instead of the verifier: those take
 * each of a step's sizes at its largest and one state more than may be needed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/persistent.h"

enum {
	PARTS = 160,       /* blocks of the outer table */
	MANY = 3200,       /* steps that tables are made for */
	GROUPED = 20000,   /* steps, joined to MANY parts at most, likewise */
	LEAST_PARTS = 400, /* parts that the schedule of least peak is sought for */
	LEVELS_MOST = 20000,
	SLACK = 24,      /* levels beyond a budget whose schedules may fit it: each state that is held is rounded up */
	NUMBERED = 1000, /* steps that revolve:S and online:S are tried for */
	EACH = 100000,   /* rungs of so many steps in all are all tried */
	TRIES = 150,     /* of a table's ladder: first, and again between two rungs */
	TRIES_LONG = 12, /* for more than NUMBERED steps */
};
/* What tables may take: a budget of a run has those up to its own bytes, and the first; others the largest. */
static const int64_t tables_least = 6250000, tables_most = 100000000, table_work = 700000000;

/*
 * Something to offer to goals: what is known of it, by the verifier and by the
 * judge, which is asked when it must be.
 */
struct candidate {
	const struct policy *family;
	struct schedule *schedule; /* NULL: to be made again */
	bool verified, judged;
	double time;
	int64_t peak;  /* by the verifier */
	int64_t truth; /* by the judge, asked for at MOST; without one the same */
	int64_t most;
	struct counters counters;
};

struct search {
	const struct step_costs *costs;
	const struct budget_judge *judge;
	const struct allocator *allocator;
	struct diags *diags;
	struct budget_goal *goals;
	size_t count;
	int64_t range;   /* save-all's peak beyond what is fixed */
	int64_t room;    /* of the tables at hand, bytes */
	int64_t exact;   /* bytes beyond what is fixed up to which there were exact tables */
	int64_t *levels; /* by goal: how many of the grid at hand are for it */
	int64_t *rests;  /* by goal: of its grid that has not been had, or -1 */
};

enum verdict_on { SLOWER, TOO_LARGE, TAKEN };

static const struct policy from_tables = {.kind = POLICY_budget};
static const struct policy save_all = {.kind = POLICY_save_all};

/* Whether save-all fits, so that nothing is to be sought. */
static bool is_settled(const struct budget_goal *goal)
{
	return goal->schedule && goal->family.kind == POLICY_save_all;
}

/* Bytes by the verifier beyond which nothing can fit. */
static int64_t reach_of(const struct search *s, const struct budget_goal *goal)
{
	if (!s->judge)
		return goal->bytes;
	double reach = (double)(goal->bytes - s->costs->fixed + s->judge->slack) / s->judge->share;
	return reach < 4e18 ? s->costs->fixed + (int64_t)reach : INT64_MAX;
}

/* Bytes beyond what is fixed that GOAL's schedules can take by the verifier. */
static int64_t needed_range(const struct search *s, const struct budget_goal *goal)
{
	int64_t reach = reach_of(s, goal) - s->costs->fixed;
	return reach < s->range ? reach : s->range;
}

/* Whether the tables at hand are made for GOAL. */
static bool is_sought(const struct search *s, const struct budget_goal *goal)
{
	const bool room = !s->judge || s->room <= tables_least || s->room / 4 * 5 <= goal->bytes - s->costs->fixed;
	return !is_settled(goal) && goal->bytes > s->costs->fixed && room && needed_range(s, goal) >= s->exact;
}

/* Bytes that a schedule takes at least, whose peak is PEAK by the verifier. */
static int64_t truth_of(const struct search *s, int64_t peak)
{
	const int64_t fixed = s->costs->fixed;
	return s->judge ? fixed + (int64_t)((double)(peak - fixed) * s->judge->share) - s->judge->slack : peak;
}

static bool is_faster(const struct budget_goal *goal, double time)
{
	return !goal->schedule || time < goal->time * (1 - 1e-12);
}

/* Whether GOAL may want, as the best or for its bytes, what takes at least TIME, and PEAK by the verifier. */
static bool may_want(const struct search *s, const struct budget_goal *goal, double time, int64_t peak)
{
	const int64_t truth = truth_of(s, peak);
	return !is_settled(goal) && is_faster(goal, time) && (truth <= goal->bytes || truth < goal->least);
}

/* A schedule's time and peak only grow as it is walked: where no goal wants it any more the walk ends. */
struct walk {
	const struct search *search;
	size_t goal; /* the first that may want it */
};

static bool is_wanted(void *context, const struct verdict *verdict)
{
	struct walk *walk = context;
	const struct search *s = walk->search;
	while (walk->goal < s->count && !may_want(s, &s->goals[walk->goal], verdict->time, verdict->peak))
		walk->goal++;
	return walk->goal < s->count;
}

/* Asks the verifier, unless it was asked. *RIGHT: whether there is an answer; FULLY: there is, wanted or not. */
static enum status verify(const struct search *s, struct candidate *c, bool fully, bool *right)
{
	struct walk walk = {.search = s};
	const struct schedule_watch watch = {.wanted = is_wanted, .context = &walk};
	struct verdict verdict;
	*right = true;
	if (c->verified)
		return STATUS_OK;
	enum status status =
		schedule_follow(c->schedule, s->costs, s->allocator, fully ? NULL : &watch, &verdict, s->diags);
	*right = !status && verdict.valid;
	c->verified = *right;
	c->time = verdict.time;
	c->peak = verdict.peak;
	return status;
}

/* The bytes beyond which GOAL does not care what something takes. */
static int64_t most_of(const struct budget_goal *goal)
{
	return goal->bytes > goal->least || goal->schedule ? goal->bytes : goal->least;
}

/* Whether GOAL, which may want C, must have the judge asked. */
static bool must_ask(const struct budget_goal *goal, const struct candidate *c)
{
	return !c->judged || (c->truth > c->most && c->most < most_of(goal));
}

static enum status ask_judge(const struct search *s, const struct budget_goal *goal, struct candidate *c)
{
	enum status status = STATUS_OK;
	if (!s->judge) {
		c->truth = c->peak;
		return STATUS_OK;
	}
	if (!must_ask(goal, c))
		return STATUS_OK;
	c->most = most_of(goal);
	status = s->judge->peak(s->judge->context, c->family, c->schedule, c->most, &c->counters, &c->truth, s->diags);
	c->judged = !status;
	return status;
}

/* GOAL takes C, whose schedule is there, if it fits and is the fastest so far. */
static enum status offer_to(const struct search *s, struct budget_goal *goal, struct candidate *c, enum verdict_on *on)
{
	*on = is_faster(goal, c->time) ? TOO_LARGE : SLOWER;
	if (!may_want(s, goal, c->time, c->peak))
		return STATUS_OK;
	enum status status = ask_judge(s, goal, c);
	if (status)
		return status;
	goal->least = c->truth < goal->least ? c->truth : goal->least;
	if (c->truth > goal->bytes)
		return STATUS_OK;
	struct schedule *copy = schedule_copy(c->schedule);
	if (!copy)
		return diag_memory(s->diags);
	schedule_free(goal->schedule);
	goal->schedule = copy;
	goal->family = *c->family;
	goal->counters = c->counters;
	goal->time = c->time;
	*on = TAKEN;
	return STATUS_OK;
}

/* Offers SCHEDULE, which FAMILY made, to all goals, and frees it. */
static enum status offer(const struct search *s, const struct policy *family, struct schedule *schedule)
{
	struct candidate c = {.family = family, .schedule = schedule};
	enum verdict_on on;
	bool right;
	if (!schedule)
		return diag_memory(s->diags);
	enum status status = verify(s, &c, false, &right);
	for (size_t i = s->count; i-- > 0 && !status && right;)
		status = offer_to(s, &s->goals[i], &c, &on);
	schedule_free(schedule);
	return status;
}

/* LIST as a schedule; frees LIST. NULL where memory is or was short. */
static struct schedule *take_list(const struct search *s, struct action_list *list)
{
	struct schedule *schedule = list->failed ? NULL : list_schedule(list, s->allocator);
	list_free(list);
	return schedule;
}

static enum status offer_family(const struct search *s, const struct policy *family)
{
	struct schedule *schedule = NULL;
	enum status status = policy_schedule(family, s->costs, s->allocator, &schedule, s->diags);
	return status ? status : offer(s, family, schedule);
}

/* The sets of q and of S: every number at first, then one in GROWTH percent more. */
static int64_t next_number(int64_t number, int64_t dense, int64_t percent)
{
	return number < dense ? number + 1 : number + 1 + number * percent / 100;
}

/*
 * The policies with one number or none; up to NUMBERED steps every number of them, at
 * first, and beyond that those of every:N, whose walks are short.
 */
static enum status offer_families(const struct search *s)
{
	static const enum policy_kind kinds[] = {POLICY_recursive, POLICY_sqrt, POLICY_every, POLICY_revolve,
	                                         POLICY_online};
	int64_t steps = s->costs->steps;
	enum status status = STATUS_OK;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		bool numbered = policy_table[kinds[i]].argument != NULL;
		int64_t most = !numbered ? 1 : steps <= NUMBERED || kinds[i] == POLICY_every ? steps - 1 : 0;
		for (int64_t number = 1; number <= most && !status; number = next_number(number, 24, 20)) {
			struct policy family = {.kind = kinds[i], .number = number};
			status = offer_family(s, &family);
		}
	}
	return status;
}

static enum status offer_parts(const struct search *s)
{
	int64_t steps = s->costs->steps;
	enum status status = STATUS_OK;
	for (int64_t length = 1; length <= steps; length = next_number(length, 4, 40))
		for (int64_t snapshots = 1; snapshots < (steps + length - 1) / length && !status;
		     snapshots = next_number(snapshots, 8, 30)) {
			struct policy family = {.kind = POLICY_revolve, .number = snapshots, .length = length};
			status = offer_family(s, &family);
		}
	return status;
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
	const bool large = c->judged && !must_ask(goal, c) && c->truth > goal->bytes && c->truth >= goal->least;
	if (!c->verified || (may_want(s, goal, c->time, c->peak) && !large)) {
		struct action_list list = {.allocator = s->allocator};
		table_extract(l->table, l->levels[i], &list);
		c->family = &from_tables;
		c->schedule = take_list(s, &list);
		status = c->schedule ? verify(s, c, true, &right) : diag_memory(s->diags);
	}
	*on = is_faster(goal, c->time) ? TOO_LARGE : SLOWER;
	if (!status && right && !large)
		status = offer_to(s, goal, c, on);
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
	int64_t fine = (coarse + tries - 1) / tries, above = count, below = 0, reach = reach_of(s, goal) - s->costs->fixed;
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
				int64_t levels = (needed_range(s, &s->goals[i]) - rests[k]) / unit + 2;
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
			int64_t available = goal->bytes - s->costs->fixed, reach = reach_of(s, goal) - s->costs->fixed;
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

static enum status search_tables(struct search *s)
{
	int64_t count;
	struct part *parts = make_parts(s, &count);
	enum status status = parts ? STATUS_OK : diag_memory(s->diags);
	if (status == STATUS_OK && count <= LEAST_PARTS) {
		struct action_list list = {.allocator = s->allocator};
		(void)least_peak_extract(parts, count, &list);
		status = offer(s, &from_tables, take_list(s, &list));
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

/* Long chains: parts of q steps with S snapshots, from bounds. */

/* Each of a step's sizes at its largest. */
static struct step_cost largest_cost(const struct step_costs *costs)
{
	struct step_cost large = {.state = costs->output};
	for (size_t i = 0; i < costs->run_count; i++) {
		const struct step_cost *cost = &costs->runs[i].cost;
		if (costs->runs[i].count == 0)
			continue;
		int64_t kept = cost->residual + (cost->keeps_input && !cost->keeps_output ? cost->state : 0);
		large.state = cost->state > large.state ? cost->state : large.state;
		large.residual = kept > large.residual ? kept : large.residual;
		if (cost->forward_temporary > large.forward_temporary)
			large.forward_temporary = cost->forward_temporary;
		if (cost->record_temporary > large.record_temporary)
			large.record_temporary = cost->record_temporary;
		if (cost->backward_temporary > large.backward_temporary)
			large.backward_temporary = cost->backward_temporary;
	}
	return large;
}

/* Bytes that are enough for parts of LENGTH with SNAPSHOTS: recording, turning back, or advancing at full depth. */
static int64_t enough_bytes(const struct step_cost *large, int64_t fixed, int64_t length, int64_t snapshots)
{
	__int128 states = (__int128)large->state * (snapshots + 3), kept = (__int128)large->residual * length;
	int64_t record = large->record_temporary, backward = large->backward_temporary;
	__int128 recorded = kept + (record > backward ? record : backward);
	return saturate(fixed + states + (recorded > large->forward_temporary ? recorded : large->forward_temporary));
}

/* Parts of LENGTH with SNAPSHOTS, the bytes that are enough for them, and their evaluations. */
struct choice {
	int64_t bytes, evaluations, length, snapshots;
};

static int by_bytes(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return (x->evaluations > y->evaluations) - (x->evaluations < y->evaluations);
}

/* Choices, as far as there is room for them, and how many there are. */
struct choices {
	struct choice *rows;
	size_t room, count;
};

/* Adds parts of LENGTH with SNAPSHOTS if their bytes are at most MOST. */
static bool add_choice(const struct search *s, const struct step_cost *large, int64_t most, int64_t length,
                       int64_t snapshots, struct choices *to)
{
	int64_t bytes = enough_bytes(large, s->costs->fixed, length, snapshots);
	if (bytes > most)
		return false;
	if (to->count < to->room)
		to->rows[to->count] =
			(struct choice){bytes, revolve_parts_evaluations(s->costs->steps, length, snapshots), length, snapshots};
	to->count++;
	return true;
}

/* Of fixed sets of lengths and of snapshots, and with each the least of the other for which no part is run twice. */
static void list_choices(const struct search *s, const struct step_cost *large, int64_t most, struct choices *to)
{
	const int64_t steps = s->costs->steps;
	for (int64_t snapshots = 1; snapshots < steps; snapshots = next_number(snapshots, 64, 5)) {
		(void)add_choice(s, large, most, steps / (snapshots + 1) + (steps % (snapshots + 1) != 0), snapshots, to);
		for (int64_t length = 1; length <= steps; length = next_number(length, 64, 3))
			if (!add_choice(s, large, most, length, snapshots, to))
				break;
	}
	for (int64_t length = 1; length < steps; length = next_number(length, 64, 3))
		(void)add_choice(s, large, most, length, (steps - 1) / length, to);
	const int64_t root =
		(int64_t)ceil(sqrt((double)steps)); /* sqrt's own, from which the fixed ones may be a little off */
	(void)add_choice(s, large, most, root, (steps - 1) / root, to);
}

/* Those of the choices that no other is better than: by rising bytes, falling evaluations. Returns how many. */
static size_t keep_front(struct choice *choices, size_t count)
{
	size_t kept = 0;
	qsort(choices, count, sizeof *choices, by_bytes);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || choices[i].evaluations < choices[kept - 1].evaluations)
			choices[kept++] = choices[i];
	return kept;
}

/*
 * GOAL takes what CHOICE makes if it fits. Where even the verifier's walk is long,
 * and there is no judge, the bound says.
 */
static enum status offer_choice(const struct search *s, struct budget_goal *goal, const struct choice *choice,
                                enum verdict_on *on)
{
	const struct policy family = {.kind = POLICY_revolve, .number = choice->snapshots, .length = choice->length};
	struct candidate c = {
		.family = &family, .time = (double)choice->evaluations, .peak = s->judge ? s->costs->fixed : choice->bytes};
	bool right = true;
	*on = TOO_LARGE;
	enum status status = policy_schedule(&family, s->costs, s->allocator, &c.schedule, s->diags);
	if (!status && s->costs->steps <= GROUPED)
		status = verify(s, &c, false, &right);
	if (!status && right)
		status = offer_to(s, goal, &c, on);
	else if (!is_faster(goal, c.time))
		*on = SLOWER;
	schedule_free(c.schedule);
	return status;
}

/* The last of the COUNT choices, by rising bytes, that are enough in BYTES; -1: none. */
static int64_t last_within(const struct choice *choices, size_t count, double bytes)
{
	int64_t low = -1, high = (int64_t)count;
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;
		if ((double)choices[middle].bytes <= bytes)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * The best choices for ever fewer bytes, until one fits, on a ladder that depends on
 * the chain alone: first by every COARSE rungs of it, then between that which fits and
 * the one above by fewer, by one, and at last one choice after the other.
 */
static enum status offer_choices(const struct search *s, struct budget_goal *goal, const struct choice *choices,
                                 size_t count)
{
	enum { COARSE = 32, FINER = 8 };
	const double fixed = (double)s->costs->fixed, growth = log(1.025);
	const double least = fmax((double)choices[0].bytes - fixed, 1);
	int top = (int)(log(fmax((double)choices[count - 1].bytes - fixed, 1) / least) / growth) / COARSE * COARSE + COARSE;
	int below = 0;                             /* on the rungs from here to TOP none was tried */
	int64_t fits = -1, above = (int64_t)count; /* the best choice that fits, or is slow, and the next that does not */
	enum status status = STATUS_OK;
	enum verdict_on on = TOO_LARGE;
	for (int step = COARSE; step > 0 && !status; step = step == COARSE ? FINER : step == FINER ? 1 : 0) {
		int rung = top;
		for (; rung >= below && !status; rung -= step) {
			int64_t i = last_within(choices, count, fixed + least * exp(rung * growth));
			if (i >= above || i <= fits)
				continue;
			status = offer_choice(s, goal, &choices[i], &on);
			if (on != TOO_LARGE) {
				fits = i;
				break;
			}
			above = i;
		}
		below = rung < below ? below : rung + 1;
		top = rung + step - 1;
	}
	for (on = TOO_LARGE; above - 1 > fits && !status && on == TOO_LARGE;)
		status = offer_choice(s, goal, &choices[--above], &on);
	return status;
}

/*
 * The bytes by the bounds that choices for GOAL may have. The bounds are above the truth,
 * most of all where states are unequal or small: they are begun with beyond the budget,
 * unless they alone say what fits.
 */
static int64_t most_bound(const struct search *s, const struct budget_goal *goal)
{
	enum { EQUAL = 2, UNEQUAL = 8, SMALL = 16 << 10 };
	const bool walks = s->costs->steps <= GROUPED;
	const int64_t times = walks && s->costs->run_count > 1 ? UNEQUAL : EQUAL;
	const __int128 available = (__int128)goal->bytes - s->costs->fixed;
	return saturate(s->costs->fixed + (s->judge || walks ? available * times + SMALL : available));
}

/* Parts of equal length, from bounds; to each goal of the same list as far as its bytes go, the smallest at last. */
static enum status search_long(const struct search *s)
{
	const struct step_cost large = largest_cost(s->costs);
	const struct choice smallest = {enough_bytes(&large, s->costs->fixed, 1, 1),
	                                revolve_parts_evaluations(s->costs->steps, 1, 1), 1, 1};
	struct choices choices = {0};
	enum status status = STATUS_OK;
	enum verdict_on on;
	int64_t most = 0;
	for (size_t i = 0; i < s->count; i++)
		if (!is_settled(&s->goals[i]) && most_bound(s, &s->goals[i]) > most)
			most = most_bound(s, &s->goals[i]);
	list_choices(s, &large, most, &choices);
	choices.room = choices.count + 1;
	choices.count = 0;
	choices.rows = allocator_get(s->allocator, choices.room, sizeof *choices.rows);
	if (!choices.rows)
		return diag_memory(s->diags);
	list_choices(s, &large, most, &choices);
	const size_t front = keep_front(choices.rows, choices.count);
	for (size_t i = 0; i < s->count && !status; i++) {
		struct budget_goal *goal = &s->goals[i];
		if (is_settled(goal))
			continue;
		const int64_t last = last_within(choices.rows, front, (double)most_bound(s, goal));
		if (last >= 0)
			status = offer_choices(s, goal, choices.rows, (size_t)last + 1);
		if (!status && !goal->schedule)
			status = offer_choice(s, goal, &smallest, &on);
	}
	allocator_put(s->allocator, choices.rows, choices.room * sizeof *choices.rows);
	return status;
}

static bool all_equal(const struct step_costs *costs)
{
	const struct step_cost *first = &costs->runs[0].cost;
	for (size_t i = 1; i < costs->run_count; i++) {
		const struct step_cost *cost = &costs->runs[i].cost;
		if (cost->state != first->state || cost->residual != first->residual || cost->forward < first->forward ||
		    cost->forward > first->forward || cost->keeps_input != first->keeps_input ||
		    cost->keeps_output != first->keeps_output)
			return false;
	}
	return true;
}

/* Save-all to all goals, and its range. *OPEN: some are not settled by that. */
static enum status offer_save_all(struct search *s, bool *open)
{
	struct candidate c = {.family = &save_all};
	enum verdict_on on;
	bool right = true;
	*open = false;
	enum status status = policy_schedule(&save_all, s->costs, s->allocator, &c.schedule, s->diags);
	if (!status)
		status = verify(s, &c, true, &right);
	for (size_t i = 0; i < s->count && !status && right; i++) {
		status = offer_to(s, &s->goals[i], &c, &on);
		*open |= !s->goals[i].schedule;
	}
	schedule_free(c.schedule);
	s->range = c.peak - s->costs->fixed;
	return status;
}

static enum status search_all(struct search *s)
{
	const struct step_costs *costs = s->costs;
	bool open;
	enum status status = offer_save_all(s, &open);
	if (status || !open || costs->steps <= 1)
		return status;
	const bool tables = costs->steps <= MANY || (costs->steps <= GROUPED && !all_equal(costs));
	if (tables)
		status = search_tables(s);
	if (costs->steps <= GROUPED && status == STATUS_OK)
		status = offer_families(s);
	if (tables && status == STATUS_OK && costs->steps <= MANY)
		return offer_parts(s);
	return status ? status : search_long(s);
}

enum status budget_search(const struct step_costs *costs, struct budget_goal *goals, size_t count,
                          const struct budget_judge *judge, const struct allocator *allocator, struct diags *diags)
{
	struct search s = {.costs = costs,
	                   .judge = judge,
	                   .allocator = allocator,
	                   .diags = diags,
	                   .goals = goals,
	                   .count = count,
	                   .levels = allocator_get(allocator, 2 * count, sizeof *s.levels)};
	for (size_t i = 0; i < count; i++)
		goals[i] = (struct budget_goal){.bytes = goals[i].bytes, .least = INT64_MAX};
	s.rests = s.levels ? s.levels + count : NULL;
	enum status status = s.levels ? search_all(&s) : diag_memory(diags);
	allocator_put(allocator, s.levels, 2 * count * sizeof *s.levels);
	for (size_t i = 0; i < count && status; i++) {
		schedule_free(goals[i].schedule);
		goals[i].schedule = NULL;
	}
	return status;
}

enum status budget_least(const struct step_costs *costs, const struct allocator *allocator, int64_t *least,
                         struct diags *diags)
{
	struct budget_goal goal = {.bytes = 0};
	enum status status = budget_search(costs, &goal, 1, NULL, allocator, diags);
	*least = goal.schedule ? 0 : goal.least; /* a chain that takes nothing fits in nothing */
	schedule_free(goal.schedule);
	return status;
}

enum status budget_infeasible(int64_t bytes, int64_t least, const char *option, struct diags *diags)
{
	enum status status = diag_file(diags, STATUS_LIMIT, NULL, -1,
	                               "the chain cannot be turned back in %lld bytes: the least is %lld bytes",
	                               (long long)bytes, (long long)least);
	diag_hint(diags, "use %s%lld or more", option, (long long)least);
	return status;
}

enum status budget_schedule(const struct emit_context *context, const struct step_costs *costs, int64_t bytes,
                            const char *option)
{
	struct budget_goal goal = {.bytes = bytes};
	enum status status = budget_search(costs, &goal, 1, NULL, context->allocator, context->diags);
	*context->schedule = goal.schedule;
	return status || goal.schedule ? status : budget_infeasible(bytes, goal.least, option, context->diags);
}
