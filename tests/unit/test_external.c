/*
 * Steps of other programs: commands by each way of exchange, shared objects, and every way to fail. The suite is its own
 * client: with the argument `client` it answers messages for the step y = x + c x^2 of f64 arrays, and fails as asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/system.h"
#include "external/external.h"
#include "external/memory.h"
#include "failing.h"
#include "scratch.h"
#include "suite.h"

/* The client. */

enum { CLIENT_MOST = 1 << 20 };

static struct {
	const char *mode;
	size_t count, bytes;
	bool memory, text;
	char *shared;
	double *x, *c, *g, *out, *tape, *sum;
} client;

static void client_get(double *to)
{
	if (!client.text) {
		if (fread(to, 8, client.count, stdin) != client.count)
			exit(9);
		return;
	}
	for (size_t i = 0; i < client.count; i++)
		if (scanf("%lf", &to[i]) != 1)
			exit(9);
	if (getchar() != '\n')
		exit(9);
}

static void client_put(const double *from)
{
	if (client.text) {
		for (size_t i = 0; i < client.count; i++)
			printf("%s%.17g", i > 0 ? " " : "", from[i]);
		printf("\n");
	} else if (!client.memory)
		fwrite(from, 8, client.count, stdout);
}

static double *client_array(const char *line, const char *key, double *own)
{
	const char *at = strstr(line, key);
	return at && client.memory ? (double *)(client.shared + atoll(at + strlen(key))) : own;
}

static void client_forward(const char *line, bool record)
{
	double *x = client_array(line, " x=", client.x), *c = client_array(line, " c=", client.c);
	double *y = client_array(line, " y=", client.out);
	if (!client.memory)
		client_get(client.x);
	for (size_t i = 0; i < client.count; i++)
		y[i] = x[i] + c[i] * x[i] * x[i];
	if (record)
		memcpy(client.tape, x, client.bytes);
	printf(record ? "ok 7\n" : "ok\n");
	client_put(y);
}

static void client_backward(const char *line)
{
	long long number, handle = 0;
	const bool taped = sscanf(line, "backward %lld %lld", &number, &handle) == 2;
	double *x = taped ? client.tape : client_array(line, " x=", client.x);
	double *c = client_array(line, " c=", client.c), *g = client_array(line, " g=", client.g);
	double *dx = client_array(line, " dx=", client.out), *dc = client_array(line, " dc=", client.c);
	if (!client.memory && !taped)
		client_get(client.x);
	if (!client.memory)
		client_get(client.g);
	printf("ok\n");
	for (size_t i = 0; i < client.count; i++)
		dx[i] = g[i] * (1 + 2 * c[i] * x[i]);
	client_put(dx);
	double *sums = strstr(client.mode, "sums") ? client.sum : NULL;
	if (!client.memory && !sums)
		dc = client.out;
	for (size_t i = 0; i < client.count; i++)
		if (sums)
			sums[i] += g[i] * x[i] * x[i];
		else
			dc[i] = g[i] * x[i] * x[i];
	if (!sums)
		client_put(dc);
}

/* Fails as client.mode asks, before the answer to LINE. */
static void client_fail(const char *line)
{
	const char *mode = client.mode;
	if (strncmp(line, "forward 3", 9) != 0)
		return;
	fprintf(stderr, "first line\n  the tank is empty\n\n");
	if (strstr(mode, "exit"))
		exit(3);
	if (strstr(mode, "abort"))
		raise(SIGKILL);
	if (strstr(mode, "hang"))
		for (;;)
			pause();
	if (strstr(mode, "few")) {
		client_get(client.x);
		printf("ok\n");
		fwrite(client.x, 1, 5, stdout);
		exit(0);
	}
	if (strstr(mode, "silent")) {
		fclose(stdout);
		for (;;)
			pause();
	}
	if (strstr(mode, "deaf")) {
		fclose(stdin);
		printf("ok\n");
		fwrite(client.out, 8, client.count, stdout);
		fflush(stdout);
		exit(0);
	}
	if (strstr(mode, "words"))
		printf("okay\n");
	if (strstr(mode, "error"))
		printf("error no convergence\n");
	if (strstr(mode, "long"))
		printf("%05000d\n", 1);
	if (strstr(mode, "many"))
		printf("extra\n");
}

static void client_open(const char *line)
{
	const char *extent = strchr(line, '[');
	client.count = 1;
	for (; *extent != ']'; extent++)
		client.count *= extent[1] == ']' ? 1 : (size_t)atoll(extent + 1), extent += strcspn(extent + 1, ",]");
	client.bytes = 8 * client.count;
	double **const arrays[] = {&client.x, &client.c, &client.g, &client.out, &client.tape, &client.sum};
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		*arrays[i] = calloc(client.count + 1, 8);
	const char *mode = client.mode;
	printf("ready %d%s%s%s%s%s%s\n", strstr(mode, "version") ? 2 : 1, strstr(mode, "only") ? "" : " backward",
	       client.memory ? " memory" : "", client.text ? " text" : "", strstr(mode, "record") ? " record=800" : "",
	       strstr(mode, "sums") ? " sums=c" : "", strstr(mode, "trait") ? " frobnicate" : "");
}

