/*
 * Writes the gradients of params and inputs to the files of --grads and --grad. An input's are written while the run makes
 * them, row by row. The archive has those of all inputs if there are several: the first one's is in --output anyway.
 *
 * With --accumulate a gradient is added to what its file holds. No other command may do so between the reading of the
 * old file and the rename of the new one. So the folders of all these files are locked before the first reading, until
 * the session ends.
 * Tests: tests/cases/grad.test
 */
#include "cli/gradient_files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define NPZ_ENDING ".npz"
#define TENSORS_ENDING ".safetensors"

static bool path_ends(const char *path, const char *ending)
{
	const size_t length = strlen(path), tail = strlen(ending);
	return length > tail && !strcmp(path + length - tail, ending);
}

enum { FIRST_INPUT = -1 };

/* Returns the number of inputs whose gradients are members of --grads. */
static size_t inputs_in_archive(const struct session *s)
{
	const size_t declared = chain_declared_inputs(&s->chain);
	return declared ? declared + 1 : 0;
}

/*
 * Sets *INDEX to the param, or FIRST_INPUT, whose name is the LENGTH bytes at NAME. STATUS_USAGE if there is none, or it is
 * a const.
 */
static enum status find_param(struct session *s, const char *name, size_t length, int64_t *index)
{
	const char *names[64] = {s->chain.input};
	size_t count = 1;
	*index = FIRST_INPUT;
	for (size_t i = 0; i < s->chain.param_count; i++) {
		const struct param *param = &s->chain.params[i];
		const bool same = strlen(param->name) == length && !memcmp(param->name, name, length);
		if (same)
			*index = (int64_t)i;
		if (same && param->differentiated)
			return STATUS_OK;
		if (same)
			return with_hint(s, usage_error(s, "'%s' is a const, and consts have no gradient", param->name),
			                 "declare it as `param %s`", param->name);
		if (param->differentiated && count < 64)
			names[count++] = param->name;
	}
	if (strlen(s->chain.input) == length && !memcmp(s->chain.input, name, length))
		return STATUS_OK;
	const char *copy = arena_strndup(&s->arena, name, length);
	TRY_ALLOC(copy, &s->diags);
	return with_nearest(s, usage_error(s, "no param or input is named '%s'", copy), copy,
	                    (struct text_list){names, count, 0}, NULL);
}

/* True if PATH exists, or if that is unknown: then reading the file fails later. False for "-", standard output. */
static bool is_there(const char *path)
{
	struct stat st;
	return strcmp(path, "-") != 0 && (io_stat(path, &st) == 0 || errno != ENOENT);
}

/* For --accumulate: adds the file at PATH, or its member KEY, to DATA, which has the computing type of TYPE. */
static enum status add_file(struct session *s, struct loader *loader, const char *path, const char *key,
                            const struct type *type, void *data)
{
	struct array array;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	enum status status = STATUS_OK;
	TRY(loader_load(loader, &array, path, key));
	if (!shape_equal(&array.type.shape, &type->shape) || dtype_compute(array.type.dtype) != dtype_compute(type->dtype))
		status = diag_file(&s->diags, STATUS_DATA, path, -1, "holds %s, and the gradient is %s",
		                   type_format(&array.type, a), type_format(type, b));
	else
		kernels_get(dtype_compute(type->dtype))->loops->accumulate(data, array.data, (size_t)shape_count(&type->shape));
	array_free(&array, s->allocator);
	return status;
}

static struct type written_type(const struct param_gradient *g)
{
	struct type type = g->type;
	type.dtype = g->written;
	return type;
}

/* Returns the gradient that SINK holds; without data if it holds none. */
static struct param_gradient held_gradient(const struct input_sink *sink)
{
	struct type held = sink->type;
	held.dtype = dtype_compute(held.dtype);
	return (struct param_gradient){.type = held, .written = sink->type.dtype, .data = sink->array, .size = sink->size};
}

/* Ends OUT, a file of gradients. */
static enum status put_gradients(struct session *s, struct opened_output *out)
{
	out->adds = s->line.given[OPTION_ACCUMULATE];
	return session_put(s, out);
}

/* Returns how a gradient is written to PATH of --grad: as its ending says, or as npy. */
static struct writer_options options_of(const char *path)
{
	struct writer_options options = {.format = FORMAT_AUTO, .late = true};
	output_follow_ending(path, &options);
	if (options.format == FORMAT_AUTO)
		options.format = FORMAT_NPY;
	return options;
}

