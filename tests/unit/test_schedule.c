/*
 * Schedules of every policy by cut: the oracle, closed forms, recurrences and searches judge them, and know
 * nothing of how they are made. The oracle judges the cost walk too.
 * CKPTC_NIGHTLY in the environment makes loops full.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "schedule/families.h"
#include "schedule/verify.h"
#include "schedule_model.h"
#include "suite.h"

static struct step_run uniform_run;

static struct step_costs uniform(int64_t steps)
{
	uniform_run = (struct step_run){.cost = {.forward = 1,
	                                         .record = 1,
	                                         .backward = 2,
	                                         .state = 10,
	                                         .residual = 7,
	                                         .forward_temporary = 1,
	                                         .record_temporary = 2,
	                                         .backward_temporary = 3},
	                                .count = steps};
	return (struct step_costs){.runs = &uniform_run, .run_count = 1, .steps = steps, .output = 10, .fixed = 5};
}

static bool nightly(void) { return getenv("CKPTC_NIGHTLY") != NULL; }

static int64_t evaluations_of(const char *text, int64_t limit, int64_t steps)
{
	struct step_costs costs = uniform(steps);
	struct schedule *schedule = schedule_of(text, limit, &costs);
	struct verdict verdict = verdict_of(schedule, &costs);
	ck_assert_msg(!verdict.wrong, "%s on %lld: %s at action %lld", text, (long long)steps, verdict.wrong,
	              (long long)verdict.actions);
	ck_assert_int_eq(verdict.checkpoints, schedule_slots(schedule));
	schedule_free(schedule);
	return verdict.evaluations;
}

static int64_t closed_form(const char *text, int64_t limit, int64_t steps)
{
	struct arena arena;
	struct diags diags;
	struct policy policy;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	ck_assert_int_eq(policy_parse(&context, &policy, text), STATUS_OK);
	policy.max_checkpoints = limit;
	int64_t evaluations = policy_evaluations(&policy, steps);
	arena_free(&arena);
	return evaluations;
}

static const char *const cut_policies[] = {
	"save-all",   "every:1",   "every:2",    "every:3",    "every:5",   "every:16",  "every:50",
	"sqrt",       "recursive", "revolve:1",  "revolve:2",  "revolve:3", "revolve:4", "revolve:7",
	"revolve:50", "online:1",  "online:2",   "online:3",   "online:6",  "online:60", "auto",
	"nothing",    "budget:60", "budget:100", "budget:200", "budget:1MB"};
enum { CUT_POLICIES = sizeof cut_policies / sizeof *cut_policies };

START_TEST(every_policy_is_valid)
{
	for (int p = 0; p < CUT_POLICIES; p++)
		for (int64_t limit = 0; limit < 5; limit++)
			for (int64_t steps = 0; steps <= 40; steps++) {
				int64_t evaluations = evaluations_of(cut_policies[p], limit, steps);
				int64_t closed = closed_form(cut_policies[p], limit, steps);
				if (closed >= 0)
					ck_assert_msg(evaluations == closed, "%s on %lld: %lld, not %lld", cut_policies[p],
					              (long long)steps, (long long)closed, (long long)evaluations);
			}
}
END_TEST

/* A number or a limit beyond the steps, up to the largest, says what the steps themselves say. */
START_TEST(numbers_beyond_the_steps)
{
	static const char *const kinds[] = {"every", "revolve", "online", "disk-revolve"};
	static const int64_t beyond[] = {41, INT64_MAX / 4 - 1, INT64_MAX / 2, INT64_MAX / 2 + 2, INT64_MAX};
	for (int k = 0; k < 4; k++)
		for (int64_t steps = 0; steps <= 40; steps += 8)
			for (int b = 0; b < 5; b++) {
				char text[64], same[64];
				snprintf(text, sizeof text, "%s:%lld", kinds[k], (long long)beyond[b]);
				snprintf(same, sizeof same, "%s:40", kinds[k]);
				ck_assert_int_eq(evaluations_of(text, 0, steps), evaluations_of(same, 0, steps));
				ck_assert_int_eq(evaluations_of(text, beyond[b], steps), evaluations_of(same, 0, steps));
				ck_assert_int_eq(closed_form(text, beyond[b], steps), closed_form(same, 0, steps));
			}
}
END_TEST

/* The policy of round I: of the cut policies but the larger budgets, or on disk. */
static const char *any_policy(uint64_t *seed)
{
	static const char *const on_disk[] = {"disk-revolve:0", "disk-revolve:1", "disk-revolve:3"};
	int64_t which = draw(seed, 25);
	return which < 22 ? cut_policies[which] : on_disk[which - 22];
}

START_TEST(cost_walk_is_the_oracle)
{
	uint64_t seed = 7;
	int rounds = nightly() ? 20000 : 1500;
	for (int i = 0; i < rounds; i++) {
		struct step_run store[200];
		const bool many = i % 10 == 0; /* several blocks of runs (forward_range.h) */
		struct step_costs costs = random_costs(&seed, store, many ? 200 : 8, many || !draw(&seed, 2) ? 2 : 12, 1);
		costs.spill_write = (double)draw(&seed, 5);
		costs.spill_read = (double)draw(&seed, 5);
		const char *text = any_policy(&seed);
		struct schedule *schedule = schedule_of(text, draw(&seed, 4), &costs);
		const struct verdict verdict = verdict_of(schedule, &costs);
		const struct walked walked = walk_of(schedule, &costs, NULL);
		const struct counters *c = &walked.counters;
		ck_assert_msg(!verdict.wrong, "%s: %s", text, verdict.wrong);
		ck_assert_int_eq(c->steps, costs.steps);
		ck_assert_int_eq(c->peak_bytes, verdict.peak);
		ck_assert_int_eq(c->stored_bytes, verdict.stored);
		ck_assert_int_eq(c->evaluations, verdict.evaluations);
		ck_assert_int_eq(c->executions, verdict.executions);
		ck_assert_int_eq(c->checkpoints, verdict.checkpoints);
		ck_assert_int_eq(c->spill_writes, verdict.spill_writes);
		ck_assert_int_eq(c->spill_reads, verdict.spill_reads);
		ck_assert_double_eq_tol(walked.time, verdict.time, 1e-9);
		const double disk = (double)c->spill_writes * costs.spill_write + (double)c->spill_reads * costs.spill_read;
		ck_assert_double_eq_tol(c->forward_cost + c->backward_cost + c->recomputed_cost + disk, verdict.time, 1e-6);
		schedule_free(schedule);
	}
}
END_TEST

