/*
 * Whole arrays to files: npy, and npz byte for byte as numpy.savez makes it, so that equal
 * gradients are equal files. An npz is a zip archive of stored members without a time, whose
 * local headers have 64-bit sizes. It is written in one pass from where the arrays are.
 */
#include "io/save.h"

#include <string.h>

#include "io/npy.h"
#include "io/zip.h"

enum status array_put(const struct context *context, struct output *output, const struct type *type, const void *data)
{
	struct diags *diags = context->diags;
	struct writer writer;
	struct writer_options options = {.format = FORMAT_NPY};
	writer_init(&writer, output, &options, context->arena);
	enum status status = writer_begin(&writer, type, diags);
	if (!status)
		status = writer_write(&writer, data, dtype_compute(type->dtype), shape_count(&type->shape), diags);
	return status ? status : writer_end(&writer, diags);
}

enum { LOCAL_EXTRA = 20, CENTRAL_EXTRA = 28, ZIP_DATE = 0x21 /* 1 January 1980 */ };
enum { NEEDS_ZIP = 20, NEEDS_ZIP64 = 45, MADE_BY_UNIX = 3 << 8, FLAG_UTF8 = 0x800 };

struct saved_member {
	const char *name;
	int64_t offset, size;
	uint32_t crc;
};

struct npz_output {
	struct output *output;
	struct diags *diags;
	struct saved_member *members;
	struct zip_crc tables;
};

/* VALUE in BYTES bytes, little-endian; returns the place after it. */
static unsigned char *put_field(unsigned char *p, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		*p++ = (unsigned char)(value >> 8 * i & 0xff);
	return p;
}

/* As Python's zipfile does, a value beyond 31 bits goes to a 64-bit field, and its 32-bit field is all ones. */
static bool is_wide(int64_t value) { return value > INT32_MAX; }

static uint32_t field32(int64_t value) { return is_wide(value) ? UINT32_MAX : (uint32_t)value; }

static bool is_ascii(const char *name)
{
	while (*name && !(*name & 0x80))
		name++;
	return !*name;
}

/* The fields that local headers and directory entries share, from the version needed to the extra field's length. */
static unsigned char *put_shared_fields(unsigned char *p, const struct saved_member *m, int version, size_t extra)
{
	p = put_field(p, (uint64_t)version, 2);
	p = put_field(p, is_ascii(m->name) ? 0 : FLAG_UTF8, 2);
	p = put_field(p, 0, 2 + 2); /* stored, no time */
	p = put_field(p, ZIP_DATE, 2);
	p = put_field(p, m->crc, 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, strlen(m->name), 2);
	return put_field(p, extra, 2);
}

/* Writes the values of A in the form that files have; if CRC is given, only adds them to *CRC. */
static enum status put_values(struct npz_output *z, const struct named_array *a, uint32_t *crc)
{
	enum { BLOCK = 4096 };
	const size_t count = (size_t)shape_count(&a->type.shape), size = dtype_size(a->type.dtype);
	const bool half = a->type.dtype == DTYPE_F16 || a->type.dtype == DTYPE_BF16, swap = !convert_little_endian();
	const size_t step = half || swap ? BLOCK : count ? count : 1;
	_Alignas(64) unsigned char block[BLOCK * sizeof(double)];
	for (size_t done = 0; done < count; done += step) {
		size_t n = count - done < step ? count - done : step;
		const void *bytes = half || swap ? block : a->data;
		if (half)
			(a->type.dtype == DTYPE_F16 ? convert_f32_to_f16 : convert_f32_to_bf16)((void *)block,
			                                                                        (const float *)a->data + done, n);
		else if (swap)
			memcpy(block, (const char *)a->data + done * size, n * size);
		if (swap)
			convert_swap(block, size, n);
		enum status status = STATUS_OK;
		if (crc)
			*crc = zip_crc_add(&z->tables, *crc, bytes, n * size);
		else
			status = output_write(z->output, bytes, n * size, z->diags);
		if (status)
			return status;
	}
	return STATUS_OK;
}

static enum status put_member(struct npz_output *z, struct saved_member *m, const struct named_array *a)
{
	char header[NPY_HEADER_MOST];
	unsigned char local[ZIP_LOCAL_BYTES], extra[LOCAL_EXTRA], *p = extra;
	const size_t length = npy_make_header(&a->type, header);
	m->offset = z->output->offset;
	m->size = (int64_t)length + shape_count(&a->type.shape) * (int64_t)dtype_size(a->type.dtype);
	m->crc = zip_crc_add(&z->tables, 0, header, length);
	put_values(z, a, &m->crc);
	put_shared_fields(put_field(local, ZIP_LOCAL, 4), m, is_wide(m->size) ? NEEDS_ZIP64 : NEEDS_ZIP, LOCAL_EXTRA);
	p = put_field(p, 1, 2);
	p = put_field(p, 16, 2);
	p = put_field(p, (uint64_t)m->size, 8);
	put_field(p, (uint64_t)m->size, 8);
	enum status status = output_write(z->output, local, sizeof local, z->diags);
	if (!status)
		status = output_write(z->output, m->name, strlen(m->name), z->diags);
	if (!status)
		status = output_write(z->output, extra, sizeof extra, z->diags);
	if (!status)
		status = output_write(z->output, header, length, z->diags);
	return status ? status : put_values(z, a, NULL);
}