static int client_main(const char *mode)
{
	char line[4096];
	client.mode = mode;
	client.memory = strstr(mode, "memory");
	client.text = strstr(mode, "text");
	while (fgets(line, sizeof line, stdin)) {
		client_fail(line);
		if (!strncmp(line, "open", 4)) {
			client_open(line);
		} else if (!strncmp(line, "set c", 5)) {
			client_get(client.c);
			if (strstr(mode, "noisy")) /* more than a pipe holds */
				for (int i = 0; i < 100000; i++)
					fprintf(stderr, "noise %d\n", i);
		} else if (!strncmp(line, "memory", 6)) {
			if (client.shared)
				munmap(client.shared, client.bytes);
			client.shared = mmap(NULL, (size_t)atoll(line + 7), PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
			if (client.shared == MAP_FAILED)
				exit(8);
			if (strstr(mode, "resizes"))
				fprintf(stderr, "%s shrink, %s seal, %s grow\n", ftruncate(3, 0) ? "cannot" : "can",
				        fcntl(3, F_ADD_SEALS, F_SEAL_GROW) ? "cannot" : "can",
				        ftruncate(3, atoll(line + 7) + 100000) ? "cannot" : "can");
		} else if (!strncmp(line, "forward", 7)) {
			client_forward(line, false);
		} else if (!strncmp(line, "record", 6)) {
			client_forward(line, true);
		} else if (!strncmp(line, "backward", 8)) {
			client_backward(line);
		} else if (!strncmp(line, "gradient", 8)) {
			printf("ok\n");
			memcpy(client_array(line, " dc=", client.out), client.sum, client.bytes);
			client_put(client.out);
			memset(client.sum, 0, client.bytes);
		} else if (strncmp(line, "release", 7) != 0) {
			exit(7);
		}
		if (fflush(stdout) != 0)
			exit(6);
	}
	return strstr(mode, "badly") ? 5 : 0;
}

/* The tests. */

static char self[4096];
static char heard[1 << 21];
static size_t heard_used;

static void hear(void *context, const char *text, size_t length)
{
	(void)context;
	if (heard_used + length < sizeof heard)
		memcpy(heard + heard_used, text, length);
	heard_used += length;
}

static struct external_set *set;
static struct program_traits traits;
static struct failing failing;
static struct allocator counted;
static const char *const names[] = {"step"};

static void setup(void)
{
	failing = (struct failing){0};
	counted = failing_allocator(&failing);
	scratch_begin(&counted);
	set = NULL;
	heard_used = 0;
	memset(heard, 0, sizeof heard);
}

static void teardown(void)
{
	external_close(set);
	scratch_teardown();
	ck_assert_uint_eq(failing.live, 0);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no child, no zombie */
	ck_assert_int_eq(errno, ECHILD);
}

static enum status bind_command(const char *target, int workers, double timeout)
{
	const struct external_binding binding = {"step", target};
	const struct external_options options = {.timeout = timeout, .workers = workers, .pass = hear};
	return external_bind(&scratch, names, 1, &(struct external_bindings){&binding, 1}, &options, &set);
}

static const char *const operand_names[] = {"c"};

static enum status open_step(int64_t count)
{
	const struct type type = {DTYPE_F64, {.ndim = 1, .dim = {count}}};
	const struct external_signature signature = {.x = type,
	                                             .y = type,
	                                             .count = 1,
	                                             .names = operand_names,
	                                             .operands = &type,
	                                             .gradient_x = true,
	                                             .gradients = 1};
	return external_open(set, 0, &signature, &traits, &diags);
}

static const char *client_command(const char *mode) { return arena_printf(&arena, "exec %s client %s", self, mode); }

/* Binds and opens the suite's client. */
static void open_client(const char *mode, int64_t count, double timeout)
{
	ck_assert_int_eq(bind_command(client_command(mode), 2, timeout), STATUS_OK);
	ck_assert_msg(open_step(count) == STATUS_OK, "%s", scratch_message());
}

static double *values(int64_t count, double first)
{
	double *made = arena_array(&arena, (size_t)count + 1, sizeof *made);
	for (int64_t i = 0; i < count; i++)
		made[i] = first + (double)(i % 100) / 7;
	return made;
}

/* Arrays of one step. */
struct step {
	int64_t count;
	double *x, *c, *g, *y, *dx, *dc;
};

static struct step make_step(int64_t count)
{
	return (struct step){
		count,           values(count, 0.25), values(count, -1), values(count, 0.5), values(count, 0), values(count, 0),
		values(count, 0)};
}

static enum status forward(const struct step *s, int worker, int64_t number, uint64_t *recorded)
{
	const void *const operands[] = {s->c};
	const struct external_call call = {.kind = recorded ? EXTERNAL_RECORD : EXTERNAL_FORWARD,
	                                   .number = number,
	                                   .x = s->x,
	                                   .operands = operands,
	                                   .constant = 1,
	                                   .y = s->y,
	                                   .recorded = recorded};
	return external_call(set, worker, &call, &diags);
}

static enum status backward(const struct step *s, int worker, int64_t number, uint64_t handle)
{
	const void *const operands[] = {s->c};
	void *doperands[] = {s->dc};
	const struct external_call call = {.kind = EXTERNAL_BACKWARD,
	                                   .number = number,
	                                   .x = handle ? NULL : s->x,
	                                   .operands = operands,
	                                   .constant = 1,
	                                   .g = s->g,
	                                   .dx = s->dx,
	                                   .doperands = doperands,
	                                   .handle = handle};
	return external_call(set, worker, &call, &diags);
}

static void check_forward(const struct step *s)
{
	for (int64_t i = 0; i < s->count; i++)
		ck_assert(s->y[i] == s->x[i] + s->c[i] * s->x[i] * s->x[i]);
}

static void check_backward(const struct step *s, bool summed)
{
	for (int64_t i = 0; i < s->count; i++) {
		ck_assert(s->dx[i] == s->g[i] * (1 + 2 * s->c[i] * s->x[i]));
		if (!summed)
			ck_assert(s->dc[i] == s->g[i] * s->x[i] * s->x[i]);
	}
}

static void run_ok(enum status status) { ck_assert_msg(status == STATUS_OK, "%s", scratch_message()); }

static const char *const modes[] = {"raw", "text", "memory", "raw,record", "text,record", "memory,record"};
static const int64_t counts[] = {0, 1, 3, 1000, 100000};

START_TEST(a_command_computes)
{
	const char *mode = modes[_i / 5];
	const int64_t count = counts[_i % 5];
	struct step s = make_step(count);
	uint64_t handle = 0;
	open_client(mode, count, 0);
	ck_assert(traits.bound && traits.backward && traits.needs_x && !traits.needs_y && traits.needs_operands == 1);
	ck_assert_int_eq(traits.record_bytes, strstr(mode, "record") ? 800 : -1);
	for (int worker = 0; worker < 2; worker++) {
		run_ok(forward(&s, worker, 0, NULL));
		check_forward(&s);
		run_ok(backward(&s, worker, 0, 0));
		check_backward(&s, false);
	}
	if (strstr(mode, "record")) {
		run_ok(forward(&s, 1, 1, &handle));
		ck_assert_uint_eq(handle, 7);
		check_forward(&s);
		memset(s.dx, 0, (size_t)count * 8);
		run_ok(backward(&s, 1, 1, handle));
		check_backward(&s, false);
		run_ok(external_release(set, 1, 0, handle, &diags));
	}
	run_ok(external_finish(set, &diags));
}
END_TEST

START_TEST(a_command_sums)
{
	const char *const kinds[] = {"raw,sums", "text,sums", "memory,sums"};
	struct step s = make_step(100);
	double *sum = values(100, 0);
	open_client(kinds[_i], 100, 0);
	ck_assert_uint_eq(traits.sums, 1);
	for (int n = 0; n < 3; n++) {
		run_ok(backward(&s, n % 2, n, 0));
		check_backward(&s, true);
	}
	run_ok(external_sum(set, 0, 0, sum, &diags));
	for (int i = 0; i < 100; i++)
		ck_assert(sum[i] == s.g[i] * s.x[i] * s.x[i] + s.g[i] * s.x[i] * s.x[i] + s.g[i] * s.x[i] * s.x[i]);
	run_ok(external_sum(set, 0, 0, sum, &diags));
	for (int i = 0; i < 100; i++)
		ck_assert(sum[i] == 0);
}
END_TEST

START_TEST(operands_are_sent_again)
{
	struct step s = make_step(10);
	open_client(modes[_i], 10, 0);
	run_ok(forward(&s, 0, 0, NULL));
	s.c[3] = 40;
	external_forget(set);
	run_ok(forward(&s, 0, 1, NULL));
	check_forward(&s);
	s = make_step(20); /* other types: a new open */
	run_ok(open_step(20));
	run_ok(forward(&s, 0, 0, NULL));
	check_forward(&s);
}
END_TEST

START_TEST(shared_arrays_are_not_copied)
{
	void *at, *other;
	struct step s = make_step(1000);
	open_client("memory", 1000, 0);
	run_ok(external_memory(set, 8000 * 4, &at, &diags));
	run_ok(external_memory(set, 8000, &other, &diags));
	ck_assert(at && other);
	memcpy(at, s.x, 8000);
	s.x = at;
	s.y = s.x + 1000;
	s.g = s.x + 2000;
	s.dx = s.x + 3000;
	s.dc = other;
	memcpy(s.g, s.x, 8000);
	run_ok(forward(&s, 0, 0, NULL));
	check_forward(&s);
	run_ok(backward(&s, 1, 0, 0));
	check_backward(&s, false);
	external_memory_put(set, at);
	run_ok(external_memory(set, 100, &at, &diags));
	ck_assert_int_eq(((char *)at)[0], 0);
	/* Nobody else asks for it. */
	external_close(set);
	open_client("raw", 10, 0);
	run_ok(external_memory(set, 100, &at, &diags));
	ck_assert_ptr_null(at);
}
END_TEST

/* Pages of the segment that exist: COUNT. */
static void check_pages(const struct shared_memory *memory, int64_t count)
{
	struct stat file;
	ck_assert_int_eq(fstat(memory->fd, &file), 0);
	ck_assert_int_eq(file.st_blocks * 512, count * sysconf(_SC_PAGESIZE));
}

START_TEST(pages_of_the_next_array_are_readied)
{
	/* the array, in pages; and the pages that exist then */
	static const struct {
		size_t first, pages;
		int64_t exist;
	} rows[] = {{0, 3, 3}, {1, 3, 4}, {0, 1, 4}, {5, 5, 4}, {4, 4, 6}, {8, 1, 6}, {2, 3, 6}};
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct shared_memory memory;
	ck_assert(memory_open(&memory, &allocator_system));
	char *const at = memory_get(&memory, 10 * page);
	ck_assert_ptr_nonnull(at);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		memory_ready_next(&memory, at + rows[i].first * page, rows[i].pages * page);
		check_pages(&memory, rows[i].exist);
	}
	memory_ready_next(&memory, rows, page);
	check_pages(&memory, 6);
	memory_put(&memory, at);
	check_pages(&memory, 0);
	memory_ready_next(&memory, memory_get(&memory, 10 * page), page);
	check_pages(&memory, 1);
	memory_close(&memory);
}
END_TEST