/* A walk that may end at MOST bytes ends above them exactly if the peak is above. */
START_TEST(cost_walk_ends_at_most)
{
	uint64_t seed = 9;
	for (int i = 0; i < 500; i++) {
		struct step_run store[8];
		struct step_costs costs = random_costs(&seed, store, 8, 12, 3);
		struct schedule *schedule = schedule_of(any_policy(&seed), 0, &costs);
		const int64_t peak = walk_of(schedule, &costs, NULL).counters.peak_bytes;
		for (int64_t most = peak > 3 ? peak - 3 : 1; most < peak + 3; most++) {
			const struct cost_walk_options options = {.most = most};
			const int64_t ended = walk_of(schedule, &costs, &options).counters.peak_bytes;
			ck_assert(peak > most ? ended > most && ended <= peak : ended == peak);
		}
		schedule_free(schedule);
	}
}
END_TEST

/* The parts of a walk are what it takes at once, and they are all of it. */
struct watched {
	double time;
	int64_t peak, first, again, reversed, saved, dropped;
};

static bool see_part(void *context, const struct action *part, double from, double to, int64_t live, bool again)
{
	struct watched *w = context;
	int64_t steps = part->end - part->begin;
	ck_assert(from == w->time && to >= from);
	w->time = to;
	w->peak = live > w->peak ? live : w->peak;
	if (part->kind == ACT_FORWARD || part->kind == ACT_RECORD)
		*(again ? &w->again : &w->first) += steps;
	else if (part->kind == ACT_BACKWARD)
		w->reversed += steps;
	w->saved += part->kind == ACT_SAVE;
	w->dropped += part->kind == ACT_DROP;
	return true;
}

START_TEST(watched_is_unwatched)
{
	uint64_t seed = 11;
	for (int i = 0; i < 1500; i++) {
		struct step_run store[8];
		struct step_costs costs = random_costs(&seed, store, 8, i % 3 == 0 ? 300 : 3, 1);
		struct schedule *schedule = schedule_of(cut_policies[draw(&seed, 22)], draw(&seed, 4), &costs);
		struct watched w = {0};
		const struct cost_walk_options options = {.part = see_part, .part_context = &w};
		const struct walked plain = walk_of(schedule, &costs, NULL), parts = walk_of(schedule, &costs, &options);
		ck_assert_int_eq(parts.counters.peak_bytes, plain.counters.peak_bytes);
		ck_assert_int_eq(parts.counters.stored_bytes, plain.counters.stored_bytes);
		ck_assert_int_eq(parts.counters.evaluations, plain.counters.evaluations);
		ck_assert_int_eq(parts.counters.checkpoints, plain.counters.checkpoints);
		ck_assert_double_eq_tol(parts.time, plain.time, 1e-6);
		ck_assert_int_eq(w.peak > costs.fixed ? w.peak : plain.counters.peak_bytes, plain.counters.peak_bytes);
		ck_assert_int_eq(w.first, costs.steps);
		ck_assert_int_eq(w.first + w.again, plain.counters.evaluations);
		ck_assert_int_eq(w.reversed, costs.steps);
		ck_assert_int_eq(w.saved, w.dropped);
		schedule_free(schedule);
	}
}
END_TEST

START_TEST(numbers_of_the_manual)
{
	ck_assert_int_eq(evaluations_of("revolve:3", 0, 10), 25);
	ck_assert_int_eq(evaluations_of("every:4", 0, 16), 28);
	ck_assert_int_eq(evaluations_of("recursive", 0, 8), 16);
	ck_assert_int_eq(evaluations_of("save-all", 0, 8), 8);
	ck_assert_int_eq(evaluations_of("sqrt", 0, 16), 28);
	/* Kept at 0 and 4; the segments at 8 and 12: 8 is 4 steps from 4, 12 is the last. */
	ck_assert_int_eq(evaluations_of("every:4", 2, 16), 16 + 12 + 4);
}
END_TEST

/* States and residuals after the first sweep: 4 values for 8 steps, 5 for 16. */
START_TEST(recursive_keeps)
{
	for (int64_t steps = 8, values = 4; steps <= 1024; steps *= 2, values++) {
		struct step_costs costs = uniform(steps);
		struct schedule *schedule = schedule_of("recursive", 0, &costs);
		struct action action;
		int64_t saved = 0, recorded = 0;
		while (schedule_next(schedule, &action) && action.kind != ACT_BACKWARD) {
			saved += action.kind == ACT_SAVE;
			recorded += action.kind == ACT_RECORD ? action.end - action.begin : 0;
		}
		ck_assert_int_eq(recorded, 2);
		ck_assert_int_eq(saved + recorded, values);
		schedule_free(schedule);
	}
}
END_TEST

/* Griewank and Walther, by the recurrence and by the schedules. */
enum { REVOLVE_STEPS = 1000, REVOLVE_SNAPSHOTS = 50 };

