/*
 * The archive to which `run -o FILE.npz` or FILE.safetensors writes all values: the outputs by their names, and the last value
 * as `out`. The rows of each go to a temporary beside the archive, in any order and from all ranks, and from there to the
 * archive: where a member begins follows from the sizes of those before it.
 * Tests: tests/cases/outputs.test
 */
#include "cli/value_archive.h"

#include <string.h>

enum { PIECE = 1 << 18 };

enum status value_archive_open(struct session *s, struct value_archive *archive)
{
	if (!archive->out->output.seekable && ranks_index(s->ranks) == 0)
		return usage_error(s, "-o %s: an archive is written to a regular file", archive->path);
	for (size_t k = 0; k < archive->count; k++) {
		TRY(session_open_rows(s, &archive->files[k], archive->path));
		archive->writers[k] = &archive->files[k]->writer;
		writer_init(archive->writers[k], &archive->files[k]->output, &(struct writer_options){.format = FORMAT_RAW},
		            &s->arena);
	}
	return STATUS_OK;
}

/* Copies the values of ARRAY to the npz: an npz_rows. */
static enum status archive_value(struct session *s, const struct value_archive *archive,
                                 const struct named_array *arrays, size_t k, uint32_t *crc)
{
	struct npz_rows rows;
	const struct zip_crc *tables = archive->tables;
	const int64_t size = shape_count(&arrays[k].type.shape) * (int64_t)dtype_size(arrays[k].type.dtype);
	char *piece = arena_alloc(&s->arena, PIECE);
	TRY_ALLOC(piece, &s->diags);
	npz_rows_open(&rows, tables, &archive->out->output, arrays, k);
	for (int64_t at = 0, count; at < size; at += count) {
		size_t got = 0;
		count = size - at < PIECE ? size - at : PIECE;
		if (!io_read_at(*arrays[k].file, at, piece, (size_t)count, &got) || (int64_t)got < count)
			return diag_file(&s->diags, STATUS_IO, archive->path, -1, "cannot read a value back");
		if (!npz_put_rows(&rows, at, piece, (size_t)count))
			break;
	}
	return npz_rows_end(&rows, crc, &s->diags);
}

enum status value_archive_put(struct session *s, struct value_archive *archive)
{
	struct named_array arrays[MOST_VALUES];
	uint32_t crcs[MOST_VALUES];
	const size_t count = archive->count;
	for (size_t k = 0; k < count; k++)
		TRY(writer_finish(archive->writers[k], &s->diags));
	TRY(session_settle(s, STATUS_OK)); /* all ranks have written their rows */
	if (ranks_index(s->ranks) > 0)
		return STATUS_OK;
	for (size_t k = 0; k < count; k++) { /* the last value is the first, and stands last */
		const size_t from = (k + 1) % count;
		if (archive->writers[from]->index != 1)
			return with_hint(
				s, diag_file(&s->diags, STATUS_DATA, archive->path, -1, "an archive takes one array of each value"),
				"-o NAME=FILE writes those of several records, one after another");
		arrays[k] = (struct named_array){

			.name = archive->names[from],
			.type = archive->writers[from]->type,
			.file = &archive->files[from]->output.fd};
	}
	if (strcmp(archive->path + strlen(archive->path) - 4, ".npz") != 0)
		return tensors_put(&s->context, &archive->out->output, arrays, count, NULL);
	TRY_ALLOC(archive->tables = zip_crc_tables(&s->arena), &s->diags);
	for (size_t k = 0; k < count; k++) {
		TRY(archive_value(s, archive, arrays, k, &crcs[k]));
		arrays[k].written = &crcs[k];
	}
	return npz_put(&s->context, &archive->out->output, arrays, count, NULL);
}
