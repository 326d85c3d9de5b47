/*
 * How far the values of a forward body reach along the streamed axis.
 *
 * A window is some neighbouring rows of the input. Let every operation run on it as if it were a whole array. Then the
 * first and last rows of a value are wrong where the window is cut, and all others are right. A value's depth says how
 * many of its first and last rows are wrong at most. An operation adds its halo to the depth of what it reads.
 *
 * A depth after an iteration of a loop is the largest of some depths before it, each with a constant added, and of 0.
 * So no iteration adds more to a depth than the one before it added to the depth that grew most. A few iterations are
 * walked. The others are counted as if each added that much.
 * Tests: tests/unit/test_windows.c, tests/unit/test_tiles.c
 */
#include "ir/lowering.h"

#include "base/checked.h"

enum { WALKED = 3, NESTED = 8 }; /* iterations of a loop; the most loops around an instruction */

struct depth {
	int64_t before, after;
};

struct walk {
	const struct body *body;
	struct depth *depths; /* by value */
	int64_t rows;         /* of the input */
	int64_t most;         /* rows that one operation reads beside its own */
	int level;
	struct row_reach reach;
};

static struct depth deeper(struct depth a, struct depth b)
{
	return (struct depth){greater(a.before, b.before), greater(a.after, b.after)};
}

static struct depth grown(struct depth depth, struct depth by, int64_t times)
{
	return (struct depth){saturated(depth.before + (__int128)by.before * times),
	                      saturated(depth.after + (__int128)by.after * times)};
}

static struct depth depth_of(const struct walk *walk, uint32_t value)
{
	const bool streamed = value != NO_VALUE && walk->body->values[value].streamed;
	return streamed ? walk->depths[value] : (struct depth){0, 0};
}

static void note_depth(struct walk *walk, struct depth depth)
{
	walk->reach.before = greater(walk->reach.before, depth.before);
	walk->reach.after = greater(walk->reach.after, depth.after);
}

static void walk_op(struct walk *walk, const struct instr *instr)
{
	const struct value *values = walk->body->values;
	if (!values[instr->out].streamed)
		return;
	const struct type *v = values[instr->v].type;
	const bool reads = values[instr->v].streamed && op_table[instr->op].scope == SCOPE_NEIGHBOUR &&
	                   op_scope(instr->op, instr->attrs, v, NULL, false) == SCOPE_NEIGHBOUR;
	struct depth depth = depth_of(walk, instr->v);
	for (uint32_t k = 1; k < instr_value_count(instr); k++)
		depth = deeper(depth, depth_of(walk, instr_value(instr, k)));
	if (reads) {
		const struct halo halo = op_halo(instr->op, instr->attrs, v);
		if (halo.wraps && !walk->reach.wraps)
			walk->reach.wraps_at = instr->span;
		walk->reach.wraps |= halo.wraps;
		walk->reach.ends |= !halo.wraps;
		if (halo.before + halo.after > walk->most)
			walk->reach.deepest = instr->span;
		walk->most = greater(walk->most, halo.before + halo.after);
		const struct halo back = halo_of_derivative(halo);
		const int64_t most = greater(greater(halo.before, halo.after), greater(back.before, back.after));
		walk->reach.most = greater(walk->reach.most, most);
		depth = grown(depth, (struct depth){halo.before, halo.after}, 1);
		/* A window has as many rows fewer as the whole. Those that it lacks are at its end. */
		depth.after = greater(depth.after, walk->rows - values[instr->out].type->shape.dim[0]);
	}
	walk->reach.counts |= op_counts_rows(instr->op, v);
	walk->depths[instr->out] = depth;
	note_depth(walk, depth);
}

static size_t walk_loop(struct walk *walk, size_t at);

static void walk_range(struct walk *walk, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		const struct instr *instr = &walk->body->instrs[i];
		if (instr->kind == INSTR_LOOP)
			i = walk_loop(walk, i);
		else if (instr->kind == INSTR_OP && instr->v != NO_VALUE && instr->out != NO_VALUE)
			walk_op(walk, instr);
	}
}

/* Walks one iteration. Returns the most that a carried value of LOOP grows. */
static struct depth walk_iteration(struct walk *walk, const struct instr *loop)
{
	struct depth most = {0, 0};
	walk_range(walk, (size_t)(loop - walk->body->instrs) + 1, loop->loop.match);
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		const struct depth result = depth_of(walk, carry->result), inner = depth_of(walk, carry->inner);
		walk->depths[carry->final] = result;
		most = deeper(most, (struct depth){result.before - inner.before, result.after - inner.after});
	}
	for (uint32_t k = 0; k < loop->loop.carry_count; k++)
		walk->depths[loop->loop.carries[k].inner] = walk->depths[loop->loop.carries[k].final];
	return most;
}

/* Walks the loop that begins at instruction AT. Returns the index of its end. */
static size_t walk_loop(struct walk *walk, size_t at)
{
	const struct instr *loop = &walk->body->instrs[at];
	const int64_t walked = lesser(loop->loop.iterations, WALKED), more = loop->loop.iterations - walked;
	struct depth growth = {0, 0}, last = {0, 0};
	if (++walk->level > NESTED) /* each level multiplies the walks */
		note_depth(walk, (struct depth){INT64_MAX, INT64_MAX});
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		walk->depths[carry->final] = walk->depths[carry->inner] = depth_of(walk, carry->init);
	}
	for (int64_t i = 0; i < walked && walk->level <= NESTED; i++) {
		const struct depth before = {walk->reach.before, walk->reach.after};
		walk->reach.before = walk->reach.after = 0;
		growth = walk_iteration(walk, loop);
		last = (struct depth){walk->reach.before, walk->reach.after};
		note_depth(walk, before);
	}
	note_depth(walk, grown(last, growth, more));
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		struct depth *final = &walk->depths[loop->loop.carries[k].final];
		*final = grown(*final, growth, more);
	}
	walk->level--;
	return loop->loop.match;
}

bool reach_find(struct lowering *l, const struct body *body, struct row_reach *reach)
{
	struct walk walk = {.body = body, .rows = l->whole_rows};
	walk.depths = arena_array(&l->scratch, body->value_count + 1, sizeof *walk.depths);
	if (!walk.depths)
		return false;
	walk_range(&walk, 0, body->instr_count);
	*reach = walk.reach;
	return true;
}
