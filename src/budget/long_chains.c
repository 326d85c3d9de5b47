/*
 * Long chains: parts of q equal steps with S snapshots, by closed forms, in time that
 * hardly depends on the number of steps, from bounds instead of the verifier: those
 * take each of a step's sizes at its largest and one state more than may be needed.
 */
#include "budget/search_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

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

/* Bytes that are enough for parts of LENGTH with SNAPSHOTS: recording, reversing, or advancing at full depth. */
static int64_t enough_bytes(const struct step_cost *large, int64_t fixed, int64_t length, int64_t snapshots)
{
	__int128 states = (__int128)large->state * (snapshots + 3), kept = (__int128)large->residual * length;
	int64_t record = large->record_temporary, backward = large->backward_temporary;
	__int128 recorded = kept + (record > backward ? record : backward);
	return saturated(fixed + states + (recorded > large->forward_temporary ? recorded : large->forward_temporary));
}

static struct policy parts_policy(int64_t length, int64_t snapshots)
{
	return (struct policy){.kind = POLICY_revolve, .number = snapshots, .length = length};
}

static int64_t evaluations_of(const struct search *s, int64_t length, int64_t snapshots)
{
	const struct policy parts = parts_policy(length, snapshots);
	return policy_evaluations(&parts, s->costs->steps);
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
		to->rows[to->count] = (struct choice){bytes, evaluations_of(s, length, snapshots), length, snapshots};
	to->count++;
	return true;
}

/* Of fixed sets of lengths and of snapshots, and with each the least of the other for which no part is run twice. */
static void list_choices(const struct search *s, const struct step_cost *large, int64_t most, struct choices *to)
{
	const int64_t steps = s->costs->steps;
	for (int64_t snapshots = 1; snapshots < steps; snapshots = search_next_number(snapshots, 64, 5)) {
		(void)add_choice(s, large, most, steps / (snapshots + 1) + (steps % (snapshots + 1) != 0), snapshots, to);
		for (int64_t length = 1; length <= steps; length = search_next_number(length, 64, 3))
			if (!add_choice(s, large, most, length, snapshots, to))
				break;
	}
	for (int64_t length = 1; length < steps; length = search_next_number(length, 64, 3))
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
	const struct policy family = parts_policy(choice->length, choice->snapshots);
	struct candidate c = {
		.family = &family, .time = (double)choice->evaluations, .peak = s->judge ? s->costs->fixed : choice->bytes};
	bool right = true;
	*on = TOO_LARGE;
	c.schedule = policy_schedule(&family, s->costs, s->allocator);
	enum status status = c.schedule ? STATUS_OK : diag_memory(s->diags);
	if (!status && s->costs->steps <= GROUPED)
		status = candidate_verify(s, &c, false, &right);
	if (!status && right)
		status = goal_offer(s, goal, &c, on);
	else if (!goal_is_faster(goal, c.time))
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
	return saturated(s->costs->fixed + (s->judge || walks ? available * times + SMALL : available));
}

enum status search_long(const struct search *s)
{
	const struct step_cost large = largest_cost(s->costs);
	const struct choice smallest = {enough_bytes(&large, s->costs->fixed, 1, 1), evaluations_of(s, 1, 1), 1, 1};
	struct choices choices = {0};
	enum status status = STATUS_OK;
	enum verdict_on on;
	int64_t most = 0;
	for (size_t i = 0; i < s->count; i++)
		if (!goal_is_settled(&s->goals[i]) && most_bound(s, &s->goals[i]) > most)
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
		if (goal_is_settled(goal))
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