/* Writes the gradient that OPTION, NAME=FILE of --grad, asks for. */
static enum status write_param_gradient(struct session *s, const struct gradient_result *result,
                                        const struct early_gradients *early, const char *option)
{
	const char *path = strchr(option, '=') + 1;
	struct loader loader = {.cast = s->line.given[OPTION_CAST], .context = &s->context};
	struct opened_output *out;
	const struct writer_options options = options_of(path);
	enum status status = STATUS_OK;
	int64_t param;
	TRY(find_param(s, option, (size_t)(path - 1 - option), &param));
	const bool input = param < (int64_t)s->chain.input_count;
	const struct param_gradient held = input ? held_gradient(&early->inputs[1 + param]) : (struct param_gradient){0};
	const struct param_gradient *g = input ? &held : &result->params[param];
	const struct type type = written_type(g);
	if (input && !g->data) /* it is written */
		return STATUS_OK;
	/* The gradient itself may go to another file. */
	const bool adds = s->line.given[OPTION_ACCUMULATE] && is_there(path);
	void *sum = adds ? allocator_get(s->allocator, g->size + 1, 1) : g->data;
	TRY_ALLOC(sum, &s->diags);
	if (adds)
		status = add_file(s, &loader, path, NULL, &type, memcpy(sum, g->data, g->size));
	loader_close(&loader);
	if (!status)
		status = session_open_output(s, &out, path, false);
	if (!status)
		status = array_put(&s->context, &out->output, &options, &type, sum);
	if (adds)
		allocator_put(s->allocator, sum, g->size + 1);
	return status ? status : put_gradients(s, out);
}

/*
 * Marks in FOUND each of the COUNT ARRAYS that the old file at PATH has, and gives the array the member's name. Fails
 * with STATUS_DATA if the file has another member, which would be lost.
 */
static enum status find_members(struct session *s, struct loader *loader, const char *path, struct named_array *arrays,
                                size_t count, bool *found)
{
	const char *const *names;
	size_t name_count;
	TRY(loader_names(loader, path, &names, &name_count));
	for (size_t i = 0; i < name_count; i++) {
		size_t k = 0;
		while (k < count && (found[k] || !member_is(names[i], arrays[k].name)))
			k++;
		if (k == count)
			return with_hint(s,
			                 diag_file(&s->diags, STATUS_DATA, path, -1, "holds '%s', which would be lost", names[i]),
			                 "--accumulate writes the params of the chain alone; keep other arrays in a file of their "
			                 "own: --params may be given twice");
		found[k] = true;
		arrays[k].name = names[i];
	}
	return STATUS_OK;
}

/* For --accumulate: adds the arrays of the old file at PATH, if there is one, to ARRAYS. Sets *METADATA to its own. */
static enum status add_archive(struct session *s, const char *path, struct named_array *arrays, size_t count,
                               const char **metadata)
{
	struct loader loader = {.cast = s->line.given[OPTION_CAST], .threads = s->set.threads, .context = &s->context};
	bool *found = arena_array(&s->arena, count + 1, sizeof *found);
	TRY_ALLOC(found, &s->diags);
	if (!is_there(path))
		return STATUS_OK;
	enum status status = find_members(s, &loader, path, arrays, count, found);
	for (size_t k = 0; k < count && !status; k++)
		if (found[k])
			status = add_file(s, &loader, path, arrays[k].name, &arrays[k].type, (void *)(uintptr_t)arrays[k].data);
	if (!status)
		status = tensors_metadata(&loader, path, metadata);
	loader_close(&loader);
	return status;
}

/* Writes ARRAYS to OUTPUT as an npz. */
static enum status put_npz(struct session *s, struct output *output, const struct named_array *arrays, size_t count)
{
	struct team *team;
	TRY(team_open(&team, s->set.threads, 0, s->allocator, &s->diags));
	const enum status status = npz_put(&s->context, output, arrays, count, team);
	team_close(team);
	return status;
}

/* Sets ARRAYS to the gradients of all inputs, if there are several, and params. Returns their number. */
static size_t list_gradients(const struct early_gradients *early, struct named_array *arrays)
{
	const struct chain *chain = &early->session->chain;
	const size_t inputs = inputs_in_archive(early->session);
	size_t count = 0;
	for (; count < inputs; count++) {
		const char *name = count ? chain->params[count - 1].name : chain->input;
		arrays[count] =
			(struct named_array){.name = name, .type = early->inputs[count].type, .data = early->inputs[count].array};
	}
	for (size_t i = chain->input_count; i < early->result->param_count; i++) {
		const struct param_gradient *g = &early->result->params[i];
		if (chain->params[i].differentiated)
			arrays[count++] =
				(struct named_array){.name = chain->params[i].name, .type = written_type(g), .data = g->data};
	}
	return count;
}

