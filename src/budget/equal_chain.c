/*
 * Equal steps between a short head and a short tail, such as a time step that is repeated, and a loss.
 *
 * Each of both is one part, which is recorded, reversed and advanced over at once. With one step each, the plan is the best
 * there is. The tables of equal_steps.c know the tail. For the head there are two of them: V, with the bytes left while
 * the head's input, of d bytes, is kept, and V', with those left while its residuals, of h bytes, are held. W(n) is the
 * least time of the head and the first n equal steps within all bytes. w is the head's time. Times are in evaluations
 * of an equal step:
 *
 *     W(n) = min(w + V'(n, m - h),  min over k of  w + k + V(n-k, m - d) + W(k))
 *
 * W(0) is the time of recording the head while nobody reads the state after it.
 *
 * If the head's residuals hold the state before the equal steps, P takes the place of V'. There that state costs nothing:
 *
 *     P(n) = V'(n) if n steps can be recorded at once, else  min over k of  k + V'(n-k, m - h) + P(k)
 *
 * The whole chain's time is W with the parts that end the chain. The hulls of both terms bound the splits, as in equal_steps.c.
 *
 * The relaxed chain bounds the time if there are several steps in the head or the tail. Its tail is the first step of the
 * tail alone. Each schedule of a range records that step while it holds some of the equal steps, and reverses it. The
 * other steps of the tail take time but no bytes, and run once.
 *
 * Its head is likewise the last step of the head. To have the state before that step again, a schedule keeps one of the
 * head's states, or residuals that hold one. So the relaxed head's state is the smallest of these. The time of the steps
 * before the last is counted once. The tests hold both chains against the plain recurrence.
 * Tests: tests/unit/test_equal_chain.c
 */
#include "budget/equal_chain.h"

#include <math.h>

#include "base/checked.h"

enum {
	SHORT = 3,             /* there are at least so many times as many equal steps as others */
	LONGEST_HEAD = 100000, /* the most times that a head may take as long as an equal step */
};

static const double never = 1e15; /* a time of W or P */

static bool has_steps(const struct part *part) { return part->end > part->begin; }

/* Finding the chain. */

/* Steps BEGIN .. END-1 cost the same. */
struct stretch_found {
	int64_t begin, end;
	const struct step_cost *cost;
};

/* Returns the longest stretch of equal steps, all of whose states, and the state after them, are of one size. */
static struct stretch_found longest_stretch(const struct step_costs *costs)
{
	struct stretch_found best = {0}, now = {0};
	int64_t step = 0;
	for (size_t i = 0; i < costs->run_count; i++) {
		const struct step_run *run = &costs->runs[i];
		if (!now.cost || !equal_costs(now.cost, &run->cost)) {
			now.end -= now.cost && now.cost->state != run->cost.state;
			best = now.end - now.begin > best.end - best.begin ? now : best;
			now = (struct stretch_found){step, step, &run->cost};
		}
		now.end = step += run->count;
	}
	now.end -= now.cost && now.cost->state != costs->output;
	return now.end - now.begin > best.end - best.begin ? now : best;
}

/* Joins the steps FROM .. TO-1 of COSTS to one part. */
static struct part join_steps(const struct step_costs *costs, int64_t from, int64_t to)
{
	struct part whole = {.begin = from, .end = from};
	int64_t step = 0;
	for (size_t i = 0; i < costs->run_count && step < to; step += costs->runs[i++].count) {
		const struct step_run *run = &costs->runs[i];
		const int64_t end = step + run->count, beyond = step_costs_state_after(costs, i);
		for (int64_t k = greater(step, from); k < lesser(end, to); k++) {
			const struct part next = part_of_step(&run->cost, k + 1 < end ? run->cost.state : beyond, k);
			whole = has_steps(&whole) ? part_join((const struct part[]){whole, next}, 2) : next;
		}
	}
	return whole;
}

/*
 * True if some equal steps may best be recorded before the tail is advanced to: both the state before them and the one
 * after them, from which the others follow, are in their residuals, and the tail keeps no state.
 */
static bool records_before_tail(const struct equal_chain *chain)
{
	return chain->cost.keeps_input && chain->cost.keeps_output && has_steps(&chain->tail) && !chain->tail.keeps_input;
}