START_TEST(revolve_is_optimal)
{
	enum { LONGEST = 150, MOST = 12 };
	static int64_t least[MOST + 1][LONGEST + 1];
	for (int s = 1; s <= MOST; s++)
		for (int l = 1; l <= LONGEST; l++) {
			int64_t best = l == 1 ? 1 : INT64_MAX;
			for (int m = 1; m < l; m++) {
				if (s == 1 && l - m > 1)
					continue;
				int64_t rest = l - m == 1 ? 1 : least[s - 1][l - m];
				best = m + rest + least[s][m] < best ? m + rest + least[s][m] : best;
			}
			least[s][l] = best;
			ck_assert_int_eq(binomial_evaluations(l, s), best);
		}
}
END_TEST

START_TEST(revolve_meets_closed_form)
{
	int64_t stride = nightly() ? 1 : 7;
	for (int64_t s = 1; s <= REVOLVE_SNAPSHOTS; s++)
		for (int64_t l = 1; l <= REVOLVE_STEPS; l += l < 60 || l > 990 ? 1 : stride) {
			/* Counted through the actions; the oracle judges in other tests. */
			char text[32];
			snprintf(text, sizeof text, "revolve:%lld", (long long)s);
			struct step_costs costs = uniform(l);
			struct schedule *schedule = schedule_of(text, 0, &costs);
			struct action a;
			int64_t count = 0, slots = 0, most = 0, reversed = l;
			while (schedule_next(schedule, &a)) {
				count += a.kind == ACT_FORWARD || a.kind == ACT_RECORD ? a.end - a.begin : 0;
				slots += (a.kind == ACT_SAVE) - (a.kind == ACT_DROP);
				most = slots > most ? slots : most;
				if (a.kind == ACT_BACKWARD) {
					ck_assert_int_eq(a.end, reversed);
					reversed = a.begin;
				}
			}
			/* t(l, s) = r l - beta(s+1, r-1), in doubles: exact here. */
			double reach = 1, below = 0;
			int64_t r = 0;
			while (reach < (double)l) {
				r++;
				below += reach; /* the sum of beta(s, i), i < r, is beta(s+1, r-1) */
				reach = reach * (double)(s + r) / (double)r;
			}
			ck_assert_int_eq(count, r * l - (int64_t)below + l);
			ck_assert_int_eq(count, binomial_evaluations(l, s));
			ck_assert_int_eq(reversed, 0);
			ck_assert_int_eq(slots, 0);
			ck_assert_int_le(most, s);
			schedule_free(schedule);
		}
}
END_TEST

START_TEST(revolve_of_a_long_chain)
{
	ck_assert_int_eq(binomial_evaluations(1000000, 1), 500000500000);
	ck_assert_int_gt(binomial_evaluations(INT64_C(1) << 40, 3), INT64_C(1) << 40);
	ck_assert_int_eq(binomial_evaluations(INT64_C(1) << 62, 1), INT64_MAX);
	ck_assert_int_eq(evaluations_of("revolve:30", 0, 100000), binomial_evaluations(100000, 30));
	ck_assert_int_eq(evaluations_of("revolve:999999", 0, 3000), 2 * 3000 - 1);
}
END_TEST

/* The first sweep of online:S does not look at the number of steps. */
START_TEST(online_sweep_is_blind)
{
	for (int s = 1; s <= 9; s++) {
		char text[32];
		snprintf(text, sizeof text, "online:%d", s);
		static struct step_run long_room;
		struct step_costs longer = uniform(400);
		long_room = uniform_run;
		longer.runs = &long_room;
		for (int64_t steps = 1; steps < 400; steps += 3) {
			struct step_costs costs = uniform(steps);
			struct schedule *whole = schedule_of(text, 0, &longer), *part = schedule_of(text, 0, &costs);
			struct action a, b;
			while (schedule_next(part, &a) && a.kind != ACT_RECORD) {
				ck_assert(schedule_next(whole, &b));
				/* Which free slot is taken is a name only: they are numbered alike where there are as many. */
				ck_assert(a.kind == b.kind && a.begin == b.begin && a.end == b.end);
			}
			ck_assert_int_eq(a.begin, steps - 1);
			schedule_free(whole);
			schedule_free(part);
		}
	}
}
END_TEST

/* Optimal up to C(S+2, 2) steps; never more than C(S+t, t) steps ask for repetitions beyond t + 1. */
START_TEST(online_repeats_least)
{
	for (int s = 1; s <= 12; s++) {
		char text[32];
		snprintf(text, sizeof text, "online:%d", s);
		int64_t two = (int64_t)(s + 2) * (s + 1) / 2;
		for (int64_t steps = 1; steps <= 260; steps += steps < two + 2 ? 1 : 5) {
			struct step_costs costs = uniform(steps);
			struct schedule *schedule = schedule_of(text, 0, &costs);
			const struct verdict outcome = verdict_of(schedule, &costs);
			double reach = 1;
			int64_t t = 0;
			while (reach < (double)steps)
				t++, reach = reach * (double)(s + t) / (double)t;
			ck_assert_msg(outcome.most_repeated <= t + 1, "online:%d on %lld: %lld times, not %lld", s,
			              (long long)steps, (long long)outcome.most_repeated, (long long)t + 1);
			ck_assert_int_ge(outcome.evaluations, binomial_evaluations(steps, s));
			if (steps <= two)
				ck_assert_int_eq(outcome.evaluations, binomial_evaluations(steps, s));
			schedule_free(schedule);
		}
	}
}
END_TEST

/* online:S with at most PLACES states on disk, -1: any; states of 10 bytes. */
static struct schedule *online_on_disk(int64_t s, int64_t places, const struct step_costs *costs)
{
	const struct policy policy = {
		.kind = POLICY_online, .number = s, .spills = places != 0, .disk_bytes = places > 0 ? 10 * places + 9 : 0};
	return policy_schedule(&policy, costs, &allocator_system);
}

