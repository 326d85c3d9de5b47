/*
 * A worker runs its first full tile on the machine and records the events. It replays its other full tiles from the
 * recorded events, since tiles of equally many rows have the same calls at the same offsets. Walking the schedule costs
 * some tenths of a microsecond a step, a fourth of the time of a tile that lies in the cache.
 *
 * Invariant: a replay makes the same calls and exchanges in the same order with the same arguments.
 * Spills, traces and reduced precision need other hooks, so with them nothing is replayed.
 * Tests: tests/cases/grad.test
 */
#include <string.h>

#include "exec/run_state.h"
#include "memory/machine.h"

/* The most events of a log; more would take megabytes. A tile with more is not replayed. */
enum { REPLAY_MOST = 4096 };

static struct replay_event *add(struct worker *worker)
{
	struct replay_log *replay = &worker->walk.replay;
	struct replay_event *event = NULL;
	if (replay->state == REPLAY_RECORDING && replay->count < REPLAY_MOST)
		event = arena_append(&worker->arena, &replay->events, &replay->count, &replay->capacity, sizeof *event);
	if (!event)
		replay->state = REPLAY_OFF;
	return event;
}

static void *copy(struct worker *worker, const void *array, size_t count, size_t size)
{
	void *made = arena_array(&worker->arena, count + 1, size);
	if (made)
		memcpy(made, array, count * size);
	else
		worker->walk.replay.state = REPLAY_OFF;
	return made;
}

/* Hooks that record their arguments, then call the worker's hooks. */

/* Copies CALL's arrays: the machine reuses them. */
static enum status record_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	const struct body *body = call->program->body;
	struct replay_event *event = add(worker);
	if (event) {
		event->call = *call;
		event->call.ins = copy(worker, call->ins, body->in_count, sizeof *call->ins);
		event->call.outs = copy(worker, call->outs, body->out_count, sizeof *call->outs);
		event->call.out_params =
			copy(worker, (const void *)call->out_params, body->out_count, sizeof *call->out_params);
		event->call.counters = copy(worker, call->counters, (size_t)call->program->levels, sizeof *call->counters);
	}
	return worker->walk.hooks.call(worker, call);
}

static enum status record_exchange(void *context, enum machine_input_output which, int64_t offset,
                                   const struct type *type)
{
	struct worker *worker = context;
	struct replay_event *event = add(worker);
	if (event) {
		event->which = which;
		event->offset = offset;
		event->type = type;
	}
	return worker->walk.hooks.input_output(worker, which, offset, type);
}

void replay_open(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct gradient_options *options = run->gradient->options;
	const bool several = run->tiles->tiled && run->tiles->rows >= 2 * run->tiles->tile;
	const bool more = options->trace || options->spill || run->options->job.store != DTYPE_COUNT;
	worker->walk.replay.state = several && !more ? REPLAY_EMPTY : REPLAY_OFF;
}

enum status replay_run(struct worker *worker, const struct machine_options *options, struct counters *counters)
{
	struct replay_log *replay = &worker->walk.replay;
	struct machine_options recording = *options;
	struct machine_hooks hooks = *options->hooks;
	const bool full = !options->rows;
	if (full && replay->state == REPLAY_COMPLETE) {
		*counters = replay->counters;
		for (size_t i = 0; i < replay->count; i++) {
			const struct replay_event *event = &replay->events[i];
			TRY(event->call.program ? hooks.call(worker, &event->call)
			                        : hooks.input_output(worker, event->which, event->offset, event->type));
		}
		return STATUS_OK;
	}
	if (full && replay->state == REPLAY_EMPTY) {
		replay->state = REPLAY_RECORDING;
		hooks.call = record_call;
		hooks.input_output = record_exchange;
		recording.hooks = &hooks;
	}
	const struct context context = {.allocator = worker->run->context.allocator, .diags = worker->diags};
	const struct compiled_chain *compiled = &worker->run->gradient->job->tile.compiled;
	enum status status = machine_run(&context, compiled, worker->walk.schedule, &recording, counters);
	if (replay->state == REPLAY_RECORDING) {
		replay->state = status ? REPLAY_OFF : REPLAY_COMPLETE;
		replay->counters = *counters;
	}
	return status;
}
