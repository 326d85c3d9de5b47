/*
 * Operators that read or write elements at indices. An index of several axes becomes one of the flattened axes.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#include "base/checked.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

void translate_gather(struct node *n)
{
	struct value *v = needed(n, 0), *indices = needed(n, 1);
	int axis;
	if (!v || !indices || !resolve_axis(n, attribute_integer(n, "axis", 0), v->type.shape.ndim, &axis))
		return;
	if (is_foldable(indices) && indices->type.shape.ndim == 0)
		give(n, 0, pick(n, v, axis, to_integer(tensor_at(indices->constant, 0))));
	else
		give(n, 0, taken(n, indices, v, axis));
}

void translate_feature_extractor(struct node *n)
{
	struct value *v = needed(n, 0), *indices = needed(n, 1);
	if (v && indices)
		give(n, 0, taken(n, indices->type.shape.ndim ? indices : new_axis(n, indices, 0), v, v->type.shape.ndim - 1));
}

void translate_gather_elements(struct node *n)
{
	struct value *v = needed(n, 0), *indices = needed(n, 1);
	int axis;
	if (!v || !indices || !resolve_axis(n, attribute_integer(n, "axis", 0), v->type.shape.ndim, &axis))
		return;
	if (indices->type.shape.ndim != v->type.shape.ndim) {
		refuse(n, "its indices have another number of axes");
		return;
	}
	for (int i = 0; i < v->type.shape.ndim && v; i++)
		if (i != axis && indices->type.shape.dim[i] < v->type.shape.dim[i])
			v = range_of(n, v, i, 0, indices->type.shape.dim[i]);
	give(n, 0, apply_to(n, "take_along", v, indices, "%d", axis));
}

/* Returns INDICES, of an axis of EXTENT, counted from the start. */
static struct value *from_start(struct node *n, struct value *indices, int64_t extent)
{
	if (!indices)
		return NULL;
	bool known = is_foldable(indices), below = !known;
	const int64_t count = shape_count(&indices->type.shape);
	for (int64_t i = 0; known && i < count; i++)
		below |= tensor_at(indices->constant, i) < 0;
	if (!below)
		return indices;
	indices = once(n, indices);
	return typed(n, binary(n, "mod", indices, number_like(n, indices, (double)extent)), DTYPE_I64);
}

/* Returns the index in the flattened axes FIRST to FIRST + COUNT - 1 of V that the last axis of INDICES says. */
static struct value *flat_index(struct node *n, const struct value *v, struct value *indices, int first, int count)
{
	struct value *sum = NULL;
	const int last = indices->type.shape.ndim - 1;
	if (count > 1 && !is_foldable(indices))
		once(n, indices);
	for (int i = 0; i < count; i++) {
		int64_t stride = 1;
		for (int k = i + 1; k < count; k++)
			stride *= v->type.shape.dim[first + k];
		struct value *part =
			times(n, from_start(n, pick(n, indices, last, i), v->type.shape.dim[first + i]), (double)stride);
		sum = sum ? binary(n, "add", sum, part) : part;
		if (!sum)
			return NULL;
	}
	return sum;
}

void translate_gather_nd(struct node *n)
{
	struct value *v = needed(n, 0), *indices = needed(n, 1);
	const int64_t batch = attribute_integer(n, "batch_dims", 0);
	if (!v || !indices)
		return;
	const int ndim = indices->type.shape.ndim;
	const int64_t depth = ndim ? indices->type.shape.dim[ndim - 1] : 0;
	if (ndim < 1 || depth < 1 || batch < 0 || batch >= ndim || depth + batch > v->type.shape.ndim) {
		refuse(n, "its indices do not fit");
		return;
	}
	struct value *at = flat_index(n, v, indices, (int)batch, (int)depth);
	struct shape flat = {1, {1}}, rows = {ndim - 1, {0}};
	int64_t size = 1;
	for (int i = 0; i < v->type.shape.ndim; i++)
		if (i < batch + depth)
			flat.dim[0] *= v->type.shape.dim[i];
		else
			flat.dim[flat.ndim++] = v->type.shape.dim[i];
	for (int64_t i = batch; i < batch + depth; i++)
		size *= v->type.shape.dim[i];
	/* Row b of the batch reads the b-th part of the flattened axes. */
	int64_t batches = 1;
	for (int i = 0; i < rows.ndim; i++) {
		rows.dim[i] = i < batch ? v->type.shape.dim[i] : 1;
		batches *= rows.dim[i];
	}
	if (batch && batches <= NUMBERS_MOST) {
		double *numbers = arena_array(n->importer->context->arena, (size_t)batches + 1, sizeof *numbers);
		for (int64_t i = 0; numbers && i < batches; i++)
			numbers[i] = (double)(i * size);
		at = numbers ? binary(n, "add", at, numbers_of(n, DTYPE_I64, numbers, &rows, 0)) : short_of_memory(n);
	}
	give(n, 0, taken(n, at, reshape(n, v, &flat), 0));
}

