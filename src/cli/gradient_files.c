/*
 * Writes the gradients of params to the files of --grads and --grad.
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

/* Sets *INDEX to the param whose name is the LENGTH bytes at NAME. STATUS_USAGE if there is none, or it is a const. */
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
	return with_nearest(s, usage_error(s, "no param is named '%s'", copy), copy, (struct text_list){names, count, 0},
	                    NULL);
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

/* Ends OUT, a file of gradients. */
static enum status put_gradients(struct session *s, struct opened_output *out)
{
	out->adds = s->line.given[OPTION_ACCUMULATE];
	return session_put(s, out);
}

/* Writes the gradient that OPTION, NAME=FILE of --grad, asks for. */
static enum status write_param_gradient(struct session *s, const struct gradient_result *result, const char *option)
{
	const char *path = strchr(option, '=') + 1;
	struct loader loader = {.cast = s->line.given[OPTION_CAST], .context = &s->context};
	struct opened_output *out;
	enum status status = STATUS_OK;
	size_t param;
	TRY(find_param(s, option, (size_t)(path - 1 - option), &param));
	const struct param_gradient *g = &result->params[param];
	const struct type type = written_type(g);
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
		status = array_put(&s->context, &out->output, &type, sum);
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

/* Sets ARRAYS to the gradients of all params, not consts. Returns their number. */
static size_t list_gradients(const struct session *s, const struct gradient_result *result, struct named_array *arrays)
{
	size_t count = 0;
	for (size_t i = 0; i < result->param_count; i++) {
		const struct param_gradient *g = &result->params[i];
		if (s->chain.params[i].differentiated)
			arrays[count++] = (struct named_array){s->chain.params[i].name, written_type(g), g->data, NULL};
	}
	return count;
}

enum status early_gradients_open(struct session *s, struct early_gradients *early, const struct gradient_result *result)
{
	const char *path = s->line.values[OPTION_GRADS];
	const size_t count = s->chain.param_count + 1;
	*early = (struct early_gradients){.session = s, .result = result};
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

/* True if PARAM's gradient may be written before the rest of the file. Sets *INDEX to its place among the file's arrays. */
static bool is_early(struct early_gradients *early, size_t param, size_t *index)
{
	const struct type type = written_type(&early->result->params[param]);
	*index = 0;
	if (!early->out || !early->out->output.seekable || dtype_compute(type.dtype) != type.dtype ||
	    !convert_little_endian())
		return false;
	for (size_t i = 0; i < param; i++)
		*index += early->session->chain.params[i].differentiated;
	if (!early->arrays->name)
		list_gradients(early->session, early->result, early->arrays);
	return true;
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
	struct named_array *arrays = arena_array(&s->arena, result->param_count + 1, sizeof *arrays);
	const char *metadata = NULL;
	TRY_ALLOC(arrays, &s->diags);
	const size_t count = list_gradients(s, result, arrays);
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
		TRY(write_param_gradient(s, result, s->line.grads.items[i]));
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
	size_t param;
	bool differentiated = false;
	for (size_t i = 0; i < s->line.grads.count; i++) {
		const char *text = s->line.grads.items[i];
		if (!strchr(text, '='))
			return usage_error(s, "--grad takes NAME=FILE, not '%s'", text);
		TRY(find_param(s, text, strcspn(text, "="), &param));
		if (path_ends(text, NPZ_ENDING) || path_ends(text, TENSORS_ENDING)) {
			usage_error(s, "--grad writes npy, and '%s' ends as an archive", text);
			return diag_hint_command(&s->diags, "--grads %s writes all params", strchr(text, '=') + 1);
		}
	}
	if (s->line.given[OPTION_ACCUMULATE] && !path && !s->line.grads.count)
		return usage_error(s, "--accumulate needs --grads or --grad");
	if (path)
		TRY(check_ending(s, path));
	for (size_t k = 0; k < s->chain.param_count; k++)
		differentiated |= s->chain.params[k].differentiated;
	if (path && !differentiated)
		diag_warn(&s->diags, "the chain has no param: --grads writes an empty '%s'", path);
	return STATUS_OK;
}
