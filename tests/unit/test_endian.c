/*
 * Reading and writing on a machine of the other byte order. This file's own
 * convert_little_endian returns the opposite of the truth. So a file with the bytes of its
 * values reversed must be read as the right file is, and is what the writer makes.
 */
#include "save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "scratch.h"
#include "suite.h"

bool convert_little_endian(void)
{
	const uint16_t one = 1;
	unsigned char first;
	memcpy(&first, &one, 1);
	return first != 1;
}

static struct array array;
static char folder[] = "/tmp/test_endian.XXXXXX", path[200];
static _Alignas(8) unsigned char bytes[200000], got[200000], want[10000];

static void setup(void)
{
	scratch_setup();
	strcpy(folder, "/tmp/test_endian.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/file", folder);
}

static void teardown(void)
{
	array_free(&array, &allocator_system);
	scratch_teardown();
	unlink(path);
	rmdir(folder);
}

static void turn_around(unsigned char *values, size_t size, size_t length)
{
	for (size_t i = 0; i < length; i += size)
		for (size_t k = 0; k < size / 2; k++) {
			unsigned char kept = values[i + k];
			values[i + k] = values[i + size - 1 - k];
			values[i + size - 1 - k] = kept;
		}
}

/* The bytes before the values of an npy file of version 1.0. */
static size_t header_length(const unsigned char *npy) { return 10 + (npy[8] | (size_t)npy[9] << 8); }

static const struct {
	const char *name;
	size_t size;
} files[] = {{"f2-little", 2}, {"f2-big", 2}, {"f2-fortran", 2}, {"f4-little", 4}, {"f4-big", 4}, {"f4-fortran", 4},
             {"f8-little", 8}, {"f8-big", 8}, {"f8-fortran", 8}, {"i1-little", 1}, {"i1-big", 1}, {"i1-fortran", 1},
             {"i2-little", 2}, {"i2-big", 2}, {"i2-fortran", 2}, {"i4-little", 4}, {"i4-big", 4}, {"i4-fortran", 4},
             {"i8-little", 8}, {"i8-big", 8}, {"i8-fortran", 8}, {"b1-little", 1}, {"b1-big", 1}, {"b1-fortran", 1}};

/* Also as raw values: those of the files in C order and, there, of their order. */
START_TEST(arrays_are_read)
{
	size_t length = file_read(golden(files[_i].name, ".npy"), bytes, sizeof bytes), head = header_length(bytes);
	size_t known = file_read(golden(files[_i].name, ".want"), want, sizeof want);
	turn_around(bytes + head, files[_i].size, length - head);
	file_write(path, bytes, length);
	ck_assert_int_eq(array_load(&(struct loader){.cast = true, .context = &scratch}, &array, path, NULL), STATUS_OK);
	/* What is wanted is of the computing type, halves in their own. */
	const bool half = array.type.dtype == DTYPE_F16;
	const size_t count = (size_t)shape_count(&array.type.shape), size = half ? 2 : array.size / count;
	memcpy(got, array.data, array.size);
	if (half)
		convert_f32_to_f16((uint16_t *)(void *)got, array.data, count);
	if (convert_little_endian()) /* so this machine is not */
		turn_around(want + header_length(want), size, count * size);
	ck_assert_uint_eq(known, header_length(want) + count * size);
	ck_assert_int_eq(memcmp(got, want + header_length(want), count * size), 0);
	if (!strstr(files[_i].name, "little"))
		return;
	for (int shaped = 0; shaped < 2; shaped++) {
		struct input input;
		struct reader reader;
		struct reader_options options = {.format = FORMAT_RAW, .cast = true, .assume = array.type.dtype};
		options.raw = (struct type){array.type.dtype, {shaped ? array.type.shape.ndim : -1, {0}}};
		memcpy(options.raw.shape.dim, array.type.shape.dim, sizeof array.type.shape.dim);
		bool end;
		file_write(path, bytes + head, length - head);
		ck_assert_int_eq(input_open(&input, path, true, &arena, &diags), STATUS_OK);
		reader_init(&reader, &input, &options, &arena);
		ck_assert_int_eq(reader_next(&reader, &end, &diags), STATUS_OK);
		ck_assert_int_eq(reader_read(&reader, got, dtype_compute(array.type.dtype), reader.count, &diags), STATUS_OK);
		ck_assert_int_eq(memcmp(got, array.data, array.size), 0);
		reader_free(&reader);
		input_close(&input);
	}
}
END_TEST

