/* Whole arrays from npy, npz, safetensors and text; gradients out, byte for byte as NumPy saves them. */
#include "failing.h"
#include "save.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "io/formats.h"
#include "io/json.h"
#include "scratch.h"
#include "suite.h"

static char folder[] = "/tmp/test_load.XXXXXX", path[200];

static struct failing counts;
static const struct allocator counting = {.resize = failing_resize, .context = &counts};

static void setup(void)
{
	memset(&counts, 0, sizeof counts);
	scratch_begin(&counting);
	strcpy(folder, "/tmp/test_load.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/file", folder);
}

static void teardown(void)
{
	scratch_teardown();
	ck_assert_int_eq(counts.live, 0);
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0); /* nothing else is left */
}

static struct array array;

static enum status load(const char *name, const char *key)
{
	struct loader loader = {.context = &scratch};
	return array_load(&loader, &array, name, key);
}

START_TEST(npy_and_text)
{
	ck_assert_int_eq(load(golden("f4-big.npy", ""), NULL), STATUS_OK);
	ck_assert(type_equal(&array.type, &(struct type){DTYPE_F32, {2, {3, 5}}}));
	ck_assert_uint_eq(array.size, 60);
	char want[1000];
	size_t n = file_read(golden("f4-big.want", ""), want, sizeof want);
	ck_assert_int_eq(memcmp(want + n - 60, array.data, 60), 0);
	array_free(&array, &counting);
	file_write(path, "1 2\n3 4\n", 8);
	ck_assert_int_eq(load(path, NULL), STATUS_OK);
	ck_assert(type_equal(&array.type, &(struct type){DTYPE_F64, {2, {2, 2}}}));
	ck_assert(((double *)array.data)[3] == 4);
	array_free(&array, &counting);
	ck_assert_int_eq(load(path, "key"), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "is neither npz nor safetensors, so it has no 'key'");
	/* Two arrays are one too many. */
	char two[2000];
	n = file_read(golden("f4-big.npy", ""), two, 1000);
	memcpy(two + n, two, n);
	file_write(path, two, 2 * n);
	ck_assert_int_eq(load(path, NULL), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "holds more than one array");
	if (!suite_lacks("/dev/zero")) {
		ck_assert_int_eq(load("/dev/zero", NULL), STATUS_IO);
		ck_assert_str_eq(scratch_message(), "not a regular file");
	}
	ck_assert_int_eq(load("/nowhere/at/all", NULL), STATUS_IO);
}
END_TEST

/* Of a file that has been loaded no look-ahead is left. */
START_TEST(many_files)
{
	size_t live = 0;
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(load(golden("f4-big.npy", ""), NULL), STATUS_OK);
		array_free(&array, &counting);
		live = i == 0 ? counts.live : live;
	}
	ck_assert_uint_lt(counts.live, live + 10000);
}
END_TEST

START_TEST(npz_members)
{
	static const char *const keys[] = {"W", "W.npy"};
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(load(golden("two.npz", ""), keys[i]), STATUS_OK);
		ck_assert(type_equal(&array.type, &(struct type){DTYPE_F32, {2, {2, 3}}}));
		ck_assert(((float *)array.data)[5] == 5);
		array_free(&array, &counting);
	}
	ck_assert_int_eq(load(golden("deflated.npz", ""), "W"), STATUS_OK);
	ck_assert(type_equal(&array.type, &(struct type){DTYPE_F64, {2, {100, 100}}}));
	array_free(&array, &counting);
	ck_assert_int_eq(load(golden("deflated.npz", ""), "b"), STATUS_OK);
	ck_assert_int_eq(array.type.shape.ndim, 0);
	ck_assert(*(double *)array.data == 2.5);
	array_free(&array, &counting);
	ck_assert_int_eq(load(golden("two.npz", ""), NULL), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "has 2 members, and no name chooses one");
	const char *hint = "its members: W, b; load(\"FILE\", \"NAME\") or --param NAME=FILE:NAME chooses one";
	ck_assert_str_eq(scratch_hint(), hint);
	ck_assert_int_eq(load(golden("two.npz", ""), "VVVV"), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "has no member 'VVVV'");
	ck_assert_str_eq(scratch_hint(), hint);
	ck_assert_int_eq(load(golden("two.npz", ""), "w"), STATUS_DATA);
	ck_assert_str_eq(scratch_hint(), "did you mean 'W'? Its members: W, b");
}
END_TEST

