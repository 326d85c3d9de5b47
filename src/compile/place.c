/*
 * Places in the workspace: an array has its place from the launch that makes it to the last
 * that reads it. A value that a loop over whole arrays carries has two places, from the
 * loop's begin on: one is read while the other is written.
 *
 * Invariant: two arrays that are live at once share no byte.
 */

#include "base/pool.h"
#include "compile/compiler.h"

/* An array that has a place from launch MADE through launch DIES. */
struct placed {
	int64_t bytes, made, dies;
	int64_t *offset;
	uint32_t next_made, next_dead; /* 1 + the next array of the same launch, or 0 */
};

static void add_placed(struct placed *list, size_t *count, int64_t bytes, int64_t made, int64_t dies, int64_t *offset)
{
	list[(*count)++] = (struct placed){bytes, made, dies > made ? dies : made, offset, 0, 0};
}

/* The two places of each carried value. One is free after the loop; the other holds the final until its last read. */
static void add_carried(struct compiler *c, struct placed *list, size_t *count, size_t at)
{
	struct launch *loop = &c->launches[at];
	for (size_t k = 0; k < loop->carried_count; k++) {
		struct carried *carried = &loop->carried[k];
		uint32_t final = loop->instr->loop.carries[k].final;
		int held = loop->iterations > 0 && (loop->iterations - 1) % 2 == 1;
		for (int side = 0; side < 2; side++) {
			int64_t dies = (int64_t)loop->match;
			if (side == held && c->values[final].last_read > dies)
				dies = c->values[final].last_read;
			add_placed(list, count, carried->bytes, (int64_t)at, dies, &carried->offset[side]);
		}
	}
}

static size_t list_placed(struct compiler *c, struct placed *list)
{
	size_t count = 0;
	for (size_t i = 0; i < c->body->value_count; i++) {
		struct entry *entry = c->values[i].entry == NO_VALUE ? NULL : &c->frame->entries[c->values[i].entry];
		if (entry && entry->kind == ENTRY_WORKSPACE && c->values[i].made_in >= 0)
			add_placed(list, &count, type_bytes(entry->type), c->values[i].made_in, c->values[i].last_read,
			           &entry->offset);
	}
	for (size_t i = 0; i < c->launch_count; i++)
		if (c->launches[i].kind == LAUNCH_LOOP)
			add_carried(c, list, &count, i);
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
