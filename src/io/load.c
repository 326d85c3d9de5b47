/*
 * Whole arrays from files. A file's first bytes decide its kind, or a name that ends in .safetensors. npy and text are
 * read here, archives by npz.c and safetensors.c. Archives stay open, as a chain usually loads many arrays of one file.
 * Tests: tests/unit/test_load.c
 */
#include "io/foreign.h"
#include "io/formats.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "base/suggest.h"
#include "base/text.h"

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

enum status array_copy(const struct loader *loader, struct array *array, const struct memory_array *from)
{
	struct input input = {.fd = -1, .name = from->name, .arena = loader->context->arena};
	const struct reader_options options = {
		.format = FORMAT_MEMORY, .cast = loader->cast, .raw = from->type, .memory = from->data};
	struct reader reader;
	bool end;
	array->type = from->type;
	if (loader->types)
		return STATUS_OK;
	reader_init(&reader, &input, &options, loader->context->arena);
	TRY(reader_next(&reader, &end, loader->context->diags));
	return load_begun(loader, array, &reader);
}

bool array_fit(struct array *array, const struct shape *shape)
{
	return shape_fits(&array->type.shape, shape) ||
	       (array->columns && text_fit(&array->type.shape, array->columns, shape));
}

enum status load_stream(struct loader *loader, struct array *array, struct input *input,
                        const struct stored_array *where)
{
	struct diags *diags = loader->context->diags;
	struct reader reader;
	struct reader_options options = {.assume = DTYPE_BF16,
	                                 .cast = loader->cast,
	                                 .missing = loader->missing,
	                                 .raw = {.shape = {.ndim = -1}},
	                                 .threads = loader->threads};
	bool end;
	reader_init(&reader, input, &options, loader->context->arena);
	enum status status = reader_next(&reader, &end, diags);
	array->type = reader.type;
	array->columns = reader.columns;
	/* A pipe is read to its end, so that its writer does not fail. A member of an npz has no size, but a PULL. */
	const bool enough = loader->types && reader.format == FORMAT_NPY && (input->size >= 0 || input->pull);
	if (!status && where && reader.format == FORMAT_NPY && where->bytes == reader.data + type_bytes(&reader.type))
		status = stored_leave(loader, array, &reader, where);
	if (!status && !enough && !array->stored) {
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
	if (made && !loader->team && team_open(&loader->team, loader->threads, 0, context->allocator, context->diags)) {
		allocator_put(context->allocator, made, sizeof *made);
		input_close(input);
		return STATUS_LIMIT;
	}
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

struct archive *loader_kept(const struct loader *loader, const char *path)
{
	for (size_t i = 0; i < LOADER_KEPT && i < loader->opened; i++)
		if (!strcmp(loader->kept[i]->path, path))
			return loader->kept[i];
	return NULL;
}

/*
 * Sets *ARCHIVE to the npz or safetensors file at PATH, which LOADER keeps open. If the file is neither, sets it to
 * NULL, and the caller closes INPUT, of which it may read all bytes.
 */
static enum status find_archive(struct loader *loader, const char *path, struct input *input, struct archive **archive)
{
	struct diags *diags = loader->context->diags;
	const unsigned char *bytes;
	size_t got, length = strlen(path);
	*archive = loader_kept(loader, path);
	if (*archive)
		return STATUS_OK;
	TRY(input_open(input, path, !loader->special, loader->context->arena, diags));
	const enum status status = input_peek(input, 10, &bytes, &got, diags);
	if (status) {
		input_close(input);
		return status;
	}
	const bool zip = got >= 4 && !memcmp(bytes, "PK", 2) && (bytes[2] == 3 || bytes[2] == 5);
	const bool tensors = (length > 12 && !strcmp(path + length - 12, ".safetensors")) ||
	                     (got == 10 && bytes[8] == '{' && bytes[6] == 0 && bytes[7] == 0 && !npy_is(bytes, got));
	if (zip || tensors)
		return open_archive(loader, path, input, zip, archive);
	const enum status foreign = foreign_refuse(input, bytes, got, diags);
	if (foreign)
		input_close(input);
	return foreign;
}

enum status loader_load(struct loader *loader, struct array *array, const char *path, const char *key)
{
	struct archive *archive;
	struct input input;
	*array = (struct array){0};
	TRY(find_archive(loader, path, &input, &archive));
	if (archive)
		return (archive->members ? npz_load : tensors_load)(loader, array, archive, key);
	const struct stored_array where = {.input = input, .bytes = input.size};
	const enum status status = key ? diag_file(loader->context->diags, STATUS_DATA, input.name, -1,
	                                           "is neither npz nor safetensors, so it has no '%s'", key)
	                               : load_stream(loader, array, &input, input.size < 0 ? NULL : &where);
	input_close(&input);
	return status;
}

enum status archive_names(const struct archive *archive, const char *const **names, size_t *count)
{
	const struct context *context = archive->context;
	size_t (*const list)(const struct archive *, const char **) = archive->members ? npz_names : tensors_names;
	const char **all = arena_array(context->arena, list(archive, NULL) + 1, sizeof *all);
	TRY_ALLOC(all, context->diags);
	*count = list(archive, all);
	*names = all;
	return context->arena->failed ? diag_memory(context->diags) : STATUS_OK;
}

enum status archive_lacks(const struct archive *archive, const char *key)
{
	const char *const what = archive->members ? "member" : "tensor", *const path = archive->input.name;
	const struct context *context = archive->context;
	const char *const *names;
	size_t count;
	TRY(archive_names(archive, &names, &count));
	if (count == 0)
		return diag_file(context->diags, STATUS_DATA, path, -1, "has no %ss", what);
	if (key)
		diag_file(context->diags, STATUS_DATA, path, -1, "has no %s '%s'", what, key);
	else
		diag_file(context->diags, STATUS_DATA, path, -1, "has %zu %ss, and no name chooses one", count, what);
	const char *near = key ? suggest_nearest(key, names, count) : NULL, *list = text_join(names, count, context->arena);
	if (near)
		return diag_hint(context->diags, "did you mean '%s'? Its %ss: %s", near, what, list);
	return diag_hint(context->diags, "its %ss: %s; load(\"FILE\", \"NAME\")%s chooses one", what, list,
	                 context->diags->library ? "" : " or --param NAME=FILE:NAME");
}

enum status loader_names(struct loader *loader, const char *path, const char *const **names, size_t *count)
{
	struct archive *archive;
	struct input input;
	TRY(find_archive(loader, path, &input, &archive));
	if (archive)
		return archive_names(archive, names, count);
	diag_file(loader->context->diags, STATUS_DATA, input.name, -1,
	          "is neither npz nor safetensors, so it has no members");
	input_close(&input);
	return STATUS_DATA;
}

bool member_is(const char *member, const char *name)
{
	while (*name && (*member == *name || (*name == '_' && *member && strchr(MEMBER_SIGNS, *member)))) {
		member++;
		name++;
	}
	return !*name && !*member;
}

void loader_close(struct loader *loader)
{
	for (size_t i = 0; i < LOADER_KEPT && i < loader->opened; i++)
		close_archive(loader, loader->kept[i]);
	loader->opened = 0;
	team_close(loader->team);
	loader->team = NULL;
}

enum status array_load(struct loader *loader, struct array *array, const char *path, const char *key)
{
	const enum status status = loader_load(loader, array, path, key);
	loader_close(loader);
	return status;
}

bool array_open_rows(const struct loader *loader, struct input *input, struct reader *reader, const char *path)
{
	const struct context *context = loader->context;
	const struct reader_options options = {.assume = DTYPE_BF16, .cast = loader->cast, .raw = {.shape = {.ndim = -1}}};
	struct diags ignored;
	bool end = true, more = false;
	diags_init(&ignored, context->arena);
	struct stat file; /* to open a FIFO would disturb its writer */
	if (io_stat(path, &file) || !S_ISREG(file.st_mode) || input_open(input, path, true, context->arena, &ignored))
		return false;
	reader_init(reader, input, &options, context->arena);
	bool good = input->size >= 0 && !reader_next(reader, &end, &ignored) && !end && reader->format == FORMAT_NPY &&
	            reader->type.shape.ndim > 0 && reader_seekable(reader);
	/* A copy of the reader looks for another array. The reader itself stays before the values. */
	if (good) {
		struct reader probe = *reader;
		good = !reader_skip(&probe, &ignored) && !reader_next(&probe, &more, &ignored) && more;
	}
	if (good)
		return true;
	reader_free(reader);
	input_close(input);
	return false;
}
