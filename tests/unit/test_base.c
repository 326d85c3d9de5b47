/* Allocation, arenas, dictionaries, sources, diagnostics as they are rendered, suggestions, types, hashes. */
#include "base/arena.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/diag.h"
#include "base/hash.h"
#include "base/suggest.h"
#include "base/system.h"
#include "base/type.h"
#include "failing.h"
#include "scratch.h"
#include "suite.h"

static char rendered[1 << 20];
static size_t rendered_length;

static struct failing counts;
static const struct allocator counting = {.resize = failing_resize, .context = &counts};

static void setup(void)
{
	memset(&counts, 0, sizeof counts);
	scratch_begin(&counting);
	rendered_length = 0;
	rendered[0] = '\0';
}

static void teardown(void)
{
	scratch_teardown();
	ck_assert_uint_eq(counts.live, 0);
}

/* Restarts within a test. */
static void restart(void)
{
	teardown();
	setup();
}

static int writes;

static void collect(void *context, const char *text, size_t length)
{
	(void)context;
	writes++;
	ck_assert_uint_lt(rendered_length + length, sizeof rendered);
	memcpy(rendered + rendered_length, text, length);
	rendered_length += length;
	rendered[rendered_length] = '\0';
}

static const char *render(bool color)
{
	rendered_length = 0;
	writes = 0;
	diags_render(&diags, color, collect, NULL);
	return rendered;
}

START_TEST(allocation_is_checked)
{
	ck_assert_ptr_null(allocator_get(&counting, SIZE_MAX / 2, 3));
	void *none = allocator_get(&counting, 0, 8);
	ck_assert_ptr_nonnull(none);
	allocator_put(&counting, none, 1);
	allocator_put(&counting, NULL, 100);
	size_t sum, product;
	int64_t wide;
	ck_assert(!checked_add(SIZE_MAX, 1, &sum));
	ck_assert(!checked_mul(SIZE_MAX / 2, 3, &product));
	ck_assert(!checked_mul_i64(INT64_MAX / 2, 3, &wide));
	ck_assert(checked_mul_i64(INT64_C(3037000499), INT64_C(3037000499), &wide));
	ck_assert_int_eq(wide, INT64_C(3037000499) * INT64_C(3037000499));
}
END_TEST

START_TEST(a_cap_holds_for_all_blocks_together)
{
	struct allocator_cap cap;
	const struct allocator capped = allocator_capped(&cap, 10000);
	char *a = allocator_get(&capped, 6000, 1);
	ck_assert_ptr_nonnull(a);
	memset(a, 7, 6000);
	ck_assert_ptr_null(allocator_get(&capped, 6000, 1));
	ck_assert_ptr_null(allocator_get(&capped, SIZE_MAX, 1));
	ck_assert_ptr_null(capped.resize(capped.context, a, 6000, 11000));
	ck_assert_int_eq(a[5999], 7);
	a = capped.resize(capped.context, a, 6000, 9000);
	ck_assert_ptr_nonnull(a);
	ck_assert_int_eq(a[5999], 7);
	ck_assert_uint_ge(cap.used, 9000);
	a = capped.resize(capped.context, a, 9000, 1000);
	char *b = allocator_get(&capped, 8000, 1);
	ck_assert_ptr_nonnull(b);
	allocator_put(&capped, a, 1000);
	allocator_put(&capped, b, 8000);
	ck_assert_uint_eq(cap.used, 0);
}
END_TEST

/* Takes blocks that malloc makes larger than requested until the cap is reached: all bytes must be counted back. */
START_TEST(a_cap_that_is_overshot_lets_go)
{
	enum { MOST = 100 };
	struct allocator_cap cap;
	for (size_t most = 1000; most < 1032; most++) {
		char *blocks[MOST];
		size_t count = 0;
		const struct allocator capped = allocator_capped(&cap, most);
		while (count < MOST && (blocks[count] = allocator_get(&capped, 17, 1)))
			count++;
		while (count < MOST && (blocks[count] = allocator_get(&capped, 1, 16))) /* what is left */
			count++;
		ck_assert_uint_lt(count, MOST);
		ck_assert_uint_lt(cap.used, most + 32);
		for (size_t i = 0; i < count; i++) {
			char *less = capped.resize(capped.context, blocks[i], 17, 1); /* a smaller block always succeeds */
			ck_assert_ptr_nonnull(less);
			allocator_put(&capped, less, 1);
		}
		ck_assert_uint_eq(cap.used, 0);
		char *again = allocator_get(&capped, 1, 8);
		ck_assert_ptr_nonnull(again);
		allocator_put(&capped, again, 8);
	}
}
END_TEST

static void *trim_with_others(void *context)
{
	pthread_barrier_wait(context);
	allocator_trim();
	return NULL;
}

/* It could fail only where malloc is not glibc's, as under ASan, and in one run of some ten. */
START_TEST(threads_trim_at_once)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	pthread_barrier_t together;
	ck_assert_int_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, trim_with_others, &together), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	pthread_barrier_destroy(&together);
}
END_TEST

START_TEST(arena_blocks_are_aligned_zeroed_and_apart)
{
	unsigned char *blocks[500];
	size_t wrong = 0; /* counted: a million words to Check take seconds */
	for (size_t i = 0; i < 500; i++) {
		size_t size = i * i % 3001;
		blocks[i] = arena_alloc(&arena, size);
		ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
		for (size_t k = 0; k < size; k++)
			wrong += blocks[i][k] != 0;
		memset(blocks[i], (int)(i & 0xff), size);
	}
	for (size_t i = 0; i < 500; i++)
		for (size_t k = 0; k < i * i % 3001; k++)
			wrong += blocks[i][k] != (i & 0xff);
	ck_assert_uint_eq(wrong, 0);
	unsigned char *large = arena_alloc(&arena, 3 << 20);
	ck_assert_ptr_nonnull(large);
	ck_assert_uint_eq(large[(3 << 20) - 1], 0);
	ck_assert(!arena.failed);
}
END_TEST

