/*
 * Differentiates any chain on any small input, under any policy, threads, tile and
 * types. The chain is refused with one message, or computed. Then grad counts what plan
 * predicts. The gradients and the value have the bits of save-all with one thread. The
 * value has the bits of a forward run.
 *
 * The first bytes of an input are options (enum head), digits so that seeds can be
 * read; the rest is the chain. Params without values here are given some. Chains
 * that are large when they are unrolled are left alone.
 */
#include "exec/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum head { POLICY, NUMBER, THREADS, TILE, DTYPE, STORE, TYPE, NDIM, EXTENTS, FLAGS = EXTENTS + 3, VALUES, MOST, HEAD };
enum flags { FROM_PIPE = 1, TWO_ARRAYS = 2, WHOLE = 4, COTANGENT = 8, OTHER_ORDER = 16, WITH_VALUE = 32 };
enum { MEMORY = 64 << 20, INSTRUCTIONS = 2000, BYTES_MOST = 1 << 20, PIPE_HOLDS = 32 << 10 };

/* What is tried. */
struct trial {
	unsigned char head[HEAD];
	const char *text;
	size_t length;
	struct type file;      /* of the input, as it is stored */
	bool plain;            /* save-all, one thread, tiles of their own choice */
	int64_t peak;          /* of save-all */
	const char *cotangent; /* a file, or NULL */
};

/* A chain with its params, in memory that is bounded. */
struct run {
	struct allocator_cap cap;
	struct allocator allocator;
	struct arena arena;
	struct diags diags;
	struct source source;
	struct syntax syntax;
	struct chain chain;
	struct params params;
	struct input input;
	struct reader reader;
	int in;
};

/* What came of it. */
struct outcome {
	enum status status;
	struct counters counters;
	struct bits {
		unsigned char *bytes;
		size_t size;
		enum dtype dtype;
	} gradient, value, params;
};

static char spill[] = "/tmp/fuzz_grad.XXXXXX";
static bool has_spill;

#define require(CONDITION) ((CONDITION) ? (void)0 : broken(#CONDITION, __LINE__))
static _Noreturn void broken(const char *law, int line)
{
	fprintf(stderr, "fuzz_grad: line %d: not so: %s\n", line, law);
	abort();
}

static void nowhere(void *context, const char *text, size_t length)
{
	(void)context;
	(void)text;
	(void)length;
}

static void remove_spill(void) { rmdir(spill); }

static int option(const struct trial *t, enum head which, int choices)
{
	return (t->head[which] + 256 - '0') % 256 % choices;
}

static int memory_file(void)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0);
	return fd;
}

/* Appends an array of TYPE to FD as npy, with values that SEED chooses. */
static void put_array(int fd, const struct type *type, bool big_endian, unsigned seed)
{
	static const char *const codes[] = {"f2", "V2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"};
	const size_t each = dtype_size(type->dtype), count = (size_t)shape_count(&type->shape), size = count * each;
	const char order = each == 1 || type->dtype == DTYPE_BF16 ? '|' : big_endian ? '>' : '<';
	char header[256];
	int n = 10 + snprintf(header + 10, sizeof header - 10, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
	                      order, codes[type->dtype]);
	for (int i = 0; i < type->shape.ndim; i++)
		n += snprintf(header + n, sizeof header - (size_t)n, "%lld,", (long long)type->shape.dim[i]);
	n += snprintf(header + n, sizeof header - (size_t)n, "), }\n");
	memcpy(header, "\x93NUMPY\x01\x00", 8);
	header[8] = (char)(n - 10);
	header[9] = 0;
	unsigned char *values = calloc(size + 1, 1);
	require(values);
	for (size_t i = 0; i < count; i++) {
		unsigned char *to = values + i * each;
		const unsigned drawn = (seed + (unsigned)i) * 2654435761u >> 8;
		const float small = (float)((int)(drawn % 33) - 16) / 8;
		const double wide = small;
		if (seed % 4 == 3) /* any bits */
			for (size_t k = 0; k < each; k++)
				to[k] = (unsigned char)(drawn * (2 * k + 1) >> 7);
		else if (type->dtype == DTYPE_F64)
			memcpy(to, &wide, each);
		else if (type->dtype == DTYPE_F32)
			memcpy(to, &small, each);
		else if (type->dtype == DTYPE_F16)
			convert_f32_to_f16((uint16_t *)to, &small, 1);
		else if (type->dtype == DTYPE_BF16)
			convert_f32_to_bf16((uint16_t *)to, &small, 1);
		else
			to[0] = (unsigned char)(drawn % (type->dtype == DTYPE_BOOL ? 2 : 5));
		if (type->dtype == DTYPE_BOOL)
			to[0] &= 1;
		for (size_t k = 0; big_endian && order == '>' && k < each / 2; k++) {
			const unsigned char byte = to[k];
			to[k] = to[each - 1 - k];
			to[each - 1 - k] = byte;
		}
	}
	require(write(fd, header, (size_t)n) == n && write(fd, values, size) == (ssize_t)size);
	free(values);
}

