/*
 * Calls libckptc with any bytes: the first chooses what is fuzzed, the second which request for memory fails. Whatever
 * comes, a failure has a status and a message, an object comes from success alone, and all memory is given back. What
 * the library plans, its verifier accepts; what the verifier accepts, reverses every step.
 */
#include "ckptc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MOST = 256 << 20, STEPS_MOST = 2000 };

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
	int64_t forward, backward;
};

static int count_forward(void *context, int64_t step)
{
	(void)step;
	((struct counted *)context)->forward++;
	return 0;
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

static void use_plan(struct ckptc_plan *plan)
{
	const struct ckptc_callbacks calls = {count_forward, count_forward, count_backward, on_slot, on_slot,
	                                      on_slot,       on_slot,       on_slot,        on_slot};
	struct ckptc_error error;
	struct ckptc_counters c;
	struct counted counted = {0, 0};
	ckptc_plan_counters(plan, &c);
	if (c.steps <= STEPS_MOST) {
		const int verified = check(ckptc_plan_verify(plan, &error), &error, NULL);
		const int executed = check(ckptc_execute(plan, &calls, &counted, &error), &error, NULL);
		if ((verified && verified != CKPTC_LIMIT) || (executed && executed != CKPTC_LIMIT))
			abort();
		if (!executed && (counted.forward < c.steps || counted.backward != c.steps))
			abort();
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
	                                           .on_disk = choice & 1};
	snprintf(budget, sizeof budget, "budget:%u", (unsigned)take(bytes, 2));
	const char *policy = choice < 128 ? budget : policies[choice % (sizeof policies / sizeof *policies)];
	struct ckptc_costs costs = {steps, (size_t)take(bytes, 1) % 8, (int64_t)take(bytes, 1), -1, -1, -1};
	for (size_t i = 0; i < costs.step_count; i++) {
		const size_t width = choice & 2 ? 8 : 1; /* large numbers, and negative ones */
		steps[i] = (struct ckptc_step_cost){.count = (int64_t)take(bytes, choice & 4 ? 8 : 1),
		                                    .forward = (double)(int64_t)take(bytes, width),
		                                    .backward = (double)take(bytes, 1),
		                                    .state_bytes = (int64_t)take(bytes, width),
		                                    .residual_bytes = (int64_t)take(bytes, width),
		                                    .record_temporary_bytes = (int64_t)take(bytes, 1),
		                                    .drops_input = (int)take(bytes, 1) & 1,
		                                    .keeps_output = (int)take(bytes, 1) & 1};
		if (steps[i].count > STEPS_MOST && steps[i].count < 20000000)
			steps[i].count %= STEPS_MOST; /* more is right, but slow under a sanitizer */
	}
	struct ckptc_plan *plan;
	struct ckptc_error error;
	if (!check(ckptc_plan_costs(&plan, &costs, policy, &options, &error), &error, &plan))
		use_plan(plan);
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

/* True if TEXT has a number of more than three digits: a loop of so many iterations is right, but slow. */
static int has_long_number(const uint8_t *text, size_t size)
{
	int digits = 0;
	for (size_t i = 0; i < size && digits < 4; i++)
		digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
	return digits >= 4;
}

static void fuzz_chain(struct bytes *bytes, const struct ckptc_allocator *allocator)
{
	static const double values[64] = {0.5, -1, 2, 0.25, 3, -0.125, 1, 0};
	static const char *const policies[] = {"save-all", "nothing", "every:2", "revolve:2", "budget:9999", "auto"};
	const struct ckptc_chain_options options = {.allocator = allocator, .directory = "/nowhere"};
	struct ckptc_array x = {.dtype = (int)take(bytes, 1) % 14, .ndim = (int)take(bytes, 1) % 3, .data = values};
	for (int i = 0; i < 2; i++)
		x.shape[i] = (int64_t)(take(bytes, 1) % 8);
	const struct ckptc_run_options how = {.policy = policies[take(bytes, 1) % 6],
	                                      .want_value = 1,
	                                      .plan = {.threads = 1, .residuals = 1, .memory = 1 << 20}};
	struct ckptc_chain *chain;
	struct ckptc_plan *plan;
	struct ckptc_result *result;
	struct ckptc_error error;
	if (has_long_number(bytes->at, bytes->left) ||
	    check(ckptc_chain_new(&chain, (const char *)bytes->at, bytes->left, &options, &error), &error, &chain))
		return;
	const char *name;
	for (size_t i = 0; (name = ckptc_chain_param(chain, i)); i++)
		check(ckptc_chain_bind(chain, name, &x, &error), &error, NULL);
	if (!check(ckptc_plan_chain(&plan, chain, &x, how.policy, &how.plan, &error), &error, &plan))
		use_plan(plan);
	if (!check(ckptc_run(&result, chain, &x, &how, &error), &error, &result))
		ckptc_result_free(result);
	if (!check(ckptc_grad(&result, chain, &x, &how, &error), &error, &result)) {
		struct ckptc_array value;
		if (ckptc_result_value(result, &value) || ckptc_array_bytes(&value) < 0)
			abort();
		ckptc_result_free(result);
	}
	ckptc_chain_free(chain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes bytes = {data, size};
	struct heap heap = {0};
	const struct ckptc_allocator allocator = {resize, &heap};
	const uint64_t what = take(&bytes, 1);
	heap.fail_at = (size_t)take(&bytes, 1);
	if (what % 3 == 0)
		fuzz_costs(&bytes, &allocator);
	else if (what % 3 == 1)
		fuzz_verifier(&bytes, &allocator);
	else
		fuzz_chain(&bytes, &allocator);
	if (heap.live)
		abort();
	return 0;
}

#include "replay.h"