/* Any byte of an archive may be wrong: an error, or values that its checksum vouches for. */
START_TEST(damaged_npz)
{
	static char good[20000], bad[20000];
	size_t n = file_read(golden(_i ? "deflated.npz" : "two.npz", ""), good, sizeof good);
	for (size_t at = 0; at < n; at += 3) {
		memcpy(bad, good, n);
		bad[at] ^= 0x55;
		file_write(path, bad, n);
		enum status status = load(path, "W");
		ck_assert(status == STATUS_OK || status == STATUS_DATA || status == STATUS_LIMIT);
		array_free(&array, &counting);
	}
	for (size_t length = 0; length < n; length += 5) {
		file_write(path, good, length);
		ck_assert_int_ne(load(path, "W"), STATUS_OK);
	}
}
END_TEST

/* A compressed member that ends before the size which the directory gives it. */
START_TEST(short_member)
{
	enum { SIZE = 24 }; /* where it stands in the directory's entry */
	static char bytes[20000];
	size_t n = file_read(golden("deflated.npz", ""), bytes, sizeof bytes);
	char *entry = memmem(bytes, n, "PK\1\2", 4);
	ck_assert_ptr_nonnull(entry);
	entry[SIZE + 1]++;
	file_write(path, bytes, n);
	ck_assert_int_eq(load(path, "W"), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "member 'W.npy' is damaged: it ends after 80128 of 80384 bytes");
}
END_TEST

/* A byte of an archive that is replaced, counted from SIGNATURE, and what is then said of it. */
static const struct {
	const char *signature;
	int at;
	char byte;
	const char *message;
} altered[] = {
	{"PK\1\2", 8, 1, "member 'W.npy' is encrypted"},
	{"PK\1\2", 10, 12, "member 'W.npy' is compressed by bzip2, which ckptc does not read"},
	{"PK\1\2", 10, 14, "member 'W.npy' is compressed by lzma, which ckptc does not read"},
	{"PK\1\2", 10, 93, "member 'W.npy' is compressed by zstd, which ckptc does not read"},
	{"PK\1\2", 10, 6, "member 'W.npy' is compressed by method 6, which ckptc does not read"},
	{"PK\1\2", 16, 0, "member 'W.npy' is damaged: its checksum is wrong"},
	{"PK\1\2", 24, 0, "not a readable npz: its directory is damaged"}, /* two sizes of a stored member */
	{"PK\1\2", 44, 1, "not a readable npz: its directory is damaged"}, /* beyond the file */
	{"PK\1\2", 42, 1, "member 'W.npy' is damaged: it is not where the directory says"},
	{"PK\1\2", 2, 9, "not a readable npz: its directory is damaged"},
	{"PK\3\4", 29, 127, "member 'W.npy' is damaged: it is not where the directory says"},
	{"PK\5\6", 10, 9, "not a readable npz: its directory is beyond the bytes before its end"},
	{"PK\5\6", 18, 1, "not a readable npz: its directory is beyond the bytes before its end"},
	{"PK\5\6", 2, 9, "not a readable npz: it has no zip directory at its end"},
	{"PK\5\6", 20, 1, "not a readable npz: it has no zip directory at its end"}, /* a comment that is cut off */
};

START_TEST(altered_npz)
{
	static char bytes[20000];
	size_t n = file_read(golden("two.npz", ""), bytes, sizeof bytes);
	char *record = memmem(bytes, n, altered[_i].signature, 4);
	ck_assert_ptr_nonnull(record);
	record[altered[_i].at] = altered[_i].byte;
	file_write(path, bytes, n);
	ck_assert_int_eq(load(path, "W"), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), altered[_i].message);
}
END_TEST

/* A comment may follow the directory's end. */
START_TEST(npz_with_a_comment)
{
	static char bytes[100000];
	size_t n = file_read(golden("two.npz", ""), bytes, sizeof bytes);
	memset(bytes + n, 'P', 65535);
	file_write(path, bytes, n + 65535);
	ck_assert_int_eq(load(path, "W"), STATUS_OK);
	array_free(&array, &counting);
	file_write(path, bytes, n + 65536); /* no comment is that long */
	ck_assert_int_eq(load(path, "W"), STATUS_DATA);
}
END_TEST

