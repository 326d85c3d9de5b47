/*
 * ckptc run: the forward pass; plan --run, which predicts it; and --dump, which prints the result of a phase of ckptc.
 * Tests: tests/cases/run.test, tests/cases/cli.test
 */
#include <string.h>

#include "cli/job.h"
#include "cli/value_archive.h"
#include "exec/run.h"
#include "report/explanation.h"

struct run_row {
	struct run_counters counters;
	int64_t threads;
	const char *whole_because, *isa, *blas;
};

enum { OF_RUN = 1 }; /* the group of fields that only a run has */

static const struct field run_fields[] = {
	{"arrays", NULL, IN_JSON | IN_FIGURES, OF_RUN, FIELD(run_row, WHOLE, counters.arrays)},
	{"tiles", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, WHOLE, counters.tiles)},
	{"tile_rows", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, WHOLE, counters.tile_rows)},
	{"halo_rows", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, WHOLE, counters.halo_rows)},
	{"passes", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, WHOLE, counters.passes)},
	{"copied_bytes", NULL, IN_JSON | IN_FIGURES, OF_RUN, FIELD(run_row, WHOLE, counters.copied_bytes)},
	{"whole_because", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, TEXT, whole_because)},
	{"threads", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, WHOLE, threads)},
	{"peak_bytes", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, WHOLE, counters.peak_bytes)},
	{"chunks", NULL, IN_JSON | IN_FIGURES, 0, FIELD(run_row, WHOLE, counters.chunks)},
	{"isa", NULL, IN_JSON | IN_FIGURES, OF_RUN, FIELD(run_row, TEXT, isa)},
	{"blas", NULL, IN_JSON | IN_FIGURES, OF_RUN, FIELD(run_row, TEXT, blas)},
};
static const struct record_kind run_kind = RECORD_KIND(NULL, run_fields, NULL);

/* Warns of --tile if it had no effect on the last array, which is of type INPUT. */
static enum status warn_tile(struct session *s, const struct run_counters *counters, const struct type *input)
{
	const char *because = NULL;
	TRY_ALLOC(because_describe(&counters->because, s->chain.source, &s->arena, &because), &s->diags);
	warn_untiled(s, because, input, counters->peak_bytes);
	return STATUS_OK;
}

/* Prints COUNTERS, those of a run if GROUPS is OF_RUN, else of a plan, to FILE, and closes it. */
static enum status put_figures(struct session *s, struct text_file *file, unsigned groups,
                               const struct run_counters *counters)
{
	const char *because = NULL;
	TRY_ALLOC(because_describe(&counters->because, s->chain.source, &s->arena, &because), &s->diags);
	const struct run_row row = {*counters, s->set.threads, because, kernels_get(DTYPE_F32)->isa, blas_name()};
	if (s->set.format == REPORT_JSON)
		report_record(&file->report, NULL, &run_kind, &row, groups);
	else
		report_figures(&file->report, &run_kind, groups, (const void *[]){&row}, 1, (const int[]){12, 0});
	return session_close_text(file);
}

enum status command_plan_run(struct session *s)
{
	struct text_file *file;
	struct type type;
	struct run_counters counters;
	const struct run_options options = {.job = {.threads = s->set.threads, .tile = s->set.tile}};
	TRY(session_load_chain(s));
	s->leaves = PARAM_LEAVES;
	TRY(session_bind_types(s, &type));
	const struct run_subject subject = {&s->chain,  &s->params,  s->in.open ? &s->in.reader : NULL,
	                                    &s->inputs, s->programs, NULL};
	TRY(run_plan_forward(&s->context, &subject, &options, &type, &counters));
	TRY(warn_tile(s, &counters, &type));
	TRY(session_open_report(s, &file));
	return put_figures(s, file, 0, &counters);
}

enum status command_dump(struct session *s)
{
	int what = 0; /* the place in the words of --dump */
	TRY(choose_word(s, OPTION_DUMP, 0, &what));
	struct text_file *file;
	struct type type;
	TRY(what == 0 ? session_load_syntax(s) : session_load_chain(s));
	TRY(session_open_report(s, &file));
	const struct text *text = &file->text;
	const struct job *job = &s->job;
	if (what == 0)
		syntax_dump(&s->syntax, text->write, text->context);
	if (what == 1)
		chain_dump(&s->chain, text->write, text->context);
	if (what < 2)
		return session_close_text(file);
	TRY(session_bind_types(s, &type));
	TRY(session_make_job(s, &s->set.policy, &type));
	if (what == 3)
		report_schedule(&file->report, job);
	else
		text_printf(text, "tiled %s, rows %lld, tile %lld, tiles at a time %lld, workers %d\n",
		            job->tiles.tiled ? "yes" : "no", (long long)job->tiles.rows, (long long)job->tile.rows,
		            (long long)job->tiles.per_chunk, job->tiles.workers);
	for (size_t i = 0; what == 2 && i < job->tile.lowered.distinct_count; i++) {
		const struct compiled_step *code = compiled_step_of(&job->tile.compiled, job->tile.lowered.distinct[i]);
		text_printf(text, "step %zu\nforward\n", i);
		program_dump(&code->forward, text->write, text->context);
		text_put(text, "record\n");
		program_dump(&code->record, text->write, text->context);
		text_put(text, "backward\n");
		program_dump(&code->backward, text->write, text->context);
	}
	return session_close_text(file);
}

