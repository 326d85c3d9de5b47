/*
 * Whole arrays to files: npy, and npz byte for byte as numpy.savez makes it, so that equal gradients are equal files.
 * An npz is a zip archive of stored members dated 1980, whose local headers have 64-bit sizes. It is written in one
 * pass, and the arrays are not copied: a member's npy is made twice, first for its checksum.
 */
#include "io/formats.h"

#include <string.h>

enum status array_put(const struct context *context, struct output *output, const struct type *type, const void *data)
{
	return array_write(context, output, FORMAT_NPY, type, data);
}

enum status array_write(const struct context *context, struct output *output, enum format format,
                        const struct type *type, const void *data)
{
	struct diags *diags = context->diags;
	struct writer writer;
	writer_init(&writer, output, &(struct writer_options){.format = format}, context->arena);
	TRY(writer_begin(&writer, type, diags));
	TRY(writer_write(&writer, data, dtype_compute(type->dtype), shape_count(&type->shape), diags));
	return writer_end(&writer, diags);
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

static enum status put_member(const struct context *context, struct output *output, struct saved_member *m,
                              const struct named_array *a)
{
	unsigned char local[ZIP_LOCAL_BYTES], extra[LOCAL_EXTRA];
	struct output checked = {.fd = -1, .push = add_to_checksum, .stream = m};
	TRY(array_put(context, &checked, &a->type, a->data));
	m->offset = (uint64_t)output->offset;
	m->size = (uint64_t)checked.offset;
	put_fields(local, "4", (uint64_t[]){ZIP_LOCAL});
	put_shared_fields(local + 4, m, is_wide(m->size) ? NEEDS_ZIP64 : NEEDS_ZIP, LOCAL_EXTRA);
	put_fields(extra, "2288", (uint64_t[]){1, 16, m->size, m->size});
	TRY(output_write(output, local, sizeof local, context->diags));
	TRY(output_write(output, m->name, strlen(m->name), context->diags));
	TRY(output_write(output, extra, sizeof extra, context->diags));
	return array_put(context, output, &a->type, a->data);
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
