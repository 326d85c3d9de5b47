/*
 * GridSample: elements at places that are computed. Each place becomes the indices of its neighbours along each axis, and
 * a weight for each; the result is the sum over all combinations of them. MaxUnpool puts elements at given places.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

enum { AXES_MOST = 3, NEIGHBOURS_MOST = 4, FLAT_MOST = 1 << 24 };

/* The neighbours of the places along one axis. */
struct neighbours {
	int count;
	struct value *index[NEIGHBOURS_MOST], *weight[NEIGHBOURS_MOST]; /* [batch,places]; a weight of NULL is 1 */
};

struct sampler {
	struct node *node;
	const char *mode, *padding;
	bool corners; /* -1 and 1 are the centres of the outermost elements, not their edges */
	int axes;
};

/* Returns X, mirrored until it lies between FIRST and LAST. */
static struct value *mirrored(struct node *n, struct value *x, double first, double last)
{
	const double span = last - first;
	if (span == 0)
		return times(n, x, 0);
	struct value *within = binary(n, "mod", plus(n, x, -first), number_like(n, x, 2 * span));
	struct value *far = unary(n, "abs", plus(n, within, -span));
	return far ? binary(n, "sub", number_like(n, far, first + span), far) : NULL;
}

/* Returns PLACE, a coordinate or an index along an axis of EXTENT, as the padding of S moves it. */
static struct value *moved_inside(const struct sampler *s, struct value *place, int64_t extent)
{
	struct node *n = s->node;
	const double last = (double)extent - 1, edge = s->corners ? 0 : 0.5;
	if (!strcmp(s->padding, "reflection"))
		place = mirrored(n, place, -edge, last + edge);
	return place;
}

/* Returns the weight of a cubic neighbour at DISTANCE, which is below 1 if NEAR, else from 1 to 2. */
static struct value *cubic_weight_at(struct node *n, struct value *distance, bool near)
{
	static const double a = -0.75;
	static const double inner[] = {a + 2, -(a + 3), 0, 1}, outer[] = {a, -5 * a, 8 * a, -4 * a};
	const double *c = near ? inner : outer;
	struct value *sum = plus(n, times(n, distance, c[0]), c[1]);
	for (int i = 2; i < 4; i++)
		sum = plus(n, binary(n, "mul", sum, distance), c[i]);
	return sum;
}

/* Stores the neighbours of the places X along an axis of EXTENT. False if that cannot be said. */
static bool find_neighbours(const struct sampler *s, struct value *x, int64_t extent, struct neighbours *found)
{
	struct node *n = s->node;
	const bool zeros = !strcmp(s->padding, "zeros"), cubic = !strcmp(s->mode, "cubic");
	const bool nearest = !strcmp(s->mode, "nearest");
	const double last = (double)extent - 1;
	x = once(n, moved_inside(s, nearest ? unary(n, "round", x) : x, extent));
	struct value *base = nearest ? x : bind(n, unary(n, "floor", x), "corner");
	struct value *beyond = nearest ? NULL : bind(n, binary(n, "sub", x, base), "beyond");
	found->count = nearest ? 1 : cubic ? 4 : 2;
	for (int i = 0; i < found->count; i++) {
		struct value *index = plus(n, base, i - (cubic ? 1 : 0)), *weight = NULL;
		if (cubic) {
			const bool near = i == 1 || i == 2;
			struct value *distance = i < 2 ? plus(n, beyond, 1 - i) : NULL;
			if (i >= 2)
				distance = beyond ? binary(n, "sub", number_like(n, beyond, i - 1), beyond) : NULL;
			weight = cubic_weight_at(n, distance ? bind(n, distance, "distance") : NULL, near);
		} else if (!nearest) {
			weight = i ? beyond : beyond ? binary(n, "sub", number_like(n, beyond, 1), beyond) : NULL;
		}
		if (cubic)
			index = moved_inside(s, index, extent);
		index = index ? bind(n, index, "index") : NULL;
		if (zeros && index) {
			struct value *inside = binary(n, "and", binary(n, "ge", index, number_like(n, index, 0)),
			                              binary(n, "le", index, number_like(n, index, last)));
			struct value *one = weight ? weight : nearest ? number_like(n, x, 1) : NULL;
			weight = one ? choose(n, inside, one, number_like(n, one, 0)) : NULL;
		}
		const char *end = number_text(n, last, DTYPE_F64);
		index = end ? apply(n, "clip", index, "0 %s", end) : NULL;
		found->index[i] = index ? bind(n, index, "index") : NULL;
		found->weight[i] = weight ? bind(n, weight, "weight") : NULL;
		if (!found->index[i] || (!found->weight[i] && (zeros || !nearest)))
			return false;
	}
	return true;
}

/* Returns the sum over all combinations of NEIGHBOURS of the elements of V, [batch,channels,elements], that they name. */
static struct value *sum_neighbours(const struct sampler *s, struct value *v, const struct neighbours *neighbours,
                                    const struct shape *shape)
{
	struct node *n = s->node;
	struct value *sum = NULL;
	int all = 1;
	for (int i = 0; i < s->axes; i++)
		all *= neighbours[i].count;
	for (int k = 0; k < all; k++) {
		struct value *at = NULL, *weight = NULL;
		int64_t stride = 1;
		int rest = k;
		for (int i = s->axes - 1; i >= 0; i--) {
			const struct neighbours *own = &neighbours[i];
			const int which = rest % own->count;
			struct value *step = times(n, own->index[which], (double)stride), *factor = own->weight[which];
			at = at ? binary(n, "add", step, at) : step;
			weight = weight && factor ? binary(n, "mul", factor, weight) : weight ? weight : factor;
			stride *= shape->dim[2 + i];
			rest /= own->count;
		}
		struct value *taken_here = apply_to(n, "take_along", v, new_axis(n, at, 1), "axis=2");
		if (weight)
			taken_here = binary(n, "mul", taken_here, new_axis(n, weight, 1));
		sum = sum ? binary(n, "add", sum, taken_here) : taken_here;
		if (!sum)
			return NULL;
	}
	return sum;
}

