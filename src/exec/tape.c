/*
 * What the machine tells of a full tile, noted while a lane's first is made, so that
 * its others are made without the machine: tiles of as many rows have the same calls
 * at the same places. What it takes to walk the schedule, some tenths of a
 * microsecond a step, is a fourth of a tile that lies in the cache.
 *
 * Invariant: a tile from the tape has the same hooks called in the same order with the
 * same arguments. Where that is not all that a tile does, as where states go to disk
 * or are told to a trace, there is no tape.
 */
#include "exec/lane.h"

#include <string.h>

/* Beyond so many it would be megabytes. */
enum { TAPE_MOST = 4096 };

static struct tape_event *add(struct lane *lane)
{
	struct tape *tape = &lane->tape;
	struct tape_event *grown = NULL;
	if (tape->state == TAPE_NOTING && tape->count < TAPE_MOST)
		grown = arena_grow(&lane->arena, tape->events, tape->count, &tape->capacity, sizeof *grown);
	if (!grown) {
		tape->state = TAPE_OFF;
		return NULL;
	}
	tape->events = grown;
	return &grown[tape->count++];
}

static void *copy(struct lane *lane, const void *array, size_t count, size_t size)
{
	void *made = arena_array(&lane->arena, count + 1, size);
	if (made)
		memcpy(made, array, count * size);
	else
		lane->tape.state = TAPE_OFF;
	return made;
}

/* Hooks that note what they are told, and then do it. */

/* CALL's arrays are the machine's, which uses them again. */
static enum status noted_call(void *context, const struct machine_call *call)
{
	struct lane *lane = context;
	const struct body *body = call->program->body;
	struct tape_event *event = add(lane);
	if (event) {
		event->call = *call;
		event->call.ins = copy(lane, call->ins, body->in_count, sizeof *call->ins);
		event->call.outs = copy(lane, call->outs, body->out_count, sizeof *call->outs);
		event->call.out_params = copy(lane, (const void *)call->out_params, body->out_count, sizeof *call->out_params);
		event->call.counters = copy(lane, call->counters, (size_t)call->program->levels, sizeof *call->counters);
	}
	return lane->hooks.call(lane, call);
}

static enum status noted_end(void *context, enum machine_end end, int64_t offset, const struct type *type)
{
	struct lane *lane = context;
	struct tape_event *event = add(lane);
	if (event) {
		event->end = end;
		event->offset = offset;
		event->type = type;
	}
	return lane->hooks.end(lane, end, offset, type);
}

/* Tiles. */

static enum status play(struct lane *lane)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < lane->tape.count && status == STATUS_OK; i++) {
		const struct tape_event *event = &lane->tape.events[i];
		if (event->call.program)
			status = lane->hooks.call(lane, &event->call);
		else
			status = lane->hooks.end(lane, event->end, event->offset, event->type);
	}
	return status;
}

void tape_open(struct lane *lane)
{
	const struct grad_options *options = lane->run->options;
	const struct job *job = lane->run->job;
	const bool several = job->tiled && job->rows >= 2 * job->tile.rows;
	const bool more = options->trace || options->spill || options->job.store != DTYPE_COUNT;
	lane->tape.state = several && !more ? TAPE_EMPTY : TAPE_OFF;
}

enum status tape_run(struct lane *lane, const struct machine_options *options, struct counters *counters,
                     struct diags *diags)
{
	struct tape *tape = &lane->tape;
	struct machine_options noting = *options;
	struct machine_hooks hooks = *options->hooks;
	const bool full = lane->plan == &lane->run->job->tile;
	if (full && tape->state == TAPE_WHOLE) {
		*counters = tape->counters;
		return play(lane);
	}
	if (full && tape->state == TAPE_EMPTY) {
		tape->state = TAPE_NOTING;
		hooks.call = noted_call;
		hooks.end = noted_end;
		noting.hooks = &hooks;
	}
	enum status status = machine_run(&lane->plan->units, lane->schedule, &noting, counters, diags);
	if (tape->state == TAPE_NOTING) {
		tape->state = status ? TAPE_OFF : TAPE_WHOLE;
		tape->counters = *counters;
	}
	return status;
}
