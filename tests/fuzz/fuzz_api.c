/*
 * Calls libckptc with any bytes: the first chooses what is fuzzed, the second which request for memory fails. Whatever
 * comes, a failure has a status and a message, an object comes from success alone, and all memory is given back. What
 * the library plans, its verifier accepts; what the verifier accepts, reverses every step. A gradient counts what the
 * plan of its chain predicts.
 */
#include "ckptc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MOST = 64 << 20, STEPS_MOST = 2000, SEARCHED_MOST = 5 };

struct heap {
	size_t live, requests, fail_at; /* fail_at 0: none fails */
};

static void *resize(void *context, void *block, size_t old_size, size_t new_size)
{
	struct heap *heap = context;
	if (new_size == 0) {
		free(block);
		heap->live -= block ? old_size : 0;
		return NULL;
	}
	if (++heap->requests == heap->fail_at || heap->live + new_size > MEMORY_MOST)
		return NULL;
	void *made = realloc(block, new_size);
	if (made)
		heap->live += new_size - (block ? old_size : 0);
	return made;
}

struct bytes {
	const uint8_t *at;
	size_t left;
};

static uint64_t take(struct bytes *bytes, size_t count)
{
	uint64_t value = 0;
	for (; count > 0 && bytes->left > 0; count--, bytes->left--)
		value = value << 8 | *bytes->at++;
	return value;
}

/* Fails unless STATUS and ERROR agree, and the pointer AT (NULL: there is none) is an object only after success. */
static int check(int status, const struct ckptc_error *error, const void *at)
{
	void *made = NULL;
	if (at)
		memcpy(&made, at, sizeof made);
	if (status != error->status || status < 0 || status > CKPTC_STOPPED || (status != 0) != (error->message[0] != 0) ||
	    (status && made) || !memchr(error->message, 0, sizeof error->message))
		abort();
	return status;
}

struct counted {
	int64_t forward, backward, stop_at; /* STOP_AT: the forward execution that fails */
};

enum { STOP = 77 };

static int count_forward(void *context, int64_t step)
{
	struct counted *counted = context;
	(void)step;
	return ++counted->forward == counted->stop_at ? STOP : 0;
}

static int count_backward(void *context, int64_t step)
{
	(void)step;
	((struct counted *)context)->backward++;
	return 0;
}

static int on_slot(void *context, int64_t state, int64_t slot)
{
	(void)context;
	return state < 0 || slot < 0;
}

/* Reads the actions of PLAN in blocks of BLOCK, twice alike, and verifies them. False if memory ran out. */
static int read_actions(const struct ckptc_plan *plan, int64_t steps, size_t block,
                        const struct ckptc_allocator *allocator)
{
	struct ckptc_action actions[16];
	struct ckptc_actions *reader;
	struct ckptc_verifier *verifier;
	struct ckptc_error error;
	size_t first = 0, second = 0;
	if (check(ckptc_actions_new(&reader, plan, &error), &error, &reader))
		return 0;
	int status = check(ckptc_verifier_new(&verifier, steps, allocator, &error), &error, &verifier);
	for (size_t n; (n = ckptc_actions_read(reader, actions, block)) > 0; first += n) {
		status = status ? status : check(ckptc_verifier_see(verifier, actions, n, &error), &error, NULL);
		if (n > block || !strcmp(ckptc_action_name(actions[0].kind), "unknown"))
			abort();
	}
	status = status ? status : check(ckptc_verifier_end(verifier, &error), &error, NULL);
	ckptc_actions_rewind(reader);
	for (size_t n; (n = ckptc_actions_read(reader, actions, 16)) > 0; second += n)
		;
	if ((status && status != CKPTC_LIMIT) || first != second)
		abort();
	ckptc_verifier_free(verifier);
	ckptc_actions_free(reader);
	return !status;
}

static void read_residuals(const struct ckptc_plan *plan)
{
	const struct ckptc_residual *rows;
	const size_t count = ckptc_plan_residuals(plan, &rows);
	for (size_t i = 0; i < count; i++)
		if (rows[i].bytes < 0 || rows[i].step < -1 || !rows[i].type[0] || !rows[i].what[0])
			abort();
}

/*
 * Executes PLAN, whose counters are C: as a whole, until a callback stops it, and without one of the callbacks. REGIONS:
 * the plan may have checkpoint regions, which compute steps again without a call.
 */