static void take_bits(struct bits *bits, int fd, enum dtype dtype)
{
	bits->size = (size_t)lseek(fd, 0, SEEK_END);
	bits->bytes = malloc(bits->size + 1);
	bits->dtype = dtype;
	require(bits->bytes && pread(fd, bits->bytes, bits->size, 0) == (ssize_t)bits->size);
	close(fd);
}

static bool is_nan(const unsigned char *bytes, enum dtype dtype)
{
	float single;
	double wide;
	uint16_t half;
	if (dtype == DTYPE_F64)
		return memcpy(&wide, bytes, 8), wide != wide;
	if (dtype == DTYPE_F32)
		return memcpy(&single, bytes, 4), single != single;
	memcpy(&half, bytes, 2);
	return dtype == DTYPE_F16 ? (half & 0x7fff) > 0x7c00 : (half & 0x7fff) > 0x7f80;
}

/* Both have the same bits, except that any two NaNs are equal. A header's length is a multiple of any element's. */
static void require_same(const struct bits *a, const struct bits *b)
{
	require(a->size == b->size);
	const size_t each = dtype_size(a->dtype);
	for (size_t i = 0; i + each <= a->size; i += each)
		require(!memcmp(a->bytes + i, b->bytes + i, each) ||
		        (is_nan(a->bytes + i, a->dtype) && is_nan(b->bytes + i, a->dtype)));
}

/* Values for params that come from elsewhere. */
static void give_values(struct chain *chain)
{
	static const double half = 0.5, range[] = {-1, 1, 7};
	static const struct init number = {.kind = INIT_NUMBER, .text = "0.5", .values = &half, .count = 1},
							 uniform = {.kind = INIT_UNIFORM, .text = "uniform", .values = range, .count = 3};
	for (size_t i = 0; i < chain->param_count; i++) {
		struct param *param = &chain->params[i];
		const struct declared *declared = param->declared;
		if (param->init->kind != INIT_NONE && param->init->kind != INIT_LOAD)
			continue;
		param->init =
			declared->given && declared->type.shape.ndim > 0 && declared->type.dtype <= DTYPE_F64 ? &uniform : &number;
	}
}

static enum dtype chosen_dtype(const struct trial *t)
{
	static const enum dtype dtypes[] = {DTYPE_COUNT, DTYPE_F32, DTYPE_F64};
	return dtypes[option(t, DTYPE, 3)];
}

static enum status run_open(struct run *run, const struct trial *t, bool data, enum dtype compute)
{
	memset(run, 0, sizeof *run);
	run->allocator = allocator_capped(&run->cap, MEMORY);
	run->source = (struct source){"fuzz.ck", t->text, t->length};
	run->in = -1;
	arena_init(&run->arena, &run->allocator);
	diags_init(&run->diags, &run->arena);
	const struct context context = {&run->allocator, &run->arena, &run->diags};
	enum status status = syntax_parse(&context, &run->syntax, &run->source);
	if (!status)
		status = chain_resolve(&context, &run->chain, &run->syntax);
	if (!status)
		status = policy_parse_blocks(&context, &run->chain);
	if (status)
		return status;
	give_values(&run->chain);
	const struct params_options options = {
		.directory = ".", .cast = true, .data = data, .compute = compute, .dtype = chosen_dtype(t)};
	return params_bind(&context, &run->params, &run->chain, &options);
}

