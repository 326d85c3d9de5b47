/*
 * libckptc through ckptc.h alone: plans from costs, their actions, the verifier, the executor, failing allocations and
 * threads.
 */
#include <ckptc.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "api_errors.h"
#include "failing.h"
#include "suite.h"

static const char *const policies[] = {"save-all",       "every:3", "sqrt",     "recursive",   "revolve:3",
                                       "disk-revolve:2", "auto",    "online:3", "budget:1KiB", "budget:300"};
enum { POLICIES = sizeof policies / sizeof *policies, STEPS = 17 };

static const struct ckptc_step_cost equal = {
	.count = STEPS, .forward = 1, .backward = 2, .state_bytes = 10, .residual_bytes = 20, .forward_temporary_bytes = 3};
static const struct ckptc_costs costs = {&equal, 1, 5, -1, -1, -1};

static struct ckptc_plan *plan_of(const char *policy, const struct ckptc_plan_options *options)
{
	struct ckptc_plan *plan;
	struct ckptc_error error;
	ck_assert_msg(ckptc_plan_costs(&plan, &costs, policy, options, &error) == CKPTC_OK, "%s", error.message);
	ck_assert_int_eq(error.status, CKPTC_OK);
	ck_assert_str_eq(error.message, "");
	return plan;
}

START_TEST(test_record_costs)
{
	const struct ckptc_step_cost steps[] = {
		{.count = 1, .forward = 3, .backward = 1, .state_bytes = 8, .residual_bytes = 24, .drops_input = 1},
		{.count = 3, .forward = 5, .backward = 1, .state_bytes = 8, .residual_bytes = 0}};
	const double record[] = {3, 0};
	const struct ckptc_costs two = {steps, 2, 0, -1, -1, -1};
	const struct ckptc_plan_options options = {.record = record};
	struct ckptc_plan *plan;
	struct ckptc_counters with, without;
	ck_assert_int_eq(ckptc_plan_costs(&plan, &two, "every:1", &options, NULL), CKPTC_OK);
	ckptc_plan_counters(plan, &with);
	ckptc_plan_free(plan);
	ck_assert_int_eq(ckptc_plan_costs(&plan, &two, "every:1", NULL, NULL), CKPTC_OK);
	ckptc_plan_counters(plan, &without);
	ckptc_plan_free(plan);
	/* The first three steps are recorded again, each while nothing reads the state after it, as the last step is. */
	ck_assert_int_eq(with.evaluations, 7);
	ck_assert_int_eq(with.executions, 3);
	ck_assert_int_eq(without.executions, 3);
	ck_assert_double_eq(with.forward_time, 13);
	ck_assert_double_eq(with.recomputed_time, 3);
	ck_assert_double_eq(without.forward_time, 18);
	ck_assert_double_eq(without.recomputed_time, 13);
	const double negative[] = {3, -1};
	const struct ckptc_plan_options wrong = {.record = negative};
	struct ckptc_error error;
	ck_assert_int_eq(ckptc_plan_costs(&plan, &two, "sqrt", &wrong, &error), CKPTC_DATA);
	ck_assert_msg(strstr(error.message, "steps[1]: 'record'"), "%s", error.message);
}
END_TEST