/* Where the values of a run go. */
struct values {
	struct opened_output *outs[MOST_VALUES];
	struct writer *writers[MOST_VALUES + 1]; /* then NULL */
	struct value_archive archive;
};

/* Opens the files of the values. */
static enum status open_values(struct session *s, struct values *values)
{
	values->writers[0] = &s->out->writer;
	if (s->archive) {
		values->archive.path = s->archive;
		values->archive.out = s->out;
		values->archive.count = s->value_count;
		values->archive.names[0] = "out";
		for (size_t i = 1; i < s->value_count; i++)
			values->archive.names[i] = s->chain.wanted[i - 1]->name;
		TRY(value_archive_open(s, &values->archive));
		memcpy(values->writers, values->archive.writers, sizeof values->writers);
		return STATUS_OK;
	}
	for (size_t i = 1; i < s->value_count; i++) {
		struct opened_output **outs = values->outs;
		TRY(session_open_rows(s, &outs[i], s->value_paths[i]));
		session_make_writer(s, outs[i]);
		values->writers[i] = &outs[i]->writer;
		for (size_t k = 0; k < i; k++)
			if (stream_is_one(outs[i]->output.fd, k ? outs[k]->output.fd : s->out->output.fd))
				return usage_error(s, "two values would mix in %s", outs[i]->output.name);
	}
	return STATUS_OK;
}

/* Writes what is left of the values, and the reports. */
static enum status end_values(struct session *s, struct values *values, const struct run_counters *counters)
{
	TRY(s->archive ? value_archive_put(s, &values->archive) : writer_finish(&s->out->writer, &s->diags));
	TRY(warn_tile(s, counters, &s->in.reader.type));
	if (s->line.given[OPTION_STATS]) {
		struct text_file *file;
		TRY(session_open_text(s, &file, s->line.values[OPTION_STATS], true));
		TRY(put_figures(s, file, OF_RUN, counters));
	}
	if (s->line.given[OPTION_RESIDUALS])
		TRY(put_residuals(s, &s->in.reader.type, s->line.values[OPTION_RESIDUALS], true));
	for (size_t i = 1; i < s->value_count && !s->archive; i++) {
		TRY(writer_finish(&values->outs[i]->writer, &s->diags));
		TRY(session_put(s, values->outs[i]));
	}
	return session_put(s, s->out);
}

/* Runs the chain on the session's arrays. */
static enum status run_values(struct session *s, struct values *values)
{
	struct progress progress;
	const struct run_options options = {
		.job = {.threads = s->set.threads, .ranks = ranks_count(s->ranks), .tile = s->set.tile},
		.dtype = s->set.dtype,
		.flush_denormals = s->line.given[OPTION_FAST_MATH],
		.value = values->writers[0],
		.more = s->value_count > 1 ? values->writers + 1 : NULL,
		.spill = s->line.values[OPTION_SPILL],
		.one_pass = s->line.given[OPTION_ONE_PASS],
		.progress = progress_begin(&progress, s, "run") ? progress_action : NULL,
		.progress_context = &progress};
	const struct run_subject subject = {&s->chain, &s->params, &s->in.reader, &s->inputs, s->programs, s->ranks};
	struct run_counters counters = {0};
	const enum status status = run_forward(&s->context, &subject, &options, &counters);
	progress_end(&progress);
	TRY(status);
	return end_values(s, values, &counters);
}

enum status command_run(struct session *s)
{
	struct values values = {.writers = {NULL}};
	if (s->line.given[OPTION_DUMP])
		return command_dump(s);
	TRY(session_load_chain(s));
	TRY(outputs_probe(s));
	TRY(session_open_input(s));
	s->leaves = PARAM_LEAVES;
	TRY(session_bind(s, true, s->set.dtype == DTYPE_COUNT ? DTYPE_F32 : s->set.dtype));
	TRY(session_open_arrays(s));
	TRY(outputs_check_apart(s, NULL, NULL));
	TRY(open_values(s, &values));
	return run_values(s, &values);
}
