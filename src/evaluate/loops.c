/*
 * Loops over whole arrays. A carried value has two places: an iteration reads one and writes the other, and their pointers
 * in the frame change places after it.
 * Tests: tests/unit/test_program.c, tests/cases/language.test
 */
#include <string.h>

#include "evaluate/evaluator.h"
#include "evaluate/neighbours.h"
#include "evaluate/wave.h"

static void copy_carried(const struct evaluator *ev, const struct carried *c, char *to, const char *from)
{
	const struct entry *inner = &ev->program->frame->entries[c->inner];
	const struct type type = type_of_rows(inner->type, inner->streamed, ev->e->rows);
	if (!wave_copy(ev->e->wave, to, from, &type, ev->e->team)) {
		wave_run(ev->e->wave);
		memcpy(to, from, (size_t)type_bytes(&type));
	}
	neighbours_copied(ev->e->neighbours, to, from);
}

static void move_dynamic(struct evaluator *ev, const struct launch *loop)
{
	ev->moved = true;
	for (size_t i = 0; i < loop->dynamic_count; i++) {
		const struct entry *entry = &ev->program->frame->entries[loop->dynamic[i]];
		if (entry->kind == ENTRY_COUNTER)
			frame_set_counter(ev->frame, loop->dynamic[i], ev->counters[entry->level]);
		else
			ev->frame[loop->dynamic[i]] = frame_param(ev, &entry->param);
	}
}

/* Returns place WHICH of C. */
static char *place_of(const struct evaluator *ev, const struct carried *c, size_t which)
{
	return c->array[which] == NO_VALUE ? ev->workspace + c->offset[which][ev->layout] : ev->frame[c->array[which]];
}

static void begin_loop(struct evaluator *ev, const struct launch *loop)
{
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		ev->frame[c->inner] = ev->frame[c->init];
		if (c->written)
			ev->frame[c->result] = place_of(ev, c, 0);
	}
	ev->counters[loop->level] = loop->loop->loop.first;
	move_dynamic(ev, loop);
}

/* Returns the one of C's two places that does not hold the value of the current iteration. */
static char *other_place(const struct evaluator *ev, const struct carried *c)
{
	char *first = place_of(ev, c, 0);
	return ev->frame[c->inner] == first ? place_of(ev, c, 1) : first;
}

/* Returns a place of LOOP's for C which is none of the COUNT in USED. There is one if these are fewer than its places. */
static char *free_place(const struct evaluator *ev, const struct launch *loop, const struct carried *c,
                        char *const *used, size_t count)
{
	for (size_t i = 0; i < 2 * (size_t)loop->carried_count; i++) {
		const struct carried *of = &loop->carried[i / 2];
		char *place = place_of(ev, of, i % 2);
		size_t at = 0;
		while (at < count && used[at] != place)
			at++;
		if (of->bytes == c->bytes && at == count)
			return place;
	}
	return other_place(ev, c);
}

/* True if ARRAY is one of LOOP's places for C's bytes. */
static bool is_place(const struct evaluator *ev, const struct launch *loop, const struct carried *c, const char *array)
{
	for (size_t i = 0; i < 2 * (size_t)loop->carried_count; i++)
		if (loop->carried[i / 2].bytes == c->bytes && array == place_of(ev, &loop->carried[i / 2], i % 2))
			return true;
	return false;
}

/*
 * swap_results, if a result is the value that the loop carries under another name, as in a leapfrog. Values then change
 * places among those of the loop with as many bytes. Each of these values has two, so some are free for results and
 * copies.
 */
static void rotate(struct evaluator *ev, const struct launch *loop)
{
	char *next[2 * MOST_ROTATED];
	const size_t count = loop->carried_count;
	for (size_t i = 0; i < count; i++)
		next[i] = ev->frame[loop->carried[i].result];
	for (size_t i = 0; i < count; i++) {
		const struct carried *c = &loop->carried[i];
		char *from = next[i];
		if (c->written || is_place(ev, loop, c, from))
			continue;
		next[i] = free_place(ev, loop, c, next, count);
		copy_carried(ev, c, next[i], from);
	}
	for (size_t i = 0; i < count; i++) {
		const struct carried *c = &loop->carried[i];
		ev->frame[c->inner] = next[i];
		next[count + i] = next[i];
	}
	for (size_t i = 0, used = count; i < count; i++) {
		const struct carried *c = &loop->carried[i];
		if (!c->written)
			continue;
		ev->frame[c->result] = free_place(ev, loop, c, next, used);
		next[used++] = ev->frame[c->result];
	}
}

