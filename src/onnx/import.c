/*
 * The chain of a model: its inputs, then params and consts, then statements, and the outputs at the end.
 *
 * Extents that the model leaves open become `*` where they are the first of an input. While the model is read they are
 * primes that no extent of a model has, so that arithmetic on shapes goes on with numbers (names.c).
 * Tests: tests/scripts/check-import
 */
#include "onnx/import.h"

#include <inttypes.h>

#include "language/syntax.h"
#include "onnx/translate.h"

enum { TEXT_MOST = 16 << 20 };

/* Primes: products with the extents of an array of TYPE_MOST_BYTES stay below 2^63. */
static const int64_t primes[SYMBOLS_MOST] = {1000003, 1000033, 1000037, 1000039, 1000081, 1000099, 1000117, 1000121};

static const struct import_input *find_given(const struct importer *im, const char *name, const char *chain_name)
{
	for (size_t i = 0; i < im->request->input_count; i++) {
		const struct import_input *given = &im->request->inputs[i];
		if (!given->name || !strcmp(given->name, name) || !strcmp(given->name, chain_name))
			return given;
	}
	return NULL;
}

/* Returns the symbol NAME, or a new one if NAME is "". */
static struct symbol *find_symbol(struct importer *im, const char *name)
{
	for (size_t i = 0; i < im->symbol_count; i++)
		if (*name && !strcmp(im->symbols[i].name, name))
			return &im->symbols[i];
	if (im->symbol_count == SYMBOLS_MOST)
		return NULL;
	struct symbol *symbol = &im->symbols[im->symbol_count];
	*symbol = (struct symbol){.name = name, .prime = primes[im->symbol_count++]};
	return symbol;
}

static const Onnx__TypeProto__Tensor *declared_tensor(const Onnx__ValueInfoProto *info)
{
	return info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? info->type->tensor_type : NULL;
}

/* Returns the name of the open extent DIM; "" if it has none: some exporters call all of them "?". */
static const char *symbol_name(const Onnx__TensorShapeProto__Dimension *dim)
{
	const bool named = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param;
	return named && strcmp(dim->dim_param, "?") ? dim->dim_param : "";
}

static bool is_fixed(const Onnx__TensorShapeProto__Dimension *dim)
{
	return dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
}

static bool is_initializer(const Onnx__GraphProto *graph, const char *name)
{
	for (size_t i = 0; i < graph->n_initializer; i++)
		if (graph->initializer[i]->name && !strcmp(graph->initializer[i]->name, name))
			return true;
	return false;
}

static const char *input_name(const Onnx__ValueInfoProto *info) { return info->name ? info->name : ""; }

/* Gives symbols the extents that --shape says of INFO, whose name in the chain is CHAIN_NAME. */
static enum status bind_symbols(struct importer *im, const Onnx__ValueInfoProto *info, const char *chain_name)
{
	const struct import_input *given = find_given(im, input_name(info), chain_name);
	const Onnx__TypeProto__Tensor *tensor = declared_tensor(info);
	if (!given || !tensor || !tensor->shape)
		return STATUS_OK;
	if ((size_t)given->type.shape.ndim != tensor->shape->n_dim)
		return diag_file(im->context->diags, STATUS_USAGE, im->request->path, -1,
		                 "--shape gives input '%s' %d axes, but it has %zu", input_name(info), given->type.shape.ndim,
		                 tensor->shape->n_dim);
	for (size_t i = 0; i < tensor->shape->n_dim; i++) {
		const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
		const int64_t extent = given->type.shape.dim[i];
		if (is_fixed(dim) && extent >= 0 && extent != dim->dim_value)
			return diag_file(im->context->diags, STATUS_USAGE, im->request->path, -1,
			                 "--shape gives axis %zu of input '%s' the extent %" PRId64 ", but it has %" PRId64, i,
			                 input_name(info), extent, dim->dim_value);
		if (is_fixed(dim) || extent < 0 || !*symbol_name(dim))
			continue;
		struct symbol *symbol = find_symbol(im, symbol_name(dim));
		if (symbol && symbol->extent && symbol->extent != extent)
			return diag_file(im->context->diags, STATUS_USAGE, im->request->path, -1,
			                 "--shape gives '%s' two extents, %" PRId64 " and %" PRId64, symbol->name, symbol->extent,
			                 extent);
		if (symbol)
			symbol->extent = extent;
	}
	return STATUS_OK;
}

