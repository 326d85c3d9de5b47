/*
 * Graphs: the model's, those of functions, and subgraphs. Nodes are translated in their order, which ONNX demands to be one
 * in which a value is made before it is read.
 *
 * A node that the chain cannot say leaves outputs without a meaning, `lost` values. Nodes that read them are passed over,
 * unless the table lacks their operator, too. So the list of refusals has causes and no consequences.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <inttypes.h>

static bool is_lost(const struct value *v) { return !v->text && !v->constant; }

static const char *node_name(const Onnx__NodeProto *proto)
{
	if (proto->name && *proto->name)
		return proto->name;
	for (size_t i = 0; i < proto->n_output; i++)
		if (*proto->output[i])
			return proto->output[i];
	return "?";
}

bool scope_set(struct frame *scope, const char *name, struct value *value)
{
	struct arena *arena = scope->importer->context->arena;
	return dictionary_put(&scope->values, arena, name, value);
}

static struct value *scope_find(const struct frame *scope, const char *name)
{
	struct value *v = NULL;
	for (; scope && !v; scope = scope->outer)
		v = dictionary_find(&scope->values, name);
	return v;
}

static bool count_name(struct frame *scope, const char *name, size_t count)
{
	struct arena *arena = scope->importer->context->arena;
	size_t *reads = dictionary_find(&scope->reads, name);
	if (!reads) {
		reads = arena_alloc(arena, sizeof *reads);
		if (!reads || !dictionary_put(&scope->reads, arena, name, reads))
			return false;
	}
	*reads += count;
	return true;
}

/* Counts what NODES read. Those of a subgraph count twice: it may be a loop. */
static bool count_reads(struct frame *scope, Onnx__NodeProto *const *nodes, size_t n, size_t each, int depth)
{
	bool good = depth < GRAPHS_MOST;
	for (size_t i = 0; i < n && good; i++) {
		for (size_t k = 0; k < nodes[i]->n_input && good; k++)
			good = count_name(scope, nodes[i]->input[k], each);
		for (size_t k = 0; k < nodes[i]->n_attribute && good; k++) {
			const Onnx__GraphProto *inner = nodes[i]->attribute[k]->g;
			if (inner)
				good = count_reads(scope, inner->node, inner->n_node, 2, depth + 1);
			for (size_t j = 0; inner && j < inner->n_output && good; j++)
				good = !inner->output[j]->name || count_name(scope, inner->output[j]->name, 2);
		}
	}
	return good;
}

static bool enter_makers(struct frame *scope, Onnx__NodeProto *const *nodes, size_t n)
{
	struct arena *arena = scope->importer->context->arena;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < nodes[i]->n_output; k++)
			if (*nodes[i]->output[k] && !dictionary_put(&scope->makers, arena, nodes[i]->output[k], nodes[i]))
				return false;
	return true;
}

/*
 * Returns a hash of the node that makes value NAME, and of the nodes that it reads, DEPTH levels deep: their operators and
 * attributes. Values that are read more than once count as equal, since a layer may read another layer or the model's input.
 * Results of equal layers have equal forms. If one of them gets a name, all do: else the layer that only the next operator
 * reads would have other lines than the layers before it, and could not join their loop.
 */
static uint64_t form_of(const struct frame *scope, const char *name, int depth)
{
	const Onnx__NodeProto *maker = dictionary_find(&scope->makers, name);
	if (!maker || !maker->op_type)
		return 1;
	uint64_t form = hash_bytes(HASH_START, maker->op_type, strlen(maker->op_type));
	for (size_t i = 0; i < maker->n_output; i++)
		form += !strcmp(maker->output[i], name) ? i : 0;
	for (size_t i = 0; i < maker->n_attribute; i++) {
		const Onnx__AttributeProto *a = maker->attribute[i];
		form = hash_bytes(form, a->name ? a->name : "", a->name ? strlen(a->name) : 0);
		form = hash_bytes(hash_bytes(form, &a->i, sizeof a->i), &a->f, sizeof a->f);
		form = a->n_ints ? hash_bytes(form, a->ints, a->n_ints * sizeof *a->ints) : form;
		form = a->s.len ? hash_bytes(form, a->s.data, a->s.len) : form;
	}
	for (size_t i = 0; i < maker->n_input && depth > 0; i++) {
		const size_t *reads = dictionary_find(&scope->reads, maker->input[i]);
		const uint64_t inner = reads && *reads > 1 ? 1 : form_of(scope, maker->input[i], depth - 1);
		form = hash_bytes(form, &inner, sizeof inner);
	}
	return form;
}