/* Backward calls, each with another g, whose dc lies in the command's memory; and the work during the next call. */
struct aliasing {
	const double *aliased[3]; /* dc of each call so far */
	int call, works;
};

static void look_meanwhile(void *context)
{
	struct aliasing *aliasing = context;
	aliasing->works++;
	for (int64_t i = 0; aliasing->call > 0 && i < 1000; i++)
		ck_assert(aliasing->aliased[aliasing->call - 1][i] == aliasing->call);
}

/* A dc in the command's memory keeps its values while the next call runs. Raw pipes and text have none there. */
START_TEST(gradients_are_aliased)
{
	static const char *const clients[] = {"memory", "raw", "text"};
	struct step s = make_step(1000);
	const void *const operands[] = {s.c};
	struct aliasing aliasing = {.call = 0};
	open_client(clients[_i], 1000, 0);
	for (; aliasing.call < 3; aliasing.call++) {
		void *doperands[] = {s.dc};
		for (int i = 0; i < 1000; i++) {
			s.x[i] = 1;
			s.g[i] = aliasing.call + 1;
		}
		run_ok(external_call(set, 0,
		                     &(struct external_call){.kind = EXTERNAL_BACKWARD,
		                                             .x = s.x,
		                                             .operands = operands,
		                                             .g = s.g,
		                                             .dx = s.dx,
		                                             .doperands = doperands,
		                                             .aliased = 1,
		                                             .meanwhile = _i ? NULL : look_meanwhile,
		                                             .context = &aliasing},
		                     &diags));
		ck_assert((doperands[0] == s.dc) == (_i > 0));
		aliasing.aliased[aliasing.call] = doperands[0];
		for (int i = 0; i < 1000; i++)
			ck_assert(aliasing.aliased[aliasing.call][i] == aliasing.call + 1);
	}
	ck_assert_int_eq(aliasing.works, _i ? 0 : 3);
}
END_TEST