/* Returns the type of INFO, as a user would give it: without what is open. */
static const char *shape_example(struct importer *im, const Onnx__TypeProto__Tensor *tensor, enum dtype dtype)
{
	struct arena *arena = im->context->arena;
	const char *text = arena_printf(arena, "%s[", dtype_name(dtype));
	for (size_t i = 0; text && tensor->shape && i < tensor->shape->n_dim; i++) {
		const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
		const char *comma = i ? "," : "";
		text = is_fixed(dim) ? arena_printf(arena, "%s%s%" PRId64, text, comma, dim->dim_value)
		                     : arena_printf(arena, "%s%s%s", text, comma, i ? "128" : "*");
	}
	return text ? arena_printf(arena, "%s]", text) : "";
}

static enum status set_input_type(struct importer *im, const Onnx__ValueInfoProto *info, const char *chain_name,
                                  struct type *type)
{
	struct diags *diags = im->context->diags;
	const Onnx__TypeProto__Tensor *tensor = declared_tensor(info);
	const struct import_input *given = find_given(im, input_name(info), chain_name);
	const char *path = im->request->path;
	if (!tensor)
		return diag_file(diags, STATUS_CHAIN, path, -1, "input '%s' is no tensor", input_name(info));
	if (!model_dtype(tensor->elem_type, &type->dtype))
		return diag_file(diags, STATUS_CHAIN, path, -1, "input '%s' has elements of type %s, which chains do not have",
		                 input_name(info), model_dtype_name(tensor->elem_type));
	if (!tensor->shape && !given) {
		diag_file(diags, STATUS_CHAIN, path, -1, "the model does not say what shape its input '%s' has",
		          input_name(info));
		return diag_hint(diags, "give it: --shape '%s=%s[*,128]'", chain_name, dtype_name(type->dtype));
	}
	type->shape = given ? given->type.shape : (struct shape){(int)(tensor->shape ? tensor->shape->n_dim : 0), {0}};
	if (tensor->shape && tensor->shape->n_dim > MAX_DIMS)
		return diag_file(diags, STATUS_LIMIT, path, -1, "input '%s' has more than %d axes", input_name(info), MAX_DIMS);
	for (int i = 0; i < type->shape.ndim; i++) {
		const Onnx__TensorShapeProto__Dimension *dim = tensor->shape ? tensor->shape->dim[i] : NULL;
		const bool any = given && given->type.shape.dim[i] < 0;
		if (given && !any)
			continue;
		if (dim && is_fixed(dim) && !any) {
			type->shape.dim[i] = dim->dim_value;
			continue;
		}
		struct symbol *symbol = find_symbol(im, dim ? symbol_name(dim) : "");
		if (!symbol)
			return diag_file(diags, STATUS_LIMIT, path, -1, "the inputs leave more than %d extents open", SYMBOLS_MOST);
		if (!symbol->extent && i > 0) {
			diag_file(diags, STATUS_CHAIN, path, -1,
			          "input '%s' leaves the extent of axis %d open%s%s%s; a chain can leave the first one open",
			          input_name(info), i, *symbol->name ? " ('" : "", symbol->name, *symbol->name ? "')" : "");
			return diag_hint(diags, "give it: --shape '%s=%s'", chain_name, shape_example(im, tensor, type->dtype));
		}
		type->shape.dim[i] = symbol->extent ? symbol->extent : symbol->prime;
	}
	bool good = true;
	for (int i = 0; i < type->shape.ndim; i++)
		good &= type->shape.dim[i] >= 0;
	if (!good || !type_addressable(type))
		return diag_file(diags, good ? STATUS_LIMIT : STATUS_DATA, path, -1,
		                 good ? "input '%s' is too large to address" : "input '%s' has an extent below 0",
		                 input_name(info));
	return STATUS_OK;
}

