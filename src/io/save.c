/*
 * Whole arrays to files: npy, and npz byte for byte as numpy.savez makes it, so that equal gradients are equal files.
 * An npz is a zip archive of stored members dated 1980, whose local headers have 64-bit sizes. The arrays are not
 * copied. If the output is a file, a team writes a member in pieces, and the header gets the checksum afterwards. Else
 * the npz is written in one pass, and a member's npy is made twice, first for its checksum.
 * Tests: tests/unit/test_load.c
 */
#include "io/formats.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"

enum status array_put(const struct context *context, struct output *output, const struct writer_options *options,
                      const struct type *type, const void *data)
{
	struct diags *diags = context->diags;
	struct writer writer;
	writer_init(&writer, output, options, context->arena);
	TRY(writer_begin(&writer, type, diags));
	TRY(writer_write(&writer, data, dtype_compute(type->dtype), shape_count(&type->shape), diags));
	TRY(writer_end(&writer, diags));
	return writer_finish(&writer, diags);
}

enum status array_write(const struct context *context, struct output *output, enum format format,
                        const struct type *type, const void *data)
{
	return array_put(context, output, &(struct writer_options){.format = format}, type, data);
}

enum { LOCAL_EXTRA = 20, CENTRAL_EXTRA = 28, ZIP_DATE = 0x21 /* 1 January 1980 */ };
enum { NEEDS_ZIP = 20, NEEDS_ZIP64 = 45, MADE_BY_UNIX = 3 << 8, FLAG_UTF8 = 0x800 };

struct saved_member {
	const char *name;
	uint64_t offset, size;
	uint32_t crc;
	const struct zip_crc *tables;
	struct team *team; /* that of npz_put */
};

/* Writes VALUES to P, little-endian. WIDTHS has one digit for each value: its bytes. Returns the place after them. */
static unsigned char *put_fields(unsigned char *p, const char *widths, const uint64_t *values)
{
	for (; *widths; widths++, values++)
		for (int i = 0; i < *widths - '0'; i++)
			*p++ = (unsigned char)(*values >> 8 * i);
	return p;
}

/* True if VALUE needs a 64-bit field (zipfile's limit is 31 bits). Then its 32-bit field is all ones. */
static bool is_wide(uint64_t value) { return value > INT32_MAX; }

static uint64_t field32(uint64_t value) { return is_wide(value) ? UINT32_MAX : value; }

/* Writes the fields that local headers and directory entries share, from the version to the extra field's length. */
static unsigned char *put_shared_fields(unsigned char *p, const struct saved_member *m, uint64_t version,
                                        uint64_t extra)
{
	const char *name = m->name;
	while (*name && !(*name & 0x80))
		name++;
	/* method 0 (stored), time 0, and the date */
	return put_fields(p, "2222244422",
	                  (uint64_t[]){version, *name ? FLAG_UTF8 : 0, 0, 0, ZIP_DATE, m->crc, field32(m->size),
	                               field32(m->size), strlen(m->name), extra});
}

/* Adds the bytes that are pushed to an output to a member's checksum. */
static void add_to_checksum(void *context, const void *from, size_t size)
{
	struct saved_member *m = context;
	m->crc = zip_crc_add_shared(m->team, m->tables, m->crc, from, size);
}

/* Writes the local header of M, whose offset it sets. */
static enum status put_local(const struct context *context, struct output *output, struct saved_member *m)
{
	unsigned char local[ZIP_LOCAL_BYTES], extra[LOCAL_EXTRA];
	m->offset = (uint64_t)output->offset;
	put_fields(local, "4", (uint64_t[]){ZIP_LOCAL});
	put_shared_fields(local + 4, m, is_wide(m->size) ? NEEDS_ZIP64 : NEEDS_ZIP, LOCAL_EXTRA);
	put_fields(extra, "2288", (uint64_t[]){1, 16, m->size, m->size});
	TRY(output_write(output, local, sizeof local, context->diags));
	TRY(output_write(output, m->name, strlen(m->name), context->diags));
	return output_write(output, extra, sizeof extra, context->diags);
}

/* Values that a team writes in pieces. Those that are WHOLE are written, and have checksums. */
struct npz_values {
	const struct zip_crc *tables;
	struct output *output;
	const char *data;
	int64_t size, at, piece; /* in bytes; the output's byte where they begin; bytes of a piece */
	struct {
		bool complete;
		uint32_t crc;
	} pieces[ZIP_PIECES];
};

/* A team_part. */
static void put_piece(void *context, void *memory, int64_t begin, int64_t end)
{
	struct npz_values *v = context;
	const int64_t piece = begin / v->piece;
	uint32_t crc = 0;
	(void)memory;
	for (int64_t next; begin < end; begin = next) {
		next = lesser(begin + ZIP_BLOCK, end);
		const size_t size = (size_t)(next - begin);
		crc = zip_crc_add(v->tables, crc, v->data + begin, size);
		if (!output_try_at(v->output, v->at + begin, v->data + begin, size))
			return;
	}
	v->pieces[piece].crc = crc;
	v->pieces[piece].complete = true;
}