START_TEST(test_counters)
{
	const struct ckptc_step_cost ten = {
		.count = 10, .forward = 1, .backward = 1, .state_bytes = 8, .residual_bytes = 8};
	const struct ckptc_costs of_ten = {&ten, 1, 0, -1, -1, -1};
	struct ckptc_plan *plan;
	struct ckptc_counters c;
	ck_assert_int_eq(ckptc_plan_costs(&plan, &of_ten, "revolve:3", NULL, NULL), CKPTC_OK);
	ckptc_plan_counters(plan, &c);
	ck_assert_int_eq(c.steps, 10);
	ck_assert_int_eq(c.evaluations, 25); /* SPEC's figure */
	ck_assert_int_eq(c.recomputed, 15);
	ck_assert_int_eq(c.checkpoints, 3);
	ck_assert_int_eq(c.slots, 3);
	ck_assert_int_eq(c.disk_slots, 0);
	ck_assert(fabs(c.overhead_percent - 75) < 1e-9);
	ck_assert(c.gap_percent < 0);
	ck_assert_str_eq(ckptc_plan_policy(plan), "revolve:3");
	ckptc_plan_free(plan);
	ck_assert_int_eq(ckptc_plan_costs(&plan, &of_ten, NULL, NULL, NULL), CKPTC_OK);
	ck_assert_str_eq(ckptc_plan_policy(plan), "save-all");
	ckptc_plan_free(plan);
	const struct ckptc_plan_options memory = {.memory = 50};
	ck_assert_int_eq(ckptc_plan_costs(&plan, &of_ten, "auto", &memory, NULL), CKPTC_OK);
	ck_assert_str_eq(ckptc_plan_policy(plan), "budget:50");
	ckptc_plan_counters(plan, &c);
	ck_assert_int_le(c.peak_bytes, 50);
	ck_assert(c.gap_percent >= 0);
	ckptc_plan_free(plan);
}
END_TEST

START_TEST(test_json)
{
	static const char json[] = "{\"fixed_bytes\": 5, \"steps\": [{\"count\": 17, \"forward\": 1, \"backward\": 2,"
							   "\"state_bytes\": 10, \"residual_bytes\": 20, \"forward_temporary_bytes\": 3,"
							   "\"record_temporary_bytes\": 0}]}";
	for (int i = 0; i < POLICIES; i++) {
		const struct ckptc_plan_options options = {.on_disk = i % 2};
		struct ckptc_plan *a = plan_of(policies[i], &options), *b;
		struct ckptc_counters of_a, of_b;
		ck_assert_int_eq(ckptc_plan_spec(&b, json, strlen(json), policies[i], &options, NULL), CKPTC_OK);
		ckptc_plan_counters(a, &of_a);
		ckptc_plan_counters(b, &of_b);
		ck_assert_mem_eq(&of_a, &of_b, sizeof of_a);
		ckptc_plan_free(a);
		ckptc_plan_free(b);
	}
}
END_TEST