void translate_grid_sample(struct node *n)
{
	struct value *v = needed(n, 0), *grid = needed(n, 1);
	const char *mode = attribute_text(n, "mode", "linear");
	struct sampler s = {.node = n,
	                    .padding = attribute_text(n, "padding_mode", "zeros"),
	                    .corners = attribute_integer(n, "align_corners", 0)};
	if (!v || !grid)
		return;
	s.mode = !strcmp(mode, "bilinear") ? "linear" : !strcmp(mode, "bicubic") ? "cubic" : mode;
	const struct shape *shape = &v->type.shape, *places = &grid->type.shape;
	s.axes = shape->ndim - 2;
	int64_t elements = 1, count = 1;
	for (int i = 0; i < s.axes && s.axes <= AXES_MOST; i++)
		elements *= shape->dim[2 + i] > 0 && shape->dim[2 + i] <= FLAT_MOST ? shape->dim[2 + i] : FLAT_MOST;
	for (int i = 1; i < places->ndim - 1; i++)
		count *= places->dim[i] > 0 && places->dim[i] <= FLAT_MOST ? places->dim[i] : FLAT_MOST;
	if (s.axes < 1 || s.axes > AXES_MOST || places->ndim != shape->ndim || places->dim[s.axes + 1] != s.axes ||
	    places->dim[0] != shape->dim[0] || elements > FLAT_MOST || count > FLAT_MOST) {
		refuse(n, "its grid and its array do not fit");
		return;
	}
	struct shape flat = {3, {shape->dim[0], shape->dim[1], elements}},
				 made = {shape->ndim, {shape->dim[0], shape->dim[1]}};
	const struct shape vector = {2, {places->dim[0], count}};
	struct neighbours neighbours[AXES_MOST];
	for (int i = 0; i < s.axes; i++) {
		const int64_t extent = shape->dim[2 + i];
		made.dim[2 + i] = places->dim[1 + i];
		/* The grid's last axis begins with the coordinate along the array's last axis. */
		struct value *g = plus(n, reshape(n, pick(n, grid, s.axes + 1, s.axes - 1 - i), &vector), 1);
		struct value *x =
			s.corners ? times(n, g, (double)(extent - 1) / 2) : plus(n, times(n, g, (double)extent / 2), -0.5);
		if (!find_neighbours(&s, x, extent, &neighbours[i]))
			return;
	}
	v = once(n, reshape(n, v, &flat));
	give(n, 0, reshape(n, sum_neighbours(&s, v, neighbours, shape), &made));
}

void translate_max_unpool(struct node *n)
{
	struct value *v = needed(n, 0), *indices = needed(n, 1);
	const struct integers kernel = attribute_integers(n, "kernel_shape"), strides = attribute_integers(n, "strides"),
						  pads = attribute_integers(n, "pads");
	const struct integers wanted = input_integers(n, 2, "output_shape");
	if (!v || !indices || n->reason)
		return;
	struct shape shape = v->type.shape;
	const size_t axes = shape.ndim > 2 ? (size_t)shape.ndim - 2 : 0;
	bool fits = axes && kernel.count == axes && (!strides.at || strides.count == axes) &&
	            (!pads.at || pads.count == 2 * axes) && (!wanted.at || wanted.count == axes + 2);
	int64_t count = 1;
	for (size_t i = 0; fits && i < axes; i++) {
		const int64_t step = strides.at ? strides.at[i] : 1;
		int64_t *extent = &shape.dim[2 + i];
		fits = step > 0 && step < FLAT_MOST && kernel.at[i] > 0 && kernel.at[i] < FLAT_MOST && *extent < FLAT_MOST;
		*extent = (*extent - 1) * step + kernel.at[i] - (pads.at ? pads.at[i] + pads.at[axes + i] : 0);
	}
	for (int i = 0; fits && i < shape.ndim; i++) {
		fits = shape.dim[i] > 0 && shape.dim[i] <= FLAT_MOST && (!wanted.at || wanted.at[i] >= shape.dim[i]);
		count *= fits ? shape.dim[i] : 1;
		fits &= count <= FLAT_MOST && !symbol_in(n->importer, (double)shape.dim[i]);
	}
	if (!fits || !shape_equal(&v->type.shape, &indices->type.shape)) {
		refuse(n, "its array, indices and output_shape do not fit");
		return;
	}
	const struct shape flat = {1, {shape_count(&v->type.shape)}};
	struct value *made =
		apply_to(n, "scatter_add", reshape(n, v, &flat), reshape(n, indices, &flat), "%lld", (long long)count);
	made = reshape(n, made, &shape);
	for (int i = 0; wanted.at && i < shape.ndim; i++)
		made = padded(n, made, i, 0, wanted.at[i] - shape.dim[i], 0);
	give(n, 0, made);
}