/* Returns the bytes of an array of TYPE in a file. */
static int64_t file_bytes(const struct type *type)
{
	return shape_count(&type->shape) * (int64_t)dtype_size(type->dtype);
}

/* Writes the values A of WRITER, if they are not written yet, and adds their checksum to M's. */
static enum status put_values(const struct context *context, struct writer *writer, struct saved_member *m,
                              const struct named_array *a)
{
	const int64_t size = file_bytes(&a->type);
	struct npz_values v = {m->tables, writer->output, a->data, size, writer->data, zip_piece_bytes((size_t)size),
	                       {{0}}};
	if (a->written) {
		m->crc = zip_crc_join(m->crc, *a->written, (size_t)size);
		return writer_end(writer, context->diags);
	}
	team_run(m->team, size, v.piece, put_piece, &v);
	for (int64_t at = 0; at < size; at += v.piece) {
		const int64_t end = lesser(at + v.piece, size);
		if (!v.pieces[at / v.piece].complete) /* once more, for the message */
			TRY(output_write_at(v.output, v.at + at, v.data + at, (size_t)(end - at), context->diags));
		if (!v.pieces[at / v.piece].complete)
			v.pieces[at / v.piece].crc = zip_crc_add(m->tables, 0, v.data + at, (size_t)(end - at));
		m->crc = zip_crc_join(m->crc, v.pieces[at / v.piece].crc, (size_t)(end - at));
	}
	return writer_end(writer, context->diags);
}

/* Returns where the values of ARRAYS[INDEX] begin in OUTPUT, to which nothing is written yet, and reserves their space. */
static int64_t reserve_values(const struct output *output, const struct named_array *arrays, size_t index)
{
	char header[NPY_HEADER_MOST];
	struct output place = *output;
	for (size_t i = 0; i <= index; i++) {
		const struct type *type = &arrays[i].type;
		const size_t name = strlen(arrays[i].name) + strlen(".npy");
		place.offset += (int64_t)(ZIP_LOCAL_BYTES + name + LOCAL_EXTRA + npy_make_header(type, header));
		place.offset += i < index ? file_bytes(type) : 0;
	}
	output_reserve(&place, file_bytes(&arrays[index].type));
	return place.offset;
}

struct npz_values *npz_values_begin(struct arena *arena, struct output *output, const struct named_array *arrays,
                                    size_t index, struct team *team)
{
	const struct zip_crc *tables = zip_crc_tables(arena);
	struct npz_values *v = arena_alloc(arena, sizeof *v);
	if (!tables || !v)
		return NULL;
	const int64_t size = type_bytes(&arrays[index].type), at = reserve_values(output, arrays, index);
	*v = (struct npz_values){tables, output, arrays[index].data, size, at, zip_piece_bytes((size_t)size), {{0}}};
	team_begin(team, size, v->piece, put_piece, v);
	return v;
}

bool npz_values_end(struct npz_values *values, struct team *team, uint32_t *crc)
{
	team_wait(team);
	*crc = 0;
	for (int64_t at = 0; at < values->size; at += values->piece) {
		if (!values->pieces[at / values->piece].complete)
			return false;
		*crc = zip_crc_join(*crc, values->pieces[at / values->piece].crc,
		                    (size_t)lesser(values->size - at, values->piece));
	}
	return true;
}

void npz_rows_open(struct npz_rows *rows, const struct zip_crc *tables, struct output *output,
                   const struct named_array *arrays, size_t index)
{
	*rows = (struct npz_rows){.tables = tables,
	                          .output = output,
	                          .size = file_bytes(&arrays[index].type),
	                          .at = reserve_values(output, arrays, index)};
}

bool npz_put_rows(struct npz_rows *rows, int64_t at, const void *from, size_t size)
{
	uint32_t crc = 0;
	for (size_t done = 0, piece; done < size; done += piece) {
		const char *next = (const char *)from + done;
		piece = size - done < ZIP_BLOCK ? size - done : ZIP_BLOCK;
		crc = zip_crc_add(rows->tables, crc, next, piece);
		if (!output_try_at(rows->output, rows->at + at + (int64_t)done, next, piece)) {
			rows->failed = errno;
			return false;
		}
	}
	const size_t after = (size_t)(rows->size - at) - size;
	atomic_fetch_xor(&rows->crc, zip_crc_move(crc, zip_crc_power(after)));
	return true;
}

enum status npz_rows_end(struct npz_rows *rows, uint32_t *crc, struct diags *diags)
{
	*crc = rows->crc;
	errno = rows->failed;
	return rows->failed ? output_failed(rows->output, diags) : STATUS_OK;
}

