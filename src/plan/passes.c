/* Tests: tests/scripts/check-passes, tests/cases/folds.test */
#include "plan/passes.h"

#include <string.h>

#include "base/checked.h"

int64_t pass_out_bytes(const struct body *body, size_t k)
{
	return round_up(type_bytes(body->values[body->outs[k].value].type), ARRAY_ALIGN);
}

bool pass_out_apart(const struct pass_list *list, const struct pass *pass, size_t k)
{
	return k < pass->fold_count || list->apart;
}

int64_t pass_list_bytes(const struct pass_list *list)
{
	const int64_t state = round_up(list->state * (int64_t)sizeof(double), ARRAY_ALIGN);
	return saturated_add(state, saturated_add(list->results, list->between));
}

int64_t pass_list_result(const struct pass_list *list, uint32_t result)
{
	const struct body *types = list->passes[0].between.body; /* has the types of statistics too */
	return list->levels->passed[result] ? round_up(type_bytes(types->values[result].type), ARRAY_ALIGN) : 0;
}

static enum status list_folds(const struct context *context, const struct levels *levels, uint32_t level,
                              struct pass *pass)
{
	pass->folds = arena_array(context->arena, levels->fold_count + 1, sizeof(struct fold *));
	TRY_ALLOC(pass->folds, context->diags);
	for (uint32_t i = 0; i < levels->fold_count; i++)
		if (levels->folds[i].level == level)
			pass->folds[pass->fold_count++] = &levels->folds[i];
	return STATUS_OK;
}

/* Counts the steps of which PASS runs a part on tiles, and the cost of that. Sums of cotangents belong to no step. */
static void count_steps(struct pass *pass)
{
	const struct body *body = pass->tile.body;
	uint32_t last = NO_VALUE;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind != INSTR_OP || instr->step == NO_VALUE)
			continue;
		pass->steps += instr->step != last;
		pass->cost += op_cost(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y);
		last = instr->step;
	}
}

/* Makes the rows' part of pass INDEX of BODY, that of a tile, and compiles it. */
static enum status make_rows(const struct context *context, struct pass_list *list, uint32_t index,
                             const struct body *body)
{
	struct body_part *part = &list->passes[index].tile;
	struct program *program = &list->passes[index].tile_program;
	TRY_ALLOC(levels_rows(list->levels, body, index + 1, context->arena, part), context->diags);
	part->body->cut = !list->apart; /* all windows have equally many rows */
	TRY(program_compile(context, program, part->body, NULL, NULL));
	int64_t bytes = round_up(program->workspace, ARRAY_ALIGN);
	for (size_t k = 0; k < part->body->out_count; k++)
		if (pass_out_apart(list, &list->passes[index], k))
			bytes = saturated_add(bytes, pass_out_bytes(part->body, k));
	list->wave = greater(list->wave, program->wave);
	const size_t ports = part->body->in_count > part->body->out_count ? part->body->in_count : part->body->out_count;
	list->workspace = greater(list->workspace, bytes);
	list->ports = ports > list->ports ? ports : list->ports;
	list->libraries |= program->libraries;
	return STATUS_OK;
}

static enum status make_pass(const struct context *context, struct pass_list *list, uint32_t index,
                             const struct body *tile)
{
	struct pass *pass = &list->passes[index];
	int64_t state = 0;
	TRY(list_folds(context, list->levels, index + 1, pass));
	TRY(tile ? make_rows(context, list, index, tile) : STATUS_OK);
	TRY_ALLOC(levels_between(list->levels, index + 1, context->arena, &pass->between), context->diags);
	TRY(program_compile(context, &pass->between_program, pass->between.body, NULL, NULL));
	for (uint32_t i = 0; i < pass->fold_count; i++)
		state = saturated_add(state, instr_state(&list->levels->body->instrs[pass->folds[i]->instr]));
	list->state = greater(list->state, state);
	list->between = greater(list->between, round_up(pass->between_program.workspace, ARRAY_ALIGN));
	list->libraries |= pass->between_program.libraries;
	if (tile)
		count_steps(pass);
	return STATUS_OK;
}

enum status pass_list_make(const struct context *context, struct pass_list *list, const struct body *tile)
{
	const struct levels *levels = list->levels;
	list->count = levels_passes(levels);
	list->passes = arena_array(context->arena, list->count, sizeof *list->passes);
	TRY_ALLOC(list->passes, context->diags);
	for (uint32_t i = 0; i < list->count; i++)
		TRY(make_pass(context, list, i, tile));
	for (uint32_t i = 0; i < levels->value_count; i++)
		list->results = saturated_add(list->results, pass_list_result(list, i));
	return STATUS_OK;
}
