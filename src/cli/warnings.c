#include "cli/job.h"

#include <math.h>

void warn_useless(struct session *s, const struct job *job)
{
	const struct node *last = s->chain.first;
	while (last && last->next)
		last = last->next;
	if (policy_by_value(job->policy) && job->predicted.evaluations > job->predicted.steps &&
	    job_saves_nothing(job, false)) {
		diag_warn(&s->diags, "policy '%s' saves no memory at the peak: it recomputes the whole chain at once",
		          job->policy->text);
		diag_hint(&s->diags,
		          "cut the chain: every:N, sqrt, recursive or revolve:S, or checkpoint { } around parts of it");
	}
	if (last && last->kind == NODE_CHECKPOINT && job->policy->kind == POLICY_save_all && job_saves_nothing(job, true)) {
		diag_warn_at(&s->diags, s->chain.source, last->span,
		             "this checkpoint saves no memory: it ends the chain, so it is recomputed right after it has run");
		diag_hint(&s->diags, "leave the last part of a chain out of checkpoint blocks");
	}
}

void warn_unjournalled(struct session *s, const struct job *job)
{
	if (!s->line.given[OPTION_JOURNAL] || !policy_is(job->policy, TRAIT_ON_DISK) || job->predicted.spill_writes)
		return;
	diag_warn(&s->diags, "policy '%s' writes no state to disk: --journal cannot resume a run that is killed",
	          job->policy->text);
	diag_hint(&s->diags, "disk-revolve:S with few snapshots S writes states to disk; so may a smaller budget");
}

void warn_unstored(struct session *s, const struct counters *counters, double error)
{
	if (s->set.store != DTYPE_COUNT && counters->checkpoints == 0)
		diag_warn(&s->diags, "--store-dtype has no effect: the policy keeps no checkpoints");
	else if (s->set.store != DTYPE_COUNT && !isnan(error))
		diag_warn(&s->diags, "checkpoints kept as %s: the largest error of a kept value is %.3g",
		          dtype_name(s->set.store), error);
}

void warn_unassumed(struct session *s)
{
	bool used = !s->line.given[OPTION_ASSUME] || s->in.reader.assumed;
	for (size_t i = 0; i < s->chain.param_count; i++)
		used |=
			!s->chain.params[i].weak && s->chain.params[i].type.dtype == s->set.reading.assume; /* perhaps of a |V2 */
	if (used)
		return;
	diag_warn(&s->diags, "--assume-dtype %s has no effect: it says what raw input, or npy of type |V2, holds",
	          dtype_name(s->set.reading.assume));
}
