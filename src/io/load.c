/*
 * Whole arrays from files. A file's first bytes decide its kind, or a name that ends in .safetensors. npy and text are
 * read here, archives by npz.c and safetensors.c. Archives stay open, as a chain usually loads many arrays of one file.
 */
#include "io/formats.h"

#include <dlfcn.h>
#include <string.h>

void array_free(struct array *array, const struct allocator *allocator)
{
	allocator_put(allocator, array->data, array->size);
	array->data = NULL;
}

enum status load_begun(const struct loader *loader, struct array *array, struct reader *reader)
{
	const struct allocator *allocator = loader->context->allocator;
	struct diags *diags = loader->context->diags;
	array->type = reader->type;
	const int64_t bytes = type_bytes(&array->type);
	TRY(reader_check_size(reader, diags)); /* memory is allocated only for what the file can fill */
	array->size = bytes > 0 ? (size_t)bytes : 1;
	array->data = allocator_get(allocator, array->size, 1);
	if (!array->data)
		return diag_file(diags, STATUS_LIMIT, reader->input->name, -1, "out of memory: the array has %lld bytes",
		                 (long long)bytes);
	const enum status status = reader_read(reader, array->data, dtype_compute(array->type.dtype), reader->count, diags);
	if (status)
		array_free(array, allocator);
	return status;
}

bool array_fits(const struct array *array, const struct shape *shape)
{
	const struct shape *have = &array->type.shape;
	if (shape->ndim == 0 && array->text)
		return shape_count(have) == 1;
	bool fits = shape->ndim == have->ndim;
	for (int i = 0; fits && i < have->ndim; i++)
		fits = shape->dim[i] < 0 || shape->dim[i] == have->dim[i];
	return fits;
}

enum status load_stream(const struct loader *loader, struct array *array, struct input *input)
{
	struct diags *diags = loader->context->diags;
	struct reader reader;
	struct reader_options options = {.assume = DTYPE_BF16, .cast = loader->cast, .raw = {.shape = {.ndim = -1}}};
	bool end;
	reader_init(&reader, input, &options, loader->context->arena);
	enum status status = reader_next(&reader, &end, diags);
	array->type = reader.type;
	array->text = reader.format == FORMAT_TEXT || reader.format == FORMAT_CSV;
	/* A pipe is read to its end, so that its writer does not fail. */
	const bool enough = loader->types && reader.format == FORMAT_NPY && input->size >= 0;
	if (!status && !enough) {
		status = load_begun(loader, array, &reader);
		if (!status)
			status = reader_next(&reader, &end, diags);
		if (!status && !end)
			status = diag_file(diags, STATUS_DATA, input->name, -1, "holds more than one array");
		if (status)
			array_free(array, loader->context->allocator);
	}
	reader_free(&reader);
	return status;
}

static void close_archive(const struct loader *loader, struct archive *archive)
{
	if (archive->zlib)
		dlclose(archive->zlib);
	json_close(&archive->header);
	input_close(&archive->input);
	allocator_put(loader->context->allocator, archive, sizeof *archive);
}

/* Opens the archive in *INPUT, which it owns or closes. LOADER keeps it open as *ARCHIVE, and may close the oldest. */
static enum status open_archive(struct loader *loader, const char *path, struct input *input, bool zip,
                                struct archive **archive)
{
	const struct context *context = loader->context;
	struct archive *made = allocator_get(context->allocator, 1, sizeof *made);
	if (!made) {
		input_close(input);
		return diag_memory(context->diags);
	}
	*made = (struct archive){.path = path, .input = *input, .context = context};
	enum status status;
	if (input->size < 0) {
		status = diag_file(context->diags, STATUS_DATA, input->name, -1, "%s must be a regular file",
		                   zip ? "an npz" : "a safetensors file");
		diag_hint(context->diags, "save it to a file first");
	} else {
		status = (zip ? npz_open : tensors_open)(made);
	}
	if (status) {
		close_archive(loader, made);
		return status;
	}
	const size_t slot = loader->opened % LOADER_KEPT;
	if (loader->opened++ >= LOADER_KEPT)
		close_archive(loader, loader->kept[slot]);
	*archive = loader->kept[slot] = made;
	return STATUS_OK;
}

enum status loader_load(struct loader *loader, struct array *array, const char *path, const char *key)
{
	struct diags *diags = loader->context->diags;
	struct archive *archive = NULL;
	*array = (struct array){0};
	for (size_t i = 0; i < LOADER_KEPT && i < loader->opened; i++)
		if (!strcmp(loader->kept[i]->path, path))
			archive = loader->kept[i];
	if (!archive) {
		struct input input;
		const unsigned char *bytes;
		size_t got, length = strlen(path);
		TRY(input_open(&input, path, !loader->special, loader->context->arena, diags));
		enum status status = input_peek(&input, 10, &bytes, &got, diags);
		const bool zip = !status && got >= 4 && !memcmp(bytes, "PK", 2) && (bytes[2] == 3 || bytes[2] == 5);
		const bool tensors =
			!status && ((length > 12 && !strcmp(path + length - 12, ".safetensors")) ||
		                (got == 10 && bytes[8] == '{' && bytes[6] == 0 && bytes[7] == 0 && !npy_is(bytes, got)));
		if (!zip && !tensors) {
			if (!status && key)
				status = diag_file(diags, STATUS_DATA, input.name, -1,
				                   "is neither npz nor safetensors, so it has no '%s'", key);
			else if (!status)
				status = load_stream(loader, array, &input);
			input_close(&input);
			return status;
		}
		TRY(open_archive(loader, path, &input, zip, &archive));
	}
	return (archive->members ? npz_load : tensors_load)(loader, array, archive, key);
}

void loader_close(struct loader *loader)
{
	for (size_t i = 0; i < LOADER_KEPT && i < loader->opened; i++)
		close_archive(loader, loader->kept[i]);
	loader->opened = 0;
}

enum status array_load(struct loader *loader, struct array *array, const char *path, const char *key)
{
	const enum status status = loader_load(loader, array, path, key);
	loader_close(loader);
	return status;
}