static const struct import_constant *find_constant(const struct importer *im, const char *name, const char *chain_name)
{
	for (size_t i = 0; i < im->request->constant_count; i++) {
		const struct import_constant *c = &im->request->constants[i];
		if (!strcmp(c->name, name) || !strcmp(c->name, chain_name))
			return c;
	}
	return NULL;
}

/* Sets V, an input whose values the user gives. */
static enum status set_constant(struct importer *im, const struct import_constant *given, struct value *v)
{
	const struct type *type = &given->values.type;
	const size_t count = (size_t)shape_count(&type->shape);
	double *numbers = arena_array(im->context->arena, count + 1, sizeof *numbers);
	TRY_ALLOC(numbers, im->context->diags);
	if (count > NUMBERS_MOST)
		return diag_file(im->context->diags, STATUS_LIMIT, im->request->path, -1,
		                 "--param gives '%s' more than %d elements", given->name, NUMBERS_MOST);
	convert_from_file(numbers, DTYPE_F64, given->values.data, dtype_compute(type->dtype), count);
	v->constant = tensor_make(im, v->type.dtype, &type->shape, numbers, false);
	TRY_ALLOC(v->constant, im->context->diags);
	v->type.shape = type->shape;
	return STATUS_OK;
}

static enum status declare_input(struct frame *scope, const Onnx__ValueInfoProto *info, const char *chain_name)
{
	struct importer *im = scope->importer;
	struct arena *arena = im->context->arena;
	struct value *v = arena_alloc(arena, sizeof *v);
	const struct import_constant *given = find_constant(im, input_name(info), chain_name);
	TRY_ALLOC(v, im->context->diags);
	v->name = input_name(info);
	if (given && declared_tensor(info) && model_dtype(declared_tensor(info)->elem_type, &v->type.dtype)) {
		TRY(set_constant(im, given, v));
		v->computed = v->type.dtype;
		TRY_ALLOC(scope_set(scope, v->name, v), im->context->diags);
		return STATUS_OK;
	}
	TRY(set_input_type(im, info, chain_name, &v->type));
	v->computed = dtype_declared(v->type.dtype);
	v->text = chain_name;
	v->level = LEVEL_ATOM;
	v->is_name = true;
	struct declaration *slot = arena_append(arena, &im->inputs, &im->input_count, &im->input_capacity, sizeof *slot);
	const char *type = type_text(im, &v->type);
	TRY_ALLOC(slot && type && scope_set(scope, v->name, v), im->context->diags);
	const bool renamed = strcmp(v->name, chain_name) && !strchr(v->name, '\n');
	*slot = (struct declaration){.name = chain_name, .comment = renamed ? v->name : NULL};
	slot->text = arena_printf(arena, "input %s: %s", chain_name, type);
	TRY_ALLOC(slot->text && dictionary_put(&im->names, arena, chain_name, v), im->context->diags);
	return STATUS_OK;
}

