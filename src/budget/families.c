/*
 * The schedules of other policies that a search tries: for no budget the search finds worse than one of these policies
 * that fits. Numbers come from fixed sets, and those of revolve:S and every:N that serve a goal best are looked for.
 * Tests: tests/unit/test_budget.c, tests/cases/plan.test
 */
#include "budget/search_parts.h"

#include <math.h>

#include "base/checked.h"

/* Returns the number after NUMBER in a set that the effort thins out: see search_next_number. */
static int64_t next_number(const struct search *s, int64_t number, int64_t dense, int64_t percent)
{
	const double thin = s->effort.thin;
	return search_next_number(number, (int64_t)((double)dense / thin), (int64_t)((double)percent * fmin(thin, 100)));
}

bool families_are_certain(const struct search *s) { return s->judge && s->costs->steps <= NUMBERED; }

bool family_is_certain(const struct search *s, const struct policy *family)
{
	const bool few = family->kind == POLICY_sqrt || family->kind == POLICY_recursive || family->kind == POLICY_every;
	return family->kind != POLICY_budget && (families_are_certain(s) || (few && s->judge && s->costs->steps <= MANY));
}

static enum status offer_family(const struct search *s, const struct policy *family)
{
	return search_offer(s, family, policy_schedule(family, s->costs, s->context.allocator));
}

/*
 * Offers GOAL the policy of KIND with numbers between *FITS and BEYOND. On the way to BEYOND they mostly take more and more
 * bytes. *FITS becomes the last number that fits or is too slow, found by bisection, or stays.
 */
static enum status offer_last(const struct search *s, struct budget_goal *goal, enum policy_kind kind, int64_t beyond,
                              int64_t *fits)
{
	const int64_t most = kind == POLICY_every ? MANY : NUMBERED; /* to judge revolve:S takes longer */
	while ((beyond - *fits > 1 || *fits - beyond > 1) && !goal_is_settled(s, goal) && search_goes_on(s, goal)) {
		const struct policy family = {.kind = kind, .number = *fits + (beyond - *fits) / 2};
		struct candidate c = {.family = &family,
		                      .schedule = policy_schedule(&family, s->costs, s->context.allocator),
		                      .certain = s->judge && s->costs->steps <= most};
		TRY(goal_try(s, goal, &c, true));
		*(c.result == TOO_LARGE ? &beyond : fits) = family.number;
	}
	return STATUS_OK;
}

/* offer_last, of numbers from LEAST up. */
static enum status offer_largest(const struct search *s, struct budget_goal *goal, enum policy_kind kind, int64_t least,
                                 int64_t *fits)
{
	*fits = least;
	return offer_last(s, goal, kind, s->costs->steps, fits);
}

/* Offers the policies of `kinds`. Only every:N is cheap enough to try with a number over more than NUMBERED steps. */
static enum status offer_families(const struct search *s)
{
	static const enum policy_kind kinds[] = {POLICY_recursive, POLICY_sqrt, POLICY_every, POLICY_revolve,
	                                         POLICY_online};
	const int64_t steps = s->costs->steps;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		bool numbered = policy_table[kinds[i]].argument != NULL;
		int64_t most = !numbered ? 1 : steps <= NUMBERED || kinds[i] == POLICY_every ? steps - 1 : 0;
		for (int64_t number = 1; number <= most && search_continues(s); number = next_number(s, number, 24, 20))
			TRY(offer_family(s, &(struct policy){.kind = kinds[i], .number = number}));
	}
	return STATUS_OK;
}

static enum status offer_parts(const struct search *s)
{
	const int64_t steps = s->costs->steps;
	for (int64_t length = 1; length <= steps; length = next_number(s, length, 4, 40))
		for (int64_t kept = 1; kept < ceil_div(steps, length) && search_continues(s);
		     kept = next_number(s, kept, 8, 30))
			TRY(offer_family(s, &(struct policy){.kind = POLICY_revolve, .number = kept, .length = length}));
	return STATUS_OK;
}

/* The sizes of steps by their index: their states, and the sums of the residuals of the steps before each. */
struct sizes {
	int64_t *states;
	double *residuals;
};

static bool list_sizes(const struct search *s, struct sizes *sizes)
{
	const size_t count = (size_t)s->costs->steps + 1;
	sizes->states = arena_array(s->context.arena, count, sizeof *sizes->states);
	sizes->residuals = arena_array(s->context.arena, count, sizeof *sizes->residuals);
	int64_t step = 0;
	for (size_t run = 0; run < s->costs->run_count && !s->context.arena->failed; run++)
		for (int64_t i = 0; i < s->costs->runs[run].count; i++, step++) {
			sizes->states[step] = s->costs->runs[run].cost.state;
			sizes->residuals[step + 1] = sizes->residuals[step] + (double)s->costs->runs[run].cost.residual;
		}
	return !s->context.arena->failed;
}