/* Returns the key of NAME's form in a dictionary; NULL if memory is short. */
static const char *form_key(const struct frame *scope, const char *name)
{
	enum { DEPTH = 2 };
	return arena_printf(scope->importer->context->arena, "%" PRIx64, form_of(scope, name, DEPTH));
}

/* Enters the forms of what NODES make and others read more than once. */
static bool enter_forms(struct frame *scope, Onnx__NodeProto *const *nodes, size_t n)
{
	struct arena *arena = scope->importer->context->arena;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < nodes[i]->n_output; k++) {
			const size_t *reads = dictionary_find(&scope->reads, nodes[i]->output[k]);
			const char *key = reads && *reads > 1 ? form_key(scope, nodes[i]->output[k]) : NULL;
			if (reads && *reads > 1 && (!key || !dictionary_put(&scope->forms, arena, key, scope)))
				return false;
		}
	return true;
}

static int64_t version_of(const struct frame *scope, const char *domain)
{
	const struct importer *im = scope->importer;
	for (size_t i = 0; i < scope->opset_count; i++) {
		const char *own = scope->opsets[i]->domain ? scope->opsets[i]->domain : "";
		if (!strcmp(!strcmp(own, "ai.onnx") ? "" : own, domain))
			return scope->opsets[i]->version;
	}
	for (size_t i = 0; i < im->model->n_opset_import; i++)
		if (!im->model->opset_import[i]->domain || !*im->model->opset_import[i]->domain)
			return im->model->opset_import[i]->version;
	return 1;
}

static void add_refusal(struct importer *im, const struct node *node)
{
	struct refusal *refusal =
		arena_append(im->context->arena, &im->refusals, &im->refusal_count, &im->refusal_capacity, sizeof *refusal);
	if (refusal)
		*refusal =
			(struct refusal){node_name(node->proto), node->proto->op_type ? node->proto->op_type : "?", node->reason};
	else if (!im->outcome)
		im->outcome = diag_memory(im->context->diags);
}

static const Onnx__FunctionProto *find_function(const struct importer *im, const char *domain, const char *name)
{
	for (size_t i = 0; i < im->model->n_functions; i++) {
		const Onnx__FunctionProto *f = im->model->functions[i];
		const char *own = f->domain ? f->domain : "";
		if (f->name && !strcmp(f->name, name) && !strcmp(!strcmp(own, "ai.onnx") ? "" : own, domain))
			return f;
	}
	return NULL;
}

static enum status too_deep(struct importer *im)
{
	if (!im->outcome)
		im->outcome = diag_file(im->context->diags, STATUS_LIMIT, im->request->path, -1,
		                        "graphs and functions nest more than %d deep", GRAPHS_MOST);
	return im->outcome;
}

static void translate_nodes(struct frame *scope, Onnx__NodeProto *const *nodes, size_t n);

static void inline_function(struct node *node, const Onnx__FunctionProto *function)
{
	struct importer *im = node->importer;
	struct frame scope = {
		.importer = im, .call = node, .opset_count = function->n_opset_import, .opsets = function->opset_import};
	bool good = count_reads(&scope, function->node, function->n_node, 1, 0) &&
	            enter_makers(&scope, function->node, function->n_node);
	if (im->graphs >= GRAPHS_MOST) {
		too_deep(im);
		return;
	}
	for (size_t i = 0; i < function->n_output && good; i++)
		good = count_name(&scope, function->output[i], i < node->output_count && is_wanted(node, i) ? 1 : 0);
	good = good && enter_forms(&scope, function->node, function->n_node);
	for (size_t i = 0; i < function->n_input && good; i++) {
		struct value *v = input(node, i);
		const size_t *reads = dictionary_find(&scope.reads, function->input[i]);
		if (v && !v->constant && reads && *reads > 1)
			once(node, v);
		if (v)
			good = scope_set(&scope, function->input[i], v);
	}
	if (!good) {
		short_of_memory(node);
		return;
	}
	im->graphs++;
	translate_nodes(&scope, function->node, function->n_node);
	im->graphs--;
	for (size_t i = 0; i < function->n_output && i < node->output_count && !im->outcome; i++) {
		struct value *v = dictionary_find(&scope.values, function->output[i]);
		if (v && !is_lost(v))
			node->outputs[i] = v;
	}
}

