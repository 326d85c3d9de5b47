/* ckptc grad: the gradient of the input and of params. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/suggest.h"
#include "cli/dump.h"
#include "cli/job_options.h"
#include "cli/outputs.h"
#include "cli/plot.h"
#include "cli/progress.h"
#include "cli/residuals.h"
#include "cli/warnings.h"
#include "exec/run.h"
#include "report/counters.h"

/* A file that is written along with the gradient: the value, the events. */
struct side {
	struct output output;
	struct writer writer;
	bool open;
	struct session *session;
};

/* A regular file is emptied before its first line, so that a run without events leaves it as it was. */
static enum status open_events(struct side *events)
{
	struct session *s = events->session;
	enum status status = events->open
	                         ? STATUS_OK
	                         : output_open_live(&events->output, s->line.values[OPTION_EVENTS], &s->arena, &s->diags);
	events->open = !status;
	return status;
}

static enum status put_event(void *context, const char *line)
{
	struct side *side = context;
	enum status status = open_events(side);
	return status ? status : output_write(&side->output, line, strlen(line), &side->session->diags);
}

static bool is_file(const char *path, const char *read)
{
	struct stat a, b;
	return read && !stat(path, &a) && !stat(read, &b) && io_is_same_file(&a, &b);
}

/* Names the role of PATH if the run reads that file; else NULL. */
static const char *read_from(struct session *s, const char *path)
{
	if (s->in.open && stream_is_at(s->in.input.fd, path))
		return "the input";
	if (s->line.file && (strcmp(s->line.file, "-") ? is_file(path, s->line.file) : stream_is_at(0, path)))
		return "the chain";
	if (is_file(path, s->line.values[OPTION_COTANGENT]))
		return "the cotangent";
	if (s->costs && s->costs->spec && is_file(path, s->line.values[OPTION_COSTS]))
		return "the costs";
	for (size_t i = 0; i < s->line.param_count; i++)
		if (is_file(path, s->line.params[i].value))
			return "a param's file";
	for (size_t i = 0; i < s->chain.param_count; i++) {
		const struct init *init = &s->chain.params[i].init;
		if (init->kind == INIT_LOAD && is_file(path, params_file(init, s->directory, &s->arena)))
			return "a param's file";
	}
	return NULL;
}

static enum status open_sides(struct session *s, struct side *value, struct side *events)
{
	enum status status = STATUS_OK;
	*value = (struct side){.session = s};
	*events = (struct side){.session = s};
	if (s->line.given[OPTION_VALUE]) {
		status = output_open(&value->output, s->line.values[OPTION_VALUE], &s->arena, &s->diags);
		value->open = !status;
	}
	if (!status && s->line.given[OPTION_EVENTS]) {
		const char *path = s->line.values[OPTION_EVENTS], *read = read_from(s, path);
		if (!output_replaces(path))
			status = open_events(events);
		else if (read) /* a file that is not replaced */
			status = diag_file(&s->diags, STATUS_USAGE, path, -1, "--events would overwrite %s", read);
	}
	if (value->open)
		session_make_writer(s, &value->writer, &value->output);
	return status;
}

/* Sets *INDEX to the param whose name is the LENGTH bytes at NAME. STATUS_USAGE if there is none. */
static enum status find_param(struct session *s, const char *name, size_t length, size_t *index)
{
	const char *names[64];
	size_t count = 0;
	for (size_t i = 0; i < s->chain.param_count; i++) {
		const struct param *param = &s->chain.params[i];
		const bool same = strlen(param->name) == length && !memcmp(param->name, name, length);
		*index = i;
		if (same && param->differentiated)
			return STATUS_OK;
		if (same)
			return with_hint(s, usage_error(s, "'%s' is a const, and consts have no gradient", param->name),
			                 "declare it as `param %s`", param->name);
		if (param->differentiated && count < 64)
			names[count++] = param->name;
	}
	const char *copy = arena_strndup(&s->arena, name, length);
	TRY_ALLOC(copy, &s->diags);
	return with_nearest(s, usage_error(s, "no param is named '%s'", copy), copy, (struct word_list){names, count, 0},
	                    NULL);
}

/* True if --accumulate has a file to add to. A file that cannot be read fails later, when it is read. */
static bool is_there(const char *path)
{
	struct stat st;
	return strcmp(path, "-") != 0 && (stat(path, &st) == 0 || errno != ENOENT);
}