START_TEST(test_errors)
{
	static const char json[] = "{\"steps\": [{\"state_bytes\": 1,\n \"residual_byte\": 2}]}";
	struct ckptc_plan *plan = (struct ckptc_plan *)&plan;
	struct ckptc_error error;
	const struct ckptc_plan_options negative = {.memory = -1}, small = {.memory = 7};
	struct ckptc_step_cost wrong = equal;
	const struct ckptc_costs one = {&wrong, 1, 0, -1, -1, -1}, none = {NULL, 0, 0, -1, -1, -1};
	expect(ckptc_plan_costs(&plan, &costs, "revolv:3", NULL, &error), CKPTC_USAGE, &error, "did you mean 'revolve'");
	ck_assert_ptr_null(plan);
	expect(ckptc_plan_costs(&plan, &costs, "dots", NULL, &error), CKPTC_USAGE, &error, "within steps");
	expect(ckptc_plan_costs(&plan, &costs, "budget:7", NULL, &error), CKPTC_LIMIT, &error, "budget:");
	expect(ckptc_plan_costs(&plan, &costs, "auto", &small, &error), CKPTC_LIMIT, &error, "use a 'memory' of ");
	expect(ckptc_plan_costs(&plan, &costs, "sqrt", &negative, &error), CKPTC_USAGE, &error, "below 0");
	expect(ckptc_plan_costs(&plan, &none, "sqrt", NULL, &error), CKPTC_DATA, &error, "'steps'");
	const struct ckptc_costs null = {NULL, 1, 0, -1, -1, -1}, output = {&equal, 1, 0, -2, -1, -1};
	const struct ckptc_costs write = {&equal, 1, 0, -1, -7, -1}, read = {&equal, 1, 0, -1, -1, NAN};
	const struct ckptc_plan_options reserved = {.reserved[0] = 1};
	expect(ckptc_plan_costs(&plan, &null, "sqrt", NULL, &error), CKPTC_USAGE, &error, "'steps' is NULL");
	expect(ckptc_plan_costs(&plan, &output, "sqrt", NULL, &error), CKPTC_DATA, &error, "'output_bytes'");
	expect(ckptc_plan_costs(&plan, &write, "sqrt", NULL, &error), CKPTC_DATA, &error, "'spill_write'");
	expect(ckptc_plan_costs(&plan, &read, "sqrt", NULL, &error), CKPTC_DATA, &error, "'spill_read'");
	expect(ckptc_plan_costs(&plan, &costs, "sqrt", &reserved, &error), CKPTC_USAGE, &error, "reserved");
	ck_assert_int_eq(ckptc_plan_spec(&plan, NULL, 0, "sqrt", NULL, NULL), CKPTC_DATA);
	wrong.count = 0;
	expect(ckptc_plan_costs(&plan, &one, "sqrt", NULL, &error), CKPTC_DATA, &error, "steps[0]: 'count'");
	wrong.count = INT64_MAX;
	expect(ckptc_plan_costs(&plan, &one, "sqrt", NULL, &error), CKPTC_LIMIT, &error, "10000000 steps");
	wrong = equal;
	wrong.forward = NAN;
	expect(ckptc_plan_costs(&plan, &one, "sqrt", NULL, &error), CKPTC_DATA, &error, "'forward'");
	wrong.forward = 1;
	wrong.residual_bytes = -1;
	expect(ckptc_plan_costs(&plan, &one, "sqrt", NULL, &error), CKPTC_DATA, &error, "'residual_bytes'");
	wrong.residual_bytes = (int64_t)1 << 53;
	wrong.count = 1000;
	expect(ckptc_plan_costs(&plan, &one, "sqrt", NULL, &error), CKPTC_LIMIT, &error, "2^62");
	expect(ckptc_plan_spec(&plan, json, strlen(json), "sqrt", NULL, &error), CKPTC_DATA, &error, "<costs>:2:2: ");
	ck_assert_int_eq(ckptc_plan_spec(&plan, json, strlen(json), "sqrt", NULL, NULL), CKPTC_DATA);
	ckptc_plan_free(NULL);
}
END_TEST

/*
 * The chain that the executor runs: x becomes sin(1.5 x) + step, and a residual is a cosine. States and residuals that
 * a callback should not touch are NAN.
 */
struct toy {
	double x, cotangent, residuals[STEPS], slots[STEPS + 1], disk[STEPS + 1];
	int64_t at, evaluations, peak, held; /* at: position of x, or -1 */
	int64_t stop_at;                     /* the call that returns 7; 0: none */
	int64_t calls;
};

static int toy_done(struct toy *toy) { return ++toy->calls == toy->stop_at ? 7 : 0; }

static int toy_forward(void *context, int64_t step)
{
	struct toy *toy = context;
	ck_assert_int_eq(toy->at, step);
	toy->x = sin(1.5 * toy->x) + (double)step;
	toy->at++;
	toy->evaluations++;
	return toy_done(toy);
}

static int toy_record(void *context, int64_t step)
{
	struct toy *toy = context;
	ck_assert(isnan(toy->residuals[step]));
	toy->residuals[step] = 1.5 * cos(1.5 * toy->x);
	return toy_forward(context, step);
}

static int toy_backward(void *context, int64_t step)
{
	struct toy *toy = context;
	ck_assert(!isnan(toy->residuals[step]));
	toy->cotangent *= toy->residuals[step];
	toy->residuals[step] = NAN;
	toy->at = -1;
	return toy_done(toy);
}

static int toy_put(struct toy *toy, double *slot, int64_t state)
{
	ck_assert_int_eq(toy->at, state);
	ck_assert(isnan(*slot));
	*slot = toy->x;
	return toy_done(toy);
}

static int toy_get(struct toy *toy, const double *slot, int64_t state)
{
	ck_assert(!isnan(*slot));
	toy->x = *slot;
	toy->at = state;
	return toy_done(toy);
}

static int toy_empty(struct toy *toy, double *slot)
{
	ck_assert(!isnan(*slot));
	*slot = NAN;
	return toy_done(toy);
}