/* Returns 0, 1, ... COUNT - 1 along AXIS of NDIM. */
static struct value *counted_along(struct node *n, int64_t count, int axis, int ndim)
{
	struct shape shape = {ndim, {0}};
	if (count > NUMBERS_MOST || symbol_in(n->importer, (double)count))
		return refuse(n, "it counts along an extent that is open, or above %d", NUMBERS_MOST);
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < count; i++)
		numbers[i] = (double)i;
	for (int i = 0; i < ndim; i++)
		shape.dim[i] = i == axis ? count : 1;
	return numbers ? numbers_of(n, DTYPE_I64, numbers, &shape, 0) : short_of_memory(n);
}

/*
 * Returns V, with each of UPDATES joined by HOW, mul, min or max, to the row that AT names. Each row of V is compared with
 * each place, so this takes as much memory as V times the number of updates.
 */
static struct value *scattered_by(struct node *n, const char *how, struct value *v, struct value *updates,
                                  struct value *at)
{
	static const struct {
		const char *how, *join, *reduce;
		double neutral;
	} ways[] = {{"mul", "mul", "prod", 1}, {"max", "max", "amax", -INFINITY}, {"min", "min", "amin", INFINITY}};
	enum { PAIRS_MOST = 1 << 26 };
	const int64_t count = v->type.shape.dim[0], times_updated = at->type.shape.dim[0];
	size_t k = 0;
	while (k < 3 && strcmp(ways[k].how, how))
		k++;
	if (k == 3)
		return refuse(n, "its reduction is '%s'", how);
	if (v->type.shape.ndim == MAX_DIMS || shape_count(&updates->type.shape) > PAIRS_MOST / greater(count, 1))
		return refuse(n, "its reduction '%s' would compare more than %d pairs of elements", how, PAIRS_MOST);
	struct shape column = {updates->type.shape.ndim + 1, {times_updated, 1}};
	for (int i = 2; i < column.ndim; i++)
		column.dim[i] = 1;
	struct value *hit = binary(n, "eq", reshape(n, at, &column), counted_along(n, count, 1, column.ndim));
	struct value *rows = new_axis(n, updates, 1);
	rows = hit && rows ? choose(n, hit, rows, number_like(n, rows, ways[k].neutral)) : NULL;
	return binary(n, ways[k].join, v, apply(n, ways[k].reduce, rows, "axis=0"));
}

/* Returns V, of COUNT rows, with UPDATES at the rows AT: in their place, or added. */
static struct value *scattered(struct node *n, struct value *v, struct value *updates, struct value *at)
{
	const char *how = attribute_text(n, "reduction", "none");
	if (!v || !updates || !at)
		return NULL;
	const int64_t count = v->type.shape.dim[0];
	if (!is_foldable(at))
		at = once(n, at);
	struct value *sums = apply_to(n, "scatter_add", updates, at, "%lld", (long long)count);
	if (!strcmp(how, "add"))
		return binary(n, "add", v, sums);
	if (strcmp(how, "none"))
		return scattered_by(n, how, v, updates, at);
	struct value *ones = at ? filled(n, DTYPE_F64, &at->type.shape, 1) : NULL;
	struct value *hits = apply_to(n, "scatter_add", ones, at, "%lld", (long long)count);
	if (hits && v->type.shape.ndim > 1) {
		struct shape column = {v->type.shape.ndim, {count}};
		for (int i = 1; i < column.ndim; i++)
			column.dim[i] = 1;
		hits = reshape(n, hits, &column);
	}
	return hits ? choose(n, binary(n, "gt", hits, number_like(n, hits, 0)), sums, v) : NULL;
}

