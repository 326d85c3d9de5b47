/*
 * What a node of the model has: attributes, inputs and outputs, and the reason why the chain cannot say it.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>
#include <stdarg.h>

void *short_of_memory(struct node *node)
{
	struct importer *im = node->importer;
	if (!im->outcome)
		im->outcome = diag_memory(im->context->diags);
	return NULL;
}

void *refuse(struct node *node, const char *format, ...)
{
	va_list arguments;
	if (node->reason)
		return NULL;
	va_start(arguments, format);
	node->reason = arena_vprintf(node->importer->context->arena, format, arguments);
	va_end(arguments);
	return node->reason ? NULL : short_of_memory(node);
}

struct value *needed(struct node *node, size_t i)
{
	struct value *v = input(node, i);
	return v ? v : refuse(node, "input %zu is missing", i + 1);
}

void give(struct node *node, size_t i, struct value *value)
{
	if (!value || i >= node->output_count)
		return;
	/* A floating value has its type of the model in the chain too. Integers and bool are what the chain makes of them. */
	if (!dtype_is_integer(value->type.dtype) && value->computed != value->type.dtype && !value->constant)
		value = convert(node, value, value->type.dtype);
	node->outputs[i] = value;
}

bool is_wanted(const struct node *node, size_t i)
{
	if (i >= node->output_count || !*node->proto->output[i])
		return false;
	const size_t *reads = dictionary_find(&node->scope->reads, node->proto->output[i]);
	return reads && *reads;
}

const Onnx__AttributeProto *attribute(const struct node *node, const char *name)
{
	for (size_t i = 0; i < node->proto->n_attribute; i++) {
		const Onnx__AttributeProto *found = node->proto->attribute[i];
		if (!found->name || strcmp(found->name, name))
			continue;
		if (!found->ref_attr_name || !*found->ref_attr_name)
			return found;
		return node->scope->call ? attribute(node->scope->call, found->ref_attr_name) : NULL;
	}
	return NULL;
}

int64_t attribute_integer(const struct node *node, const char *name, int64_t otherwise)
{
	const Onnx__AttributeProto *found = attribute(node, name);
	return found && found->has_i ? found->i : otherwise;
}

double attribute_number(const struct node *node, const char *name, double otherwise)
{
	const Onnx__AttributeProto *found = attribute(node, name);
	return found && found->has_f ? (double)found->f : otherwise;
}

const char *attribute_text(struct node *node, const char *name, const char *otherwise)
{
	const Onnx__AttributeProto *found = attribute(node, name);
	if (!found || !found->has_s)
		return otherwise;
	const char *text =
		arena_strndup(node->importer->context->arena, found->s.data ? (const char *)found->s.data : "", found->s.len);
	return text ? text : (short_of_memory(node), "");
}

static struct integers integers_make(struct node *node, size_t count)
{
	struct integers list = {count, arena_array(node->importer->context->arena, count + 1, sizeof *list.at)};
	if (!list.at)
		short_of_memory(node);
	return list;
}

struct integers attribute_integers(struct node *node, const char *name)
{
	const Onnx__AttributeProto *found = attribute(node, name);
	if (!found)
		return (struct integers){0, NULL};
	struct integers list = integers_make(node, found->n_ints);
	for (size_t i = 0; list.at && i < found->n_ints; i++)
		list.at[i] = found->ints[i];
	return list;
}

int64_t to_integer(double number)
{
	return number >= 0x1p63 ? INT64_MAX : number <= -0x1p63 ? INT64_MIN : isnan(number) ? 0 : (int64_t)number;
}

/*
 * Returns the input of the model by which value NAME comes to be, if that input is of integers or bool; else NULL. At most LEFT
 * nodes are looked at: the paths to a value may be exponentially many.
 */
static const char *find_origin(const struct frame *scope, const char *name, int *left)
{
	const Onnx__NodeProto *maker = dictionary_find(&scope->makers, name);
	const struct value *v = dictionary_find(&scope->values, name);
	const char *origin = NULL;
	if (!v && scope->outer && !maker)
		return find_origin(scope->outer, name, left);
	if (!maker)
		return v && !v->constant && v->is_name && dtype_is_integer(v->type.dtype) && !scope->call && !scope->outer
		           ? v->text
		           : NULL;
	for (size_t i = 0; i < maker->n_input && !origin && *left > 0; i++) {
		--*left;
		origin = *maker->input[i] ? find_origin(scope, maker->input[i], left) : NULL;
	}
	return origin;
}

/* True if the elements of input I are known. Else refuses NODE, and names WHAT as unknown. */
static bool demand(struct node *node, size_t i, const char *what)
{
	const struct value *v = node->inputs[i];
	int left = 256;
	const char *origin = find_origin(node->scope, node->proto->input[i], &left);
	if (!origin && v->is_name && v->name && !v->constant && !node->scope->outer && !node->scope->call &&
	    !dictionary_find(&node->scope->makers, node->proto->input[i]))
		origin = v->text; /* an input of the model itself, of any type */
	if (is_readable(v))
		return true;
	if (v->constant)
		refuse(node, "its %s has too many elements", what);
	else if (origin)
		refuse(node, "its %s comes from an input of the model; --param %s=FILE gives it when importing", what, origin);
	else
		refuse(node, "its %s is not known before the model runs", what);
	return false;
}

struct integers input_integers(struct node *node, size_t i, const char *what)
{
	const struct value *v = input(node, i);
	if (!v || !demand(node, i, what))
		return (struct integers){0, NULL};
	struct integers list = integers_make(node, (size_t)shape_count(&v->type.shape));
	for (size_t k = 0; list.at && k < list.count; k++)
		list.at[k] = to_integer(tensor_at(v->constant, (int64_t)k));
	return list;
}

struct integers axes_of(struct node *node, const char *name, size_t i, int64_t since)
{
	return node->version < since ? attribute_integers(node, name) : input_integers(node, i, name);
}

bool input_number(struct node *node, size_t i, const char *what, double *number)
{
	const struct value *v = input(node, i);
	if (!v || !demand(node, i, what))
		return false;
	if (shape_count(&v->type.shape) != 1)
		return refuse(node, "its %s is not one number", what), false;
	*number = tensor_at(v->constant, 0);
	return true;
}

bool resolve_axis(struct node *node, int64_t axis, int ndim, int *resolved)
{
	if (axis >= -MAX_DIMS && axis <= MAX_DIMS && axis_resolve((int)axis, ndim, resolved))
		return true;
	refuse(node, "an array of %d axes has no axis %lld", ndim, (long long)axis);
	return false;
}
