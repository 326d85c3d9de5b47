/*
 * Convolutions and pooling.
 *
 * A pool for which the chain has no operation is a chain of its own: the greatest, or the sum, of slices, along one axis
 * after the other.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

enum { SPACE_MOST = 3, WINDOW_MOST = 4096 };

/* The windows along the axes of space, which are those after the first two. */
struct windows {
	int axes;
	int64_t size[SPACE_MOST], stride[SPACE_MOST], dilation[SPACE_MOST], before[SPACE_MOST], after[SPACE_MOST];
	int64_t counts[SPACE_MOST]; /* of windows */
	int64_t beyond[SPACE_MOST]; /* elements after the pads that the last window reads, since ceil_mode rounds up */
};

static bool read_axes(struct node *n, const char *name, int axes, int64_t otherwise, int64_t to[])
{
	const struct integers list = attribute_integers(n, name);
	if (list.at && list.count != (size_t)axes)
		return refuse(n, "its %s do not fit", name), false;
	for (int i = 0; i < axes; i++) {
		to[i] = list.at ? list.at[i] : otherwise;
		if (to[i] < 1 || to[i] > INT32_MAX)
			return refuse(n, "its %s are wrong", name), false;
	}
	return true;
}

/* Reads the windows of NODE on arrays of SHAPE. SIZE is their extents, or NULL if kernel_shape has them. */
static bool read_windows(struct node *n, const struct shape *shape, const int64_t *size, struct windows *w)
{
	const char *automatic = attribute_text(n, "auto_pad", "NOTSET");
	const struct integers pads = attribute_integers(n, "pads");
	const bool rounds_up = attribute_integer(n, "ceil_mode", 0);
	memset(w, 0, sizeof *w);
	w->axes = shape->ndim - 2;
	if (w->axes < 1 || w->axes > SPACE_MOST)
		return refuse(n, "it works along %d axes", w->axes), false;
	if (!read_axes(n, "strides", w->axes, 1, w->stride) || !read_axes(n, "dilations", w->axes, 1, w->dilation))
		return false;
	if (!size && !read_axes(n, "kernel_shape", w->axes, 1, w->size))
		return false;
	if (pads.at && pads.count != 2 * (size_t)w->axes)
		return refuse(n, "its pads do not fit"), false;
	for (int i = 0; i < w->axes; i++) {
		const int64_t extent = shape->dim[i + 2];
		w->size[i] = size ? size[i] : w->size[i];
		const int64_t reach = (w->size[i] - 1) * w->dilation[i] + 1;
		if (!strncmp(automatic, "SAME", 4)) {
			const int64_t all = greater((ceil_div(extent, w->stride[i]) - 1) * w->stride[i] + reach - extent, 0);
			w->before[i] = !strcmp(automatic, "SAME_LOWER") ? all - all / 2 : all / 2;
			w->after[i] = all - w->before[i];
		} else if (pads.at && strcmp(automatic, "VALID")) {
			w->before[i] = pads.at[i];
			w->after[i] = pads.at[w->axes + i];
		}
		if (llabs(w->before[i]) > INT32_MAX || llabs(w->after[i]) > INT32_MAX)
			return refuse(n, "its pads are too large"), false;
		const int64_t span = extent + w->before[i] + w->after[i] - reach;
		if (span < 0)
			return refuse(n, "a window of %lld is larger than an axis", (long long)reach), false;
		w->counts[i] = (rounds_up ? ceil_div(span, w->stride[i]) : span / w->stride[i]) + 1;
		/* A window that would begin in the pad at the end is left out. */
		if (rounds_up && (w->counts[i] - 1) * w->stride[i] >= extent + w->before[i])
			w->counts[i]--;
		w->beyond[i] = greater((w->counts[i] - 1) * w->stride[i] - span, 0);
	}
	return true;
}

