/* Growing bodies, and what is asked of them. */
#include "ir/body.h"

void body_init(struct body *body, struct arena *arena)
{
	*body = (struct body){.arena = arena};
	body->regions = arena_grow(arena, NULL, 0, &body->region_capacity, sizeof *body->regions);
	body->region_count = body->regions != NULL;
}

uint32_t body_add_value(struct body *body, const struct type *type)
{
	struct value *grown =
		arena_grow(body->arena, body->values, body->value_count, &body->value_capacity, sizeof *grown);
	if (!grown)
		return NO_VALUE;
	body->values = grown;
	grown[body->value_count].type = type;
	grown[body->value_count].dtype = type->dtype;
	return (uint32_t)body->value_count++;
}

struct instr *body_add_instr(struct body *body, enum instr_kind kind)
{
	struct instr *grown =
		arena_grow(body->arena, body->instrs, body->instr_count, &body->instr_capacity, sizeof *grown);
	if (!grown)
		return NULL;
	body->instrs = grown;
	struct instr *instr = &grown[body->instr_count++];
	instr->kind = kind;
	instr->level = -1;
	instr->v = instr->a = instr->y = instr->k = instr->l = instr->g = instr->out = instr->out_a = NO_VALUE;
	for (int i = 0; i < MAX_KEEPS; i++)
		instr->out_keep[i] = NO_VALUE;
	return instr;
}

static bool add_port(struct body *body, struct port **ports, size_t *count, size_t *capacity, struct port port)
{
	struct port *grown = arena_grow(body->arena, *ports, *count, capacity, sizeof *grown);
	if (!grown)
		return false;
	*ports = grown;
	grown[(*count)++] = port;
	return true;
}

bool body_add_in(struct body *body, enum port_kind kind, uint32_t index, uint32_t value)
{
	return add_port(body, &body->ins, &body->in_count, &body->in_capacity, (struct port){kind, index, value});
}

bool body_add_out(struct body *body, enum port_kind kind, uint32_t index, uint32_t value)
{
	return add_port(body, &body->outs, &body->out_count, &body->out_capacity, (struct port){kind, index, value});
}

bool instr_is_element(const struct instr *instr)
{
	switch (instr->kind) {
	case INSTR_OP:
		return op_table[instr->op].class != OP_CLASS_GENERAL;
	case INSTR_VJP_V:
	case INSTR_VJP_A:
	case INSTR_ADD:
	case INSTR_ZERO:
	case INSTR_BROADCAST:
		return true;
	default:
		return false;
	}
}

size_t instr_reads(const struct instr *instr, uint32_t reads[6])
{
	const uint32_t all[6] = {instr->v, instr->a, instr->y, instr->k, instr->l, instr->g};
	size_t count = 0;
	for (int i = 0; i < 6; i++)
		if (all[i] != NO_VALUE)
			reads[count++] = all[i];
	return count;
}

size_t instr_writes(const struct instr *instr, uint32_t writes[4])
{
	const uint32_t all[4] = {instr->out, instr->out_a, instr->out_keep[0], instr->out_keep[1]};
	size_t count = 0;
	for (int i = 0; i < 4; i++)
		if (all[i] != NO_VALUE)
			writes[count++] = all[i];
	return count;
}

uint32_t body_goes_on(const struct body *body, uint32_t value)
{
	const struct value *out = &body->values[value];
	const struct instr *made = out->from == FROM_INSTR ? &body->instrs[out->instr] : NULL;
	if (!made || made->kind != INSTR_VJP || made->op != OP_slice || made->a == NO_VALUE)
		return NO_VALUE;
	return body->values[made->a].from == FROM_PORT ? body->values[made->a].port : NO_VALUE;
}

static bool carry_is_read(const struct carry *carry, const bool *read)
{
	return read[carry->inner] || read[carry->final];
}

/* Marks what the carries of LOOP that are read are made of. True if that marks anything new. */
static bool note_carried(const struct instr *loop, bool *read)
{
	bool new = false;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		if (!carry_is_read(carry, read))
			continue;
		new |= !read[carry->init] || !read[carry->result];
		read[carry->init] = read[carry->result] = true;
	}
	return new;
}

bool body_drop_carries(struct body *body)
{
	bool *read = arena_array(body->arena, body->value_count + 1, sizeof *read);
	if (!read)
		return false;
	for (size_t i = 0; i < body->out_count; i++)
		read[body->outs[i].value] = true;
	for (size_t i = 0; i < body->instr_count; i++) {
		uint32_t list[6];
		const size_t count = instr_reads(&body->instrs[i], list);
		for (size_t k = 0; k < count; k++)
			read[list[k]] = true;
	}
	for (bool again = true; again;) {
		again = false;
		for (size_t i = body->instr_count; i-- > 0;)
			if (body->instrs[i].kind == INSTR_LOOP)
				again |= note_carried(&body->instrs[i], read);
	}
	for (size_t i = 0; i < body->instr_count; i++) {
		struct instr *loop = &body->instrs[i];
		if (loop->kind != INSTR_LOOP)
			continue;
		uint32_t count = 0;
		for (uint32_t k = 0; k < loop->loop.carry_count; k++)
			if (carry_is_read(&loop->loop.carries[k], read))
				loop->loop.carries[count++] = loop->loop.carries[k];
		loop->loop.carry_count = body->instrs[loop->loop.match].loop.carry_count = count;
	}
	return true;
}

const char *instr_word(enum instr_kind kind)
{
	static const char *const words[] = {[INSTR_OP] = "",
	                                    [INSTR_VJP_V] = "vjp ",
	                                    [INSTR_VJP_A] = "vjp_operand ",
	                                    [INSTR_VJP] = "vjp ",
	                                    [INSTR_ADD] = "add_any",
	                                    [INSTR_SUM_TO] = "reduce_sum",
	                                    [INSTR_BROADCAST] = "broadcast",
	                                    [INSTR_ZERO] = "zeros",
	                                    [INSTR_ACCUMULATE] = "accumulate",
	                                    [INSTR_LOOP] = "loop",
	                                    [INSTR_END] = "end"};
	return words[kind];
}
