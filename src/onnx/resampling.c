/*
 * Resampling. With known extents it is linear: along each axis a choice of elements, or a product with a matrix.
 *
 * A matrix has a row for each new element: the weights of the old ones. ONNX's modes decide where a new element lies among
 * the old ones, and what weights its neighbours have (Keys 1981 for cubic).
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#include "base/checked.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

enum { REACH_MOST = 256 };

/* How an axis is resampled. */
struct resampling {
	const char *mode, *mapping, *nearest;
	double scale, low, high, cubic;
	int64_t from, to; /* extents */
	bool smooth;      /* antialias */
	bool excludes;    /* elements outside have no weight; else those at the ends stand for them */
};

/* Returns the place of new element I among the old ones. */
static double old_place(const struct resampling *r, int64_t i)
{
	const double x = (double)i, from = (double)r->from, to = r->scale * from, last = from - 1;
	if (!strcmp(r->mapping, "align_corners"))
		return to == 1 ? 0 : x * last / (to - 1);
	if (!strcmp(r->mapping, "asymmetric"))
		return x / r->scale;
	if (!strcmp(r->mapping, "tf_crop_and_resize"))
		return r->to == 1 ? (r->high - r->low) * last / 2 : x * (r->high - r->low) * last / (to - 1) + r->low * last;
	if (!strcmp(r->mapping, "pytorch_half_pixel"))
		return to == 1 ? -0.5 : (x + 0.5) / r->scale - 0.5;
	if (!strcmp(r->mapping, "half_pixel_symmetric")) {
		const double adjusted = (double)r->to / to, centre = from / 2;
		return centre * (1 - adjusted) + (x + 0.5) / r->scale - 0.5;
	}
	return (x + 0.5) / r->scale - 0.5;
}