/* --accumulate: adds the array in the file at PATH to DATA. */
static enum status add_file(struct session *s, struct loader *loader, const char *path, const char *key,
                            const struct type *type, void *data)
{
	struct array array;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	enum status status = loader_load(loader, &array, path, key);
	if (status)
		return status;
	if (!shape_equal(&array.type.shape, &type->shape) || dtype_compute(array.type.dtype) != dtype_compute(type->dtype))
		status = diag_file(&s->diags, STATUS_DATA, path, -1, "holds %s, and the gradient is %s",
		                   type_format(&array.type, a), type_format(type, b));
	else
		kernels_get(dtype_compute(type->dtype))->accumulate(data, array.data, (size_t)shape_count(&type->shape));
	array_free(&array, s->allocator);
	return status;
}

static struct type written_type(const struct param_gradient *g)
{
	struct type type = g->type;
	type.dtype = g->written;
	return type;
}

/* Puts OUTPUT if STATUS, of writing a param's gradient to it, is STATUS_OK. */
static enum status put_whole(struct session *s, struct output *output, enum status status)
{
	if (!status)
		return session_put(s, output);
	output_abort(output);
	return status;
}

/* --grad NAME=FILE */
static enum status write_param_gradient(struct session *s, const struct gradient_result *result, const char *option)
{
	const char *path = strchr(option, '=') + 1;
	size_t param;
	enum status status = find_param(s, option, (size_t)(path - 1 - option), &param);
	if (status)
		return status;
	const struct param_gradient *g = &result->params[param];
	const struct type type = written_type(g);
	void *copy = allocator_get(s->allocator, g->size + 1, 1);
	TRY_ALLOC(copy, &s->diags);
	memcpy(copy, g->data, g->size);
	struct output output;
	struct loader loader = {.cast = s->line.given[OPTION_CAST], .context = &s->context};
	if (s->line.given[OPTION_ACCUMULATE] && is_there(path))
		status = add_file(s, &loader, path, NULL, &type, copy);
	loader_close(&loader);
	if (!status)
		status = output_open(&output, path, &s->arena, &s->diags);
	if (!status)
		status = put_whole(s, &output, array_put(&s->context, &output, &type, copy));
	allocator_put(s->allocator, copy, g->size + 1);
	return status;
}

/* Adds the arrays of the npz at PATH to the gradients of the same names, ARRAYS. The npz may lack some. */
static enum status add_archive(struct session *s, const struct gradient_result *result, const char *path,
                               const struct named_array *arrays, size_t count)
{
	struct loader loader = {.cast = s->line.given[OPTION_CAST], .context = &s->context};
	bool *found = arena_array(&s->arena, count + 1, sizeof *found);
	enum status status = found ? npz_find_members(&s->context, path, arrays, count, found) : diag_memory(&s->diags);
	for (size_t i = 0, k = 0; k < count && !status; i++) {
		if (!s->chain.params[i].differentiated)
			continue;
		if (found[k])
			status = add_file(s, &loader, path, arrays[k].name, &arrays[k].type, result->params[i].data);
		k++;
	}
	loader_close(&loader);
	return status;
}

/* --grads FILE.npz */
static enum status write_archive(struct session *s, const struct gradient_result *result, const char *path)
{
	struct named_array *arrays = arena_array(&s->arena, result->param_count + 1, sizeof *arrays);
	enum status status = arrays ? STATUS_OK : diag_memory(&s->diags);
	size_t count = 0;
	for (size_t i = 0; i < result->param_count && !status; i++) {
		const struct param_gradient *g = &result->params[i];
		if (s->chain.params[i].differentiated)
			arrays[count++] = (struct named_array){s->chain.params[i].name, written_type(g), g->data};
	}
	if (!status && s->line.given[OPTION_ACCUMULATE] && is_there(path))
		status = add_archive(s, result, path, arrays, count);
	struct output output;
	if (!status)
		status = output_open(&output, path, &s->arena, &s->diags);
	return status ? status : put_whole(s, &output, npz_put(&s->context, &output, arrays, count));
}

static enum status write_gradients(struct session *s, const struct gradient_result *result)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < s->line.grads.count && !status; i++)
		status = write_param_gradient(s, result, s->line.grads.items[i]);
	if (!status && s->line.given[OPTION_GRADS])
		status = write_archive(s, result, s->line.values[OPTION_GRADS]);
	return status;
}

static enum status put_grad_stats(struct session *s, const struct gradient_result *result)
{
	struct text_file file;
	struct counters all = result->predicted;
	enum status status = STATUS_OK;
	if (result->job.policy->kind != POLICY_save_all)
		status = save_all_counters(s, NULL, &result->most, &all, &s->diags);
	if (!status)
		status = session_open_text(s, &file, s->line.values[OPTION_STATS], true);
	if (status)
		return status;
	struct policy_row measured = {.policy = result->job.policy->text,
	                              .counters = result->measured,
	                              .save_all_peak = all.peak_bytes,
	                              .saved_bytes = all.stored_bytes - result->measured.stored_bytes,
	                              .stored = s->set.store != DTYPE_COUNT,
	                              .store_error = result->store_error};
	struct policy_row predicted = measured;
	predicted.counters = result->predicted;
	predicted.saved_bytes = all.stored_bytes - result->predicted.stored_bytes;
	return session_close_text(&file, report_stats(&file.report, &measured, &predicted));
}