/* Beyond 65534 members the directory's end has 64 bits. */
START_TEST(npz_of_many_members)
{
	enum { MANY = 65537 };
	static struct named_array arrays[MANY];
	static char names[MANY][16];
	static const double values[2] = {3, 4};
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "m%d", i);
		arrays[i] = (struct named_array){names[i], {DTYPE_F64, {0}}, &values[i == MANY - 1], NULL, NULL};
	}
	ck_assert_int_eq(npz_save(path, arrays, MANY, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(load(path, "m65536"), STATUS_OK);
	ck_assert(*(double *)array.data == 4);
	array_free(&array, &counting);
}
END_TEST

static void write_tensors(const char *header, const void *data, size_t size)
{
	static char bytes[10000];
	size_t n = strlen(header);
	for (int i = 0; i < 8; i++)
		bytes[i] = (char)(n >> 8 * i & 0xff);
	memcpy(bytes + 8, header, n);
	memcpy(bytes + 8 + n, data, size);
	file_write(path, bytes, 8 + n + size);
}

START_TEST(safetensors)
{
	static const float values[6] = {1, 2, 3, 4, 5, 6};
	static const char header[] =
		"{\"__metadata__\":{\"by\":\"me\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
		"\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[16,20]},"
		"\"c\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[20,24]},"
		"\"e\":{\"dtype\":\"F64\",\"shape\":[0,3],\"data_offsets\":[24,24]}}   ";
	write_tensors(header, values, 24);
	ck_assert_int_eq(load(path, "a"), STATUS_OK);
	ck_assert(type_equal(&array.type, &(struct type){DTYPE_F32, {2, {2, 2}}}));
	ck_assert_int_eq(memcmp(array.data, values, 16), 0);
	array_free(&array, &counting);
	ck_assert_int_eq(load(path, "b"), STATUS_OK);
	ck_assert_int_eq(array.type.dtype, DTYPE_BF16);
	ck_assert(((float *)array.data)[1] == 5.0f && ((float *)array.data)[0] == 0.0f); /* 5.0f is 0x40a00000 */
	array_free(&array, &counting);
	ck_assert_int_eq(load(path, "c"), STATUS_OK);
	ck_assert(*(double *)array.data == 0x40c00000);
	array_free(&array, &counting);
	ck_assert_int_eq(load(path, "e"), STATUS_OK);
	ck_assert_int_eq(array.type.shape.dim[1], 3);
	array_free(&array, &counting);
	ck_assert_int_eq(load(path, "x"), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "has no tensor 'x'");
	ck_assert_ptr_nonnull(strstr(scratch_hint(), "a"));
	ck_assert_int_eq(load(path, NULL), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "has 4 tensors, and no name chooses one");
	write_tensors("{\"only\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", values, 4);
	ck_assert_int_eq(load(path, NULL), STATUS_OK);
	array_free(&array, &counting);
}
END_TEST

/* An archive stays open as it was while others are loaded, and is closed when many have been. */
START_TEST(archives_are_kept)
{
	static const char *const headers[] = {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
	                                      "{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"};
	static const float values[2] = {1, 2};
	struct loader loader = {.context = &scratch};
	char other[LOADER_KEPT][220];
	write_tensors(headers[0], values, sizeof values);
	ck_assert_int_eq(loader_load(&loader, &array, path, "a"), STATUS_OK);
	array_free(&array, &counting);
	unlink(path);
	write_tensors(headers[1], values, sizeof values);
	for (int i = 0; i < LOADER_KEPT; i++) {
		ck_assert_int_eq(loader_load(&loader, &array, path, "a"), STATUS_OK);
		ck_assert_int_eq(memcmp(array.data, values, sizeof values), 0);
		array_free(&array, &counting);
		snprintf(other[i], sizeof other[i], "%s%.*s", folder, i + 2, "/////////////////");
		strcat(other[i], "file");
		ck_assert_int_eq(loader_load(&loader, &array, other[i], "b"), STATUS_OK);
		array_free(&array, &counting);
	}
	ck_assert_int_eq(loader_load(&loader, &array, path, "a"), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "has no tensor 'a'");
	ck_assert_int_eq(loader_load(&loader, &array, golden("two.npz", ""), "W"), STATUS_OK);
	array_free(&array, &counting);
	ck_assert_int_eq(loader_load(&loader, &array, golden("two.npz", ""), "b"), STATUS_OK);
	array_free(&array, &counting);
	loader_close(&loader);
}
END_TEST

/* With standard descriptors closed, no archive may come to be one. */
START_TEST(archives_keep_off_standard_descriptors)
{
	struct loader loader = {.context = &scratch};
	const char *file = golden("two.npz", "");
	int kept[3], taken = 0;
	for (int fd = 0; fd < 3; fd++) {
		kept[fd] = fcntl(fd, F_DUPFD, 10);
		close(fd);
	}
	const enum status status = loader_load(&loader, &array, file, "W");
	for (int fd = 0; fd < 3; fd++) {
		taken += fcntl(fd, F_GETFD) >= 0;
		dup2(kept[fd], fd);
		close(kept[fd]);
	}
	ck_assert_int_eq(status, STATUS_OK);
	ck_assert_int_eq(taken, 0);
	array_free(&array, &counting);
	loader_close(&loader);
}
END_TEST

/* Where types are enough no data is read that is not there for them, whatever the file. */
START_TEST(types_alone)
{
	struct loader loader = {.types = true, .context = &scratch};
	char bytes[2000];
	file_read(golden("f4-big.npy", ""), bytes, 1000);
	file_write(path, bytes, 128);
	ck_assert_int_eq(loader_load(&loader, &array, path, NULL), STATUS_OK);
	ck_assert(type_equal(&array.type, &(struct type){DTYPE_F32, {2, {3, 5}}}));
	ck_assert_ptr_null(array.data);
	write_tensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", bytes, 8);
	ck_assert_int_eq(loader_load(&loader, &array, path, "a"), STATUS_OK);
	ck_assert(type_equal(&array.type, &(struct type){DTYPE_F32, {1, {2}}}));
	ck_assert_ptr_null(array.data);
	loader_close(&loader);
}
END_TEST

/* A value is found by its path; where it is missing, or its key has an escape, the nearest value around it is. */
START_TEST(places_in_json)
{
	static const char text[] = "\n {\"a\": [1, {\"b\" : \"]}\\\"\", \"c\":\n[[], 2 ]}], \"\\u0064\": 3}";
	const struct source source = {"x", text, sizeof text - 1};
	const struct json_path a = {NULL, "a", 0}, second = {&a, NULL, 1}, b = {&second, "b", 0}, c = {&second, "c", 0};
	const struct json_path two = {&c, NULL, 1}, none = {&c, NULL, 2}, escaped = {NULL, "d", 0};
	const struct {
		const struct json_path *path;
		uint32_t line, column, end;
		const char *message;
	} places[] = {{NULL, 2, 2, 3, "wrong"},
	              {&a, 2, 3, 6, "wrong"},
	              {&second, 2, 12, 13, "a[1]: wrong"},
	              {&b, 2, 13, 16, "a[1]: wrong"},
	              {&c, 2, 27, 30, "a[1]: wrong"},
	              {&two, 3, 6, 7, "a[1].c[1]: wrong"},
	              {&none, 2, 27, 30, "a[1].c[2]: wrong"},
	              {&escaped, 2, 2, 3, "wrong"}};
	struct json_text json;
	ck_assert_int_eq(json_open(&json, &source, -1, &scratch), STATUS_OK);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		ck_assert_int_eq(json_wrong(&json, places[i].path, STATUS_DATA, "wrong"), STATUS_DATA);
		ck_assert_str_eq(scratch_message(), places[i].message);
		ck_assert_uint_eq(diags.last->span.line, places[i].line);
		ck_assert_uint_eq(diags.last->span.column, places[i].column);
		ck_assert_uint_eq(diags.last->span.end - diags.last->span.begin, places[i].end - places[i].column);
	}
	json_close(&json);
	/* In a file's header messages count the file's bytes. */
	ck_assert_int_eq(json_open(&json, &source, 8, &scratch), STATUS_OK);
	ck_assert_int_eq(json_wrong(&json, &a, STATUS_DATA, "wrong"), STATUS_DATA);
	ck_assert_int_eq(diags.last->offset, 8 + 3);
	json_close(&json);
}
END_TEST