static void execute(const struct ckptc_plan *plan, const struct ckptc_counters *c, int regions)
{
	struct ckptc_callbacks calls = {count_forward, count_forward, count_backward, on_slot, on_slot,
	                                on_slot,       on_slot,       on_slot,        on_slot};
	struct ckptc_error error;
	struct counted all = {0}, some = {0}, rest = {0};
	int status = check(ckptc_execute(plan, &calls, &all, &error), &error, NULL);
	const int64_t least = regions ? c->steps : c->evaluations;
	if (status ? status != CKPTC_LIMIT
	           : all.forward < least || all.forward > c->evaluations || all.backward != c->steps)
		abort();
	some.stop_at = all.forward > 1 ? all.forward / 2 : 1;
	status = ckptc_execute(plan, &calls, &some, &error);
	if (status == STOP ? error.status != CKPTC_STOPPED || some.forward != some.stop_at
	                   : status != CKPTC_LIMIT && c->steps)
		abort();
	if (c->evaluations % 2)
		calls.backward = NULL;
	else
		calls.save = NULL;
	status = check(ckptc_execute(plan, &calls, &rest, &error), &error, NULL);
	if (status && status != CKPTC_LIMIT && status != CKPTC_USAGE)
		abort();
}

static void use_plan(struct ckptc_plan *plan, int regions, const struct ckptc_allocator *allocator)
{
	struct ckptc_error error;
	struct ckptc_counters c;
	ckptc_plan_counters(plan, &c);
	if (!ckptc_plan_policy(plan)[0])
		abort();
	read_residuals(plan);
	if (c.steps <= STEPS_MOST && read_actions(plan, c.steps, 1 + (size_t)(c.evaluations % 16), allocator)) {
		const int verified = check(ckptc_plan_verify(plan, &error), &error, NULL);
		if (verified && verified != CKPTC_LIMIT)
			abort();
		execute(plan, &c, regions);
	}
	ckptc_plan_free(plan);
}

static void fuzz_costs(struct bytes *bytes, const struct ckptc_allocator *allocator)
{
	static const char *const policies[] = {"save-all", "every:2", "sqrt",   "recursive",      "revolve:3", "online:2",
	                                       "auto",     "dots",    "budg:1", "disk-revolve:1", NULL};
	struct ckptc_step_cost steps[8];
	char budget[32];
	const uint64_t choice = take(bytes, 1);
	const struct ckptc_plan_options options = {.allocator = allocator,
	                                           .memory = (int64_t)take(bytes, 2),
	                                           .max_checkpoints = (int64_t)take(bytes, 1),
	                                           .disk_bytes = choice & 8 ? (int64_t)take(bytes, 1) : 0,
	                                           .on_disk = choice & 1};
	snprintf(budget, sizeof budget, "budget:%u", (unsigned)take(bytes, 2));
	const int64_t most = choice < 128 || options.memory ? SEARCHED_MOST : STEPS_MOST;
	const char *policy = choice < 128 ? budget : policies[choice % (sizeof policies / sizeof *policies)];
	struct ckptc_costs costs = {steps, (size_t)take(bytes, 1) % 8, (int64_t)take(bytes, 1), -1, -1, -1};
	if (choice & 16) {
		costs.output_bytes = (int64_t)take(bytes, 1);
		costs.spill_write = (double)take(bytes, 1);
		costs.spill_read = (double)take(bytes, 1);
	}
	for (size_t i = 0; i < costs.step_count; i++) {
		const size_t width = choice & 2 ? 8 : 1; /* large numbers, and negative ones */
		steps[i] = (struct ckptc_step_cost){.count = (int64_t)take(bytes, choice & 4 ? 8 : 1),
		                                    .forward = (double)(int64_t)take(bytes, width),
		                                    .backward = (double)take(bytes, 1),
		                                    .state_bytes = (int64_t)take(bytes, width),
		                                    .residual_bytes = (int64_t)take(bytes, width),
		                                    .forward_temporary_bytes = (int64_t)take(bytes, 1),
		                                    .record_temporary_bytes = (int64_t)take(bytes, 1),
		                                    .backward_temporary_bytes = (int64_t)take(bytes, 1),
		                                    .drops_input = (int)take(bytes, 1) & 1,
		                                    .keeps_output = (int)take(bytes, 1) & 1};
		if (steps[i].count > most && steps[i].count < 20000000)
			steps[i].count %= most; /* more is right, but slow under a sanitizer */
	}
	struct ckptc_plan *plan;
	struct ckptc_error error;
	if (!check(ckptc_plan_costs(&plan, &costs, policy, &options, &error), &error, &plan))
		use_plan(plan, 0, allocator);
}

