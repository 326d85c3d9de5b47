/*
 * The log of a walk with hooks: its calls and exchanges. A walk of as many rows has the same ones at the same offsets, so
 * it repeats them without the schedule. To walk the schedule costs some tenths of a microsecond a step, a fourth of
 * the time of a tile that lies in the cache. This is no memo of a step: the hooks want all arguments of every call.
 *
 * Invariant: a replay makes the same calls and exchanges in the same order with the same arguments. It has no other hooks.
 * Tests: tests/cases/grad.test
 */
#include "memory/machine_parts.h"

#include <string.h>

/* The most events of a log; more would take megabytes. A walk with more is not replayed. */
enum { LOG_MOST = 4096 };

static struct machine_event *log_event(struct machine_log *log)
{
	struct machine_event *event = NULL;
	if (!log->off && log->count < LOG_MOST)
		event = arena_append(log->arena, &log->events, &log->count, &log->capacity, sizeof *event);
	log->off = !event;
	return event;
}

static void *keep_copy(struct machine_log *log, const void *array, size_t count, size_t size)
{
	void *made = arena_array(log->arena, count + 1, size);
	log->off |= !made;
	return made ? memcpy(made, array, count * size) : NULL;
}

void machine_log_call(struct machine_log *log, const struct machine_call *call)
{
	const struct body *body = call->program->body;
	struct machine_event *event = log_event(log);
	if (!event)
		return;
	event->call = *call; /* the machine reuses the arrays */
	event->call.ins = keep_copy(log, call->ins, body->in_count, sizeof *call->ins);
	event->call.outs = keep_copy(log, call->outs, body->out_count, sizeof *call->outs);
	event->call.out_params = keep_copy(log, (const void *)call->out_params, body->out_count, sizeof *call->out_params);
	event->call.counters = keep_copy(log, call->counters, (size_t)call->program->levels, sizeof *call->counters);
}

void machine_log_exchange(struct machine_log *log, enum machine_input_output which, int64_t offset,
                          const struct type *type)
{
	struct machine_event *event = log_event(log);
	if (event)
		*event = (struct machine_event){.which = which, .offset = offset, .type = type};
}

enum status machine_replay(const struct machine_log *log, const struct machine_hooks *hooks)
{
	for (const struct machine_event *event = log->events; event < log->events + log->count; event++)
		TRY(event->call.program ? hooks->call(hooks->context, &event->call)
		                        : hooks->input_output(hooks->context, event->which, event->offset, event->type));
	return STATUS_OK;
}