static enum status put_entry(struct npz_output *z, const struct saved_member *m)
{
	unsigned char header[ZIP_CENTRAL_BYTES], extra[CENTRAL_EXTRA], *p = header, *e = extra + 4;
	if (is_wide(m->size)) {
		e = put_field(e, (uint64_t)m->size, 8);
		e = put_field(e, (uint64_t)m->size, 8);
	}
	if (is_wide(m->offset))
		e = put_field(e, (uint64_t)m->offset, 8);
	const size_t extra_length = e == extra + 4 ? 0 : (size_t)(e - extra);
	const int version = extra_length ? NEEDS_ZIP64 : NEEDS_ZIP;
	put_field(put_field(extra, 1, 2), extra_length - 4, 2);
	p = put_field(p, ZIP_CENTRAL, 4);
	p = put_field(p, (uint64_t)version | MADE_BY_UNIX, 2);
	p = put_shared_fields(p, m, version, extra_length);
	p = put_field(p, 0, 2 + 2 + 2); /* no comment, the first disk, no attributes within */
	p = put_field(p, (uint64_t)0600 << 16, 4);
	put_field(p, field32(m->offset), 4);
	enum status status = output_write(z->output, header, sizeof header, z->diags);
	if (!status)
		status = output_write(z->output, m->name, strlen(m->name), z->diags);
	return status ? status : output_write(z->output, extra, extra_length, z->diags);
}

static enum status put_directory_end(struct npz_output *z, size_t count, int64_t central)
{
	enum { COUNT_MOST = 0xffff };
	unsigned char end[ZIP_END64_BYTES + ZIP_LOCATOR64_BYTES + ZIP_END_BYTES], *p = end;
	const int64_t at = z->output->offset, size = at - central;
	if (count >= COUNT_MOST || is_wide(size) || is_wide(central)) {
		p = put_field(p, ZIP_END64, 4);
		p = put_field(p, ZIP_END64_BYTES - 12, 8);
		p = put_field(p, NEEDS_ZIP64, 2);
		p = put_field(p, NEEDS_ZIP64, 2);
		p = put_field(p, 0, 4 + 4);
		p = put_field(p, count, 8);
		p = put_field(p, count, 8);
		p = put_field(p, (uint64_t)size, 8);
		p = put_field(p, (uint64_t)central, 8);
		p = put_field(p, ZIP_LOCATOR64, 4);
		p = put_field(p, 0, 4);
		p = put_field(p, (uint64_t)at, 8);
		p = put_field(p, 1, 4);
	}
	const uint64_t short_count = count < COUNT_MOST ? count : COUNT_MOST;
	p = put_field(p, ZIP_END, 4);
	p = put_field(p, 0, 4);
	p = put_field(p, short_count, 2);
	p = put_field(p, short_count, 2);
	p = put_field(p, field32(size), 4);
	p = put_field(p, field32(central), 4);
	p = put_field(p, 0, 2);
	return output_write(z->output, end, (size_t)(p - end), z->diags);
}

enum status npz_put(const struct context *context, struct output *output, const struct named_array *arrays,
                    size_t count)
{
	struct diags *diags = context->diags;
	struct npz_output z = {.output = output, .diags = diags};
	z.members = arena_array(context->arena, count + 1, sizeof *z.members);
	enum status status = z.members ? STATUS_OK : diag_memory(diags);
	zip_crc_init(&z.tables);
	for (size_t i = 0; i < count && !status; i++) {
		struct saved_member *m = &z.members[i];
		m->name = arena_printf(context->arena, "%s.npy", arrays[i].name);
		TRY_ALLOC(m->name, diags);
		if (strlen(m->name) > ZIP_NAME_MOST)
			return diag_file(diags, STATUS_LIMIT, output->name, -1, "a member's name is longer than 64 KiB");
		status = put_member(&z, m, &arrays[i]);
	}
	const int64_t central = output->offset;
	for (size_t i = 0; i < count && !status; i++)
		status = put_entry(&z, &z.members[i]);
	return status ? status : put_directory_end(&z, count, central);
}