/* Reports that NODE reads NAME, which nothing has made. */
static void report_missing(struct node *node, const char *name)
{
	struct importer *im = node->importer;
	const Onnx__NodeProto *maker = dictionary_find(&node->scope->makers, name);
	const char *operator= node->proto->op_type ? node->proto->op_type : "?";
	if (im->outcome)
		return;
	if (maker)
		im->outcome =
			diag_file(im->context->diags, STATUS_DATA, im->request->path, -1,
		              "node '%s' (%s) reads '%s' before node '%s' (%s) makes it: the graph has a cycle, or "
		              "its nodes are in the wrong order",
		              node_name(node->proto), operator, name, node_name(maker), maker->op_type ? maker->op_type : "?");
	else
		im->outcome = diag_file(im->context->diags, STATUS_DATA, im->request->path, -1,
		                        "node '%s' (%s) reads '%s', which is no input, no initializer and no output of a node",
		                        node_name(node->proto), operator, name);
}

/* Finds the inputs of NODE. Returns false if one is lost or missing. */
static bool find_inputs(struct node *node)
{
	bool whole = true;
	for (size_t i = 0; i < node->input_count; i++) {
		const char *name = node->proto->input[i];
		if (!*name)
			continue;
		node->inputs[i] = scope_find(node->scope, name);
		if (!node->inputs[i])
			report_missing(node, name);
		whole &= node->inputs[i] && !is_lost(node->inputs[i]);
	}
	return whole;
}

/* True if NAME, or a value of its form, is read more than once. */
static bool is_shared(const struct frame *scope, const char *name)
{
	const char *key = form_key(scope, name);
	return key && dictionary_find(&scope->forms, key);
}

/* Sets the outputs of NODE in its scope. Values that are read more than once get a name of the chain. */
static void keep_outputs(struct node *node)
{
	struct importer *im = node->importer;
	for (size_t i = 0; i < node->output_count && !im->outcome; i++) {
		const char *name = node->proto->output[i];
		struct value *v = node->outputs[i];
		if (!*name)
			continue;
		if (!v && is_wanted(node, i) && !node->reason)
			refuse(node, "its output %zu has no form in a chain", i + 1);
		if (!v)
			v = arena_alloc(im->context->arena, sizeof *v);
		if (v && !v->name)
			v->name = name;
		if (v && v->text && is_shared(node->scope, name))
			bind(node, v, v->name);
		if (!v || !scope_set(node->scope, name, v))
			short_of_memory(node);
	}
}

static void translate_node(struct frame *scope, const Onnx__NodeProto *proto)
{
	struct importer *im = scope->importer;
	struct arena *arena = im->context->arena;
	const char *own = proto->domain ? proto->domain : "", *domain = !strcmp(own, "ai.onnx") ? "" : own;
	const char *name = proto->op_type ? proto->op_type : "";
	struct node node = {.importer = im,
	                    .scope = scope,
	                    .proto = proto,
	                    .version = version_of(scope, domain),
	                    .input_count = proto->n_input,
	                    .output_count = proto->n_output};
	node.inputs = arena_array(arena, proto->n_input + 1, sizeof *node.inputs);
	node.outputs = arena_array(arena, proto->n_output + 1, sizeof *node.outputs);
	if (!node.inputs || !node.outputs) {
		short_of_memory(&node);
		return;
	}
	const Onnx__FunctionProto *function = find_function(im, domain, name);
	const struct operator_row *row = operator_find(domain, name);
	const bool whole = find_inputs(&node);
	if (im->outcome)
		return;
	const size_t refused = im->refusal_count;
	if (!function && !row)
		refuse(&node,
		       *domain ? "no operator of domain '%s' is known by this name" : "ckptc does not know this operator%s",
		       domain);
	else if (whole && function)
		inline_function(&node, function);
	else if (whole)
		row->translate(&node);
	const bool complete = whole && refused == im->refusal_count;
	const char *reason = node.reason;
	if (!complete && !reason)
		node.reason = "lost"; /* so that keep_outputs gives no reason of its own */
	keep_outputs(&node);
	if (reason || (complete && node.reason))
		add_refusal(im, &node);
}

static void translate_nodes(struct frame *scope, Onnx__NodeProto *const *nodes, size_t n)
{
	for (size_t i = 0; i < n && !scope->importer->outcome; i++)
		translate_node(scope, nodes[i]);
}

