/* Forward runs: every way of cutting and every end gives the same bytes; memory is bounded, and may be short. */
#include "exec/run.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failing.h"
#include "save.h"
#include "suite.h"

static char folder[] = "/tmp/test_run.XXXXXX";
static char in_path[64], out_path[64];

static struct failing counts;
static const struct allocator counting = {.resize = failing_resize, .context = &counts};

struct feed {
	int fd;
	bool pipe;
	pthread_t thread;
};

/* Writes the input's file into a pipe, in odd pieces. */
static void *pour(void *context)
{
	struct feed *feed = context;
	int from = open(in_path, O_RDONLY);
	char piece[10007];
	ssize_t n;
	while ((n = read(from, piece, sizeof piece)) > 0)
		for (ssize_t done = 0; done < n;) {
			ssize_t wrote = write(feed->fd, piece + done, (size_t)(n - done));
			if (wrote < 0)
				break;
			done += wrote;
		}
	close(from);
	close(feed->fd);
	return NULL;
}

struct way {
	int threads;
	int64_t tile;
	bool pipe;
	bool gradient; /* the output is the input's gradient */
};

struct seen {
	size_t first, last; /* allocations when the first and the last rows were done */
};

static void note(void *context, const struct action *action, double done, int64_t live, int64_t peak)
{
	struct seen *seen = context;
	(void)action;
	(void)done;
	(void)live;
	(void)peak;
	pthread_mutex_lock(&failing_lock);
	if (!seen->first)
		seen->first = counts.requests;
	seen->last = counts.requests;
	pthread_mutex_unlock(&failing_lock);
}

static enum status forward(const char *text, const struct way *way, const struct allocator *allocator,
                           struct run_counters *counters, struct seen *seen, struct diags *diags)
{
	struct arena *arena = diags->arena;
	struct source source = {"test.ck", text, strlen(text)};
	struct syntax syntax;
	struct chain chain;
	struct params params = {0};
	struct input input;
	struct output output;
	struct reader reader;
	struct writer writer;
	struct feed feed = {.pipe = way->pipe};
	struct reader_options reading = {.assume = DTYPE_COUNT, .raw.shape.ndim = -1};
	struct writer_options writing = {.format = FORMAT_AUTO};
	const struct run_options options = {.job = {.policy = &policy_save_all, .threads = way->threads, .tile = way->tile},
	                                    .dtype = DTYPE_COUNT,
	                                    .value = way->gradient ? NULL : &writer,
	                                    .progress = seen ? note : NULL,
	                                    .progress_context = seen};
	const struct run_subject subject = {.chain = &chain, .params = &params, .reader = &reader};
	const struct context context = {allocator, arena, diags};
	enum status status = syntax_parse(&context, &syntax, &source);
	if (!status)
		status = chain_resolve(&context, &chain, &syntax);
	if (!status)
		status = params_bind(
			&context, &params, &chain,
			&(struct params_options){.directory = folder, .data = true, .compute = DTYPE_F32, .dtype = DTYPE_COUNT});
	if (status) {
		params_free(&params);
		return status;
	}
	char path[64];
	snprintf(path, sizeof path, "%s", in_path);
	if (way->pipe) {
		int ends[2];
		ck_assert_int_eq(pipe(ends), 0);
		feed.fd = ends[1];
		snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
		pthread_create(&feed.thread, NULL, pour, &feed);
		status = input_open(&input, path, false, arena, diags);
		close(ends[0]);
	} else {
		status = input_open(&input, path, false, arena, diags);
	}
	bool opened = !status;
	if (!status)
		status = output_open(&output, out_path, arena, diags);
	bool made = !status;
	if (!status) {
		reader_init(&reader, &input, &reading, arena);
		writer_init(&writer, &output, &writing, arena);
		if (way->gradient) {
			struct gradient_result result;
			status =
				run_gradient(&context, &subject, &options, &(struct gradient_options){.gradient = &writer}, &result);
			gradient_free(&result);
		} else {
			status = run_forward(&context, &subject, &options, counters);
		}
		if (!status)
			status = writer_finish(&writer, diags);
		reader_free(&reader);
		writer_free(&writer);
	}
	if (made && !status)
		status = output_commit(&output, diags);
	else if (made)
		output_abort(&output);
	if (opened)
		input_close(&input);
	if (way->pipe)
		pthread_join(feed.thread, NULL);
	params_free(&params);
	return status;
}

