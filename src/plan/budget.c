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
 *
 * Invariant: which schedules are tried depends on the budget only so that more
 * bytes never lose one: the sets are fixed, units depend on the chain alone (2^-g of
 * what save-all takes, for those g whose range the budget and its reach are in), and
 * of a table's levels the highest whose schedule fits is sought along a fixed
 * ladder. So the cost does not rise with the budget. Where one unit divides all
 * sizes, and the verifier is the judge, the tables are exact.
 *
 * Up to MANY steps, a chain is cut into at most PARTS blocks, planned in two
 * levels. Equal steps beyond that are planned by closed forms, in time that
 * hardly depends on their number, from bounds instead of the verifier: those take
 * each of a step's sizes at its largest and one state more than may be needed.
 */
#include <math.h>
#include <string.h>

#include "plan/persistent.h"

enum {
	PARTS = 160,       /* blocks of the outer table */
	MANY = 3200,       /* steps that tables are made for */
	GROUPED = 20000,   /* steps, joined to MANY parts at most, likewise */
	LEAST_PARTS = 400, /* parts that the schedule of least peak is sought for */
	LEVELS_MOST = 20000,
	SLACK = 8,       /* levels beyond a range, as units are rounded */
	NUMBERED = 1000, /* steps that every:N, revolve:S and online:S are tried for */
	EACH = 100000,   /* rungs of so many steps in all are all tried */
	TRIES = 150,     /* of a table's ladder: first, and again between two rungs */
	TRIES_LONG = 12, /* for more than NUMBERED steps */
};
static const int64_t table_bytes = 100000000, table_work = 700000000;

struct search {
	const struct step_costs *costs;
	const struct budget_judge *judge;
	const struct allocator *allocator;
	struct diags *diags;
	int64_t budget;
	struct schedule *best;
	struct policy family; /* that made it */
	double time;
	int64_t least;    /* bytes of the smallest that was tried */
	int64_t verified; /* peak of the last offered, by the verifier */
};

enum verdict_on { SLOWER, TOO_LARGE, TAKEN };

static const struct policy from_tables = {.kind = POLICY_budget};

/* Bytes by the verifier beyond which nothing can fit. */
static int64_t reach_of(const struct search *s)
{
	if (!s->judge)
		return s->budget;
	double reach = (double)(s->budget - s->costs->fixed + s->judge->slack) / s->judge->share;
	return reach < 4e18 ? s->costs->fixed + (int64_t)reach : INT64_MAX;
}

/* Bytes that a schedule takes at least, whose peak is PEAK by the verifier. */
static int64_t truth_of(const struct search *s, int64_t peak)
{
	const int64_t fixed = s->costs->fixed;
	return s->judge ? fixed + (int64_t)((double)(peak - fixed) * s->judge->share) - s->judge->slack : peak;
}

/* Takes SCHEDULE, which FAMILY made, if it fits and is the fastest so far, else frees it. */
static enum status offer(struct search *s, const struct policy *family, struct schedule *schedule, enum verdict_on *on)
{
	struct verdict verdict;
	if (!schedule)
		return diag_memory(s->diags);
	enum status status = schedule_verify(schedule, s->costs, s->allocator, &verdict, s->diags);
	bool faster = !s->best || verdict.time < s->time * (1 - 1e-12);
	int64_t peak = s->verified = verdict.peak;
	*on = faster ? TOO_LARGE : SLOWER;
	const int64_t truth = truth_of(s, peak);
	if (status || !verdict.valid || !faster || (truth > s->budget && truth >= s->least)) {
		schedule_free(schedule);
		return status;
	}
	if (s->judge)
		status = s->judge->peak(s->judge->context, family, schedule, &peak, s->diags);
	s->least = !status && peak < s->least ? peak : s->least;
	if (status || peak > s->budget) {
		schedule_free(schedule);
		return status;
	}
	schedule_free(s->best);
	s->best = schedule;
	s->family = *family;
	s->time = verdict.time;
	*on = TAKEN;
	return STATUS_OK;
}

static enum status offer_list(struct search *s, struct action_list *list, enum verdict_on *on)
{
	struct schedule *schedule = list->failed ? NULL : list_schedule(list, s->allocator);
	list_free(list);
	return offer(s, &from_tables, schedule, on);
}

static enum status offer_family(struct search *s, const struct policy *family)
{
	struct schedule *schedule = NULL;
	enum verdict_on on;
	enum status status = policy_schedule(family, s->costs, s->allocator, &schedule, s->diags);
	return status ? status : offer(s, family, schedule, &on);
}

/* The sets of q and of S: every number at first, then one in GROWTH percent more. */
static int64_t next_number(int64_t number, int64_t dense, int64_t percent)
{
	return number < dense ? number + 1 : number + 1 + number * percent / 100;
}