#define TENSOR(NAME, TYPE, SHAPE, OFFSETS)                                                                             \
	"\"" NAME "\":{\"dtype\":\"" TYPE "\",\"shape\":" SHAPE ",\"data_offsets\":" OFFSETS "}"
static const struct {
	const char *header, *message;
} wrong[] = {
	{"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[4,12]") "}", "tensors 'a' and 'b' overlap"},
	{"{" TENSOR("a", "F32", "[7]", "[0,28]") "}", "tensor 'a': its offsets do not fit its type or the file"},
	{"{" TENSOR("a", "F32", "[2]", "[0,12]") "}", "tensor 'a': its offsets do not fit its type or the file"},
	{"{" TENSOR("a", "F32", "[2]", "[8,0]") "}", "tensor 'a': its offsets do not fit its type or the file"},
	{"{" TENSOR("a", "F32", "[2]", "[-8,0]") "}", "tensor 'a': its offsets do not fit its type or the file"},
	{"{" TENSOR("a", "F32", "[4611686018427387904,4]", "[0,0]") "}",
     "tensor 'a': its offsets do not fit its type or the file"},
	{"{" TENSOR("a", "F32", "[4611686018427387904]", "[0,0]") "}",
     "tensor 'a': its offsets do not fit its type or the file"},
	{"{" TENSOR("a", "F8_E4M3", "[24]", "[0,24]") "}", "tensor 'a': type 'F8_E4M3' is not supported"},
	{"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", "trailing bytes after the tensors"},
	{"{" TENSOR("a", "F32", "[2]", "[16,24]") "}", "bytes without a tensor before 'a'"},
	{"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[16,24]") "}",
     "bytes without a tensor before 'b'"},
	{"{}", "trailing bytes after the tensors"},
	{"{\"a\":{\"dtype\":\"F32\"}}", "tensor 'a': dtype, shape and data_offsets must be there"},
	{"{\"a\":7}", "tensor 'a': dtype, shape and data_offsets must be there"},
	{"{" TENSOR("a", "F32", "[-1]", "[0,4]") "}", "tensor 'a': dtype, shape and data_offsets must be there"},
	{"{" TENSOR("a", "F32", "[1.5]", "[0,4]") "}", "tensor 'a': dtype, shape and data_offsets must be there"},
	{"{\"a\"", NULL},
	{"{", NULL},
	{"{\"a\":1,\"a\":1}", NULL},
	{"[1]", "the safetensors header must be an object { ... }"},
};