/* Opens the files of --grad for inputs, whose rows go to them unless they are added to what a file holds. */
static enum status open_input_files(struct session *s, struct early_gradients *early)
{
	const bool adds = s->line.given[OPTION_ACCUMULATE];
	for (size_t i = 0; i < s->line.grads.count; i++) {
		const char *text = s->line.grads.items[i];
		int64_t param;
		const size_t length = strcspn(text, "=");
		TRY(find_param(s, text, length, &param));
		for (size_t k = 0; k < i; k++)
			if (!strncmp(s->line.grads.items[k], text, length + 1))
				return usage_error(s, "--grad names '%.*s' twice; the first was '%s'", (int)length, text,
				                   s->line.grads.items[k] + length + 1);
		if (param >= (int64_t)s->chain.input_count)
			continue;
		struct input_sink *sink = &early->inputs[1 + param];
		sink->holds |= adds;
		if (adds)
			continue;
		if (!sink->outs)
			sink->outs = arena_array(&s->arena, s->line.grads.count, sizeof *sink->outs);
		TRY_ALLOC(sink->outs, &s->diags);
		struct opened_output **out = &sink->outs[sink->out_count];
		const struct writer_options options = options_of(strchr(text, '=') + 1);
		if (s->ranks && (options.format == FORMAT_TEXT || options.format == FORMAT_CSV))
			return usage_error(s, "ranks write the gradients of inputs as npy or raw, not to '%s'",
			                   strchr(text, '=') + 1);
		TRY(session_open_rows(s, out, strchr(text, '=') + 1));
		writer_init(&(*out)->writer, &(*out)->output, &options, &s->arena);
		sink->out_count++;
	}
	return STATUS_OK;
}

/* Opens where ranks gather the gradient of an input, if rank 0 writes it for all. */
static enum status open_gathered(struct session *s, struct input_sink *sink)
{
	const char *path = s->line.values[OPTION_GRADS];
	if (!s->ranks || !(sink->in_archive || sink->holds))
		return STATUS_OK;
	if (!path)
		path = strchr(s->line.grads.items[0], '=') + 1;
	if (!output_replaces(path))
		return usage_error(s, "ranks write the gradients of inputs to regular files, not to '%s'", path);
	TRY(session_open_rows(s, &sink->gathered, path));
	writer_init(&sink->gathered->writer, &sink->gathered->output, &(struct writer_options){.format = FORMAT_RAW},
	            &s->arena);
	return STATUS_OK;
}

/* Chooses where the gradients of inputs go. */
static enum status open_inputs(struct session *s, struct early_gradients *early)
{
	early->inputs = arena_array(&s->arena, s->chain.input_count + 1, sizeof *early->inputs);
	TRY_ALLOC(early->inputs, &s->diags);
	for (size_t i = 0; s->line.given[OPTION_GRADS] && i < inputs_in_archive(s); i++)
		early->inputs[i].in_archive = true;
	TRY(open_input_files(s, early));
	for (size_t i = 0; i <= s->chain.input_count; i++)
		TRY(open_gathered(s, &early->inputs[i]));
	return STATUS_OK;
}

enum status early_gradients_open(struct session *s, struct early_gradients *early, const struct gradient_result *result)
{
	const char *path = s->line.values[OPTION_GRADS];
	const size_t count = s->chain.param_count + 2;
	*early = (struct early_gradients){.session = s, .result = result};
	TRY(open_inputs(s, early));
	if (!path || !path_ends(path, NPZ_ENDING) || !output_replaces(path) || s->line.given[OPTION_ACCUMULATE] ||
	    s->line.given[OPTION_JOURNAL] || s->ranks)
		return STATUS_OK;
	early->arrays = arena_array(&s->arena, count, sizeof *early->arrays);
	early->crcs = arena_array(&s->arena, count, sizeof *early->crcs);
	early->rows = arena_array(&s->arena, count, sizeof *early->rows);
	early->tables = zip_crc_tables(&s->arena);
	TRY_ALLOC(early->arrays && early->crcs && early->rows && early->tables, &s->diags);
	if (s->set.threads > 1)
		TRY(team_open(&early->team, 2, 0, s->allocator, &s->diags));
	const enum status status = session_open_output(s, &early->out, path, false);
	if (status)
		early_gradients_close(early);
	return status;
}

