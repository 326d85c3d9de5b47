#include "cli/job.h"

struct job_options session_job_options(const struct session *s, const struct policy *policy)
{
	const bool measures = policy->kind == POLICY_auto && !s->set.memory; /* nothing else asks for it */
	return (struct job_options){.policy = policy,
	                            .threads = s->set.threads,
	                            .tile = s->set.tile,
	                            .whole = s->line.given[OPTION_JOURNAL],
	                            .on_disk = s->line.given[OPTION_SPILL],
	                            .store = s->set.store,
	                            .want_value = s->line.given[OPTION_VALUE],
	                            .has_cotangent = s->line.given[OPTION_COTANGENT],
	                            .memory = s->set.memory,
	                            .memory_available = measures ? session_memory_available() : 0,
	                            .param_bytes = s->bound.bytes,
	                            .costs = s->costs ? costs_of : NULL,
	                            .costs_context = s->costs,
	                            .spill = s->costs && s->costs->spill_known ? &s->costs->spill : NULL};
}

enum status session_make_job(struct session *s, const struct policy *policy, const struct type *input)
{
	const struct job_options options = session_job_options(s, policy);
	job_free(&s->job);
	return job_make(&s->context, &s->job, &s->chain, input, &options);
}

enum status save_all_counters(struct session *s, const struct portion *portion, const struct type *input,
                              struct counters *counters, struct diags *diags)
{
	struct job job;
	struct job_options options = session_job_options(s, &policy_save_all);
	if (portion)
		options.portion = *portion;
	options.costs = NULL; /* bytes do not depend on them, and a file's costs are those of the whole chain */
	const struct context context = {s->allocator, &s->arena, diags};
	const enum status status = job_make(&context, &job, &s->chain, input, &options);
	*counters = job.predicted;
	job_free(&job);
	return status;
}
