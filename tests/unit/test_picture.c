/*
 * Timelines against a list of all that happened, pictures of the worst of them
 * against their bound, XML text against a table.
 */
#include "failing.h"
#include "memory/cost_walk.h"
#include "report/picture.h"

#include <math.h>
#include <string.h>

#include "scratch.h"
#include "suite.h"

enum { PER_ROW = 40, STEPS = TIMELINE_ROWS * PER_ROW, EVENTS = 20000, SLOTS = 9 };

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % below;
}

static struct timeline timeline;
static struct event events[EVENTS];
static int event_count;
static struct event bars[EVENTS];
static int bar_count;
static unsigned char wanted[TIMELINE_LAYERS][TIMELINE_COLUMNS][TIMELINE_ROWS];

/* Steps here and there, of any length of time, states that come and go. */
static void scatter(uint64_t seed, int count)
{
	struct event open[SLOTS];
	bool held[SLOTS] = {false};
	double now = 0;
	event_count = bar_count = 0;
	for (int i = 0; i < count; i++) {
		int slot = (int)draw(&seed, SLOTS);
		if (draw(&seed, 4) == 0) {
			struct event e = {.kind = held[slot] ? EVENT_DROP : EVENT_SAVE, .slot = slot};
			e.begin = e.end = (int64_t)draw(&seed, STEPS);
			ck_assert(timeline_add(&timeline, &e));
			if (held[slot]) {
				open[slot].to = now;
				bars[bar_count++] = open[slot];
			}
			open[slot] = (struct event){.begin = e.begin, .from = now};
			held[slot] = !held[slot];
			continue;
		}
		struct event *e = &events[event_count++];
		*e = (struct event){.kind = (enum event_kind)draw(&seed, 4), .live = (int64_t)draw(&seed, 1 << 20)};
		e->begin = (int64_t)draw(&seed, STEPS);
		e->end = e->begin + 1;
		e->from = now;
		now += (double)draw(&seed, 1000) * (draw(&seed, 50) == 0 ? 1 : 1e-3);
		e->to = now;
		ck_assert(timeline_add(&timeline, e));
	}
	timeline_finish(&timeline);
	for (int slot = 0; slot < SLOTS; slot++)
		if (held[slot]) {
			open[slot].to = now;
			bars[bar_count++] = open[slot];
		}
}

static void want(int layer, double from, double to, int64_t step)
{
	int first = (int)floor(from / timeline.column), last = (int)ceil(to / timeline.column) - 1;
	for (int c = first; c <= (last > first ? last : first); c++)
		wanted[layer][c][step / PER_ROW] = 1;
}

START_TEST(cells)
{
	int count = _i < 4 ? 500 : EVENTS;
	ck_assert_int_eq(timeline_init(&scratch, &timeline, STEPS, _i % 2 ? 1e-3 : 7), STATUS_OK);
	scatter((uint64_t)_i * 977 + 5, count);
	if (_i == 3) { /* cleared, it forgets all events */
		timeline_clear(&timeline, STEPS, 0.5);
		scatter(99, count);
	}
	memset(wanted, 0, sizeof wanted);
	int64_t live[TIMELINE_COLUMNS], peak = 0;
	for (int c = 0; c < TIMELINE_COLUMNS; c++)
		live[c] = -1;
	for (int i = 0; i < event_count; i++) {
		const struct event *e = &events[i];
		want((int)e->kind, e->from, e->to, e->begin);
		int first = (int)floor(e->from / timeline.column), last = (int)ceil(e->to / timeline.column) - 1;
		for (int c = first; c <= (last > first ? last : first); c++)
			live[c] = e->live > live[c] ? e->live : live[c];
		peak = e->live > peak ? e->live : peak;
	}
	for (int i = 0; i < bar_count; i++)
		want(4, bars[i].from, bars[i].to, bars[i].begin);
	ck_assert_int_eq(timeline.peak, peak);
	ck_assert(timeline.end <= timeline.column * TIMELINE_COLUMNS);
	ck_assert_int_eq(timeline.exact, count < TIMELINE_SEGMENTS);
	if (timeline.exact)
		ck_assert_uint_eq(timeline.count, (unsigned)(event_count + bar_count));
	for (int c = 0; c < TIMELINE_COLUMNS; c++) {
		ck_assert_int_eq(timeline.live[c], live[c]);
		for (int layer = 0; layer < TIMELINE_LAYERS; layer++)
			for (int row = 0; row < TIMELINE_ROWS; row++)
				if (timeline_cell(&timeline, layer, c, row) != wanted[layer][c][row])
					ck_abort_msg("layer %d column %d row %d is %d", layer, c, row, !wanted[layer][c][row]);
	}
}
END_TEST