static void await_values(struct early_gradients *early)
{
	if (early->values && npz_values_end(early->values, early->team, &early->crcs[early->index]))
		early->arrays[early->index].written = &early->crcs[early->index];
	early->values = NULL;
}

/* True if an array of TYPE may be written before the rest of the file. */
static bool is_early_type(struct early_gradients *early, const struct type *type)
{
	if (!early->out || !early->out->output.seekable || dtype_compute(type->dtype) != type->dtype ||
	    !convert_little_endian())
		return false;
	if (!early->arrays->name)
		list_gradients(early, early->arrays);
	return true;
}

/* True if PARAM's gradient may be written before the rest of the file. Sets *INDEX to its place among the file's arrays. */
static bool is_early(struct early_gradients *early, size_t param, size_t *index)
{
	const struct chain *chain = &early->session->chain;
	const struct type type = written_type(&early->result->params[param]);
	*index = inputs_in_archive(early->session);
	for (size_t i = chain->input_count; i < param; i++)
		*index += chain->params[i].differentiated;
	return param >= chain->input_count && is_early_type(early, &type);
}

void early_gradients_write(void *context, size_t param, const void *gradient)
{
	struct early_gradients *early = context;
	size_t index;
	if (!early->team || !is_early(early, param, &index))
		return;
	await_values(early);
	early->index = index;
	early->arrays[index].data = gradient;
	early->values =
		npz_values_begin(&early->session->arena, &early->out->output, early->arrays, early->index, early->team);
}

bool early_gradients_begin_rows(void *context, size_t param)
{
	struct early_gradients *early = context;
	const struct session *s = early->session;
	size_t index;
	/* --grad wants a gradient in memory */
	if (s->line.grads.count || !is_early(early, param, &index))
		return false;
	npz_rows_open(&early->rows[index], early->tables, &early->out->output, early->arrays, index);
	return true;
}

bool early_gradients_put_rows(void *context, size_t param, int64_t at, const void *from, size_t size)
{
	struct early_gradients *early = context;
	size_t index;
	return is_early(early, param, &index) && npz_put_rows(&early->rows[index], at, from, size);
}

enum status early_gradients_end_rows(void *context, size_t param, struct diags *diags)
{
	struct early_gradients *early = context;
	size_t index;
	if (!is_early(early, param, &index) || !early->rows[index].output)
		return STATUS_OK;
	TRY(npz_rows_end(&early->rows[index], &early->crcs[index], diags));
	early->arrays[index].written = &early->crcs[index];
	return STATUS_OK;
}

/* Begins the gradient of INPUT for a record, of TYPE: the begin of struct input_gradients. */
static enum status begin_input_gradient(void *context, size_t input, const struct type *type, struct diags *diags)
{
	struct early_gradients *early = context;
	struct session *s = early->session;
	struct input_sink *sink = &early->inputs[input];
	sink->type = *type;
	for (size_t i = 0; i < s->chain.input_count; i++) /* the archive's places follow from all types */
		early->inputs[1 + i].type = run_gradient_type(&s->chain, early->inputs[0].type.dtype, s->chain.params[i].type);
	const struct reader *reader = input ? &s->inputs.items[input - 1].arrays.rows : &s->in.reader;
	for (size_t i = 0; i < sink->out_count; i++) {
		run_follow_format(&sink->outs[i]->writer, reader);
		TRY(writer_begin(&sink->outs[i]->writer, type, diags));
	}
	if (sink->records++ > 0 && (sink->in_archive || sink->holds)) {
		diag_file(diags, STATUS_DATA, s->line.values[OPTION_GRADS], -1,
		          "an archive, or --accumulate, takes the gradient of an input with one array");
		return diag_hint(diags, "--grad NAME=FILE writes those of several, one after another");
	}
	if (sink->gathered)
		return writer_begin(&sink->gathered->writer, type, diags);
	if (sink->in_archive && is_early_type(early, type))
		npz_rows_open(&early->rows[input], early->tables, &early->out->output, early->arrays, input);
	else if (sink->in_archive || sink->holds)
		sink->holds = true;
	if (!sink->holds)
		return STATUS_OK;
	sink->size = (size_t)type_bytes(type);
	sink->array = arena_alloc(&s->arena, sink->size + 1);
	return sink->array ? STATUS_OK : diag_memory(diags);
}