/* States on disk are more snapshots: with S of them in memory and D on disk, online:(S + D) says the evaluations. */
START_TEST(online_spills)
{
	for (int64_t s = 1; s <= 20; s++)
		for (int64_t steps = 1; steps <= 200; steps += nightly() ? 1 : s < 3 && !SANITIZED ? 1 : 13)
			for (int64_t places = -1; places <= 40; places += places < 3 ? 1 : 12) {
				struct step_costs costs = uniform(steps);
				struct schedule *schedule = online_on_disk(s, places, &costs);
				const struct verdict verdict = verdict_of(schedule, &costs);
				const struct walked walked = walk_of(schedule, &costs, NULL);
				char text[32];
				snprintf(text, sizeof text, "online:%lld", (long long)(places < 0 ? steps : s + places));
				ck_assert_msg(!verdict.wrong, "online:%lld on %lld, %lld places: %s", (long long)s, (long long)steps,
				              (long long)places, verdict.wrong);
				ck_assert_int_eq(verdict.evaluations, evaluations_of(text, 0, steps));
				ck_assert_int_eq(verdict.checkpoints, s < steps - 1 ? s : steps - 1);
				ck_assert_int_le(schedule_disk_slots(schedule), places < 0 ? steps : places);
				ck_assert_int_eq(walked.counters.peak_bytes, verdict.peak);
				ck_assert_int_eq(walked.counters.spill_writes, verdict.spill_writes);
				ck_assert_int_eq(walked.counters.spill_reads, verdict.spill_reads);
				if (places < 0) {
					const int64_t beyond = steps - 1 > s ? steps - 1 - s : 0;
					ck_assert_int_eq(verdict.evaluations, 2 * steps - 1);
					ck_assert(verdict.spill_writes == beyond && verdict.spill_reads == beyond);
				}
				schedule_free(schedule);
			}
}
END_TEST

/* Its first sweep does not look at the number of steps either, down to the slots. */
START_TEST(online_spills_blindly)
{
	struct step_costs longer = uniform(250);
	static struct step_run long_run;
	long_run = uniform_run;
	longer.runs = &long_run;
	for (int64_t s = 1; s <= 9; s++)
		for (int64_t places = -1; places <= 7; places += 2)
			for (int64_t steps = s + (places < 0 ? 0 : places) + 2; steps < 250; steps += 5) {
				struct step_costs costs = uniform(steps);
				struct schedule *whole = online_on_disk(s, places, &longer), *part = online_on_disk(s, places, &costs);
				struct action a, b;
				while (schedule_next(part, &a) && a.kind != ACT_RECORD)
					ck_assert(schedule_next(whole, &b) && a.kind == b.kind && a.begin == b.begin && a.end == b.end &&
					          a.slot == b.slot);
				ck_assert_int_eq(a.begin, steps - 1);
				schedule_free(whole);
				schedule_free(part);
			}
}
END_TEST

/*
 * Disk-revolve against a search over all that memory and disk can hold: the
 * cotangent's place, the current state's, the states in memory and on disk.
 */
enum { DISK_STEPS = 6, DISK_COST = 400 };

struct disk_search {
	int steps, snapshots, places, write, read;
	int times[DISK_STEPS]; /* forward, by step */
	int distance[DISK_STEPS + 1][DISK_STEPS + 2][1 << DISK_STEPS][1 << DISK_STEPS];
	int *buckets[DISK_COST];
	int sizes[DISK_COST], rooms[DISK_COST];
};

static void disk_reach(struct disk_search *d, int cot, int at, int memory, int disk, int cost)
{
	int *distance = &d->distance[cot][at][memory][disk];
	if (cost >= *distance)
		return;
	ck_assert_int_lt(cost, DISK_COST);
	*distance = cost;
	if (d->sizes[cost] == d->rooms[cost]) {
		d->rooms[cost] = d->rooms[cost] ? 2 * d->rooms[cost] : 256;
		d->buckets[cost] = realloc(d->buckets[cost], (size_t)d->rooms[cost] * sizeof(int));
	}
	d->buckets[cost][d->sizes[cost]++] = ((cot * (DISK_STEPS + 2) + at) << DISK_STEPS | memory) << DISK_STEPS | disk;
}

static void disk_visit(struct disk_search *d, int cot, int at, int memory, int disk, int cost)
{
	int none = DISK_STEPS + 1, masks = (1 << DISK_STEPS) - 1;
	for (int p = 0; p < cot; p++) {
		if (memory >> p & 1) {
			disk_reach(d, cot, p, memory, disk, cost);
			disk_reach(d, cot, at, memory & ~(1 << p) & masks, disk, cost);
		}
		if (disk >> p & 1) {
			disk_reach(d, cot, p, memory, disk, cost + d->read);
			disk_reach(d, cot, at, memory, disk & ~(1 << p) & masks, cost);
		}
	}
	if (at == none)
		return;
	if (at == cot - 1)
		disk_reach(d, cot - 1, none, memory & ~(1 << at) & masks, disk & ~(1 << at) & masks, cost + d->times[at]);
	if (at < cot - 1)
		disk_reach(d, cot, at + 1, memory, disk, cost + d->times[at]);
	if (at < cot && __builtin_popcount((unsigned)memory) < d->snapshots)
		disk_reach(d, cot, at, memory | 1 << at, disk, cost);
	if (at < cot && __builtin_popcount((unsigned)disk) < d->places)
		disk_reach(d, cot, at, memory, disk | 1 << at, cost + d->write);
}

static int disk_least(struct disk_search *d)
{
	memset(d->distance, 0x7f, sizeof d->distance);
	memset(d->sizes, 0, sizeof d->sizes);
	disk_reach(d, d->steps, 0, 0, 0, 0);
	for (int cost = 0; cost < DISK_COST; cost++)
		for (int i = 0; i < d->sizes[cost]; i++) {
			int code = d->buckets[cost][i], masks = (1 << DISK_STEPS) - 1;
			int disk = code & masks, memory = code >> DISK_STEPS & masks, place = code >> 2 * DISK_STEPS;
			int cot = place / (DISK_STEPS + 2), at = place % (DISK_STEPS + 2);
			if (d->distance[cot][at][memory][disk] < cost)
				continue;
			if (cot == 0)
				return cost;
			disk_visit(d, cot, at, memory, disk, cost);
		}
	return -1;
}

