/*
 * save-all, every:N and sqrt: the chain cut into segments of equal length.
 *
 * Segment j is [jN, min((j+1)N, n)). The last one is recorded in the first sweep, so the state at its start
 * is not kept. save-all is the case of one segment. With --max-checkpoints K only the first K starts are
 * kept. The start of any further segment is recomputed from the last kept state. Every segment is recorded
 * alone, so the residuals of only one are held.
 *
 * Invariant: slot j holds state jN. Slot j is dropped before segment j is recorded, when the segments after it
 * are reversed and need it no longer. Recording may use its memory.
 * Tests: tests/unit/test_schedule.c
 */
#include "base/checked.h"
#include "schedule/families.h"

struct segments {
	struct schedule head;
	int64_t steps, length, count; /* count: of segments */
	int64_t kept;                 /* starts that are kept */
	int64_t decision; /* number of the next: below KEPT it saves a start, else it reverses a segment, the last first */
};

static void segments_emit(struct schedule *schedule)
{
	struct segments *s = (struct segments *)schedule;
	struct action_queue *queue = &schedule->queue;
	const int64_t at = s->decision++, last = s->count - 1;
	if (at < s->kept) {
		const int64_t to = at + 1 < s->kept ? at + 1 : last;
		queue_push(queue, ACT_SAVE, at * s->length, at * s->length, at);
		queue_push(queue, ACT_FORWARD, at * s->length, to * s->length, 0);
		return;
	}
	const int64_t segment = last - (at - s->kept), begin = segment * s->length;
	const int64_t end = segment == last ? s->steps : begin + s->length;
	if (segment < 0)
		return;
	if (segment < last) {
		const int64_t slot = segment < s->kept ? segment : s->kept - 1, from = slot * s->length;
		queue_push(queue, ACT_LOAD, from, from, slot);
		if (slot == segment)
			queue_push(queue, ACT_DROP, from, from, slot);
		else
			queue_push(queue, ACT_FORWARD, from, begin, 0);
	}
	queue_push(queue, ACT_RECORD, begin, end, 0);
	queue_push(queue, ACT_BACKWARD, begin, end, 0);
}

static void segments_rewind(struct schedule *schedule) { ((struct segments *)schedule)->decision = 0; }

/* Returns the number of segments. Sets *KEPT to how many of their starts are kept: at most LIMIT, unless LIMIT is 0. */
static int64_t segments_count(int64_t steps, int64_t length, int64_t limit, int64_t *kept)
{
	const int64_t count = ceil_div(steps, length);
	*kept = count > 0 ? count - 1 : 0;
	if (limit > 0 && *kept > limit)
		*kept = limit;
	return count;
}

struct schedule *segments_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t kept)
{
	struct segments s = {.head = {.emit = segments_emit, .rewind = segments_rewind}, .steps = steps, .length = length};
	s.count = segments_count(steps, length, kept, &s.kept);
	s.head.slots = s.kept;
	return schedule_create(allocator, &s.head, sizeof s, 0, 0);
}

/* n of the first sweep, N to record each segment but the last, and the way to each such start that was not kept. */
int64_t segments_evaluations(int64_t steps, int64_t length, int64_t kept)
{
	int64_t starts, count = segments_count(steps, length, kept, &starts);
	if (count == 0)
		return 0;
	__int128 tail = count - 1 - starts;
	return saturated(steps + (__int128)(count - 1) * length + length * (tail * (tail + 1) / 2));
}