START_TEST(standard_error_passes_through)
{
	struct step s = make_step(300000);
	open_client("raw,noisy", 300000, 0);
	run_ok(forward(&s, 0, 0, NULL));
	check_forward(&s);
	external_close(set);
	set = NULL;
	ck_assert_uint_gt(heard_used, 1000000);
	ck_assert_ptr_nonnull(strstr(heard, "noise 99999\n"));
}
END_TEST

/* Modes of the client, and what the message and its note say of it. */
static const struct {
	const char *mode, *message, *hint;
} failures[] = {
	{"raw,exit", "it ended with exit status 3 before it answered", "the tank is empty"},
	{"memory,exit", "it ended with exit status 3 before it answered", "the tank is empty"},
	{"raw,abort", "it was ended by signal 9 (Killed) before it answered", "the tank is empty"},
	{"raw,hang", "for 0.3 s it has neither read nor written: it stopped before it answered", "the tank is empty"},
	{"raw,few", "it ended with exit status 0 after 5 of the 80 bytes of y, '\\x00\\x00\\x00\\x00\\x00'",
     "the tank is empty"},
	{"raw,silent", "it closed its standard output, but did not end, before it answered", "the tank is empty"},
	{"raw,words", "it answered 'okay' to 'forward', where 'ok' is due", "the tank is empty"},
	{"raw,error", "it reports: no convergence", "the tank is empty"},
	{"raw,long", "a line of its answer is longer than 4095 bytes", "the tank is empty"},
};

START_TEST(a_failure_is_named)
{
	struct step s = make_step(10);
	open_client(failures[_i].mode, 10, strstr(failures[_i].mode, "hang") ? 0.3 : 0);
	run_ok(forward(&s, 0, 2, NULL));
	ck_assert_int_eq(forward(&s, 0, 3, NULL), STATUS_PROGRAM);
	const char *expected = arena_printf(&arena, "program 'step' (%s): step 3: %s", client_command(failures[_i].mode),
	                                    failures[_i].message);
	ck_assert_str_eq(scratch_message(), expected);
	ck_assert_ptr_nonnull(strstr(scratch_hint(), failures[_i].hint));
	ck_assert_int_eq(forward(&s, 0, 4, NULL), STATUS_PROGRAM);
	ck_assert_ptr_nonnull(strstr(scratch_message(), "it has failed before"));
}
END_TEST

/* What follows the good answer to `forward`, of 80 bytes, when it is noticed, and what is said of it. */
static const struct {
	const char *after;
	enum { AT_ONCE, AT_NEXT, AT_END } noticed;
	const char *message, *hint;
} surpluses[] = {
	{"", AT_ONCE, "step 0: it wrote more than its answer to 'forward': 'aaaaa', 5 bytes",
     "its answer is a line, y (80 bytes)"},
	{"sleep 0.1;", AT_NEXT, "step 0: it wrote more than its answer to 'forward': 'aaaaa', 5 bytes", ""},
	{"sleep 0.1;", AT_END, "it wrote more than its last answer: 'aaaaa', 5 bytes", ""},
	{"sleep 0.1; head -c 3000000 /dev/zero;", AT_NEXT, "...', 3000005 bytes", ""},
};

START_TEST(bytes_after_an_answer)
{
	struct step s = make_step(10);
	const char *command =
		arena_printf(&arena,
	                 "read l; echo ready 1; read l; head -c 80 >/dev/null; read l; head -c 80 "
	                 ">/dev/null; (echo ok; head -c 80 /dev/zero; %s printf aaaaa) | %s; cat >/dev/null",
	                 surpluses[_i].after, surpluses[_i].noticed == AT_ONCE ? "dd bs=99 iflag=fullblock" : "cat");
	ck_assert_int_eq(bind_command(command, 1, 0), STATUS_OK);
	run_ok(open_step(10));
	enum status status = forward(&s, 0, 0, NULL);
	if (surpluses[_i].noticed != AT_ONCE) {
		run_ok(status);
		usleep(300000);
		status = surpluses[_i].noticed == AT_END ? external_finish(set, &diags) : forward(&s, 0, 1, NULL);
	}
	ck_assert_int_eq(status, STATUS_PROGRAM);
	ck_assert_msg(strstr(scratch_message(), surpluses[_i].message), "%s", scratch_message());
	ck_assert_msg(strstr(scratch_hint(), surpluses[_i].hint), "%s", scratch_hint());
}
END_TEST

/* What the client answers to `backward` beside dx, which alone is asked for; what the note says. */
START_TEST(a_cotangent_that_nobody_wants)
{
	const struct type type = {DTYPE_F64, {.ndim = 1, .dim = {10}}};
	const struct external_signature signature = {
		.x = type, .y = type, .count = 1, .names = operand_names, .operands = &type, .gradient_x = true};
	struct step s = make_step(10);
	ck_assert_int_eq(bind_command(client_command("raw"), 1, 0), STATUS_OK);
	run_ok(external_open(set, 0, &signature, &traits, &diags));
	enum status status = backward(&s, 0, 7, 0);
	if (!status) { /* the client wrote dc after that */
		usleep(100000);
		status = backward(&s, 0, 6, 0);
	}
	ck_assert_int_eq(status, STATUS_PROGRAM);
	ck_assert_ptr_nonnull(strstr(scratch_message(), "step 7: it wrote more than its answer to 'backward'"));
	ck_assert_ptr_nonnull(strstr(scratch_message(), ", 80 bytes"));
	ck_assert_str_eq(scratch_hint(),
	                 "gradients=x: its answer is 'ok', dx (80 bytes) alone, without cotangents of operands");
}
END_TEST