/* Asserts that SCHEDULE, which it frees, reverses the steps of COSTS in the least time that D, whose fields are set, finds. */
static void assert_optimal_on_disk(struct disk_search *d, struct schedule *schedule, struct step_costs *costs)
{
	costs->spill_write = d->write;
	costs->spill_read = d->read;
	const struct verdict verdict = verdict_of(schedule, costs);
	const int least = disk_least(d);
	ck_assert_msg(!verdict.wrong, "%s", verdict.wrong);
	ck_assert_int_le(schedule_disk_slots(schedule), d->places);
	ck_assert_int_eq(verdict.checkpoints, schedule_slots(schedule));
	ck_assert_msg(verdict.time < least + 1e-9, "%d steps, S %d, D %d, w %d, r %d: %g, not %d", d->steps, d->snapshots,
	              d->places, d->write, d->read, verdict.time, least);
	schedule_free(schedule);
	for (int i = 0; i < DISK_COST; i++)
		free(d->buckets[i]);
}

/* Sets D's steps to STEPS of time 1, and returns their costs. */
static struct step_costs uniform_on_disk(struct disk_search *d, int steps)
{
	d->steps = steps;
	for (int i = 0; i < steps; i++)
		d->times[i] = 1;
	const struct step_costs costs = uniform(steps);
	uniform_run.cost.backward = 0;
	return costs;
}

START_TEST(disk_revolve_is_optimal)
{
	static const char *const policies[] = {"disk-revolve:0", "disk-revolve:1", "disk-revolve:2"};
	struct disk_search *d = calloc(1, sizeof *d);
	for (int steps = 1; steps <= DISK_STEPS; steps++)
		for (int s = 0; s <= 2; s++)
			for (int write = 0; write <= 4; write += 2)
				for (int read = 0; read <= 3; read++) {
					*d = (struct disk_search){.snapshots = s, .places = steps, .write = write, .read = read};
					struct step_costs costs = uniform_on_disk(d, steps);
					costs.spill_write = write;
					costs.spill_read = read;
					assert_optimal_on_disk(d, schedule_of(policies[s], 0, &costs), &costs);
				}
	free(d);
}
END_TEST

/* With fewer places on disk, too. The search may write a state while others are in memory, which never helps here. */
START_TEST(bounded_disk_is_optimal)
{
	struct disk_search *d = calloc(1, sizeof *d);
	for (int steps = 1; steps <= DISK_STEPS; steps++)
		for (int s = 0; s <= 2; s++)
			for (int places = 1; places <= 3; places++)
				for (int cost = 0; cost < 9; cost++) {
					*d = (struct disk_search){
						.snapshots = s, .places = places, .write = 2 * (cost / 3), .read = cost % 3};
					struct step_costs costs = uniform_on_disk(d, steps);
					const struct disk_means means = {steps, s, d->write, d->read};
					/* More places than may be used must change nothing. */
					struct schedule *schedule =
						disk_bounded_schedule(&allocator_system, &means, places + cost % 2, cost % 2);
					disk_bounded_restrict(schedule, places);
					assert_optimal_on_disk(d, schedule, &costs);
				}
	free(d);
}
END_TEST

/* Steps of unequal times, with and without a limit. */
START_TEST(unequal_steps_on_disk_are_optimal)
{
	struct disk_search *d = calloc(1, sizeof *d);
	uint64_t seed = 51;
	for (int round = 0; round < 300; round++) {
		struct step_run runs[DISK_STEPS] = {0};
		const int steps = 1 + (int)draw(&seed, DISK_STEPS), places = 1 + (int)draw(&seed, DISK_STEPS);
		*d = (struct disk_search){.steps = steps,
		                          .snapshots = (int)draw(&seed, 3),
		                          .places = places,
		                          .write = (int)draw(&seed, 7),
		                          .read = (int)draw(&seed, 7)};
		for (int i = 0; i < steps; i++) {
			d->times[i] = (int)draw(&seed, 6);
			runs[i] = (struct step_run){.cost = {.forward = d->times[i], .state = 10}, .count = 1};
		}
		runs[0].cost.forward = d->times[0] = steps > 1 && d->times[0] == d->times[1] ? 7 : d->times[0];
		struct step_costs costs = {.runs = runs,
		                           .run_count = (size_t)steps,
		                           .steps = steps,
		                           .output = 10,
		                           .spill_write = d->write,
		                           .spill_read = d->read};
		const struct policy policy = {
			.kind = POLICY_disk_revolve, .number = d->snapshots, .disk_bytes = places < steps ? 10 * places : 0};
		struct schedule *schedule = policy_schedule(&policy, &costs, &allocator_system);
		assert_optimal_on_disk(d, schedule, &costs);
	}
	free(d);
}
END_TEST

