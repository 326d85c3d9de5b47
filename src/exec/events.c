/*
 * What a gradient run reports while it runs.
 *
 * --trace, --plot: each worker's calls with their times, and its live bytes. Hooks that read
 * the clock wrap the worker's own hooks. The workers report events one at a time, under a lock;
 * an event's time does not include the wait for that lock. Without a trace no hook is wrapped.
 *
 * --events: for each array of the stream, a line of JSON for each gradient that is ready. First come the
 * differentiated params in backward order, then those that no step uses, then the input. A param's
 * gradient is complete once the backward pass has run the first step that uses it. With tiles, or a
 * policy by value (one backward call), all lines come at the end, in that order.
 * Tests: tests/scripts/check-plots, tests/cases/grad.test
 */
#include "base/system.h"
#include "exec/run_state.h"
#include "ir/reads.h"

static double microseconds(const struct run *run) { return 1e6 * (clock_seconds() - run->gradient->start); }

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
	struct event event = event_of_call(&worker->run->gradient->job->tile.compiled, call);
	TRY(report_live(worker, EVENT_LIVE, call->live));
	event.from = microseconds(worker->run);
	TRY(worker->walk.untraced.call(context, call));
	wave_run(worker->wave); /* else other calls would have its time */
	event.to = microseconds(worker->run);
	return record(worker, &event);
}

static enum status traced_disk(void *context, enum machine_disk access, int64_t slot,
                               const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	struct event event = {.kind = access != MACHINE_FETCH ? EVENT_SPILL : EVENT_FETCH,
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

enum { UNUSED = -1 };

/* True if the backward pass is reported step by step. */
static bool steps_seen(const struct run *run)
{
	return !run->tiles->tiled && !policy_by_value(&run->gradient->job->scheduled);
}

/* True if READ is of an operand whose gradient a program adds up: it is complete at the end. */
static bool is_summed(const struct param_read *read)
{
	const struct external_use *use = read->by ? instr_use(read->by) : NULL;
	return use && read->operand > 0 && use->program->traits.sums >> (read->operand - 1) & 1;
}

/* A step uses the params that it reads and those that it passes on in its state, where later steps read them. */
enum status gradient_events_open(struct run *run)
{
	struct reads reads = {.depth = 0};
	struct param_read read;
	if (!run->gradient->options->event)
		return STATUS_OK;
	run->gradient->first_use = arena_array(&run->arena, run->params->count + 1, sizeof *run->gradient->first_use);
	TRY_ALLOC(run->gradient->first_use, run->context.diags);
	for (size_t i = 0; i < run->params->count; i++)
		run->gradient->first_use[i] = UNUSED;
	for (int64_t s = run->whole->steps; s-- > 0;) {
		const struct step *step = lowered_step(run->whole, s, NULL);
		for (reads_begin(&reads, step->body, &step->own); reads_next(&reads, &read);)
			if (!is_summed(&read))
				run->gradient->first_use[read.ref->param] = s;
	}
	return STATUS_OK;
}

static enum status say(struct run *run, const char *name, const struct type *type, int64_t step, struct diags *diags)
{
	char text[TYPE_TEXT];
	const char *line = arena_printf(&run->arena,
	                                "{\"event\":\"gradient\",\"name\":\"%s\",\"type\":\"%s\",\"bytes\":%lld,"
	                                "\"step\":%lld,\"array\":%lld}\n",
	                                name, type_format(type, text), (long long)type_bytes(type), (long long)step,
	                                (long long)run->gradient->result->arrays);
	return line ? run->gradient->options->event(run->gradient->options->event_context, line) : diag_memory(diags);
}

/* Reports the params whose first use is at STEP. */
static enum status say_params(struct run *run, int64_t step, struct diags *diags)
{
	for (size_t i = 0; i < run->params->count; i++) {
		const struct param *param = &run->chain->params[i];
		const struct type type = bound_type(&run->bound[i]);
		if (run->gradient->first_use[i] == step && param->differentiated)
			TRY(say(run, param->name, &type, step, diags));
	}
	return STATUS_OK;
}

enum status gradient_events_step(struct run *run, int64_t step, struct diags *diags)
{
	return run->gradient->options->event && steps_seen(run) ? say_params(run, step, diags) : STATUS_OK;
}

enum status gradient_events_finish(struct run *run)
{
	struct diags *diags = run->context.diags;
	if (!run->gradient->options->event)
		return STATUS_OK;
	for (int64_t s = run->whole->steps; s-- > 0 && !steps_seen(run);)
		TRY(say_params(run, s, diags));
	TRY(say_params(run, UNUSED, diags));
	const struct type *place = run->whole->gradient_at.slot ? &run->whole->gradient_at.type : NULL;
	return say(run, place ? run->chain->place->text : run->chain->input, place ? place : &run->input, 0, diags);
}
