/*
 * Surveys of policies by value. What a survey counts is what linearisation of the same policy finds, and no plan takes
 * fewer bytes than a survey says.
 */
#include <math.h>

#include "base/checked.h"
#include "chains.h"
#include "compile/survey.h"
#include "plan/job.h"
#include "random_chains.h"
#include "scratch.h"
#include "suite.h"

enum { RANDOM_CHAINS = SANITIZED ? 30 : 150 };

static const char *const policies[] = {"nothing",     "dots",      "dots-no-batch", "names:a",      "names:b,c",
                                       "names-but:a", "all-but:a", "all-but:a,b,c", "dots+names:b", "all-but:a+dots"};
enum { POLICIES = sizeof policies / sizeof *policies };

struct seen {
	struct survey_figures figures;
	int64_t peak;
};

static void check_near(double survey, double linear, const char *what, const char *policy, const char *text)
{
	ck_assert_msg(fabs(survey - linear) <= 1e-9 * fabs(linear), "%s of %s: %g surveyed, %g linearised: %s", what,
	              policy, survey, linear, text);
}

/* Compares FIGURES with those of JOB, a plan by value for POLICY. */
static void check_figures(const struct survey_figures *figures, const struct job *job, const char *policy,
                          const char *text)
{
	const struct linear *linear = &job->tile.compiled.forms[0].linear;
	int64_t kept = 0;
	for (size_t i = 0; i < linear->residual_count; i++)
		if (!linear->residuals[i].in_state)
			kept += round_up(type_bytes(linear->residuals[i].type), ARRAY_ALIGN);
	check_near(figures->forward_cost, linear->forward_cost, "forward cost", policy, text);
	check_near(figures->record_cost, linear->record_cost, "record cost", policy, text);
	check_near(figures->once_cost, linear->once_cost, "cost without the output", policy, text);
	check_near(figures->recompute_cost, linear->recompute_cost, "recomputation", policy, text);
	ck_assert_msg(figures->kept_bytes == kept, "%s keeps %lld bytes, %lld surveyed: %s", policy, (long long)kept,
	              (long long)figures->kept_bytes, text);
	ck_assert_msg(job->tile.slab >= kept, "%s: %lld bytes kept in %lld: %s", policy, (long long)kept,
	              (long long)job->tile.slab, text);
}

/* Surveys TEXT on f32[ROWS,4] under all policies. */
static void check_chain(const char *text, int64_t rows)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {rows, 4}}};
	struct seen seen[POLICIES] = {0};
	struct chain chain;
	chain_make(&chain, text, &arena, &diags);
	for (size_t i = 0; i < POLICIES; i++) {
		struct policy policy;
		struct job job;
		struct survey *survey;
		ck_assert_int_eq(policy_parse(&scratch, &policy, policies[i]), STATUS_OK);
		const struct job_options options = {
			.policy = &policy, .threads = 1, .store = DTYPE_COUNT, .unexecuted = true, .want_value = i % 2};
		ck_assert_int_eq(job_make(&scratch, &job, &chain, &input, &options), STATUS_OK);
		if (job.tile.lowered.distinct_count && !job.passes) {
			ck_assert_int_eq(survey_begin(&scratch, &survey, job.tile.lowered.distinct[0]), STATUS_OK);
			const int64_t between = survey_between(survey);
			ck_assert_int_eq(survey_policy(survey, &policy, &seen[i].figures), STATUS_OK);
			survey_end(survey);
			check_figures(&seen[i].figures, &job, policies[i], text);
			ck_assert_msg(job.tile.slab >= between, "%s takes %lld bytes, at least %lld: %s", policies[i],
			              (long long)job.tile.slab, (long long)between, text);
			seen[i].peak = job.tile.slab;
			for (size_t k = i % 2; k < i; k += 2)
				if (!memcmp(seen[k].figures.mark, seen[i].figures.mark, sizeof seen[i].figures.mark))
					ck_assert_msg(seen[k].peak == seen[i].peak, "%s and %s have one mark: %s", policies[k], policies[i],
					              text);
		}
		job_free(&job);
	}
}

START_TEST(written_chains)
{
	static const char *const texts[] = {
		"param W: f32[4,4]; repeat 3 { matmul W; name a; tanh; name b; mul 1.1; sin; name c }",
		"param W: f32[4,4]; cumsum axis=0; repeat 3 { checkpoint { sin; name a; matmul W; name b; exp; name c; cos } }",
		"cumsum axis=0; repeat 40 { sin; name a; tanh; name b }; name c",
		"param W: f32[4,4]; cumsum axis=0; repeat 9 { sin; name a; relu }; matmul W; repeat 9 { name b; abs; tanh }; "
		"name c",
		"name a; sin; stop_gradient; name b; sin; softmax; name c; add a; flatten; exp; reshape -1 4; layernorm",
		"param W: f32[4,4]; checkpoint policy=dots { matmul W; sin; checkpoint { name a; tanh; matmul W; exp }; name b "
		"}; name c",
		"roll 1; name a; tanh; laplacian; name b; mul a; add { sin; name c; mul b }; sum axis=0; softmax",
		"name a; add 1; name b; neg; name c",
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		for (int64_t rows = 1; rows <= 4096; rows *= 16)
			check_chain(texts[i], rows);
}
END_TEST

START_TEST(random_texts)
{
	static struct random_chain random;
	for (uint64_t seed = 1; seed <= RANDOM_CHAINS; seed++)
		check_chain(random_chain_text(&random, seed), 6);
}
END_TEST

/* Names that no policy looks at change nothing: those of values that no derivative needs, nor recomputation. */
START_TEST(names_that_count)
{
	static const char *const names[] = {"a", "b", "c", "other"};
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};
	const struct policy nothing = {.kind = POLICY_nothing};
	const struct job_options options = {.policy = &nothing, .threads = 1, .store = DTYPE_COUNT, .unexecuted = true};
	bool relevant[4] = {false};
	struct chain chain;
	struct job job;
	struct survey *survey;
	chain_make(&chain, "mul 2; name a; sin; name b; add 1; name c", &arena, &diags);
	ck_assert_int_eq(job_make(&scratch, &job, &chain, &input, &options), STATUS_OK);
	ck_assert_int_eq(survey_begin(&scratch, &survey, job.tile.lowered.distinct[0]), STATUS_OK);
	ck_assert_int_eq(survey_names(survey, names, 4, relevant), STATUS_OK);
	survey_end(survey);
	job_free(&job);
	ck_assert(relevant[0] && !relevant[1] && !relevant[2] && !relevant[3]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("survey");
	TCase *tests = suite_make_case(suite, "survey");
	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, scratch_setup, scratch_teardown);
	tcase_add_test(tests, written_chains);
	tcase_add_test(tests, random_texts);
	tcase_add_test(tests, names_that_count);
	return suite_run(suite);
}
