/*
 * Operators on shapes, and those that give elements other places. A shape that the model computes is known while it is
 * read, so nothing of its arithmetic is left in the chain.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

void translate_shape(struct node *n)
{
	struct value *v = needed(n, 0);
	double extents[MAX_DIMS];
	if (!v)
		return;
	const int64_t ndim = v->type.shape.ndim;
	int64_t start = attribute_integer(n, "start", 0), end = attribute_integer(n, "end", ndim);
	start = start < 0 ? greater(start + ndim, 0) : lesser(start, ndim);
	end = end < 0 ? greater(end + ndim, 0) : lesser(end, ndim);
	int64_t count = 0;
	for (int64_t i = start; i < end; i++)
		extents[count++] = (double)v->type.shape.dim[i];
	give(n, 0, numbers_of(n, DTYPE_I64, extents, NULL, count));
}

void translate_size(struct node *n)
{
	struct value *v = needed(n, 0);
	if (v)
		give(n, 0, filled(n, DTYPE_I64, NULL, (double)shape_count(&v->type.shape)));
}

/* Sets SHAPE to the extents in LIST. */
static bool shape_of(struct node *n, const struct integers *list, struct shape *shape)
{
	if (!list->at)
		return false;
	if (list->count > MAX_DIMS)
		return refuse(n, "its result has more than %d axes", MAX_DIMS), false;
	shape->ndim = (int)list->count;
	for (size_t i = 0; i < list->count; i++)
		shape->dim[i] = list->at[i];
	struct type type = {DTYPE_F64, *shape};
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i] < 0)
			return refuse(n, "an extent is %lld", (long long)list->at[i]), false;
	if (type_addressable(&type))
		return true;
	return refuse(n, "its result is too large to address"), false;
}

void translate_constant_of_shape(struct node *n)
{
	const struct integers list = input_integers(n, 0, "shape");
	const Onnx__AttributeProto *a = attribute(n, "value");
	const struct tensor *tensor;
	struct shape shape;
	enum dtype dtype = DTYPE_F32;
	double number = 0;
	if (!shape_of(n, &list, &shape))
		return;
	if (a && a->t) {
		if (!n->importer->outcome)
			n->importer->outcome = tensor_read(n->importer, a->t, "value", &tensor);
		if (n->importer->outcome)
			return;
		if (!tensor->numbers || shape_count(&tensor->type.shape) != 1) {
			refuse(n, "its value is not one number");
			return;
		}
		dtype = tensor->type.dtype;
		number = tensor->numbers[0];
	}
	give(n, 0, filled(n, dtype, &shape, number));
}

void translate_range(struct node *n)
{
	double start, limit, delta;
	struct value *v = needed(n, 0);
	if (!v || !input_number(n, 0, "start", &start) || !input_number(n, 1, "limit", &limit) ||
	    !input_number(n, 2, "delta", &delta))
		return;
	const double exact = ceil((limit - start) / delta);
	if (!(exact <= NUMBERS_MOST)) {
		refuse(n,
		       symbol_in(n->importer, limit) ? "its limit is an extent that the model leaves open; --shape gives it"
		                                     : "it has more than %d elements",
		       NUMBERS_MOST);
		return;
	}
	const int64_t count = exact > 0 ? (int64_t)exact : 0;
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < count; i++)
		numbers[i] = start + (double)i * delta;
	give(n, 0, numbers ? numbers_of(n, v->type.dtype, numbers, NULL, count) : short_of_memory(n));
}

void translate_eye_like(struct node *n)
{
	struct value *v = needed(n, 0);
	if (!v)
		return;
	enum dtype dtype = v->type.dtype;
	const int64_t k = attribute_integer(n, "k", 0);
	if (attribute(n, "dtype") && !model_dtype((int32_t)attribute_integer(n, "dtype", 0), &dtype)) {
		refuse(n, "its type is none of a chain");
		return;
	}
	const int64_t count = shape_count(&v->type.shape), width = v->type.shape.ndim == 2 ? v->type.shape.dim[1] : 1;
	if (v->type.shape.ndim != 2 || count > NUMBERS_MOST) {
		refuse(n, "its matrix has two axes and at most %d elements", NUMBERS_MOST);
		return;
	}
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < count; i++)
		numbers[i] = i % width - i / width == k;
	give(n, 0, numbers ? numbers_of(n, dtype, numbers, &v->type.shape, 0) : short_of_memory(n));
}

