/*
 * Places in the workspace: an array has its place from the launch that makes it to the last
 * that reads it. A value that a loop over whole arrays carries has two places, from the
 * loop's begin on: one is read while the other is written.
 *
 * Invariant: two arrays that are live at once share no byte.
 */
#include "base/checked.h"
#include "base/pool.h"
#include "compile/compiler.h"

/* An array that has a place from launch MADE through launch DIES. */
struct placed {
	int64_t bytes, made, dies;
	int64_t *offset;
	uint32_t next_made, next_dead; /* 1 + the next array of the same launch, or 0 */
};

/*
 * Lists the arrays of the workspace. A carried value has two. One is free after the loop; the other holds the
 * final until its last read.
 */
static size_t list_placed(struct compiler *c, struct placed *list)
{
	size_t count = 0;
	for (size_t i = 0; i < c->body->value_count; i++) {
		const struct value_plan *value = &c->values[i];
		struct entry *entry = value->entry == NO_VALUE ? NULL : &c->frame->entries[value->entry];
		if (entry && entry->kind == ENTRY_WORKSPACE && value->made_in >= 0)
			list[count++] = (struct placed){type_bytes(entry->type),
			                                value->made_in,
			                                larger(value->made_in, value->last_read),
			                                &entry->offset,
			                                0,
			                                0};
	}
	for (size_t i = 0; i < c->launch_count; i++) {
		struct launch *loop = &c->launches[i];
		for (size_t k = 0; loop->kind == LAUNCH_LOOP && k < loop->carried_count; k++) {
			struct carried *carried = &loop->carried[k];
			const int64_t end = (int64_t)loop->match, read = c->values[loop->instr->loop.carries[k].final].last_read;
			const int held = loop->iterations > 0 && (loop->iterations - 1) % 2 == 1;
			for (int side = 0; side < 2; side++)
				list[count++] = (struct placed){
					carried->bytes, (int64_t)i, side == held ? larger(end, read) : end, &carried->offset[side], 0, 0};
		}
	}
	return count;
}

bool place_arrays(struct compiler *c, int64_t begin)
{
	size_t limit = c->frame->count + 1;
	for (size_t i = 0; i < c->launch_count; i++)
		limit += 2 * c->launches[i].carried_count;
	struct placed *list = arena_array(&c->scratch_arena, limit, sizeof *list);
	uint32_t *made = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *made);
	uint32_t *dead = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *dead);
	if (!list || !made || !dead)
		return false;
	for (size_t i = list_placed(c, list); i-- > 0;) {
		list[i].next_made = made[list[i].made];
		made[list[i].made] = (uint32_t)i + 1;
		list[i].next_dead = dead[list[i].dies];
		dead[list[i].dies] = (uint32_t)i + 1;
	}
	struct pool pool;
	bool good = true;
	pool_init(&pool, c->arena->allocator);
	for (size_t l = 0; l < c->launch_count && good; l++) {
		for (uint32_t i = made[l]; i && good; i = list[i - 1].next_made) {
			const int64_t offset = pool_get(&pool, list[i - 1].bytes);
			*list[i - 1].offset = begin + offset;
			good = offset >= 0;
		}
		for (uint32_t i = dead[l]; i && good; i = list[i - 1].next_dead)
			good = pool_put(&pool, *list[i - 1].offset - begin, list[i - 1].bytes);
	}
	c->out->workspace = begin + pool.peak;
	pool_free(&pool);
	return good;
}
