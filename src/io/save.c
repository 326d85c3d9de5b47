/* Whole arrays to files: npy, and npz as numpy.savez makes it. */
#include "io/save.h"

#include <string.h>

#include "io/npy.h"

enum status array_put(struct output *output, const struct type *type, const void *data, struct arena *arena,
                      struct diags *diags)
{
	struct writer writer;
	struct writer_options options = {.format = FORMAT_NPY};
	writer_init(&writer, output, &options, arena);
	enum status status = writer_begin(&writer, type, diags);
	if (!status)
		status = writer_write(&writer, data, dtype_compute(type->dtype), shape_count(&type->shape), diags);
	return status ? status : writer_end(&writer, diags);
}

/*
 * npz: a zip archive of stored members, byte for byte what numpy.savez
 * makes (zip64 sizes in each local header, no time), which makes equal gradients
 * equal files. It is written in one pass from where the arrays are; libzip would
 * want a copy of each. Fields are those of PKWARE's APPNOTE 6.3.
 */

enum { LOCAL_HEADER = 30, LOCAL_EXTRA = 20, CENTRAL_HEADER = 46, ZIP_DATE = 0x21 /* 1 January 1980 */ };

struct member {
	int64_t offset, size;
	uint32_t crc;
};

struct npz_output {
	struct output *output;
	struct member *members;
	uint32_t table[8][256];
};

/* Tables for eight bytes at a time: table[k][b] is the remainder of byte b followed by k zero bytes. */
static void make_crc_table(uint32_t table[8][256])
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t c = b;
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
		table[0][b] = c;
	}
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 1; k < 8; k++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

static uint32_t add_crc(uint32_t table[8][256], uint32_t crc, const void *data, size_t size)
{
	const unsigned char *p = data;
	for (crc = ~crc; size >= 8; size -= 8, p += 8) {
		crc ^= p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		crc = table[7][crc & 0xff] ^ table[6][crc >> 8 & 0xff] ^ table[5][crc >> 16 & 0xff] ^ table[4][crc >> 24] ^
		      table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
	}
	while (size-- > 0)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

/* VALUE in BYTES bytes, little-endian; what comes after. */
static unsigned char *put_field(unsigned char *p, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		*p++ = (unsigned char)(value >> 8 * i & 0xff);
	return p;
}

/* Python's zipfile keeps to 31 bits; what is beyond stands in the zip64 extra field, and 32 bits say so. */
static bool is_wide(int64_t value) { return value > INT32_MAX; }

static uint32_t field32(int64_t value) { return is_wide(value) ? UINT32_MAX : (uint32_t)value; }

/*
 * The values of A as they stand in a file, a block at a time: into *CRC, or,
 * where CRC is NULL, into the output.
 */
static enum status put_values(struct npz_output *z, const struct named_array *a, uint32_t *crc, struct diags *diags)
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
			*crc = add_crc(z->table, *crc, bytes, n * size);
		else
			status = output_write(z->output, bytes, n * size, diags);
		if (status)
			return status;
	}
	return STATUS_OK;
}

static bool is_ascii(const char *name)
{
	while (*name && !(*name & 0x80))
		name++;
	return !*name;
}

static enum status put_member(struct npz_output *z, size_t i, const char *name, const struct named_array *a,
                              struct diags *diags)
{
	char header[NPY_HEADER_MOST];
	unsigned char local[LOCAL_HEADER + LOCAL_EXTRA], *p = local;
	size_t length = npy_make_header(&a->type, header), name_length = strlen(name);
	struct member *m = &z->members[i];
	m->offset = z->output->offset;
	m->size = (int64_t)length + shape_count(&a->type.shape) * (int64_t)dtype_size(a->type.dtype);
	m->crc = add_crc(z->table, 0, header, length);
	put_values(z, a, &m->crc, diags);
	p = put_field(p, 0x04034b50, 4);
	p = put_field(p, is_wide(m->size) ? 45 : 20, 2); /* the version of the format that is wanted */
	p = put_field(p, is_ascii(name) ? 0 : 0x800, 2);
	p = put_field(p, 0, 2); /* stored */
	p = put_field(p, 0, 2);
	p = put_field(p, ZIP_DATE, 2);
	p = put_field(p, m->crc, 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, name_length, 2);
	put_field(p, LOCAL_EXTRA, 2);
	unsigned char *extra = local + LOCAL_HEADER;
	extra = put_field(extra, 1, 2);
	extra = put_field(extra, 16, 2);
	extra = put_field(extra, (uint64_t)m->size, 8);
	put_field(extra, (uint64_t)m->size, 8);
	enum status status = output_write(z->output, local, LOCAL_HEADER, diags);
	if (!status)
		status = output_write(z->output, name, name_length, diags);
	if (!status)
		status = output_write(z->output, local + LOCAL_HEADER, LOCAL_EXTRA, diags);
	if (!status)
		status = output_write(z->output, header, length, diags);
	return status ? status : put_values(z, a, NULL, diags);
}

