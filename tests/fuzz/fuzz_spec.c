/*
 * Reads any bytes as the costs of plan --spec. The result is costs, or one message with
 * its place. With costs, the schedule of every policy is right, and a budget of the least
 * bytes has a schedule.
 */
#include "plan/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_TRIED = 60 };

static void nowhere(void *context, const char *text, size_t length)
{
	(void)context;
	(void)text;
	(void)length;
}

static void plan(const struct context *context, const struct spec *spec, enum policy_kind kind, int64_t number)
{
	const struct policy policy = {.kind = kind, .text = "fuzz", .number = number};
	struct schedule *schedule;
	struct counters counters;
	double time;
	if (spec_plan(context, spec, &policy, &counters, &time, &schedule))
		abort();
	schedule_free(schedule);
	if (counters.evaluations < counters.steps || counters.peak_bytes < 0 || counters.stored_bytes < 0 ||
	    (kind == POLICY_budget && counters.peak_bytes > number))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;
	struct diags diags;
	struct spec spec;
	char *copy = malloc(size ? size : 1);
	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	const struct source source = {"fuzz.json", copy, size};
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	enum status status = spec_read(&spec, &source, &arena, &diags);
	if (status ? diags.errors != 1 : diags.errors != 0)
		abort();
	if (!status && spec.costs.steps <= STEPS_TRIED) {
		static const enum policy_kind kinds[] = {POLICY_save_all, POLICY_every,        POLICY_sqrt,  POLICY_recursive,
		                                         POLICY_revolve,  POLICY_disk_revolve, POLICY_online};
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
			plan(&context, &spec, kinds[i], 2);
		int64_t least;
		if (budget_least(&context, &spec.costs, &least))
			abort();
		plan(&context, &spec, POLICY_budget, least > 0 ? least : 1);
	}
	diags_render(&diags, true, nowhere, NULL);
	arena_free(&arena);
	free(copy);
	return 0;
}

#include "replay.h"