static void put_input(const struct type *type, const void *data)
{
	struct arena arena;
	struct diags diags;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	ck_assert_int_eq(array_save(in_path, type, data, &arena, &diags), STATUS_OK);
	arena_free(&arena);
}

static void *get_output(size_t *size)
{
	FILE *file = fopen(out_path, "rb");
	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	void *bytes = malloc(*size + 1);
	ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
	fclose(file);
	return bytes;
}

static const struct {
	const char *text;
	struct type type;
} chains[] = {
	{"add 1; mul 2; sin", {DTYPE_F32, {1, {200003}}}},
	{"add 1; mul 2; sin", {DTYPE_F64, {2, {20001, 7}}}},
	{"name h; repeat 5 { mul 1.01; sin; add h }", {DTYPE_F32, {2, {3001, 64}}}},
	{"square; mean", {DTYPE_F32, {2, {30011, 5}}}},
	{"square; sum", {DTYPE_F64, {1, {100000}}}},
	{"", {DTYPE_F32, {1, {300000}}}},
	{"add 1", {DTYPE_F32, {0, {0}}}},
	{"add 1", {DTYPE_F32, {2, {0, 5}}}},
	{"mul x", {DTYPE_F64, {1, {1}}}},
	{"param b: f32[64] = uniform(0, 1, 3); add b; softmax", {DTYPE_F32, {2, {5001, 64}}}},
	{"transpose; mul 2", {DTYPE_F32, {2, {301, 200}}}},
};

START_TEST(ways_agree)
{
	static const struct way ways[] = {
		{1, 0, false, false},    {2, 0, false, false},      {3, 1, false, false},
		{2, 1000, false, false}, {1, 1000, true, false},    {2, 0, true, false},
		{7, 17, true, false},    {2, 1 << 20, true, false}, {2, INT64_MAX / 4096, false, false},
		{1, 3, false, false}};
	const struct type *type = &chains[_i].type;
	size_t count = (size_t)shape_count(&type->shape), first_size = 0;
	void *data = calloc(count + 1, 8), *first = NULL;
	for (size_t i = 0; i < count; i++) {
		double value = sin(0.37 * (double)i) * 3;
		if (type->dtype == DTYPE_F32)
			((float *)data)[i] = (float)value;
		else
			((double *)data)[i] = value;
	}
	put_input(type, data);
	for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
		if (ways[w].tile == 1 && count > 100000 && type->shape.ndim == 1)
			continue; /* slow, and shorter arrays test such tiles */
		struct arena arena;
		struct diags diags;
		struct run_counters counters;
		arena_init(&arena, &allocator_system);
		diags_init(&diags, &arena);
		counts.fail_at = 0;
		ck_assert_int_eq(forward(chains[_i].text, &ways[w], &counting, &counters, NULL, &diags), STATUS_OK);
		ck_assert_int_eq(counters.arrays, 1);
		ck_assert_int_eq(counts.live, 0);
		size_t size;
		void *bytes = get_output(&size);
		if (!first) {
			first = bytes;
			first_size = size;
			arena_free(&arena);
			continue;
		}
		ck_assert_uint_eq(size, first_size);
		ck_assert_mem_eq(bytes, first, size);
		free(bytes);
		arena_free(&arena);
	}
	free(first);
	free(data);
}
END_TEST

START_TEST(values)
{
	enum { COUNT = 100003 };
	const struct type type = {DTYPE_F64, {1, {COUNT}}};
	double *data = malloc(COUNT * sizeof *data);
	for (int i = 0; i < COUNT; i++)
		data[i] = (double)i / 3;
	put_input(&type, data);
	struct arena arena;
	struct diags diags;
	struct run_counters counters;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct way way = {2, 0, false, false};
	ck_assert_int_eq(forward("add 1; mul 2; sub x", &way, &allocator_system, &counters, NULL, &diags), STATUS_OK);
	const struct context context = {&allocator_system, &arena, &diags};
	struct loader loader = {.context = &context};
	struct array array;
	ck_assert_int_eq(array_load(&loader, &array, out_path, NULL), STATUS_OK);
	ck_assert(type_equal(&array.type, &type));
	for (int i = 0; i < COUNT; i++)
		ck_assert_double_eq(((double *)array.data)[i], (data[i] + 1) * 2 - data[i]);
	array_free(&array, &allocator_system);
	arena_free(&arena);
	free(data);
}
END_TEST

