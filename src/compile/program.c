/*
 * From a body to a program: groups and launches (groups.c, launches.c), the kernel ops of
 * each group (fuse.c, registers.c, runs.c), joined launches (joined.c), and the places of arrays (places.c).
 *
 *     workspace:  | frame: pointers | op scratch | block registers | arrays |
 * Tests: tests/unit/test_program.c
 */
#include "compile/program.h"

#include <string.h>

#include "base/checked.h"
#include "base/pool.h"
#include "base/text.h"
#include "compile/compiler.h"

/* Each array and each in and param has at most one entry, and each out that is a copy has one more. */
static size_t most_entries(const struct compiler *c)
{
	size_t count = 2 * c->body->out_count;
	for (size_t i = 0; i < c->body->value_count; i++)
		count += c->values[i].array || c->body->values[i].from != FROM_INSTR;
	for (size_t i = 0; i < c->body->instr_count; i++)
		count += instr_adds_counter(&c->body->instrs[i]);
	return count;
}

/* Copies the entries and launches from the scratch arena, where there were as many as there might have been. */
static bool keep_lists(struct compiler *c)
{
	const size_t entries = c->frame->count * sizeof *c->frame->entries,
				 launches = c->launch_count * sizeof *c->launches;
	char *kept = arena_alloc(c->arena, entries + launches);
	if (!kept)
		return false;
	c->frame->entries = memcpy(kept, c->frame->entries, entries);
	c->launches = memcpy(kept + entries, c->launches, launches);
	return true;
}

static bool compile_body(struct compiler *c)
{
	c->instrs = arena_array(&c->scratch_arena, c->body->instr_count + 1, sizeof *c->instrs);
	c->values = arena_array(&c->scratch_arena, c->body->value_count + 1, sizeof *c->values);
	c->counter_level = arena_array(&c->scratch_arena, MAX_LOOPS, sizeof *c->counter_level);
	c->counter_entry = arena_array(&c->scratch_arena, MAX_LOOPS, sizeof *c->counter_entry);
	c->counter_depth = arena_array(&c->scratch_arena, MAX_LOOPS, sizeof *c->counter_depth);
	c->frame = arena_alloc(c->arena, sizeof *c->frame);
	if (!c->instrs || !c->values || !c->counter_level || !c->counter_entry || !c->counter_depth || !c->frame ||
	    !plan_groups(c))
		return false;
	c->brief = body_is_brief(c->body);
	struct arena *lists = c->brief ? &c->scratch_arena : c->arena;
	c->frame->entries = arena_array(lists, most_entries(c) + 1, sizeof(struct entry));
	c->launches = arena_array(lists, c->launch_limit + 1, sizeof *c->launches);
	if (!c->frame->entries || !c->launches || !draft_reserve(c))
		return false;
	if (!compile_launches(c) || !join_launches(c) || c->scratch[LAYOUT_ALL] > POOL_MOST || c->team_scratch > POOL_MOST)
		return false;
	c->frame->scratch = round_up((int64_t)(c->frame->count * sizeof(void *)), ARRAY_ALIGN);
	for (int layout = 0; layout < LAYOUTS; layout++)
		c->frame->registers[layout] = c->frame->scratch + round_up(c->scratch[layout], ARRAY_ALIGN);
	if (!place_arrays(c))
		return false;
	c->out->member = greater(c->register_bytes[LAYOUT_ALL], c->team_scratch);
	for (size_t i = 0; i < c->body->value_count; i++)
		c->out->widest = greater(c->out->widest, type_bytes(c->body->values[i].type));
	return !c->brief || keep_lists(c);
}

bool launch_may_wait(const struct launch *launch)
{
	enum { LEAST_BYTES = 256 << 10, MOST_MEMORY = 64 << 10 }; /* smaller arrays stay in the cache by themselves */
	return launch->rows > 1 && launch->count >= LEAST_BYTES / 4 && launch->memory <= MOST_MEMORY;
}