bool equal_chain_find(struct equal_chain *chain, const struct step_costs *costs)
{
	const struct stretch_found equal = longest_stretch(costs);
	const int64_t steps = equal.end - equal.begin, others = costs->steps - steps;
	*chain = (struct equal_chain){0};
	if (steps < 1 || steps > (equal.begin > 0 ? EQUAL_HEADED_MOST : EQUAL_MOST) || SHORT * others > steps)
		return false;
	chain->cost = *equal.cost;
	chain->steps = steps;
	chain->head = join_steps(costs, 0, equal.begin);
	chain->tail = join_steps(costs, equal.end, costs->steps);
	chain->unproven = equal.begin > 1 || costs->steps - equal.end > 1 || records_before_tail(chain);
	if (!(chain->cost.forward > 0) && chain->cost.record > 0) /* times are in its forward executions */
		return false;
	return others == 0 || (chain->cost.forward > 0 && chain->head.time <= LONGEST_HEAD * chain->cost.forward);
}

bool equal_chain_relax(struct equal_chain *chain, const struct step_costs *costs)
{
	if (!equal_chain_find(chain, costs))
		return false;
	const int64_t first = chain->head.end, end = first + chain->steps;
	const double head = chain->head.time, tail = chain->tail.last;
	int64_t state = chain->head.state;
	if (first > 1) {
		for (int64_t i = 0; i < first; i++)
			state = lesser(join_steps(costs, i, i + 1).state, state);
		chain->head = join_steps(costs, first - 1, first);
		chain->head.state = state;
		chain->once = head - chain->head.time;
	}
	if (costs->steps - end > 1) {
		chain->tail = join_steps(costs, end, end + 1);
		chain->tail.last = tail;
	}
	if (records_before_tail(chain)) {
		chain->tail.keeps_input = true;
		chain->tail.record -= chain->cost.state;
		chain->tail.backward -= chain->cost.state;
	}
	chain->unproven = false;
	return true;
}

/* States that take nothing. */

/* Returns BYTES times TIMES, or so much that no sum of some of them overflows. */
static int64_t widened(int64_t bytes, int64_t times)
{
	const __int128 product = (__int128)bytes * times, most = INT64_MAX / 16;
	return (int64_t)(product < most ? product : most);
}

static void widen_part(struct part *part, int64_t times)
{
	part->state = widened(part->state, times);
	part->residual = widened(part->residual, times);
	part->forward_first = widened(part->forward_first, times);
	part->record = widened(part->record, times);
	part->backward = widened(part->backward, times);
}

/*
 * Gives the states of equal steps, which take nothing, a byte each, and makes all other bytes so many times larger that
 * a chain's states never add up to one of them. So ranges get fewer levels the more states are held.
 */
static void count_states(struct equal_plan *p)
{
	struct step_cost *cost = &p->chain.cost;
	const int64_t times = p->chain.steps + 8;
	cost->state = 1;
	cost->residual = widened(cost->residual, times);
	cost->forward_temporary = widened(cost->forward_temporary, times);
	cost->record_temporary = widened(cost->record_temporary, times);
	cost->backward_temporary = widened(cost->backward_temporary, times);
	widen_part(&p->chain.head, times);
	widen_part(&p->chain.tail, times);
	p->bytes = widened(p->bytes, times) + times - 1;
}

/* Ranges that begin with the head. */

static int64_t cotangent_at(const struct equal_plan *p, enum equal_place place)
{
	return place == LAST ? 0 : p->chain.cost.state;
}

/* Returns the bytes that the head holds once recorded. */
static int64_t head_bytes(const struct part *head) { return head->residual + (head->keeps_input ? head->state : 0); }

/* True if the head can be recorded at PLACE, and reversed at the end. */
static bool records_head(const struct equal_plan *p, enum equal_place place)
{
	const struct part *head = &p->chain.head;
	return head->state + head->record + cotangent_at(p, place) <= p->bytes &&
	       (head->keeps_input ? head->state : 0) + head->backward <= p->bytes;
}

/* Returns the least time of the range of O at PLACE with N equal steps whose first action records. */
static double time_recorded(const struct equal_plan *p, const struct opening *o, enum equal_place place, int64_t n)
{
	const struct part *head = &p->chain.head;
	if (!o->head)
		return n <= equal_table_recordable(&p->held, p->bytes - head_bytes(head), place, true)
		           ? equal_table_once(&p->held, place, n)
		           : never;
	if (!records_head(p, place))
		return never;
	const double again = head->time / p->chain.cost.forward;
	if (n == 0)
		return head->last / p->chain.cost.forward;
	if (head->keeps_output)
		return again + (place == LAST ? p->pinned.last : p->pinned.times[n]);
	const double rest = equal_table_time(&p->held, place, n);
	return rest < EQUAL_NEVER ? again + rest : never;
}