/* Reads the inputs of the graph, and takes the names of the outputs and of the initializers. */
static enum status set_inputs(struct frame *scope, const Onnx__GraphProto *graph, const char **output_names)
{
	struct importer *im = scope->importer;
	struct diags *diags = im->context->diags;
	struct dictionary taken = {0};
	const char **names = arena_array(im->context->arena, graph->n_input + 1, sizeof *names);
	TRY_ALLOC(names, diags);
	if (graph->n_output > 1) /* an archive of a run has the last value by this name */
		TRY_ALLOC(name_take(im, "out"), diags);
	bool any = false;
	for (size_t i = 0; i < graph->n_input; i++)
		if (!is_initializer(graph, input_name(graph->input[i]))) {
			TRY_ALLOC(names[i] = name_take(im, input_name(graph->input[i])), diags);
			any = true;
		}
	if (!any) /* the name of the input of a chain that declares none */
		TRY_ALLOC(name_take(im, "x"), diags);
	for (size_t i = 0; i < graph->n_output; i++) {
		const char *name = graph->output[i]->name ? graph->output[i]->name : "";
		output_names[i] = name;
		if (dictionary_find(&taken, name))
			return diag_file(diags, STATUS_DATA, im->request->path, -1, "two outputs of the graph are named '%s'",
			                 name);
		TRY_ALLOC(dictionary_put(&taken, im->context->arena, name, graph->output[i]), diags);
	}
	for (size_t i = 0; i < graph->n_input; i++)
		if (names[i])
			TRY(bind_symbols(im, graph->input[i], names[i]));
	for (size_t i = 0; i < graph->n_input; i++)
		if (names[i])
			TRY(declare_input(scope, graph->input[i], names[i]));
	for (size_t i = 0; i < im->request->input_count; i++) {
		const char *wanted = im->request->inputs[i].name;
		bool found = !wanted;
		for (size_t k = 0; k < graph->n_input && !found; k++)
			found = names[k] && (!strcmp(wanted, names[k]) || !strcmp(wanted, input_name(graph->input[k])));
		if (!found)
			return diag_file(diags, STATUS_USAGE, im->request->path, -1, "--shape: the model has no input '%s'",
			                 wanted);
	}
	for (size_t i = 0; i < im->request->constant_count; i++) {
		const char *wanted = im->request->constants[i].name;
		bool found = false;
		for (size_t k = 0; k < graph->n_input && !found; k++)
			found = names[k] && (!strcmp(wanted, names[k]) || !strcmp(wanted, input_name(graph->input[k])));
		if (!found)
			return diag_file(diags, STATUS_USAGE, im->request->path, -1, "--param: the model has no input '%s'",
			                 wanted);
	}
	return STATUS_OK;
}

/* Reports all refusals in one error. */
static enum status report_refusals(struct importer *im, size_t nodes)
{
	const char **items = arena_array(im->context->arena, im->refusal_count, sizeof *items);
	TRY_ALLOC(items, im->context->diags);
	for (size_t i = 0; i < im->refusal_count; i++) {
		const struct refusal *r = &im->refusals[i];
		items[i] = arena_printf(im->context->arena, "'%s' (%s): %s", r->node, r->operator, r->reason);
		TRY_ALLOC(items[i], im->context->diags);
	}
	diag_file(im->context->diags, STATUS_CHAIN, im->request->path, -1,
	          "%zu of %zu nodes cannot be said in a chain:", im->refusal_count, nodes);
	diag_items(im->context->diags, items, im->refusal_count);
	return STATUS_CHAIN;
}

/*
 * Returns V, an output, with its type in the model. An integer or bool is a floating number in the chain unless it is the
 * index that an operation gives, and integers that are computed with widen a half.
 */
static struct value *with_own_type(struct node *n, struct value *v)
{
	const enum dtype dtype = v ? v->type.dtype : DTYPE_COUNT;
	if (dtype == DTYPE_COUNT || dtype == DTYPE_F32 || dtype == DTYPE_F64)
		return v;
	v = v->constant ? declare(n, v) : v;
	if (!v || (v->computed == dtype && !strncmp(v->text, "arg", 3) && v->level == LEVEL_ATOM))
		return v;
	if (v->constant) { /* a conversion of known elements would be computed here */
		v = formula(n, &v->type, v->computed, v->text, v->level);
		if (!v)
			return NULL;
		v->is_name = true;
	}
	struct value *made = apply(n, "cast", v, "%s", dtype_name(dtype));
	if (made)
		made->computed = made->type.dtype = dtype;
	return made;
}

