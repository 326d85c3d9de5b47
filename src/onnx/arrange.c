/*
 * Values with elements in other places: shapes, parts, joined arrays, and those that repeat elements.
 *
 * An extent that the model leaves open is a prime while it is read (names.c). In a shape it is written as -1, and a bound
 * of a part is counted from the end.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <inttypes.h>

static struct arena *text_arena(const struct node *node) { return node->importer->context->arena; }

struct value *reshape(struct node *node, struct value *v, const struct shape *shape)
{
	const char *words = "";
	int open = 0;
	if (!v || shape_equal(&v->type.shape, shape))
		return v;
	for (int i = 0; i < shape->ndim && words; i++) {
		const bool is_open = symbol_in(node->importer, (double)shape->dim[i]);
		open += is_open;
		words = arena_printf(text_arena(node), "%s %" PRId64, words, is_open ? -1 : shape->dim[i]);
	}
	if (!words)
		return short_of_memory(node);
	if (open > 1)
		return refuse(node, "its shape has two extents that the model leaves open; --shape gives them");
	if (v->constant && !v->weight && v->constant->splat)
		return filled(node, v->type.dtype, shape, v->constant->numbers[0]);
	if (shape_count(shape) != shape_count(&v->type.shape))
		return refuse(node, "an array of shape %s cannot have the shape %s", type_text(node->importer, &v->type),
		              type_text(node->importer, &(struct type){v->type.dtype, *shape}));
	if (shape->ndim == 0) { /* the language has no empty list of extents */
		struct value *flat = v->type.shape.ndim == 1 ? v : apply(node, "reshape", v, "1");
		return pick(node, flat, 0, 0);
	}
	return apply(node, "reshape", v, "%s", words);
}

struct value *transpose(struct node *node, struct value *v, const int axes[])
{
	int64_t order[MAX_DIMS];
	bool same = true, reversed = true;
	if (!v)
		return NULL;
	const int ndim = v->type.shape.ndim;
	struct shape shape = {ndim, {0}};
	for (int i = 0; i < ndim; i++) {
		same &= axes[i] == i;
		reversed &= axes[i] == ndim - 1 - i;
		order[i] = axes[i];
		shape.dim[i] = v->type.shape.dim[axes[i]];
	}
	if (same)
		return v;
	if (v->constant && !v->weight && v->constant->splat)
		return filled(node, v->type.dtype, &shape, v->constant->numbers[0]);
	if (reversed)
		return apply(node, "transpose", v, " ");
	const char *list = list_text(node, order, (size_t)ndim);
	return list ? apply(node, "transpose", v, "axes=%s", list) : NULL;
}

struct value *exchange(struct node *node, struct value *v, int a, int b)
{
	int axes[MAX_DIMS];
	for (int i = 0; i < MAX_DIMS; i++)
		axes[i] = i == a ? b : i == b ? a : i;
	return transpose(node, v, axes);
}

/* Returns the text of the bound AT of an axis of EXTENT: from the end if it depends on an open extent. */
static const char *bound_text(struct node *node, int64_t at, int64_t extent)
{
	if (!symbol_in(node->importer, (double)at))
		return arena_printf(text_arena(node), "%" PRId64, at);
	if (symbol_in(node->importer, (double)(at - extent)))
		return refuse(node, "a part depends on an extent that the model leaves open; --shape gives it");
	return arena_printf(text_arena(node), "%" PRId64, at - extent);
}

/* Returns the index of PART of an axis of EXTENT. */
static const char *part_text(struct node *node, const struct part *part, int64_t extent)
{
	const int64_t stop = part->first + part->count * part->step;
	const bool from_start = part->step > 0 ? part->first == 0 : part->first == extent - 1;
	const bool to_end = part->step > 0 ? stop >= extent : stop < 0;
	const char *first = from_start ? "" : bound_text(node, part->first, extent);
	const char *last = to_end ? "" : bound_text(node, stop, extent);
	if (!first || !last)
		return NULL;
	return part->step == 1 ? arena_printf(text_arena(node), "%s:%s", first, last)
	                       : arena_printf(text_arena(node), "%s:%s:%" PRId64, first, last, part->step);
}

