/*
 * A gradient run with a journal is killed after each of its events, resumed, killed again and resumed: it gives the bits
 * of a run that nothing stops. The clock of this suite stands still but for one tick with each event.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chains.h"
#include "exec/run.h"
#include "scratch.h"
#include "suite.h"

enum { SIZE = 12, COUNT = SIZE * SIZE, TILED = 100 * COUNT };

static char folder[] = "/tmp/test_resume.XXXXXX", path[64];
static double now, tick; /* seconds */

/* In place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){.tv_sec = (time_t)now, .tv_nsec = (long)(1e9 * (now - (double)(time_t)now))};
	return 0;
}

/* The system outlives the killed processes here. */
int fdatasync(int fd)
{
	(void)fd;
	return 0;
}

/* Of 12 rows each: the block of w's gradient ends after 43 of 50 iterations (evaluate/evaluate.h). */
#define PRODUCTS "repeat 50 { add { laplacian; mul 0.1 }; add { matmul w; reshape 12 1 }; sin }"

static const struct resumed {
	const char *policy;
	enum dtype store;
	int64_t disk_states; /* the most at once; 0: any number */
	double tick;
	const char *text; /* of the chain, after the param w; NULL: the usual one */
	int64_t tile;     /* rows, of an array with TILED elements; 0: it is not cut */
} cases[] = {
	{"save-all", DTYPE_COUNT, 0, 1, NULL, 0},
	{"every:3", DTYPE_COUNT, 0, 1, NULL, 0},
	{"recursive", DTYPE_COUNT, 0, 1, NULL, 0},
	{"revolve:2", DTYPE_COUNT, 0, 1, NULL, 0},
	{"revolve:3", DTYPE_F16, 0, 1, NULL, 0},
	{"online:2", DTYPE_COUNT, 0, 1, NULL, 0},
	{"budget:20000", DTYPE_COUNT, 0, 1, NULL, 0},
	{"nothing", DTYPE_COUNT, 0, 1, NULL, 0},
	{"budget:25000", DTYPE_COUNT, 0, 1, "mul w; pad 0 90 axis=1; gelu", 0}, /* by value: no schedule of steps fits */
	{"disk-revolve:1", DTYPE_COUNT, 0, 1, NULL, 0},
	/* While no time passes, the states on disk are the points. Before one takes the place of another, an image is. */
	{"disk-revolve:1", DTYPE_COUNT, 0, 0, NULL, 0},
	{"disk-revolve:1", DTYPE_COUNT, 2, 0, "repeat 100 { mul w }", 0},
	{"disk-revolve:1", DTYPE_COUNT, 2, 1, "repeat 100 { mul w }", 0},
	{"save-all", DTYPE_COUNT, 0, 1, PRODUCTS, 0},
	/* Points lie between chunks: of tiles, of windows, and in several passes. */
	{"revolve:2", DTYPE_COUNT, 0, 1, "repeat 4 { add { mul w }; sin }", 64},
	{"revolve:2", DTYPE_F16, 0, 1, "repeat 3 { add { laplacian axes=[0] boundary=zero; mul 0.1 }; sin }; mul w", 64},
	{"save-all", DTYPE_COUNT, 0, 1, "mul w; layernorm axis=0; add { sin }; sub { mean axis=0 }", 64},
};

struct outcome {
	struct kept_array gradient, value;
	double w[SIZE];
	bool resumed;
	struct policy scheduled;
};

struct killing {
	int64_t events, most; /* MOST: the event after which the run ends; 0: none */
};

static enum status note_event(void *context, const struct event *event)
{
	struct killing *killing = context;
	(void)event;
	now += tick;
	if (++killing->events == killing->most)
		_exit(9);
	return STATUS_OK;
}

static int64_t elements(const struct resumed *c) { return c->tile ? TILED : COUNT; }