/* The first line is the policy, the rest the costs. Many steps are planned under save-all alone. */
static void fuzz_spec(struct bytes *bytes, const struct ckptc_allocator *allocator)
{
	const uint8_t *end = bytes->left ? memchr(bytes->at, '\n', bytes->left) : NULL;
	const size_t length = end ? (size_t)(end - bytes->at) : bytes->left;
	const char *json = (const char *)bytes->at + length;
	const struct ckptc_plan_options options = {.allocator = allocator};
	char policy[64];
	struct ckptc_plan *plan;
	struct ckptc_error error;
	struct ckptc_counters counters;
	snprintf(policy, sizeof policy, "%.*s", (int)length, (const char *)bytes->at);
	if (check(ckptc_plan_spec(&plan, json, bytes->left - length, "save-all", &options, &error), &error, &plan))
		return;
	ckptc_plan_counters(plan, &counters);
	use_plan(plan, 0, allocator);
	if (counters.steps <= 8 * SEARCHED_MOST &&
	    !check(ckptc_plan_spec(&plan, json, bytes->left - length, policy, &options, &error), &error, &plan))
		use_plan(plan, 0, allocator);
}

static void fuzz_verifier(struct bytes *bytes, const struct ckptc_allocator *allocator)
{
	struct ckptc_verifier *verifier;
	struct ckptc_error error;
	const int64_t steps = (int64_t)take(bytes, 1) % 12;
	int64_t reversed = 0;
	if (check(ckptc_verifier_new(&verifier, steps, allocator, &error), &error, &verifier))
		return;
	int status = 0;
	while (!status && bytes->left > 0) {
		const size_t width = take(bytes, 1) % 16 ? 1 : 8;
		const struct ckptc_action action = {.kind = (int)(take(bytes, 1) % 11) - 1,
		                                    .begin = (int64_t)take(bytes, width),
		                                    .end = (int64_t)take(bytes, width),
		                                    .slot = (int64_t)take(bytes, width)};
		status = check(ckptc_verifier_see(verifier, &action, 1, &error), &error, NULL);
		if (!status && action.kind == CKPTC_BACKWARD)
			reversed += action.end - action.begin;
	}
	if (!status && !check(ckptc_verifier_end(verifier, &error), &error, NULL) && reversed != steps)
		abort();
	ckptc_verifier_free(verifier);
}

/* Returns the product of all whole numbers in TEXT: with more than some, a chain is right, but slow. */
static double count_work(const uint8_t *text, size_t size)
{
	double work = 1, number = 0;
	for (size_t i = 0; i <= size; i++)
		if (i < size && text[i] >= '0' && text[i] <= '9') {
			number = 10 * number + text[i] - '0';
		} else {
			work *= number > 0 ? number : 1;
			number = 0;
		}
	return work;
}

enum {
	COTANGENT = 1,
	SPILL = 2,
	NO_GRADIENT = 4,
	BUFFER = 8,
	TWO_THREADS = 16,
	VALUE = 32,
	RESIDUALS = 64,
	ONE_STATE = 128
};

/* Looks at every part of RESULT. PLANNED is NULL, or what the plan predicts. */
static void use_result(struct ckptc_result *result, const struct ckptc_chain *chain,
                       const struct ckptc_counters *planned)
{
	struct ckptc_array array;
	struct ckptc_counters measured;
	const char *name;
	const int has_value = !ckptc_result_value(result, &array);
	if (has_value && ckptc_array_bytes(&array) < 0)
		abort();
	if (!ckptc_result_gradient(result, &array) && ckptc_array_bytes(&array) < 0)
		abort();
	for (size_t i = 0; (name = ckptc_chain_param(chain, i)); i++)
		if (!ckptc_result_param(result, name, &array) && ckptc_array_bytes(&array) < 0)
			abort();
	ckptc_result_counters(result, &measured);
	if (planned && (measured.steps != planned->steps || measured.evaluations != planned->evaluations ||
	                measured.checkpoints != planned->checkpoints || measured.stored_bytes != planned->stored_bytes ||
	                measured.peak_bytes != planned->peak_bytes || measured.spill_writes != planned->spill_writes ||
	                measured.spill_reads != planned->spill_reads))
		abort();
	ckptc_result_free(result);
}

/* Binds the params of CHAIN to X, and its program "step". Returns whether it has that. */
static int bind_all(struct ckptc_chain *chain, const struct ckptc_array *x, uint64_t choice)
{
	static const char *const programs[] = {
		"exit 3", "./no.so", "echo ready 1 text; echo ok; echo 1 2 3",
		"while read -r word n; do case $word in open) echo ready 1 text backward;; forward) read -r x; echo ok; "
		"echo $x;; backward) read -r x; read -r g; echo ok; echo $g;; esac; done"};
	struct ckptc_error error;
	const char *name;
	for (size_t i = 0; (name = ckptc_chain_param(chain, i)); i++)
		check(ckptc_chain_bind(chain, name, x, &error), &error, NULL);
	return !check(ckptc_chain_program(chain, "step", programs[choice % 4], &error), &error, NULL);
}

