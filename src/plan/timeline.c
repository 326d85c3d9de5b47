/*
 * Turns events into a drawing of bounded size. Each event goes to the list, until that is
 * full, and to the cells. An event beyond the last column doubles the width of all columns
 * by joining pairs. So the end need not be known, and an event costs only its own cells.
 *
 * Invariant: every event lies in the columns 0 .. TIMELINE_COLUMNS-1.
 */
#include "plan/timeline.h"

#include <math.h>
#include <string.h>

#include "memory/cost_walk.h"

enum { ROW_BYTES = TIMELINE_ROWS / 8, LAYER_BYTES = TIMELINE_COLUMNS * ROW_BYTES };

enum status timeline_init(struct timeline *timeline, int64_t steps, double column, struct arena *arena,
                          struct diags *diags)
{
	*timeline = (struct timeline){.arena = arena};
	timeline->segments = arena_array(arena, TIMELINE_SEGMENTS, sizeof *timeline->segments);
	timeline->live = arena_array(arena, TIMELINE_COLUMNS, sizeof *timeline->live);
	timeline->cells = arena_array(arena, TIMELINE_LAYERS, LAYER_BYTES);
	TRY_ALLOC(timeline->segments && timeline->live && timeline->cells, diags);
	timeline_clear(timeline, steps, column);
	return STATUS_OK;
}

void timeline_clear(struct timeline *timeline, int64_t steps, double column)
{
	timeline->steps = steps > 0 ? steps : 1;
	timeline->end = 0;
	timeline->exact = true;
	timeline->count = 0;
	timeline->peak = 0;
	timeline->column = column > 0 ? column : 1;
	for (int i = 0; i < TIMELINE_COLUMNS; i++)
		timeline->live[i] = -1;
	memset(timeline->cells, 0, (size_t)TIMELINE_LAYERS * LAYER_BYTES);
	for (int disk = 0; disk < 2; disk++)
		for (size_t i = 0; i < timeline->open_capacity[disk]; i++)
			timeline->open[disk][i].state = -1;
}

static uint8_t *column_of(const struct timeline *timeline, int layer, int column)
{
	return timeline->cells + (size_t)layer * LAYER_BYTES + (size_t)column * ROW_BYTES;
}

bool timeline_cell(const struct timeline *timeline, int layer, int column, int row)
{
	return column_of(timeline, layer, column)[row / 8] >> row % 8 & 1;
}

/* Doubles the width of the columns. */
static void widen(struct timeline *timeline)
{
	for (int i = 0; i < TIMELINE_COLUMNS / 2; i++) {
		int64_t a = timeline->live[2 * i], b = timeline->live[2 * i + 1];
		timeline->live[i] = a > b ? a : b;
	}
	for (int i = TIMELINE_COLUMNS / 2; i < TIMELINE_COLUMNS; i++)
		timeline->live[i] = -1;
	for (int layer = 0; layer < TIMELINE_LAYERS; layer++) {
		for (int i = 0; i < TIMELINE_COLUMNS / 2; i++) {
			const uint8_t *a = column_of(timeline, layer, 2 * i), *b = column_of(timeline, layer, 2 * i + 1);
			uint8_t *to = column_of(timeline, layer, i);
			for (int k = 0; k < ROW_BYTES; k++)
				to[k] = a[k] | b[k];
		}
		memset(column_of(timeline, layer, TIMELINE_COLUMNS / 2), 0, LAYER_BYTES / 2);
	}
	timeline->column *= 2;
}

/* The column of TIME; widens the columns until one contains it. */
static int find_column(struct timeline *timeline, double time)
{
	while (time >= timeline->column * TIMELINE_COLUMNS)
		widen(timeline);
	return time > 0 ? (int)(time / timeline->column) : 0;
}

static int row_of(const struct timeline *timeline, double step)
{
	int row = (int)(step / (double)timeline->steps * TIMELINE_ROWS);
	return row < 0 ? 0 : row >= TIMELINE_ROWS ? TIMELINE_ROWS - 1 : row;
}

/* Sets the cells of a line from step BEGIN at time FROM to step END at time TO. */
static void fill(struct timeline *timeline, int layer, double from, double to, double begin, double end)
{
	(void)find_column(timeline, to);
	int first = find_column(timeline, from), last = find_column(timeline, to);
	if (last > first && to <= last * timeline->column)
		last--;
	if (begin == end) { /* a held state */
		int row = row_of(timeline, begin);
		for (int c = first; c <= last; c++)
			column_of(timeline, layer, c)[row / 8] |= (uint8_t)(1 << row % 8);
		return;
	}
	for (int c = first; c <= last; c++) {
		double a = 0, b = 1;
		if (to > from) {
			a = (c * timeline->column - from) / (to - from);
			b = ((c + 1) * timeline->column - from) / (to - from);
		}
		a = begin + (end - begin) * (a > 0 ? a : 0);
		b = begin + (end - begin) * (b < 1 ? b : 1);
		/* Half open: a step that ends where a row begins is not in it. */
		double low = a < b ? a : b, high = a < b ? b : a;
		int bottom = row_of(timeline, low), top = row_of(timeline, nextafter(high, low));
		uint8_t *cells = column_of(timeline, layer, c);
		for (int row = bottom; row <= top; row++)
			cells[row / 8] |= (uint8_t)(1 << row % 8);
	}
}