/* Commands that answer `forward` in part and then wait; what is said after 0.3 s of that. */
static const struct {
	const char *answer, *message, *hint;
} partial[] = {
	{"printf ok", "step 5: for 0.3 s nothing has come after 'ok', which has no line end", ""},
	{"printf 'ok\\001'", "nothing has come after 'ok\\x01', which has no line end", ""},
	{"echo ok", "for 0.3 s nothing has come after 0 of the 80 bytes of y", ""},
	{"echo ok; echo 1.5 2", "nothing has come after 6 of the 80 bytes of y, '1.5 2\\x0a'", "has the word 'text'"},
	{"echo ok; head -c 40 /dev/zero", "after 40 of the 80 bytes of y, '\\x00", "did it write floats of 4?"},
	{"printf 'a line' >&2", "for 0.3 s it has neither read nor written: it stopped before it answered", "a line"},
};

START_TEST(a_part_of_an_answer_is_shown)
{
	struct step s = make_step(10);
	ck_assert_int_eq(bind_command(arena_printf(&arena,
	                                           "read l; echo ready 1; read l; head -c 80 >/dev/null; read l; head -c "
	                                           "80 >/dev/null; %s; cat >/dev/null",
	                                           partial[_i].answer),
	                              1, 0.3),
	                 STATUS_OK);
	run_ok(open_step(10));
	ck_assert_int_eq(forward(&s, 0, 5, NULL), STATUS_PROGRAM);
	ck_assert_msg(strstr(scratch_message(), partial[_i].message), "%s", scratch_message());
	ck_assert_msg(strstr(scratch_hint(), partial[_i].hint), "%s", scratch_hint());
}
END_TEST

/* The timeout counts from the last sign of life, as text on standard error is. */
START_TEST(standard_error_is_life)
{
	struct step s = make_step(1);
	ck_assert_int_eq(bind_command("read l; echo ready 1; read l; head -c 8 >/dev/null; read l; head -c 8 >/dev/null; "
	                              "for i in 1 2 3 4 5 6; do sleep 0.2; echo $i >&2; done; echo ok; echo 1234567",
	                              1, 0.8),
	                 STATUS_OK);
	run_ok(open_step(1));
	run_ok(forward(&s, 0, 0, NULL));
	run_ok(external_finish(set, &diags));
}
END_TEST

START_TEST(the_exit_status_counts)
{
	ck_assert_int_eq(bind_command(_i ? "read l; echo ready 1; cat >/dev/null; kill -SEGV $$"
	                                 : "read l; echo ready 1; cat >/dev/null; echo no disk >&2; exit 3",
	                              1, 0),
	                 STATUS_OK);
	run_ok(open_step(1));
	ck_assert_int_eq(external_finish(set, &diags), STATUS_PROGRAM);
	ck_assert_msg(strstr(scratch_message(), _i ? "it was ended by signal 11 (Segmentation fault) after its last answer"
	                                           : "it ended with exit status 3 after its last answer"),
	              "%s", scratch_message());
	ck_assert_ptr_nonnull(strstr(scratch_hint(), _i ? "" : "no disk"));
}
END_TEST

/* A command cannot shrink the memory that ckptc reads. It may grow it, which does no harm. */
START_TEST(memory_is_sealed)
{
	ck_assert_int_eq(bind_command(arena_printf(&arena, "exec %s client memory,resizes", self), 1, 0), STATUS_OK);
	for (int i = 0; i < 3; i++) {
		struct step s = make_step(1000 << i);
		run_ok(open_step(s.count));
		run_ok(forward(&s, 0, i, NULL));
		check_forward(&s);
	}
	ck_assert_ptr_nonnull(strstr(heard, "cannot shrink, cannot seal, can grow\n"));
}
END_TEST

START_TEST(a_closed_input_is_no_signal)
{
	struct step s = make_step(300000);
	open_client("raw,deaf", 300000, 0);
	signal(SIGPIPE, SIG_DFL);
	run_ok(forward(&s, 0, 2, NULL));
	ck_assert_int_eq(forward(&s, 0, 3, NULL), STATUS_PROGRAM);
	ck_assert_ptr_nonnull(
		strstr(scratch_message(), "it ended with exit status 0 before it had read all that was sent"));
	sigset_t pending;
	sigpending(&pending);
	ck_assert(!sigismember(&pending, SIGPIPE));
}
END_TEST

/* Commands that fail when they are opened. */
static const struct {
	const char *command, *message, *hint;
} wrong_commands[] = {
	{"no-such-command-here", "it ended with exit status 127 (no such command) before it answered", "not found"},
	{"/dev/null", "it ended with exit status 126 (it cannot be executed) before it answered", "ermission denied"},
	{"kill -TERM $$", "it was ended by signal 15 (Terminated) before it answered", ""},
	{"exit 139", "exit status 139, as a shell does after signal 11 (Segmentation fault), before", ""},
	{"read l; echo ready 2", "it speaks version '2' of the protocol, but this ckptc speaks version 1", ""},
	{"read l; echo ready", "it speaks version '' of the protocol", ""},
	{"read l; echo hello", "it answered 'hello' to 'open', where 'ready' is due", ""},
	{"read l; echo; cat", "it answered '' to 'open', where 'ready' is due", ""},
	{"read l; echo ready 1 frobnicate", "the word 'frobnicate', which protocol 1 does not know", ""},
	{"read l; echo ready 1 needs=x,z", "'z' is the name of no array", ""},
	{"read l; echo ready 1 sums=y", "'y' is the name of no array", ""},
	{"read l; echo ready 1 record=-3", "'record=-3': a number of bytes, of at most 18 digits, is due", ""},
	{"read l; echo ready 1 record=1e3", "'record=1e3': a number of bytes", ""},
	{"read l; echo ready 1 record=9223372036854775807", "'record=9223372036854775807': a number of bytes", ""},
	{"read l; printf 'ready\\0 1\\n'", "it answered 'ready\\x00 1' to 'open', where 'ready' is due", ""},
	{"read l; echo ready 1 record=5", "'record' without 'backward'", ""},
	{"read l; echo ready 1 memory text", "both 'memory' and 'text'", ""},
	{"read l; echo error types; sleep 60", "it reports: types", ""},
	{"yes", "it answered 'y' to 'open'", ""},
	{"cat /dev/zero", "a line of its answer is longer than 4095 bytes", ""},
};