void scope_open(struct frame *scope, const struct node *node, const Onnx__GraphProto *graph)
{
	struct importer *im = node->importer;
	*scope = (struct frame){.importer = im,
	                        .outer = node->scope,
	                        .call = node->scope->call,
	                        .opset_count = node->scope->opset_count,
	                        .opsets = node->scope->opsets};
	(void)graph;
}

/*
 * True if NAME is one that an exporter gives to a number of the program, such as val_7 or Const_3:0. A model does not say
 * which of its initializers are trained.
 */
static bool names_number(const char *name)
{
	static const char counted[] = "val_";
	const size_t length = sizeof counted - 1;
	if (strstr(name, "Const") || strstr(name, "const"))
		return true;
	return !strncmp(name, counted, length) && name[length] && !name[length + strspn(name + length, "0123456789")];
}

/*
 * Sets the initializers of GRAPH. Floating ones are weights. One element that an exporter has numbered is a constant, and
 * so are integers: constants are folded.
 */
static enum status set_initializers(struct frame *scope, const Onnx__GraphProto *graph)
{
	struct importer *im = scope->importer;
	for (size_t i = 0; i < graph->n_initializer; i++) {
		const Onnx__TensorProto *proto = graph->initializer[i];
		const struct tensor *tensor;
		struct value *v = arena_alloc(im->context->arena, sizeof *v);
		TRY_ALLOC(v, im->context->diags);
		if (!proto->name || !*proto->name)
			return diag_file(im->context->diags, STATUS_DATA, im->request->path, -1, "an initializer has no name");
		TRY(tensor_read(im, proto, proto->name, &tensor));
		const bool number =
			tensor->type.shape.ndim < 2 && shape_count(&tensor->type.shape) == 1 && names_number(proto->name);
		*v = (struct value){.name = proto->name,
		                    .type = tensor->type,
		                    .computed = tensor->type.dtype,
		                    .constant = tensor,
		                    .weight = !dtype_is_integer(tensor->type.dtype) && !number};
		TRY_ALLOC(scope_set(scope, proto->name, v), im->context->diags);
	}
	if (graph->n_sparse_initializer)
		return diag_file(im->context->diags, STATUS_CHAIN, im->request->path, -1,
		                 "the graph has sparse initializers, which chains do not have");
	return STATUS_OK;
}

/* True if GRAPH has a floating initializer of more than one element. */
static bool has_weights(const Onnx__GraphProto *graph)
{
	for (size_t i = 0; i < graph->n_initializer; i++) {
		const Onnx__TensorProto *proto = graph->initializer[i];
		enum dtype dtype;
		bool single = true;
		for (size_t k = 0; k < proto->n_dims; k++)
			single &= proto->dims[k] == 1;
		if (!single && model_dtype(proto->data_type, &dtype) && !dtype_is_integer(dtype))
			return true;
	}
	return false;
}

enum status graph_translate(struct frame *scope, const Onnx__GraphProto *graph, struct value **outputs)
{
	struct importer *im = scope->importer;
	if (im->graphs >= GRAPHS_MOST)
		return too_deep(im);
	if (im->graphs++ == 0)
		im->weights_in_nodes = !has_weights(graph);
	if (!im->outcome)
		im->outcome = set_initializers(scope, graph);
	bool good = count_reads(scope, graph->node, graph->n_node, 1, 0) && enter_makers(scope, graph->node, graph->n_node);
	for (size_t i = 0; i < graph->n_output && good; i++)
		good = !graph->output[i]->name || count_name(scope, graph->output[i]->name, 1);
	good = good && enter_forms(scope, graph->node, graph->n_node);
	if (!good && !im->outcome)
		im->outcome = im->context->arena->failed ? diag_memory(im->context->diags) : too_deep(im);
	if (!im->outcome)
		translate_nodes(scope, graph->node, graph->n_node);
	for (size_t i = 0; i < graph->n_output && !im->outcome; i++) {
		const char *name = graph->output[i]->name ? graph->output[i]->name : "";
		struct value *v = scope_find(scope, name);
		if (!v)
			im->outcome = diag_file(im->context->diags, STATUS_DATA, im->request->path, -1,
			                        "output '%s' of the graph is made by no node", name);
		else
			outputs[i] = is_lost(v) ? NULL : v;
	}
	im->graphs--;
	return im->outcome;
}
