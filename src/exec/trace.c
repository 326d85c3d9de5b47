/*
 * Traces (--trace, --plot): each worker's calls with their times, and its live bytes.
 * Hooks that read the clock wrap the worker's own hooks.
 *
 * Invariant: the workers report events one at a time, under a lock. An event's time does
 * not include the wait for that lock. Without a trace no hook is wrapped.
 */
#include "base/system.h"
#include "exec/run_parts.h"

static double microseconds(const struct run *run) { return 1e6 * (clock_seconds() - run->gradient->begun); }

static enum status record(struct worker *worker, struct event *event)
{
	struct run *run = worker->run;
	event->worker = worker->index;
	event->array = run->gradient->result->arrays;
	event->tile = worker->chunk * run->gradient->job->tiles.per_chunk + worker->tile;
	pthread_mutex_lock(&run->lock);
	enum status status = run->gradient->options->trace(run->gradient->options->trace_context, event);
	pthread_mutex_unlock(&run->lock);
	return status;
}

/* Reports the bytes that the worker holds from now on. */
static enum status report_live(struct worker *worker, enum event_kind kind, int64_t live)
{
	const double now = microseconds(worker->run);
	worker->walk.live = live;
	return record(worker, &(struct event){.kind = kind, .live = live, .from = now, .to = now});
}

static enum status traced_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	struct event event = event_of_call(&worker->walk.plan->compiled, call);
	TRY(report_live(worker, EVENT_LIVE, call->live));
	event.from = microseconds(worker->run);
	TRY(worker->walk.untraced.call(context, call));
	event.to = microseconds(worker->run);
	return record(worker, &event);
}

static enum status traced_disk(void *context, enum machine_disk access, int64_t slot,
                               const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	struct event event = {.kind = access == MACHINE_SPILL ? EVENT_SPILL : EVENT_FETCH,
	                      .slot = slot,
	                      .live = worker->walk.live,
	                      .from = microseconds(worker->run)};
	TRY(worker->walk.untraced.disk(context, access, slot, arrays, count));
	event.to = microseconds(worker->run);
	return record(worker, &event);
}

static enum status traced_progress(void *context, const struct action *action, int64_t live)
{
	struct worker *worker = context;
	struct event event;
	TRY(worker->walk.untraced.progress(context, action, live));
	if (event_of_action(action, &event)) {
		event.from = event.to = microseconds(worker->run);
		event.live = live;
		TRY(record(worker, &event));
	}
	return report_live(worker, EVENT_LIVE, live);
}

void trace_hook(struct worker *worker)
{
	if (!worker->run->gradient->options->trace)
		return;
	worker->walk.untraced = worker->walk.hooks;
	worker->walk.hooks.call = traced_call;
	worker->walk.hooks.disk = traced_disk;
	worker->walk.hooks.progress = traced_progress;
}

enum status trace_tile(struct worker *worker, bool ends)
{
	const bool traced = worker->run->gradient->options->trace;
	return traced ? report_live(worker, ends ? EVENT_LIVE : EVENT_START, 0) : STATUS_OK;
}