/* Returns V[INDEX], of SHAPE. */
static struct value *indexed(struct node *node, struct value *v, const char *index, const struct shape *shape)
{
	struct type type = {v->type.dtype, *shape};
	if (!index)
		return node->reason ? NULL : short_of_memory(node);
	if (fold_can(v)) {
		const char *text = arena_printf(text_arena(node), "a[%s]", index);
		return text ? fold_formula(node, text, &v, 1, &type) : short_of_memory(node);
	}
	if (!declare(node, v) || (v->size > 4 && !once(node, v)))
		return NULL;
	const char *text = arena_printf(text_arena(node), v->level < LEVEL_ATOM ? "(%s)[%s]" : "%s[%s]", v->text, index);
	struct value *made = formula(node, &type, v->computed, text, LEVEL_ATOM);
	if (made) {
		made->size += v->size;
		made->multiplies = v->multiplies;
	}
	return made;
}

struct value *part_of(struct node *node, struct value *v, const struct part parts[])
{
	if (!v)
		return NULL;
	struct shape shape = v->type.shape;
	const char *index = "";
	int last = -1;
	for (int i = 0; i < shape.ndim; i++)
		if (parts[i].first != 0 || parts[i].count != shape.dim[i] || parts[i].step != 1)
			last = i;
	for (int i = 0; i <= last && index; i++) {
		const char *part = part_text(node, &parts[i], v->type.shape.dim[i]);
		index = part ? arena_printf(text_arena(node), "%s%s%s", index, i ? ", " : "", part) : NULL;
		shape.dim[i] = parts[i].count;
	}
	if (last < 0)
		return v;
	if (v->constant && !v->weight && v->constant->splat && index)
		return filled(node, v->type.dtype, &shape, v->constant->numbers[0]);
	return indexed(node, v, index, &shape);
}

struct value *range_of(struct node *node, struct value *v, int axis, int64_t first, int64_t count)
{
	struct part parts[MAX_DIMS];
	if (!v)
		return NULL;
	for (int i = 0; i < v->type.shape.ndim; i++)
		parts[i] = i == axis ? (struct part){first, count, 1} : (struct part){0, v->type.shape.dim[i], 1};
	return part_of(node, v, parts);
}

struct value *pick(struct node *node, struct value *v, int axis, int64_t index)
{
	if (!v)
		return NULL;
	struct shape shape = {v->type.shape.ndim - 1, {0}};
	const int64_t extent = v->type.shape.dim[axis];
	if (index < -extent || index >= extent)
		return refuse(node, "index %" PRId64 " is not in an axis of extent %" PRId64, index, extent);
	const char *text = bound_text(node, index, extent);
	for (int i = 0; i < axis && text; i++)
		text = arena_printf(text_arena(node), ":, %s", text);
	for (int i = 0; i < shape.ndim; i++)
		shape.dim[i] = v->type.shape.dim[i + (i >= axis)];
	return indexed(node, v, text, &shape);
}

struct value *join(struct node *node, struct value *const *values, size_t count, int axis)
{
	struct value *v = count ? values[0] : refuse(node, "it joins nothing");
	for (size_t i = 1; i < count; i++)
		v = apply_to(node, "concat", v, values[i], axis ? "axis=%d" : " ", axis);
	return v;
}

struct value *new_axis(struct node *node, struct value *v, int axis)
{
	if (!v)
		return NULL;
	struct shape shape = {v->type.shape.ndim + 1, {0}};
	for (int i = 0; i < shape.ndim; i++)
		shape.dim[i] = i == axis ? 1 : v->type.shape.dim[i - (i > axis)];
	if (shape.ndim > MAX_DIMS)
		return refuse(node, "its result has more than %d axes", MAX_DIMS);
	if (v->constant && !v->weight)
		return reshape(node, v, &shape);
	return apply(node, "expand_dims", v, "%d", axis);
}

