/*
 * What the machine tells of a full tile, noted while a worker's first is made, so that
 * its others are made without the machine: tiles of as many rows have the same calls
 * at the same places. What it takes to walk the schedule, some tenths of a
 * microsecond a step, is a fourth of a tile that lies in the cache.
 *
 * Invariant: a tile from the replay has the same hooks called in the same order with the
 * same arguments. Where that is not all that a tile does, as where states go to disk
 * or are told to a trace, there is no replay.
 */
#include <string.h>

#include "exec/run_parts.h"
#include "memory/machine.h"

/* Beyond so many it would be megabytes. */
enum { REPLAY_MOST = 4096 };

static struct replay_event *add(struct worker *worker)
{
	struct replay_log *replay = &worker->walk.replay;
	struct replay_event *grown = NULL;
	if (replay->state == REPLAY_RECORDING && replay->count < REPLAY_MOST)
		grown = arena_grow(&worker->arena, replay->events, replay->count, &replay->capacity, sizeof *grown);
	if (!grown) {
		replay->state = REPLAY_OFF;
		return NULL;
	}
	replay->events = grown;
	return &grown[replay->count++];
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

/* Hooks that note what they are told, and then do it. */

/* CALL's arrays are the machine's, which uses them again. */
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

/* Tiles. */

static enum status play(struct worker *worker)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < worker->walk.replay.count && status == STATUS_OK; i++) {
		const struct replay_event *event = &worker->walk.replay.events[i];
		if (event->call.program)
			status = worker->walk.hooks.call(worker, &event->call);
		else
			status = worker->walk.hooks.input_output(worker, event->which, event->offset, event->type);
	}
	return status;
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
	const bool full = worker->walk.plan == &worker->run->gradient->job->tile;
	if (full && replay->state == REPLAY_COMPLETE) {
		*counters = replay->counters;
		return play(worker);
	}
	if (full && replay->state == REPLAY_EMPTY) {
		replay->state = REPLAY_RECORDING;
		hooks.call = record_call;
		hooks.input_output = record_exchange;
		recording.hooks = &hooks;
	}
	const struct context context = {.allocator = worker->run->context.allocator, .diags = worker->diags};
	enum status status =
		machine_run(&context, &worker->walk.plan->compiled, worker->walk.schedule, &recording, counters);
	if (replay->state == REPLAY_RECORDING) {
		replay->state = status ? REPLAY_OFF : REPLAY_COMPLETE;
		replay->counters = *counters;
	}
	return status;
}