/* Runs the gradient, with the journal if JOURNAL, up to event MOST. */
static void differentiate(const struct resumed *c, const char *journal, int64_t most, struct outcome *outcome)
{
	static const char usual[] = "repeat 10 { add { laplacian; mul 0.1 }; add { mul w }; sin }";
	static double input_data[TILED];
	struct chain chain;
	struct params params;
	struct policy policy;
	struct input input = {.fd = open("/dev/null", O_RDONLY), .name = "input", .owned = true, .arena = &arena};
	struct reader reader;
	struct writer gradient, value;
	struct gradient_result result;
	struct killing killing = {.most = most};
	const struct type type = {DTYPE_F64, {.ndim = 2, .dim = {elements(c) / SIZE, SIZE}}};
	for (int i = 0; i < TILED; i++)
		input_data[i] = (double)(i * 37 % 101) / 101;
	now = 0;
	tick = c->tick;
	*outcome = (struct outcome){.resumed = false};
	chain_make(&chain, arena_printf(&arena, "param w: f64[12] = uniform(0.5, 1, 1); %s", c->text ? c->text : usual),
	           &arena, &diags);
	ck_assert_int_eq(policy_parse(&scratch, &policy, c->policy), STATUS_OK);
	ck_assert_int_eq(params_bind(&scratch, &params, &chain,
	                             &(struct params_options){.data = true, .compute = DTYPE_F64, .dtype = DTYPE_COUNT}),
	                 STATUS_OK);
	reader_init(&reader, &input, &(struct reader_options){.format = FORMAT_MEMORY, .raw = type, .memory = input_data},
	            &arena);
	writer_init(&gradient, NULL, &(struct writer_options){.format = FORMAT_MEMORY, .memory = &outcome->gradient},
	            &arena);
	writer_init(&value, NULL, &(struct writer_options){.format = FORMAT_MEMORY, .memory = &outcome->value}, &arena);
	const struct run_options options = {.job = {.policy = &policy,
	                                            .threads = 1,
	                                            .tile = c->tile,
	                                            .store = c->store,
	                                            .want_value = true,
	                                            .resumable = true,
	                                            .on_disk = true,
	                                            .disk_bytes = c->disk_states * COUNT * (int64_t)sizeof(double)},
	                                    .dtype = DTYPE_COUNT,
	                                    .value = &value};
	const struct gradient_options how = {
		.gradient = &gradient, .spill = folder, .journal = journal, .trace = note_event, .trace_context = &killing};
	const enum status status =
		run_gradient(&scratch, &(struct run_subject){.chain = &chain, .params = &params, .reader = &reader}, &options,
	                 &how, &result);
	ck_assert_msg(!status, "%s: %s", c->policy, scratch_message());
	ck_assert_uint_eq(result.params[0].size, sizeof outcome->w);
	memcpy(outcome->w, result.params[0].data, sizeof outcome->w);
	outcome->resumed = result.resumed;
	outcome->scheduled = result.job.scheduled;
	gradient_done(&result, &diags);
	gradient_free(&result);
	params_free(&params);
	input_close(&input);
}

/* Runs a process that is killed after event MOST. False if it ends before. */
static bool is_killed(const struct resumed *c, int64_t most)
{
	int status;
	const pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct outcome outcome;
		differentiate(c, path, most, &outcome);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status) == 9;
}

START_TEST(a_run_that_is_killed_anywhere)
{
	const struct resumed *c = &cases[_i];
	struct outcome whole, outcome;
	int64_t kills = 0, resumed = 0;
	const size_t bytes = (size_t)elements(c) * sizeof(double);
	differentiate(c, NULL, 0, &whole);
	ck_assert(whole.gradient.complete && whole.value.complete && !whole.resumed);
	for (int64_t most = 1; is_killed(c, most); most += c->tile                        ? 5
	                                                   : most < 15 && !c->disk_states ? 1
	                                                   : SANITIZED                    ? 11
	                                                                                  : 5) {
		kills++;
		if (most % 3 == 0)
			is_killed(c, most + 4); /* it may resume, run a few steps more, and be killed again */
		differentiate(c, path, 0, &outcome);
		resumed += outcome.resumed;
		ck_assert_msg(!memcmp(outcome.gradient.data, whole.gradient.data, bytes) &&
		                  !memcmp(outcome.value.data, whole.value.data, bytes) &&
		                  !memcmp(outcome.w, whole.w, sizeof whole.w),
		              "%s: other bits after a kill at event %lld", c->policy, (long long)most);
		ck_assert_msg(access(path, F_OK) != 0, "the journal is left");
	}
	const bool few = policy_by_value(&whole.scheduled) || c->tile; /* points */
	ck_assert_msg(kills > (few ? 3 : 10) && (few ? resumed > 0 : resumed > kills * 2 / 3), "%s: %lld of %lld resumed",
	              c->policy, (long long)resumed, (long long)kills);
}
END_TEST

int main(void)
{
	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	snprintf(path, sizeof path, "%s/journal", folder);
	Suite *suite = suite_create("resume");
	TCase *tcase = suite_make_case(suite, "resume");
	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_loop_test(tcase, a_run_that_is_killed_anywhere, 0, sizeof cases / sizeof *cases);
	const int failed = suite_run(suite);
	if (!failed)
		rmdir(folder);
	return failed;
}