static void append(struct timeline *timeline, const struct timeline_segment *segment)
{
	if (timeline->count < TIMELINE_SEGMENTS)
		timeline->segments[timeline->count++] = *segment;
	else
		timeline->exact = false;
}

/* SLOT of memory or DISK. NULL when out of memory. */
static struct timeline_open *open_slot(struct timeline *timeline, int disk, int64_t slot)
{
	size_t capacity = timeline->open_capacity[disk];
	if ((size_t)slot >= capacity) {
		size_t grown = capacity ? 2 * capacity : 64;
		while (grown <= (size_t)slot)
			grown *= 2;
		struct timeline_open *list = arena_array(timeline->arena, grown, sizeof *list);
		if (!list)
			return NULL;
		if (capacity)
			memcpy(list, timeline->open[disk], capacity * sizeof *list);
		for (size_t i = capacity; i < grown; i++)
			list[i].state = -1;
		timeline->open[disk] = list;
		timeline->open_capacity[disk] = grown;
	}
	return &timeline->open[disk][slot];
}

static void close_slot(struct timeline *timeline, int disk, struct timeline_open *open)
{
	if (open->state < 0)
		return;
	struct timeline_segment held = {.kind = disk ? EVENT_DISK_SAVE : EVENT_SAVE,
	                                .begin = open->state,
	                                .end = open->state,
	                                .from = open->since,
	                                .to = timeline->end};
	append(timeline, &held);
	double state = (double)held.begin;
	fill(timeline, disk ? LAYER_DISK : LAYER_HELD, held.from, held.to, state, state);
	open->state = -1;
}

static bool hold(struct timeline *timeline, const struct event *event)
{
	int disk = event->kind == EVENT_DISK_SAVE || event->kind == EVENT_DISK_DROP;
	struct timeline_open *open = open_slot(timeline, disk, event->slot);
	if (!open)
		return false;
	close_slot(timeline, disk, open);
	if (event->kind == EVENT_SAVE || event->kind == EVENT_DISK_SAVE)
		*open = (struct timeline_open){event->begin, timeline->end};
	return true;
}

static void note_live(struct timeline *timeline, const struct event *event)
{
	int last = find_column(timeline, event->to), first = find_column(timeline, event->from);
	if (last > first && event->to <= last * timeline->column)
		last--;
	for (int c = first; c <= last; c++)
		if (event->live > timeline->live[c])
			timeline->live[c] = event->live;
	if (event->live > timeline->peak)
		timeline->peak = event->live;
}

bool timeline_add(struct timeline *timeline, const struct event *event)
{
	if (event->kind == EVENT_SAVE || event->kind == EVENT_DROP || event->kind == EVENT_DISK_SAVE ||
	    event->kind == EVENT_DISK_DROP)
		return hold(timeline, event);
	if (event->kind > EVENT_FETCH)
		return true;
	if (event->to > timeline->end)
		timeline->end = event->to;
	note_live(timeline, event);
	struct timeline_segment segment = {event->kind, event->begin, event->end, event->from, event->to, event->live};
	append(timeline, &segment);
	bool back = event->kind == EVENT_BACKWARD;
	if (event->kind <= EVENT_BACKWARD)
		fill(timeline, (int)event->kind, event->from, event->to, (double)(back ? event->end : event->begin),
		     (double)(back ? event->begin : event->end));
	return true;
}

void timeline_finish(struct timeline *timeline)
{
	for (int disk = 0; disk < 2; disk++)
		for (size_t i = 0; i < timeline->open_capacity[disk]; i++)
			close_slot(timeline, disk, &timeline->open[disk][i]);
}

/* Sources. */

struct event event_of_call(const struct event_context *context, const struct machine_call *call)
{
	struct event event = {.begin = context->by_value ? 0 : call->step,
	                      .end = context->by_value ? context->steps : call->step + 1,
	                      .live = call->live};
	if (call->kind == CALL_BACKWARD) {
		event.kind = EVENT_BACKWARD;
		event.evaluations = call->compiled->linear.recomputed;
	} else {
		event.kind = call->recomputed ? EVENT_RECOMPUTE : call->kind == CALL_RECORD ? EVENT_RECORD : EVENT_FORWARD;
		event.evaluations = event.end - event.begin;
	}
	return event;
}