static enum status check_journal(struct session *s)
{
	if (!s->line.given[OPTION_JOURNAL])
		return STATUS_OK;
	const bool budgeted = s->set.policy.kind == POLICY_budget || (s->set.policy.kind == POLICY_auto && s->set.memory);
	if (!s->line.given[OPTION_SPILL] || (s->set.policy.kind != POLICY_disk_revolve && !budgeted))
		return usage_error(
			s, "--journal needs states on disk: --spill DIR, and --policy disk-revolve:S or --memory BYTES");
	if (s->line.given[OPTION_TILE])
		return usage_error(s, "--tile contradicts --journal, which keeps the array whole");
	if (s->line.given[OPTION_ACCUMULATE])
		return usage_error(s, "--accumulate contradicts --journal: a resumed run could add its gradients twice");
	return STATUS_OK;
}

/* --grads FILE.npz: any other ending would be of another format. */
static enum status check_grads(struct session *s)
{
	const char *path = s->line.values[OPTION_GRADS], *name = strrchr(path, '/'),
			   *dot = strrchr(name ? name : path, '.');
	if (dot && strcmp(dot, ".npz") != 0)
		return with_hint(s, usage_error(s, "--grads takes a name that ends in .npz, not '%s'", path),
		                 "--grads FILE.npz is for all params, --grad NAME=FILE for one");
	for (size_t k = 0; k < s->chain.param_count; k++)
		if (s->chain.params[k].differentiated)
			return STATUS_OK;
	diag_warn(&s->diags, "the chain has no param: --grads writes an empty '%s'", path);
	return STATUS_OK;
}

static enum status check_grad_options(struct session *s)
{
	for (size_t i = 0; i < s->line.grads.count; i++) {
		const char *text = s->line.grads.items[i];
		size_t param;
		if (!strchr(text, '='))
			return usage_error(s, "--grad takes NAME=FILE, not '%s'", text);
		const enum status status = find_param(s, text, strcspn(text, "="), &param);
		if (status)
			return status;
	}
	if (s->line.given[OPTION_ACCUMULATE] && !s->line.given[OPTION_GRADS] && !s->line.grads.count)
		return usage_error(s, "--accumulate needs --grads or --grad");
	if (s->set.policy.kind == POLICY_disk_revolve && !s->line.given[OPTION_SPILL])
		return usage_error(s, "policy '%s' needs --spill DIR", s->set.policy.text);
	enum status status = s->line.given[OPTION_GRADS] ? check_grads(s) : STATUS_OK;
	return status ? status : check_journal(s);
}

/* What a run writes in addition to the gradient of the input. */
struct beside {
	struct side value, events;
	struct watch watch;
};

/*
 * The gradient, the value and the events are written at the same time. outputs.c lets several of them go to `-`, but
 * here only text may: a line of it is written at once, and the value's lines follow the gradient's.
 */
static enum status check_apart(struct session *s, struct beside *beside)
{
	const struct {
		const char *name;
		const struct output *output;
		bool open;
	} made[] = {{"the gradient", &s->out.output, true},
	            {"--value", &beside->value.output, beside->value.open},
	            {"--events", &beside->events.output, beside->events.open}};
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < i; k++) {
			if (!made[i].open || !made[k].open || !stream_is_one(made[i].output->fd, made[k].output->fd))
				continue;
			bool binary;
			TRY(outputs_are_binary(s, &binary));
			if (binary)
				return usage_error(s, "%s and %s would mix in %s", made[k].name, made[i].name, made[k].output->name);
			beside->value.writer.options.deferred |= i == 1;
		}
	return STATUS_OK;
}

/* Reads all but the input's values, and opens all files, so that errors are found before the work. */
static enum status open_all(struct session *s, struct beside *beside, struct gradient_result *result)
{
	enum status status = session_load_chain(s);
	if (!status)
		status = check_grad_options(s);
	if (!status)
		status = outputs_probe(s);
	if (!status)
		status = session_open_input(s);
	if (!status)
		status = session_bind(s, true, s->set.dtype == DTYPE_COUNT ? DTYPE_F32 : s->set.dtype);
	if (!status)
		status = session_open_costs(s);
	if (!status)
		status = session_open_output(s, s->line.values[OPTION_OUTPUT]);
	if (!status)
		status = open_sides(s, &beside->value, &beside->events);
	if (!status)
		status = watch_open(s, &beside->watch, result);
	if (status)
		return status;
	session_make_writer(s, &s->out.writer, &s->out.output);
	status = check_apart(s, beside);
	return status ? status : outputs_check_apart(s);
}