static double cubic_weight(double a, double x)
{
	x = fabs(x);
	return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Stores the weights of elements *FIRST, *FIRST + 1, ... for a place. Returns their number, 0 if there are too many. */
static int weights_at(const struct resampling *r, double place, double weights[REACH_MOST], int64_t *first)
{
	const double base = floor(place), scale = r->smooth && r->scale < 1 ? r->scale : 1;
	const bool whole = base == place, cubic = !strcmp(r->mode, "cubic");
	const double ratio = whole ? 1 : place - base;
	const double begin = floor(-(cubic ? 2 : 1) / scale) + 1, count = 2 - 2 * begin;
	double sum = 0;
	if (count > REACH_MOST)
		return 0;
	*first = (int64_t)(base - whole + begin);
	for (int i = 0; i < (int)count; i++) {
		const double x = scale * (begin + i - ratio);
		weights[i] = cubic ? cubic_weight(r->cubic, x) : fmax(1 - fabs(x), 0);
		if (r->excludes && (*first + i < 0 || *first + i >= r->from))
			weights[i] = 0;
		sum += weights[i];
	}
	for (int i = 0; i < (int)count && (r->smooth || r->excludes); i++)
		weights[i] /= sum;
	return (int)count;
}

/* Returns the old element that is nearest to PLACE. */
static int64_t nearest_to(const struct resampling *r, double place)
{
	double x = floor(place);
	const double ratio = place - x;
	if (ratio != 0 && (!strcmp(r->nearest, "ceil") || (!strcmp(r->nearest, "round_prefer_ceil") && ratio >= 0.5) ||
	                   (!strcmp(r->nearest, "round_prefer_floor") && ratio > 0.5)))
		x++;
	return lesser(greater((int64_t)x, 0), r->from - 1);
}

/* Returns the whole factor by which `upsample` of the chain does what R does to an axis; 0 if there is none. */
static int64_t upsampling_of(const struct resampling *r)
{
	const int64_t factor = r->from ? r->to / r->from : 0;
	const bool halves = !strcmp(r->mapping, "half_pixel") || !strcmp(r->mapping, "pytorch_half_pixel");
	bool same = factor > 1 && factor * r->from == r->to && r->scale == (double)factor && !r->smooth && !r->excludes;
	if (!strcmp(r->mode, "linear"))
		return same && (halves || !strcmp(r->mapping, "align_corners")) ? factor : 0;
	same &= !strcmp(r->mode, "nearest") && r->to <= NUMBERS_MOST;
	for (int64_t i = 0; same && i < r->to; i++)
		same = nearest_to(r, old_place(r, i)) == i / factor;
	return same ? factor : 0;
}

/* Returns V, of which `upsample` makes all axes that ALL resamples; NULL if it cannot. */
static struct value *upsampled(struct node *n, struct value *v, const struct resampling *all)
{
	int64_t axes[MAX_DIMS], factor = 0;
	size_t count = 0;
	const char *mode = "", *mapping = "";
	for (int i = 0; i < v->type.shape.ndim; i++) {
		if (!all[i].mode)
			continue;
		const int64_t own = upsampling_of(&all[i]);
		if (!own || (factor && own != factor))
			return NULL;
		factor = own;
		axes[count++] = i;
		mode = all[i].mode;
		mapping = all[i].mapping;
	}
	const bool usual = count && axes[0] == 2 && count == (size_t)v->type.shape.ndim - 2;
	const char *list = usual ? "" : list_text(n, axes, count), *linear = !strcmp(mode, "linear") ? " mode=linear" : "";
	if (!count || !list)
		return NULL;
	return apply(n, "upsample", v, "%lld%s%s%s%s", (long long)factor, linear, *list ? " axes=" : "", list,
	             *linear && !strcmp(mapping, "align_corners") ? " align_corners=true" : "");
}

static struct value *resampled_along(struct node *n, struct value *v, int axis, const struct resampling *r)
{
	const bool nearest = !strcmp(r->mode, "nearest");
	const int64_t size = nearest ? r->to : r->from * r->to;
	const int last = v->type.shape.ndim - 1;
	if (size > NUMBERS_MOST || r->from < 1 || symbol_in(n->importer, (double)r->from))
		return refuse(n, "axis %d is open, empty, or too long", axis);
	double *numbers = arena_array(n->importer->context->arena, (size_t)size + 1, sizeof *numbers), weights[REACH_MOST];
	if (!numbers)
		return short_of_memory(n);
	for (int64_t i = 0; i < r->to; i++) {
		const double place = old_place(r, i);
		int64_t first = 0;
		if (nearest) {
			numbers[i] = (double)nearest_to(r, place);
			continue;
		}
		const int count = weights_at(r, place, weights, &first);
		if (!count)
			return refuse(n, "it makes axis %d more than 64 times smaller", axis);
		for (int k = 0; k < count; k++) /* column I of a matrix that stands behind the array */
			numbers[lesser(greater(first + k, 0), r->from - 1) * r->to + i] += weights[k];
	}
	if (nearest)
		return taken(n, numbers_of(n, DTYPE_I64, numbers, NULL, r->to), v, axis);
	const struct shape matrix = {2, {r->from, r->to}};
	v = binary(n, "matmul", exchange(n, v, axis, last), numbers_of(n, v->type.dtype, numbers, &matrix, 0));
	return exchange(n, v, axis, last);
}

/* Returns V where all new elements of each axis lie among the old ones, and WITH elsewhere. */
static struct value *extrapolated(struct node *n, struct value *v, const struct resampling *all, double with)
{
	for (int axis = 0; v && axis < v->type.shape.ndim; axis++) {
		struct shape shape = {v->type.shape.ndim, {0}};
		bool outside = false;
		const struct resampling *r = &all[axis];
		double *numbers = arena_array(n->importer->context->arena, (size_t)r->to + 1, sizeof *numbers);
		if (!numbers)
			return short_of_memory(n);
		for (int i = 0; i < shape.ndim; i++)
			shape.dim[i] = i == axis ? r->to : 1;
		for (int64_t i = 0; r->mode && i < r->to; i++) {
			const double place = old_place(r, i);
			numbers[i] = place >= 0 && place <= (double)r->from - 1;
			outside |= numbers[i] == 0;
		}
		if (outside && r->mode)
			v = choose(n, numbers_of(n, DTYPE_BOOL, numbers, &shape, 0), v, number_like(n, v, with));
	}
	return v;
}

/* Reads the scale and the new extent of each axis. */
static bool read_scales(struct node *n, struct value *v, struct resampling *all)
{
	const bool upsample = !strcmp(n->proto->op_type, "Upsample");
	const size_t scales_at = upsample || n->version < 11 ? 1 : 2;
	const struct integers axes = attribute_integers(n, "axes");
	const Onnx__AttributeProto *own = upsample ? attribute(n, "scales") : NULL;
	struct value *scales = own ? NULL : input(n, scales_at), *sizes = scales_at == 2 ? input(n, 3) : NULL;
	const char *policy = attribute_text(n, "keep_aspect_ratio_policy", "stretch");
	const int ndim = v->type.shape.ndim;
	double ratio = 0;
	if (sizes && shape_count(&sizes->type.shape) == 0)
		sizes = NULL;
	struct integers list = sizes ? input_integers(n, 3, "sizes") : (struct integers){0, NULL};
	if (!sizes && !own && (!scales || !is_readable(scales)))
		return scales ? (void)input_integers(n, scales_at, "scales")
		              : (void)refuse(n, "it has neither scales nor sizes"),
		       false;
	if (n->reason)
		return false;
	const size_t count = own ? own->n_floats : sizes ? list.count : (size_t)shape_count(&scales->type.shape);
	if (count != (axes.at ? axes.count : (size_t)ndim))
		return refuse(n, "its scales do not fit"), false;
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < count; i++) {
			int axis = 0;
			if (!resolve_axis(n, axes.at ? axes.at[i] : (int64_t)i, ndim, &axis))
				return false;
			struct resampling *r = &all[axis];
			r->scale = own     ? (double)own->floats[i]
			           : sizes ? (double)list.at[i] / (double)r->from
			                   : tensor_at(scales->constant, (int64_t)i);
			if (pass == 0) {
				ratio = i == 0                          ? r->scale
				        : !strcmp(policy, "not_larger") ? fmin(ratio, r->scale)
				                                        : fmax(ratio, r->scale);
				continue;
			}
			r->to = sizes ? list.at[i] : (int64_t)floor((double)r->from * r->scale);
			if (sizes && strcmp(policy, "stretch")) {
				r->scale = ratio;
				r->to = (int64_t)floor(ratio * (double)r->from + 0.5);
			}
			if (!(r->scale > 0) || r->to < 0 || (r->to > NUMBERS_MOST && !symbol_in(n->importer, (double)r->to)))
				return refuse(n, "its scales are wrong"), false;
		}
	return true;
}

