/*
 * online:S: checkpointing a chain whose length is not known, after Wang, Moin and
 * Iaccarino, "Minimal repetition dynamic checkpointing algorithm for unsteady
 * adjoint calculation", SIAM J. Sci. Comput. 31 (2009), Algorithm 1.
 *
 * Every state has a level; the input's is beyond all. While a slot is free, the
 * current state takes it, and the next is of level 0. Else, where some snapshot
 * is dispensable, that is of a lower level than a later state, it is dropped for
 * the current state. Else the current state is passed by, and the next is of one
 * level more, which makes all snapshots of lower levels dispensable. With that no
 * step is run more often than it must be: C(S + t, t) steps, t times over.
 * Of the dispensable ones the last goes first; the paper leaves that open, and it
 * is the best of the choices on average.
 *
 * The first sweep asks of the number of steps one thing only, before each step:
 * whether this is the last, which is then recorded. After it every stretch
 * between snapshots is reversed by revolve (revolve.c), the number of free
 * slots growing from right to left. Up to C(S + 2, 2) steps that is as good as
 * knowing the length.
 *
 * Invariant: `kept` is ascending in position and not ascending in level; its
 * entries from `bubble` on are dispensable; `later` holds what was saved after
 * them. One entry of the bubble goes for one of `later`, so joining the two when
 * the bubble is empty is constant work a step.
 */
#include "schedule/binomial.h"

struct online_snapshot {
	int64_t position, level, slot;
};

struct online {
	struct schedule head;
	int64_t steps, snapshots;
	struct online_snapshot *kept, *later;
	int64_t kept_count, later_count, bubble;
	int64_t position, level; /* of the current state */
	bool swept;
	struct binomial binomial;
	struct action_queue queue;
};

static void join_later(struct online *o)
{
	for (int64_t i = 0; i < o->later_count; i++)
		o->kept[o->kept_count++] = o->later[i];
	o->later_count = 0;
}

static void keep_current(struct online *o, struct online_snapshot *list, int64_t *count)
{
	int64_t slot = o->binomial.free[--o->binomial.free_count];
	list[(*count)++] = (struct online_snapshot){o->position, o->level, slot};
	queue_push(&o->queue, ACT_SAVE, o->position, o->position, slot);
	o->level = 0;
}

static void pass_current(struct online *o)
{
	join_later(o);
	o->level++;
	o->bubble = o->kept_count;
	while (o->bubble > 0 && o->kept[o->bubble - 1].level < o->level)
		o->bubble--;
}

static void start_reversal(struct online *o)
{
	queue_push(&o->queue, ACT_RECORD, o->position, o->position + 1, 0);
	queue_push(&o->queue, ACT_BACKWARD, o->position, o->position + 1, 0);
	join_later(o);
	for (int64_t i = 0; i < o->kept_count; i++) {
		int64_t end = i + 1 < o->kept_count ? o->kept[i + 1].position : o->position;
		binomial_push(&o->binomial, o->kept[i].position, end, o->snapshots - i, o->kept[i].slot);
	}
	o->swept = true;
}

static void online_sweep(struct online *o)
{
	if (o->position + 1 == o->steps) {
		start_reversal(o);
		return;
	}
	if (o->binomial.free_count > 0) {
		keep_current(o, o->kept, &o->kept_count);
		o->bubble = o->kept_count;
	} else if (o->bubble < o->kept_count) {
		const struct online_snapshot *gone = &o->kept[--o->kept_count];
		queue_push(&o->queue, ACT_DROP, gone->position, gone->position, gone->slot);
		o->binomial.free[o->binomial.free_count++] = gone->slot;
		keep_current(o, o->later, &o->later_count);
	} else {
		pass_current(o);
	}
	queue_push(&o->queue, ACT_FORWARD, o->position, o->position + 1, 0);
	o->position++;
}

static bool online_next(struct schedule *schedule, struct action *action)
{
	struct online *o = (struct online *)schedule;
	if (queue_pop(&o->queue, action))
		return true;
	if (!o->swept)
		online_sweep(o);
	else if (o->binomial.depth > 0)
		binomial_step(&o->binomial, &o->queue);
	return queue_pop(&o->queue, action);
}

static void online_rewind(struct schedule *schedule)
{
	struct online *o = (struct online *)schedule;
	o->queue.head = o->queue.count = 0;
	o->kept_count = o->later_count = o->bubble = o->position = 0;
	o->level = INT64_MAX / 2;
	o->swept = o->steps == 0;
	o->kept = (struct online_snapshot *)(o + 1);
	o->later = o->kept + o->head.slots + 1;
	o->binomial.ranges = (struct binomial_range *)(o->later + o->head.slots + 1);
	o->binomial.free = (int64_t *)(o->binomial.ranges + o->head.slots + 1);
	o->binomial.depth = 0;
	o->binomial.free_count = o->head.slots;
	for (int64_t i = 0; i < o->head.slots; i++)
		o->binomial.free[i] = o->head.slots - 1 - i;
}

struct schedule *online_schedule(const struct allocator *allocator, int64_t steps, int64_t snapshots)
{
	/* Room for as many as there can be; what is emitted does not depend on it. */
	int64_t slots = steps > 1 ? steps - 1 : 0;
	if (snapshots < slots)
		slots = snapshots;
	size_t each = 2 * sizeof(struct online_snapshot) + sizeof(struct binomial_range) + sizeof(int64_t);
	struct online *o = schedule_create(allocator, sizeof *o, slots + 1, each, online_next, online_rewind);
	if (!o)
		return NULL;
	o->steps = steps;
	o->snapshots = slots;
	o->head.slots = slots;
	online_rewind(&o->head);
	return &o->head;
}