#define SLOT_CALL(NAME, OF, CALL)                                                                                      \
	static int toy_##NAME(void *context, int64_t state, int64_t slot)                                                  \
	{                                                                                                                  \
		struct toy *toy = context;                                                                                     \
		(void)state;                                                                                                   \
		return CALL;                                                                                                   \
	}
SLOT_CALL(save, slots, toy_put(toy, &toy->slots[slot], state))
SLOT_CALL(load, slots, toy_get(toy, &toy->slots[slot], state))
SLOT_CALL(drop, slots, toy_empty(toy, &toy->slots[slot]))
SLOT_CALL(spill, disk, toy_put(toy, &toy->disk[slot], state))
SLOT_CALL(fetch, disk, toy_get(toy, &toy->disk[slot], state))
SLOT_CALL(discard, disk, toy_empty(toy, &toy->disk[slot]))

static const struct ckptc_callbacks toy_calls = {toy_forward, toy_record, toy_backward, toy_save,   toy_load,
                                                 toy_drop,    toy_spill,  toy_fetch,    toy_discard};

static void toy_begin(struct toy *toy)
{
	*toy = (struct toy){.x = 0.3, .cotangent = 1};
	for (int i = 0; i <= STEPS; i++)
		toy->slots[i] = toy->disk[i] = NAN;
	for (int i = 0; i < STEPS; i++)
		toy->residuals[i] = NAN;
}

START_TEST(test_execute)
{
	double wanted = 1, x = 0.3;
	for (int i = 0; i < STEPS; i++) {
		wanted *= 1.5 * cos(1.5 * x);
		x = sin(1.5 * x) + i;
	}
	for (int i = 0; i < POLICIES; i++) {
		struct ckptc_plan *plan = plan_of(policies[i], NULL);
		struct ckptc_counters c;
		struct ckptc_error error;
		struct toy toy;
		toy_begin(&toy);
		ckptc_plan_counters(plan, &c);
		ck_assert_int_eq(ckptc_execute(plan, &toy_calls, &toy, &error), CKPTC_OK);
		ck_assert_int_eq(error.status, CKPTC_OK);
		ck_assert_msg(fabs(toy.cotangent - wanted) < 1e-12 * fabs(wanted), "%s: %g, not %g", policies[i], toy.cotangent,
		              wanted);
		ck_assert_int_eq(toy.evaluations, c.evaluations);
		for (int64_t calls = toy.calls, n = 1; n <= calls; n++) {
			toy_begin(&toy);
			toy.stop_at = n;
			ck_assert_int_eq(ckptc_execute(plan, &toy_calls, &toy, &error), 7);
			ck_assert_int_eq(error.status, CKPTC_STOPPED);
			ck_assert_int_eq(toy.calls, n);
		}
		ckptc_plan_free(plan);
	}
}
END_TEST

START_TEST(test_missing_callbacks)
{
	static const struct {
		const char *policy, *name;
		size_t at;
	} cases[] = {{"save-all", "record", offsetof(struct ckptc_callbacks, record)},
	             {"save-all", "backward", offsetof(struct ckptc_callbacks, backward)},
	             {"revolve:2", "forward", offsetof(struct ckptc_callbacks, forward)},
	             {"revolve:2", "save", offsetof(struct ckptc_callbacks, save)},
	             {"revolve:2", "load", offsetof(struct ckptc_callbacks, load)},
	             {"disk-revolve:1", "spill", offsetof(struct ckptc_callbacks, spill)},
	             {"disk-revolve:1", "fetch", offsetof(struct ckptc_callbacks, fetch)}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ckptc_plan *plan = plan_of(cases[i].policy, NULL);
		struct ckptc_callbacks calls = toy_calls;
		struct ckptc_error error;
		struct toy toy;
		toy_begin(&toy);
		memset((char *)&calls + cases[i].at, 0, sizeof(void *));
		expect(ckptc_execute(plan, &calls, &toy, &error), CKPTC_USAGE, &error, cases[i].name);
		ck_assert_int_eq(toy.calls, 0);
		ckptc_plan_free(plan);
	}
	/* What the plan does not use may be missing, and so may what only frees. */
	struct ckptc_plan *plan = plan_of("save-all", NULL);
	const struct ckptc_callbacks least = {.record = toy_record, .backward = toy_backward};
	struct toy toy;
	toy_begin(&toy);
	ck_assert_int_eq(ckptc_execute(plan, &least, &toy, NULL), CKPTC_OK);
	ckptc_plan_free(plan);
}
END_TEST