static enum status run_read(struct run *run, const struct trial *t)
{
	const struct reader_options reading = {.assume = DTYPE_BF16, .cast = true, .raw.shape.ndim = -1};
	char path[32];
	run->in = memory_file();
	for (int arrays = option(t, FLAGS, 64) & TWO_ARRAYS ? 2 : 1; arrays > 0; arrays--)
		put_array(run->in, &t->file, option(t, FLAGS, 64) & OTHER_ORDER, t->head[VALUES]);
	off_t size = lseek(run->in, 0, SEEK_END);
	lseek(run->in, 0, SEEK_SET);
	if ((option(t, FLAGS, 64) & FROM_PIPE) && size <= PIPE_HOLDS && !t->plain) {
		int ends[2];
		char bytes[PIPE_HOLDS];
		require(!pipe(ends) && read(run->in, bytes, (size_t)size) == size &&
		        write(ends[1], bytes, (size_t)size) == size);
		close(ends[1]);
		close(run->in);
		run->in = ends[0];
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", run->in);
	enum status status = input_open(&run->input, path, false, &run->arena, &run->diags);
	require(!status);
	reader_init(&run->reader, &run->input, &reading, &run->arena);
	return status;
}

static void run_close(struct run *run, enum status status)
{
	require((status == STATUS_OK) == (run->diags.errors == 0));
	diags_render(&run->diags, true, nowhere, NULL);
	if (run->in >= 0) {
		reader_free(&run->reader);
		input_close(&run->input);
		close(run->in);
	}
	params_free(&run->params);
	arena_free(&run->arena);
	require(run->cap.used == 0);
}

static enum status make_policy(struct policy *policy, const struct trial *t, struct run *run)
{
	static const char *const texts[] = {"save-all",
	                                    "nothing",
	                                    "dots",
	                                    "dots-no-batch+names:a",
	                                    "names:a,b",
	                                    "names-but:a",
	                                    "all-but:a",
	                                    "every:%lld",
	                                    "sqrt",
	                                    "recursive",
	                                    "revolve:%lld",
	                                    "budget:%lld",
	                                    "disk-revolve:%lld",
	                                    "online:%lld",
	                                    "auto"};
	char text[64];
	const int which = t->plain ? 0 : option(t, POLICY, sizeof texts / sizeof *texts), number = 1 + option(t, NUMBER, 6);
	const bool bytes = !strncmp(texts[which], "budget", 6);
	snprintf(text, sizeof text, texts[which], bytes ? 1 + t->peak * number / 6 : (long long)number);
	const char *kept = arena_strndup(&run->arena, text, strlen(text));
	const struct context context = {&run->allocator, &run->arena, &run->diags};
	enum status status = kept ? policy_parse(&context, policy, kept) : diag_memory(&run->diags);
	if (!status && policy_is(policy, TRAIT_LIMITED))
		policy->max_checkpoints = option(t, MOST, 4);
	return status;
}

static struct job_options make_options(const struct policy *policy, const struct trial *t, const struct run *run)
{
	static const enum dtype stores[] = {DTYPE_COUNT, DTYPE_F16, DTYPE_BF16};
	static const int64_t tiles[] = {0, 1, 2, 3, 5, 7, 64, 1000};
	return (struct job_options){.policy = policy,
	                            .threads = t->plain ? 1 : 1 + option(t, THREADS, 3),
	                            .tile = t->plain ? 0 : tiles[option(t, TILE, 8)],
	                            .store = t->plain ? DTYPE_COUNT : stores[option(t, STORE, 3)],
	                            .want_value = option(t, FLAGS, 64) & WITH_VALUE,
	                            .whole_bytes = !t->plain && (option(t, FLAGS, 64) & WHOLE) ? INT64_MAX : 0,
	                            .memory =
	                                policy->kind == POLICY_auto ? 1 + t->peak * (1 + option(t, NUMBER, 6)) / 6 : 0,
	                            .param_bytes = run->params.bytes};
}

/* As plan does it: with types alone. OUTPUT is the chain's. */
static enum status plan(const struct trial *t, struct counters *counters, struct type *output)
{
	struct run run;
	struct policy policy;
	struct job job = {0};
	enum status status = run_open(&run, t, false, DTYPE_F32);
	if (!status) {
		const struct type type = run_input_type(&run.chain, &t->file, chosen_dtype(t));
		params_settle(&run.params, &run.chain, dtype_compute(type.dtype));
		status = make_policy(&policy, t, &run);
		if (!status) {
			const struct job_options options = make_options(&policy, t, &run);
			const struct context context = {&run.allocator, &run.arena, &run.diags};
			status = job_make(&context, &job, &run.chain, &type, &options);
			*counters = job.predicted;
			*output = job.whole.output;
			job_free(&job);
		}
	}
	run_close(&run, status);
	return status;
}

static void differentiate(const struct trial *t, struct outcome *out)
{
	struct run run;
	struct policy policy;
	struct gradient_result result = {0};
	const int to = memory_file(), value = memory_file();
	struct output gradient_output, value_output;
	struct writer gradient, second;
	const struct writer_options writing = {.format = FORMAT_NPY};
	memset(out, 0, sizeof *out);
	out->status = run_open(&run, t, true, chosen_dtype(t) == DTYPE_COUNT ? DTYPE_F32 : chosen_dtype(t));
	if (!out->status)
		out->status = make_policy(&policy, t, &run);
	if (!out->status)
		out->status = run_read(&run, t);
	if (!out->status) {
		gradient_output = (struct output){.fd = to, .name = "gradient", .seekable = true, .arena = &run.arena};
		value_output = (struct output){.fd = value, .name = "value", .seekable = true, .arena = &run.arena};
		writer_init(&gradient, &gradient_output, &writing, &run.arena);
		writer_init(&second, &value_output, &writing, &run.arena);
		const struct run_options options = {.job = make_options(&policy, t, &run),
		                                    .dtype = chosen_dtype(t),
		                                    .value = option(t, FLAGS, 64) & WITH_VALUE ? &second : NULL};
		const struct gradient_options backward = {
			.gradient = &gradient, .cotangent = t->cotangent, .special = true, .cast = true, .spill = spill};
		const struct run_subject subject = {&run.chain, &run.params, &run.reader, NULL};
		const struct context context = {&run.allocator, &run.arena, &run.diags};
		out->status = run_gradient(&context, &subject, &options, &backward, &result);
		if (!out->status)
			require(!writer_finish(&gradient, &run.diags) && !writer_finish(&second, &run.diags));
		writer_free(&gradient);
		writer_free(&second);
	}
	out->counters = result.measured;
	take_bits(&out->gradient, to, result.has_job ? result.job.input.dtype : DTYPE_F64);
	take_bits(&out->value, value, result.has_job ? result.job.whole.output.dtype : DTYPE_F64);
	for (size_t i = 0; i < result.param_count && !out->status; i++) {
		struct bits *all = &out->params;
		const struct param_gradient *g = &result.params[i];
		if (!g->data)
			continue;
		all->bytes = realloc(all->bytes, all->size + g->size + 1);
		require(all->bytes);
		memcpy(all->bytes + all->size, g->data, g->size);
		all->size += g->size;
		all->dtype = g->type.dtype; /* of all alike, or nearly: a NaN of another is compared by its bits */
	}
	gradient_free(&result);
	run_close(&run, out->status);
}

static enum status forward(const struct trial *t, struct bits *bits, enum dtype dtype)
{
	struct run run;
	struct output output;
	struct writer writer;
	struct run_counters counters;
	const int to = memory_file();
	const struct writer_options writing = {.format = FORMAT_NPY};
	enum status status = run_open(&run, t, true, chosen_dtype(t) == DTYPE_COUNT ? DTYPE_F32 : chosen_dtype(t));
	if (!status)
		status = run_read(&run, t);
	if (!status) {
		const struct job_options how = make_options(&policy_save_all, t, &run);
		const struct run_options options = {
			.job = {.threads = how.threads, .tile = how.tile}, .dtype = chosen_dtype(t), .value = &writer};
		const struct run_subject subject = {&run.chain, &run.params, &run.reader, NULL};
		const struct context context = {&run.allocator, &run.arena, &run.diags};
		output = (struct output){.fd = to, .name = "value", .seekable = true, .arena = &run.arena};
		writer_init(&writer, &output, &writing, &run.arena);
		status = run_forward(&context, &subject, &options, &counters);
		if (!status)
			require(!writer_finish(&writer, &run.diags));
		writer_free(&writer);
	}
	run_close(&run, status);
	take_bits(bits, to, dtype);
	return status;
}

/* Chooses the input's type. The head gives the extent of * and all that the chain does not declare. */
static bool choose_type(struct trial *t, bool *small)
{
	struct run run;
	struct lowered lowered;
	*small = false;
	enum status status = run_open(&run, t, false, DTYPE_F32);
	if (!status) {
		const struct declared *declared = &run.chain.input_type;
		t->file.dtype = (enum dtype)option(t, TYPE, DTYPE_BOOL + 1);
		t->file.shape.ndim = declared->given ? declared->type.shape.ndim : option(t, NDIM, 4);
		for (int i = 0; i < t->file.shape.ndim; i++) {
			const int extent = option(t, EXTENTS + i % 3, 8);
			t->file.shape.dim[i] = extent < 7 ? extent : i == 0 ? 700 : 7;
			if (declared->given && declared->type.shape.dim[i] >= 0)
				t->file.shape.dim[i] = declared->type.shape.dim[i];
		}
		const struct type type = run_input_type(&run.chain, &t->file, chosen_dtype(t));
		params_settle(&run.params, &run.chain, dtype_compute(type.dtype));
		status = shape_count(&t->file.shape) < 0 || type_bytes(&t->file) > BYTES_MOST
		             ? diag_memory(&run.diags)
		             : lower(&(struct context){&run.allocator, &run.arena, &run.diags}, &lowered, &run.chain, NULL,
		                     &type, LOWER_UNROLLED);
		const struct body *body = status ? NULL : lowered.distinct_count ? lowered.distinct[0]->body : NULL;
		*small = body && body->instr_count <= INSTRUCTIONS;
		int64_t bytes = 0;
		for (size_t i = 0; *small && i < body->value_count; i++) {
			bytes += type_bytes(body->values[i].type) < BYTES_MOST ? type_bytes(body->values[i].type) : BYTES_MOST;
			*small = bytes < BYTES_MOST;
		}
	}
	run_close(&run, status);
	return !status;
}

static bool same_counters(const struct counters *a, const struct counters *b)
{
	return a->steps == b->steps && a->evaluations == b->evaluations && a->checkpoints == b->checkpoints &&
	       a->stored_bytes == b->stored_bytes && a->peak_bytes == b->peak_bytes && a->spill_writes == b->spill_writes &&
	       a->spill_reads == b->spill_reads;
}

static void outcome_free(struct outcome *out)
{
	free(out->gradient.bytes);
	free(out->value.bytes);
	free(out->params.bytes);
}

static void try(struct trial *t)
{
	struct trial plain = *t;
	struct counters predicted;
	struct type output;
	struct outcome all, one;
	struct bits value = {0};
	int cotangent = -1;
	char path[32];
	plain.plain = true;
	if (!plan(&plain, &predicted, &output))
		t->peak = predicted.peak_bytes;
	else
		return;
	if (option(t, FLAGS, 64) & COTANGENT) {
		cotangent = memory_file();
		put_array(cotangent, &output, false, t->head[VALUES] + 1u);
		snprintf(path, sizeof path, "/proc/self/fd/%d", cotangent);
		t->cotangent = plain.cotangent = path;
	}
	differentiate(&plain, &all);
	const enum status planned = plan(t, &predicted, &output);
	differentiate(t, &one);
	const bool stored = option(t, STORE, 3);
	require(one.status || !planned);
	require(one.status || same_counters(&predicted, &one.counters));
	require(one.status == all.status || one.status == STATUS_LIMIT || all.status == STATUS_LIMIT);
	if (!one.status && !all.status && !stored) {
		require_same(&one.gradient, &all.gradient);
		require_same(&one.params, &all.params);
	}
	if (!one.status && (option(t, FLAGS, 64) & WITH_VALUE) && !forward(t, &value, one.value.dtype) && !stored)
		require_same(&one.value, &value);
	if (cotangent >= 0)
		close(cotangent);
	free(value.bytes);
	outcome_free(&all);
	outcome_free(&one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trial t = {0};
	bool small;
	if (size < HEAD)
		return 0;
	if (!has_spill) {
		require(mkdtemp(spill));
		has_spill = true;
		atexit(remove_spill);
	}
	memcpy(t.head, data, HEAD);
	t.length = size - HEAD;
	char *copy = malloc(t.length + 1); /* its own block, so that a read beyond its end is seen */
	require(copy);
	memcpy(copy, data + HEAD, t.length);
	t.text = copy;
	if (choose_type(&t, &small) && small)
		try(&t);
	free(copy);
	return 0;
}

#include "replay.h"