START_TEST(a_command_fails_to_open)
{
	ck_assert_int_eq(bind_command(wrong_commands[_i].command, 1, 0), STATUS_OK);
	ck_assert_int_eq(open_step(10), STATUS_PROGRAM);
	ck_assert_msg(strstr(scratch_message(), wrong_commands[_i].message), "%s", scratch_message());
	ck_assert_msg(strstr(scratch_hint(), wrong_commands[_i].hint), "%s", scratch_hint());
}
END_TEST

/* Lines of a text client in place of three numbers of y. */
static const struct {
	const char *line, *message;
} wrong_lines[] = {
	{"1 2", "its line of y has fewer numbers than its type f64[3]: 2"},
	{"1 2 3 4", "its line of y has more numbers than its type f64[3]: 4"},
	{"1 two 3", "'two' is no number, in its line of y"},
	{"1 2 3x", "'3x' is no number, in its line of y"},
	{"", "its line of y has fewer numbers"},
};

START_TEST(a_line_of_numbers_is_wrong)
{
	struct step s = make_step(3);
	const char *command =
		arena_printf(&arena, "read l; echo ready 1 text; read l; read c; read l; read x; echo ok; echo %s; cat",
	                 wrong_lines[_i].line);
	ck_assert_int_eq(bind_command(command, 1, 0), STATUS_OK);
	run_ok(open_step(3));
	ck_assert_int_eq(forward(&s, 0, 3, NULL), STATUS_PROGRAM);
	ck_assert_msg(strstr(scratch_message(), wrong_lines[_i].message), "%s", scratch_message());
}
END_TEST

START_TEST(text_has_the_shortest_digits)
{
	struct step s = make_step(4);
	const double x[] = {0.1, -0.0, INFINITY, 1e300};
	memcpy(s.x, x, sizeof x);
	ck_assert_int_eq(bind_command("read l; echo ready 1 text; read l; read c; read l; read x; echo got \"$x\" >&2; "
	                              "echo ok; echo '1   nan -inf\t2e3 '",
	                              1, 0),
	                 STATUS_OK);
	run_ok(open_step(4));
	run_ok(forward(&s, 0, 0, NULL));
	ck_assert(s.y[0] == 1 && isnan(s.y[1]) && s.y[2] == -INFINITY && s.y[3] == 2000);
	external_close(set);
	set = NULL;
	ck_assert_str_eq(heard, "got 0.1 -0 inf 1e+300\n");
}
END_TEST

START_TEST(a_child_is_clean)
{
	/* Signals are blocked and ignored here, and descriptors are open, that a child must not have. */
	sigset_t block;
	sigfillset(&block);
	signal(SIGUSR1, SIG_IGN);
	const int fd = open("/dev/null", O_RDONLY);
	sigprocmask(SIG_BLOCK, &block, NULL);
	ck_assert_int_eq(bind_command("grep -E '^Sig(Blk|Ign)' /proc/self/status >&2; sh -c 'for f in /dev/fd/*; do [ -e "
	                              "$f ] && echo $f; done' >&2; "
	                              "ps -o pgid= -p $$ | grep -qw $$ && echo own group >&2; read l; echo ready 1",
	                              1, 0),
	                 STATUS_OK);
	run_ok(open_step(10));
	external_close(set);
	set = NULL;
	sigemptyset(&block);
	sigprocmask(SIG_SETMASK, &block, NULL);
	close(fd);
	/* The C library leaves two signals of its own ignored, 32 and 33. */
	ck_assert_msg(strstr(heard, "SigBlk:\t0000000000000000\nSigIgn:\t0000000"), "%s", heard);
	ck_assert_msg(strstr(heard, "80000000\n/dev/fd/0\n/dev/fd/1\n/dev/fd/2\n/dev/fd/3\n") ||
	                  strstr(heard, "00000000\n/dev/fd/0\n/dev/fd/1\n/dev/fd/2\n/dev/fd/3\n"),
	              "%s", heard);
	if (access("/bin/ps", X_OK) == 0)
		ck_assert_ptr_nonnull(strstr(heard, "own group"));
}
END_TEST

/* The number of processes whose command line has WORD. */
static int count_processes(const char *word)
{
	FILE *pipe = popen(arena_printf(&arena,
	                                "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '%.1s[%c]%s' "
	                                "| wc -l",
	                                word, word[1], word + 2),
	                   "r");
	int count = -1;
	ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
	pclose(pipe);
	return count;
}

START_TEST(nothing_is_left)
{
	/* It ignores the end of its input and SIGTERM, and has a child in the background that does too. */
	ck_assert_int_eq(
		bind_command("trap '' TERM; sleep 7654.321 <&- >&- 2>&- & read l; echo ready 1; sleep 7654.321", 1, 0),
		STATUS_OK);
	run_ok(open_step(10));
	ck_assert_int_gt(count_processes("7654.321"), 0);
	const double begin = clock_seconds();
	if (_i)
		external_close(set), set = NULL;
	else
		external_cleanup();
	ck_assert(clock_seconds() - begin < 6);
	/* The kernel ends a killed process of the group that is nobody's child here when it comes to it. */
	int count = count_processes("7654.321");
	for (const double killed = clock_seconds(); count > 0 && clock_seconds() - killed < 5;
	     count = count_processes("7654.321"))
		poll(NULL, 0, 20);
	ck_assert_int_eq(count, 0);
}
END_TEST

static enum status bind_list(const struct external_binding *list, size_t count)
{
	const struct external_options options = {.workers = 1};
	return external_bind(&scratch, names, 1, &(struct external_bindings){list, count}, &options, &set);
}

