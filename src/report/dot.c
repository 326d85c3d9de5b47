/*
 * The graph of a chain. Its nodes are the operations of each part, forward and backward, and the values saved between
 * them; its edges are values. Parts pass values by slots. The program is walked as it runs, forward and then backward.
 * For each slot the walk holds the node that its value, or its cotangent, comes from. A loop of several iterations is
 * walked twice, so that loop-carried values show. Equal edges are drawn once.
 * Tests: tests/cases/explain.test
 */
#include "report/explanation.h"
#include "report/picture.h"

#include <stdlib.h>
#include <string.h>

enum end_kind { END_NONE, END_IN, END_OUT, END_SEED, END_GRADIENT, END_PARAM, END_FORWARD, END_SAVED, END_BACKWARD };

struct end {
	enum end_kind kind;
	uint32_t part, index; /* INDEX: of a param; of an instruction in PART (FORWARD, BACKWARD); of a residual (SAVED) */
};

struct edge {
	struct end from, to;
};

/* A residual of a part. */
struct saved {
	struct end from;  /* the node that it comes from, in the first iteration of a loop */
	bool several;     /* in a later iteration it comes from another */
	struct end shown; /* the node of it: of residuals with one value, the first one's */
};

struct graph {
	const struct chain *chain;
	const struct compiled_chain *compiled;
	const struct text *text;
	struct arena *arena;
	struct edge *edges;
	size_t edge_count, edge_capacity;
	struct end *slots;    /* by slot: where its value or cotangent comes from */
	struct end *next;     /* scratch: the same of the slots that a part changes, after that */
	struct saved **saved; /* by part and residual; NULL: the part does not run */
	size_t slot_count;
};

static void add_edge(struct graph *g, struct end from, struct end to)
{
	if (from.kind == END_NONE)
		return;
	struct edge *added = arena_append(g->arena, &g->edges, &g->edge_count, &g->edge_capacity, sizeof *added);
	if (added)
		*added = (struct edge){from, to};
}