START_TEST(wrong_safetensors)
{
	static const float values[6] = {1, 2, 3, 4, 5, 6};
	snprintf(path, sizeof path, "%s/x.safetensors", folder);
	write_tensors(wrong[_i].header, values, 24);
	ck_assert_int_eq(load(path, "a"), STATUS_DATA);
	if (wrong[_i].message)
		ck_assert_str_eq(scratch_message(), wrong[_i].message);
	else
		ck_assert_int_eq(strncmp(scratch_message(), "not valid JSON: ", 16), 0);
}
END_TEST

START_TEST(headers_of_safetensors)
{
	char bytes[100] = "\xff\xff\xff\xff\xff\xff\xff\x7f{}";
	snprintf(path, sizeof path, "%s/x.safetensors", folder);
	file_write(path, bytes, 10);
	ck_assert_int_eq(load(path, "a"), STATUS_DATA);
	/* Too short for the length of a header, even empty. */
	for (size_t n = 0; n < 8; n++) {
		file_write(path, bytes, n);
		ck_assert_int_eq(load(path, "a"), STATUS_DATA);
		ck_assert_str_eq(scratch_message(), "truncated safetensors header");
	}
	/* Beyond the limit, in a file that could hold it. */
	memcpy(bytes, "\x01\xe1\xf5\x05\0\0\0\0{", 9);
	file_write(path, bytes, 9);
	ck_assert_int_eq(truncate(path, 200000000), 0);
	ck_assert_int_eq(load(path, "a"), STATUS_LIMIT);
}
END_TEST

/* An int64 beyond 2^53 is an error in each kind of file, unless cast. */
START_TEST(large_integers)
{
	int64_t value = (INT64_C(1) << 53) + 1;
	write_tensors("{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", &value, 8);
	ck_assert_int_eq(load(path, "a"), STATUS_DATA);
	ck_assert_int_eq(array_load(&(struct loader){.cast = true, .context = &scratch}, &array, path, "a"), STATUS_OK);
	array_free(&array, &counting);
	/* npz: a stored member whose npy is put in by hand would want its checksum, so NumPy made it. */
	ck_assert_int_eq(load(golden("large.npz", ""), "n"), STATUS_DATA);
	ck_assert_str_eq(scratch_message(), "element 1 is an integer beyond 2^53, which f64 does not hold");
	ck_assert_int_eq(
		array_load(&(struct loader){.cast = true, .context = &scratch}, &array, golden("large.npz", ""), "n"),
		STATUS_OK);
	array_free(&array, &counting);
}
END_TEST