/* A step that takes many columns goes through its rows evenly. */
START_TEST(slope)
{
	for (int back = 0; back < 2; back++) {
		ck_assert_int_eq(timeline_init(&scratch, &timeline, 8, 1), STATUS_OK);
		struct event e = {.kind = back ? EVENT_BACKWARD : EVENT_FORWARD, .begin = 0, .end = 8, .to = 512};
		ck_assert(timeline_add(&timeline, &e));
		for (int c = 0; c < TIMELINE_COLUMNS; c++)
			for (int row = 0; row < TIMELINE_ROWS; row++) {
				int there = c / 2;
				bool on = c < 512 && row == (back ? TIMELINE_ROWS - 1 - there : there);
				ck_assert_int_eq(timeline_cell(&timeline, back ? 3 : 0, c, row), on);
			}
	}
}
END_TEST

/* The timeline of a schedule over costs alone is what the cost walk counts. */
START_TEST(of_costs)
{
	static const char *const policies[] = {"save-all", "every:3", "recursive", "revolve:3"};
	const struct step_run run = {.cost = {.forward = 2, .backward = 3, .state = 100, .residual = 70}, .count = 40};
	const struct step_costs costs = {.runs = &run, .run_count = 1, .steps = 40, .output = 100, .fixed = 5};
	struct policy policy;
	ck_assert_int_eq(policy_parse(&scratch, &policy, policies[_i]), STATUS_OK);
	struct schedule *schedule = policy_schedule(&policy, &costs, &allocator_system);
	ck_assert_ptr_nonnull(schedule);
	struct counters counters;
	double time;
	ck_assert_int_eq(cost_walk(&scratch, schedule, &costs, NULL, &counters, &time), STATUS_OK);
	ck_assert_int_eq(timeline_schedule(&scratch, &timeline, schedule, &costs), STATUS_OK);
	int64_t forward = 0, again = 0, back = 0;
	for (size_t i = 0; i < timeline.count; i++) {
		const struct event *s = &timeline.segments[i];
		int64_t *sum = s->kind == EVENT_BACKWARD ? &back : s->kind == EVENT_RECOMPUTE ? &again : &forward;
		*sum += s->kind <= EVENT_BACKWARD ? s->end - s->begin : 0;
	}
	ck_assert(timeline.exact);
	ck_assert_int_eq(timeline.peak, counters.peak_bytes);
	ck_assert_double_eq_tol(timeline.end, time, 1e-9);
	ck_assert_int_eq(forward, 40);
	ck_assert_int_eq(back, 40);
	ck_assert_int_eq(again, counters.evaluations - 40);
	schedule_free(schedule);
}
END_TEST

struct sink {
	char bytes[1 << 20];
	size_t used;
};
static struct sink sink;

static void put(void *context, const char *piece, size_t length)
{
	struct sink *to = context;
	ck_assert_msg(to->used + length < sizeof to->bytes, "more than 1 MiB");
	memcpy(to->bytes + to->used, piece, length);
	to->used += length;
	to->bytes[to->used] = 0;
}
static const struct text to_sink = {put, &sink};