/* The policies with one number or none; up to NUMBERED steps every number of them, at first. */
static enum status offer_families(struct search *s)
{
	static const enum policy_kind kinds[] = {POLICY_recursive, POLICY_sqrt, POLICY_every, POLICY_revolve,
	                                         POLICY_online};
	int64_t steps = s->costs->steps;
	enum status status = STATUS_OK;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		bool numbered = policy_table[kinds[i]].argument != NULL;
		int64_t most = !numbered ? 1 : steps <= NUMBERED ? steps - 1 : 0;
		for (int64_t number = 1; number <= most && !status; number = next_number(number, 24, 20)) {
			struct policy family = {.kind = kinds[i], .number = number};
			status = offer_family(s, &family);
		}
	}
	return status;
}

static enum status offer_parts(struct search *s)
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
struct levels {
	const struct part *parts;
	int64_t count, blocks, width; /* of a block in parts */
	struct part *joined;          /* by block */
	struct table *inner;          /* by block; NULL where a block is a part */
	struct table outer;
};

static int64_t block_width(const struct levels *l, int64_t block)
{
	int64_t left = l->count - block * l->width;
	return left < l->width ? left : l->width;
}

static int64_t levels_of(const struct levels *l)
{
	int64_t n = l->blocks, w = l->width;
	int64_t rows = table_rows(n, true) + (w > 1 ? n * table_rows(w, true) : 0);
	int64_t work = n * n * n / 3 + (w > 1 ? n * (w * w * w / 3 + 1) : 0) + 1;
	int64_t levels = table_bytes / 4 / rows;
	levels = table_work / work < levels ? table_work / work : levels;
	return levels < LEVELS_MOST ? levels : LEVELS_MOST;
}

static bool levels_make(struct levels *l, const struct part *parts, int64_t count, const struct allocator *allocator)
{
	*l = (struct levels){.parts = parts, .count = count, .width = (count + PARTS - 1) / PARTS};
	l->blocks = (count + l->width - 1) / l->width;
	l->joined = allocator_get(allocator, (size_t)l->blocks, sizeof *l->joined);
	if (!l->joined)
		return false;
	for (int64_t i = 0; i < l->blocks; i++)
		l->joined[i] = part_join(parts + i * l->width, block_width(l, i));
	if (l->width == 1)
		return true;
	l->inner = allocator_get(allocator, (size_t)l->blocks, sizeof *l->inner);
	if (l->inner)
		memset(l->inner, 0, (size_t)l->blocks * sizeof *l->inner);
	return l->inner != NULL;
}

static bool levels_solve(struct levels *l, const struct grid *grid, const struct allocator *allocator)
{
	for (int64_t i = 0; l->inner && i < l->blocks; i++) {
		l->inner[i] = (struct table){
			.parts = l->parts + i * l->width, .count = block_width(l, i), .grid = *grid, .last = i + 1 == l->blocks};
		if (!table_solve(&l->inner[i], allocator))
			return false;
	}
	l->outer = (struct table){.parts = l->joined, .count = l->blocks, .grid = *grid, .last = true, .inner = l->inner};
	return table_solve(&l->outer, allocator);
}

static void levels_clear(struct levels *l, const struct allocator *allocator)
{
	for (int64_t i = 0; l->inner && i < l->blocks; i++)
		table_free(&l->inner[i], allocator);
	table_free(&l->outer, allocator);
}

static void levels_free(struct levels *l, const struct allocator *allocator)
{
	levels_clear(l, allocator);
	allocator_put(allocator, l->joined, (size_t)l->blocks * sizeof *l->joined);
	if (l->inner)
		allocator_put(allocator, l->inner, (size_t)l->blocks * sizeof *l->inner);
}

/* Offers what TABLE says for LEVEL. */
static enum status offer_level(struct search *s, const struct table *table, int64_t level, enum verdict_on *on)
{
	struct action_list list = {.allocator = s->allocator};
	table_extract(table, level, &list);
	return offer_list(s, &list, on);
}

/*
 * LEVELS of TABLE, ascending, are a ladder: first every so-many-th of them from the
 * top, and where one fits, those between it and the one above.
 */
static enum status offer_ladder(struct search *s, const struct table *table, const int32_t *levels, int64_t count)
{
	int64_t tries = s->costs->steps > NUMBERED ? TRIES_LONG : TRIES, coarse = 1;
	while (count > EACH / s->costs->steps && (coarse * coarse < count || count / coarse > tries))
		coarse++;
	int64_t fine = (coarse + tries - 1) / tries, above = count, below = 0, reach = reach_of(s) - s->costs->fixed;
	enum status status = STATUS_OK;
	enum verdict_on on = TOO_LARGE;
	for (int64_t i = count - 1; status == STATUS_OK; i = i > coarse ? i - coarse : 0) {
		if (table->grid.rest + (levels[i] - 1) * table->grid.unit <= reach)
			status = offer_level(s, table, levels[i], &on);
		if (i == 0 || on != TOO_LARGE) {
			below = i;
			break;
		}
		above = i;
	}
	on = TOO_LARGE;
	for (int64_t k = above - 1; k > below && !status && on == TOO_LARGE; k -= fine)
		status = offer_level(s, table, levels[k], &on);
	return status;
}

