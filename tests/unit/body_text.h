/* The text of a body as a jaxpr has it: typed let-bindings, values named a, b, ... z, ba, bb by their number. */
#ifndef TESTS_BODY_TEXT_H
#define TESTS_BODY_TEXT_H

#include "base/text.h"
#include "ir/body.h"

struct dumper {
	const struct body *body;
	const struct chain *chain;
	struct text text;
};

/* Names a value a, b, ... z, ba, bb, ..., as a jaxpr does. */
static inline void put_value(const struct dumper *d, uint32_t value)
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

static inline void put_typed(const struct dumper *d, uint32_t value)
{
	char type[TYPE_TEXT];
	put_value(d, value);
	text_printf(&d->text, ":%s", type_format(d->body->values[value].type, type));
}

static inline void put_ports(const struct dumper *d, const struct port *ports, size_t count, bool typed)
{
	for (size_t i = 0; i < count; i++) {
		text_printf(&d->text, i ? " " : "");
		if (typed)
			put_typed(d, ports[i].value);
		else
			put_value(d, ports[i].value);
	}
}

static inline void put_instr(const struct dumper *d, const struct instr *instr)
{
	const uint32_t outs[] = {instr->out, instr->out_a, instr->out_keep[0], instr->out_keep[1]};
	const uint32_t ins[] = {instr->g, instr->v, instr->a, instr->y, instr->k, instr->l, instr->more[0], instr->more[1]};
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
	if (instr->kind == INSTR_OP && instr_has_number(instr))
		text_printf(&d->text, " %.9g", instr->scalar);
	if (op && instr->level >= 0)
		text_printf(&d->text, " [i%d]", (int)instr->level);
	if (instr->kind == INSTR_ACCUMULATE)
		text_printf(&d->text, " into %s", d->chain->params[instr->param.param].name);
	if (instr->recomputed)
		text_printf(&d->text, "  # recomputed");
}

static inline void body_dump(const struct body *body, const struct chain *chain, diag_write *write, void *context)
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

#endif
