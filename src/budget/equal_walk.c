/*
 * The schedules of equal_steps.c: their actions, from the choices that its times or its prices make. Ranges that are left
 * for later wait on a stack, since there may be as many as the chain has steps.
 * Tests: tests/unit/test_equal_chain.c
 */
#include "budget/equal_dual.h"
#include "budget/equal_steps.h"

/*
 * N steps from BEGIN at PLACE, with the bytes of LEVEL left for them, once they have been advanced over TIMES times. SLOT
 * holds the state before them; -1: it is current. If WAY is RECORDED, their first step is recorded, and SLOT's state follows it.
 */
struct stretch {
	int64_t level, begin, n, times, slot;
	enum equal_place place;
	enum equal_way way;
};

struct walk {
	const struct equal_table *t;
	struct action_list *list; /* NULL: only the time counts */
	double time;
	struct stretch *waiting;
	size_t count, capacity;
	bool failed; /* out of memory */
	bool stuck;  /* the estimates led to a range that cannot be split */
};

int64_t equal_table_index(const struct equal_table *t, int64_t step)
{
	return t->tail && step == t->steps ? t->tail->end : t->first + step;
}

/* Appends an action over N of the table's steps from BEGIN on. */
static void append_steps(struct walk *w, enum action_kind kind, int64_t begin, int64_t n)
{
	if (w->list && n > 0)
		action_list_push(w->list, kind, equal_table_index(w->t, begin), equal_table_index(w->t, begin + n), 0);
}

/* Appends: records the first step of R. */
static void list_record(struct walk *w, const struct stretch *r)
{
	if (w->list)
		action_list_record(w->list, equal_table_index(w->t, r->begin), equal_table_index(w->t, r->begin + 1), r->slot);
}

/* Records all steps of R at once, and reverses them. If R begins recorded, its first step is so already. */
static void list_at_once(struct walk *w, const struct stretch *r)
{
	struct stretch rest = *r;
	w->time += equal_table_once_by(w->t, r->place, r->way, r->n);
	if (r->way == RECORDED) {
		rest.begin++;
		rest.n--;
	}
	if (rest.n > 0)
		list_record(w, &rest);
	append_steps(w, ACT_RECORD, rest.begin + 1, rest.n - 1);
	append_steps(w, ACT_BACKWARD, rest.begin, rest.n);
	if (r->way == RECORDED)
		append_steps(w, ACT_BACKWARD, r->begin, 1);
}

static struct equal_choice choose_split(const struct walk *w, const struct stretch *r)
{
	const struct equal_table *t = w->t;
	if (!t->dual)
		return equal_table_choose(t, r->level, r->place, r->way, r->n);
	struct equal_node node = {r->level, r->times, r->place, r->way};
	struct equal_choice choice = {.way = r->way};
	double time;
	choice.k = equal_dual_split(t->dual, node, r->n, &time);
	if (r->way == BEST && equal_table_has_recorded(t)) {
		node.way = RECORDED;
		if (choice.k == 0 || equal_dual_estimate(t->dual, node, r->n) < time)
			choice = (struct equal_choice){RECORDED, 0};
	}
	return choice;
}

/* Makes R the right part of its split before the step K. The left part waits. */
static void split_stretch(struct walk *w, struct stretch *r, int64_t k)
{
	struct stretch left = *r;
	const int64_t advanced = r->way == RECORDED ? k - 1 : k, from = r->begin + k - advanced;
	if (!allocator_grow(w->t->allocator, (void **)&w->waiting, &w->capacity, w->count + 1, sizeof *w->waiting)) {
		w->failed = true;
		return;
	}
	if (advanced > 0 && w->list)
		left.slot = r->slot = action_list_keep(w->list, equal_table_index(w->t, from), r->slot);
	append_steps(w, ACT_FORWARD, from, advanced);
	w->time += (double)advanced;
	left.n = k;
	left.times++;
	left.place = MIDDLE;
	if (advanced == 0)
		left.slot = -1; /* the right part takes it */
	w->waiting[w->count++] = left;
	*r = (struct stretch){.level = w->t->levels[r->level].right[r->way],
	                      .begin = r->begin + k,
	                      .n = r->n - k,
	                      .times = r->times,
	                      .slot = advanced > 0 ? -1 : r->slot,
	                      .place = r->place,
	                      .way = BEST};
}

/* Appends the actions of R, and those of the ranges that wait for it. */
static void walk_stretch(struct walk *w, struct stretch r)
{
	for (bool more = true; more && !w->failed && !w->stuck;) {
		while (!w->failed && !w->stuck && r.n > w->t->levels[r.level].at_once[r.place]) {
			const struct equal_choice choice = choose_split(w, &r);
			if (choice.way != r.way) {
				list_record(w, &r);
				r.way = choice.way;
				r.slot = -1;
			} else if (choice.k == 0) {
				w->stuck = true;
			} else {
				split_stretch(w, &r, choice.k);
			}
		}
		if (!w->failed && !w->stuck)
			list_at_once(w, &r);
		more = w->count > 0;
		if (more)
			r = w->waiting[--w->count];
	}
	allocator_put(w->t->allocator, w->waiting, w->capacity * sizeof *w->waiting);
}

double equal_table_walk_time(const struct equal_table *t)
{
	struct walk w = {.t = t};
	walk_stretch(&w, (struct stretch){.n = t->steps, .slot = -1, .place = LAST, .way = BEST});
	return w.failed ? -1 : w.stuck ? EQUAL_NEVER : w.time;
}

void equal_table_extract(const struct equal_table *t, struct equal_range r, int64_t slot, struct action_list *list)
{
	struct walk w = {.t = t, .list = list};
	walk_stretch(&w, (struct stretch){.begin = r.begin, .n = r.n, .slot = slot, .place = r.place, .way = BEST});
	list->failed |= w.failed;
}
