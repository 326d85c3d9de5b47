/*
 * Traces (--trace, --plot): what each lane does, with its times, and what it holds.
 * The hooks that do anything are wrapped in others that have a clock around them.
 *
 * Invariant: events of all lanes go to one place, one at a time, and the time that
 * they wait for that is no part of their times. Without a trace no hook is wrapped.
 */
#include "exec/lane.h"

#include "base/clock.h"

static double microseconds(const struct run *run) { return 1e6 * (clock_seconds() - run->begun); }

static enum status tell(struct lane *lane, struct event *event)
{
	struct run *run = lane->run;
	event->worker = lane->index;
	event->array = run->result->arrays;
	event->tile = lane->chunk * run->job->per_chunk + lane->tile;
	pthread_mutex_lock(&run->lock);
	enum status status = run->options->trace(run->options->trace_context, event);
	pthread_mutex_unlock(&run->lock);
	return status;
}

/* What the lane holds from now on. */
static enum status tell_live(struct lane *lane, enum event_kind kind, int64_t live)
{
	struct event event = {.kind = kind, .live = live, .from = microseconds(lane->run)};
	lane->live = live;
	event.to = event.from;
	return tell(lane, &event);
}

static enum status traced_call(void *context, const struct machine_call *call)
{
	struct lane *lane = context;
	const struct event_context steps = {.by_value = lane->plan->units.by_value, .steps = lane->run->job->whole.steps};
	struct event event = event_of_call(&steps, call);
	enum status status = tell_live(lane, EVENT_LIVE, call->live);
	event.from = microseconds(lane->run);
	if (status == STATUS_OK)
		status = lane->untraced.call(context, call);
	event.to = microseconds(lane->run);
	return status ? status : tell(lane, &event);
}

static enum status traced_spill(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	struct event event = {.kind = EVENT_SPILL, .slot = slot, .live = lane->live, .from = microseconds(lane->run)};
	enum status status = lane->untraced.spill(context, slot, arrays, count);
	event.to = microseconds(lane->run);
	return status ? status : tell(lane, &event);
}

static enum status traced_fetch(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	struct event event = {.kind = EVENT_FETCH, .slot = slot, .live = lane->live, .from = microseconds(lane->run)};
	enum status status = lane->untraced.fetch(context, slot, arrays, count);
	event.to = microseconds(lane->run);
	return status ? status : tell(lane, &event);
}

static enum status traced_progress(void *context, const struct action *action, int64_t live)
{
	struct lane *lane = context;
	struct event event;
	enum status status = lane->untraced.progress(context, action, live);
	if (status == STATUS_OK && event_of_action(action, &event)) {
		event.from = event.to = microseconds(lane->run);
		event.live = live;
		status = tell(lane, &event);
	}
	return status ? status : tell_live(lane, EVENT_LIVE, live);
}

void trace_hook(struct lane *lane)
{
	if (!lane->run->options->trace)
		return;
	lane->untraced = lane->hooks;
	lane->hooks.call = traced_call;
	lane->hooks.spill = traced_spill;
	lane->hooks.fetch = traced_fetch;
	lane->hooks.progress = traced_progress;
}

enum status trace_begin_tile(struct lane *lane)
{
	return lane->run->options->trace ? tell_live(lane, EVENT_START, 0) : STATUS_OK;
}

enum status trace_end_tile(struct lane *lane)
{
	return lane->run->options->trace ? tell_live(lane, EVENT_LIVE, 0) : STATUS_OK;
}