static enum status run(struct session *s, struct beside *beside, struct gradient_result *result)
{
	struct progress progress;
	const struct run_options options = {.job = session_job_options(s, &s->set.policy),
	                                    .dtype = s->set.dtype,
	                                    .flush_denormals = s->line.given[OPTION_FAST_MATH],
	                                    .value = beside->value.open ? &beside->value.writer : NULL,
	                                    .progress = progress_begin(&progress, s, "grad") ? progress_action : NULL,
	                                    .progress_context = &progress};
	const struct gradient_options gradient = {.gradient = &s->out.writer,
	                                          .cotangent = s->line.values[OPTION_COTANGENT],
	                                          .special = s->line.given[OPTION_SPECIAL],
	                                          .cast = s->line.given[OPTION_CAST],
	                                          .spill = s->line.values[OPTION_SPILL],
	                                          .journal = s->line.values[OPTION_JOURNAL],
	                                          .event = s->line.given[OPTION_EVENTS] ? put_event : NULL,
	                                          .event_context = &beside->events,
	                                          .trace = watch_wanted(&beside->watch) ? watch_event : NULL,
	                                          .trace_context = &beside->watch};
	const struct run_subject subject = {&s->chain, &s->bound, &s->in.reader};
	enum status status = run_gradient(&s->context, &subject, &options, &gradient, result);
	progress_end(&progress);
	return status;
}

/* Writes the reports about the run, and warns of options without effect. */
static enum status report(struct session *s, struct gradient_result *result, struct watch *watch)
{
	enum status status = watch_close(watch);
	if (!status && result->has_job) {
		warn_useless(s, &result->job);
		warn_unjournalled(s, &result->job);
	}
	if (!status && s->line.given[OPTION_RESIDUALS])
		status = put_job_residuals(s, &result->job, s->line.values[OPTION_RESIDUALS], true);
	if (!status && s->line.given[OPTION_STATS])
		status = put_grad_stats(s, result);
	else if (!status)
		warn_unstored(s, &result->measured);
	if (!status && !s->line.given[OPTION_STATS] && s->set.store != DTYPE_COUNT && result->measured.checkpoints)
		diag_warn(&s->diags, "checkpoints kept as %s: the largest error of a kept value is %.3g",
		          dtype_name(s->set.store), result->store_error);
	return status;
}

/*
 * Renames the complete files to their places. The gradient of the input comes last: it may replace the input, by which
 * a journal recognises its run.
 */
static enum status commit(struct session *s, struct beside *beside)
{
	enum status status = STATUS_OK;
	struct side *sides[] = {&beside->value, &beside->events};
	for (int i = 0; i < 2 && !status; i++)
		if (sides[i]->open) {
			status = session_put(s, &sides[i]->output);
			sides[i]->open = false;
		}
	if (!status) {
		status = session_put(s, &s->out.output);
		s->out.open = false;
	}
	return status ? status : session_commit(s);
}

static enum status finish(struct session *s, struct beside *beside, struct gradient_result *result)
{
	enum status status = writer_finish(&s->out.writer, &s->diags);
	if (!status && beside->value.open)
		status = writer_finish(&beside->value.writer, &s->diags);
	if (!status && s->line.given[OPTION_EVENTS])
		status = open_events(&beside->events);
	if (!status)
		status = write_gradients(s, result);
	if (!status)
		status = report(s, result, &beside->watch);
	if (!status)
		status = commit(s, beside);
	if (!status)
		gradient_done(result, &s->diags);
	return status;
}

/* Discards the files that were not put in their places. */
static void close_beside(struct beside *beside)
{
	if (beside->value.open)
		output_abort(&beside->value.output);
	if (beside->events.open)
		output_abort(&beside->events.output);
	watch_abort(&beside->watch);
}

enum status command_grad(struct session *s)
{
	if (s->line.given[OPTION_DUMP])
		return command_dump(s);
	struct beside beside = {0};
	struct gradient_result result = {0};
	enum status status = open_all(s, &beside, &result);
	if (!status)
		status = run(s, &beside, &result);
	if (!status)
		status = finish(s, &beside, &result);
	writer_free(&s->out.writer);
	close_beside(&beside);
	gradient_free(&result);
	return status;
}
