/*
 * If, Loop and Scan.
 *
 * A loop stays one: `repeat` or `for`, whose carried values are names that each iteration binds again. A Loop whose body
 * reads the number of the iteration, or decides when it ends by what is known, is written out instead, up to UNROLLED_MOST
 * iterations: then that number is a constant, and may be an index or an extent.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

enum { UNROLLED_MOST = 256 };

static const Onnx__GraphProto *graph_of(struct node *n, const char *name)
{
	const Onnx__AttributeProto *a = attribute(n, name);
	return a && a->g ? a->g : refuse(n, "it has no graph '%s'", name);
}

static struct value **outputs_for(struct node *n, const Onnx__GraphProto *graph)
{
	struct value **outputs = arena_array(n->importer->context->arena, graph->n_output + 1, sizeof *outputs);
	return outputs ? outputs : short_of_memory(n);
}

/* Translates GRAPH, which has no inputs. Returns its outputs, NULL if one of them has no form. */
static struct value **run_branch(struct node *n, const char *name)
{
	struct frame scope;
	const Onnx__GraphProto *graph = graph_of(n, name);
	struct value **outputs = graph ? outputs_for(n, graph) : NULL;
	if (!outputs)
		return NULL;
	scope_open(&scope, n, graph);
	if (graph_translate(&scope, graph, outputs))
		return NULL;
	for (size_t i = 0; i < n->output_count; i++)
		if (i >= graph->n_output || !outputs[i])
			return NULL;
	return outputs;
}

void translate_if(struct node *n)
{
	struct value *condition = needed(n, 0);
	if (!condition)
		return;
	if (is_foldable(condition)) {
		struct value **made = run_branch(n, tensor_at(condition->constant, 0) != 0 ? "then_branch" : "else_branch");
		for (size_t i = 0; made && i < n->output_count; i++)
			give(n, i, made[i]);
		return;
	}
	/* Both branches are computed, and the condition chooses. */
	condition = once(n, condition);
	struct value **yes = run_branch(n, "then_branch"), **no = yes ? run_branch(n, "else_branch") : NULL;
	for (size_t i = 0; no && i < n->output_count; i++) {
		if (!shape_equal(&yes[i]->type.shape, &no[i]->type.shape)) {
			refuse(n, "its condition is not known before the model runs, and its branches have different shapes");
			return;
		}
		const struct shape one = yes[i]->type.shape;
		struct value *flag = condition;
		if (flag->type.shape.ndim > one.ndim)
			flag = reshape(n, flag, &(struct shape){0, {0}});
		give(n, i, typed(n, choose(n, flag, yes[i], no[i]), yes[i]->type.dtype));
	}
}

/* Gives names to what the nodes of GRAPH read of the scopes around, so that a loop computes none of it again. */
static void name_outer(struct node *n, const Onnx__GraphProto *graph, int depth)
{
	for (size_t i = 0; i < graph->n_node && depth < GRAPHS_MOST; i++) {
		const Onnx__NodeProto *inner = graph->node[i];
		for (size_t k = 0; k < inner->n_input; k++)
			for (const struct frame *scope = n->scope; scope; scope = scope->outer) {
				struct value *v = dictionary_find(&scope->values, inner->input[k]);
				if (v && v->text && !v->is_name)
					once(n, v);
			}
		for (size_t k = 0; k < inner->n_attribute; k++)
			if (inner->attribute[k]->g)
				name_outer(n, inner->attribute[k]->g, depth + 1);
	}
}

static bool reads_name(const Onnx__GraphProto *graph, const char *name, int depth)
{
	bool found = false;
	for (size_t i = 0; i < graph->n_output; i++)
		found |= graph->output[i]->name && !strcmp(graph->output[i]->name, name);
	for (size_t i = 0; i < graph->n_node && !found && depth < GRAPHS_MOST; i++) {
		for (size_t k = 0; k < graph->node[i]->n_input; k++)
			found |= !strcmp(graph->node[i]->input[k], name);
		for (size_t k = 0; k < graph->node[i]->n_attribute && !found; k++)
			found = graph->node[i]->attribute[k]->g && reads_name(graph->node[i]->attribute[k]->g, name, depth + 1);
	}
	return found;
}

static const char *value_name(const Onnx__ValueInfoProto *info) { return info->name ? info->name : ""; }

/* A loop that is being stated. */
struct turning {
	struct node *node;
	const Onnx__GraphProto *body;
	struct frame scope;
	struct value **carried; /* the names of the carried values */
	size_t carried_count;
	struct value **outputs; /* of an iteration */
};