START_TEST(names_are_checked)
{
	const struct external_binding other = {"stp", "cat"}, twice[] = {{"step", "cat"}, {"step", "cat"}},
								  none = {"step", ""};
	ck_assert_int_eq(bind_list(&other, 1), STATUS_USAGE);
	ck_assert_str_eq(scratch_message(), "--program: the chain has no program 'stp'");
	ck_assert_str_eq(scratch_hint(), "did you mean 'step'?");
	ck_assert_int_eq(bind_list(twice, 2), STATUS_USAGE);
	ck_assert_int_eq(bind_list(&none, 1), STATUS_USAGE);
	ck_assert_int_eq(bind_list(NULL, 0), STATUS_OK);
	ck_assert(!external_bound(set, 0));
	ck_assert_int_eq(bind_command("cat", 1, 0), STATUS_OK);
	const char *const clashes[][2] = {{"c", "dc"}, {"x", "a"}, {"gradients", "b"}, {"a", "a"}, {"g", "b"}, {"dx", "b"}};
	const struct type types[2] = {{DTYPE_F64, {0}}, {DTYPE_F64, {0}}};
	for (size_t i = 0; i < sizeof clashes / sizeof *clashes; i++) {
		const struct external_signature signature = {
			.x = types[0], .y = types[0], .count = 2, .names = clashes[i], .operands = types};
		ck_assert_int_eq(external_open(set, 0, &signature, &traits, &diags), STATUS_CHAIN);
	}
}
END_TEST

START_TEST(failed_allocations_are_reported)
{
	struct step s;
	char command[sizeof self + 40];
	snprintf(command, sizeof command, "exec %s client memory", self);
	for (size_t n = 1;; n++) {
		failing.requests = 0;
		failing.fail_at = n;
		enum status status = bind_command(command, 1, 0);
		status = status ? status : open_step(10);
		failing.fail_at = 0;
		s = make_step(10);
		status = status ? status : forward(&s, 0, 0, NULL);
		external_close(set);
		set = NULL;
		ck_assert(status == STATUS_OK || status == STATUS_LIMIT);
		scratch_teardown();
		scratch_begin(&counted);
		if (!status && failing.requests < n + 3)
			break;
		ck_assert_uint_lt(n, 100);
	}
}
END_TEST

/* Shared objects. */

static char folder[] = "/tmp/test_programs.XXXXXX";

/* Compiles CODE to a shared object, whose path it returns. */
static const char *make_object(const char *code)
{
	const char *source = arena_printf(&arena, "%s/step.c", folder),
			   *object = arena_printf(&arena, "%s/step.so", folder);
	const char *top = getenv("TOP");
	FILE *file = fopen(source, "w");
	fputs("#include \"ckptc_step.h\"\n#include <stdlib.h>\n", file);
	fputs(code, file);
	fclose(file);
	ck_assert_int_eq(
		system(arena_printf(&arena, "cc -shared -fPIC -I%s/src -o %s %s -lm", top ? top : ".", object, source)), 0);
	return object;
}

static const char step_code[] =
	"static int64_t n; static double *kept, *total;\n"
	"static const char *op(const struct ckptc_step_signature *s, struct ckptc_step_traits *t, void **c)\n"
	"{ n = s->x.count; if (s->x.bytes != 8 || s->operand_count != 1) return \"types\"; t->record_bytes = 800;\n"
	"  kept = calloc(n, 8); total = calloc(n, 8); *c = kept; return 0; }\n"
	"static const char *fo(void *k, int64_t number, const void *x_, const void *const *o, void *y_)\n"
	"{ const double *x = x_, *c = o[0]; double *y = y_; if (number == 3) return \"no convergence\";\n"
	"  for (int64_t i = 0; i < n; i++) y[i] = x[i] + c[i] * x[i] * x[i]; return 0; }\n"
	"static const char *re(void *k, int64_t number, const void *x, const void *const *o, void *y, uint64_t *h)\n"
	"{ for (int64_t i = 0; i < n; i++) kept[i] = ((const double *)x)[i]; *h = number == 4 ? 0 : 7;\n"
	"  return fo(k, number, x, o, y); }\n"
	"static const char *ba(void *k, int64_t number, const void *x_, const void *const *o, const void *y, const void "
	"*g_,\n"
	"  uint64_t h, void *dx_, void *const *d) { const double *x = h ? kept : x_, *c = o[0], *g = g_; double *dx = "
	"dx_,\n"
	"  *dc = d[0]; for (int64_t i = 0; i < n; i++) { dx[i] = g[i] * (1 + 2 * c[i] * x[i]); dc[i] = g[i] * x[i] * x[i]; "
	"}\n"
	"  return 0; }\n"
	"static void rl(void *k, uint64_t h) {}\n"
	"static void cl(void *k) { free(kept); free(total); }\n"
	"const struct ckptc_step ckptc_step = {CKPTC_STEP_VERSION, op, fo, ba, re, rl, 0, cl};\n";

START_TEST(a_shared_object_computes)
{
	struct step s = make_step(1000);
	uint64_t handle = 0;
	ck_assert_int_eq(bind_command(make_object(step_code), 1, 0), STATUS_OK);
	run_ok(open_step(1000));
	ck_assert(traits.backward && traits.record_bytes == 800 && traits.needs_x && traits.needs_operands == 1);
	run_ok(forward(&s, 0, 0, NULL));
	check_forward(&s);
	run_ok(backward(&s, 0, 0, 0));
	check_backward(&s, false);
	run_ok(forward(&s, 0, 1, &handle));
	ck_assert_uint_eq(handle, 7);
	run_ok(backward(&s, 0, 1, handle));
	check_backward(&s, false);
	ck_assert_int_eq(forward(&s, 0, 4, &handle), STATUS_PROGRAM);
	ck_assert_int_eq(forward(&s, 0, 3, NULL), STATUS_PROGRAM);
	ck_assert_ptr_nonnull(strstr(scratch_message(), "/step.so): step 3: no convergence"));
	s = make_step(10);
	run_ok(open_step(10));
	run_ok(forward(&s, 0, 0, NULL));
	check_forward(&s);
	run_ok(external_finish(set, &diags));
}
END_TEST