/* Three pictures' worth of noise stay below 1 MiB, exact or not. */
START_TEST(bounded)
{
	ck_assert_int_eq(timeline_init(&scratch, &timeline, STEPS, 1), STATUS_OK);
	static const int counts[] = {500, 700, TIMELINE_SEGMENTS - 100, EVENTS};
	scatter(3, counts[_i]);
	if (_i == 3) /* a chequerboard: as many runs as there can be */
		for (int layer = 0; layer < TIMELINE_LAYERS; layer++)
			for (int c = 0; c < TIMELINE_COLUMNS; c++)
				for (int row = 0; row < TIMELINE_ROWS / 8; row++)
					timeline.cells[((size_t)layer * TIMELINE_COLUMNS + (size_t)c) * TIMELINE_ROWS / 8 + (size_t)row] =
						c % 2 ? 0x55 : 0xaa;
	struct picture_run run = {.policy = "every:7",
	                          .timeline = &timeline,
	                          .time = _i == 1 ? TIME_COSTS : TIME_MICROSECONDS,
	                          .workers = 2,
	                          .share = 2,
	                          .budget = 1 << 20};
	const struct picture_run runs[] = {run, run, run};
	struct picture picture = {.title = "a<&\">", .html = true, .runs = runs, .run_count = 3};
	sink.used = 0;
	picture_draw(&picture, &to_sink);
	ck_assert_uint_gt(sink.used, 10000);
	ck_assert_ptr_nonnull(strstr(sink.bytes, "a&lt;&amp;&quot;&gt;"));
	ck_assert_ptr_null(strstr(sink.bytes, "nan"));
	ck_assert_ptr_null(strstr(sink.bytes, "inf"));
}
END_TEST

START_TEST(xml)
{
#define NOT "\xef\xbf\xbd"
	static const char *const rows[][2] = {
		{"", ""},
		{"a<b>&\"'", "a&lt;b&gt;&amp;&quot;'"},
		{"a\nb\tc\r", "a b c "},
		{"\x01\x1f\x7f", NOT NOT NOT},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"\xff-\xc3", NOT "-" NOT},
		{"\xed\xa0\x80", NOT},
		{"\xef\xbf\xbf\xef\xbf\xbd", NOT NOT},
		{"\xe0\x80\xaf", NOT},
		{"\xf4\x90\x80\x80", NOT},
		{"\xc2\x85x", NOT "x"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		sink.used = 0;
		put(&sink, "", 0);
		text_xml(&to_sink, rows[i][0]);
		ck_assert_str_eq(sink.bytes, rows[i][1]);
	}
}
END_TEST

/* Short of memory at each of its requests, a timeline says so. */
START_TEST(memory)
{
	bool done = false;
	int refused = 0;
	for (size_t n = 1; !done; n++) {
		struct failing failing = {.fail_at = n, .on = true};
		const struct allocator short_allocator = failing_allocator(&failing);
		scratch_begin(&short_allocator);
		enum status status = timeline_init(&scratch, &timeline, 9, 1);
		done = status == STATUS_OK;
		ck_assert(done || status == STATUS_LIMIT);
		for (int64_t slot = 0; slot < 1 << 16 && done; slot += 999) {
			struct event e = {.kind = EVENT_SAVE, .slot = slot};
			done = timeline_add(&timeline, &e);
		}
		refused += !done;
		scratch_teardown();
	}
	ck_assert_int_gt(refused, 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("picture");
	TCase *tcase = suite_make_case(suite, "picture");
	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_loop_test(tcase, cells, 0, 8);
	tcase_add_test(tcase, slope);
	tcase_add_loop_test(tcase, of_costs, 0, 4);
	tcase_add_loop_test(tcase, bounded, 0, 4);
	tcase_add_test(tcase, xml);
	tcase_add_test(tcase, memory);
	return suite_run(suite);
}