/* Returns the name of output V, made of PLAIN: MODEL_NAME, or what that became. */
static const char *output_name(struct node *n, const struct value *v, const struct value *plain, const char *model_name)
{
	if (v != plain && plain->is_name && name_is_of(plain->text, model_name))
		return plain->text;
	return name_is_of(v->text, model_name) ? v->text : name_take(n->importer, model_name);
}

/* States the outputs of the graph. The first is the value of the chain. */
static enum status state_outputs(struct frame *scope, const Onnx__GraphProto *graph, struct value **outputs,
                                 const char *const *model_names)
{
	struct importer *im = scope->importer;
	Onnx__NodeProto proto = ONNX__NODE_PROTO__INIT;
	struct node node = {.importer = im, .scope = scope, .proto = &proto};
	const char *list = "";
	for (size_t i = 0; i < graph->n_output && list; i++) {
		const struct value *plain = outputs[i];
		struct value *v = outputs[i] = with_own_type(&node, outputs[i]);
		if (graph->n_output == 1)
			break;
		v = bind(&node, v, model_names[i]);
		const char *name = v ? output_name(&node, v, plain, model_names[i]) : NULL;
		if (!name)
			break;
		list = !strcmp(name, v->text)
		           ? arena_printf(im->context->arena, "%s%s%s", list, i ? ", " : "", name)
		           : arena_printf(im->context->arena, "%s%s%s as %s", list, i ? ", " : "", v->text, name);
	}
	if (graph->n_output == 1 && outputs[0] && outputs[0]->constant)
		declare(&node, outputs[0]);
	if (!im->outcome && node.reason)
		return diag_file(im->context->diags, STATUS_CHAIN, im->request->path, -1,
		                 "an output cannot be said in a chain: %s", node.reason);
	TRY(im->outcome);
	TRY_ALLOC(list, im->context->diags);
	if (*list)
		state(&node, "output %s", list);
	state(&node, outputs[0]->is_name ? "use %s" : "use (%s)", outputs[0]->text);
	return im->outcome;
}

/* Grows by whole lines. */
struct page {
	char *text;
	size_t length, capacity;
	struct arena *arena;
	bool failed;
};

