/*
 * Makes a drawing of bounded size from events. Each segment is appended to the list, until that is full, and marks its
 * cells. An event beyond the last column doubles the width of all columns by joining pairs. So the end need not be
 * known in advance.
 *
 * Invariant: every event lies in the columns 0 .. TIMELINE_COLUMNS-1.
 * Tests: tests/unit/test_picture.c
 */
#include "plan/timeline.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "memory/cost_walk.h"

enum { ROW_BYTES = TIMELINE_ROWS / 8, LAYER_BYTES = TIMELINE_COLUMNS * ROW_BYTES };

enum status timeline_init(const struct context *context, struct timeline *timeline, int64_t steps, double column)
{
	struct arena *arena = context->arena;
	*timeline = (struct timeline){.arena = arena,
	                              .segments = arena_array(arena, TIMELINE_SEGMENTS, sizeof *timeline->segments),
	                              .live = arena_array(arena, TIMELINE_COLUMNS, sizeof *timeline->live),
	                              .cells = arena_array(arena, TIMELINE_LAYERS, LAYER_BYTES)};
	TRY_ALLOC(timeline->segments && timeline->live && timeline->cells, context->diags);
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
		for (size_t i = 0; i < timeline->open_count[disk]; i++)
			timeline->open[disk][i].begin = -1;
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
	for (int i = 0; i < TIMELINE_COLUMNS / 2; i++)
		timeline->live[i] = greater(timeline->live[2 * i], timeline->live[2 * i + 1]);
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

/* Widens the columns until one contains TIME, and returns that column. */
static int find_column(struct timeline *timeline, double time)
{
	while (time >= timeline->column * TIMELINE_COLUMNS)
		widen(timeline);
	return time > 0 ? (int)(time / timeline->column) : 0;
}

/* Returns the row of STEP, from 0; row 0 has the first steps. */
static int row_of(const struct timeline *timeline, double step)
{
	const int row = (int)(step / (double)timeline->steps * TIMELINE_ROWS);
	return (int)greater(lesser(row, TIMELINE_ROWS - 1), 0);
}

/* Sets *FIRST and *LAST to the columns of the times FROM .. TO. TO's own is left out if it begins at TO, after FROM. */
static void find_columns(struct timeline *timeline, double from, double to, int *first, int *last)
{
	*last = find_column(timeline, to);
	*first = find_column(timeline, from);
	if (*last > *first && to <= *last * timeline->column)
		--*last;
}

/* Sets the cells of a line from step BEGIN at time FROM to step END at time TO. */
static void fill_cells(struct timeline *timeline, int layer, double from, double to, double begin, double end)
{
	int first, last;
	find_columns(timeline, from, to, &first, &last);
	for (int c = first; c <= last; c++) {
		double a = 0, b = 1;
		if (to > from) {
			a = (c * timeline->column - from) / (to - from);
			b = ((c + 1) * timeline->column - from) / (to - from);
		}
		a = begin + (end - begin) * (a > 0 ? a : 0);
		b = begin + (end - begin) * (b < 1 ? b : 1);
		/* Half open: a step that ends where a row begins is not in it. A held state is in one row. */
		double low = a < b ? a : b, high = a < b ? b : a;
		int bottom = row_of(timeline, low), top = row_of(timeline, nextafter(high, low));
		uint8_t *cells = column_of(timeline, layer, c);
		for (int row = bottom; row <= top; row++)
			cells[row / 8] |= (uint8_t)(1 << row % 8);
	}
}

static void append_segment(struct timeline *timeline, const struct event *segment)
{
	if (timeline->count < TIMELINE_SEGMENTS)
		timeline->segments[timeline->count++] = *segment;
	else
		timeline->exact = false;
}

static void close_slot(struct timeline *timeline, int disk, struct event *open)
{
	if (open->begin < 0)
		return;
	open->to = timeline->end;
	append_segment(timeline, open);
	fill_cells(timeline, disk ? LAYER_DISK : LAYER_HELD, open->from, open->to, (double)open->begin,
	           (double)open->begin);
	open->begin = -1;
}

static bool hold_event(struct timeline *timeline, const struct event *event)
{
	const bool disk = event->kind == EVENT_DISK_SAVE || event->kind == EVENT_DISK_DROP;
	struct event *open;
	while (timeline->open_count[disk] <= (size_t)event->slot) {
		open = arena_append(timeline->arena, &timeline->open[disk], &timeline->open_count[disk],
		                    &timeline->open_capacity[disk], sizeof *open);
		if (!open)
			return false;
		open->begin = -1;
	}
	open = &timeline->open[disk][event->slot];
	close_slot(timeline, disk, open);
	if (event->kind == EVENT_SAVE || event->kind == EVENT_DISK_SAVE) {
		*open = *event;
		open->from = timeline->end;
	}
	return true;
}

bool timeline_add(struct timeline *timeline, const struct event *event)
{
	const bool back = event->kind == EVENT_BACKWARD;
	int first, last;
	if (event->kind >= EVENT_SAVE && event->kind <= EVENT_DISK_DROP)
		return hold_event(timeline, event);
	if (event->kind > EVENT_FETCH)
		return true;
	timeline->end = fmax(timeline->end, event->to);
	timeline->peak = greater(timeline->peak, event->live);
	find_columns(timeline, event->from, event->to, &first, &last);
	for (int c = first; c <= last; c++)
		timeline->live[c] = greater(timeline->live[c], event->live);
	append_segment(timeline, event);
	if (event->kind <= EVENT_BACKWARD)
		fill_cells(timeline, (int)event->kind, event->from, event->to, (double)(back ? event->end : event->begin),
		           (double)(back ? event->begin : event->end));
	return true;
}

void timeline_finish(struct timeline *timeline)
{
	for (int disk = 0; disk < 2; disk++)
		for (size_t i = 0; i < timeline->open_count[disk]; i++)
			close_slot(timeline, disk, &timeline->open[disk][i]);
}

struct event event_of_call(const struct compiled_chain *compiled, const struct machine_call *call)
{
	const bool backward = call->kind == CALL_BACKWARD;
	struct event event = {.kind = backward                    ? EVENT_BACKWARD
	                              : call->recomputed          ? EVENT_RECOMPUTE
	                              : call->kind == CALL_RECORD ? EVENT_RECORD
	                                                          : EVENT_FORWARD,
	                      .begin = compiled->by_value ? 0 : call->step,
	                      .end = compiled->by_value ? compiled->lowered->steps : call->step + 1,
	                      .live = call->live};
	event.evaluations = backward ? call->compiled->linear.recomputed : event.end - event.begin;
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

/* The context of a machine run without data, whose clock counts costs. */
struct planner {
	struct timeline *timeline;
	const struct job *job;
	double unit; /* cost that takes time 1; 0: every event takes 1 */
};

/* Adds EVENT, which takes COST, at the end of the timeline. */
static enum status add_event(struct planner *planner, struct event *event, double cost)
{
	event->from = planner->timeline->end;
	event->to = event->from + (planner->unit > 0 ? cost / planner->unit : 1);
	TRY_ALLOC(timeline_add(planner->timeline, event), planner->job->context.diags);
	return STATUS_OK;
}

static enum status on_planned_call(void *context, const struct machine_call *call)
{
	struct planner *planner = context;
	const struct linear *linear = &call->compiled->linear;
	struct event event = event_of_call(&planner->job->tile.compiled, call);
	const bool unread = call->program == &call->compiled->record_only;
	if (event.kind != EVENT_BACKWARD)
		return add_event(planner, &event, unread ? call->times->record : call->times->forward);
	/* What a backward call recomputes becomes an event of its own, before it. */
	if (linear->recomputed) {
		struct event again = event;
		again.kind = EVENT_RECOMPUTE;
		TRY(add_event(planner, &again, call->times->recompute));
		event.evaluations = 0;
	}
	return add_event(planner, &event, call->times->backward);
}

static enum status on_action(void *context, const struct action *action, int64_t live)
{
	struct planner *planner = context;
	struct event event;
	(void)live;
	if (event_of_action(action, &event))
		TRY_ALLOC(timeline_add(planner->timeline, &event), planner->job->context.diags);
	return STATUS_OK;
}

enum status timeline_plan(struct timeline *timeline, struct job *job)
{
	const struct context *context = &job->context;
	const struct counters *c = &job->predicted;
	struct planner planner = {.timeline = timeline, .job = job, .unit = c->forward_cost};
	double all = c->forward_cost > 0 ? (c->forward_cost + c->backward_cost + c->recomputed_cost) / c->forward_cost
	                                 : (double)(c->evaluations + c->steps);
	struct machine_hooks hooks = {.context = &planner, .call = on_planned_call, .progress = on_action};
	const struct machine_options machine = {
		.want_value = job->options.want_value, .store = job->options.store, .hooks = &hooks};
	struct counters counters;
	TRY(timeline_init(context, timeline, job->whole.steps, all / (TIMELINE_COLUMNS - 1)));
	TRY(machine_run(context, &job->tile.compiled, job->schedule, &machine, &counters));
	timeline_finish(timeline);
	return STATUS_OK;
}

static bool on_part(void *context, const struct action *part, double from, double to, int64_t live, bool again)
{
	struct timeline *timeline = context;
	struct event event;
	if (event_of_action(part, &event)) {
		if (to > timeline->end)
			timeline->end = to; /* a write to disk takes time */
		return timeline_add(timeline, &event);
	}
	if (!action_is_on_steps(part->kind))
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

enum status timeline_schedule(const struct context *context, struct timeline *timeline, struct schedule *schedule,
                              const struct step_costs *costs)
{
	const struct cost_walk_options options = {.part = on_part, .part_context = timeline};
	struct counters counters;
	double time, sum = 0;
	for (size_t i = 0; i < costs->run_count; i++)
		sum += (double)costs->runs[i].count * (costs->runs[i].cost.forward + costs->runs[i].cost.backward);
	TRY(timeline_init(context, timeline, costs->steps, sum / (TIMELINE_COLUMNS - 1)));
	TRY(cost_walk(context, schedule, costs, &options, &counters, &time));
	timeline_finish(timeline);
	return STATUS_OK;
}