/* Begins the carried values: names with the values of inputs FIRST and more of the node. */
static bool begin_carried(struct turning *t, size_t first)
{
	struct node *n = t->node;
	t->carried = arena_array(n->importer->context->arena, t->carried_count + 1, sizeof *t->carried);
	for (size_t i = 0; t->carried && i < t->carried_count; i++) {
		struct value *v = needed(n, first + i);
		/* Integers are floating numbers in the loop: they have one type in all iterations. */
		if (v && dtype_is_integer(v->type.dtype) && v->computed != DTYPE_F64) {
			const enum dtype own = v->type.dtype;
			v = is_foldable(v) ? declare(n, typed(n, v, DTYPE_F64)) : apply(n, "cast", v, "f64");
			v = typed(n, v, own);
			if (v)
				v->computed = DTYPE_F64;
		}
		if (!declare(n, v))
			return false;
		const char *name = name_take(n->importer, "carried");
		t->carried[i] = name ? formula(n, &v->type, v->computed, name, LEVEL_ATOM) : NULL;
		if (!t->carried[i])
			return short_of_memory(n), false;
		t->carried[i]->is_name = true;
		state(n, "let %s = %s", name, v->text);
	}
	return t->carried || short_of_memory(n);
}

/* Binds the carried values to outputs FIRST and more of an iteration. */
static bool end_carried(struct turning *t, size_t first)
{
	struct node *n = t->node;
	const char **texts = arena_array(n->importer->context->arena, t->carried_count + 1, sizeof *texts);
	if (!texts)
		return short_of_memory(n), false;
	for (size_t i = 0; i < t->carried_count; i++) {
		struct value *v = t->outputs[first + i], *name = t->carried[i];
		if (!declare(n, v))
			return false;
		if (!shape_equal(&v->type.shape, &name->type.shape) || v->type.dtype != name->type.dtype)
			return refuse(n, "an iteration changes the type of a carried value"), false;
		/* A binding must not change what the next one reads. */
		if (t->carried_count > 1 && strcmp(v->text, name->text)) {
			const char *next = name_take(n->importer, "next");
			if (!next)
				return short_of_memory(n), false;
			state(n, "let %s = %s", next, v->text);
			texts[i] = next;
		} else {
			texts[i] = v->text;
		}
	}
	for (size_t i = 0; i < t->carried_count; i++)
		if (strcmp(texts[i], t->carried[i]->text))
			state(n, "let %s = %s", t->carried[i]->text, texts[i]);
	return true;
}

/* Collects output K of the iterations. Returns the array of COUNT of them. */
static struct value *collect(struct turning *t, size_t k, int64_t count)
{
	struct node *n = t->node;
	struct value *v = t->outputs[k];
	const char *name = name_take(n->importer, value_name(t->body->output[k]));
	if (!declare(n, v))
		return NULL;
	if (!name)
		return short_of_memory(n);
	struct type type = {v->type.dtype, {v->type.shape.ndim + 1, {count}}};
	if (type.shape.ndim > MAX_DIMS)
		return refuse(n, "its result has more than %d axes", MAX_DIMS);
	for (int i = 1; i < type.shape.ndim; i++)
		type.shape.dim[i] = v->type.shape.dim[i - 1];
	state(n, v->is_name ? "use %s" : "use (%s)", v->text);
	state(n, "collect %s", name);
	struct value *all = formula(n, &type, v->computed, name, LEVEL_ATOM);
	if (all)
		all->is_name = true;
	return all;
}

/* Translates the body, whose inputs are set, once. False if an output has no form. */
static bool run_body(struct turning *t)
{
	t->outputs = outputs_for(t->node, t->body);
	if (!t->outputs || graph_translate(&t->scope, t->body, t->outputs))
		return false;
	for (size_t i = 0; i < t->body->n_output; i++)
		if (!t->outputs[i])
			return false;
	return true;
}

/* States a Loop as `repeat COUNT`. */
static void repeat_body(struct turning *t, int64_t count)
{
	struct node *n = t->node;
	struct value *yes = filled(n, DTYPE_BOOL, NULL, 1), **collected;
	const size_t scans = t->body->n_output - 1 - t->carried_count;
	name_outer(n, t->body, 0);
	collected = arena_array(n->importer->context->arena, scans + 1, sizeof *collected);
	if (!collected || !begin_carried(t, 2))
		return;
	if (scans && t->carried_count)
		state(n, "use %s", t->carried[0]->text);
	state(n, "repeat %lld {", (long long)count);
	block_begin(n);
	bool good = yes && scope_set(&t->scope, value_name(t->body->input[1]), yes);
	for (size_t i = 0; i < t->carried_count && good; i++)
		good = scope_set(&t->scope, value_name(t->body->input[2 + i]), t->carried[i]);
	if (!good || !run_body(t))
		return;
	for (size_t i = 0; i < scans; i++)
		if (!(collected[i] = collect(t, 1 + t->carried_count + i, count)))
			return;
	if (!end_carried(t, 1))
		return;
	if (scans && t->carried_count)
		state(n, "use %s", t->carried[0]->text);
	block_end(n);
	for (size_t i = 0; i < n->output_count; i++)
		give(n, i, i < t->carried_count ? t->carried[i] : collected[i - t->carried_count]);
}

