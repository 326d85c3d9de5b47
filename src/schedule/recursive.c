/*
 * recursive: f2(checkpoint(f1)(x)), where f1 is the first half, the larger if the number of steps is odd, and
 * both halves are treated likewise. Two steps or fewer are not split.
 *
 * A range that is split keeps the state at its begin and runs its first half without keeping anything. Then it
 * reverses its second half, and its first half from the state kept. The first half's own first half begins with
 * that state too: it is saved once, and held until the last range that begins with it is recorded.
 *
 * Invariant: the stack holds the ranges still to be reversed, the rightmost on top. All below the top have
 * their begin in a slot. Its depth is at most log2(n) + 1.
 */
#include "base/checked.h"
#include "schedule/families.h"

struct range {
	int64_t begin, end;
	int64_t slot;
	bool held; /* the state at begin is in the slot already */
};

enum { RECURSIVE_DEPTH = 72 }; /* at most one more range for each halving of an int64 */

struct recursive {
	struct schedule head;
	int64_t steps;
	struct range stack[RECURSIVE_DEPTH];
	int depth;
	struct action_queue queue;
};

static bool recursive_next(struct schedule *schedule, struct action *action)
{
	struct recursive *r = (struct recursive *)schedule;
	if (queue_pop(&r->queue, action))
		return true;
	if (r->depth == 0)
		return false;
	struct range *top = &r->stack[r->depth - 1];
	int64_t begin = top->begin, end = top->end, slot = top->slot;
	bool split = end - begin > 2;
	if (top->held)
		queue_push(&r->queue, ACT_LOAD, begin, begin, slot);
	else if (split)
		queue_push(&r->queue, ACT_SAVE, begin, begin, slot);
	if (!split) {
		if (top->held)
			queue_push(&r->queue, ACT_DROP, begin, begin, slot);
		queue_push(&r->queue, ACT_RECORD, begin, end, 0);
		queue_push(&r->queue, ACT_BACKWARD, begin, end, 0);
		r->depth--;
		return queue_pop(&r->queue, action);
	}
	int64_t middle = begin + (end - begin) / 2 + (end - begin) % 2;
	queue_push(&r->queue, ACT_FORWARD, begin, middle, 0);
	*top = (struct range){begin, middle, slot, true};
	r->stack[r->depth++] = (struct range){middle, end, slot + 1, false};
	return queue_pop(&r->queue, action);
}

static void recursive_rewind(struct schedule *schedule)
{
	struct recursive *r = (struct recursive *)schedule;
	r->queue.head = r->queue.count = 0;
	r->stack[0] = (struct range){0, r->steps, 0, false};
	r->depth = r->steps > 0;
}

struct schedule *recursive_schedule(const struct allocator *allocator, int64_t steps)
{
	struct recursive *r = schedule_create(allocator, sizeof *r, 0, 0, recursive_next, recursive_rewind);
	if (!r)
		return NULL;
	r->steps = steps;
	for (int64_t left = steps; left > 2; left /= 2)
		r->head.slots++;
	recursive_rewind(&r->head);
	return &r->head;
}

/*
 * n, and for each range that is split its first half once more. The ranges of one depth have at most two
 * lengths, m and m + 1, so two counts describe a depth.
 */
int64_t recursive_evaluations(int64_t steps)
{
	__int128 total = steps, small = 1, large = 0; /* ranges of length m and of m + 1 */
	for (int64_t m = steps; m > 1 || (m == 1 && large > 0); m /= 2) {
		if (m > 2)
			total += small * (m - m / 2);
		if (m + 1 > 2)
			total += large * (m + 1 - (m + 1) / 2);
		/* Ranges of two or fewer are not split, and their parts would add nothing: parts of 1 and 2 are too short. */
		if (m % 2 == 0) {
			small = 2 * small + large;
		} else {
			large = small + 2 * large;
		}
	}
	return saturated(total);
}
