/* Jobs for commands, and what they print of them. */
#include "cli/dump.h"

#include <string.h>

#include "exec/run.h"
#include "report/actions.h"
#include "report/residuals.h"

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
	                            .spill = s->costs && s->costs->spill_known ? &s->costs->spill : NULL,
	                            .allocator = s->allocator};
}

enum status save_all_counters(struct session *s, const struct type *input, struct counters *counters,
                              struct diags *diags)
{
	struct job other;
	struct job_options options = session_job_options(s, &policy_save_all);
	options.costs = NULL; /* which the bytes do not depend on, and which need not be of the chain as it is now */
	enum status status = job_make(&other, &s->chain, input, &options, &s->arena, diags);
	*counters = other.predicted;
	job_free(&other);
	return status;
}

/* Whether save-all's peak is as low without the checkpoint block that ends the chain, the node *LINK. */
static bool end_saves_nothing(struct session *s, const struct job *job, struct node **link)
{
	struct node *block = *link;
	struct counters open;
	struct diags told; /* what is only tried cannot fail the command */
	diags_init(&told, &s->arena);
	*link = block->body;
	const enum status status = save_all_counters(s, &job->input, &open, &told);
	*link = block;
	return status == STATUS_OK && job->predicted.peak_bytes >= open.peak_bytes;
}

void warn_useless(struct session *s, const struct job *job)
{
	struct node **last = &s->chain.first;
	struct counters all;
	struct diags told;
	diags_init(&told, &s->arena);
	if (policy_by_value(job->policy) && job->predicted.evaluations > job->predicted.steps &&
	    save_all_counters(s, &job->input, &all, &told) == STATUS_OK && job->predicted.peak_bytes >= all.peak_bytes) {
		diag_warn(&s->diags,
		          "policy '%s' saves no memory at the peak: the whole chain is one region, recomputed at once before "
		          "it is reversed",
		          job->policy->text);
		diag_hint(&s->diags,
		          "cut the chain: every:N, sqrt, recursive or revolve:S, or checkpoint { } around parts of it");
	}
	while (*last && (*last)->next)
		last = &(*last)->next;
	if (*last && (*last)->kind == NODE_CHECKPOINT && job->policy->kind == POLICY_save_all &&
	    end_saves_nothing(s, job, last)) {
		diag_warn_at(
			&s->diags, s->chain.source, (*last)->span,
			"this checkpoint saves no memory: nothing follows it, so it is recomputed as soon as it has been run");
		diag_hint(&s->diags, "leave the last part of a chain out of checkpoint blocks");
	}
}

void warn_unjournalled(struct session *s, const struct job *job)
{
	const enum policy_kind kind = job->policy->kind;
	const bool goes = kind == POLICY_disk_revolve || kind == POLICY_budget || kind == POLICY_auto; /* with a journal */
	if (!s->line.given[OPTION_JOURNAL] || !goes || job->predicted.spill_writes)
		return;
	diag_warn(&s->diags,
	          "policy '%s' writes no state to disk here: --journal holds nothing to go on from, and a run "
	          "that is killed begins anew",
	          job->policy->text);
	diag_hint(&s->diags, "disk-revolve:S with few snapshots S writes states to disk, as a budget of fewer bytes may");
}

void warn_unstored(struct session *s)
{
	diag_warn(&s->diags, "--store-dtype has no effect: the policy keeps no checkpoints");
}

enum status put_job_residuals(struct session *s, const struct job *job, const char *path, bool error)
{
	struct held_list list;
	struct text_file file;
	enum status status = job_residuals(job, &list, &s->diags);
	if (!status)
		status = session_open_text(s, &file, path, error);
	if (status)
		return status;
	status = report_residuals(&file.report, &s->chain, &list);
	enum status closed = session_close_text(&file);
	return status ? status : closed;
}

enum status put_residuals(struct session *s, const struct type *type, const char *path, bool error)
{
	struct type input = run_input_type(&s->chain, type, s->set.dtype);
	struct job job;
	struct job_options options = session_job_options(s, &s->set.policy);
	enum status status = job_make(&job, &s->chain, &input, &options, &s->arena, &s->diags);
	if (status)
		return status;
	warn_useless(s, &job);
	if (s->set.store != DTYPE_COUNT && job.predicted.checkpoints == 0)
		warn_unstored(s);
	status = put_job_residuals(s, &job, path, error);
	job_free(&job);
	return status;
}

static enum status dump_plan(struct session *s, struct report *report, bool schedule)
{
	const struct text *text = report->text;
	struct type type;
	struct job job;
	enum status status = session_bind_types(s, &type);
	struct job_options options = session_job_options(s, &s->set.policy);
	if (!status)
		status = job_make(&job, &s->chain, &type, &options, &s->arena, &s->diags);
	if (status)
		return status;
	if (schedule) {
		status = report_actions(report, job.schedule, job.policy->text, job.costs.steps);
	} else {
		text_printf(text, "tiled %s, rows %lld, tile %lld, tiles at a time %lld, workers %d\n",
		            job.tiles.tiled ? "yes" : "no", (long long)job.tiles.rows, (long long)job.tile.rows,
		            (long long)job.tiles.per_chunk, job.tiles.workers);
		for (size_t i = 0; i < job.tile.lowered.distinct_count; i++) {
			const struct compiled_step *code = &job.tile.compiled.steps[i];
			text_printf(text, "step %zu\nforward\n", i);
			program_dump(&code->forward, text->write, text->context);
			text_put(text, "record\n");
			program_dump(&code->record, text->write, text->context);
			text_put(text, "backward\n");
			program_dump(&code->backward, text->write, text->context);
		}
	}
	job_free(&job);
	return status;
}

enum status command_dump(struct session *s)
{
	static const char *const whats[] = {"syntax", "chain", "plan", "schedule"};
	size_t what = 0;
	while (what < 4 && strcmp(whats[what], s->line.values[OPTION_DUMP]))
		what++;
	if (what == 4) {
		diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--dump' is syntax, chain, plan or schedule, not '%s'",
		          s->line.values[OPTION_DUMP]);
		return STATUS_USAGE;
	}
	struct text_file file;
	enum status status = what == 0 ? session_load_syntax(s) : session_load_chain(s);
	if (!status)
		status = session_open_report(s, &file);
	if (status)
		return status;
	if (what == 0)
		syntax_dump(&s->syntax, file.text.write, file.text.context);
	else if (what == 1)
		chain_dump(&s->chain, file.text.write, file.text.context);
	else
		status = dump_plan(s, &file.report, what == 3);
	if (status)
		file.status = status;
	return session_close_text(&file);
}