/* Returns " NAME=NUMBER" or " NAME=[A,B]"; "" where all are OTHERWISE. */
static const char *words_of(struct node *n, const char *name, const int64_t *numbers, int count, int64_t otherwise)
{
	bool usual = true, equal = true;
	for (int i = 0; i < count; i++) {
		usual &= numbers[i] == otherwise;
		equal &= numbers[i] == numbers[0];
	}
	if (usual)
		return "";
	const char *list = equal ? arena_printf(n->importer->context->arena, "%" PRId64, numbers[0])
	                         : list_text(n, numbers, (size_t)count);
	return list ? arena_printf(n->importer->context->arena, " %s=%s", name, list) : NULL;
}

/* Returns V with the channels' numbers BIAS added. */
static struct value *with_bias(struct node *n, struct value *v, struct value *bias)
{
	if (!v || !bias)
		return v;
	struct shape shape = {v->type.shape.ndim - 1, {shape_count(&bias->type.shape)}};
	for (int i = 1; i < shape.ndim; i++)
		shape.dim[i] = 1;
	return binary(n, "add", v, reshape(n, bias, &shape));
}

/*
 * Returns the convolution of V, [batch,channels,depth,height,width], by KERNEL: the sum over the kernel's depth of
 * convolutions of images. V has its pads along the depth. WORDS are the arguments of conv2d.
 */
static struct value *conv_depth(struct node *n, struct value *v, struct value *kernel, const struct windows *w,
                                const char *words)
{
	static const int depth_first[] = {0, 2, 1, 3, 4};
	struct value *sum = NULL;
	v = once(n, transpose(n, v, depth_first));
	kernel = once(n, kernel);
	for (int64_t k = 0; v && kernel && k < w->size[0]; k++) {
		const struct shape *s = &v->type.shape;
		struct part parts[MAX_DIMS];
		for (int i = 0; i < s->ndim; i++)
			parts[i] = (struct part){0, s->dim[i], 1};
		parts[1] = (struct part){k * w->dilation[0], w->counts[0], w->counts[0] > 1 ? w->stride[0] : 1};
		const struct shape images = {4, {s->dim[0] * w->counts[0], s->dim[2], s->dim[3], s->dim[4]}};
		struct value *part = reshape(n, part_of(n, v, parts), &images);
		part = apply_to(n, "conv2d", part, pick(n, kernel, 2, k), "%s", words);
		sum = sum ? binary(n, "add", sum, part) : part;
		if (!sum)
			return NULL;
	}
	if (!sum)
		return NULL;
	const struct shape *s = &sum->type.shape;
	const struct shape volumes = {5, {v->type.shape.dim[0], w->counts[0], s->dim[1], s->dim[2], s->dim[3]}};
	return transpose(n, reshape(n, sum, &volumes), depth_first);
}

void translate_conv(struct node *n)
{
	struct value *v = needed(n, 0), *kernel = needed(n, 1);
	struct windows w;
	if (!v || !kernel || !read_windows(n, &v->type.shape, &kernel->type.shape.dim[2], &w))
		return;
	if (kernel->type.shape.ndim != v->type.shape.ndim) {
		refuse(n, "its kernel has %d axes, the array %d", kernel->type.shape.ndim, v->type.shape.ndim);
		return;
	}
	const int images = w.axes == 3; /* axes before those of conv2d */
	for (int i = 0; i < w.axes; i++)
		if (w.before[i] != w.after[i] || w.before[i] < 0 || i < images) {
			v = padded(n, v, i + 2, w.before[i], w.after[i], 0);
			w.before[i] = w.after[i] = 0;
		}
	const int64_t groups = attribute_integer(n, "group", 1);
	const char *stride = words_of(n, "stride", w.stride + images, w.axes - images, 1),
			   *padding = words_of(n, "padding", w.before + images, w.axes - images, 0);
	const char *dilation = words_of(n, "dilation", w.dilation + images, w.axes - images, 1),
			   *parts = words_of(n, "groups", &groups, 1, 1);
	if (!stride || !padding || !dilation || !parts)
		return;
	const char *words = arena_printf(n->importer->context->arena, " %s%s%s%s", stride, padding, parts, dilation);
	if (!words)
		v = short_of_memory(n);
	else if (images)
		v = conv_depth(n, v, kernel, &w, words);
	else
		v = apply_to(n, w.axes == 1 ? "conv1d" : "conv2d", v, kernel, "%s", words);
	give(n, 0, with_bias(n, v, input(n, 2)));
}