/* Reads all actions of PLAN, one at a time if ONE, and verifies them. Returns their number. */
static size_t verify_all(const struct ckptc_plan *plan, struct ckptc_action *to, size_t most)
{
	struct ckptc_actions *actions;
	ck_assert_int_eq(ckptc_actions_new(&actions, plan, NULL), CKPTC_OK);
	const size_t count = ckptc_actions_read(actions, to, most);
	ck_assert_int_lt(count, most);
	ck_assert_int_eq(ckptc_actions_read(actions, to, most), 0);
	ckptc_actions_rewind(actions);
	for (size_t i = 0; i < count; i++) {
		struct ckptc_action one;
		ck_assert_int_eq(ckptc_actions_read(actions, &one, 1), 1);
		ck_assert_mem_eq(&one, &to[i], sizeof one);
	}
	ckptc_actions_free(actions);
	return count;
}

START_TEST(test_verify)
{
	for (int i = 0; i < POLICIES; i++) {
		struct ckptc_plan *plan = plan_of(policies[i], NULL);
		struct ckptc_error error;
		struct ckptc_action actions[500];
		struct ckptc_verifier *verifier;
		ck_assert_int_eq(ckptc_plan_verify(plan, &error), CKPTC_OK);
		const size_t count = verify_all(plan, actions, 500);
		/* Without any one of its actions it is no reversal, unless that is a LOAD of the current state. */
		for (size_t left = 0; left < count; left++) {
			if (actions[left].kind == CKPTC_LOAD)
				continue;
			ck_assert_int_eq(ckptc_verifier_new(&verifier, STEPS, NULL, NULL), CKPTC_OK);
			int status = ckptc_verifier_see(verifier, actions, left, &error);
			ck_assert_msg(!status, "%s", error.message);
			status = ckptc_verifier_see(verifier, actions + left + 1, count - left - 1, &error);
			if (!status)
				status = ckptc_verifier_end(verifier, &error);
			ck_assert_msg(status == CKPTC_CHECK, "%s without action %zu, %s", policies[i], left,
			              ckptc_action_name(actions[left].kind));
			ckptc_verifier_free(verifier);
		}
		ckptc_plan_free(plan);
	}
}
END_TEST

