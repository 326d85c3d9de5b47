/*
 * online:S: checkpointing a chain whose length is not known, after Wang, Moin and
 * Iaccarino, "Minimal repetition dynamic checkpointing algorithm for unsteady
 * adjoint calculation", SIAM J. Sci. Comput. 31 (2009), Algorithm 1.
 *
 * Every state has a level; that of the input is above all others. A snapshot is dispensable if its level is
 * lower than that of a later state.
 *
 *   - If a slot is free, the current state takes it, and the next state has level 0.
 *   - Else, if a snapshot is dispensable, the current state takes its slot, and the next state has level 0.
 *     Of several such snapshots the last is dropped. The paper leaves the choice open; this one is best on average.
 *   - Else the current state is not kept, and the next state's level is one higher. So all snapshots of lower
 *     levels become dispensable.
 *
 * No step is advanced over more often than it must be: at most t times for up to C(S + t, t) steps.
 *
 * Before each step of the first sweep the schedule only asks whether this step is the last. The last step is
 * recorded. Then binomial checkpointing (revolve.c) reverses each stretch between snapshots, from right to left, with
 * ever more free slots. Up to C(S + 2, 2) steps this takes as few evaluations as if the length were known.
 *
 * Invariant: `kept` ascends in position and does not ascend in level. Its entries from index `bubble` on, the
 * bubble, are dispensable. `later` lists the snapshots saved after them: one for each that left the bubble. The
 * lists are joined once the bubble is empty or the first sweep ends, so joining is constant work a step on average.
 */
#include "schedule/families.h"

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
	queue_push(&o->head.queue, ACT_SAVE, o->position, o->position, slot);
	o->level = 0;
}

static void start_reversal(struct online *o)
{
	queue_push(&o->head.queue, ACT_RECORD, o->position, o->position + 1, 0);
	queue_push(&o->head.queue, ACT_BACKWARD, o->position, o->position + 1, 0);
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
		queue_push(&o->head.queue, ACT_DROP, gone->position, gone->position, gone->slot);
		o->binomial.free[o->binomial.free_count++] = gone->slot;
		keep_current(o, o->later, &o->later_count);
	} else {
		join_later(o);
		o->level++;
		o->bubble = o->kept_count;
		while (o->bubble > 0 && o->kept[o->bubble - 1].level < o->level)
			o->bubble--;
	}
	queue_push(&o->head.queue, ACT_FORWARD, o->position, o->position + 1, 0);
	o->position++;
}

static void online_emit(struct schedule *schedule)
{
	struct online *o = (struct online *)schedule;
	if (!o->swept)
		online_sweep(o);
	else if (o->binomial.depth > 0)
		binomial_step(&o->binomial, &schedule->queue);
}

static void online_rewind(struct schedule *schedule)
{
	struct online *o = (struct online *)schedule;
	o->kept_count = o->later_count = o->bubble = o->position = 0;
	o->level = INT64_MAX / 2;
	o->swept = o->steps == 0;
	o->kept = (struct online_snapshot *)(o + 1);
	o->later = o->kept + o->head.slots + 1;
	(void)binomial_reset(&o->binomial, o->later + o->head.slots + 1, o->head.slots + 1, o->head.slots);
}

struct schedule *online_schedule(const struct allocator *allocator, int64_t steps, int64_t snapshots)
{
	/* More slots than steps change no action. */
	const int64_t slots = binomial_slots(steps, snapshots);
	const struct online made = {
		.head = {.emit = online_emit, .rewind = online_rewind, .slots = slots}, .steps = steps, .snapshots = slots};
	return schedule_create(allocator, &made.head, sizeof made, slots + 1,
	                       2 * sizeof(struct online_snapshot) + BINOMIAL_EACH);
}