/* True if the SIZE bytes at BLOCK are 0. */
static bool is_zeroed(const char *block, size_t size)
{
	size_t i = 0;
	while (i < size && block[i] == 0)
		i++;
	return i == size;
}

/* The system's allocator zeroes a large block, and the arena does not. The blocks before it were freed full of ones. */
START_TEST(arena_blocks_of_the_system_are_zeroed)
{
	struct allocator_cap cap;
	const struct allocator capped = allocator_capped(&cap, (size_t)1 << 30);
	const size_t sizes[] = {ALLOCATOR_ZEROED - 1, ALLOCATOR_ZEROED, ALLOCATOR_ZEROED + 5, 3 * ALLOCATOR_ZEROED};
	ck_assert(allocator_system.zeroes && capped.zeroes);
	for (int round = 0; round < 4; round++) {
		struct arena dirtied;
		arena_init(&dirtied, round % 2 ? &capped : &allocator_system);
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			char *block = arena_alloc(&dirtied, sizes[i]);
			ck_assert_ptr_nonnull(block);
			ck_assert(is_zeroed(block, sizes[i]));
			memset(block, 0xff, sizes[i]);
		}
		arena_free(&dirtied);
	}
}
END_TEST

START_TEST(arena_refuses_what_overflows)
{
	ck_assert_ptr_null(arena_array(&arena, SIZE_MAX / 4, 8));
	ck_assert(arena.failed);
	ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX));
	counts.fail_at = counts.requests + 1;
	ck_assert_ptr_null(arena_alloc(&arena, 10 << 20));
	ck_assert_ptr_nonnull(arena_alloc(&arena, 10));
	ck_assert(arena.failed);
}
END_TEST