START_TEST(test_broken_rules)
{
	static const struct {
		struct ckptc_action actions[4];
		size_t count;
		const char *message; /* of the last action, or of the end */
	} cases[] = {
		{{{CKPTC_FORWARD, 0, 1, 2, 0}}, 1, "action 0 (forward 1 to 2): the current state is state 0"},
		{{{CKPTC_FORWARD, 0, 0, 4, 0}}, 1, "action 0 (forward 0 to 4): it must run"},
		{{{CKPTC_FORWARD, 0, -1, 0, 0}}, 1, "action 0 (forward -1 to 0): it must run"},
		{{{CKPTC_RECORD, 0, 0, 0, 0}}, 1, "action 0 (record 0 to 0): it must run"},
		{{{CKPTC_BACKWARD, 0, 2, 3, 0}}, 1, "residuals are not held of step 2"},
		{{{CKPTC_BACKWARD, 0, 0, 2, 0}}, 1, "the position of the cotangent, 3"},
		{{{CKPTC_BACKWARD, 0, INT64_MIN, 3, 0}}, 1, "its end must be after"},
		{{{CKPTC_LOAD, 0, 0, 0, 5}}, 1, "action 0 (load 0, slot 5): the slot is empty"},
		{{{CKPTC_SAVE, 0, 0, 0, 1}, {CKPTC_SAVE, 0, 0, 0, 1}}, 2, "action 1 (save 0, slot 1): the slot already holds"},
		{{{CKPTC_SAVE, 0, 0, 0, 1}, {CKPTC_LOAD, 0, 1, 0, 1}}, 2, "the slot holds state 0"},
		{{{CKPTC_SPILL, 0, 0, 0, 0}, {CKPTC_LOAD, 0, 0, 0, 0}}, 2, "the slot is empty"},
		{{{CKPTC_SAVE, 0, 0, 0, -1}}, 1, "from 0 on"},
		{{{9, 0, 0, 0, 0}}, 1, "no action has kind 9"},
		{{{-1, 0, 0, 0, 0}}, 1, "no action has kind -1"},
		{{{CKPTC_SAVE, 0, 0, 0, 0}, {CKPTC_RECORD, 0, 0, 3, 0}, {CKPTC_BACKWARD, 0, 0, 3, 0}},
	     3,
	     "at the end memory slot 0 still holds state 0"},
		{{{CKPTC_SPILL, 0, 0, 0, 0}, {CKPTC_RECORD, 0, 0, 3, 0}, {CKPTC_BACKWARD, 0, 0, 3, 0}},
	     3,
	     "at the end disk slot 0 still holds state 0"},
		{{{CKPTC_RECORD, 0, 0, 3, 0}, {CKPTC_BACKWARD, 0, 1, 3, 0}}, 2, "steps 0 to 0 are not reversed"},
		{{{CKPTC_RECORD, 0, 0, 3, 0}, {CKPTC_BACKWARD, 0, 1, 3, 0}, {CKPTC_FORWARD, 0, 3, 4, 0}}, 3, "it must run"},
		{{{CKPTC_RECORD, 0, 0, 3, 0}, {CKPTC_BACKWARD, 0, 1, 3, 0}, {CKPTC_FORWARD, 0, 1, 2, 0}},
	     3,
	     "there is no current state"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ckptc_verifier *verifier;
		struct ckptc_error error;
		ck_assert_int_eq(ckptc_verifier_new(&verifier, 3, NULL, NULL), CKPTC_OK);
		int status = ckptc_verifier_see(verifier, cases[i].actions, cases[i].count, &error);
		if (!status)
			status = ckptc_verifier_end(verifier, &error);
		expect(status, CKPTC_CHECK, &error, cases[i].message);
		ckptc_verifier_free(verifier);
	}
	struct ckptc_verifier *verifier;
	struct ckptc_error error;
	expect(ckptc_verifier_new(&verifier, -1, NULL, &error), CKPTC_LIMIT, &error, "-1 steps");
	expect(ckptc_verifier_new(&verifier, INT64_MAX, NULL, &error), CKPTC_LIMIT, &error, "steps");
	ck_assert_int_eq(ckptc_verifier_new(&verifier, 3, NULL, NULL), CKPTC_OK);
	const struct ckptc_action far = {CKPTC_SAVE, 0, 0, 0, INT64_MAX};
	expect(ckptc_verifier_see(verifier, &far, 1, &error), CKPTC_LIMIT, &error, "slot");
	ckptc_verifier_free(verifier);
}
END_TEST

/* A million steps: neither the plan nor its iterator keeps a list. */
START_TEST(test_long)
{
	const struct ckptc_step_cost step = {
		.count = 1000000, .forward = 1, .backward = 1, .state_bytes = 8, .residual_bytes = 8};
	const struct ckptc_costs million = {&step, 1, 0, -1, -1, -1};
	struct failing failing = {0};
	const struct ckptc_allocator allocator = {failing_resize, &failing};
	const struct ckptc_plan_options options = {.allocator = &allocator};
	struct ckptc_plan *plan;
	struct ckptc_actions *actions;
	struct ckptc_action block[256];
	struct ckptc_counters c;
	int64_t evaluations = 0, reversed = 0;
	ck_assert_int_eq(ckptc_plan_costs(&plan, &million, "revolve:100", &options, NULL), CKPTC_OK);
	ckptc_plan_counters(plan, &c);
	ck_assert_int_eq(ckptc_actions_new(&actions, plan, NULL), CKPTC_OK);
	for (size_t n; (n = ckptc_actions_read(actions, block, 256)) > 0;)
		for (size_t i = 0; i < n; i++)
			if (block[i].kind == CKPTC_BACKWARD)
				reversed += block[i].end - block[i].begin;
			else if (block[i].kind <= CKPTC_RECORD)
				evaluations += block[i].end - block[i].begin;
	ck_assert_int_eq(evaluations, c.evaluations);
	ck_assert_int_eq(evaluations, 4817896);
	ck_assert_int_eq(reversed, 1000000);
	ck_assert_msg(failing.most < 1 << 20, "%zu bytes", failing.most);
	ckptc_actions_free(actions);
	ckptc_plan_free(plan);
	ck_assert_int_eq(failing.live, 0);
}
END_TEST

/* Plans POLICY, reads, verifies and executes it. Returns the first status that is not CKPTC_OK. */
static int use_plan(const char *policy, const struct ckptc_allocator *allocator, bool json)
{
	static const char text[] = "{\"name\": \"a chain\", \"steps\": [{\"count\": 17, \"forward\": 1, \"backward\": 2,"
							   "\"state_bytes\": 10, \"residual_bytes\": 20, \"name\": \"a step\"}]}";
	const struct ckptc_plan_options options = {.allocator = allocator, .on_disk = 1};
	struct ckptc_error error;
	struct ckptc_plan *plan;
	struct toy toy;
	toy_begin(&toy);
	int status = json ? ckptc_plan_spec(&plan, text, strlen(text), policy, &options, &error)
	                  : ckptc_plan_costs(&plan, &costs, policy, &options, &error);
	ck_assert_int_eq(status, error.status);
	ck_assert((plan != NULL) == !status);
	if (!status)
		status = ckptc_plan_verify(plan, &error);
	if (!status)
		status = ckptc_execute(plan, &toy_calls, &toy, &error);
	ck_assert((error.message[0] != '\0') == (status != 0));
	ckptc_plan_free(plan);
	return status;
}

START_TEST(test_failing_allocations)
{
	const char *policy = policies[_i % POLICIES];
	for (size_t n = 1, failed = 1; failed; n++) {
		struct failing failing = {.fail_at = n, .on = n % 2};
		const struct ckptc_allocator allocator = {failing_resize, &failing};
		const int status = use_plan(policy, &allocator, _i >= POLICIES);
		failed = failing.requests >= n;
		ck_assert_int_eq(status, failed ? CKPTC_LIMIT : CKPTC_OK);
		ck_assert_int_eq(failing.live, 0);
	}
}
END_TEST

static void *use_in_thread(void *context)
{
	const struct ckptc_plan *shared = context;
	struct ckptc_error error;
	struct toy toy;
	for (int i = 0; i < 20 * POLICIES; i++) {
		if (use_plan(policies[i % POLICIES], NULL, i % 3 == 0))
			return context;
		toy_begin(&toy);
		if (ckptc_plan_verify(shared, &error) || ckptc_execute(shared, &toy_calls, &toy, &error))
			return context;
	}
	return NULL;
}

/* Plans are made in several threads, and one is used by all of them. */
START_TEST(test_threads)
{
	enum { THREADS = 4 };
	struct ckptc_plan *shared = plan_of("revolve:3", NULL);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, use_in_thread, shared), 0);
	for (int i = 0; i < THREADS; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ckptc_plan_free(shared);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("api");
	TCase *tests = suite_make_case(suite, "api");
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, test_counters);
	tcase_add_test(tests, test_record_costs);
	tcase_add_test(tests, test_json);
	tcase_add_test(tests, test_errors);
	tcase_add_test(tests, test_execute);
	tcase_add_test(tests, test_missing_callbacks);
	tcase_add_test(tests, test_verify);
	tcase_add_test(tests, test_broken_rules);
	tcase_add_test(tests, test_long);
	tcase_add_loop_test(tests, test_failing_allocations, 0, 2 * POLICIES);
	tcase_add_test(tests, test_threads);
	return suite_run(suite);
}
