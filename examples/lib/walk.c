/* Walks the actions of revolve:100 over a million equal steps, which are computed one by one, and verifies them. */
#include <ckptc.h>

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static long peak_kib(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

int main(void)
{
	const struct ckptc_step_cost step = {.count = 1000000, .forward = 1, .backward = 1, .state_bytes = 8, .residual_bytes = 8};
	const struct ckptc_costs costs = {&step, 1, 0, -1, -1, -1};
	struct ckptc_error error;
	struct ckptc_plan *plan;
	struct ckptc_actions *actions;
	struct ckptc_action block[256];
	const long before = peak_kib();
	const double begun = now();
	if (ckptc_plan_costs(&plan, &costs, "revolve:100", NULL, &error) || ckptc_actions_new(&actions, plan, &error)) {
		fprintf(stderr, "walk: %s\n", error.message);
		return 1;
	}
	const double planned = now();
	long long count = 0, evaluations = 0;
	for (size_t n; (n = ckptc_actions_read(actions, block, sizeof block / sizeof *block)) > 0; count += (long long)n)
		for (size_t i = 0; i < n; i++)
			if (block[i].kind == CKPTC_FORWARD || block[i].kind == CKPTC_RECORD)
				evaluations += block[i].end - block[i].begin;
	const double walked = now();
	fprintf(stderr, "planned in %.3f s, walked in %.3f s, %ld KiB more\n", planned - begun, walked - planned,
	        peak_kib() - before);
	if (ckptc_plan_verify(plan, &error)) {
		fprintf(stderr, "walk: %s\n", error.message);
		return 1;
	}
	printf("%lld actions, %lld evaluations\n", count, evaluations);
	ckptc_actions_free(actions);
	ckptc_plan_free(plan);
	return 0;
}
