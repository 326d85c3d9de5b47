/*
 * The archive to which `run -o FILE.npz` or FILE.safetensors writes all values: the outputs by their names, and the last value
 * as `out`. The rows of each go to an unnamed file beside the archive, in any order, and from there to the archive: where a
 * member begins follows from the sizes of those before it.
 * Tests: tests/cases/outputs.test
 */
#include "cli/value_archive.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 18 };

/* Opens an unnamed file for the rows of value K, and its writer. */
static enum status open_value(struct session *s, struct value_archive *archive, size_t k, const char *directory)
{
	struct output *output = &archive->files[k];
	const int fd = io_make_nameless(directory);
	if (fd < 0)
		return diag_file(&s->diags, STATUS_IO, directory, -1, "cannot make a file for a value: %s", strerror(errno));
	*output = (struct output){.fd = fd, .name = directory, .seekable = true, .arena = &s->arena};
	archive->descriptors[k] = fd;
	archive->opened_count = k + 1;
	writer_init(&archive->writers[k], output, &(struct writer_options){.format = FORMAT_RAW}, &s->arena);
	return STATUS_OK;
}

enum status value_archive_open(struct session *s, struct value_archive *archive)
{
	const char *path = s->archive, *slash = strrchr(path, '/');
	const char *directory = slash ? arena_strndup(&s->arena, path, (size_t)(slash + 1 - path)) : ".";
	*archive = (struct value_archive){.opened_count = 0};
	TRY_ALLOC(directory, &s->diags);
	if (!s->out->output.seekable)
		return usage_error(s, "-o %s: an archive is written to a regular file", path);
	for (size_t k = 0; k < s->value_count; k++) {
		TRY(open_value(s, archive, k, directory));
		archive->pointers[k] = &archive->writers[k];
	}
	return STATUS_OK;
}

/* Copies the values of ARRAY to the npz: an npz_rows. */
static enum status archive_value(struct session *s, const struct named_array *arrays, size_t k,
                                 const struct zip_crc *tables, uint32_t *crc)
{
	struct npz_rows rows;
	const int64_t size = shape_count(&arrays[k].type.shape) * (int64_t)dtype_size(arrays[k].type.dtype);
	char *piece = arena_alloc(&s->arena, PIECE);
	TRY_ALLOC(piece, &s->diags);
	npz_rows_open(&rows, tables, &s->out->output, arrays, k);
	for (int64_t at = 0, count; at < size; at += count) {
		size_t got = 0;
		count = size - at < PIECE ? size - at : PIECE;
		if (!io_read_at(*arrays[k].file, at, piece, (size_t)count, &got) || (int64_t)got < count)
			return diag_file(&s->diags, STATUS_IO, s->archive, -1, "cannot read a value back");
		if (!npz_put_rows(&rows, at, piece, (size_t)count))
			break;
	}
	return npz_rows_end(&rows, crc, &s->diags);
}

enum status value_archive_put(struct session *s, struct value_archive *archive)
{
	struct named_array arrays[MOST_VALUES];
	uint32_t crcs[MOST_VALUES];
	const size_t count = s->value_count, length = strlen(s->archive);
	for (size_t k = 0; k < count; k++) { /* the last value is the first, and stands last */
		const size_t from = (k + 1) % count;
		const char *name = from ? s->chain.wanted[from - 1]->name : "out";
		if (archive->writers[from].index != 1)
			return with_hint(
				s, diag_file(&s->diags, STATUS_DATA, s->archive, -1, "an archive takes one array of each value"),
				"-o NAME=FILE writes those of several records, one after another");
		arrays[k] = (struct named_array){
			.name = name, .type = archive->writers[from].type, .file = &archive->descriptors[from]};
	}
	if (length > 4 && strcmp(s->archive + length - 4, ".npz") != 0)
		return tensors_put(&s->context, &s->out->output, arrays, count, NULL);
	const struct zip_crc *tables = zip_crc_tables(&s->arena);
	TRY_ALLOC(tables, &s->diags);
	for (size_t k = 0; k < count; k++) {
		TRY(archive_value(s, arrays, k, tables, &crcs[k]));
		arrays[k].written = &crcs[k];
	}
	return npz_put(&s->context, &s->out->output, arrays, count, NULL);
}

void value_archive_close(struct value_archive *archive)
{
	while (archive->opened_count > 0)
		close(archive->descriptors[--archive->opened_count]);
}