/* Returns the type that the graph declares for output 0, all of whose extents are known; NULL if there is none. */
static const struct shape *declared_shape(struct node *n, struct shape *shape)
{
	const Onnx__GraphProto *graph = n->importer->model->graph;
	const char *name = n->output_count ? n->proto->output[0] : "";
	if (n->scope->outer || n->scope->call)
		return NULL;
	for (size_t i = 0; i < graph->n_output + graph->n_value_info; i++) {
		const Onnx__ValueInfoProto *info =
			i < graph->n_output ? graph->output[i] : graph->value_info[i - graph->n_output];
		const Onnx__TypeProto *type = info->type;
		if (!info->name || strcmp(info->name, name) || !type ||
		    type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type->shape ||
		    type->tensor_type->shape->n_dim > MAX_DIMS)
			continue;
		shape->ndim = (int)type->tensor_type->shape->n_dim;
		for (int k = 0; k < shape->ndim; k++) {
			const Onnx__TensorShapeProto__Dimension *dim = type->tensor_type->shape->dim[k];
			if (dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE || dim->dim_value < 0)
				return NULL;
			shape->dim[k] = dim->dim_value;
		}
		return shape;
	}
	return NULL;
}

void translate_reshape(struct node *n)
{
	struct value *v = needed(n, 0), *given = needed(n, 1);
	struct shape shape, declared;
	int64_t rest = 1;
	int open = -1;
	if (!v || !given)
		return;
	if (!is_readable(given) && declared_shape(n, &declared)) {
		give(n, 0, reshape(n, v, &declared));
		return;
	}
	const struct integers list = input_integers(n, 1, "shape");
	if (!list.at)
		return;
	if (list.count > MAX_DIMS) {
		refuse(n, "its result has more than %d axes", MAX_DIMS);
		return;
	}
	shape.ndim = (int)list.count;
	for (int i = 0; i < shape.ndim; i++) {
		const bool copies = list.at[i] == 0 && !attribute_integer(n, "allowzero", 0);
		if (copies && i >= v->type.shape.ndim) {
			refuse(n, "its shape copies an extent that the array does not have");
			return;
		}
		shape.dim[i] = copies ? v->type.shape.dim[i] : list.at[i];
		if (shape.dim[i] == -1 && open < 0)
			open = i;
		else if (shape.dim[i] < 0 || !checked_mul_i64(rest, shape.dim[i], &rest)) {
			refuse(n, "its shape is wrong");
			return;
		}
	}
	const int64_t count = shape_count(&v->type.shape);
	if (open >= 0 && (rest == 0 || count % rest)) {
		refuse(n, "%lld elements do not fit its shape", (long long)count);
		return;
	}
	if (open >= 0)
		shape.dim[open] = count / rest;
	give(n, 0, reshape(n, v, &shape));
}

void translate_flatten(struct node *n)
{
	struct value *v = needed(n, 0);
	int64_t axis = attribute_integer(n, "axis", 1);
	if (!v)
		return;
	const int ndim = v->type.shape.ndim;
	axis = axis < 0 ? axis + ndim : axis;
	if (axis < 0 || axis > ndim) {
		refuse(n, "an array of %d axes has no axis %lld", ndim, (long long)axis);
		return;
	}
	struct shape shape = {2, {1, 1}};
	for (int i = 0; i < ndim; i++)
		shape.dim[i >= axis] *= v->type.shape.dim[i];
	give(n, 0, reshape(n, v, &shape));
}