void translate_scatter_elements(struct node *n)
{
	struct value *v = needed(n, 0), *indices = needed(n, 1), *updates = needed(n, 2);
	int axis;
	if (!v || !indices || !updates || !resolve_axis(n, attribute_integer(n, "axis", 0), v->type.shape.ndim, &axis))
		return;
	const struct shape *s = &v->type.shape, *t = &indices->type.shape;
	const int64_t count = shape_count(t);
	if (t->ndim != s->ndim || !shape_equal(t, &updates->type.shape) || count > NUMBERS_MOST ||
	    symbol_in(n->importer, (double)count)) {
		refuse(n, "its indices do not fit");
		return;
	}
	/* The places along the other axes are known. */
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	int64_t along = 1;
	for (int i = axis + 1; i < s->ndim; i++)
		along *= s->dim[i];
	for (int64_t k = 0; numbers && k < count; k++) {
		int64_t rest = k, stride = 1;
		for (int i = s->ndim - 1; i >= 0; i--) {
			numbers[k] += i == axis ? 0 : (double)(rest % t->dim[i] * stride);
			rest /= t->dim[i];
			stride *= s->dim[i];
		}
	}
	if (!numbers) {
		short_of_memory(n);
		return;
	}
	struct value *at = times(n, from_start(n, indices, s->dim[axis]), (double)along);
	at = binary(n, "add", at, numbers_of(n, DTYPE_I64, numbers, t, 0));
	const struct shape flat = {1, {count}}, all = {1, {shape_count(s)}};
	give(n, 0, reshape(n, scattered(n, reshape(n, v, &all), reshape(n, updates, &flat), reshape(n, at, &flat)), s));
}

void translate_scatter_nd(struct node *n)
{
	struct value *v = needed(n, 0), *indices = needed(n, 1), *updates = needed(n, 2);
	if (!v || !indices || !updates)
		return;
	const int ndim = indices->type.shape.ndim, depth = ndim ? (int)indices->type.shape.dim[ndim - 1] : 0;
	if (ndim < 1 || depth < 1 || depth > v->type.shape.ndim) {
		refuse(n, "its indices do not fit");
		return;
	}
	struct shape flat = {1, {1}}, rows = {1, {1}};
	for (int i = 0; i < ndim - 1; i++)
		rows.dim[0] *= indices->type.shape.dim[i];
	const struct shape vector = rows;
	for (int i = 0; i < v->type.shape.ndim; i++)
		if (i < depth)
			flat.dim[0] *= v->type.shape.dim[i];
		else
			rows.dim[rows.ndim++] = flat.dim[flat.ndim++] = v->type.shape.dim[i];
	struct value *at = reshape(n, flat_index(n, v, indices, 0, depth), &vector);
	give(n, 0, reshape(n, scattered(n, reshape(n, v, &flat), reshape(n, updates, &rows), at), &v->type.shape));
}

void translate_tensor_scatter(struct node *n)
{
	refuse(n, "it writes at places that are not known before the model runs");
}

void translate_one_hot(struct node *n)
{
	struct value *indices = needed(n, 0), *values = needed(n, 2);
	double depth;
	int axis;
	if (!indices || !values || !input_number(n, 1, "depth", &depth))
		return;
	const int ndim = indices->type.shape.ndim + 1;
	if (!resolve_axis(n, attribute_integer(n, "axis", -1), ndim, &axis))
		return;
	/* An index out of range gives no hot element, and a negative one counts from the end. */
	indices = once(n, indices);
	struct value *below =
		indices ? choose(n, binary(n, "lt", indices, number_like(n, indices, 0)), plus(n, indices, depth), indices)
				: NULL;
	struct value *hot = binary(n, "eq", new_axis(n, below, axis), counted_along(n, to_integer(depth), axis, ndim));
	give(n, 0, hot ? typed(n, choose(n, hot, pick(n, values, 0, 1), pick(n, values, 0, 0)), values->type.dtype) : NULL);
}