/* The ladder is of the levels at which the time falls. */
static enum status solve_and_offer(struct search *s, struct levels *l, const struct grid *grid)
{
	enum status status = STATUS_OK;
	int32_t *levels = allocator_get(s->allocator, (size_t)grid->levels, sizeof *levels);
	if (!levels || !levels_solve(l, grid, s->allocator)) {
		status = diag_memory(s->diags);
	} else {
		int64_t count = 0;
		double before = INFINITY;
		for (int64_t m = table_least(&l->outer); m < grid->levels; m++) {
			double time = table_time(&l->outer, m);
			if (time < before * (1 - 1e-6))
				levels[count++] = (int32_t)m;
			before = time < before ? time : before;
		}
		if (count)
			status = offer_ladder(s, &l->outer, levels, count);
	}
	levels_clear(l, s->allocator);
	if (levels)
		allocator_put(s->allocator, levels, (size_t)grid->levels * sizeof *levels);
	return status;
}

/*
 * Where UNIT divides all that is held: peaks are so many units and what one step
 * needs for a while. The verifier's alone can be had exactly, by levels that end at
 * the budget; else levels are tried that end at what the steps need.
 */
static enum status offer_units(struct search *s, struct levels *l, int64_t unit, int64_t bytes)
{
	int64_t rests[4] = {0}, count = 1;
	if (!s->judge)
		rests[0] = (s->budget - s->costs->fixed) % unit;
	for (int kind = 0; kind < 3 && s->judge; kind++) {
		int64_t most_needed = 0;
		for (size_t i = 0; i < s->costs->run_count; i++) {
			const struct step_cost *cost = &s->costs->runs[i].cost;
			const int64_t needs[] = {cost->forward_temporary, cost->record_temporary, cost->backward_temporary};
			most_needed = needs[kind] > most_needed ? needs[kind] : most_needed;
		}
		bool known = false;
		for (int64_t k = 0; k < count; k++)
			known |= rests[k] == most_needed % unit;
		if (!known)
			rests[count++] = most_needed % unit;
	}
	enum status status = STATUS_OK;
	for (int64_t k = 0; k < count && !status; k++) {
		struct grid grid = {unit, rests[k], (bytes - rests[k]) / unit + 1 + (s->judge ? 1 : 0)};
		status = solve_and_offer(s, l, &grid);
	}
	return status;
}

/* The tables, on a grid that divides all sizes, or on those that the invariant asks for. WHOLE: save-all's peak. */
static enum status offer_tables(struct search *s, struct levels *l, int64_t whole)
{
	int64_t available = s->budget - s->costs->fixed, levels = levels_of(l), unit = common_unit(l->parts, l->count);
	int64_t reach = reach_of(s) - s->costs->fixed, range = whole - s->costs->fixed;
	if (available <= 0)
		return STATUS_OK;
	if (range / unit < levels)
		return offer_units(s, l, unit, s->judge ? range : available);
	while (range / 2 >= reach)
		range /= 2;
	enum status status = STATUS_OK;
	for (; range > available / 2 && range > levels / 4 && !status; range /= 2) {
		int64_t each = range / (levels - SLACK) + 1;
		struct grid grid = {each, 0, range / each + 1 + SLACK};
		status = solve_and_offer(s, l, &grid);
	}
	return status;
}