/* Marks in NAMED the AXES of NDIM. */
static bool mark_axes(struct node *n, const struct integers *axes, int ndim, bool named[MAX_DIMS])
{
	memset(named, 0, MAX_DIMS * sizeof *named);
	for (size_t i = 0; i < axes->count; i++) {
		int axis;
		if (!resolve_axis(n, axes->at[i], ndim, &axis))
			return false;
		if (named[axis])
			return refuse(n, "it names axis %d twice", axis), false;
		named[axis] = true;
	}
	return true;
}

void translate_squeeze(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers axes = axes_of(n, "axes", 1, 13);
	bool named[MAX_DIMS];
	struct shape shape = {0, {0}};
	if (!v || n->reason || !mark_axes(n, &axes, v->type.shape.ndim, named))
		return;
	for (int i = 0; i < v->type.shape.ndim; i++) {
		const bool goes = axes.at ? named[i] : v->type.shape.dim[i] == 1;
		if (goes && v->type.shape.dim[i] != 1) {
			refuse(n, "axis %d has not extent 1", i);
			return;
		}
		if (!goes)
			shape.dim[shape.ndim++] = v->type.shape.dim[i];
	}
	if (v->type.shape.ndim - shape.ndim == 1 && !v->constant) {
		for (int i = 0; i < v->type.shape.ndim; i++)
			if (axes.at ? named[i] : v->type.shape.dim[i] == 1)
				give(n, 0, drop_axis(n, v, i));
		return;
	}
	give(n, 0, reshape(n, v, &shape));
}

void translate_unsqueeze(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers axes = axes_of(n, "axes", 1, 13);
	bool named[MAX_DIMS];
	struct shape shape;
	if (!v || n->reason)
		return;
	shape.ndim = v->type.shape.ndim + (int)lesser((int64_t)axes.count, MAX_DIMS + 1);
	if (shape.ndim > MAX_DIMS) {
		refuse(n, "its result has more than %d axes", MAX_DIMS);
		return;
	}
	if (!mark_axes(n, &axes, shape.ndim, named))
		return;
	if (axes.count == 1 && !v->constant) {
		int axis;
		if (resolve_axis(n, axes.at[0], shape.ndim, &axis))
			give(n, 0, new_axis(n, v, axis));
		return;
	}
	for (int i = 0, k = 0; i < shape.ndim; i++)
		shape.dim[i] = named[i] ? 1 : v->type.shape.dim[k++];
	give(n, 0, reshape(n, v, &shape));
}

void translate_transpose(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers order = attribute_integers(n, "perm");
	int axes[MAX_DIMS];
	bool named[MAX_DIMS];
	if (!v)
		return;
	const int ndim = v->type.shape.ndim;
	if (order.at && order.count != (size_t)ndim) {
		refuse(n, "its permutation has %zu axes, the array %d", order.count, ndim);
		return;
	}
	if (order.at && !mark_axes(n, &order, ndim, named))
		return;
	for (int i = 0; i < ndim; i++) {
		axes[i] = ndim - 1 - i;
		if (order.at && !resolve_axis(n, order.at[i], ndim, &axes[i]))
			return;
	}
	give(n, 0, transpose(n, v, axes));
}

void translate_concat(struct node *n)
{
	struct value *v = needed(n, 0);
	int axis;
	if (!v || !resolve_axis(n, attribute_integer(n, "axis", 1), v->type.shape.ndim, &axis))
		return;
	for (size_t i = 0; i < n->input_count; i++)
		if (!needed(n, i))
			return;
	give(n, 0, join(n, n->inputs, n->input_count, axis));
}