static enum status put_central(struct npz_output *z, size_t i, const char *name, struct diags *diags)
{
	const struct member *m = &z->members[i];
	unsigned char header[CENTRAL_HEADER], extra[4 + 24], *p = header, *e = extra + 4;
	if (is_wide(m->size)) {
		e = put_field(e, (uint64_t)m->size, 8);
		e = put_field(e, (uint64_t)m->size, 8);
	}
	if (is_wide(m->offset))
		e = put_field(e, (uint64_t)m->offset, 8);
	size_t extra_length = e == extra + 4 ? 0 : (size_t)(e - extra);
	put_field(put_field(extra, 1, 2), extra_length - 4, 2);
	p = put_field(p, 0x02014b50, 4);
	int version = extra_length ? 45 : 20;
	p = put_field(p, (uint64_t)version | 3 << 8, 2); /* made by unix */
	p = put_field(p, (uint64_t)version, 2);
	p = put_field(p, is_ascii(name) ? 0 : 0x800, 2);
	p = put_field(p, 0, 2);
	p = put_field(p, 0, 2);
	p = put_field(p, ZIP_DATE, 2);
	p = put_field(p, m->crc, 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, strlen(name), 2);
	p = put_field(p, extra_length, 2);
	p = put_field(p, 0, 2 + 2 + 2); /* no comment, the first disk, no attributes within */
	p = put_field(p, (uint64_t)0600 << 16, 4);
	put_field(p, field32(m->offset), 4);
	enum status status = output_write(z->output, header, CENTRAL_HEADER, diags);
	if (!status)
		status = output_write(z->output, name, strlen(name), diags);
	return status ? status : output_write(z->output, extra, extra_length, diags);
}

static enum status put_end(struct npz_output *z, size_t count, int64_t central, struct diags *diags)
{
	unsigned char end[56 + 20 + 22], *p = end;
	int64_t at = z->output->offset, size = at - central;
	if (count >= 0xffff || is_wide(size) || is_wide(central)) {
		p = put_field(p, 0x06064b50, 4);
		p = put_field(p, 44, 8);
		p = put_field(p, 45, 2);
		p = put_field(p, 45, 2);
		p = put_field(p, 0, 4 + 4);
		p = put_field(p, count, 8);
		p = put_field(p, count, 8);
		p = put_field(p, (uint64_t)size, 8);
		p = put_field(p, (uint64_t)central, 8);
		p = put_field(p, 0x07064b50, 4);
		p = put_field(p, 0, 4);
		p = put_field(p, (uint64_t)at, 8);
		p = put_field(p, 1, 4);
	}
	uint64_t short_count = count < 0xffff ? count : 0xffff;
	p = put_field(p, 0x06054b50, 4);
	p = put_field(p, 0, 4);
	p = put_field(p, short_count, 2);
	p = put_field(p, short_count, 2);
	p = put_field(p, field32(size), 4);
	p = put_field(p, field32(central), 4);
	p = put_field(p, 0, 2);
	return output_write(z->output, end, (size_t)(p - end), diags);
}

static enum status put_archive(struct npz_output *z, const struct named_array *arrays, size_t count,
                               struct arena *arena, struct diags *diags)
{
	const char **names = arena_array(arena, count + 1, sizeof *names);
	z->members = arena_array(arena, count + 1, sizeof *z->members);
	enum status status = names && z->members ? STATUS_OK : diag_memory(diags);
	make_crc_table(z->table);
	for (size_t i = 0; i < count && !status; i++) {
		names[i] = arena_printf(arena, "%s.npy", arrays[i].name);
		if (!names[i])
			return diag_memory(diags);
		if (strlen(names[i]) > 0xffff)
			return diag_file(diags, STATUS_LIMIT, z->output->name, -1, "a member's name is longer than 64 KiB");
		status = put_member(z, i, names[i], &arrays[i], diags);
	}
	int64_t central = z->output->offset;
	for (size_t i = 0; i < count && !status; i++)
		status = put_central(z, i, names[i], diags);
	return status ? status : put_end(z, count, central, diags);
}

enum status npz_put(struct output *output, const struct named_array *arrays, size_t count, struct arena *arena,
                    struct diags *diags)
{
	struct npz_output archive = {.output = output};
	return put_archive(&archive, arrays, count, arena, diags);
}
