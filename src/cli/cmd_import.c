/*
 * ckptc import: a chain and its weights from an ONNX model, in a folder of their own.
 *
 * Both files are temporaries until both are complete. The weights get their name first, since the chain reads them.
 * Tests: tests/scripts/check-import
 */
#include "cli/session.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#ifdef HAVE_ONNX
#include "onnx/import.h"

#define ENDING ".onnx"

/* Sets *DIRECTORY to --output, or to the model's name without its ending. */
static enum status choose_directory(struct session *s, const char **directory)
{
	const char *model = s->line.file;
	const size_t length = strlen(model), ending = strlen(ENDING);
	*directory = s->line.values[OPTION_OUTPUT];
	if (*directory)
		return STATUS_OK;
	if (length <= ending || strcmp(model + length - ending, ENDING) || model[length - ending - 1] == '/')
		return with_hint(
			s, usage_error(s, "the name '%s' does not end in " ENDING ", so it names no folder for the chain", model),
			"-o DIR names it");
	TRY_ALLOC(*directory = arena_strndup(&s->arena, model, length - ending), &s->diags);
	return STATUS_OK;
}

/* Loads the values that --param gives an input. */
static enum status load_constant(struct session *s, const struct param_binding *binding,
                                 struct import_constant *constant)
{
	struct loader loader = {.special = s->line.given[OPTION_SPECIAL], .cast = true, .context = &s->context};
	const char *colon = strrchr(binding->value, ':');
	const bool member = colon && colon > binding->value && io_access(binding->value, 0) != 0;
	double number;
	constant->name = binding->name;
	if (number_parse(binding->value, strlen(binding->value), &number)) {
		double *copy = arena_alloc(&s->arena, sizeof *copy);
		TRY_ALLOC(copy, &s->diags);
		*copy = number;
		constant->values = (struct array){.type = {DTYPE_F64, {0}}, .data = copy};
		return STATUS_OK;
	}
	const char *path =
		member ? arena_strndup(&s->arena, binding->value, (size_t)(colon - binding->value)) : binding->value;
	TRY_ALLOC(path, &s->diags);
	return array_load(&loader, &constant->values, path, member ? colon + 1 : NULL);
}

/* Sets *REQUEST by the options. LIST has its constants. */
static enum status make_request(struct session *s, struct import_request *request, struct import_constant *list)
{
	const size_t constants = s->line.param_count, shapes = s->set.shape_count;
	struct import_input *inputs = arena_array(&s->arena, shapes + 1, sizeof *inputs);
	int consts = 0;
	TRY_ALLOC(inputs, &s->diags);
	TRY(choose_word(s, OPTION_WEIGHTS, 0, &consts));
	for (size_t i = 0; i < constants; i++)
		TRY(load_constant(s, &s->line.params[i], &list[i]));
	for (size_t i = 0; i < shapes; i++)
		inputs[i] = (struct import_input){s->set.shapes[i].name, s->set.shapes[i].type};
	*request = (struct import_request){.path = s->line.file,
	                                   .tensors = "model.safetensors",
	                                   .consts = consts,
	                                   .inputs = inputs,
	                                   .input_count = shapes,
	                                   .constants = list,
	                                   .constant_count = constants};
	return STATUS_OK;
}

/* Fails with STATUS_USAGE if the chain at PATH may have been edited: it differs from that of IMPORTED. */
static enum status check_unedited(struct session *s, const char *path, const struct imported *imported)
{
	struct stat st;
	if (s->line.given[OPTION_FORCE] || io_stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return STATUS_OK;
	struct source source = {.length = 0};
	const bool alike = st.st_size == (off_t)imported->length;
	TRY(alike ? session_read_file(s, path, &source) : STATUS_OK);
	if (alike && source.length == imported->length && !memcmp(source.text, imported->text, imported->length))
		return STATUS_OK;
	diag_file(&s->diags, STATUS_USAGE, path, -1, "it differs from the chain of this model, and may have been edited");
	return diag_hint(&s->diags, "--force replaces it, -o DIR writes to another folder");
}

static enum status write_files(struct session *s, const char *directory, const struct imported *imported)
{
	struct opened_output *out;
	const char *weights = arena_printf(&s->arena, "%s/model.safetensors", directory);
	const char *chain = arena_printf(&s->arena, "%s/model.ck", directory);
	TRY_ALLOC(weights && chain, &s->diags);
	TRY(check_unedited(s, chain, imported));
	TRY(session_open_output(s, &out, weights, false));
	TRY(tensors_put(&s->context, &out->output, imported->weights, imported->weight_count, NULL));
	TRY(session_put(s, out));
	TRY(session_open_output(s, &out, chain, false));
	TRY(output_write(&out->output, imported->text, imported->length, &s->diags));
	TRY(session_put(s, out));
	return session_commit(s);
}

/* Writes the files to DIRECTORY, which is made if it is not there; if that fails, it goes again. */
static enum status write_directory(struct session *s, const char *directory, const struct imported *imported)
{
	struct stat st;
	const bool made = io_make_directory(directory) == 0;
	if (!made && errno != EEXIST)
		return diag_file(&s->diags, STATUS_IO, directory, -1, "cannot make the folder: %s", strerror(errno));
	if (io_stat(directory, &st) != 0 || !S_ISDIR(st.st_mode))
		return diag_file(&s->diags, STATUS_IO, directory, -1, "is no folder");
	const enum status status = write_files(s, directory, imported);
	if (status && made)
		(void)io_remove_directory(directory);
	return status;
}

enum status command_import(struct session *s)
{
	struct import_request request;
	struct imported imported;
	struct input input;
	const char *directory;
	if (!s->line.file)
		return with_hint(s, usage_error(s, "no model"), "`ckptc import MODEL.onnx`");
	TRY(choose_directory(s, &directory));
	struct import_constant *constants = arena_array(&s->arena, s->line.param_count + 1, sizeof *constants);
	TRY_ALLOC(constants, &s->diags);
	TRY(make_request(s, &request, constants));
	TRY(input_open(&input, s->line.file, false, &s->arena, &s->diags));
	const enum status status = import_model(&s->context, &request, &input, &imported);
	input_close(&input);
	for (size_t i = 0; i < request.constant_count; i++)
		if (constants[i].values.size)
			array_free(&constants[i].values, s->allocator);
	return status ? status : write_directory(s, directory, &imported);
}
#else
enum status command_import(struct session *s)
{
	return usage_error(s, "this ckptc was built without ONNX (./configure --without-onnx)");
}
#endif