/* Makes the results the next iteration's values. Swaps pointers, after a copy if the body left a result elsewhere. */
static void swap_results(struct evaluator *ev, const struct launch *loop)
{
	ev->moved = true;
	if (loop->rotates) {
		rotate(ev, loop);
		return;
	}
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		if (!c->written)
			copy_carried(ev, c, other_place(ev, c), ev->frame[c->result]);
	}
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		ev->frame[c->inner] = c->written ? ev->frame[c->result] : other_place(ev, c);
		if (c->written)
			ev->frame[c->result] = other_place(ev, c);
	}
}

/* Sets the loop's final values: the initial ones if NONE of its iterations ran, else the last results. */
static void finish_loop(struct evaluator *ev, const struct launch *loop, bool none)
{
	ev->moved = true;
	for (size_t i = 0; i < loop->carried_count; i++) {
		const struct carried *c = &loop->carried[i];
		char *value = ev->frame[none ? c->init : c->inner];
		if (!c->copy_out)
			ev->frame[c->final] = none ? place_of(ev, c, 0) : value;
		if (ev->frame[c->final] != value)
			copy_carried(ev, c, ev->frame[c->final], value);
	}
}

/* True if LAUNCH, a WHILE, ends its loop: the number is not above 0, or the most iterations have run. */
static bool ends_loop(const struct evaluator *ev, const struct launch *launch)
{
	const struct launch *loop = &ev->program->launches[launch->match];
	const void *number = ev->frame[launch->condition];
	const bool wide = ev->program->frame->entries[launch->condition].type->dtype == DTYPE_F64;
	const bool above = wide ? *(const double *)number > 0 : *(const float *)number > 0;
	const int64_t done = ev->counters[loop->level];
	if (above && done + 1 < loop->iterations)
		return false;
	if (above && ev->e->unfinished)
		*ev->e->unfinished = (struct unfinished){launch->loop, own_span(ev->e->own, launch->loop->span)};
	for (size_t i = 0; ev->e->skipped && i < launch->loop->loop.stream_count; i++)
		ev->e->skipped[i] += launch->loop->loop.streams[i].step * (uint64_t)(launch->loop->loop.iterations - done);
	return true;
}

enum status run_loop(struct evaluator *ev, const struct launch *launch)
{
	begin_loop(ev, launch);
	if (launch->iterations == 0) {
		finish_loop(ev, launch, true);
		ev->next = launch->match + 1;
	}
	return STATUS_OK;
}

enum status run_while(struct evaluator *ev, const struct launch *launch)
{
	const struct launch *loop = &ev->program->launches[launch->match];
	const struct loop_part *of = &launch->loop->loop;
	const int64_t done = ev->counters[loop->level];
	if (ev->e->count && of->condition != NO_VALUE)
		TRY(ev->e->count(ev->e->count_context, of, loop->level, done));
	if (ends_loop(ev, launch)) {
		finish_loop(ev, loop, done == 0);
		ev->next = loop->match + 1;
	}
	return STATUS_OK;
}

/* Reports what part of the program has run when an iteration of LOOP ends, by the number of its launches. */
static void report(const struct evaluator *ev, const struct launch *loop)
{
	const double begin = (double)(loop - ev->program->launches), end = (double)loop->match;
	const int64_t done = ev->counters[loop->level] - loop->loop->loop.first + 1;
	const double part = (double)done / (double)loop->iterations;
	if (ev->e->progress && loop->level == 0)
		ev->e->progress(ev->e->progress_context, (begin + (end - begin) * part) / (double)ev->program->launch_count);
}

enum status run_end(struct evaluator *ev, const struct launch *launch)
{
	const struct launch *loop = &ev->program->launches[launch->match];
	swap_results(ev, loop);
	report(ev, loop);
	if (++ev->counters[loop->level] == loop->loop->loop.first + loop->iterations) {
		finish_loop(ev, loop, false);
		return STATUS_OK;
	}
	move_dynamic(ev, loop);
	ev->next = launch->match + 1;
	return STATUS_OK;
}