/* Writes a Loop out. */
static void unroll_body(struct turning *t, int64_t count, struct value *go)
{
	struct node *n = t->node;
	struct arena *arena = n->importer->context->arena;
	const size_t scans = t->body->n_output - 1 - t->carried_count;
	struct value **now = arena_array(arena, t->carried_count + 1, sizeof *now);
	struct value **parts = arena_array(arena, (scans + 1) * UNROLLED_MOST, sizeof *parts);
	int64_t done = 0;
	if (!now || !parts) {
		short_of_memory(n);
		return;
	}
	for (size_t i = 0; i < t->carried_count; i++)
		if (!(now[i] = needed(n, 2 + i)))
			return;
	for (; done < count; done++) {
		struct value *number = filled(n, DTYPE_I64, NULL, (double)done);
		if (go && !is_foldable(go)) {
			double unused;
			if (done == 0)
				(void)input_number(n, 1, "condition", &unused);
			refuse(n, "how often it runs is not known before the model runs");
			return;
		}
		if (go && tensor_at(go->constant, 0) == 0)
			break;
		if (done == UNROLLED_MOST) {
			refuse(n, "it runs more than %d times", UNROLLED_MOST);
			return;
		}
		struct value *yes = filled(n, DTYPE_BOOL, NULL, 1);
		scope_open(&t->scope, n, t->body);
		bool good = number && yes && scope_set(&t->scope, value_name(t->body->input[0]), number) &&
		            scope_set(&t->scope, value_name(t->body->input[1]), yes);
		for (size_t i = 0; i < t->carried_count && good; i++)
			good = now[i] && (now[i]->constant || once(n, now[i])) &&
			       scope_set(&t->scope, value_name(t->body->input[2 + i]), now[i]);
		if (!good || !run_body(t))
			return;
		go = t->outputs[0];
		for (size_t i = 0; i < t->carried_count; i++)
			now[i] = t->outputs[1 + i];
		for (size_t i = 0; i < scans; i++)
			parts[i * UNROLLED_MOST + (size_t)done] = new_axis(n, t->outputs[1 + t->carried_count + i], 0);
	}
	for (size_t i = 0; i < n->output_count; i++) {
		if (i < t->carried_count)
			give(n, i, now[i]);
		else if (done)
			give(n, i, join(n, &parts[(i - t->carried_count) * UNROLLED_MOST], (size_t)done, 0));
		else if (is_wanted(n, i))
			refuse(n, "it collects from no iteration");
	}
}

/* True if the body of T never ends the loop: it passes its condition on, or a constant that holds. */
static bool goes_on(const struct turning *t)
{
	const char *name = value_name(t->body->output[0]), *in = value_name(t->body->input[1]);
	for (size_t i = 0; i < t->body->n_node; i++) {
		const Onnx__NodeProto *node = t->body->node[i];
		if (node->n_output == 1 && !strcmp(node->output[0], name) && node->op_type &&
		    !strcmp(node->op_type, "Identity") && node->n_input == 1)
			return !strcmp(node->input[0], in);
		if (node->n_output == 1 && !strcmp(node->output[0], name) && node->op_type &&
		    !strcmp(node->op_type, "Constant") && node->n_attribute == 1 && node->attribute[0]->t) {
			const Onnx__TensorProto *proto = node->attribute[0]->t;
			return proto->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL &&
			       ((proto->raw_data.len == 1 && proto->raw_data.data[0]) ||
			        (proto->n_int32_data == 1 && proto->int32_data[0]));
		}
	}
	return !strcmp(name, in);
}

void translate_loop(struct node *n)
{
	struct turning t = {.node = n, .body = graph_of(n, "body")};
	struct value *count_value = input(n, 0), *go = input(n, 1);
	double count = 0;
	if (!t.body)
		return;
	if (n->input_count < 2 || t.body->n_input != n->input_count || t.body->n_output < n->input_count - 1) {
		refuse(n, "its body does not fit");
		return;
	}
	if (n->output_count > t.body->n_output - 1) {
		refuse(n, "its body does not fit");
		return;
	}
	if (count_value && !input_number(n, 0, "number of iterations", &count))
		return;
	t.carried_count = n->input_count - 2;
	scope_open(&t.scope, n, t.body);
	if (!count_value)
		count = UNROLLED_MOST + 1;
	const bool known_go = !go || (is_foldable(go) && tensor_at(go->constant, 0) != 0);
	if (count_value && known_go && goes_on(&t) && !reads_name(t.body, value_name(t.body->input[0]), 0) && count >= 1)
		repeat_body(&t, to_integer(count));
	else
		unroll_body(&t, to_integer(count), go);
}