static int compare_ends(const struct end *a, const struct end *b)
{
	const uint32_t x[] = {a->kind, a->part, a->index}, y[] = {b->kind, b->part, b->index};
	for (size_t i = 0; i < sizeof x / sizeof *x; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

static int compare_edges(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;
	const int from = compare_ends(&a->from, &b->from);
	return from ? from : compare_ends(&a->to, &b->to);
}

static int compare_saved(const void *left, const void *right)
{
	const struct saved *const *a = left, *const *b = right;
	const int from = compare_ends(&(*a)->from, &(*b)->from);
	return from ? from : compare_ends(&(*a)->shown, &(*b)->shown);
}

static const struct residual *residual_of(const struct graph *g, const struct end *node)
{
	const struct step *step = g->compiled->lowered->distinct[node->part];
	return &compiled_step_of(g->compiled, step)->linear.residuals[node->index];
}

/* Lets residuals of several parts that are one value have one node: it is one array, which each part reads. */
static void join_saved(struct graph *g)
{
	const struct lowered *lowered = g->compiled->lowered;
	size_t count = 0, all = 0;
	for (size_t part = 0; part < lowered->distinct_count; part++)
		all += compiled_step_of(g->compiled, lowered->distinct[part])->linear.residual_count;
	struct saved **list = arena_array(g->arena, all + 1, sizeof *list);
	for (size_t part = 0; part < lowered->distinct_count && list; part++)
		for (size_t i = 0; i < compiled_step_of(g->compiled, lowered->distinct[part])->linear.residual_count; i++)
			if (g->saved[part] && !g->saved[part][i].several && g->saved[part][i].from.kind != END_NONE)
				list[count++] = &g->saved[part][i];
	if (!list)
		return;
	qsort(list, count, sizeof *list, compare_saved);
	for (size_t i = 1; i < count; i++) {
		struct saved *before = list[i - 1], *own = list[i];
		if (compare_ends(&before->from, &own->from) == 0 &&
		    type_equal(residual_of(g, &before->shown)->type, residual_of(g, &own->shown)->type))
			own->shown = before->shown;
	}
}

/* Returns the node that shows END. */
static struct end shown_end(const struct graph *g, struct end end)
{
	return end.kind == END_SAVED && g->saved[end.part] ? g->saved[end.part][end.index].shown : end;
}

/* Returns the node of VALUE in BODY, a body of STEP: an instruction (KIND), a param, a residual, or its slot's node. */
static struct end source_of(const struct graph *g, const struct body *body, const struct step *step, enum end_kind kind,
                            uint32_t value)
{
	const struct value *v = &body->values[value];
	if (v->from == FROM_INSTR)
		return (struct end){kind, step->id, v->instr};
	if (v->from == FROM_PARAM)
		return (struct end){.kind = END_PARAM, .index = step_param(step, &v->param)->param};
	const struct port *port = &body->ins[v->port];
	if (port->kind == PORT_RESIDUAL)
		return (struct end){END_SAVED, step->id, port->index};
	return g->slots[port->kind == PORT_COTANGENT ? step->cot_read.slots[port->index] : step_slot(step, port)];
}

static void add_reads(struct graph *g, const struct body *body, const struct step *step, enum end_kind kind)
{
	for (size_t i = 0; i < body->instr_count; i++) {
		uint32_t reads[INSTR_READS];
		const size_t count = instr_reads(&body->instrs[i], reads);
		for (size_t r = 0; r < count; r++)
			add_edge(g, source_of(g, body, step, kind, reads[r]), (struct end){kind, step->id, (uint32_t)i});
	}
}

/* Notes in g->next the nodes of BODY's outs, slots or cotangents of STEP, or, if SET, makes those the slots' nodes. */
static void note_outs(struct graph *g, const struct body *body, const struct step *step, enum end_kind kind, bool set)
{
	for (size_t i = 0; i < body->out_count; i++) {
		if (body->outs[i].kind == PORT_RESIDUAL)
			continue;
		const uint32_t slot = step_slot(step, &body->outs[i]);
		if (set)
			g->slots[slot] = g->next[slot];
		else
			g->next[slot] = source_of(g, body, step, kind, body->outs[i].value);
	}
}

static void follow_forward(struct graph *g, const struct step *step)
{
	const struct linear *linear = &compiled_step_of(g->compiled, step)->linear;
	const struct body *body = linear->record;
	add_reads(g, body, step, END_FORWARD);
	const bool first = !g->saved[step->id]; /* of a loop's iterations */
	struct saved *saved = first ? arena_array(g->arena, linear->residual_count + 1, sizeof *saved) : g->saved[step->id];
	for (size_t i = 0; i < linear->residual_count && saved; i++) {
		const struct end from = source_of(g, body, step, END_FORWARD, linear->residuals[i].value);
		const struct end node = {END_SAVED, step->id, (uint32_t)i};
		if (first)
			saved[i] = (struct saved){.from = from, .shown = node};
		saved[i].several |= compare_ends(&from, &saved[i].from) != 0;
		add_edge(g, from, node);
	}
	g->saved[step->id] = saved;
	note_outs(g, body, step, END_FORWARD, false);
	note_outs(g, body, step, END_FORWARD, true);
}

static void follow_back(struct graph *g, const struct step *step)
{
	static const struct end none;
	const struct body *body = compiled_step_of(g->compiled, step)->linear.backward;
	add_reads(g, body, step, END_BACKWARD);
	for (uint32_t i = 0; i < step->moved_count; i++)
		g->next[step->moved[i].before] = g->slots[step->moved[i].after];
	note_outs(g, body, step, END_BACKWARD, false);
	for (uint32_t i = 0; i < step->cot_read.count; i++)
		g->slots[step->cot_read.slots[i]] = none;
	for (uint32_t i = 0; i < step->moved_count; i++)
		g->slots[step->moved[i].after] = none;
	for (uint32_t i = 0; i < step->moved_count; i++)
		g->slots[step->moved[i].before] = g->next[step->moved[i].before];
	note_outs(g, body, step, END_BACKWARD, true);
}

/* Walks ITEMS, in reverse if BACK. If AGAIN, walks each loop of several iterations twice, the second time not AGAIN. */
static void walk_items(struct graph *g, const struct item *items, size_t count, bool back, bool again)
{
	for (size_t i = 0; i < count; i++) {
		const struct item *item = &items[back ? count - 1 - i : i];
		if (item->step) {
			(back ? follow_back : follow_forward)(g, item->step);
			continue;
		}
		if (item->iterations > 0)
			walk_items(g, item->items, item->count, back, again);
		if (item->iterations > 1 && again)
			walk_items(g, item->items, item->count, back, false);
	}
}

static void put_end(const struct text *text, const struct end *end)
{
	static const char *const words[] = {
		[END_IN] = "x",    [END_OUT] = "y",     [END_SEED] = "dy", [END_GRADIENT] = "dx",
		[END_PARAM] = "p", [END_FORWARD] = "f", [END_SAVED] = "r", [END_BACKWARD] = "b"};
	text_put(text, words[end->kind]);
	if (end->kind > END_PARAM)
		text_printf(text, "%u_", end->part);
	if (end->kind >= END_PARAM)
		text_printf(text, "%u", end->index);
}

/* Returns the operation of END, which is FORWARD or BACKWARD. */
static const struct instr *end_instr(const struct graph *g, const struct end *end)
{
	const struct step *step = g->compiled->lowered->distinct[end->part];
	const struct linear *linear = &compiled_step_of(g->compiled, step)->linear;
	return &(end->kind == END_FORWARD ? linear->record : linear->backward)->instrs[end->index];
}

static void put_edges(struct graph *g)
{
	for (size_t i = 0; i < g->edge_count; i++)
		g->edges[i] = (struct edge){shown_end(g, g->edges[i].from), shown_end(g, g->edges[i].to)};
	qsort(g->edges, g->edge_count, sizeof *g->edges, compare_edges);
	for (size_t i = 0; i < g->edge_count; i++) {
		const struct edge *edge = &g->edges[i];
		if (i && compare_edges(edge, edge - 1) == 0)
			continue;
		const bool saved = edge->from.kind == END_SAVED || edge->to.kind == END_SAVED;
		const bool back = edge->from.kind == END_BACKWARD, again = back && end_instr(g, &edge->from)->recomputed;
		const bool cotangent = edge->from.kind == END_SEED || (back && !again);
		text_put(g->text, "  ");
		put_end(g->text, &edge->from);
		text_put(g->text, " -> ");
		put_end(g->text, &edge->to);
		text_put(g->text, saved       ? " [style=dashed, color=\"" COLOR_HELD "\"];\n"
		                  : again     ? " [color=\"" COLOR_RECOMPUTE "\"];\n"
		                  : cotangent ? " [color=\"" COLOR_BACKWARD "\"];\n"
		                              : ";\n");
	}
}

static void put_node(struct graph *g, const struct step *step, const struct instr *instr, const struct end *end)
{
	text_put(g->text, "    ");
	put_end(g->text, end);
	text_printf(g->text, " [label=\"%s", instr_word(instr->kind));
	if (instr->kind <= INSTR_VJP)
		text_put(g->text, instr_name(instr));
	else if (instr->kind == INSTR_ACCUMULATE)
		text_printf(g->text, " into %s", g->chain->params[step_param(step, &instr->param)->param].name);
	text_printf(g->text, "\"%s];\n",
	            end->kind == END_FORWARD ? ", color=\"" COLOR_FORWARD "\""
	            : instr->recomputed      ? ", color=\"" COLOR_RECOMPUTE "\", style=\"dashed\""
	                                     : ", color=\"" COLOR_BACKWARD "\"");
}

/*
 * Returns what residual I of STEP is called: its name in the chain, or the operation that computes it. A value of the state
 * before is called after the input, or the operation of an earlier part.
 */
static const char *residual_name(const struct graph *g, const struct step *step, size_t i)
{
	const struct linear *linear = &compiled_step_of(g->compiled, step)->linear;
	const struct residual *residual = &linear->residuals[i];
	const struct value *v = &linear->record->values[residual->value];
	const struct naming *names = step_names(step, residual->value, v->names);
	const struct end *from = g->saved[step->id] ? &g->saved[step->id][i].from : NULL;
	if (names)
		return names->name;
	if (residual->in_state && from && from->kind == END_IN)
		return g->chain->input;
	if (!residual->in_state || !from || from->kind != END_FORWARD)
		return residual->op ? residual->op : "value";
	return instr_name(end_instr(g, from));
}

static void put_part(struct graph *g, uint32_t part)
{
	const struct step *step = g->compiled->lowered->distinct[part];
	const struct linear *linear = &compiled_step_of(g->compiled, step)->linear;
	const struct body *const bodies[] = {linear->record, linear->backward};
	static const enum end_kind kinds[] = {END_FORWARD, END_BACKWARD};
	text_printf(g->text,
	            "  subgraph cluster_%u { label=\"part %u\"; color=\"" COLOR_AXIS "\"; style=rounded; labeljust=l;\n",
	            part, part + 1);
	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < bodies[k]->instr_count; i++)
			put_node(g, step, &bodies[k]->instrs[i], &(struct end){kinds[k], part, (uint32_t)i});
	for (size_t i = 0; i < linear->residual_count; i++) {
		char type[TYPE_TEXT];
		const struct end node = {END_SAVED, part, (uint32_t)i}, shown = shown_end(g, node);
		if (compare_ends(&node, &shown) != 0)
			continue;
		text_printf(g->text, "    r%u_%zu [label=\"%s\\n%s\", shape=cylinder, color=\"" COLOR_HELD "\"];\n", part, i,
		            residual_name(g, step, i), type_format(linear->residuals[i].type, type));
	}
	text_put(g->text, "  }\n");
}

/* The font of a graph, for all of its texts. */
#define FONT "fontname=\"Helvetica\", fontsize=12, fontcolor=\"" COLOR_TEXT "\""

static void put_graph_key(const struct text *text, const char *color, const char *style, const char *name)
{
	text_printf(text,
	            "<tr><td border=\"1\" width=\"22\" style=\"%s\" color=\"%s\"></td><td align=\"left\">%s</td></tr>",
	            style, color, name);
}

/* Writes the legend, a node without edges. */
static void put_graph_legend(const struct text *text)
{
	text_put(text, "  legend [shape=plain, label=<<table border=\"0\" cellspacing=\"4\">");
	put_graph_key(text, COLOR_FORWARD, "solid", "forward operation, and its value");
	put_graph_key(text, COLOR_HELD, "dashed", "saved for the backward pass (cylinder)");
	put_graph_key(text, COLOR_RECOMPUTE, "dashed", "recomputed by the backward pass");
	put_graph_key(text, COLOR_BACKWARD, "solid", "backward operation, and its cotangent");
	text_put(text, "</table>>];\n");
}

void report_dot(const struct chain *chain, const struct compiled_chain *compiled, const struct text *text,
                struct arena *arena)
{
	const struct lowered *lowered = compiled->lowered;
	struct graph g = {.chain = chain, .compiled = compiled, .text = text, .arena = arena};
	g.slot_count = lowered->slot_count;
	g.slots = arena_array(arena, g.slot_count + 1, sizeof *g.slots);
	g.next = arena_array(arena, g.slot_count + 1, sizeof *g.next);
	g.saved = arena_array(arena, lowered->distinct_count + 1, sizeof *g.saved);
	if (!g.slots || !g.next || !g.saved)
		return;
	for (size_t i = 0; i < g.slot_count; i++)
		g.slots[i] = (struct end){.kind = END_IN};
	walk_items(&g, lowered->items, lowered->item_count, false, true);
	join_saved(&g);
	add_edge(&g, g.slots[0], (struct end){.kind = END_OUT});
	memset(g.slots, 0, g.slot_count * sizeof *g.slots);
	const struct item *last = lowered->item_count ? &lowered->items[lowered->item_count - 1] : NULL;
	if (!last || lowered_step(lowered, last->start + last->steps - 1, NULL)->cot_out)
		g.slots[0] = (struct end){.kind = END_SEED};
	walk_items(&g, lowered->items, lowered->item_count, true, true);
	add_edge(&g, g.slots[0], (struct end){.kind = END_GRADIENT});
	text_put(text, "digraph chain {\n  rankdir=TB; graph [" FONT "]; node [shape=box, " FONT "]; edge [" FONT
	               ", color=\"" COLOR_FORWARD "\"];\n");
	put_graph_legend(text);
	text_printf(text, "  x [label=\"%s\", shape=ellipse]; y [label=\"output\", shape=ellipse];\n", chain->input);
	text_printf(text, "  dy [label=\"cotangent\", shape=ellipse]; dx [label=\"gradient of %s\", shape=ellipse];\n",
	            chain->input);
	for (size_t i = 0; i < chain->param_count; i++)
		text_printf(text, "  p%zu [label=\"%s\", shape=ellipse];\n", i, chain->params[i].name);
	for (size_t i = 0; i < lowered->distinct_count; i++)
		put_part(&g, (uint32_t)i);
	put_edges(&g);
	text_put(text, "}\n");
}