/* Returns the most bytes that every:NUMBER holds once a segment is recorded: the states kept before it, and its residuals. */
static double bytes_of_every(const struct search *s, const struct sizes *sizes, int64_t number)
{
	const int64_t steps = s->costs->steps;
	double states = 0, most = 0;
	for (int64_t i = s->costs->head; i < steps; i += number) {
		most = fmax(most, states + sizes->residuals[lesser(i + number, steps)] - sizes->residuals[i]);
		states += (double)sizes->states[i];
	}
	return most;
}

/* Returns the time that every:NUMBER takes beyond save-all's: all but the head and the last segment run twice. */
static double recomputation_of_every(const struct search *s, int64_t number)
{
	const int64_t steps = s->costs->steps, head = s->costs->head;
	const int64_t last = steps > head ? head + (steps - 1 - head) / number * number : head;
	double time = s->sums[last] - s->sums[head];
	for (int64_t end = head + number; end <= last; end += number)
		time -= s->unread[end - 1];
	return time;
}

/*
 * Offers GOAL every:N for N from MOST down, if every:N takes at most REACH bytes and less time than GOAL's schedule. It
 * stops when the effort is spent.
 */
static enum status offer_every_below(const struct search *s, const struct sizes *sizes, struct budget_goal *goal,
                                     int64_t most, double reach)
{
	const int64_t steps = s->costs->steps;
	int64_t tries = s->effort.tries;
	for (int64_t number = lesser(most, steps - 1); number > 0 && tries > 0 && search_goes_on(s, goal); number--) {
		const double time = s->time + recomputation_of_every(s, number);
		const bool reached = families_are_certain(s) || bytes_of_every(s, sizes, number) <= reach;
		if (!goal_is_faster(goal, time) || !reached)
			continue;
		TRY(offer_family(s, &(struct policy){.kind = POLICY_every, .number = number}));
		tries--;
	}
	return STATUS_OK;
}

/*
 * Offers GOAL every:N. From the N of fewest bytes on, more steps in a segment mostly take more bytes, and so do fewer,
 * which hold more states. The last such N that fit are found by bisection, and those around them are tried. Where few
 * steps have most of the bytes, larger N fit again: so the largest N of all are tried too.
 */
static enum status offer_every(const struct search *s, const struct sizes *sizes, struct budget_goal *goal)
{
	const int64_t steps = s->costs->steps;
	const double reach = (double)goal_reach(s, goal);
	int64_t least = 1, fits;
	double fewest = INFINITY;
	for (int64_t number = 1; number < steps; number++) {
		const double bytes = bytes_of_every(s, sizes, number);
		least = bytes < fewest ? number : least;
		fewest = fmin(bytes, fewest);
	}
	TRY(offer_every_below(s, sizes, goal, steps - 1, reach));
	TRY(offer_largest(s, goal, POLICY_every, least, &fits));
	TRY(offer_every_below(s, sizes, goal, fits + s->effort.tries / 2, reach));
	fits = least;
	TRY(offer_last(s, goal, POLICY_every, 0, &fits));
	/* FITS may be in reach by the judge, whatever the walk takes it for. */
	return offer_every_below(s, sizes, goal, lesser(fits + s->effort.tries / 2, least),
	                         fmax(reach, bytes_of_every(s, sizes, fits)));
}

enum status search_quickly(const struct search *s)
{
	int64_t fits;
	for (size_t i = 0; i < s->count; i++) {
		struct budget_goal *goal = &s->goals[i];
		if (!goal->schedule)
			TRY(search_within_bound(s, goal));
		if (!goal->schedule)
			TRY(offer_largest(s, goal, POLICY_revolve, 0, &fits));
	}
	return STATUS_OK;
}

enum status search_families(const struct search *s)
{
	struct sizes sizes;
	int64_t fits;
	TRY(offer_families(s));
	TRY_ALLOC(list_sizes(s, &sizes), s->context.diags);
	for (size_t i = 0; i < s->count; i++)
		if (!goal_is_settled(s, &s->goals[i])) {
			TRY(offer_largest(s, &s->goals[i], POLICY_revolve, 0, &fits));
			TRY(offer_every(s, &sizes, &s->goals[i]));
		}
	return s->costs->steps <= MANY ? offer_parts(s) : STATUS_OK;
}