/* Writes ELEMENTS by WRITER, of a file of all ranks if there are several. */
static enum status write_elements(const struct session *s, struct writer *writer, const struct elements *elements,
                                  struct diags *diags)
{
	if (s->ranks && writer_seekable(writer))
		return writer_write_at(writer, elements->first, elements->from, elements->dtype, elements->count, diags);
	return writer_write(writer, elements->from, elements->dtype, elements->count, diags);
}

static enum status put_input_gradient(void *context, size_t input, const struct elements *elements, struct diags *diags)
{
	struct early_gradients *early = context;
	struct input_sink *sink = &early->inputs[input];
	const size_t size = dtype_size(elements->dtype), bytes = (size_t)elements->count * size;
	const int64_t at = elements->first * (int64_t)size;
	for (size_t i = 0; i < sink->out_count; i++)
		TRY(write_elements(early->session, &sink->outs[i]->writer, elements, diags));
	if (sink->gathered)
		TRY(write_elements(early->session, &sink->gathered->writer, elements, diags));
	if (sink->array)
		memcpy((char *)sink->array + at, elements->from, bytes);
	if (early->rows && early->rows[input].output) /* npz_rows_end reports a failure */
		(void)npz_put_rows(&early->rows[input], at, elements->from, bytes);
	return STATUS_OK;
}

static enum status end_input_gradient(void *context, size_t input, struct diags *diags)
{
	struct early_gradients *early = context;
	struct input_sink *sink = &early->inputs[input];
	for (size_t i = 0; i < sink->out_count; i++)
		TRY(writer_end(&sink->outs[i]->writer, diags));
	return sink->gathered ? writer_end(&sink->gathered->writer, diags) : STATUS_OK;
}

/* Reads back what ranks have gathered in SINK. */
static enum status read_gathered(struct session *s, struct input_sink *sink)
{
	const struct output *output = &sink->gathered->output;
	size_t got = 0;
	sink->size = (size_t)type_bytes(&sink->type);
	sink->array = arena_alloc(&s->arena, sink->size + 1);
	TRY_ALLOC(sink->array, &s->diags);
	if (!io_read_at(output->fd, 0, sink->array, sink->size, &got) || got < sink->size)
		return diag_file(&s->diags, STATUS_IO, output->name, -1, "cannot read a gradient back");
	return STATUS_OK;
}

enum status early_gradients_gather(struct early_gradients *early)
{
	struct session *s = early->session;
	bool any = false;
	for (size_t i = 0; i <= s->chain.input_count; i++) {
		struct input_sink *sink = &early->inputs[i];
		any |= sink->gathered != NULL;
		if (sink->gathered)
			TRY(writer_finish(&sink->gathered->writer, &s->diags));
	}
	if (!any)
		return STATUS_OK;
	TRY(session_settle(s, STATUS_OK)); /* all ranks have written their rows */
	for (size_t i = 0; i <= s->chain.input_count && ranks_index(s->ranks) == 0; i++)
		if (early->inputs[i].gathered)
			TRY(read_gathered(s, &early->inputs[i]));
	return STATUS_OK;
}

enum status early_gradients_put(struct early_gradients *early)
{
	struct session *s = early->session;
	for (size_t i = 0; i <= s->chain.input_count; i++)
		for (size_t k = 0; k < early->inputs[i].out_count; k++) {
			TRY(writer_finish(&early->inputs[i].outs[k]->writer, &s->diags));
			TRY(session_put(s, early->inputs[i].outs[k]));
		}
	return STATUS_OK;
}

struct input_gradients early_gradients_inputs(struct early_gradients *early)
{
	bool any = false;
	for (size_t i = 0; i <= early->session->chain.input_count; i++)
		any |= early->inputs[i].out_count || early->inputs[i].in_archive || early->inputs[i].holds;
	if (!any)
		return (struct input_gradients){.put = NULL};
	return (struct input_gradients){begin_input_gradient, put_input_gradient, end_input_gradient, early};
}

void early_gradients_close(struct early_gradients *early)
{
	if (early->team)
		await_values(early);
	team_close(early->team);
	early->team = NULL;
}