/* More places, and no limit, never take more time; nor do more snapshots over a chain that is short. */
START_TEST(more_disk_takes_no_more_time)
{
	static const int64_t lengths[] = {5, 30, 64, 65, 150, 400};
	static struct step_run runs[400];
	uint64_t seed = 52;
	for (int round = 0; round < (nightly() ? 120 : SANITIZED ? 5 : 12); round++) {
		const int64_t steps = lengths[round % 6];
		struct step_costs costs = {.runs = runs,
		                           .run_count = (size_t)steps,
		                           .steps = steps,
		                           .output = 10,
		                           .spill_write = (double)draw(&seed, 9),
		                           .spill_read = (double)draw(&seed, 9)};
		for (int64_t i = 0; i < steps; i++)
			runs[i] = (struct step_run){.cost = {.forward = (double)(1 + draw(&seed, 9)), .record = 1, .state = 10},
			                            .count = 1};
		double fewer[50];
		for (int64_t s = 1; s < 6; s++) {
			double before = 1e300;
			int column = 0;
			for (int64_t places = 0; places < 2 * steps; places += 1 + places / 8, column++) {
				const bool limited = places < steps;
				const struct policy policy = {
					.kind = POLICY_disk_revolve, .number = s, .disk_bytes = limited ? 10 * places + 9 : 0};
				struct schedule *schedule = policy_schedule(&policy, &costs, &allocator_system);
				const struct verdict verdict = verdict_of(schedule, &costs);
				ck_assert_msg(!verdict.wrong, "%s", verdict.wrong);
				ck_assert_msg(verdict.time <= before + 1e-6,
				              "disk-revolve:%lld on %lld steps, %lld places: %g after %g", (long long)s,
				              (long long)steps, (long long)places, verdict.time, before);
				ck_assert(s == 1 || steps > DISK_EXACT || verdict.time <= fewer[column] + 1e-6);
				before = fewer[column] = verdict.time;
				schedule_free(schedule);
			}
		}
	}
}
END_TEST

/* States of 10 bytes: the schedule never has more of them on disk than fit, and memory alone does if none fits. */
START_TEST(bounded_disk_is_valid)
{
	static const int64_t lengths[] = {1, 2, 3, 7, 40, 100, 250, 3000};
	for (int s = 0; s <= 27; s = s ? 3 * s : 1)
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
			for (int64_t places = 0; places <= 300; places = 3 * places + 1) {
				if (s < 9 && lengths[i] > 250) /* quadratic where places are few */
					continue;
				struct step_costs costs = uniform(lengths[i]);
				costs.spill_write = costs.spill_read = 3;
				const struct policy policy = {.kind = POLICY_disk_revolve, .number = s, .disk_bytes = 10 * places + 9};
				struct schedule *schedule = policy_schedule(&policy, &costs, &allocator_system);
				struct verdict verdict = verdict_of(schedule, &costs);
				ck_assert_msg(!verdict.wrong, "disk-revolve:%d on %lld, %lld places: %s", s, (long long)lengths[i],
				              (long long)places, verdict.wrong);
				ck_assert_int_eq(verdict.checkpoints, schedule_slots(schedule));
				ck_assert_int_le(verdict.checkpoints, s > 1 ? s : 1);
				ck_assert_int_le(schedule_disk_slots(schedule), places);
				ck_assert_int_le(verdict.evaluations, binomial_evaluations(lengths[i], s));
				schedule_free(schedule);
			}
}
END_TEST

START_TEST(disk_revolve_is_valid)
{
	static const int64_t lengths[] = {0, 1, 2, 3, 7, 40, 100, 999, 2999, 3000, 3001, 3002, 10000};
	for (int s = 0; s <= 81; s = s ? 3 * s : 1)
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
			for (int w = 0; w < 3; w++) {
				char text[32];
				if (SANITIZED && lengths[i] > 100 && (w != 1 || s > 9))
					continue;
				snprintf(text, sizeof text, "disk-revolve:%d", s);
				struct step_costs costs = uniform(lengths[i]);
				costs.spill_write = w;
				costs.spill_read = 2 * w;
				struct schedule *schedule = schedule_of(text, 0, &costs);
				struct verdict verdict = verdict_of(schedule, &costs);
				ck_assert_msg(!verdict.wrong, "%s on %lld: %s", text, (long long)lengths[i], verdict.wrong);
				ck_assert_int_eq(verdict.checkpoints, schedule_slots(schedule));
				ck_assert_int_le(verdict.checkpoints, s);
				ck_assert_int_eq(verdict.spill_writes, schedule_disk_slots(schedule));
				ck_assert_int_le(verdict.evaluations, binomial_evaluations(lengths[i], s));
				schedule_free(schedule);
			}
}
END_TEST