void translate_resize(struct node *n)
{
	struct value *v = needed(n, 0);
	const bool old = n->version < 11;
	struct resampling all[MAX_DIMS] = {{0}};
	const char *mode = attribute_text(n, "mode", "nearest");
	const char *place = attribute_text(n, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
	const bool crops = !strcmp(place, "tf_crop_and_resize");
	const struct integers axes = attribute_integers(n, "axes");
	struct value *roi = crops ? input(n, 1) : NULL;
	if (!v)
		return;
	const int ndim = v->type.shape.ndim;
	for (int i = 0; i < ndim; i++)
		all[i] = (struct resampling){
			.scale = 1, .from = v->type.shape.dim[i], .to = v->type.shape.dim[i], .low = 0, .high = 1};
	if (!read_scales(n, v, all))
		return;
	if (crops &&
	    (!roi || !is_readable(roi) || shape_count(&roi->type.shape) != 2 * (axes.at ? (int64_t)axes.count : ndim))) {
		refuse(n, "its region is not known before the model runs");
		return;
	}
	struct value *made;
	for (int i = 0; i < ndim; i++) {
		struct resampling *r = &all[i];
		int64_t at = axes.at ? -1 : i;
		for (size_t k = 0; axes.at && k < axes.count; k++)
			at = axes.at[k] == i || axes.at[k] + ndim == i ? (int64_t)k : at;
		if (roi && at >= 0) {
			r->low = tensor_at(roi->constant, at);
			r->high = tensor_at(roi->constant, at + (axes.at ? (int64_t)axes.count : ndim));
		}
		if (at < 0 || (r->scale == 1 && r->to == r->from && r->low == 0 && r->high == 1))
			continue;
		r->mode = !strcmp(mode, "bilinear") || !strcmp(mode, "trilinear") ? "linear" : mode;
		r->mapping = place;
		r->nearest = attribute_text(n, "nearest_mode", old ? "floor" : "round_prefer_floor");
		r->cubic = attribute_number(n, "cubic_coeff_a", -0.75);
		r->smooth = attribute_integer(n, "antialias", 0);
		r->excludes = attribute_integer(n, "exclude_outside", 0);
	}
	made = upsampled(n, v, all);
	const bool whole = made != NULL;
	made = whole ? made : v;
	for (int i = 0; i < ndim && made && !whole && !n->reason; i++)
		if (all[i].mode)
			made = resampled_along(n, made, i, &all[i]);
	give(n, 0, crops ? extrapolated(n, made, all, attribute_number(n, "extrapolation_value", 0)) : made);
}

enum { IMAGE_AXES = 3 };

void translate_col2im(struct node *n)
{
	struct value *v = needed(n, 0);
	const struct integers image = input_integers(n, 1, "image_shape"), block = input_integers(n, 2, "block_shape");
	const struct integers pads = attribute_integers(n, "pads"), strides = attribute_integers(n, "strides"),
						  dilations = attribute_integers(n, "dilations");
	if (!v || !image.at || !block.at)
		return;
	const int axes = (int)image.count;
	if (v->type.shape.ndim != 3 || axes < 1 || axes > IMAGE_AXES || block.count != image.count ||
	    (pads.at && pads.count != 2 * image.count) || (strides.at && strides.count != image.count) ||
	    (dilations.at && dilations.count != image.count)) {
		refuse(n, "its image and blocks do not fit");
		return;
	}
	int64_t size = 1, pixels = 1, windows = 1, counts[IMAGE_AXES];
	for (int i = 0; i < axes; i++) {
		const int64_t step = strides.at ? strides.at[i] : 1,
					  reach = (dilations.at ? dilations.at[i] : 1) * (block.at[i] - 1) + 1;
		const int64_t span = image.at[i] + (pads.at ? pads.at[i] + pads.at[axes + i] : 0) - reach;
		if (image.at[i] < 1 || image.at[i] > 1 << 15 || block.at[i] < 1 || block.at[i] > 1 << 15 || step < 1 ||
		    span < 0) {
			refuse(n, "its image and blocks do not fit");
			return;
		}
		counts[i] = span / step + 1;
		size *= block.at[i];
		pixels *= image.at[i];
		windows *= counts[i];
	}
	const int64_t count = size * windows, channels = v->type.shape.dim[1] / size;
	if (count > NUMBERS_MOST || windows != v->type.shape.dim[2] || channels * size != v->type.shape.dim[1]) {
		refuse(n, "its image and blocks do not fit");
		return;
	}
	/* The pixel of each element of each block; the one behind the last stands for the pads. */
	double *numbers = arena_array(n->importer->context->arena, (size_t)count + 1, sizeof *numbers);
	for (int64_t k = 0; numbers && k < count; k++) {
		int64_t within = k / windows, window = k % windows, stride = 1, pixel = 0;
		bool inside = true;
		for (int i = axes - 1; i >= 0; i--) {
			const int64_t at = window % counts[i] * (strides.at ? strides.at[i] : 1) +
			                   within % block.at[i] * (dilations.at ? dilations.at[i] : 1) - (pads.at ? pads.at[i] : 0);
			inside &= at >= 0 && at < image.at[i];
			pixel += at * stride;
			stride *= image.at[i];
			within /= block.at[i];
			window /= counts[i];
		}
		numbers[k] = (double)(inside ? pixel : pixels);
	}
	static const int order[] = {2, 0, 1}, back[] = {1, 2, 0};
	const struct shape parts = {3, {v->type.shape.dim[0], channels, count}};
	struct shape made = {2 + axes, {v->type.shape.dim[0], channels}};
	for (int i = 0; i < axes; i++)
		made.dim[2 + i] = image.at[i];
	struct value *rows = transpose(n, reshape(n, v, &parts), order);
	struct value *sums = numbers ? apply_to(n, "scatter_add", rows, numbers_of(n, DTYPE_I64, numbers, NULL, count),
	                                        "%lld", (long long)pixels + 1)
	                             : short_of_memory(n);
	give(n, 0, reshape(n, transpose(n, range_of(n, sums, 0, 0, pixels), back), &made));
}

void translate_affine_grid(struct node *n)
{
	struct value *theta = needed(n, 0);
	const struct integers size = input_integers(n, 1, "size");
	const bool corners = attribute_integer(n, "align_corners", 0);
	if (!theta || !size.at)
		return;
	const int axes = (int)size.count - 2;
	int64_t points = 1;
	for (int i = 0; i < axes; i++)
		points *= size.at[2 + i] > 0 && size.at[2 + i] <= 1 << 12 ? size.at[2 + i] : NUMBERS_MOST;
	if (axes < 2 || axes > 3 || points * (axes + 1) > NUMBERS_MOST || theta->type.shape.ndim != 3 ||
	    theta->type.shape.dim[2] != axes + 1) {
		refuse(n, "its size does not fit");
		return;
	}
	double *numbers = arena_array(n->importer->context->arena, (size_t)(points * (axes + 1)) + 1, sizeof *numbers);
	for (int64_t k = 0; numbers && k < points; k++) {
		int64_t rest = k;
		numbers[k * (axes + 1) + axes] = 1;
		for (int i = axes - 1; i >= 0; i--) { /* the last axis is x */
			const double extent = (double)size.at[2 + i], at = (double)(rest % size.at[2 + i]);
			numbers[k * (axes + 1) + axes - 1 - i] =
				corners ? (extent > 1 ? 2 * at / (extent - 1) - 1 : 0) : (2 * at + 1) / extent - 1;
			rest /= size.at[2 + i];
		}
	}
	const struct shape base = {2, {points, axes + 1}};
	struct shape made = {axes + 2, {theta->type.shape.dim[0]}};
	for (int i = 0; i < axes; i++)
		made.dim[1 + i] = size.at[2 + i];
	made.dim[axes + 1] = axes;
	struct value *grid =
		numbers ? binary(n, "linear", numbers_of(n, theta->type.dtype, numbers, &base, 0), theta) : short_of_memory(n);
	give(n, 0, reshape(n, grid, &made));
}