static const float weights[6] = {0, 1, 2, 3, 4, 5};
static const double bias = 2.5;
static const struct named_array two[2] = {{"W", {DTYPE_F32, {2, {2, 3}}}, weights, NULL, NULL},
                                          {"b", {DTYPE_F64, {0, {0}}}, &bias, NULL, NULL}};

/* Returns the CRC-32 of SIZE bytes after those of CRC, bit by bit. */
static uint32_t crc_by_bits(uint32_t crc, const unsigned char *p, size_t size)
{
	crc = ~crc;
	for (size_t i = 0; i < 8 * size; i++)
		crc = crc >> 1 ^ ((crc ^ p[i / 8] >> i % 8) & 1 ? 0xedb88320u : 0);
	return ~crc;
}

/* Every length around those of the vectors, from any place, in one part and in two. */
START_TEST(checksums)
{
	struct zip_crc tables;
	unsigned char bytes[1400];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)(i * i * 7 + i / 3 + 0x5a);
	zip_crc_init(&tables);
	ck_assert_uint_eq(zip_crc_add(&tables, 0, "123456789", 9), 0xcbf43926u);
	for (size_t size = 0; size <= sizeof bytes - 20; size++) {
		const unsigned char *p = bytes + size % 17;
		const uint32_t want = crc_by_bits(0, p, size), first = zip_crc_add(&tables, 0, p, size / 3);
		ck_assert_uint_eq(zip_crc_add(&tables, 0, p, size), want);
		ck_assert_uint_eq(zip_crc_add(&tables, first, p + size / 3, size - size / 3), want);
		ck_assert_uint_eq(zip_crc_join(first, crc_by_bits(0, p + size / 3, size - size / 3), size - size / 3), want);
	}
}
END_TEST

START_TEST(npz_as_numpy_saves_it)
{
	char want[2000], got[2000];
	size_t n = file_read(golden("two.npz", ""), want, sizeof want);
	ck_assert_int_eq(npz_save(path, two, 2, &arena, &diags), STATUS_OK);
	ck_assert_uint_eq(file_read(path, got, sizeof got), n);
	ck_assert_int_eq(memcmp(got, want, n), 0);
	ck_assert_int_eq(load(path, "b"), STATUS_OK);
	ck_assert(*(double *)array.data == 2.5);
	array_free(&array, &counting);
	/* No arrays: an archive still. */
	ck_assert_int_eq(npz_save(path, NULL, 0, &arena, &diags), STATUS_OK);
	ck_assert_uint_eq(file_read(path, got, sizeof got), 22);
	if (suite_lacks("/dev/full"))
		return;
	ck_assert_int_eq(npz_save("/dev/full", two, 2, &arena, &diags), STATUS_IO);
	ck_assert_str_eq(scratch_message(), "cannot write: No space left on device");
}
END_TEST

/* Every type, quotes and control bytes in names, no tensors: what is saved is what is loaded. */
START_TEST(tensors_saved_and_loaded)
{
	static const double doubles[2] = {1, 1e300};
	static const char metadata[] = "{\"by\":\"me\"}";
	const struct named_array arrays[] = {{"h", {DTYPE_F16, {2, {3, 1}}}, weights, NULL, NULL},
	                                     {"q\"\\\n", {DTYPE_BF16, {1, {5}}}, weights, NULL, NULL},
	                                     {"none", {DTYPE_F32, {2, {0, 3}}}, weights, NULL, NULL},
	                                     {"w", {DTYPE_F32, {2, {2, 3}}}, weights, NULL, NULL},
	                                     {"d", {DTYPE_F64, {1, {2}}}, doubles, NULL, NULL}};
	enum { COUNT = sizeof arrays / sizeof *arrays };
	for (int count = 0; count <= COUNT; count++) {
		ck_assert_int_eq(tensors_save(path, arrays, (size_t)count, count % 2 ? metadata : NULL, &arena, &diags),
		                 STATUS_OK);
		struct loader loader = {.context = &scratch};
		const char *const *names, *kept;
		size_t found;
		ck_assert_int_eq(loader_names(&loader, path, &names, &found), STATUS_OK);
		ck_assert_uint_eq(found, (size_t)count);
		ck_assert_int_eq(tensors_metadata(&loader, path, &kept), STATUS_OK);
		ck_assert_pstr_eq(kept, count % 2 ? metadata : NULL);
		for (int i = 0; i < count; i++) {
			ck_assert_int_eq(loader_load(&loader, &array, path, arrays[i].name), STATUS_OK);
			ck_assert(type_equal(&array.type, &arrays[i].type));
			const size_t size = dtype_size(dtype_compute(array.type.dtype)) * (size_t)shape_count(&array.type.shape);
			ck_assert_int_eq(memcmp(array.data, arrays[i].data, size), 0);
			array_free(&array, &counting);
		}
		loader_close(&loader);
	}
	if (suite_lacks("/dev/full"))
		return;
	ck_assert_int_eq(tensors_save("/dev/full", arrays, COUNT, NULL, &arena, &diags), STATUS_IO);
}
END_TEST

