/* Runs of a chain in memory, whose results a test compares for bits. */
#ifndef TESTS_TRIAL_H
#define TESTS_TRIAL_H

#include <string.h>

#include "exec/run.h"
#include "scratch.h"
#include "suite.h"

/* A run of the chain TEXT on the array DATA of type INPUT, and what it made. Other zeros are defaults. */
struct trial {
	const char *text;
	struct type input;
	const void *data;
	const char *policy;
	int64_t tile, whole_bytes;
	int threads;
	bool forward, apart; /* APART: groups do not wait in waves */
	struct kept_array value, gradient;
	struct gradient_result result;
	struct run_counters counters;
};

/* Runs T forward or, unless it is FORWARD, its gradient. The caller frees t->result by gradient_free. */
static inline void run_trial(struct trial *t)
{
	struct source *source = arena_alloc(&arena, sizeof *source);
	struct syntax syntax;
	struct chain chain = {0};
	struct params params = {0};
	struct reader reader;
	struct writer value, gradient;
	struct policy policy;
	*source = (struct source){"chain", t->text, strlen(t->text)};
	ck_assert_int_eq(syntax_parse(&scratch, &syntax, source), STATUS_OK);
	ck_assert_msg(chain_resolve(&scratch, &chain, &syntax) == STATUS_OK, "%s: %s", t->text, scratch_message());
	ck_assert_int_eq(policy_parse(&scratch, &policy, t->policy), STATUS_OK);
	const struct params_options binding = {
		.directory = ".", .data = true, .compute = t->input.dtype, .dtype = DTYPE_COUNT};
	ck_assert_int_eq(params_bind(&scratch, &params, &chain, &binding), STATUS_OK);
	struct input input = {.fd = -1, .name = "input", .arena = &arena};
	reader_init(&reader, &input, &(struct reader_options){.format = FORMAT_MEMORY, .raw = t->input, .memory = t->data},
	            &arena);
	writer_init(&value, NULL, &(struct writer_options){.format = FORMAT_MEMORY, .memory = &t->value}, &arena);
	writer_init(&gradient, NULL, &(struct writer_options){.format = FORMAT_MEMORY, .memory = &t->gradient}, &arena);
	const struct run_options options = {.job = {.policy = &policy,
	                                            .threads = t->threads,
	                                            .tile = t->tile,
	                                            .whole_bytes = t->whole_bytes,
	                                            .store = DTYPE_COUNT,
	                                            .want_value = true,
	                                            .param_bytes = params.bytes},
	                                    .dtype = DTYPE_COUNT,
	                                    .apart = t->apart,
	                                    .value = &value};
	const struct run_subject subject = {.chain = &chain, .params = &params, .reader = &reader};
	const enum status status = t->forward ? run_forward(&scratch, &subject, &options, &t->counters)
	                                      : run_gradient(&scratch, &subject, &options,
	                                                     &(struct gradient_options){.gradient = &gradient}, &t->result);
	ck_assert_msg(status == STATUS_OK, "%s: %s", t->text, diags.first ? diags.first->message : "?");
	params_free(&params);
}

#endif
