/*
 * budget:BYTES: the least recomputation whose peak is within so many bytes.
 *
 * What is decided here is which schedules are tried. They come from
 *   - binomial checkpointing of parts of q steps with S snapshots (revolve.c),
 *     which holds save-all, every:N and revolve:S, for a fixed set of q and S;
 *   - recursive, and segments of the square root of the steps;
 *   - the persistent schedule of least peak (persistent.c);
 *   - the best persistent schedules for a memory in units (persistent.c).
 * Each is put through the verifier, and the fastest whose peak is within the
 * budget is taken. Nothing rests on a prediction but the choice.
 *
 * Invariant: which schedules are tried depends on the budget only so that more
 * bytes never lose one: the sets of q and S are fixed, units depend on the chain
 * alone (a budget between 2^-g-1 and 2^-g of what save-all takes uses that g's
 * units, and the best for the next finer ones at their full range), and of the
 * levels of memory the highest whose schedule fits is taken. So the cost does not
 * rise with the budget. Where one unit divides all sizes the tables are exact.
 *
 * Up to MANY steps, a chain is cut into at most PARTS blocks, planned in two
 * levels. Equal steps beyond that are planned by closed forms, in time that
 * hardly depends on their number, from bounds instead of the verifier: those take
 * each of a step's sizes at its largest and one state more than may be needed.
 */
#include <string.h>

#include "plan/persistent.h"

enum {
	PARTS = 160,       /* blocks of the outer table */
	MANY = 3200,       /* steps that tables are made for */
	GROUPED = 20000,   /* steps, joined to MANY parts at most, likewise */
	LEAST_PARTS = 400, /* parts that the schedule of least peak is sought for */
	LEVELS_MOST = 20000,
	SLACK = 8,      /* levels beyond the budget that may fit after all, as units are rounded */
	ATTEMPTS = 200, /* levels that are tried */
};
static const int64_t table_bytes = 100000000, table_work = 700000000;

struct search {
	const struct emit_context *context;
	const struct step_costs *costs;
	int64_t budget;
	struct schedule *best;
	double time;
	int64_t peak;  /* of the best */
	int64_t least; /* peak of anything tried whatever the budget: it will be tried again */
	bool fitted;   /* what is tried now depends on the budget */
};

/* Keeps SCHEDULE if it is the best so far, else frees it; *PEAK may be NULL. */
static enum status offer(struct search *s, struct schedule *schedule, int64_t *peak)
{
	struct verdict verdict;
	if (!schedule)
		return diag_memory(s->context->diags);
	enum status status = schedule_verify(schedule, s->costs, s->context->allocator, &verdict, s->context->diags);
	if (status || !verdict.valid) {
		schedule_free(schedule);
		return status;
	}
	if (peak)
		*peak = verdict.peak;
	if (!s->fitted && verdict.peak < s->least)
		s->least = verdict.peak;
	bool better = !s->best || verdict.time < s->time || (!(verdict.time > s->time) && verdict.peak < s->peak);
	if (verdict.peak > s->budget || !better) {
		schedule_free(schedule);
		return STATUS_OK;
	}
	schedule_free(s->best);
	s->best = schedule;
	s->time = verdict.time;
	s->peak = verdict.peak;
	return STATUS_OK;
}

static enum status offer_list(struct search *s, struct action_list *list, int64_t *peak)
{
	struct schedule *schedule = list->failed ? NULL : list_schedule(list, s->context->allocator);
	list_free(list);
	return offer(s, schedule, peak);
}

/* The sets of q and of S: every number at first, then one in GROWTH percent more. */
static int64_t next_number(int64_t number, int64_t dense, int64_t percent)
{
	return number < dense ? number + 1 : number + 1 + number * percent / 100;
}

/* recursive and sqrt, which the sets of q and S may not hold. */
static enum status offer_families(struct search *s)
{
	static const struct policy families[] = {{.kind = POLICY_recursive}, {.kind = POLICY_sqrt}};
	enum status status = STATUS_OK;
	for (size_t i = 0; i < sizeof families / sizeof *families && !status; i++) {
		struct schedule *schedule = NULL;
		status = policy_schedule(&families[i], s->costs, s->context->allocator, &schedule, s->context->diags);
		if (!status)
			status = offer(s, schedule, NULL);
	}
	return status;
}