void translate_split(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers sizes =
		input(n, 1) || n->version < 13 ? axes_of(n, "split", 1, 13) : (struct integers){0, NULL};
	int axis;
	if (!v || n->reason || !resolve_axis(n, attribute_integer(n, "axis", 0), v->type.shape.ndim, &axis))
		return;
	const int64_t extent = v->type.shape.dim[axis], parts = (int64_t)n->output_count,
				  each = ceil_div(extent, parts ? parts : 1);
	if (!v->constant && parts > 1)
		once(n, v);
	int64_t at = 0;
	for (int64_t i = 0; i < parts; i++) {
		const int64_t count = sizes.at ? ((size_t)i < sizes.count ? sizes.at[i] : -1) : lesser(each, extent - at);
		if (count < 0 || count > extent - at) {
			refuse(n, "its parts do not fit an extent of %lld", (long long)extent);
			return;
		}
		if (is_wanted(n, (size_t)i))
			give(n, (size_t)i, range_of(n, v, axis, at, count));
		at += count;
	}
}

/* Sets PART to the elements START to END of an axis of EXTENT, as ONNX says. */
static void set_part(struct part *part, int64_t start, int64_t end, int64_t step, int64_t extent)
{
	const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? extent : extent - 1;
	start = start < 0 ? (start < -extent ? -1 : start + extent) : start;
	end = end < 0 ? (end < -extent ? -1 : end + extent) : end;
	start = lesser(greater(start, step > 0 ? 0 : -1), most);
	end = lesser(greater(end, least), step > 0 ? extent : extent);
	const int64_t span = step > 0 ? end - start : start - end;
	part->first = start;
	part->step = step;
	part->count = span > 0 ? ceil_div(span, step > 0 ? step : -step) : 0;
	if (part->count <= 1) { /* a step that reaches nothing has no meaning */
		part->step = 1;
		part->first = part->count ? start : 0;
	}
}

void translate_slice(struct node *n)
{
	struct value *v = needed(n, 0);
	struct part parts[MAX_DIMS];
	const struct integers starts = axes_of(n, "starts", 1, 10), ends = axes_of(n, "ends", 2, 10);
	const struct integers axes = axes_of(n, "axes", 3, 10);
	const struct integers steps = n->version < 10 ? (struct integers){0, NULL} : input_integers(n, 4, "steps");
	if (!v || n->reason)
		return;
	if (!starts.at || !ends.at || starts.count != ends.count || (axes.at && axes.count != starts.count) ||
	    (steps.at && steps.count != starts.count) || (!axes.at && starts.count > (size_t)v->type.shape.ndim)) {
		refuse(n, "its starts, ends, axes and steps do not fit");
		return;
	}
	for (int i = 0; i < v->type.shape.ndim; i++)
		parts[i] = (struct part){0, v->type.shape.dim[i], 1};
	for (size_t i = 0; i < starts.count; i++) {
		int axis = 0;
		if (!resolve_axis(n, axes.at ? axes.at[i] : (int64_t)i, v->type.shape.ndim, &axis))
			return;
		if (steps.at && (steps.at[i] == 0 || steps.at[i] == INT64_MIN)) {
			refuse(n, "a step is 0");
			return;
		}
		set_part(&parts[axis], starts.at[i], ends.at[i], steps.at ? steps.at[i] : 1, v->type.shape.dim[axis]);
	}
	give(n, 0, part_of(n, v, parts));
}

/* Indices for an axis of EXTENT, with BEFORE and AFTER more: at the edge, mirrored, or around the end. */
static struct value *edge_indices(struct node *n, const char *mode, int64_t extent, int64_t before, int64_t after)
{
	const int64_t count = extent + before + after;
	if (count < 0 || count > NUMBERS_MOST || symbol_in(n->importer, (double)extent) || extent < 1)
		return refuse(n, "it pads in the mode '%s' an axis that is open or empty", mode);
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < count; i++) {
		const int64_t at = i - before, period = extent > 1 ? 2 * (extent - 1) : 1;
		int64_t from = lesser(greater(at, 0), extent - 1);
		if (!strcmp(mode, "wrap"))
			from = (at % extent + extent) % extent;
		if (!strcmp(mode, "reflect")) {
			from = (at % period + period) % period;
			from = from >= extent ? period - from : from;
		}
		numbers[i] = (double)from;
	}
	return numbers ? numbers_of(n, DTYPE_I64, numbers, NULL, count) : short_of_memory(n);
}