void translate_causal_conv(struct node *n)
{
	struct value *v = needed(n, 0), *kernel = needed(n, 1), *past = input(n, 3), *both[2] = {past, v};
	const char *activation = attribute_text(n, "activation", "none");
	if (!v || !kernel)
		return;
	if (v->type.shape.ndim != 3 || kernel->type.shape.ndim != 3 || kernel->type.shape.dim[2] < 1) {
		refuse(n, "its array and its kernel do not have three axes");
		return;
	}
	const int64_t behind = kernel->type.shape.dim[2] - 1, channels = v->type.shape.dim[1];
	v = past ? join(n, both, 2, 2) : padded(n, v, 2, behind, 0, 0);
	if (is_wanted(n, 1))
		v = once(n, v);
	struct value *made = apply_to(n, "conv1d", v, kernel, channels > 1 ? "groups=%lld" : " ", (long long)channels);
	made = with_bias(n, made, input(n, 2));
	if (!strcmp(activation, "silu") || !strcmp(activation, "swish"))
		made = unary(n, "silu", made);
	else if (strcmp(activation, "none"))
		refuse(n, "its activation is '%s'", activation);
	give(n, 0, made);
	if (is_wanted(n, 1) && v)
		give(n, 1, range_of(n, v, 2, v->type.shape.dim[2] - behind, behind));
}

void translate_conv_transpose(struct node *n)
{
	struct value *v = needed(n, 0), *kernel = needed(n, 1);
	const struct integers pads = attribute_integers(n, "pads"), shape = attribute_integers(n, "output_shape");
	const struct integers more = attribute_integers(n, "output_padding");
	const char *automatic = attribute_text(n, "auto_pad", "NOTSET");
	struct windows w = {0};
	if (!v || !kernel)
		return;
	w.axes = v->type.shape.ndim - 2;
	if (w.axes < 1 || w.axes > 2 || kernel->type.shape.ndim != v->type.shape.ndim) {
		refuse(n, "chains have no transposed convolution along %d axes", w.axes);
		return;
	}
	if (!read_axes(n, "strides", w.axes, 1, w.stride) || !read_axes(n, "dilations", w.axes, 1, w.dilation))
		return;
	if ((pads.at && pads.count != 2 * (size_t)w.axes) || (shape.at && shape.count != (size_t)w.axes) ||
	    (more.at && more.count != (size_t)w.axes)) {
		refuse(n, "its pads do not fit");
		return;
	}
	/* The full result first; then it is cut, or lengthened by zeros. */
	int64_t zeros[SPACE_MOST] = {0}, extents[SPACE_MOST];
	for (int i = 0; i < w.axes; i++) {
		const int64_t extra = more.at ? more.at[i] : 0;
		const int64_t full =
			(v->type.shape.dim[i + 2] - 1) * w.stride[i] + (kernel->type.shape.dim[i + 2] - 1) * w.dilation[i] + 1;
		const bool same = !strncmp(automatic, "SAME", 4);
		int64_t wanted = shape.at ? shape.at[i] : v->type.shape.dim[i + 2] * w.stride[i];
		w.before[i] = pads.at ? pads.at[i] : 0;
		w.after[i] = pads.at ? pads.at[w.axes + i] : 0;
		if (shape.at || same) {
			const int64_t all = full + extra - wanted;
			w.before[i] = !strcmp(automatic, "SAME_UPPER") ? all / 2 : all - all / 2;
			if (all < 0)
				w.before[i] = 0;
			w.after[i] = all - w.before[i];
		}
		w.after[i] -= extra;
		extents[i] = full;
		if (llabs(w.before[i]) > INT32_MAX || llabs(w.after[i]) > INT32_MAX ||
		    extents[i] - w.before[i] - w.after[i] < 0) {
			refuse(n, "its pads do not fit");
			return;
		}
	}
	const bool even = w.before[0] == w.after[0] && w.before[w.axes - 1] == w.after[w.axes - 1] && w.before[0] >= 0 &&
	                  w.before[w.axes - 1] >= 0;
	const int64_t groups = attribute_integer(n, "group", 1);
	const char *stride = words_of(n, "stride", w.stride, w.axes, 1),
			   *padding = words_of(n, "padding", even ? w.before : zeros, w.axes, 0);
	const char *dilation = words_of(n, "dilation", w.dilation, w.axes, 1),
			   *parts = words_of(n, "groups", &groups, 1, 1);
	if (!stride || !padding || !dilation || !parts)
		return;
	v = apply_to(n, w.axes == 1 ? "conv_transpose1d" : "conv_transpose2d", v, kernel, " %s%s%s%s", stride, padding,
	             parts, dilation);
	for (int i = 0; i < w.axes && !even; i++)
		v = padded(n, v, i + 2, -w.before[i], -w.after[i], 0);
	give(n, 0, with_bias(n, v, input(n, 2)));
}