/* REGIONS as for execute. PREDICTS: the plan's counters are those of the run. */
static void use_chain(struct ckptc_chain *chain, const struct ckptc_array *x, const struct ckptc_run_options *how,
                      int regions, int predicts)
{
	struct ckptc_plan *plan;
	struct ckptc_result *result;
	struct ckptc_counters planned;
	struct ckptc_error error;
	const int status = check(ckptc_plan_chain(&plan, chain, x, how->policy, &how->plan, &error), &error, &plan);
	if (!status) {
		ckptc_plan_counters(plan, &planned);
		use_plan(plan, regions, how->plan.allocator);
	}
	if (!check(ckptc_run(&result, chain, x, how, &error), &error, &result))
		use_result(result, chain, NULL);
	if (!check(ckptc_grad(&result, chain, x, how, &error), &error, &result))
		use_result(result, chain, !status && predicts ? &planned : NULL);
}

static void fuzz_chain(struct bytes *bytes, const struct ckptc_allocator *allocator)
{
	static const double values[64] = {0.5, -1, 2, 0.25, 3, -0.125, 1, 0};
	static const char *const policies[] = {"save-all",    "nothing", "every:2",        "revolve:2",
	                                       "budget:9999", "auto",    "disk-revolve:1", "online:2"};
	static double kept[64];
	const struct ckptc_chain_options options = {.allocator = allocator, .directory = "/nowhere"};
	struct ckptc_array x = {.dtype = (int)take(bytes, 1) % 14, .ndim = (int)take(bytes, 1) % 3, .data = values};
	for (int i = 0; i < 2; i++)
		x.shape[i] = (int64_t)(take(bytes, 1) % 9) - 1;
	const char *policy = policies[take(bytes, 1) % 8];
	const uint64_t flags = take(bytes, 1), numbers = take(bytes, 1);
	const struct ckptc_run_options how = {
		.policy = policy,
		.plan = {.allocator = allocator,
	             .memory = 1 << 20,
	             .max_checkpoints = flags & ONE_STATE ? 1 : 0,
	             .disk_bytes = flags & SPILL ? (int64_t)(numbers << 4) : 0,
	             .on_disk = flags & SPILL ? 1 : 0,
	             .threads = flags & TWO_THREADS ? 2 : 1,
	             .residuals = flags & RESIDUALS ? 1 : 0,
	             .want_value = flags & VALUE ? 1 : 0,
	             .tile = (int64_t)(numbers % 4)},
		.spill = flags & SPILL ? "/tmp" : NULL,
		.cotangent = flags & COTANGENT ? &x : NULL,
		.want_value = flags & VALUE ? 1 : 0,
		.no_gradient = flags & NO_GRADIENT ? 1 : 0,
		.gradient = {flags & BUFFER ? kept : NULL, flags & BUFFER ? (size_t)ckptc_array_bytes(&x) : 0}};
	struct ckptc_chain *chain;
	struct ckptc_error error;
	if (count_work(bytes->at, bytes->left) > 1e5 || ckptc_array_bytes(&x) > (int64_t)sizeof values ||
	    check(ckptc_chain_new(&chain, (const char *)bytes->at, bytes->left, &options, &error), &error, &chain))
		return;
	const int bound = bind_all(chain, &x, numbers);
	/* Costs of programs are measured. The plan of a `repeat while` has all its iterations, and none has a cotangent. */
	const int regions = !strcmp(policy, "nothing") || memmem(bytes->at, bytes->left, "checkpoint", 10);
	use_chain(chain, &x, &how, regions, !bound && !how.cotangent && !memmem(bytes->at, bytes->left, "while", 5));
	ckptc_chain_free(chain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes bytes = {data, size};
	struct heap heap = {0};
	const struct ckptc_allocator allocator = {resize, &heap};
	const uint64_t what = take(&bytes, 1);
	heap.fail_at = (size_t)take(&bytes, 1);
	if (what % 4 == 0)
		fuzz_costs(&bytes, &allocator);
	else if (what % 4 == 1)
		fuzz_verifier(&bytes, &allocator);
	else if (what % 4 == 2)
		fuzz_chain(&bytes, &allocator);
	else
		fuzz_spec(&bytes, &allocator);
	if (heap.live)
		abort();
	return 0;
}

#include "replay.h"