void translate_position(struct node *n)
{
	struct value *v = needed(n, 0);
	int axis;
	if (!v || !resolve_axis(n, attribute_integer(n, "axis", 0), v->type.shape.ndim, &axis))
		return;
	const bool keeps = attribute_integer(n, "keepdims", 1), last = attribute_integer(n, "select_last_index", 0);
	if (last)
		v = apply(n, "flip", v, "axis=%d", axis);
	const double extent = v ? (double)v->type.shape.dim[axis] : 0;
	struct value *at = apply(n, operation_of(n), v, keeps ? "axis=%d keepdims=true" : "axis=%d", axis);
	if (at)
		at->type.dtype = DTYPE_I64;
	at = typed(n, at, DTYPE_I64);
	give(n, 0, last && at ? binary(n, "sub", number_like(n, at, extent - 1), at) : at);
}

void translate_top_k(struct node *n)
{
	struct value *v = needed(n, 0);
	double k = (double)attribute_integer(n, "k", 0);
	int axis;
	if (!v || (n->version >= 10 && !input_number(n, 1, "k", &k)) ||
	    !resolve_axis(n, attribute_integer(n, "axis", -1), v->type.shape.ndim, &axis))
		return;
	const bool largest = attribute_integer(n, "largest", 1);
	if (k < 0 || k > (double)v->type.shape.dim[axis]) {
		refuse(n, "it takes %lld of %lld elements", (long long)k, (long long)v->type.shape.dim[axis]);
		return;
	}
	if (is_wanted(n, 0) && is_wanted(n, 1))
		v = once(n, v);
	if (k == 1) {
		if (is_wanted(n, 0))
			give(n, 0, apply(n, largest ? "amax" : "amin", v, "axis=%d keepdims=true", axis));
		if (is_wanted(n, 1))
			give(n, 1, typed(n, apply(n, largest ? "argmax" : "argmin", v, "axis=%d keepdims=true", axis), DTYPE_I64));
		return;
	}
	const char *order = largest ? "" : " largest=false";
	if (is_wanted(n, 0))
		give(n, 0, apply(n, "topk", v, "%lld axis=%d%s", (long long)k, axis, order));
	if (is_wanted(n, 1))
		give(n, 1, typed(n, apply(n, "argtopk", v, "%lld axis=%d%s", (long long)k, axis, order), DTYPE_I64));
}

/* Returns the vector of the places of elements of V that are not 0. */
static double *places_of(struct node *n, const struct value *v, int64_t *count)
{
	const int64_t all = shape_count(&v->type.shape);
	double *places = arena_array(n->importer->context->arena, (size_t)all + 1, sizeof *places);
	*count = 0;
	for (int64_t i = 0; places && i < all; i++)
		if (tensor_at(v->constant, i) != 0)
			places[(*count)++] = (double)i;
	return places ? places : short_of_memory(n);
}

void translate_non_zero(struct node *n)
{
	struct value *v = needed(n, 0);
	int64_t count;
	if (!v)
		return;
	if (!is_foldable(v)) {
		refuse(n, "the shape of its result depends on data");
		return;
	}
	const double *places = places_of(n, v, &count);
	const struct shape *s = &v->type.shape, made = {2, {s->ndim, count}};
	double *numbers = arena_array(n->importer->context->arena, (size_t)(s->ndim * count) + 1, sizeof *numbers);
	for (int64_t k = 0; places && numbers && k < count; k++) {
		int64_t rest = (int64_t)places[k];
		for (int i = s->ndim - 1; i >= 0; i--) {
			numbers[i * count + k] = (double)(rest % s->dim[i]);
			rest /= s->dim[i];
		}
	}
	give(n, 0, places && numbers ? numbers_of(n, DTYPE_I64, numbers, &made, 0) : short_of_memory(n));
}

void translate_compress(struct node *n)
{
	struct value *v = needed(n, 0), *condition = needed(n, 1);
	int64_t count;
	int axis = 0;
	if (!v || !condition)
		return;
	if (!is_foldable(condition)) {
		refuse(n, "the shape of its result depends on data");
		return;
	}
	if (attribute(n, "axis") && !resolve_axis(n, attribute_integer(n, "axis", 0), v->type.shape.ndim, &axis))
		return;
	const struct shape flat = {1, {shape_count(&v->type.shape)}};
	const double *places = places_of(n, condition, &count);
	if (places)
		give(n, 0,
		     taken(n, numbers_of(n, DTYPE_I64, places, NULL, count), attribute(n, "axis") ? v : reshape(n, v, &flat),
		           axis));
}