void translate_pad(struct node *n)
{
	struct value *v = needed(n, 0), *with = n->version < 11 ? NULL : input(n, 2);
	const struct integers pads = axes_of(n, "pads", 1, 11);
	const struct integers axes = n->version < 18 ? (struct integers){0, NULL} : input_integers(n, 3, "axes");
	const char *mode = attribute_text(n, "mode", "constant");
	double number = attribute_number(n, "value", 0);
	if (!v || n->reason || (with && !input_number(n, 2, "constant_value", &number)))
		return;
	const size_t count = axes.at ? axes.count : (size_t)v->type.shape.ndim;
	if (!pads.at || pads.count != 2 * count) {
		refuse(n, "its pads do not fit");
		return;
	}
	for (size_t i = 0; i < count; i++) {
		int axis = 0;
		const int64_t before = pads.at[i], after = pads.at[count + i];
		if (!resolve_axis(n, axes.at ? axes.at[i] : (int64_t)i, v->type.shape.ndim, &axis))
			return;
		if (llabs(before) > INT32_MAX || llabs(after) > INT32_MAX) {
			refuse(n, "its pads are too large");
			return;
		}
		if (!before && !after)
			continue;
		v = !strcmp(mode, "constant")
		        ? padded(n, v, axis, before, after, number)
		        : taken(n, edge_indices(n, mode, v->type.shape.dim[axis], before, after), v, axis);
		if (!v)
			return;
	}
	give(n, 0, v);
}

void translate_expand(struct node *n)
{
	struct value *v = needed(n, 0), *given = needed(n, 1);
	struct shape shape;
	if (!v || !given)
		return;
	if (!is_readable(given) && declared_shape(n, &shape)) {
		give(n, 0, expand(n, v, &shape));
		return;
	}
	const struct integers list = input_integers(n, 1, "shape");
	if (shape_of(n, &list, &shape))
		give(n, 0, expand(n, v, &shape));
}

void translate_tile(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers counts = input_integers(n, 1, "repeats");
	if (!v || !counts.at)
		return;
	if (counts.count != (size_t)v->type.shape.ndim) {
		refuse(n, "its repeats do not fit");
		return;
	}
	const char *words = "";
	for (size_t i = 0; i < counts.count && words; i++) {
		if (counts.at[i] < 0 || counts.at[i] > INT32_MAX || symbol_in(n->importer, (double)counts.at[i])) {
			refuse(n, "it repeats an axis %lld times", (long long)counts.at[i]);
			return;
		}
		words = arena_printf(n->importer->context->arena, "%s %lld", words, (long long)counts.at[i]);
	}
	give(n, 0, !counts.count ? v : words ? apply(n, "tile", v, "%s", words) : short_of_memory(n));
}

void translate_trilu(struct node *n)
{
	struct value *v = needed(n, 0);
	double k = 0;
	if (!v || (input(n, 1) && !input_number(n, 1, "k", &k)))
		return;
	const char *operation = attribute_integer(n, "upper", 1) ? "triu" : "tril";
	if (shape_count(&v->type.shape) == 0)
		give(n, 0, v);
	else
		give(n, 0, k != 0 ? apply(n, operation, v, "k=%lld", (long long)k) : unary(n, operation, v));
}

void translate_center_crop_pad(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers sizes = input_integers(n, 1, "shape"), axes = attribute_integers(n, "axes");
	if (!v || !sizes.at)
		return;
	for (size_t i = 0; i < sizes.count && v; i++) {
		int axis = 0;
		if (!resolve_axis(n, axes.at && i < axes.count ? axes.at[i] : (int64_t)i, v->type.shape.ndim, &axis))
			return;
		const int64_t extent = v->type.shape.dim[axis], more = sizes.at[i] - extent;
		if (sizes.at[i] < 0 || sizes.at[i] > INT32_MAX) {
			refuse(n, "its shape is wrong");
			return;
		}
		v = more > 0 ? padded(n, v, axis, more / 2, more - more / 2, 0) : range_of(n, v, axis, -more / 2, sizes.at[i]);
	}
	give(n, 0, v);
}