/* Writes the gradients of all params, not consts, to the archive at PATH. With --accumulate, RESULT's data change. */
static enum status write_archive(struct session *s, const struct gradient_result *result, struct early_gradients *early,
                                 const char *path)
{
	struct opened_output *out = early->out;
	struct named_array *arrays = arena_array(&s->arena, result->param_count + 2, sizeof *arrays);
	const char *metadata = NULL;
	TRY_ALLOC(arrays, &s->diags);
	const size_t count = list_gradients(early, arrays);
	for (size_t i = 0; i < inputs_in_archive(s) && out; i++) {
		if (!early->rows[i].output)
			continue;
		TRY(npz_rows_end(&early->rows[i], &early->crcs[i], &s->diags));
		early->arrays[i].written = &early->crcs[i];
	}
	for (size_t i = 0; i < result->param_count && out; i++)
		TRY(s->chain.params[i].differentiated ? early_gradients_end_rows(early, i, &s->diags) : STATUS_OK);
	for (size_t i = 0; i < count && out; i++)
		arrays[i].written = early->arrays[i].written;
	if (s->line.given[OPTION_ACCUMULATE])
		TRY(add_archive(s, path, arrays, count, &metadata));
	if (!out)
		TRY(session_open_output(s, &out, path, false));
	if (path_ends(path, TENSORS_ENDING))
		TRY(tensors_put(&s->context, &out->output, arrays, count, metadata));
	else
		TRY(put_npz(s, &out->output, arrays, count));
	return put_gradients(s, out);
}

/* Locks the folders of the files that gradients are added into. */
static enum status lock_files(struct session *s)
{
	const char *grads = s->line.values[OPTION_GRADS];
	struct text_list paths = {0};
	if (grads)
		TRY_ALLOC(text_list_add(&paths, grads, &s->arena), &s->diags);
	for (size_t i = 0; i < s->line.grads.count; i++)
		TRY_ALLOC(text_list_add(&paths, strchr(s->line.grads.items[i], '=') + 1, &s->arena), &s->diags);
	return lock_folders(&s->context, &s->locks, paths.items, paths.count);
}

enum status gradient_files_put(struct session *s, const struct gradient_result *result, struct early_gradients *early)
{
	if (s->line.given[OPTION_ACCUMULATE])
		TRY(lock_files(s));
	for (size_t i = 0; i < s->line.grads.count; i++)
		TRY(write_param_gradient(s, result, early, s->line.grads.items[i]));
	return s->line.given[OPTION_GRADS] ? write_archive(s, result, early, s->line.values[OPTION_GRADS]) : STATUS_OK;
}

/* Fails with STATUS_USAGE if the file of --grads PATH has the ending of another format. */
static enum status check_ending(struct session *s, const char *path)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
	if (!dot || path_ends(path, NPZ_ENDING) || path_ends(path, TENSORS_ENDING))
		return STATUS_OK;
	return with_hint(
		s, usage_error(s, "--grads takes a name that ends in " NPZ_ENDING " or " TENSORS_ENDING ", not '%s'", path),
		"--grads is for all params, --grad NAME=FILE for one");
}

enum status gradient_files_check(struct session *s)
{
	const char *path = s->line.values[OPTION_GRADS];
	int64_t param;
	bool differentiated = chain_declared_inputs(&s->chain) > 0;
	for (size_t i = 0; i < s->line.grads.count; i++) {
		const char *text = s->line.grads.items[i];
		if (!strchr(text, '='))
			return usage_error(s, "--grad takes NAME=FILE, not '%s'", text);
		TRY(find_param(s, text, strcspn(text, "="), &param));
		if (s->chain.place && param == FIRST_INPUT)
			return with_hint(s,
			                 usage_error(s, "--at %s contradicts --grad %s: what comes before the place is constant",
			                             s->chain.place->text, text),
			                 "-o FILE gets the gradient of the value at the place");
		if (path_ends(text, NPZ_ENDING) || path_ends(text, TENSORS_ENDING)) {
			usage_error(s, "--grad writes one array, and '%s' ends as an archive", text);
			return diag_hint_command(&s->diags, "--grads %s writes all params", strchr(text, '=') + 1);
		}
	}
	if (s->line.given[OPTION_ACCUMULATE] && !path && !s->line.grads.count)
		return usage_error(s, "--accumulate needs --grads or --grad");
	if (path && s->chain.place && inputs_in_archive(s))
		return with_hint(
			s,
			usage_error(s, "--at %s contradicts --grads: the first input comes before the place", s->chain.place->text),
			"--grad NAME=FILE writes the gradient of another input or of a param");
	if (path)
		TRY(check_ending(s, path));
	for (size_t k = 0; k < s->chain.param_count; k++)
		differentiated |= s->chain.params[k].differentiated;
	if (path && !differentiated)
		diag_warn(&s->diags, "the chain has no param: --grads writes an empty '%s'", path);
	return STATUS_OK;
}