struct value *drop_axis(struct node *node, struct value *v, int axis)
{
	if (!v)
		return NULL;
	struct shape shape = {v->type.shape.ndim - 1, {0}};
	for (int i = 0; i < shape.ndim; i++)
		shape.dim[i] = v->type.shape.dim[i + (i >= axis)];
	if (v->type.shape.dim[axis] != 1)
		return refuse(node, "axis %d has not extent 1", axis);
	if (v->constant && !v->weight)
		return reshape(node, v, &shape);
	return apply(node, "squeeze", v, "axis=%d", axis);
}

struct value *expand(struct node *node, struct value *v, const struct shape *shape)
{
	struct shape wide;
	if (!v)
		return NULL;
	if (!shape_broadcast(&v->type.shape, shape, &wide))
		return refuse(node, "an array of type %s cannot have the shape %s", type_text(node->importer, &v->type),
		              type_text(node->importer, &(struct type){v->type.dtype, *shape}));
	if (shape_equal(&wide, &v->type.shape))
		return v;
	if (is_foldable(v) && (v->constant->splat || shape_count(&v->type.shape) == 1))
		return filled(node, v->type.dtype, &wide, v->constant->numbers[0]);
	const char *words = " ";
	for (int i = 0; i < wide.ndim && words; i++)
		words = symbol_in(node->importer, (double)wide.dim[i])
		            ? NULL
		            : arena_printf(text_arena(node), "%s %" PRId64, words, wide.dim[i]);
	if (words && wide.ndim)
		return apply(node, "broadcast_to", v, "%s", words);
	/* Ones of the extents that V does not have: a product by 1 changes no bits. */
	struct shape missing = wide;
	for (int i = 0, k = v->type.shape.ndim - wide.ndim; i < wide.ndim; i++, k++)
		if (k >= 0 && v->type.shape.dim[k] == wide.dim[i])
			missing.dim[i] = 1;
	return binary(node, "mul", v, filled(node, v->type.dtype, &missing, 1));
}

struct value *padded(struct node *node, struct value *v, int axis, int64_t before, int64_t after, double with)
{
	if (!v || (!before && !after))
		return v;
	struct part parts[MAX_DIMS];
	for (int i = 0; i < v->type.shape.ndim; i++)
		parts[i] = (struct part){0, v->type.shape.dim[i], 1};
	/* A pad below 0 cuts. */
	const int64_t first = before < 0 ? -before : 0, last = after < 0 ? -after : 0;
	parts[axis].first = first;
	parts[axis].count -= first + last;
	if (parts[axis].count < 0)
		return refuse(node, "its pads cut more than there is");
	v = part_of(node, v, parts);
	before = before < 0 ? 0 : before;
	after = after < 0 ? 0 : after;
	if (!before && !after)
		return v;
	const char *value = with != 0 ? number_text(node, with, DTYPE_F64) : "";
	const char *along = axis ? arena_printf(text_arena(node), " axis=%d", axis) : "";
	if (!value || !along)
		return NULL;
	return apply(node, "pad", v, "%" PRId64 " %" PRId64 "%s%s%s", before, after, along, *value ? " value=" : "", value);
}

struct value *taken(struct node *node, struct value *indices, struct value *table, int axis)
{
	return apply_to(node, "take", indices, table, axis ? "axis=%d" : " ", axis);
}

struct value *reduced(struct node *node, const char *operation, struct value *v, const struct integers *axes,
                      bool keeps)
{
	const char *keep = keeps ? "keepdims=true" : "";
	if (!axes)
		return apply(node, operation, v, "%s", keep);
	if (!axes->count)
		return v;
	const char *list = axes->count > 1 ? list_text(node, axes->at, axes->count)
	                                   : arena_printf(text_arena(node), "%" PRId64, axes->at[0]);
	return list ? apply(node, operation, v, "axis=%s%s%s", list, keeps ? " " : "", keep) : NULL;
}