/* Returns the most equal steps that a split of O at PLACE advances over; -1: there is none. */
static int64_t farthest(const struct equal_plan *p, const struct opening *o, enum equal_place place)
{
	const struct part *head = &p->chain.head;
	const int64_t rest = p->bytes - (o->head ? head->state : head_bytes(head));
	const int64_t inner = 2 * p->chain.cost.state + p->chain.cost.forward_temporary;
	if (!o->head)
		return equal_table_advances(&p->held, rest, place);
	if (head->forward_first + cotangent_at(p, place) > rest)
		return -1;
	return inner + cotangent_at(p, place) <= rest ? p->held.steps : 0;
}

/* Returns the least k of a split of O: P has none that advances over nothing. */
static int64_t nearest(const struct opening *o) { return o->head ? 0 : 1; }

/* Returns the time of the split of O before the equal step K. */
static double time_split(const struct equal_plan *p, const struct opening *o, struct equal_range r, int64_t k)
{
	const double right = equal_table_time(o->right, r.place, r.n - k);
	const double again = o->head ? p->chain.head.time / p->chain.cost.forward : 0;
	return right < EQUAL_NEVER && o->times[k] < never ? again + (double)k + right + o->times[k] : never;
}

/* Returns the least time of R, which begins as O does, by its splits at FROM .. TO. *K: the first that has it. */
static double least_split(const struct equal_plan *p, const struct opening *o, struct equal_range r, int64_t *k)
{
	const int64_t most = lesser(farthest(p, o, r.place), r.n - 1);
	double best = never;
	for (int64_t i = nearest(o); i <= most; i++) {
		const double time = time_split(p, o, r, i);
		*k = time < best ? i : *k;
		best = time < best ? time : best;
	}
	return best;
}

/* least_split of a MIDDLE range of N equal steps that can be split anywhere: only where the hulls allow a better time. */
static double least_within(const struct equal_plan *p, const struct opening *o, struct hulls *h, int64_t n)
{
	const struct equal_range r = {0, n, MIDDLE};
	const int64_t low = nearest(o), high = n - 1;
	const double again = o->head ? p->chain.head.time / p->chain.cost.forward : 0;
	hulls_find_middle(h, n, low, high);
	const int64_t k = h->middle;
	double best = time_split(p, o, r, k);
	for (int64_t i = k - 1; i >= low && again + hulls_bound(h, n, i) < best - 1e-9; i--)
		best = fmin(time_split(p, o, r, i), best);
	for (int64_t i = k + 1; i <= high && again + hulls_bound(h, n, i) < best - 1e-9; i++)
		best = fmin(time_split(p, o, r, i), best);
	return best;
}

/* Sets the times of O. HULLS has memory for as many corners as there are times. */
static void fill_opening(const struct equal_plan *p, struct opening *o, struct hulls *h)
{
	const int64_t most = o->right->steps - 1;
	const bool open = farthest(p, o, MIDDLE) >= most;
	int64_t k;
	h->left.count = h->left.near = h->right.count = h->right.near = h->middle = 0;
	for (int64_t n = 1; n <= most && open; n++)
		hull_add(&h->right, n, equal_table_time(o->right, MIDDLE, n));
	for (int64_t n = nearest(o); n <= most; n++) {
		const bool splits = n > nearest(o);
		const double time = !splits ? never
		                    : open  ? least_within(p, o, h, n)
		                            : least_split(p, o, (struct equal_range){0, n, MIDDLE}, &k);
		o->times[n] = fmin(time_recorded(p, o, MIDDLE, n), time);
		if (open)
			hull_add(&h->left, n, o->times[n]);
	}
	const struct equal_range whole = {0, o->right->steps, LAST};
	o->last = fmin(time_recorded(p, o, LAST, whole.n), least_split(p, o, whole, &k));
}

/* Fills both openings. False if out of memory. */
static bool fill_openings(struct equal_plan *p)
{
	const size_t count = (size_t)p->table.steps + 1;
	p->memory_count =
		5 * count; /* two openings' times, two hulls' heights, and their corners, which are half as large */
	p->memory = allocator_get(p->allocator, p->memory_count, sizeof *p->memory);
	if (!p->memory)
		return false;
	int32_t *corners = (int32_t *)(p->memory + 4 * count);
	struct hulls hulls = {.each = 1,
	                      .left = {.heights = p->memory + 2 * count, .corners = corners},
	                      .right = {.heights = p->memory + 3 * count, .corners = corners + count}};
	p->pinned = (struct opening){.right = &p->held, .times = p->memory};
	p->opened = (struct opening){.head = true, .right = &p->table, .times = p->memory + count};
	if (p->chain.head.keeps_output)
		fill_opening(p, &p->pinned, &hulls);
	fill_opening(p, &p->opened, &hulls);
	return true;
}