/* Writes the comment that NAME becomes: one line. */
static const char *comment(struct arena *arena, const char *name)
{
	char *copy = arena_strndup(arena, name, strlen(name));
	for (char *c = copy; c && *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	return copy ? copy : "";
}

/* Appends TEXT to the page CONTEXT. */
static void page_bytes(void *context, const char *text, size_t length)
{
	struct page *page = context;
	if (page->length + length > page->capacity) {
		const size_t capacity = 2 * (page->length + length) + 4096;
		char *more = arena_alloc(page->arena, capacity);
		page->failed |= !more;
		if (!more)
			return;
		if (page->length)
			memcpy(more, page->text, page->length);
		page->text = more;
		page->capacity = capacity;
	}
	memcpy(page->text + page->length, text, length);
	page->length += length;
}

static void page_line(struct page *page, int depth, const char *text, const char *ending)
{
	for (int i = 0; i < depth; i++)
		page_bytes(page, "    ", 4);
	page_bytes(page, text, strlen(text));
	page_bytes(page, ending, strlen(ending));
	page_bytes(page, "\n", 1);
}

/* Returns the end of a line: the comment that has NAME, unless that is NULL. */
static const char *name_comment(struct arena *arena, const char *name)
{
	const char *text = name ? arena_printf(arena, "  # %s", name) : "";
	return text ? comment(arena, text) : "";
}

static void page_declaration(struct page *page, const struct declaration *declared)
{
	if (!declared->replaced)
		page_line(page, 0, declared->text, name_comment(page->arena, declared->comment));
}

static enum status write_chain(struct importer *im, struct imported *imported)
{
	struct arena *arena = im->context->arena;
	struct page page = {.arena = arena};
	*imported = (struct imported){.weight_count = 0};
	const char *path = im->request->path, *slash = strrchr(path, '/');
	const char *graph = im->model->graph->name && *im->model->graph->name ? im->model->graph->name : "a graph";
	const char *head = arena_printf(arena, "# %s, imported from %s", graph, slash ? slash + 1 : path), *part = "";
	TRY_ALLOC(head, im->context->diags);
	page_line(&page, 0, comment(arena, head), "");
	for (size_t i = 0; i < im->input_count; i++)
		page_declaration(&page, &im->inputs[i]);
	for (size_t i = 0; i < im->declared_count; i++)
		page_declaration(&page, &im->declared[i]);
	page_line(&page, 0, "", "");
	for (size_t i = 0; i < im->statement_count; i++) {
		const struct sentence *s = &im->statements[i];
		if (strcmp(part, s->part) && *s->part && s->depth == 0) {
			const char *line = arena_printf(arena, "# %s", s->part);
			TRY_ALLOC(line, im->context->diags);
			page_line(&page, 0, comment(arena, line), "");
			part = s->part;
		}
		page_line(&page, s->depth, s->text, name_comment(arena, s->comment));
	}
	TRY_ALLOC(!page.failed, im->context->diags);
	if (page.length > TEXT_MOST)
		return diag_file(im->context->diags, STATUS_LIMIT, im->request->path, -1, "its chain is longer than %d MiB",
		                 TEXT_MOST >> 20);
	/* The canonical form: blocks that fit on a line are on one. */
	struct source *source = arena_alloc(arena, sizeof *source);
	struct syntax syntax;
	struct page canonical = {.arena = arena};
	TRY_ALLOC(source, im->context->diags);
	*source = (struct source){"model.ck", page.text, page.length};
	TRY(syntax_parse(im->context, &syntax, source));
	syntax_format(&syntax, page_bytes, &canonical);
	TRY_ALLOC(!canonical.failed, im->context->diags);
	imported->text = canonical.text;
	imported->length = canonical.length;
	imported->weights = im->weights;
	for (size_t i = 0; i < im->weight_count; i++)
		if (im->weights[i].name) /* others are stacked */
			im->weights[imported->weight_count++] = im->weights[i];
	return STATUS_OK;
}

static enum status check_opset(struct importer *im)
{
	enum { LEAST = 7 };
	for (size_t i = 0; i < im->model->n_opset_import; i++) {
		const Onnx__OperatorSetIdProto *set = im->model->opset_import[i];
		if ((!set->domain || !*set->domain || !strcmp(set->domain, "ai.onnx")) && set->version < LEAST)
			return diag_file(im->context->diags, STATUS_CHAIN, im->request->path, -1,
			                 "the model has version %" PRId64 " of ONNX's operators; versions from %d on are read",
			                 set->version, LEAST);
	}
	return STATUS_OK;
}

enum status graph_read(struct importer *im)
{
	const Onnx__GraphProto *graph = im->model->graph;
	struct frame scope = {.importer = im, .opset_count = im->model->n_opset_import, .opsets = im->model->opset_import};
	struct value **outputs = arena_array(im->context->arena, graph->n_output + 1, sizeof *outputs);
	const char **names = arena_array(im->context->arena, graph->n_output + 1, sizeof *names);
	TRY_ALLOC(outputs && names, im->context->diags);
	TRY(check_opset(im));
	if (!graph->n_output)
		return diag_file(im->context->diags, STATUS_DATA, im->request->path, -1, "the graph has no outputs");
	TRY(set_inputs(&scope, graph, names));
	TRY(graph_translate(&scope, graph, outputs));
	if (im->refusal_count)
		return report_refusals(im, graph->n_node);
	return state_outputs(&scope, graph, outputs, names);
}

enum status import_model(const struct context *context, const struct import_request *request, struct input *input,
                         struct imported *imported)
{
	Onnx__ModelProto *model;
	struct importer *im = arena_alloc(context->arena, sizeof *im);
	TRY_ALLOC(im, context->diags);
	TRY(model_read(context, input, &model));
	*im = (struct importer){.context = context, .request = request, .model = model};
	TRY(graph_read(im));
	TRY(blocks_roll(im));
	return write_chain(im, imported);
}