static enum status search_tables(struct search *s, int64_t whole)
{
	int64_t count;
	enum verdict_on on;
	struct part *parts = make_parts(s, &count);
	enum status status = parts ? STATUS_OK : diag_memory(s->diags);
	if (status == STATUS_OK && count <= LEAST_PARTS) {
		struct action_list list = {.allocator = s->allocator};
		(void)least_peak_extract(parts, count, &list);
		status = offer_list(s, &list, &on);
	}
	if (status == STATUS_OK) {
		struct levels l;
		status = levels_make(&l, parts, count, s->allocator) ? offer_tables(s, &l, whole) : diag_memory(s->diags);
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

/*
 * The parts' length and the snapshots of least evaluations above MORE whose bound is
 * within BYTES. False where there are none.
 */
static bool choose_parts(const struct search *s, const struct step_cost *large, int64_t bytes, int64_t more,
                         struct policy *family)
{
	int64_t steps = s->costs->steps, fewest = INT64_MAX;
	for (int64_t slots = 1; slots < steps; slots = next_number(slots, 64, 5)) {
		if (enough_bytes(large, s->costs->fixed, 1, slots) > bytes)
			break;
		for (int64_t each = 1; each <= steps; each = next_number(each, 64, 3)) {
			if (enough_bytes(large, s->costs->fixed, each, slots) > bytes)
				break;
			int64_t evaluations = revolve_parts_evaluations(steps, each, slots);
			if (evaluations > more && evaluations < fewest) {
				fewest = evaluations;
				*family = (struct policy){.kind = POLICY_revolve, .number = slots, .length = each};
			}
		}
	}
	return fewest < INT64_MAX;
}

/* Takes what FAMILY makes if it fits. Where even the verifier's walk is long, and there is no judge, its bound says. */
static enum status offer_long(struct search *s, const struct policy *family, int64_t bound, enum verdict_on *on)
{
	struct schedule *schedule = NULL;
	enum status status = policy_schedule(family, s->costs, s->allocator, &schedule, s->diags);
	if (!status && s->costs->steps <= GROUPED)
		return offer(s, family, schedule, on);
	*on = TOO_LARGE;
	if (!status && s->judge)
		status = s->judge->peak(s->judge->context, family, schedule, &bound, s->diags);
	s->least = !status && bound < s->least ? bound : s->least;
	if (status || bound > s->budget) {
		schedule_free(schedule);
		return status;
	}
	s->best = schedule;
	s->family = *family;
	*on = TAKEN;
	return STATUS_OK;
}

/*
 * The fewest evaluations first; the smallest that there is at last. Where a judge is
 * quick, steps being equal, what the bound says is a little too large is shown to it.
 */
static enum status search_long(struct search *s)
{
	struct step_cost large = largest_cost(s->costs);
	bool quick = s->judge && (s->costs->run_count == 1 || s->costs->steps <= GROUPED);
	int64_t more = 0, bytes = s->budget < INT64_MAX / 2 && quick ? s->budget + 2 * large.state : s->budget;
	struct policy family = {.kind = POLICY_revolve, .number = 1, .length = 1};
	const struct policy smallest = family;
	enum status status = STATUS_OK;
	enum verdict_on on = TOO_LARGE;
	for (int turn = 0; turn < TRIES_LONG && !status && on == TOO_LARGE; turn++) {
		if (!choose_parts(s, &large, bytes, more, &family))
			break;
		more = revolve_parts_evaluations(s->costs->steps, family.length, family.number);
		status = offer_long(s, &family, enough_bytes(&large, s->costs->fixed, family.length, family.number), &on);
	}
	if (!status && !s->best)
		status = offer_long(s, &smallest, enough_bytes(&large, s->costs->fixed, 1, 1), &on);
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

/* Tries everything; where it fails nothing is kept. */
static enum status search_all(struct search *s)
{
	const struct step_costs *costs = s->costs;
	const struct policy all = {.kind = POLICY_save_all};
	enum status status = offer_family(s, &all);
	if (status == STATUS_OK && !s->best && costs->steps > 1) {
		bool tables = costs->steps <= MANY || (costs->steps <= GROUPED && !all_equal(costs));
		if (tables)
			status = search_tables(s, s->verified);
		if (costs->steps <= GROUPED && status == STATUS_OK)
			status = offer_families(s);
		if (tables && status == STATUS_OK && costs->steps <= MANY)
			status = offer_parts(s);
		else if (status == STATUS_OK)
			status = search_long(s);
	}
	if (status) {
		schedule_free(s->best);
		s->best = NULL;
	}
	return status;
}

enum status budget_search(const struct step_costs *costs, int64_t bytes, const struct budget_judge *judge,
                          const struct allocator *allocator, struct schedule **schedule, struct policy *family,
                          int64_t *least, struct diags *diags)
{
	struct search s = {
		.costs = costs, .judge = judge, .allocator = allocator, .diags = diags, .budget = bytes, .least = INT64_MAX};
	enum status status = search_all(&s);
	*schedule = s.best;
	*least = s.least;
	if (family)
		*family = s.family;
	return status;
}

enum status budget_least(const struct step_costs *costs, const struct allocator *allocator, int64_t *least,
                         struct diags *diags)
{
	struct schedule *schedule;
	enum status status = budget_search(costs, 0, NULL, allocator, &schedule, NULL, least, diags);
	*least = schedule ? 0 : *least; /* a chain that takes nothing fits in nothing */
	schedule_free(schedule);
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
	int64_t least;
	enum status status =
		budget_search(costs, bytes, NULL, context->allocator, context->schedule, NULL, &least, context->diags);
	return status || *context->schedule ? status : budget_infeasible(bytes, least, option, context->diags);
}