void translate_space_to_depth(struct node *n)
{
	struct value *v = needed(n, 0);
	const int64_t size = attribute_integer(n, "blocksize", 1);
	static const int rows[] = {0, 3, 5, 1, 2, 4}, columns[] = {0, 1, 3, 5, 2, 4};
	const int *order = strcmp(attribute_text(n, "mode", "DCR"), "CRD") ? rows : columns;
	if (!v)
		return;
	const struct shape *s = &v->type.shape;
	if (s->ndim != 4 || size < 1 || s->dim[2] % size || s->dim[3] % size) {
		refuse(n, "its blocks do not fit");
		return;
	}
	const struct shape parts = {6, {s->dim[0], s->dim[1], s->dim[2] / size, size, s->dim[3] / size, size}};
	const struct shape made = {4, {s->dim[0], s->dim[1] * size * size, s->dim[2] / size, s->dim[3] / size}};
	give(n, 0, reshape(n, transpose(n, reshape(n, v, &parts), order), &made));
}

void translate_depth_to_space(struct node *n)
{
	struct value *v = needed(n, 0);
	const int64_t size = attribute_integer(n, "blocksize", 1);
	const bool columns_first = !strcmp(attribute_text(n, "mode", "DCR"), "CRD");
	static const int rows[] = {0, 3, 4, 1, 5, 2}, columns[] = {0, 1, 4, 2, 5, 3};
	if (!v)
		return;
	const struct shape *s = &v->type.shape;
	if (s->ndim != 4 || size < 1 || size > 1 << 15 || s->dim[1] % (size * size)) {
		refuse(n, "its blocks do not fit");
		return;
	}
	const int64_t depth = s->dim[1] / (size * size);
	const struct shape by_rows = {6, {s->dim[0], size, size, depth, s->dim[2], s->dim[3]}};
	const struct shape by_columns = {6, {s->dim[0], depth, size, size, s->dim[2], s->dim[3]}};
	const struct shape made = {4, {s->dim[0], depth, s->dim[2] * size, s->dim[3] * size}};
	give(n, 0,
	     reshape(n, transpose(n, reshape(n, v, columns_first ? &by_columns : &by_rows), columns_first ? columns : rows),
	             &made));
}

void translate_reverse_sequence(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers lengths = input_integers(n, 1, "sequence_lens");
	if (!v || !lengths.at)
		return;
	int batch, time;
	if (!resolve_axis(n, attribute_integer(n, "batch_axis", 1), v->type.shape.ndim, &batch) ||
	    !resolve_axis(n, attribute_integer(n, "time_axis", 0), v->type.shape.ndim, &time))
		return;
	if (batch == time || lengths.count != (size_t)v->type.shape.dim[batch]) {
		refuse(n, "its lengths do not fit");
		return;
	}
	/* Indices along the time axis, of the shape of both axes and 1 elsewhere. */
	const int64_t times_count = v->type.shape.dim[time], count = times_count * (int64_t)lengths.count;
	struct shape shape = {v->type.shape.ndim, {0}};
	for (int i = 0; i < shape.ndim; i++)
		shape.dim[i] = i == time || i == batch ? v->type.shape.dim[i] : 1;
	if (count > NUMBERS_MOST) {
		refuse(n, "it has too many elements");
		return;
	}
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t b = 0; numbers && b < (int64_t)lengths.count; b++)
		for (int64_t t = 0; t < times_count; t++)
			numbers[time < batch ? t * (int64_t)lengths.count + b : b * times_count + t] =
				(double)(t < lengths.at[b] ? lengths.at[b] - 1 - t : t);
	give(n, 0,
	     numbers ? apply_to(n, "take_along", v, numbers_of(n, DTYPE_I64, numbers, &shape, 0), "%d", time)
	             : short_of_memory(n));
}