START_TEST(tensors_are_read)
{
	static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
								 "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},"
								 "\"c\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[12,20]},"
								 "\"d\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[20,22]}}";
	const size_t head = 8 + sizeof header - 1;
	/* 1.5 and -2 as F32, 1 and -3 as BF16, 258 as I64, 7 and 8: the highest byte first, which here is right. */
	static const unsigned char values[] = {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0, 0x3f, 0x80, 0xc0,
	                                       0x40, 0,    0, 0, 0,    0, 0, 1, 2,    7,    8};
	static const struct {
		const char *name;
		double value[2];
		int count;
	} known[] = {{"a", {1.5, -2}, 2}, {"b", {1, -3}, 2}, {"c", {258}, 1}, {"d", {7, 8}, 2}};
	memset(bytes, 0, 8);
	bytes[0] = (sizeof header - 1) & 0xff;
	bytes[1] = (sizeof header - 1) >> 8;
	memcpy(bytes + 8, header, sizeof header - 1);
	memcpy(bytes + head, values, sizeof values);
	file_write(path, bytes, head + sizeof values);
	for (int i = 0; i < 4; i++) {
		array_free(&array, &allocator_system);
		ck_assert_int_eq(array_load(&(struct loader){.cast = false, .context = &scratch}, &array, path, known[i].name),
		                 STATUS_OK);
		for (int k = 0; k < known[i].count; k++)
			ck_assert(known[i].value[k] == (dtype_compute(array.type.dtype) == DTYPE_F32 ? ((float *)array.data)[k]
			                                                                             : ((double *)array.data)[k]));
	}
}
END_TEST

static const enum dtype written[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F64};

/* Several blocks of each type, in an archive (whose reader looks at the checksum) and alone. */
START_TEST(arrays_are_written)
{
	enum { COUNT = 10007 };
	static float single[COUNT];
	static double wide[COUNT];
	static uint16_t half[COUNT];
	const enum dtype dtype = written[_i];
	const struct type type = {dtype, {1, {COUNT}}};
	const size_t size = dtype_size(dtype);
	for (int i = 0; i < COUNT; i++)
		wide[i] = single[i] = (float)(i % 200) - 100; /* which each of the types has */
	(dtype == DTYPE_F16 ? convert_f32_to_f16 : convert_f32_to_bf16)(half, single, COUNT);
	const void *data = dtype == DTYPE_F64 ? (void *)wide : (void *)single;
	memcpy(bytes, dtype == DTYPE_F64 ? (void *)wide : dtype == DTYPE_F32 ? (void *)single : (void *)half, COUNT * size);
	turn_around(bytes, size, COUNT * size);

	ck_assert_int_eq(array_save(path, &type, data, &arena, &diags), STATUS_OK);
	size_t length = file_read(path, got, sizeof got);
	ck_assert_uint_eq(length, header_length(got) + COUNT * size);
	ck_assert_int_eq(memcmp(got + header_length(got), bytes, COUNT * size), 0);

	const struct named_array two[2] = {{"a", type, data, NULL, NULL}, {"b", type, data, NULL, NULL}};
	ck_assert_int_eq(npz_save(path, two, 2, &arena, &diags), STATUS_OK);
	length = file_read(path, got, sizeof got);
	const size_t local = 30 + strlen("a.npy") + 20, member = local + header_length(got + local) + COUNT * size;
	ck_assert_uint_gt(length, 2 * member);
	for (size_t i = 0; i < 2; i++) {
		const unsigned char *npy = got + i * member + local;
		ck_assert_int_eq(memcmp(npy, "\x93NUMPY", 6), 0);
		ck_assert_int_eq(memcmp(npy + header_length(npy), bytes, COUNT * size), 0);
	}
	ck_assert_int_eq(array_load(&(struct loader){.cast = false, .context = &scratch}, &array, path, "b"), STATUS_OK);
	ck_assert_int_eq(memcmp(array.data, data, array.size), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("endian");
	TCase *tcase = suite_make_case(suite, "endian");
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, arrays_are_read, 0, sizeof files / sizeof *files);
	tcase_add_test(tcase, tensors_are_read);
	tcase_add_loop_test(tcase, arrays_are_written, 0, sizeof written / sizeof *written);
	return suite_run(suite);
}