/* Returns V folded by OPERATION, max or add, over the windows of W along axis I of space. BESIDE stands beyond the ends. */
static struct value *fold_axis(struct node *n, struct value *v, const char *operation, const struct windows *w, int i,
                               double beside)
{
	struct value *made = NULL;
	struct part parts[MAX_DIMS];
	if (w->size[i] == 1 && w->stride[i] == 1 && !w->before[i] && !w->after[i])
		return v;
	v = once(n, padded(n, v, i + 2, w->before[i], w->after[i] + w->beyond[i], beside));
	for (int64_t k = 0; k < w->size[i] && v; k++) {
		for (int axis = 0; axis < v->type.shape.ndim; axis++)
			parts[axis] = axis == i + 2
			                  ? (struct part){k * w->dilation[i], w->counts[i], w->counts[i] > 1 ? w->stride[i] : 1}
			                  : (struct part){0, v->type.shape.dim[axis], 1};
		struct value *part = part_of(n, v, parts);
		made = made ? binary(n, operation, made, part) : part;
	}
	return v ? made : NULL;
}

static struct value *fold_windows(struct node *n, struct value *v, const char *operation, const struct windows *w,
                                  double beside)
{
	for (int i = 0; i < w->axes; i++)
		if (w->size[i] > WINDOW_MOST)
			return refuse(n, "its window has an extent of %lld", (long long)w->size[i]);
	for (int i = 0; i < w->axes; i++)
		v = fold_axis(n, v, operation, w, i, beside);
	return v;
}

/* Returns V, sums over windows, divided by how many elements each window has. WITH_PADS counts pads. */
static struct value *averaged(struct node *n, struct value *v, const struct windows *w, const struct shape *shape,
                              bool with_pads)
{
	struct shape counts = {w->axes, {0}};
	int64_t all = 1;
	for (int i = 0; i < w->axes; i++)
		all *= counts.dim[i] = w->counts[i];
	if (!v || all > NUMBERS_MOST)
		return v ? refuse(n, "it has more than %d windows", NUMBERS_MOST) : NULL;
	double *numbers = arena_array(n->importer->context->arena, (size_t)all + 1, sizeof *numbers);
	bool equal = true;
	for (int64_t k = 0; numbers && k < all; k++) {
		int64_t rest = k;
		numbers[k] = 1;
		for (int i = w->axes - 1; i >= 0; i--) {
			const int64_t first = rest % w->counts[i] * w->stride[i], extent = shape->dim[i + 2];
			int64_t count = 0;
			for (int64_t j = 0; j < w->size[i]; j++) {
				const int64_t at = first + j * w->dilation[i] - w->before[i];
				count += with_pads ? at < extent + w->after[i] : at >= 0 && at < extent;
			}
			numbers[k] *= (double)count;
			rest /= w->counts[i];
		}
		equal &= numbers[k] == numbers[0];
	}
	if (!numbers)
		return short_of_memory(n);
	if (equal)
		return binary(n, "div", v, number_like(n, v, numbers[0]));
	return binary(n, "div", v, numbers_of(n, v->type.dtype, numbers, &counts, 0));
}