/* The bytes are those of safetensors.numpy.save_file (safetensors 0.4 to 0.8). */
START_TEST(tensors_as_the_package_saves_them)
{
	static const char header[] = "p\0\0\0\0\0\0\0{\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
								 "\"W\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]}}   ";
	char got[400];
	ck_assert_int_eq(tensors_save(path, two, 2, NULL, &arena, &diags), STATUS_OK);
	ck_assert_uint_eq(file_read(path, got, sizeof got), sizeof header - 1 + 32);
	ck_assert_int_eq(memcmp(got, header, sizeof header - 1), 0);
	ck_assert_int_eq(memcmp(got + sizeof header - 1, &bias, 8), 0);
	ck_assert_int_eq(memcmp(got + sizeof header + 7, weights, 24), 0);
}
END_TEST

START_TEST(members_are_names)
{
	ck_assert(member_is("a", "a") && member_is("a.b/c_d", "a_b_c_d") && member_is(".", "_"));
	ck_assert(!member_is("a", "ab") && !member_is("ab", "a") && !member_is("", "_") && !member_is("a", "_"));
	ck_assert(!member_is("a_b", "a.b"));
}
END_TEST

/* Large and odd sizes, halves, names beyond ASCII: what is saved is what is loaded. */
START_TEST(saved_and_loaded)
{
	static float values[10007];
	for (int i = 0; i < 10007; i++)
		values[i] = (float)(i % 2000) - 1000;
	struct named_array arrays[3] = {{"h", {DTYPE_F16, {1, {10007}}}, values, NULL, NULL},
	                                {"\xc3\xbc", {DTYPE_F32, {2, {10007, 1}}}, values, NULL, NULL},
	                                {"none", {DTYPE_F32, {1, {0}}}, values, NULL, NULL}};
	ck_assert_int_eq(npz_save(path, arrays, 3, &arena, &diags), STATUS_OK);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(load(path, arrays[i].name), STATUS_OK);
		ck_assert(type_equal(&array.type, &arrays[i].type));
		ck_assert_int_eq(memcmp(array.data, values, i == 2 ? 0 : sizeof values), 0);
		array_free(&array, &counting);
	}
	ck_assert_int_eq(array_save(path, &arrays[1].type, values, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(load(path, NULL), STATUS_OK);
	ck_assert_int_eq(memcmp(array.data, values, sizeof values), 0);
	array_free(&array, &counting);
	if (!suite_lacks("/dev/full"))
		ck_assert_int_eq(array_save("/dev/full", &arrays[1].type, values, &arena, &diags), STATUS_IO);
}
END_TEST

/* Members whose values a thread writes first, the last of them before the others: the file is npz_put's own. */
START_TEST(values_written_early)
{
	enum { SIZE = 5 << 20, COUNT = 3 };
	static float values[COUNT][SIZE / 4];
	struct named_array arrays[COUNT] = {{"ab", {DTYPE_F32, {1, {SIZE / 4}}}, values[0], NULL, NULL},
	                                    {"small", {DTYPE_F16, {2, {3, 1}}}, values[1], NULL, NULL},
	                                    {"c", {DTYPE_F32, {2, {2, SIZE / 8}}}, values[2], NULL, NULL}};
	uint32_t crcs[COUNT];
	struct npz_values *early;
	struct output output;
	struct team *team;
	for (size_t i = 0; i < COUNT * (size_t)(SIZE / 4); i++)
		values[i / (SIZE / 4)][i % (SIZE / 4)] = (float)(i % 99991);
	ck_assert_int_eq(npz_save(path, arrays, COUNT, &arena, &diags), STATUS_OK);
	char *const want = malloc(3 * SIZE), *const have = malloc(3 * SIZE);
	const size_t size = file_read(path, want, 3 * SIZE);
	ck_assert_int_eq(team_open(&team, 2, 0, &counting, &diags), STATUS_OK);
	ck_assert_int_eq(output_open(&output, path, &arena, &diags), STATUS_OK);
	const struct context context = {&counting, &arena, &diags};
	static const size_t order[] = {2, 0};
	for (size_t k = 0; k < 2; k++) {
		const size_t i = order[k];
		early = npz_values_begin(&arena, &output, arrays, i, team);
		ck_assert_ptr_nonnull(early);
		ck_assert(npz_values_end(early, team, &crcs[i]));
		arrays[i].written = &crcs[i];
	}
	arrays[0].data = arrays[2].data = NULL;
	ck_assert_int_eq(npz_put(&context, &output, arrays, COUNT, NULL), STATUS_OK);
	ck_assert_int_eq(output_commit(&output, &diags), STATUS_OK);
	team_close(team);
	ck_assert_uint_eq(file_read(path, have, 3 * SIZE), size);
	ck_assert(!memcmp(have, want, size));
	free(want), free(have);
}
END_TEST

/* Every allocation failing in iteration: STATUS_LIMIT or an answer, and nothing kept. */
START_TEST(short_memory)
{
	static const char *const files[][2] = {
		{"two.npz", "W"}, {"deflated.npz", "W"}, {"fortran-squares.npy", NULL}, {"f4-little.npy", NULL}};
	size_t fail = 1;
	for (;; fail++) {
		scratch_teardown();
		ck_assert_int_eq(counts.live, 0);
		counts.requests = 0;
		counts.fail_at = fail;
		scratch_begin(&counting);
		enum status status;
		if (_i < 4)
			status = load(golden(files[_i][0], ""), files[_i][1]);
		else if (_i == 5)
			status = tensors_save(path, two, 2, NULL, &arena, &diags);
		else
			status = npz_save(path, two, 2, &arena, &diags);
		if (_i < 4)
			array_free(&array, &counting);
		if (counts.requests < fail)
			ck_assert_int_eq(status, STATUS_OK);
		if (status == STATUS_OK)
			break;
		ck_assert(status == STATUS_LIMIT || status == STATUS_DATA);
		ck_assert(diags.errors > 0);
	}
	ck_assert_uint_gt(fail, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load");
	TCase *tcase = suite_make_case(suite, "load");
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, npy_and_text);
	tcase_add_test(tcase, many_files);
	tcase_add_test(tcase, npz_members);
	tcase_add_loop_test(tcase, damaged_npz, 0, 2);
	tcase_add_test(tcase, short_member);
	tcase_add_loop_test(tcase, altered_npz, 0, sizeof altered / sizeof *altered);
	tcase_add_test(tcase, npz_with_a_comment);
	tcase_add_test(tcase, npz_of_many_members);
	tcase_add_test(tcase, places_in_json);
	tcase_add_test(tcase, safetensors);
	tcase_add_test(tcase, archives_are_kept);
	tcase_add_test(tcase, archives_keep_off_standard_descriptors);
	tcase_add_test(tcase, types_alone);
	tcase_add_loop_test(tcase, wrong_safetensors, 0, sizeof wrong / sizeof *wrong);
	tcase_add_test(tcase, headers_of_safetensors);
	tcase_add_test(tcase, large_integers);
	tcase_add_test(tcase, checksums);
	tcase_add_test(tcase, npz_as_numpy_saves_it);
	tcase_add_test(tcase, tensors_saved_and_loaded);
	tcase_add_test(tcase, tensors_as_the_package_saves_them);
	tcase_add_test(tcase, members_are_names);
	tcase_add_test(tcase, saved_and_loaded);
	tcase_add_test(tcase, values_written_early);
	tcase_add_loop_test(tcase, short_memory, 0, 6);
	return suite_run(suite);
}