bool event_of_action(const struct action *action, struct event *event)
{
	static const struct {
		enum action_kind action;
		enum event_kind event;
	} moments[] = {
		{ACT_SAVE, EVENT_SAVE}, {ACT_DROP, EVENT_DROP}, {ACT_SPILL, EVENT_DISK_SAVE}, {ACT_DISCARD, EVENT_DISK_DROP}};
	for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
		if (action->kind == moments[i].action) {
			*event = (struct event){
				.kind = moments[i].event, .begin = action->begin, .end = action->begin, .slot = action->slot};
			return true;
		}
	return false;
}

/* Runs the machine without data, with a clock that counts costs. */
struct planner {
	struct timeline *timeline;
	struct event_context context;
	double unit; /* cost that takes time 1; 0: every call takes 1 */
	struct diags *diags;
};

static enum status add(struct planner *planner, struct event *event, double cost)
{
	double time = planner->unit > 0 ? cost / planner->unit : cost;
	event->from = planner->timeline->end;
	event->to = event->from + time;
	return timeline_add(planner->timeline, event) ? STATUS_OK : diag_memory(planner->diags);
}

static enum status on_call(void *context, const struct machine_call *call)
{
	struct planner *planner = context;
	const struct linear *linear = &call->compiled->linear;
	struct event event = event_of_call(&planner->context, call);
	if (event.kind != EVENT_BACKWARD)
		return add(planner, &event, planner->unit > 0 ? linear->forward_cost : 1);
	/* A derivative recomputes before it runs backward. */
	if (linear->recomputed) {
		struct event again = event;
		again.kind = EVENT_RECOMPUTE;
		TRY(add(planner, &again, planner->unit > 0 ? linear->recompute_cost : 1));
		event.evaluations = 0;
	}
	return add(planner, &event, planner->unit > 0 ? linear->backward_cost : 1);
}

static enum status on_action(void *context, const struct action *action, int64_t live)
{
	struct planner *planner = context;
	struct event event;
	(void)live;
	return !event_of_action(action, &event) || timeline_add(planner->timeline, &event) ? STATUS_OK
	                                                                                   : diag_memory(planner->diags);
}

enum status timeline_plan(struct timeline *timeline, struct job *job)
{
	const struct context *context = &job->context;
	const struct counters *c = &job->predicted;
	struct planner planner = {.timeline = timeline,
	                          .context = {.by_value = job->tile.compiled.by_value, .steps = job->tile.lowered.steps},
	                          .unit = c->forward_cost,
	                          .diags = context->diags};
	double all = c->forward_cost > 0 ? (c->forward_cost + c->backward_cost + c->recomputed_cost) / c->forward_cost
	                                 : (double)(c->evaluations + c->steps);
	struct machine_hooks hooks = {.context = &planner, .call = on_call, .progress = on_action};
	const struct machine_options machine = {
		.want_value = job->options.want_value, .store = job->options.store, .hooks = &hooks};
	struct counters counters;
	TRY(timeline_init(timeline, job->whole.steps, all / (TIMELINE_COLUMNS - 1), context->arena, context->diags));
	TRY(machine_run(context, &job->tile.compiled, job->schedule, &machine, &counters));
	timeline_finish(timeline);
	return STATUS_OK;
}

/* The cost walk. */

static bool on_part(void *context, const struct action *part, double from, double to, int64_t live, bool again)
{
	struct timeline *timeline = context;
	struct event event;
	if (event_of_action(part, &event)) {
		if (to > timeline->end)
			timeline->end = to; /* a write to disk takes time */
		return timeline_add(timeline, &event);
	}
	if (part->kind != ACT_FORWARD && part->kind != ACT_RECORD && part->kind != ACT_BACKWARD)
		return true;
	event = (struct event){.kind = part->kind == ACT_BACKWARD ? EVENT_BACKWARD
	                               : again                    ? EVENT_RECOMPUTE
	                               : part->kind == ACT_RECORD ? EVENT_RECORD
	                                                          : EVENT_FORWARD,
	                       .begin = part->begin,
	                       .end = part->end,
	                       .evaluations = part->kind == ACT_BACKWARD ? 0 : part->end - part->begin,
	                       .from = from,
	                       .to = to,
	                       .live = live};
	return timeline_add(timeline, &event);
}

enum status timeline_schedule(struct timeline *timeline, struct schedule *schedule, const struct step_costs *costs,
                              struct arena *arena, struct diags *diags)
{
	const struct context context = {arena->allocator, arena, diags};
	const struct cost_walk_options options = {.part = on_part, .part_context = timeline};
	struct counters counters;
	double time;
	double sum = 0;
	for (size_t i = 0; i < costs->run_count; i++)
		sum += (double)costs->runs[i].count * (costs->runs[i].cost.forward + costs->runs[i].cost.backward);
	enum status status = timeline_init(timeline, costs->steps, sum / (TIMELINE_COLUMNS - 1), arena, diags);
	if (status == STATUS_OK)
		status = cost_walk(&context, schedule, costs, &options, &counters, &time);
	timeline_finish(timeline);
	return status;
}