/* Returns the pool of V by an operation of the chain; NULL if there is none that does the same. */
static struct value *own_pool(struct node *n, struct value *v, const struct windows *w, bool greatest, bool with_pads)
{
	static const char *const names[2][2] = {{"avgpool1d", "avgpool2d"}, {"maxpool1d", "maxpool2d"}};
	const char *name = w->axes <= 2 ? names[greatest][w->axes - 1] : "";
	bool same = *name && (v->type.dtype == DTYPE_F32 || v->type.dtype == DTYPE_F64);
	int64_t size[SPACE_MOST];
	for (int i = 0; i < w->axes; i++) {
		same &= w->before[i] == w->after[i] && 2 * w->before[i] <= w->size[i] && w->dilation[i] == 1 && !w->beyond[i];
		size[i] = w->size[i];
	}
	if (!same)
		return NULL;
	const bool equal = w->axes == 1 || size[0] == size[1];
	bool strides = true, pads = false;
	for (int i = 0; i < w->axes; i++) {
		strides &= w->stride[i] == w->size[i];
		pads |= w->before[i] != 0;
	}
	const char *extents =
		equal ? arena_printf(n->importer->context->arena, "%" PRId64, size[0]) : list_text(n, size, (size_t)w->axes);
	const char *stride = strides ? "" : words_of(n, "stride", w->stride, w->axes, 0),
			   *padding = words_of(n, "padding", w->before, w->axes, 0);
	if (!extents || !stride || !padding)
		return short_of_memory(n);
	return apply(n, name, v, "%s%s%s%s", extents, stride, padding,
	             !greatest && pads && !with_pads ? " count_padding=false" : "");
}

void translate_pool(struct node *n)
{
	struct value *v = needed(n, 0);
	const char *kind = operation_of(n);
	const bool with_pads = attribute_integer(n, "count_include_pad", 0), greatest = !strcmp(kind, "max");
	struct windows w;
	if (!v || !read_windows(n, &v->type.shape, NULL, &w))
		return;
	if (greatest && is_wanted(n, 1)) {
		refuse(n, "its second output has the places of the largest elements");
		return;
	}
	const struct shape shape = v->type.shape;
	if (strcmp(kind, "lp")) {
		struct value *own = own_pool(n, v, &w, greatest, with_pads);
		if (own || n->reason) {
			give(n, 0, own);
			return;
		}
	}
	if (greatest) {
		const double least = dtype_is_integer(v->type.dtype) ? -0x1p53 : -INFINITY;
		give(n, 0, typed(n, fold_windows(n, v, "max", &w, least), v->type.dtype));
		return;
	}
	if (!strcmp(kind, "average")) {
		give(n, 0, averaged(n, fold_windows(n, v, "add", &w, 0), &w, &shape, with_pads));
		return;
	}
	const int64_t p = attribute_integer(n, "p", 2);
	v = unary(n, "abs", v);
	v = p == 1 ? v : p == 2 ? unary(n, "square", v) : binary(n, "pow", v, number_like(n, v, (double)p));
	v = fold_windows(n, v, "add", &w, 0);
	give(n, 0, p == 1 ? v : p == 2 ? unary(n, "sqrt", v) : binary(n, "pow", v, number_like(n, v, 1 / (double)p)));
}

void translate_global_pool(struct node *n)
{
	struct value *v = needed(n, 0);
	const char *kind = operation_of(n);
	if (!v)
		return;
	struct integers axes = {0, arena_array(n->importer->context->arena, MAX_DIMS, sizeof *axes.at)};
	for (int i = 2; axes.at && i < v->type.shape.ndim; i++)
		axes.at[axes.count++] = i;
	if (!axes.at) {
		short_of_memory(n);
		return;
	}
	if (strcmp(kind, "lp")) {
		give(n, 0, reduced(n, kind, v, &axes, true));
		return;
	}
	const int64_t p = attribute_integer(n, "p", 2);
	v = unary(n, "abs", v);
	v = reduced(n, "sum", p == 1 ? v : binary(n, "pow", v, number_like(n, v, (double)p)), &axes, true);
	give(n, 0, p == 1 ? v : binary(n, "pow", v, number_like(n, v, 1 / (double)p)));
}
