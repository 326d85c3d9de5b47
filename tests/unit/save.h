/* Files for tests, by what io/files.h puts into outputs. */
#ifndef TESTS_SAVE_H
#define TESTS_SAVE_H

#include "io/files.h"

static inline enum status save_end(struct output *output, enum status status, struct diags *diags)
{
	if (!status)
		return output_commit(output, diags);
	output_abort(output);
	return status;
}

static inline enum status array_save(const char *path, const struct type *type, const void *data, struct arena *arena,
                                     struct diags *diags)
{
	struct output output;
	enum status status = output_open(&output, path, arena, diags);
	return status ? status
	              : save_end(&output,
	                         array_put(&(struct context){arena->allocator, arena, diags}, &output,
	                                   &(struct writer_options){.format = FORMAT_NPY}, type, data),
	                         diags);
}

static inline enum status npz_save(const char *path, const struct named_array *arrays, size_t count,
                                   struct arena *arena, struct diags *diags)
{
	struct output output;
	enum status status = output_open(&output, path, arena, diags);
	return status ? status
	              : save_end(&output,
	                         npz_put(&(struct context){arena->allocator, arena, diags}, &output, arrays, count, NULL),
	                         diags);
}

static inline enum status tensors_save(const char *path, const struct named_array *arrays, size_t count,
                                       const char *metadata, struct arena *arena, struct diags *diags)
{
	struct output output;
	const struct context context = {arena->allocator, arena, diags};
	enum status status = output_open(&output, path, arena, diags);
	return status ? status : save_end(&output, tensors_put(&context, &output, arrays, count, metadata), diags);
}

#endif
