/* Growing bodies, and their text. */
#include "ir/body.h"

#include "base/text.h"

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

/* Text. */

struct dumper {
	const struct body *body;
	const struct chain *chain;
	struct text text;
};

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

/* Names a value a, b, ... z, ba, bb, ..., as a jaxpr does. */
static void put_value(const struct dumper *d, uint32_t value)
{
	const struct value *v = &d->body->values[value];
	char text[16], *p = text + sizeof text - 1;
	*p = '\0';
	if (v->from == FROM_PARAM) {
		text_printf(&d->text, "%s", d->chain->params[v->param.param].name);
		for (uint32_t i = 0; i < v->param.count; i++)
			if (v->param.index[i].loop >= 0)
				text_printf(&d->text, "[i%d]", (int)v->param.index[i].loop);
			else
				text_printf(&d->text, "[%lld]", (long long)v->param.index[i].value);
		return;
	}
	do {
		*--p = (char)('a' + value % 26);
		value /= 26;
	} while (value && p > text);
	text_printf(&d->text, "%s", p);
}

static void put_typed(const struct dumper *d, uint32_t value)
{
	char type[TYPE_TEXT];
	put_value(d, value);
	text_printf(&d->text, ":%s", type_format(d->body->values[value].type, type));
}

static void put_ports(const struct dumper *d, const struct port *ports, size_t count, bool typed)
{
	for (size_t i = 0; i < count; i++) {
		text_printf(&d->text, i ? " " : "");
		if (typed)
			put_typed(d, ports[i].value);
		else
			put_value(d, ports[i].value);
	}
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

static void put_instr(const struct dumper *d, const struct instr *instr)
{
	const uint32_t outs[] = {instr->out, instr->out_a, instr->out_keep[0], instr->out_keep[1]};
	const uint32_t ins[] = {instr->g, instr->v, instr->a, instr->y, instr->k, instr->l};
	bool first = true;
	for (size_t i = 0; i < sizeof outs / sizeof *outs; i++)
		if (outs[i] != NO_VALUE) {
			text_printf(&d->text, first ? "" : " ");
			put_typed(d, outs[i]);
			first = false;
		}
	text_printf(&d->text, first ? "" : " = ");
	bool op = instr->kind <= INSTR_VJP;
	text_printf(&d->text, "%s%s", instr_word(instr->kind), op ? op_table[instr->op].name : "");
	if (instr->kind == INSTR_LOOP)
		text_printf(&d->text, " %lld", (long long)instr->loop.iterations);
	for (size_t i = 0; i < sizeof ins / sizeof *ins; i++)
		if (ins[i] != NO_VALUE) {
			text_printf(&d->text, " ");
			put_value(d, ins[i]);
		}
	if (op && op_table[instr->op].class == OP_CLASS_BINARY && instr->a == NO_VALUE && instr->kind == INSTR_OP)
		text_printf(&d->text, " %.9g", instr->scalar);
	if (op && instr->level >= 0)
		text_printf(&d->text, " [i%d]", (int)instr->level);
	if (instr->kind == INSTR_ACCUMULATE)
		text_printf(&d->text, " into %s", d->chain->params[instr->param.param].name);
	if (instr->recomputed)
		text_printf(&d->text, "  # recomputed");
}

void body_dump(const struct body *body, const struct chain *chain, diag_write *write, void *context)
{
	struct dumper d = {body, chain, {write, context}};
	int depth = 1;
	text_printf(&d.text, "{ lambda ; ");
	put_ports(&d, body->ins, body->in_count, true);
	text_printf(&d.text, ". let\n");
	for (size_t i = 0; i < body->instr_count; i++) {
		depth -= body->instrs[i].kind == INSTR_END;
		text_printf(&d.text, "%*s", 4 * depth, "");
		put_instr(&d, &body->instrs[i]);
		text_printf(&d.text, "\n");
		depth += body->instrs[i].kind == INSTR_LOOP;
	}
	text_printf(&d.text, "  in (");
	put_ports(&d, body->outs, body->out_count, false);
	text_printf(&d.text, ") }\n");
}