/* Writes the local header of M, then the npy, then the checksum to the header. */
static enum status put_in_pieces(const struct context *context, struct output *output, struct saved_member *m,
                                 const struct named_array *a)
{
	enum { CHECKSUM_AT = 14 };
	struct output checked = {.fd = -1, .push = add_to_checksum, .stream = m};
	const struct writer_options options = {.format = FORMAT_NPY};
	struct writer header, writer;
	unsigned char crc[4];
	writer_init(&header, &checked, &options, context->arena);
	writer_init(&writer, output, &options, context->arena);
	TRY(writer_begin(&header, &a->type, context->diags));
	m->size = (uint64_t)(checked.offset + file_bytes(&a->type));
	TRY(put_local(context, output, m));
	TRY(writer_begin(&writer, &a->type, context->diags));
	TRY(put_values(context, &writer, m, a));
	put_fields(crc, "4", (uint64_t[]){m->crc});
	return output_write_at(output, (int64_t)m->offset + CHECKSUM_AT, crc, sizeof crc, context->diags);
}

static enum status put_member(const struct context *context, struct output *output, struct saved_member *m,
                              const struct named_array *a)
{
	const bool held = dtype_compute(a->type.dtype) == a->type.dtype && convert_little_endian();
	if (output->seekable && !output->joined && (held || a->written))
		return put_in_pieces(context, output, m, a);
	struct output checked = {.fd = -1, .push = add_to_checksum, .stream = m};
	TRY(array_write(context, &checked, FORMAT_NPY, &a->type, a->data));
	m->size = (uint64_t)checked.offset;
	TRY(put_local(context, output, m));
	return array_write(context, output, FORMAT_NPY, &a->type, a->data);
}

static enum status put_entry(struct output *output, const struct saved_member *m, struct diags *diags)
{
	unsigned char header[ZIP_CENTRAL_BYTES], extra[CENTRAL_EXTRA], *p;
	const char size = is_wide(m->size) ? '8' : '0', offset = is_wide(m->offset) ? '8' : '0';
	const char widths[] = {'2', '2', size, size, offset, '\0'};
	const uint64_t wide = 16 * is_wide(m->size) + 8 * is_wide(m->offset), version = wide ? NEEDS_ZIP64 : NEEDS_ZIP;
	const size_t extra_length = wide ? 4 + wide : 0;
	put_fields(extra, widths, (uint64_t[]){1, wide, m->size, m->size, m->offset});
	p = put_fields(header, "42", (uint64_t[]){ZIP_CENTRAL, version | MADE_BY_UNIX});
	p = put_shared_fields(p, m, version, extra_length);
	/* no comment, the first disk, no attributes within */
	put_fields(p, "22244", (uint64_t[]){0, 0, 0, 0600 << 16, field32(m->offset)});
	TRY(output_write(output, header, sizeof header, diags));
	TRY(output_write(output, m->name, strlen(m->name), diags));
	return output_write(output, extra, extra_length, diags);
}

static enum status put_directory_end(struct output *output, uint64_t count, uint64_t central, struct diags *diags)
{
	enum { COUNT_MOST = 0xffff };
	unsigned char end[ZIP_END64_BYTES + ZIP_LOCATOR64_BYTES + ZIP_END_BYTES], *p = end;
	const uint64_t at = (uint64_t)output->offset, size = at - central,
				   short_count = count < COUNT_MOST ? count : COUNT_MOST;
	if (count >= COUNT_MOST || is_wide(size) || is_wide(central)) {
		p = put_fields(
			p, "4822448888",
			(uint64_t[]){ZIP_END64, ZIP_END64_BYTES - 12, NEEDS_ZIP64, NEEDS_ZIP64, 0, 0, count, count, size, central});
		p = put_fields(p, "4484", (uint64_t[]){ZIP_LOCATOR64, 0, at, 1});
	}
	p = put_fields(p, "4422442",
	               (uint64_t[]){ZIP_END, 0, short_count, short_count, field32(size), field32(central), 0});
	return output_write(output, end, (size_t)(p - end), diags);
}

enum status npz_put(const struct context *context, struct output *output, const struct named_array *arrays,
                    size_t count, struct team *team)
{
	struct diags *diags = context->diags;
	struct zip_crc tables;
	struct saved_member *members = arena_array(context->arena, count + 1, sizeof *members);
	TRY_ALLOC(members, diags);
	zip_crc_init(&tables);
	for (size_t i = 0; i < count; i++) {
		struct saved_member *m = &members[i];
		*m = (struct saved_member){
			.name = arena_printf(context->arena, "%s.npy", arrays[i].name), .tables = &tables, .team = team};
		TRY_ALLOC(m->name, diags);
		if (strlen(m->name) > ZIP_NAME_MOST)
			return diag_file(diags, STATUS_LIMIT, output->name, -1, "a member's name is longer than 64 KiB");
		TRY(put_member(context, output, m, &arrays[i]));
	}
	const uint64_t central = (uint64_t)output->offset;
	for (size_t i = 0; i < count; i++)
		TRY(put_entry(output, &members[i], diags));
	return put_directory_end(output, count, central, diags);
}