static const struct {
	const char *code, *message;
} wrong_objects[] = {
	{"int other;", "it exports no variable 'ckptc_step'"},
	{"const struct ckptc_step ckptc_step = {.version = 2};", "it is made for version 2 of ckptc_step.h, but this is"},
	{"const struct ckptc_step ckptc_step = {.version = 1};", "its ckptc_step lacks 'open'"},
};

START_TEST(a_shared_object_is_wrong)
{
	ck_assert_int_eq(bind_command(make_object(wrong_objects[_i].code), 1, 0), STATUS_PROGRAM);
	ck_assert_msg(strstr(scratch_message(), wrong_objects[_i].message), "%s", scratch_message());
	ck_assert_int_eq(bind_command("./no-such.so", 1, 0), STATUS_PROGRAM);
	ck_assert_ptr_nonnull(strstr(scratch_message(), "cannot load it: ./no-such.so"));
}
END_TEST

/* An object that changes what belongs to the thread and the process, as it is loaded and in each call. */
static const char changing_code[] =
	"#include <fenv.h>\n#include <signal.h>\n"
	"__attribute__((constructor)) static void change(void) { sigset_t all; sigfillset(&all);\n"
	"  sigprocmask(SIG_BLOCK, &all, 0); fesetround(FE_DOWNWARD); signal(SIGTERM, SIG_IGN); }\n"
	"static const char *op(const struct ckptc_step_signature *s, struct ckptc_step_traits *t, void **c)\n"
	"{ change(); return 0; }\n"
	"static const char *fo(void *k, int64_t number, const void *x, const void *const *o, void *y)\n"
	"{ const char *wrong = fegetround() == FE_UPWARD ? 0 : \"rounding is lost\"; change(); return wrong; "
	"}\n"
	"const struct ckptc_step ckptc_step = {CKPTC_STEP_VERSION, op, fo};\n";

static void check_thread(void)
{
	sigset_t mask;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	ck_assert_int_eq(sigismember(&mask, SIGTERM), 0);
	ck_assert_int_eq(sigismember(&mask, SIGUSR1), 1);
	ck_assert_int_eq(fegetround(), FE_UPWARD);
}

static void end_never(const char *what) { (void)what; }

/* The thread's state is put back to what it was. Handlers are the caller's matter, unless the process is the command's. */
START_TEST(a_thread_keeps_its_state)
{
	const struct external_binding binding = {"step", make_object(changing_code)};
	const struct external_options options = {.workers = 1, .ended = _i ? end_never : NULL};
	struct step s = make_step(10);
	signal(SIGTERM, SIG_DFL);
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	fesetround(FE_UPWARD);
	run_ok(external_bind(&scratch, names, 1, &(struct external_bindings){&binding, 1}, &options, &set));
	check_thread();
	run_ok(open_step(10));
	check_thread();
	for (int i = 0; i < 3; i++) {
		usleep(300); /* signals are put back 5,000 times a second */
		run_ok(forward(&s, 0, i, NULL));
		check_thread();
	}
	external_close(set);
	set = NULL;
	struct sigaction term;
	sigaction(SIGTERM, NULL, &term);
	ck_assert(term.sa_handler == (_i ? SIG_DFL : SIG_IGN));
	fesetround(FE_TONEAREST);
}
END_TEST

static Suite *external_suite(void)
{
	Suite *suite = suite_create("external");
	TCase *commands = suite_make_case(suite, "commands"), *wrong = suite_make_case(suite, "failures"),
		  *objects = suite_make_case(suite, "objects");
	TCase *const all[] = {commands, wrong, objects};
	for (size_t i = 0; i < 3; i++) {
		tcase_add_checked_fixture(all[i], setup, teardown);
		tcase_set_timeout(all[i], 60);
	}
	tcase_add_loop_test(commands, a_command_computes, 0, 30);
	tcase_add_loop_test(commands, a_command_sums, 0, 3);
	tcase_add_loop_test(commands, operands_are_sent_again, 0, 3);
	tcase_add_test(commands, shared_arrays_are_not_copied);
	tcase_add_test(commands, pages_of_the_next_array_are_readied);
	tcase_add_loop_test(commands, gradients_are_aliased, 0, 3);
	tcase_add_test(commands, standard_error_passes_through);
	tcase_add_test(commands, text_has_the_shortest_digits);
	tcase_add_test(commands, a_child_is_clean);
	tcase_add_loop_test(wrong, a_failure_is_named, 0, sizeof failures / sizeof *failures);
	tcase_add_loop_test(wrong, bytes_after_an_answer, 0, sizeof surpluses / sizeof *surpluses);
	tcase_add_test(wrong, a_cotangent_that_nobody_wants);
	tcase_add_loop_test(wrong, a_part_of_an_answer_is_shown, 0, sizeof partial / sizeof *partial);
	tcase_add_test(wrong, standard_error_is_life);
	tcase_add_loop_test(wrong, the_exit_status_counts, 0, 2);
	tcase_add_test(wrong, memory_is_sealed);
	tcase_add_test(wrong, a_closed_input_is_no_signal);
	tcase_add_loop_test(wrong, a_command_fails_to_open, 0, sizeof wrong_commands / sizeof *wrong_commands);
	tcase_add_loop_test(wrong, a_line_of_numbers_is_wrong, 0, sizeof wrong_lines / sizeof *wrong_lines);
	tcase_add_loop_test(wrong, nothing_is_left, 0, 2);
	tcase_add_test(wrong, names_are_checked);
	tcase_add_test(wrong, failed_allocations_are_reported);
	if (system("command -v cc >/dev/null") == 0) {
		tcase_add_test(objects, a_shared_object_computes);
		tcase_add_loop_test(objects, a_thread_keeps_its_state, 0, 2);
		tcase_add_loop_test(objects, a_shared_object_is_wrong, 0, sizeof wrong_objects / sizeof *wrong_objects);
	}
	return suite;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "client"))
		return client_main(argv[2]);
	const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	if (length <= 0 || !mkdtemp(folder))
		return EXIT_FAILURE;
	const int status = suite_run(external_suite());
	char remove[64];
	snprintf(remove, sizeof remove, "rm -rf %s", folder);
	return system(remove) == 0 ? status : EXIT_FAILURE;
}