/* Schedules that are wrong, each in one way. */
START_TEST(oracle_rejects)
{
	static const struct {
		struct action actions[8];
		int count;
		int64_t slots;
		const char *wrong;
	} cases[] = {
		{{{ACT_RECORD, 0, 3, 0}, {ACT_BACKWARD, 0, 3, 0}}, 2, 0, NULL},
		{{{ACT_RECORD, 0, 3, 0}}, 1, 0, "before every step"},
		{{{ACT_RECORD, 0, 3, 0}, {ACT_BACKWARD, 1, 3, 0}}, 2, 0, "before every step"},
		{{{ACT_RECORD, 0, 3, 0}, {ACT_BACKWARD, 0, 2, 0}}, 2, 0, "the cotangent is not at"},
		{{{ACT_FORWARD, 0, 1, 0}, {ACT_RECORD, 1, 3, 0}, {ACT_BACKWARD, 0, 3, 0}}, 3, 0, "are not held"},
		{{{ACT_FORWARD, 1, 2, 0}}, 1, 0, "the current state"},
		{{{ACT_FORWARD, 0, 4, 0}}, 1, 0, "beyond the chain"},
		{{{ACT_FORWARD, 0, 0, 0}}, 1, 0, "not after its begin"},
		{{{ACT_SAVE, 0, 0, 0}, {ACT_SAVE, 0, 0, 0}}, 2, 1, "not empty"},
		{{{ACT_SAVE, 0, 0, 1}}, 1, 1, "no such slot"},
		{{{ACT_SAVE, 1, 1, 0}}, 1, 1, "the current state"},
		{{{ACT_DROP, 0, 0, 0}}, 1, 1, "empty already"},
		{{{ACT_SAVE, 0, 0, 0}, {ACT_FORWARD, 0, 1, 0}, {ACT_LOAD, 0, 0, 0}}, 3, 1, "before the first sweep"},
		{{{ACT_SAVE, 0, 0, 0}, {ACT_RECORD, 0, 3, 0}, {ACT_LOAD, 1, 1, 0}}, 3, 1, "does not hold"},
		{{{ACT_SAVE, 0, 0, 0}, {ACT_RECORD, 0, 3, 0}, {ACT_BACKWARD, 0, 3, 0}}, 3, 1, "in a slot"},
		{{{ACT_SAVE, 0, 0, 0}, {ACT_RECORD, 0, 3, 0}, {ACT_LOAD, 0, 0, 0}, {ACT_RECORD, 0, 1, 0}},
	     4,
	     1,
	     "held already"},
		{{{ACT_SAVE, 0, 0, 0},
	      {ACT_RECORD, 0, 3, 0},
	      {ACT_BACKWARD, 0, 3, 0},
	      {ACT_LOAD, 0, 0, 0},
	      {ACT_RECORD, 0, 1, 0}},
	     5,
	     1,
	     "reversed already"},
		{{{ACT_RECORD, 0, 3, 0}, {ACT_BACKWARD, 0, 3, 0}, {ACT_FORWARD, 0, 1, 0}}, 3, 0, "the current state"},
		{{{ACT_FETCH, 0, 0, 0}}, 1, 0, "no such slot"},
		{{{(enum action_kind)99, 0, 0, 0}}, 1, 0, "no such action"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct step_costs costs = uniform(3);
		struct action_list list = {.actions = allocator_get(&allocator_system, 1, sizeof cases[i].actions),
		                           .count = (size_t)cases[i].count,
		                           .capacity = sizeof cases[i].actions / sizeof *cases[i].actions,
		                           .slots = cases[i].slots,
		                           .allocator = &allocator_system};
		memcpy(list.actions, cases[i].actions, sizeof cases[i].actions);
		struct schedule *schedule = action_list_schedule(&list);
		struct verdict verdict = verdict_of(schedule, &costs);
		ck_assert_msg(!verdict.wrong == !cases[i].wrong, "case %zu: %s", i, verdict.wrong);
		if (cases[i].wrong)
			ck_assert_msg(strstr(verdict.wrong, cases[i].wrong) != NULL, "case %zu: %s", i, verdict.wrong);
		schedule_free(schedule);
	}
}
END_TEST

/* Both have the same actions from here on. */
static void check_same_actions(struct schedule *one, struct schedule *other)
{
	struct action a, b;
	while (schedule_next(one, &a)) {
		ck_assert(schedule_next(other, &b));
		ck_assert(a.kind == b.kind && a.begin == b.begin && a.end == b.end && a.slot == b.slot);
	}
	ck_assert(!schedule_next(other, &b));
}

/* The head of a chain is recorded first and reversed last. Policies cut the other steps as they cut a shorter chain. */
START_TEST(heads_run_once)
{
	static const char *const all[] = {"every:3", "sqrt", "recursive", "revolve:3"};
	for (size_t p = 0; p < sizeof all / sizeof *all; p++)
		for (int64_t head = 0; head <= 23; head++) {
			struct step_costs costs = uniform(23);
			costs.head = head;
			struct schedule *schedule = schedule_of(all[p], 0, &costs), *copy = schedule_copy(schedule);
			const struct verdict verdict = verdict_of(schedule, &costs);
			ck_assert_msg(!verdict.wrong, "%s after %lld: %s", all[p], (long long)head, verdict.wrong);
			ck_assert_int_eq(verdict.evaluations, head + closed_form(all[p], 0, 23 - head));
			schedule_rewind(schedule);
			check_same_actions(schedule, copy);
			schedule_free(schedule);
			schedule_free(copy);
		}
}
END_TEST

START_TEST(rewinds)
{
	static const char *const all[] = {"every:3", "recursive", "revolve:3", "online:3", "disk-revolve:2", "budget:100"};
	for (size_t p = 0; p < sizeof all / sizeof *all; p++)
		for (int stop = 0; stop < 60; stop += 7) {
			struct step_costs costs = uniform(23);
			struct schedule *once = schedule_of(all[p], 0, &costs), *again = schedule_of(all[p], 0, &costs);
			struct action b;
			for (int i = 0; i < stop; i++)
				(void)schedule_next(again, &b);
			schedule_rewind(again);
			check_same_actions(once, again);
			schedule_free(once);
			schedule_free(again);
		}
}
END_TEST

START_TEST(allocation_fails)
{
	static const char *const all[] = {"save-all", "every:3",        "recursive", "revolve:3",
	                                  "online:3", "disk-revolve:2", "budget:100"};
	for (size_t p = 0; p < sizeof all / sizeof *all; p++)
		for (size_t fail = 1;; fail++) {
			struct failing failing = {.fail_at = fail};
			const struct allocator allocator = failing_allocator(&failing);
			struct step_costs costs = uniform(23);
			struct arena arena;
			struct diags diags;
			struct policy policy;
			struct budget_goal goal = {0};
			struct counters counters;
			double time;
			arena_init(&arena, &allocator_system);
			diags_init(&diags, &arena);
			const struct context context = {&allocator, &arena, &diags};
			ck_assert_int_eq(policy_parse(&context, &policy, all[p]), STATUS_OK);
			enum status status = STATUS_OK;
			goal.bytes = policy.number;
			if (policy.kind == POLICY_budget)
				status = budget_schedule(&context, &costs, NULL, false, &goal);
			else if (!(goal.schedule = policy_schedule(&policy, &costs, &allocator)))
				status = STATUS_LIMIT;
			if (status == STATUS_OK)
				status = cost_walk(&context, goal.schedule, &costs, NULL, &counters, &time);
			ck_assert(status == STATUS_OK || status == STATUS_LIMIT);
			schedule_free(goal.schedule);
			arena_free(&arena);
			ck_assert_uint_eq(failing.live, 0);
			if (failing.requests < fail)
				break;
			ck_assert_msg(status == STATUS_LIMIT, "%s, allocation %zu", all[p], fail);
		}
}
END_TEST

/* Makes one change to ACTIONS, of which *COUNT are given and one more fits. */
static void mutate(struct action *actions, size_t *count, uint64_t *seed)
{
	const size_t at = (size_t)draw(seed, (int64_t)*count);
	struct action *a = &actions[at];
	switch (draw(seed, 5)) {
	case 0:
		memmove(a, a + 1, (--*count - at) * sizeof *a);
		break;
	case 1:
		memmove(a + 1, a, ((*count)++ - at) * sizeof *a);
		break;
	case 2:
		a->kind = (enum action_kind)draw(seed, ACT_BACKWARD + 1);
		break;
	case 3:
		*(draw(seed, 2) ? &a->begin : &a->end) += draw(seed, 2) || a->begin == 0 ? 1 : -1;
		break;
	default:
		a->slot = draw(seed, 3);
	}
}

/* Returns whether the verifier finds ACTIONS wrong, and sets *RIGHT to the number of actions before the wrong one. */
static bool verifier_refuses(const struct action *actions, size_t count, int64_t steps, int64_t *right)
{
	struct diags diags;
	struct arena arena;
	struct verifier *verifier;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	ck_assert_int_eq(verifier_make(&verifier, &allocator_system, steps, &diags), STATUS_OK);
	enum status status = STATUS_OK;
	for (size_t i = 0; i < count && !status; i++)
		status = verifier_see(verifier, &actions[i], &diags);
	if (!status)
		status = verifier_end(verifier, &diags);
	ck_assert(status == STATUS_OK || status == STATUS_CHECK);
	ck_assert((status == STATUS_OK) == (diags.first == NULL));
	*right = verifier_actions(verifier);
	verifier_free(verifier);
	arena_free(&arena);
	return status != STATUS_OK;
}

/* Returns the oracle's verdict on ACTIONS. */
static struct verdict oracle_on(const struct action *actions, size_t count, const struct step_costs *costs)
{
	struct action_list list = {.allocator = &allocator_system};
	for (size_t i = 0; i < count; i++) /* not action_list_push, which joins actions */
		if (allocator_grow(list.allocator, (void **)&list.actions, &list.capacity, i + 1, sizeof *list.actions))
			list.actions[list.count++] = actions[i];
	struct schedule *schedule = action_list_schedule(&list);
	schedule->slots = schedule->disk_slots = 50;
	const struct verdict verdict = verdict_of(schedule, costs);
	schedule_free(schedule);
	return verdict;
}

/* The verifier and the oracle agree on schedules that are right, and on those that are nearly so. */
START_TEST(verifier_is_the_oracle)
{
	enum { MOST = 400 };
	static const char early[] = "a state is brought back before the first sweep is done"; /* the verifier permits it */
	uint64_t seed = (uint64_t)_i + 1;
	int wrong = 0;
	for (int round = 0; round < 500; round++) {
		const struct step_costs costs = uniform(1 + draw(&seed, 8));
		struct schedule *schedule = schedule_of(cut_policies[_i], 0, &costs);
		struct action actions[MOST];
		size_t count = 0;
		int64_t right;
		while (schedule_next(schedule, &actions[count]))
			ck_assert_int_lt(++count, MOST - 3);
		schedule_free(schedule);
		for (int64_t changes = draw(&seed, 3); changes > 0 && count > 1; changes--)
			mutate(actions, &count, &seed);
		const struct verdict verdict = oracle_on(actions, count, &costs);
		const bool refuses = verifier_refuses(actions, count, costs.steps, &right);
		wrong += verdict.wrong != NULL;
		if (verdict.wrong && !strcmp(verdict.wrong, early))
			continue;
		ck_assert_msg(refuses == (verdict.wrong != NULL), "%s: the oracle says '%s'", cut_policies[_i],
		              verdict.wrong ? verdict.wrong : "right");
		ck_assert_int_eq(right, verdict.actions);
	}
	ck_assert_int_gt(wrong, 50);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("schedule");
	TCase *tcase = suite_make_case(suite, "schedule");
	tcase_set_timeout(tcase, 600);
	tcase_add_test(tcase, every_policy_is_valid);
	tcase_add_test(tcase, numbers_beyond_the_steps);
	tcase_add_test(tcase, cost_walk_is_the_oracle);
	tcase_add_test(tcase, cost_walk_ends_at_most);
	tcase_add_test(tcase, watched_is_unwatched);
	tcase_add_test(tcase, numbers_of_the_manual);
	tcase_add_test(tcase, recursive_keeps);
	tcase_add_test(tcase, revolve_is_optimal);
	tcase_add_test(tcase, revolve_meets_closed_form);
	tcase_add_test(tcase, revolve_of_a_long_chain);
	tcase_add_test(tcase, online_sweep_is_blind);
	tcase_add_test(tcase, online_repeats_least);
	tcase_add_test(tcase, online_spills);
	tcase_add_test(tcase, online_spills_blindly);
	tcase_add_test(tcase, disk_revolve_is_optimal);
	tcase_add_test(tcase, disk_revolve_is_valid);
	tcase_add_test(tcase, bounded_disk_is_optimal);
	tcase_add_test(tcase, bounded_disk_is_valid);
	tcase_add_test(tcase, unequal_steps_on_disk_are_optimal);
	tcase_add_test(tcase, more_disk_takes_no_more_time);
	tcase_add_test(tcase, oracle_rejects);
	tcase_add_loop_test(tcase, verifier_is_the_oracle, 0, 22);
	tcase_add_test(tcase, heads_run_once);
	tcase_add_test(tcase, rewinds);
	tcase_add_test(tcase, allocation_fails);
	return suite_run(suite);
}