START_TEST(arena_text_and_growth)
{
	ck_assert_str_eq(arena_strndup(&arena, "abcdef", 3), "abc");
	ck_assert_str_eq(arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
	int *numbers = NULL;
	size_t capacity = 0;
	for (size_t i = 0; i < 10000; i++) {
		numbers = arena_grow(&arena, numbers, i, &capacity, sizeof *numbers);
		ck_assert_ptr_nonnull(numbers);
		ck_assert_int_eq(numbers[i], 0);
		numbers[i] = (int)i;
	}
	for (int i = 0; i < 10000; i++)
		ck_assert_int_eq(numbers[i], i);
}
END_TEST

/* Two arrays grow alternately, with blocks between. At the end each exists once. Where memory is short, none is lost. */
START_TEST(arena_long_arrays_grow_in_place)
{
	enum { COUNT = 100000 };
	struct item {
		size_t number[4];
	} * items[2] = {NULL, NULL};
	size_t capacity[2] = {0, 0}, wrong = 0;
	for (size_t i = 0; i < COUNT; i++)
		for (int k = 0; k < 2; k++) {
			items[k] = arena_grow(&arena, items[k], i, &capacity[k], sizeof *items[k]);
			ck_assert_ptr_nonnull(items[k]);
			wrong += items[k][i].number[3] != 0;
			items[k][i].number[3] = 2 * i + (size_t)k;
			if (i % 1000 == 0)
				ck_assert_ptr_nonnull(arena_alloc(&arena, 100));
		}
	ck_assert_uint_lt(counts.live, (capacity[0] + capacity[1]) * sizeof **items + (5 << 20));
	counts.fail_at = counts.requests + 1;
	const size_t before = capacity[0];
	ck_assert_ptr_null(arena_grow(&arena, items[0], before, &capacity[0], sizeof **items));
	ck_assert_uint_eq(capacity[0], before);
	ck_assert(arena.failed);
	for (size_t i = 0; i < COUNT; i++)
		for (int k = 0; k < 2; k++)
			wrong += items[k][i].number[3] != 2 * i + (size_t)k;
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* Against a list that is searched from its end; names of one letter to four, so that many come again. */
START_TEST(dictionaries_tell_what_was_put_last)
{
	enum { NAMES = 2000 };
	static char names[NAMES][5];
	static int values[NAMES];
	struct dictionary dictionary = {0};
	size_t different = 0;
	uint32_t seed = 1;
	for (int put = 0; put < NAMES; put++) {
		const int length = 1 + put % 4;
		for (int i = 0; i < length; i++) {
			seed = seed * 1664525 + 1013904223;
			names[put][i] = (char)('a' + (seed >> 24) % 6);
		}
		const int *before = NULL;
		for (int i = 0; i < put; i++)
			before = strcmp(names[i], names[put]) ? before : &values[i];
		ck_assert_ptr_eq(dictionary_find(&dictionary, names[put]), before);
		ck_assert(dictionary_put(&dictionary, &arena, names[put], &values[put]));
		ck_assert_ptr_eq(dictionary_find(&dictionary, names[put]), &values[put]);
		different += !before;
		ck_assert_uint_eq(dictionary.count, different);
	}
	ck_assert_ptr_null(dictionary_find(&dictionary, ""));
	ck_assert_ptr_null(dictionary_find(&dictionary, "abcde"));
}
END_TEST

START_TEST(a_set_of_bytes_keeps_equal_ones_once)
{
	enum { STRINGS = 3000, DIFFERENT = 500 };
	struct byte_set set = {.kept = &arena, .scratch = &arena};
	const void *kept[DIFFERENT] = {0};
	size_t number, numbers[DIFFERENT];
	for (int i = 0; i < STRINGS; i++) {
		const uint32_t value = (uint32_t)i * 7919 % DIFFERENT; /* each is met first within the first DIFFERENT */
		const uint32_t bytes[3] = {value, value / 100, 1};
		const size_t size = value % 2 ? sizeof bytes : sizeof *bytes;
		const void *at = byte_set_keep(&set, bytes, size, &number);
		ck_assert(at != bytes && memcmp(at, bytes, size) == 0);
		ck_assert(i < DIFFERENT ? number == (size_t)i : at == kept[value] && number == numbers[value]);
		kept[value] = at;
		numbers[value] = number;
	}
	ck_assert_uint_eq(set.count, DIFFERENT);
	const void *empty = byte_set_keep(&set, NULL, 0, NULL);
	ck_assert_ptr_nonnull(empty);
	ck_assert_ptr_eq(byte_set_keep(&set, "", 0, NULL), empty);
}
END_TEST

/* The first and the second table are refused: what was put stays. */
START_TEST(a_dictionary_that_cannot_grow_is_as_before)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	struct dictionary dictionary = {0};
	char values[5];
	struct allocator_cap cap;
	const struct allocator capped = allocator_capped(&cap, 0);
	struct arena none;
	arena_init(&none, &capped);
	ck_assert(!dictionary_put(&dictionary, &none, "a", values));
	ck_assert_ptr_null(dictionary_find(&dictionary, "a"));
	for (int i = 0; i < 4; i++)
		ck_assert(dictionary_put(&dictionary, &arena, names[i], &values[i]));
	ck_assert(!dictionary_put(&dictionary, &none, "e", &values[4]));
	ck_assert_ptr_null(dictionary_find(&dictionary, "e"));
	for (int i = 0; i < 4; i++)
		ck_assert_ptr_eq(dictionary_find(&dictionary, names[i]), &values[i]);
	arena_free(&none);
}
END_TEST

START_TEST(lines_of_a_source)
{
	static const char text[] = "one\ntwo\r\n\nlast";
	const struct source source = {"f", text, sizeof text - 1};
	static const struct {
		uint32_t offset;
		const char *line;
	} cases[] = {{0, "one"}, {3, "one"}, {4, "two"}, {8, "two"}, {9, ""}, {10, "last"}, {14, "last"}, {99, "last"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t length;
		const char *line = source_line(&source, cases[i].offset, &length);
		ck_assert_uint_eq(length, strlen(cases[i].line));
		ck_assert_int_eq(memcmp(line, cases[i].line, length), 0);
	}
}
END_TEST

static struct source source_of(const char *text) { return (struct source){"chain.ck", text, strlen(text)}; }

START_TEST(message_line_and_caret)
{
	struct source source = source_of("sin\n\t tanh 3\n");
	enum status status =
		diag_at(&diags, STATUS_CHAIN, &source, (struct span){6, 10, 2, 3}, "'%s' takes no operand", "tanh");
	ck_assert_int_eq(status, STATUS_CHAIN);
	diag_caret(&diags, (struct span){11, 12, 2, 8});
	diag_hint(&diags, "leave %d out", 3);
	ck_assert_str_eq(render(false), "ckptc: chain.ck:2:8: error: 'tanh' takes no operand\n"
	                                "    2 | tanh 3\n"
	                                "      |      ^\n"
	                                "ckptc: note: leave 3 out\n");
	ck_assert_int_eq(diags.errors, 1);
	ck_assert_str_eq(render(true), "ckptc: chain.ck:2:8: \033[1;31merror:\033[0m 'tanh' takes no operand\n"
	                               "    2 | tanh 3\n"
	                               "      |      \033[1;31m^\033[0m\n"
	                               "ckptc: \033[1;36mnote:\033[0m leave 3 out\n");
}
END_TEST

START_TEST(a_word_is_underlined)
{
	struct source source = source_of("mul\tfoo bar");
	diag_at(&diags, STATUS_CHAIN, &source, (struct span){4, 7, 1, 5}, "no");
	ck_assert_str_eq(render(false), "ckptc: chain.ck:1:5: error: no\n"
	                                "    1 | mul foo bar\n"
	                                "      |     ^~~\n");
}
END_TEST

START_TEST(places_at_ends)
{
	struct source source = source_of("add");
	diag_at(&diags, STATUS_CHAIN, &source, (struct span){3, 3, 1, 4}, "end");
	struct source empty = source_of("");
	diag_at(&diags, STATUS_CHAIN, &empty, (struct span){0, 0, 1, 1}, "empty");
	diag_at(&diags, STATUS_CHAIN, &source, (struct span){3, 3, 1234567, 4}, "far");
	ck_assert_str_eq(render(false), "ckptc: chain.ck:1:4: error: end\n"
	                                "    1 | add\n"
	                                "      |    ^\n"
	                                "ckptc: chain.ck:1:1: error: empty\n"
	                                "    1 | \n"
	                                "      | ^\n"
	                                "ckptc: chain.ck:1234567:4: error: far\n"
	                                "1234567 | add\n"
	                                "        |    ^\n");
}
END_TEST

/* COUNT times TEXT. */
static char *repeated(const char *text, size_t count)
{
	const size_t length = strlen(text);
	char *all = arena_alloc(&arena, count * length + 1);
	ck_assert_ptr_nonnull(all);
	for (size_t i = 0; i < count; i++)
		memcpy(all + i * length, text, length);
	return all;
}

/* However long a name is, a message is bounded and one write; the words around the name stay. */
START_TEST(long_names_lose_their_middle)
{
	char *name = repeated("xyz", 1000000), *path = repeated("\xe2\x82\xac", 1000), want[2000];
	diag_file(&diags, STATUS_DATA, path, 7, "has no member '%s' here", name);
	diag_hint(&diags, "'%s', %s", repeated("\x01", 401), repeated("a", 400));
	/* A word is cut between characters. */
	snprintf(want, sizeof want, "ckptc: %s...%s: byte 7: error: has no member '%.199s...%s' here\nckptc: note: '",
	         repeated("\xe2\x82\xac", 66), repeated("\xe2\x82\xac", 65), name, repeated("xyz", 66) + 2);
	ck_assert_int_eq(strncmp(render(false), want, strlen(want)), 0);
	snprintf(want, sizeof want, "%s...%s', %s\n", repeated("\\x01", 199), repeated("\\x01", 196), repeated("a", 400));
	ck_assert_str_eq(rendered + rendered_length - strlen(want), want);
	ck_assert_int_eq(writes, 1);
}
END_TEST

START_TEST(a_message_is_one_write)
{
	struct source source = source_of(repeated("\x01", 100000));
	char *bad = repeated("\x01", 10000), *words = repeated("bad words ", 1000);
	for (int i = 0; i < 3; i++) {
		diag_at(&diags, STATUS_CHAIN, &source, (struct span){50000, 90000, 1, 50001}, "%s %s", words, bad);
		diag_hint(&diags, "%s", repeated("\x01\x01\x01\x01\x01\x01 ", 2000));
	}
	char *escaped = repeated("\x01", 10000);
	for (int i = 395; i < 10000; i += 396)
		escaped[i] = ' ';
	diag_file(&diags, STATUS_DATA, escaped, 7, "%s", escaped);
	diag_hint(&diags, "%s", escaped);
	for (int i = 0; i < 200; i++)
		diag_warn(&diags, "%s", words);
	render(true);
	ck_assert_int_eq(writes, 3 + 1 + 100 + 1); /* the last one counts the warnings that are not shown */
	ck_assert_ptr_nonnull(strstr(rendered, "bad words ..."));
}
END_TEST

/* A text in quotes is one text, whatever spaces and quotes it has. */
START_TEST(quoted_text_loses_its_middle)
{
	char want[600];
	diag_file(&diags, STATUS_DATA, NULL, -1, "no '%s', or '%s'", repeated("it's ", 1000), "a b");
	snprintf(want, sizeof want, "ckptc: error: no '%.199s...%s', or 'a b'\n", repeated("it's ", 40),
	         repeated("it's ", 1000) + 5000 - 196);
	ck_assert_str_eq(render(false), want);
}
END_TEST

START_TEST(files_and_bytes)
{
	ck_assert_int_eq(diag_file(&diags, STATUS_DATA, "a.npy", 123, "bad"), STATUS_DATA);
	diag_file(&diags, STATUS_IO, "a.npy", -1, "worse");
	diag_file(&diags, STATUS_USAGE, NULL, -1, "alone");
	diag_warn(&diags, "beware");
	ck_assert_str_eq(render(false), "ckptc: a.npy: byte 123: error: bad\n"
	                                "ckptc: a.npy: error: worse\n"
	                                "ckptc: error: alone\n"
	                                "ckptc: warning: beware\n");
	ck_assert_int_eq(diags.errors, 3);
}
END_TEST

/* Beyond a hundred of a kind they are counted, not shown; warnings hide no error. */
START_TEST(many)
{
	for (int i = 1; i <= 100; i++)
		diag_warn(&diags, "careful %d", i);
	diag_file(&diags, STATUS_DATA, NULL, -1, "first");
	ck_assert_ptr_nonnull(strstr(render(false), "ckptc: warning: careful 100\nckptc: error: first\n"));
	ck_assert_str_eq(strstr(rendered, "ckptc: error: first\n"), "ckptc: error: first\n");
	for (int i = 2; i <= 101; i++)
		diag_file(&diags, STATUS_DATA, NULL, -1, "wrong %d", i);
	render(false);
	ck_assert_str_eq(strstr(rendered, "ckptc: error: wrong 100\n"),
	                 "ckptc: error: wrong 100\nckptc: note: 1 more error\n");
	for (int i = 101; i <= 107; i++)
		diag_warn(&diags, "careful %d", i);
	diag_file(&diags, STATUS_DATA, NULL, -1, "last");
	(void)diag_memory(&diags);
	render(false);
	ck_assert_str_eq(
		strstr(rendered, "ckptc: error: wrong 100\n"),
		"ckptc: error: wrong 100\nckptc: note: 2 more errors, 7 more warnings\nckptc: error: out of memory\n");
	render(true);
	ck_assert_ptr_nonnull(strstr(rendered, "\nckptc: \033[1;36mnote:\033[0m 2 more errors, 7 more warnings\n"));
}
END_TEST

/* What a terminal could obey, or be misled by, is shown as its bytes; other UTF-8 as it is. */
static const struct {
	const char *text, *shown;
} escapes[] = {
	{"a\033[31mb", "a\\x1b[31mb"},
	{"\x01\x7f", "\\x01\\x7f"},
	{"two\nlines", "two\\x0alines"},
	{"tab\there", "tab here"},
	{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
	{"\xe2\x88\x82\xf0\x9f\x98\x80", "\xe2\x88\x82\xf0\x9f\x98\x80"},
	{"\xff\xfe", "\\xff\\xfe"},
	{"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
	{"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},          /* overlong */
	{"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
	{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond U+10FFFF */
	{"\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"},
	{"\xc2\x9b"
     "31m",
     "\\xc2\\x9b31m"},                   /* a control of 8 bits */
	{"\xe2\x80\xae", "\\xe2\\x80\\xae"}, /* right-to-left override */
	{"\xe2\x81\xa6", "\\xe2\\x81\\xa6"}, /* an isolate */
	{"cut \xe2\x88", "cut \\xe2\\x88"},
};

START_TEST(escaping)
{
	char want[100];
	diag_file(&diags, STATUS_DATA, escapes[_i].text, -1, "m");
	snprintf(want, sizeof want, "ckptc: %s: error: m\n", escapes[_i].shown);
	ck_assert_str_eq(render(false), want);
	restart();
	diag_file(&diags, STATUS_DATA, NULL, -1, "%s", escapes[_i].text);
	snprintf(want, sizeof want, "ckptc: error: %s\n", escapes[_i].shown);
	ck_assert_str_eq(render(false), want);
}
END_TEST

START_TEST(carets_stand_under_escaped_text)
{
	struct source source = source_of("\x01\xc3\xbc\xff x");
	diag_at(&diags, STATUS_CHAIN, &source, (struct span){5, 6, 1, 6}, "m");
	ck_assert_str_eq(render(false), "ckptc: chain.ck:1:6: error: m\n"
	                                "    1 | \\x01\xc3\xbc\\xff x\n"
	                                "      |           ^\n");
	/* A byte of a character that shows whole is one column, as the character is. */
	restart();
	source = source_of("\xe2\x82\xac\xc3 x");
	diag_at(&diags, STATUS_CHAIN, &source, (struct span){0, 1, 1, 1}, "m");
	ck_assert_str_eq(render(false), "ckptc: chain.ck:1:1: error: m\n"
	                                "    1 | \xe2\x82\xac\\xc3 x\n"
	                                "      | ^\n");
	restart();
	diag_at(&diags, STATUS_CHAIN, &source, (struct span){3, 4, 1, 4}, "m");
	ck_assert_str_eq(render(false), "ckptc: chain.ck:1:4: error: m\n"
	                                "    1 | \xe2\x82\xac\\xc3 x\n"
	                                "      |  ^~~~\n");
}
END_TEST

START_TEST(long_lines_are_shown_around_the_caret)
{
	static char text[5000];
	for (size_t place = 0; place < 4000; place += 131) {
		/* Two-byte characters: no window may cut one in two. */
		for (size_t i = 0; i + 1 < sizeof text; i += 2)
			memcpy(text + i, "\xc3\xbc", 2);
		text[sizeof text - 1] = '\0';
		size_t at = place / 2 * 2;
		memcpy(text + at, "XY", 2);
		restart();
		struct source source = source_of(text);
		diag_at(&diags, STATUS_CHAIN, &source, (struct span){(uint32_t)at, (uint32_t)at + 2, 1, (uint32_t)at + 1}, "m");
		char *line = strstr(render(false), "    1 | "), *caret = strstr(rendered, "      | ");
		ck_assert_ptr_nonnull(line);
		ck_assert_ptr_nonnull(caret);
		ck_assert_ptr_null(strstr(rendered, "\\x"));
		ck_assert_int_lt(caret - line, 250);
		size_t before = 0;
		for (const char *p = line + 8; *p != 'X'; p++)
			before += (*p & 0xc0) != 0x80;
		ck_assert_uint_eq(strspn(caret + 8, " "), before);
		ck_assert_str_eq(caret + 8 + before, "^~\n");
	}
}
END_TEST

/* Continuation bytes of no character are shown as other bytes, at the begin of a line and where it is cut. */
START_TEST(stray_bytes_are_shown)
{
	enum { LENGTH = 300 };
	static char text[LENGTH + 1];
	struct source source = source_of("\x93NUMPY");
	diag_at(&diags, STATUS_DATA, &source, (struct span){1, 2, 1, 2}, "m");
	ck_assert_str_eq(render(false), "ckptc: chain.ck:1:2: error: m\n"
	                                "    1 | \\x93NUMPY\n"
	                                "      |     ^\n");
	memset(text, '\x80', LENGTH);
	for (uint32_t at = 0; at < LENGTH; at += LENGTH - 1) {
		restart();
		source = source_of(text);
		diag_at(&diags, STATUS_DATA, &source, (struct span){at, at + 1, 1, at + 1}, "m");
		size_t shown = 0;
		for (const char *p = strstr(render(false), " | ") + 3; !strncmp(p, "\\x80", 4); p += 4)
			shown++;
		ck_assert_uint_eq(shown, at ? 51 : 100);
		ck_assert_ptr_nonnull(strstr(rendered, "^~~~\n"));
	}
}
END_TEST

START_TEST(short_memory_is_still_said)
{
	ck_assert_int_eq(diag_memory(&diags), STATUS_LIMIT);
	ck_assert_str_eq(render(false), "ckptc: error: out of memory\n");
	restart();
	diag_file(&diags, STATUS_DATA, "f", -1, "first");
	counts.fail_at = counts.requests + 1;
	ck_assert_int_eq(diag_file(&diags, STATUS_DATA, "f", -1, "%5000d", 1), STATUS_DATA);
	diag_hint(&diags, "of the second");
	ck_assert_str_eq(render(false), "ckptc: f: error: first\nckptc: error: out of memory\n");
}
END_TEST

START_TEST(suggestions)
{
	static const char *const names[] = {"tanh", "sin", "sinh", "sigmoid", "softmax", "log", "exp", "matmul"};
	static const struct {
		const char *name, *want;
	} cases[] = {{"tnah", "tanh"},
	             {"sni", "sin"},
	             {"sigmod", "sigmoid"},
	             {"matmull", "matmul"},
	             {"sofmtax", "softmax"},
	             {"zzzz", NULL},
	             {"", NULL},
	             {"q", NULL},
	             {"lgo", "log"},
	             {"xp", "exp"},
	             {"sinhh", "sinh"},
	             {"tahn", "tanh"}, /* two exchanged, and not "tan" with one more */
	             {"Sin", "sin"},
	             {"SIGMOID", "sigmoid"},
	             {"sinn", "sin"}, /* as near as "sinh", which begins like it, too */
	             {"completelydifferent", NULL}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *got = suggest_nearest(cases[i].name, names, sizeof names / sizeof *names);
		if (cases[i].want)
			ck_assert_pstr_eq(got, cases[i].want);
		else
			ck_assert_ptr_null(got);
	}
	char huge[1000];
	memset(huge, 'a', sizeof huge - 1);
	huge[sizeof huge - 1] = '\0';
	ck_assert_ptr_null(suggest_nearest(huge, names, 8));
	ck_assert_ptr_null(suggest_nearest("sin", names, 0));
}
END_TEST

/* Words that are no slip of a letter, but another form of one that is known. */
START_TEST(suggested_forms)
{
	static const char *const names[] = {"mul",       "div", "sub",   "max",       "min",      "concat", "conv1d",
	                                    "laplacian", "exp", "huber", "mse",       "eps",      "e",      "padding",
	                                    "stride",    "log", "sign",  "logsumexp", "softplus", "softmax"};
	static const struct {
		const char *name, *want;
	} cases[] = {{"multiply", "mul"},
	             {"Multiply", "mul"},
	             {"divide", "div"},
	             {"subtract", "sub"},
	             {"maximum", "max"},
	             {"minimum", "min"},
	             {"concatenate", "concat"},
	             {"laplace", "laplacian"},
	             {"exponential", "exp"},
	             {"huberloss", "huber"},
	             {"mse_loss", "mse"},
	             {"epsilon", "eps"},
	             {"pad", "padding"},
	             {"PAD", "padding"},
	             {"logsumexponential", "logsumexp"}, /* and not "log" */
	             {"soft", "softmax"},                /* the shorter of two */
	             {"str", "stride"},
	             {"pa", NULL},
	             {"everything", NULL}, /* "e" is too short to be meant */
	             {"exp.json", NULL},   /* no word, but a file */
	             {"lapis", NULL},      /* "lap" is neither */
	             {"signalling", "sign"},
	             {"softshrink", NULL}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *got = suggest_nearest(cases[i].name, names, sizeof names / sizeof *names);
		if (cases[i].want)
			ck_assert_pstr_eq(got, cases[i].want);
		else
			ck_assert_msg(!got, "%s: %s", cases[i].name, got);
	}
}
END_TEST

START_TEST(dtypes)
{
	static const struct {
		const char *name;
		size_t size;
		enum dtype compute;
	} want[] = {{"f16", 2, DTYPE_F32}, {"bf16", 2, DTYPE_F32}, {"f32", 4, DTYPE_F32}, {"f64", 8, DTYPE_F64},
	            {"i8", 1, DTYPE_F64},  {"i16", 2, DTYPE_F64},  {"i32", 4, DTYPE_F64}, {"i64", 8, DTYPE_F64},
	            {"u8", 1, DTYPE_F64},  {"u16", 2, DTYPE_F64},  {"u32", 4, DTYPE_F64}, {"u64", 8, DTYPE_F64},
	            {"bool", 1, DTYPE_F64}};
	for (int i = 0; i < DTYPE_BITS; i++) {
		ck_assert_str_eq(dtype_name((enum dtype)i), want[i].name);
		ck_assert_int_eq(dtype_find(want[i].name, strlen(want[i].name)), i);
		ck_assert_uint_eq(dtype_size((enum dtype)i), want[i].size);
		ck_assert_int_eq(dtype_compute((enum dtype)i), want[i].compute);
	}
	ck_assert_int_eq(dtype_find("f3", 2), DTYPE_COUNT);
	ck_assert_int_eq(dtype_find("f322", 4), DTYPE_COUNT);
	ck_assert_int_eq(dtype_promote(DTYPE_F16, DTYPE_BF16), DTYPE_F32);
	ck_assert_int_eq(dtype_promote(DTYPE_F16, DTYPE_F16), DTYPE_F16);
	ck_assert_int_eq(dtype_promote(DTYPE_BF16, DTYPE_F32), DTYPE_F32);
	ck_assert_int_eq(dtype_promote(DTYPE_F64, DTYPE_F16), DTYPE_F64);
}
END_TEST

START_TEST(shapes)
{
	struct shape a = {3, {5, 1, 7}}, b = {2, {4, 1}}, out, scalar = {0, {0}};
	ck_assert(shape_broadcast(&a, &b, &out));
	ck_assert(shape_equal(&out, &(struct shape){3, {5, 4, 7}}));
	ck_assert(shape_broadcast(&scalar, &a, &a));
	ck_assert(shape_equal(&a, &(struct shape){3, {5, 1, 7}}));
	ck_assert(shape_broadcast(&(struct shape){1, {0}}, &(struct shape){1, {1}}, &out));
	ck_assert_int_eq(out.dim[0], 0);
	ck_assert(!shape_broadcast(&(struct shape){1, {0}}, &(struct shape){1, {2}}, &out));
	ck_assert(!shape_broadcast(&a, &(struct shape){1, {3}}, &out));
	ck_assert(!shape_equal(&a, &b));
	ck_assert_int_eq(shape_count(&scalar), 1);
	ck_assert_int_eq(shape_count(&a), 35);
	ck_assert_int_eq(shape_count(&(struct shape){2, {INT64_MAX, 2}}), -1);
	ck_assert_int_eq(shape_count(&(struct shape){3, {INT64_MAX, 2, 0}}), 0);
}
END_TEST

START_TEST(types_as_text)
{
	char text[TYPE_TEXT];
	struct type type = {DTYPE_F32, {2, {5, -1}}};
	ck_assert_str_eq(type_format(&type, text), "f32[5,*]");
	ck_assert_str_eq(shape_format(&type.shape, text), "[5,*]");
	struct type most = {DTYPE_BF16, {MAX_DIMS, {0}}};
	for (int i = 0; i < MAX_DIMS; i++)
		most.shape.dim[i] = INT64_MAX;
	ck_assert_uint_lt(strlen(type_format(&most, text)), TYPE_TEXT);
	ck_assert_int_eq(type_bytes(&most), INT64_MAX);
	struct type half = {DTYPE_F16, {2, {3, 3}}}, mask = {DTYPE_BITS, {2, {3, 3}}}, whole = {DTYPE_I8, {1, {10}}};
	ck_assert_int_eq(type_bytes(&half), 36);
	ck_assert_int_eq(type_bytes(&mask), 2);
	mask.dtype = DTYPE_SIGNS;
	ck_assert_int_eq(type_bytes(&mask), 3);
	ck_assert_str_eq(type_format(&mask, text), "i2[3,3]");
	ck_assert_int_eq(type_bytes(&whole), 80);
	ck_assert(type_equal(&half, &half));
	ck_assert(!type_equal(&half, &mask));
}
END_TEST

/* 2^47 bytes are the most; an extent of 0 excuses none of the others. */
START_TEST(types_that_can_be_addressed)
{
	static const struct {
		struct type type;
		bool good;
	} cases[] = {
		{{DTYPE_F64, {0, {0}}}, true},
		{{DTYPE_F64, {1, {INT64_C(1) << 44}}}, true},
		{{DTYPE_F64, {1, {(INT64_C(1) << 44) + 1}}}, false},
		{{DTYPE_F32, {1, {INT64_C(1) << 45}}}, true},
		{{DTYPE_F16, {1, {INT64_C(1) << 46}}}, false}, /* held as f32 */
		{{DTYPE_F64, {3, {0, INT64_C(1) << 22, INT64_C(1) << 22}}}, true},
		{{DTYPE_F64, {3, {INT64_C(1) << 23, 0, INT64_C(1) << 22}}}, false},
		{{DTYPE_F64, {3, {0, INT64_MAX, INT64_MAX}}}, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		ck_assert_msg(type_addressable(&cases[i].type) == cases[i].good, "case %zu", i);
}
END_TEST

/* What a transcription of its definition in another language gives; journals on disk hold such. */
START_TEST(hashes_as_defined)
{
	unsigned char bytes[100];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)i;
	ck_assert_uint_eq(hash_bytes(HASH_START, NULL, 0), 0x84009a13b6293b9a);
	ck_assert_uint_eq(hash_bytes(HASH_START, "a", 1), 0xec7b927102458152);
	ck_assert_uint_eq(hash_bytes(HASH_START, "checkpoint", 10), 0x95699e9c5cf77558);
	ck_assert_uint_eq(hash_bytes(HASH_START, bytes, 32), 0x494dfaabbc3a3724);
	ck_assert_uint_eq(hash_bytes(HASH_START, bytes, 100), 0xe6b75e22bf807939);
	ck_assert_uint_eq(hash_bytes(hash_bytes(HASH_START, "check", 5), "point", 5), 0x6d8e62f0ec4dd403);
}
END_TEST

/* Where BYTES begin in memory, and each bit, and each two of them. */
START_TEST(a_hash_tells_bits_apart)
{
	unsigned char room[104], *bytes = room + 1;
	enum { SIZE = 100, BITS = 8 * SIZE };
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(7 * i);
	const uint64_t hash = hash_bytes(HASH_START, bytes, SIZE);
	memmove(room, bytes, SIZE);
	ck_assert_uint_eq(hash_bytes(HASH_START, room, SIZE), hash);
	memmove(bytes, room, SIZE);
	for (int a = 0; a < BITS; a++) {
		bytes[a / 8] ^= (unsigned char)(1 << a % 8);
		ck_assert_uint_ne(hash_bytes(HASH_START, bytes, SIZE), hash);
		for (int b = 0; b < a; b++) {
			bytes[b / 8] ^= (unsigned char)(1 << b % 8);
			if (hash_bytes(HASH_START, bytes, SIZE) == hash) /* else no word to Check, which takes long */
				ck_abort_msg("bits %d and %d", a, b);
			bytes[b / 8] ^= (unsigned char)(1 << b % 8);
		}
		bytes[a / 8] ^= (unsigned char)(1 << a % 8);
	}
	uint64_t zeros[64];
	memset(room, 0, sizeof room);
	for (size_t i = 0; i < 64; i++) {
		zeros[i] = hash_bytes(HASH_START, room, i);
		for (size_t k = 0; k < i; k++)
			ck_assert_uint_ne(zeros[i], zeros[k]);
	}
}
END_TEST

/* Control groups, in a folder that stands for the system's. */

static char root[] = "/tmp/ckptc-base-XXXXXX";

/* The file NAME in the root, with the folders that it is in, holding TEXT; NULL: it is taken away, with what was made for it within the root. */
static void put_file(const char *name, const char *text)
{
	char path[200];
	for (size_t i = 0; name[i] && text; i++)
		if (name[i] == '/') {
			snprintf(path, sizeof path, "%s%.*s", root, (int)i, name);
			mkdir(path, 0700);
		}
	snprintf(path, sizeof path, "%s%s", root, name);
	if (!text) {
		unlink(path);
		for (char *end = strrchr(path, '/'); end > path + strlen(root); end = strrchr(path, '/')) {
			*end = '\0';
			rmdir(path);
		}
		return;
	}
	FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static const struct {
	const char *files[7][2];
	int64_t most, left;
} groups[] = {
	{.most = INT64_MAX, .left = INT64_MAX}, /* no groups at all */
	{{{"/proc/self/cgroup", "0::/a/b\n"}, {"/sys/fs/cgroup/a/b/memory.max", "max\n"}}, INT64_MAX, INT64_MAX},
	{{{"/proc/self/cgroup", "0::/a/b\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "5000\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "1000\n"}},
     5000,
     4000},
	/* One above allows less, and another has less left. */
	{{{"/proc/self/cgroup", "0::/a/b\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "9000\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "8000\n"},
      {"/sys/fs/cgroup/a/memory.max", "6000\n"},
      {"/sys/fs/cgroup/a/memory.current", "10\n"},
      {"/sys/fs/cgroup/memory.max", "7000\n"},
      {"/sys/fs/cgroup/memory.current", "7001\n"}},
     6000,
     0},
	/* Version 1, and a name that the container cannot see. */
	{{{"/proc/self/cgroup", "7:cpu,notmemory:/c\n4:hugetlb,memory:/a:b/d\n0::/\n"},
      {"/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n"},
      {"/sys/fs/cgroup/memory/a:b/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"}},
     3000,
     2000},
};

START_TEST(control_groups)
{
	for (size_t i = 0; i < 7 && groups[_i].files[i][0]; i++)
		put_file(groups[_i].files[i][0], groups[_i].files[i][1]);
	const struct group_memory memory = system_group_memory(root);
	for (size_t i = 0; i < 7 && groups[_i].files[i][0]; i++)
		put_file(groups[_i].files[i][0], NULL);
	ck_assert_int_eq(memory.most, groups[_i].most);
	ck_assert_int_eq(memory.remaining, groups[_i].left);
}
END_TEST

int main(void)
{
	if (!mkdtemp(root))
		return 1;
	Suite *suite = suite_create("base");
	TCase *tcase = suite_make_case(suite, "base");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, allocation_is_checked);
	tcase_add_test(tcase, a_cap_holds_for_all_blocks_together);
	tcase_add_test(tcase, a_cap_that_is_overshot_lets_go);
	tcase_add_loop_test(tcase, threads_trim_at_once, 0, 30);
	tcase_add_test(tcase, arena_blocks_are_aligned_zeroed_and_apart);
	tcase_add_test(tcase, arena_blocks_of_the_system_are_zeroed);
	tcase_add_test(tcase, arena_refuses_what_overflows);
	tcase_add_test(tcase, arena_text_and_growth);
	tcase_add_test(tcase, arena_long_arrays_grow_in_place);
	tcase_add_test(tcase, a_set_of_bytes_keeps_equal_ones_once);
	tcase_add_test(tcase, dictionaries_tell_what_was_put_last);
	tcase_add_test(tcase, a_dictionary_that_cannot_grow_is_as_before);
	tcase_add_test(tcase, lines_of_a_source);
	tcase_add_test(tcase, message_line_and_caret);
	tcase_add_test(tcase, a_word_is_underlined);
	tcase_add_test(tcase, places_at_ends);
	tcase_add_test(tcase, long_names_lose_their_middle);
	tcase_add_test(tcase, a_message_is_one_write);
	tcase_add_test(tcase, quoted_text_loses_its_middle);
	tcase_add_test(tcase, files_and_bytes);
	tcase_add_test(tcase, many);
	tcase_add_loop_test(tcase, escaping, 0, sizeof escapes / sizeof *escapes);
	tcase_add_test(tcase, carets_stand_under_escaped_text);
	tcase_add_test(tcase, long_lines_are_shown_around_the_caret);
	tcase_add_test(tcase, stray_bytes_are_shown);
	tcase_add_test(tcase, short_memory_is_still_said);
	tcase_add_test(tcase, suggestions);
	tcase_add_test(tcase, suggested_forms);
	tcase_add_test(tcase, dtypes);
	tcase_add_test(tcase, shapes);
	tcase_add_test(tcase, types_as_text);
	tcase_add_test(tcase, types_that_can_be_addressed);
	tcase_add_loop_test(tcase, control_groups, 0, sizeof groups / sizeof *groups);
	tcase_add_test(tcase, hashes_as_defined);
	tcase_add_test(tcase, a_hash_tells_bits_apart);
	const int status = suite_run(suite);
	rmdir(root);
	return status;
}
