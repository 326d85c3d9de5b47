/* npz: a zip archive of npy members, each read as a file is. */
#include "io/archives.h"

#include <string.h>

/* The bytes of MEMBER's name without its .npy. */
static size_t stem_length(const struct zip_member *member)
{
	const size_t length = member->name_length;
	return length > 4 && !memcmp(member->name + length - 4, ".npy", 4) ? length - 4 : length;
}

static const char *list_members(const struct zip *zip, struct arena *arena)
{
	enum { LISTED = 20 };
	const char *list = "";
	for (size_t i = 0; i < zip->count && i < LISTED && list; i++)
		list = arena_printf(arena, "%s%s%.*s", list, i ? ", " : "", (int)stem_length(&zip->members[i]),
		                    zip->members[i].name);
	return list ? list : "";
}

enum status npz_open(struct zip *zip, const struct input *input, const struct context *context)
{
	return input->size < 0 ? load_only_regular(input->name, "an npz", context->diags) : zip_open(zip, input, context);
}

enum status npz_find_members(const struct context *context, const char *path, const struct named_array *arrays,
                             size_t count, bool *found)
{
	struct input input;
	struct zip zip = {0};
	TRY(input_open(&input, path, true, context->arena, context->diags));
	enum status status = npz_open(&zip, &input, context);
	for (size_t i = 0; i < zip.count && !status; i++) {
		const char *name = zip.members[i].name;
		const size_t length = stem_length(&zip.members[i]);
		size_t k = 0;
		while (k < count && (strlen(arrays[k].name) != length || memcmp(arrays[k].name, name, length) != 0))
			k++;
		if (k < count)
			found[k] = true;
		else
			status = diag_file(context->diags, STATUS_DATA, path, -1, "holds '%.*s', which would be lost", (int)length,
			                   name);
	}
	zip_close(&zip);
	input_close(&input);
	return status;
}

/* The first member named KEY and SUFFIX, and how many there are. */
static const struct zip_member *find_member(const struct zip *zip, const char *key, const char *suffix, size_t *count)
{
	const size_t length = strlen(key), whole = length + strlen(suffix);
	const struct zip_member *first = NULL;
	*count = 0;
	for (const struct zip_member *m = zip->members; m < zip->members + zip->count; m++)
		if (m->name_length == whole && !memcmp(m->name, key, length) &&
		    !memcmp(m->name + length, suffix, whole - length)) {
			first = first ? first : m;
			++*count;
		}
	return first;
}

static enum status load_member(const struct loader *loader, struct array *array, struct zip *zip,
                               const struct zip_member *member, const char *key)
{
	const struct context *context = loader->context;
	struct input input;
	struct zip_stream *stream;
	const char *name =
		key ? arena_printf(context->arena, "%s(%s)", zip->input->name, key)
			: arena_printf(context->arena, "%s(%.*s)", zip->input->name, (int)member->name_length, member->name);
	TRY_ALLOC(name, context->diags);
	enum status status = zip_stream_open(zip, member, name, &input, &stream);
	if (!status) {
		status = load_stream(loader, array, &input);
		input_close(&input);
	}
	zip_stream_close(stream);
	return status;
}

enum status npz_load(const struct loader *loader, struct array *array, struct zip *zip, const char *key)
{
	struct diags *diags = loader->context->diags;
	const char *path = zip->input->name;
	const struct zip_member *member = key || zip->count != 1 ? NULL : zip->members;
	size_t count = member != NULL;
	if (key)
		member = find_member(zip, key, "", &count);
	if (key && !member)
		member = find_member(zip, key, ".npy", &count);
	if (count > 1)
		return diag_file(diags, STATUS_DATA, path, -1, "has two members '%s'", key);
	if (member)
		return load_member(loader, array, zip, member, key);
	if (zip->count == 0)
		return diag_file(diags, STATUS_DATA, path, -1, "has no members");
	if (key)
		diag_file(diags, STATUS_DATA, path, -1, "has no member '%s'", key);
	else
		diag_file(diags, STATUS_DATA, path, -1, "has several members, and no name chooses one");
	diag_hint(diags, "its members: %s; a chain names one by load(\"FILE\", \"MEMBER\")",
	          list_members(zip, loader->context->arena));
	return STATUS_DATA;
}