/* The whole plan. */

enum equal_result equal_plan_solve(struct equal_plan *p, const struct equal_chain *chain, int64_t bytes,
                                   size_t most_cells, const struct allocator *allocator)
{
	*p = (struct equal_plan){.chain = *chain, .bytes = bytes, .allocator = allocator};
	const struct part *head = &p->chain.head;
	if (p->chain.cost.state == 0)
		count_states(p);
	p->table = (struct equal_table){.cost = p->chain.cost,
	                                .first = head->end,
	                                .steps = p->chain.steps + has_steps(&p->chain.tail),
	                                .tail = has_steps(&p->chain.tail) ? &p->chain.tail : NULL,
	                                .all = has_steps(head),
	                                .allocator = allocator};
	p->held = p->table;
	if (!has_steps(head)) {
		const enum equal_result result = equal_table_solve(&p->table, p->bytes, most_cells);
		const bool possible = equal_table_time(&p->table, LAST, p->table.steps) < EQUAL_NEVER;
		return result == EQUAL_SOLVED && !possible ? EQUAL_INFEASIBLE : result;
	}
	enum equal_result result = equal_table_solve(&p->held, p->bytes - head_bytes(head), most_cells);
	if (result == EQUAL_SOLVED || result == EQUAL_INFEASIBLE)
		result = equal_table_solve(&p->table, p->bytes - head->state, most_cells - p->held.cell_count);
	if (result == EQUAL_TOO_LARGE || result == EQUAL_NO_MEMORY)
		return result;
	if (!fill_openings(p))
		return EQUAL_NO_MEMORY;
	return p->opened.last < never ? EQUAL_SOLVED : EQUAL_INFEASIBLE;
}

void equal_plan_free(struct equal_plan *p)
{
	equal_table_free(&p->table);
	equal_table_free(&p->held);
	allocator_put(p->allocator, p->memory, p->memory_count * sizeof *p->memory);
	p->memory = NULL;
}

double equal_plan_error(const struct equal_plan *p)
{
	return (p->table.error + (has_steps(&p->chain.head) ? p->held.error : 0)) * p->chain.cost.forward;
}

double equal_plan_work(const struct equal_plan *p) { return p->table.work + p->held.work; }

double equal_plan_time(const struct equal_plan *p)
{
	const struct part *tail = &p->chain.tail;
	const double all = has_steps(&p->chain.head) ? p->opened.last : equal_table_time(&p->table, LAST, p->table.steps);
	return (all - (has_steps(tail) ? 1 : 0)) * p->chain.cost.forward + tail->last + p->chain.once;
}

/* Appends the actions of R, which begins as O does. SLOT holds the state before it; -1: it is current. */
static void list_opening(const struct equal_plan *p, const struct opening *o, struct equal_range r, int64_t slot,
                         struct action_list *list)
{
	const struct part *head = &p->chain.head;
	const int64_t begin = o->head ? head->begin : head->end;
	int64_t k = 0;
	while (least_split(p, o, r, &k) < time_recorded(p, o, r.place, r.n)) {
		slot = action_list_keep(list, begin, slot);
		action_list_push(list, ACT_FORWARD, begin, head->end + k, 0);
		equal_table_extract(o->right, (struct equal_range){k, r.n - k, r.place}, -1, list);
		r = (struct equal_range){0, k, MIDDLE};
	}
	if (o->head) {
		action_list_record(list, head->begin, head->end, slot);
		if (r.n > 0 && head->keeps_output)
			list_opening(p, &p->pinned, r, -1, list);
		else if (r.n > 0)
			equal_table_extract(&p->held, r, -1, list);
		action_list_push(list, ACT_BACKWARD, head->begin, head->end, 0);
	} else {
		action_list_record(list, begin, equal_table_index(&p->held, 1), slot);
		if (r.n > 1)
			action_list_push(list, ACT_RECORD, equal_table_index(&p->held, 1), equal_table_index(&p->held, r.n), 0);
		action_list_push(list, ACT_BACKWARD, begin, equal_table_index(&p->held, r.n), 0);
	}
}

void equal_plan_extract(const struct equal_plan *p, struct action_list *list)
{
	const struct equal_range whole = {0, p->table.steps, LAST};
	if (has_steps(&p->chain.head))
		list_opening(p, &p->opened, whole, -1, list);
	else
		equal_table_extract(&p->table, whole, -1, list);
}
