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
 * States may be kept on disk too. The snapshots then are those of S slots in memory, and of more slots on disk. A free
 * slot in memory is taken first. If no state is ever dropped, no step is recomputed but to be recorded, and one counter
 * takes the place of the lists.
 *
 * Invariant: `kept` ascends in position and does not ascend in level. Its entries from index `bubble` on, the
 * bubble, are dispensable. `later` lists the snapshots saved after them: one for each that left the bubble. The
 * lists are joined once the bubble is empty or the first sweep ends, so joining is constant work a step on average.
 * Tests: tests/unit/test_schedule.c
 */
#include "base/checked.h"
#include "schedule/families.h"

struct online_snapshot {
	int64_t position, level, slot;
};

struct online {
	struct schedule head;
	int64_t steps, snapshots; /* those on disk are counted */
	bool drops;               /* else slot i has state i */
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

static void record_current(struct online *o)
{
	queue_push(&o->head.queue, ACT_RECORD, o->position, o->position + 1, 0);
	queue_push(&o->head.queue, ACT_BACKWARD, o->position, o->position + 1, 0);
}

static void start_reversal(struct online *o)
{
	record_current(o);
	o->swept = true;
	if (!o->drops)
		return;
	join_later(o);
	for (int64_t i = 0; i < o->kept_count; i++) {
		int64_t end = i + 1 < o->kept_count ? o->kept[i + 1].position : o->position;
		binomial_push(&o->binomial, o->kept[i].position, end, o->snapshots - i, o->kept[i].slot);
	}
}

static void reverse_kept(struct online *o)
{
	o->position--;
	queue_push(&o->head.queue, ACT_LOAD, o->position, o->position, o->position);
	queue_push(&o->head.queue, ACT_DROP, o->position, o->position, o->position);
	record_current(o);
}

static void online_sweep(struct online *o)
{
	if (o->position + 1 == o->steps) {
		start_reversal(o);
		return;
	}
	if (!o->drops) {
		queue_push(&o->head.queue, ACT_SAVE, o->position, o->position, o->position);
	} else if (o->binomial.free_count > 0) {
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

/* Directs the actions of slots beyond those in memory to the disk. */
static void divide_slots(struct schedule *schedule)
{
	static const enum action_kind on_disk[] = {
		[ACT_SAVE] = ACT_SPILL, [ACT_LOAD] = ACT_FETCH, [ACT_DROP] = ACT_DISCARD};
	for (int i = 0; i < schedule->queue.count; i++) {
		struct action *action = &schedule->queue.actions[i];
		const bool kept = action->kind == ACT_SAVE || action->kind == ACT_LOAD || action->kind == ACT_DROP;
		if (!kept || action->slot < schedule->slots)
			continue;
		action->kind = on_disk[action->kind];
		action->slot -= schedule->slots;
	}
}

static void online_emit(struct schedule *schedule)
{
	struct online *o = (struct online *)schedule;
	if (!o->swept)
		online_sweep(o);
	else if (!o->drops && o->position > 0)
		reverse_kept(o);
	else if (o->binomial.depth > 0)
		binomial_step(&o->binomial, &schedule->queue);
	divide_slots(schedule);
}

static void online_rewind(struct schedule *schedule)
{
	struct online *o = (struct online *)schedule;
	o->kept_count = o->later_count = o->bubble = o->position = 0;
	o->level = INT64_MAX / 2;
	o->swept = o->steps == 0;
	o->kept = (struct online_snapshot *)(o + 1);
	const int64_t listed = o->drops ? o->snapshots : 0;
	o->later = o->kept + listed + 1;
	(void)binomial_reset(&o->binomial, o->later + listed + 1, listed + 1, listed);
}

struct schedule *online_schedule(const struct allocator *allocator, int64_t steps, int64_t snapshots, int64_t on_disk)
{
	/* More slots than steps change no action. */
	const int64_t all = binomial_slots(steps, saturated_add(snapshots, on_disk)), slots = lesser(all, snapshots);
	const struct online made = {
		.head = {.emit = online_emit, .rewind = online_rewind, .slots = slots, .disk_slots = all - slots},
		.steps = steps,
		.snapshots = all,
		.drops = all < steps - 1};
	return schedule_create(allocator, &made.head, sizeof made, (made.drops ? all : 0) + 1,
	                       2 * sizeof(struct online_snapshot) + BINOMIAL_EACH);
}
