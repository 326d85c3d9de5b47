/* Plans and their residual reports where memory is short: they are whole, or they are not there. */
#include <string.h>

#include "failing.h"
#include "language/syntax.h"
#include "plan/job.h"
#include "suite.h"

static struct failing counts;
static const struct allocator counting = {.resize = failing_resize, .context = &counts};

/*
 * Reports on TEXT, PAD bytes being taken of the arena's chunk before. SAID: operations
 * that use param 0; REQUESTS: what was asked of the allocator meanwhile.
 */
static enum status report(const char *text, size_t pad, size_t fail_at, size_t *said, size_t *requests)
{
	const struct type input = {.dtype = DTYPE_F64, .shape = {.ndim = 1, .dim = {9}}};
	const struct source source = {"chain", text, strlen(text)};
	const struct job_options options = {.policy = &policy_save_all, .threads = 1, .store = DTYPE_COUNT};
	struct arena arena, errors;
	struct diags diags;
	struct chain chain = {0};
	struct syntax syntax;
	struct job job;
	struct held_list list;
	counts.fail_at = 0;
	arena_init(&arena, &counting);
	arena_init(&errors, &allocator_system);
	diags_init(&diags, &errors);
	const struct context context = {&counting, &arena, &diags};
	ck_assert_int_eq(syntax_parse(&context, &syntax, &source), STATUS_OK);
	ck_assert_int_eq(chain_resolve(&context, &chain, &syntax), STATUS_OK);
	static const struct type number = {.dtype = DTYPE_F64};
	for (size_t i = 0; i < chain.param_count; i++)
		chain.params[i].type = &number;
	ck_assert_int_eq(job_make(&context, &job, &chain, &input, &options), STATUS_OK);
	ck_assert_ptr_nonnull(arena_alloc(&arena, pad));
	counts.requests = 0;
	counts.fail_at = fail_at;
	enum status status = job_residuals(&job, &list);
	counts.fail_at = 0;
	*requests = counts.requests;
	*said = 0;
	for (size_t i = 0; !status && i < list.count; i++)
		if (list.rows[i].origin.argument && list.rows[i].origin.param == 0)
			*said = list.rows[i].used_by.count;
	job_free(&job);
	arena_free(&arena);
	arena_free(&errors);
	return status;
}

/*
 * The last request fails, wherever it is: the arena's chunks end at all places, so in
 * front of the lists of params' users too, which are made last.
 */
START_TEST(short_memory)
{
	const char *text = "param w = 2; mul w; add w; sub w; div w; max w; min w; pow w";
	size_t said, requests, failed = 0;
	for (size_t pad = 0; pad <= (size_t)128 << 10; pad += 48) {
		ck_assert_int_eq(report(text, pad, 0, &said, &requests), STATUS_OK);
		ck_assert_uint_eq(said, 7);
		if (requests == 0) /* the report fits in the chunk */
			continue;
		failed++;
		const enum status status = report(text, pad, requests, &said, &requests);
		ck_assert_msg(status == STATUS_LIMIT, "%zu bytes before: status %d, %zu operations", pad, (int)status, said);
	}
	ck_assert_uint_gt(failed, 20);
}
END_TEST

/* Planning, short of memory at each of its first EVERY requests and at some of each EVERY more, says so, and nothing is left. */
START_TEST(plan_short_of_memory)
{
	static const char *const policies[] = {"save-all", "nothing",        "every:3",     "recursive", "revolve:3",
	                                       "online:3", "disk-revolve:2", "budget:2000", "budget:1"};
	enum { EVERY = SANITIZED ? 30 : 100 };
	const char *text = "name h; repeat 40 { sin; name g }; mul h; mul g; layernorm";
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 1, .dim = {8}}};
	const struct source source = {"chain", text, strlen(text)};
	struct arena arena;
	struct diags diags;
	struct chain chain = {0};
	struct syntax syntax;
	struct policy policy;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	ck_assert_int_eq(syntax_parse(&context, &syntax, &source), STATUS_OK);
	ck_assert_int_eq(chain_resolve(&context, &chain, &syntax), STATUS_OK);
	ck_assert_int_eq(policy_parse(&context, &policy, policies[_i]), STATUS_OK);
	bool spared = false;
	for (size_t n = 1; !spared; n += 1 + n / EVERY * 7) {
		struct failing failing = {.fail_at = n};
		const struct allocator allocator = failing_allocator(&failing);
		const struct job_options options = {.policy = &policy, .threads = 1, .store = DTYPE_COUNT};
		struct arena plan;
		struct job job;
		diags_init(&diags, &arena);
		arena_init(&plan, &allocator);
		const struct context planning = {&allocator, &plan, &diags};
		const enum status status = job_make(&planning, &job, &chain, &input, &options);
		spared = failing.requests < n;
		ck_assert_int_eq(status, spared && _i < 8 ? STATUS_OK : STATUS_LIMIT);
		if (!status)
			job_free(&job);
		arena_free(&plan);
		ck_assert_msg(failing.live == 0, "request %zu leaves %zu bytes", n, failing.live);
	}
	arena_free(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("residuals");
	TCase *tcase = suite_make_case(suite, "residuals");
	tcase_set_timeout(tcase, 600);
	tcase_add_test(tcase, short_memory);
	tcase_add_loop_test(tcase, plan_short_of_memory, 0, 9);
	return suite_run(suite);
}