static enum status offer_parts(struct search *s)
{
	int64_t steps = s->costs->steps;
	for (int64_t length = 1; length <= steps; length = next_number(length, 4, 40))
		for (int64_t snapshots = 1; snapshots < (steps + length - 1) / length;
		     snapshots = next_number(snapshots, 8, 30)) {
			struct emit_context context = *s->context;
			struct schedule *schedule = NULL;
			context.schedule = &schedule;
			enum status status = revolve_parts_schedule(&context, steps, length, snapshots);
			if (status == STATUS_OK)
				status = offer(s, schedule, NULL);
			if (status)
				return status;
		}
	return STATUS_OK;
}

/* Parts of the chain: one for each step, or for each of several in a row. */

static struct part *make_parts(const struct search *s, int64_t *count)
{
	const struct step_costs *costs = s->costs;
	int64_t together = (costs->steps + MANY - 1) / MANY, step = 0, filled = 0;
	*count = (costs->steps + together - 1) / together;
	struct part *parts = allocator_get(s->context->allocator, (size_t)*count, sizeof *parts);
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

/* Offers the schedule of the highest level whose peak is at most LIMIT. */
static enum status offer_level(struct search *s, const struct table *table, int64_t limit)
{
	int64_t least = table_least(table);
	enum status status = STATUS_OK;
	for (int64_t m = table->grid.levels - 1, turn = 0; m >= least && turn < ATTEMPTS && status == STATUS_OK; turn++) {
		struct action_list list = {.allocator = s->context->allocator};
		int64_t peak = INT64_MAX;
		table_extract(table, m, &list);
		status = offer_list(s, &list, &peak);
		if (peak <= limit)
			break;
		/* Not in steps of one where it is far above: a level is a unit at least. */
		int64_t over = (peak - limit) / table->grid.unit;
		m -= over > 4 * SLACK ? over / 2 : 1;
	}
	return status;
}

static enum status solve_and_offer(struct search *s, struct levels *l, const struct grid *grid, int64_t limit)
{
	enum status status = STATUS_OK;
	if (!levels_solve(l, grid, s->context->allocator))
		status = diag_memory(s->context->diags);
	else
		status = offer_level(s, &l->outer, limit);
	levels_clear(l, s->context->allocator);
	return status;
}

/* The tables, on a grid that divides all sizes, or on the two that the invariant asks for. WHOLE: save-all's peak. */
static enum status offer_tables(struct search *s, struct levels *l, int64_t whole)
{
	int64_t available = s->budget - s->costs->fixed, levels = levels_of(l), unit = common_unit(l->parts, l->count);
	whole -= s->costs->fixed;
	if (available <= 0)
		return STATUS_OK;
	if (whole / unit < levels) {
		struct grid grid = {unit, available % unit, available / unit + 1};
		return solve_and_offer(s, l, &grid, s->budget);
	}
	int64_t range = whole;
	while (range / 2 >= available)
		range /= 2;
	for (int turn = 0; turn < 2 && range > levels / 4; turn++, range /= 2) {
		int64_t bytes = turn == 0 ? available : range, each = range / (levels - SLACK) + 1;
		struct grid grid = {each, 0, bytes / each + 1 + SLACK};
		enum status status = solve_and_offer(s, l, &grid, s->costs->fixed + bytes);
		if (status)
			return status;
	}
	return STATUS_OK;
}

static enum status search_tables(struct search *s, int64_t whole)
{
	const struct allocator *allocator = s->context->allocator;
	int64_t count;
	struct part *parts = make_parts(s, &count);
	enum status status = parts ? STATUS_OK : diag_memory(s->context->diags);
	if (status == STATUS_OK && count <= LEAST_PARTS) {
		struct action_list list = {.allocator = allocator};
		(void)least_peak_extract(parts, count, &list);
		status = offer_list(s, &list, NULL);
	}
	if (status == STATUS_OK) {
		struct levels l;
		s->fitted = true;
		status = levels_make(&l, parts, count, allocator) ? offer_tables(s, &l, whole) : diag_memory(s->context->diags);
		s->fitted = false;
		levels_free(&l, allocator);
	}
	if (parts)
		allocator_put(allocator, parts, (size_t)count * sizeof *parts);
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

/* The parts' length and the snapshots of least evaluations within the budget; *LENGTH 0 where there are none. */
static void choose_parts(const struct search *s, int64_t *length, int64_t *snapshots)
{
	struct step_cost large = largest_cost(s->costs);
	int64_t steps = s->costs->steps, fewest = INT64_MAX;
	*length = 0;
	for (int64_t slots = 1; slots < steps; slots = next_number(slots, 64, 5)) {
		if (enough_bytes(&large, s->costs->fixed, 1, slots) > s->budget)
			break;
		for (int64_t each = 1; each <= steps; each = next_number(each, 64, 3)) {
			if (enough_bytes(&large, s->costs->fixed, each, slots) > s->budget)
				break;
			int64_t evaluations = revolve_parts_evaluations(steps, each, slots);
			if (evaluations < fewest) {
				fewest = evaluations;
				*length = each;
				*snapshots = slots;
			}
		}
	}
}

static enum status search_long(struct search *s)
{
	int64_t length, snapshots = 1;
	struct step_cost large = largest_cost(s->costs);
	choose_parts(s, &length, &snapshots);
	int64_t least = enough_bytes(&large, s->costs->fixed, 1, 1);
	s->least = least < s->least ? least : s->least;
	if (length == 0)
		return STATUS_OK;
	struct emit_context context = *s->context;
	struct schedule *schedule = NULL;
	context.schedule = &schedule;
	enum status status = revolve_parts_schedule(&context, s->costs->steps, length, snapshots);
	if (status == STATUS_OK && s->costs->steps <= GROUPED) {
		s->fitted = true;
		return offer(s, schedule, NULL);
	}
	s->best = schedule;
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

static enum status infeasible(const struct search *s)
{
	enum status status = diag_file(s->context->diags, STATUS_LIMIT, NULL, -1,
	                               "the chain cannot be turned back in %lld bytes: the least is %lld bytes",
	                               (long long)s->budget, (long long)s->least);
	diag_hint(s->context->diags, "use budget:%lld or more", (long long)s->least);
	return status;
}

/* Tries everything; where it fails nothing is kept. */
static enum status search_all(struct search *s)
{
	const struct step_costs *costs = s->costs;
	struct emit_context save = *s->context;
	struct schedule *all = NULL;
	int64_t whole = INT64_MAX;
	save.schedule = &all;
	enum status status = segments_schedule(&save, costs->steps, costs->steps > 0 ? costs->steps : 1, 0);
	if (status == STATUS_OK)
		status = offer(s, all, &whole);
	if (status == STATUS_OK && !s->best && costs->steps > 1) {
		bool tables = costs->steps <= MANY || (costs->steps <= GROUPED && !all_equal(costs));
		if (tables)
			status = search_tables(s, whole);
		if (tables && status == STATUS_OK && costs->steps <= MANY)
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

enum status budget_schedule(const struct emit_context *context, const struct step_costs *costs, int64_t bytes)
{
	struct search s = {.context = context, .costs = costs, .budget = bytes, .least = INT64_MAX};
	enum status status = search_all(&s);
	if (status == STATUS_OK && !s.best)
		status = infeasible(&s);
	if (status == STATUS_OK)
		*context->schedule = s.best;
	return status;
}

enum status budget_least(const struct step_costs *costs, const struct allocator *allocator, int64_t *least,
                         struct diags *diags)
{
	struct emit_context context = {allocator, diags, NULL};
	struct search s = {.context = &context, .costs = costs, .least = INT64_MAX};
	enum status status = search_all(&s);
	/* A chain that takes nothing fits in nothing. */
	*least = s.best ? 0 : s.least;
	schedule_free(s.best);
	return status;
}
