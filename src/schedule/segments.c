/*
 * save-all, every:N and sqrt: the chain cut into segments of equal length.
 *
 * Segment j is [jN, min((j+1)N, n)). The last one is recorded in the first sweep, so the state at its start
 * is not kept. save-all is the case of one segment. With --max-checkpoints K only the first K starts are
 * kept. A segment whose start is not kept is still recorded alone: only one segment's residuals are held. Its
 * start is recomputed from the last state that is kept.
 *
 * Invariant: slot j holds state jN. Slot j is dropped once no segment below needs it, before its own segment
 * is recorded: its memory is free for that.
 */
#include "base/checked.h"
#include "schedule/families.h"

struct segments {
	struct schedule head;
	int64_t steps, length, count; /* count: of segments */
	int64_t kept;                 /* starts that are kept */
	int64_t segment;              /* the next to handle; counts up in the first sweep, then down */
	bool swept;
	struct action_queue queue;
};

static void segments_sweep(struct segments *s)
{
	int64_t last = s->count - 1, begin = s->segment * s->length;
	if (s->segment < s->kept) {
		int64_t to = s->segment + 1 < s->kept ? s->segment + 1 : last;
		queue_push(&s->queue, ACT_SAVE, begin, begin, s->segment);
		queue_push(&s->queue, ACT_FORWARD, begin, to * s->length, 0);
		s->segment = to;
		return;
	}
	queue_push(&s->queue, ACT_RECORD, last * s->length, s->steps, 0);
	queue_push(&s->queue, ACT_BACKWARD, last * s->length, s->steps, 0);
	s->swept = true;
	s->segment = last - 1;
}

static void segments_reverse(struct segments *s)
{
	int64_t begin = s->segment * s->length, end = begin + s->length;
	int64_t slot = s->segment < s->kept ? s->segment : s->kept - 1;
	queue_push(&s->queue, ACT_LOAD, slot * s->length, slot * s->length, slot);
	if (slot == s->segment)
		queue_push(&s->queue, ACT_DROP, begin, begin, slot);
	else
		queue_push(&s->queue, ACT_FORWARD, slot * s->length, begin, 0);
	queue_push(&s->queue, ACT_RECORD, begin, end, 0);
	queue_push(&s->queue, ACT_BACKWARD, begin, end, 0);
	s->segment--;
}

static bool segments_next(struct schedule *schedule, struct action *action)
{
	struct segments *s = (struct segments *)schedule;
	if (queue_pop(&s->queue, action))
		return true;
	if (!s->swept && s->count > 0)
		segments_sweep(s);
	else if (s->swept && s->segment >= 0)
		segments_reverse(s);
	return queue_pop(&s->queue, action);
}

static void segments_rewind(struct schedule *schedule)
{
	struct segments *s = (struct segments *)schedule;
	s->segment = 0;
	s->swept = false;
	s->queue.head = s->queue.count = 0;
}

/* Returns the number of segments. *KEPT: how many of their starts are kept, at most LIMIT unless that is 0. */
static int64_t segments_count(int64_t steps, int64_t length, int64_t limit, int64_t *kept)
{
	int64_t count = steps / length + (steps % length != 0);
	*kept = count > 0 ? count - 1 : 0;
	if (limit > 0 && *kept > limit)
		*kept = limit;
	return count;
}

struct schedule *segments_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t kept)
{
	struct segments *s = schedule_create(allocator, sizeof *s, 0, 0, segments_next, segments_rewind);
	if (!s)
		return NULL;
	s->steps = steps;
	s->length = length;
	s->count = segments_count(steps, length, kept, &s->kept);
	s->head.slots = s->kept;
	return &s->head;
}

/* n steps, N for each segment that is recorded again, and the way to each start that was not kept. */
int64_t segments_evaluations(int64_t steps, int64_t length, int64_t kept)
{
	int64_t starts, count = segments_count(steps, length, kept, &starts);
	if (count == 0)
		return 0;
	__int128 tail = count - 1 - starts;
	return saturated(steps + (__int128)(count - 1) * length + length * (tail * (tail + 1) / 2));
}