/* Memory does not grow with the array, and no tile allocates. */
START_TEST(memory_is_constant)
{
	int64_t most[2], peak[2];
	for (int longer = 0; longer < 2; longer++) {
		const struct type type = {DTYPE_F32, {1, {longer ? 4000000 : 1000000}}};
		void *data = calloc((size_t)type.shape.dim[0], sizeof(float));
		put_input(&type, data);
		free(data);
		struct arena arena;
		struct diags diags;
		struct run_counters counters;
		struct seen seen = {0};
		const struct way way = {2, 0, true, false};
		arena_init(&arena, &allocator_system);
		diags_init(&diags, &arena);
		counts.most = counts.live;
		ck_assert_int_eq(forward("add 1; sin", &way, &counting, &counters, &seen, &diags), STATUS_OK);
		ck_assert_uint_gt(seen.first, 0);
		ck_assert_uint_eq(seen.first, seen.last);
		most[longer] = counts.most;
		peak[longer] = counters.peak_bytes;
		arena_free(&arena);
	}
	ck_assert_int_eq(most[0], most[1]);
	ck_assert_int_eq(peak[0], peak[1]);
	ck_assert_int_le(peak[0], most[0]);
	ck_assert_int_lt(most[0], 4 << 20);
	ck_assert_int_lt(most[0] - peak[0], 1 << 19); /* programs and bodies */
}
END_TEST

/* Fails one allocation after another: STATUS_LIMIT, nothing leaks, nothing is written, no other file is closed. */
START_TEST(short_memory)
{
	static const char *const texts[] = {"add 1; sin", "square; mean", "transpose; mul 2",
	                                    "repeat 8 { layernorm axis=0 }; max { mean axis=0 }"};
	const struct type type = {DTYPE_F32, {2, {3000, 10}}};
	void *data = calloc(30000, sizeof(float));
	put_input(&type, data);
	free(data);
	const struct way way = {.threads = 2, .tile = 100, .gradient = _i >= 4};
	ck_assert_int_ge(fcntl(0, F_GETFD), 0);
	for (size_t n = 1;; n++) {
		struct arena arena;
		struct diags diags;
		struct run_counters counters;
		arena_init(&arena, &allocator_system);
		diags_init(&diags, &arena);
		unlink(out_path);
		counts.requests = 0;
		counts.fail_at = n;
		enum status status = forward(texts[_i % 4], &way, &counting, &counters, NULL, &diags);
		bool spared = counts.requests < n;
		ck_assert_int_eq(counts.live, 0);
		ck_assert_int_ge(fcntl(0, F_GETFD), 0);
		if (status) {
			ck_assert_int_eq(status, STATUS_LIMIT);
			ck_assert_int_ne(access(out_path, F_OK), 0);
			ck_assert_int_gt(diags.errors, 0);
		}
		arena_free(&arena);
		if (spared) {
			ck_assert_int_eq(status, STATUS_OK);
			break;
		}
		ck_assert_uint_lt(n, 10000);
	}
	counts.fail_at = 0;
}
END_TEST

int main(void)
{
	if (!mkdtemp(folder))
		return 1;
	snprintf(in_path, sizeof in_path, "%s/in.npy", folder);
	snprintf(out_path, sizeof out_path, "%s/out.npy", folder);
	Suite *suite = suite_create("run");
	TCase *tcase = suite_make_case(suite, "run");
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, ways_agree, 0, sizeof chains / sizeof *chains);
	tcase_add_test(tcase, values);
	tcase_add_test(tcase, memory_is_constant);
	tcase_add_loop_test(tcase, short_memory, 0, 8);
	const int status = suite_run(suite);
	unlink(in_path);
	unlink(out_path);
	rmdir(folder);
	return status;
}