/* Returns LEVELS, or more if the counter of a loop at LEVELS or deeper is an index of REF. */
static int32_t above_indices(const struct param_ref *ref, int32_t levels)
{
	for (uint32_t k = 0; k < ref->count; k++)
		if (ref->index[k].loop >= levels)
			levels = ref->index[k].loop + 1;
	return levels;
}

static int32_t count_levels(const struct body *body)
{
	int32_t levels = body->levels;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		levels = instr->level >= levels ? instr->level + 1 : levels;
		for (const struct stream_loop *l = instr->stream ? instr->stream->loops : NULL; l; l = l->outer)
			if (l->step && l->level >= levels)
				levels = l->level + 1;
		if (instr->kind == INSTR_ACCUMULATE)
			levels = above_indices(&instr->param, levels);
	}
	for (size_t i = 0; i < body->value_count; i++)
		if (body->values[i].from == FROM_PARAM)
			levels = above_indices(&body->values[i].param, levels);
	return levels;
}

int team_members(int threads, int64_t widest, int64_t member)
{
	enum { LEAST_BYTES = 256 << 10 }; /* some tens of microseconds of work: waking a thread takes less */
	const int64_t most = 1 + widest / (member > 0 ? member : 1);
	if (widest < LEAST_BYTES || threads < 1)
		return 1;
	return threads < most ? threads : (int)most;
}

enum status program_compile(const struct context *context, struct program *program, const struct body *body,
                            const bool *owned, const bool *written)
{
	*program = (struct program){.body = body};
	struct compiler c = {.out = program, .body = body, .owned = owned, .written = written, .arena = context->arena};
	arena_init(&c.scratch_arena, context->arena->allocator);
	bool good = compile_body(&c);
	arena_free(&c.scratch_arena);
	TRY_ALLOC(good, context->diags);
	program->launches = c.launches;
	program->launch_count = c.launch_count;
	program->frame = c.frame;
	program->levels = count_levels(body);
	return STATUS_OK;
}

void program_dump(const struct program *program, diag_write *write, void *context)
{
	static const char *const kinds[] = {
		[LAUNCH_GROUP] = "group", [LAUNCH_SUM_TO] = "sum_to", [LAUNCH_ACCUMULATE] = "accumulate",
		[LAUNCH_COPY] = "copy",   [LAUNCH_LOOP] = "loop",     [LAUNCH_WHILE] = "while",
		[LAUNCH_END] = "end"};
	static const char *const kernel_ops[] = {"forward", "keep", "vjp_v",  "vjp_a", "vjp_b", "add", "zero",
	                                         "copy",    "fill", "gather", "run",   "loop",  "end"};
	const struct text text = {write, context};
	for (size_t i = 0; i < program->launch_count; i++) {
		const struct launch *l = &program->launches[i];
		text_printf(&text, "  %s %s", launch_is_call(l) ? "call" : kinds[l->kind],
		            launch_is_call(l) ? instr_name(l->instr) : "");
		if (l->kind == LAUNCH_GROUP)
			text_printf(&text, "%lld elements, blocks of %lld, %u registers", (long long)l->count, (long long)l->block,
			            l->registers);
		if (l->joined)
			text_printf(&text, ", joined with %u%s", l->joined, l->mask != NO_VALUE ? ", masked" : "");
		text_put(&text, "\n");
		for (size_t k = 0; l->kind == LAUNCH_GROUP && k < l->kernel_op_count; k++) {
			const struct kernel_op *m = &l->kernel_ops[k];
			text_printf(&text, "    %s %s", kernel_ops[m->kind],
			            m->kind < KERNEL_OP_ADD || m->kind == KERNEL_OP_GATHER ? op_table[m->op].name : "");
			if (m->kind == KERNEL_OP_RUN)
				text_printf(&text, "%zu steps", m->step_count);
			text_put(&text, "\n");
		}
	}
	text_printf(&text, "  workspace %lld bytes\n", (long long)program->workspace);
}