/* Returns attribute NAME's integer I, or 0. */
static int64_t integer_of(struct node *n, const char *name, size_t i)
{
	const struct integers list = attribute_integers(n, name);
	return i < list.count ? list.at[i] : 0;
}

void translate_scan(struct node *n)
{
	struct turning t = {.node = n, .body = graph_of(n, "body")};
	const int64_t scanned = attribute_integer(n, "num_scan_inputs", 0);
	struct arena *arena = n->importer->context->arena;
	const char *names = "", *arrays = "";
	int64_t count = -1;
	if (!t.body)
		return;
	if (n->version < 9) {
		refuse(n, "it is of an opset before 9");
		return;
	}
	if (scanned < 1 || (uint64_t)scanned > n->input_count || t.body->n_input != n->input_count ||
	    t.body->n_output < n->input_count - (size_t)scanned || n->output_count > t.body->n_output) {
		refuse(n, "its body does not fit");
		return;
	}
	t.carried_count = n->input_count - (size_t)scanned;
	scope_open(&t.scope, n, t.body);
	name_outer(n, t.body, 0);
	for (size_t i = 0; i < (size_t)scanned; i++) {
		struct value *v = needed(n, t.carried_count + i);
		int axis;
		if (!v || !resolve_axis(n, integer_of(n, "scan_input_axes", i), v->type.shape.ndim, &axis))
			return;
		int order[MAX_DIMS];
		for (int k = 0; k < v->type.shape.ndim; k++)
			order[k] = k == 0 ? axis : k <= axis ? k - 1 : k;
		v = transpose(n, v, order);
		if (integer_of(n, "scan_input_directions", i))
			v = apply(n, "flip", v, "axis=0");
		v = declare(n, v);
		if (!v)
			return;
		if (count >= 0 && count != v->type.shape.dim[0]) {
			refuse(n, "its arrays have different lengths");
			return;
		}
		count = v->type.shape.dim[0];
		const char *name = name_take(n->importer, value_name(t.body->input[t.carried_count + i]));
		struct type type = v->type;
		shape_drop_leading(&type.shape);
		struct value *part = name ? formula(n, &type, v->computed, name, LEVEL_ATOM) : short_of_memory(n);
		names = part ? arena_printf(arena, "%s%s%s", names, i ? ", " : "", name) : NULL;
		arrays = arena_printf(arena, "%s%s%s", arrays, i ? ", " : "", v->text);
		if (!names || !arrays || !scope_set(&t.scope, value_name(t.body->input[t.carried_count + i]), part)) {
			short_of_memory(n);
			return;
		}
		part->is_name = true;
	}
	if (!begin_carried(&t, 0))
		return;
	const size_t scans = t.body->n_output - t.carried_count;
	struct value **collected = arena_array(arena, scans + 1, sizeof *collected);
	for (size_t i = 0; i < t.carried_count; i++)
		if (!collected || !scope_set(&t.scope, value_name(t.body->input[i]), t.carried[i])) {
			short_of_memory(n);
			return;
		}
	if (t.carried_count)
		state(n, "use %s", t.carried[0]->text);
	state(n, "for %s in %s {", names, arrays);
	block_begin(n);
	if (!run_body(&t))
		return;
	for (size_t i = 0; i < scans; i++)
		if (!(collected[i] = collect(&t, t.carried_count + i, count)))
			return;
	if (!end_carried(&t, 0))
		return;
	if (t.carried_count)
		state(n, "use %s", t.carried[0]->text);
	block_end(n);
	for (size_t i = 0; i < n->output_count; i++) {
		if (i < t.carried_count) {
			give(n, i, t.carried[i]);
			continue;
		}
		struct value *v = collected[i - t.carried_count];
		int axis, order[MAX_DIMS];
		if (integer_of(n, "scan_output_directions", i - t.carried_count))
			v = apply(n, "flip", v, "axis=0");
		if (!v || !resolve_axis(n, integer_of(n, "scan_output_axes", i - t.carried_count), v->type.shape.ndim, &axis))
			return;
		for (int k = 0; k < v->type.shape.ndim; k++)
			order[k] = k == axis ? 0 : k < axis ? k + 1 : k;
		give(n, i, transpose(n, v, order));
	}
}
