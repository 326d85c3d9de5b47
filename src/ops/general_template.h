/*
 * General operations in one computing type: T is float or double, X(name) its
 * function's name. Sums are in double for float, and compensated for double.
 */

/* A sum that grows: double, with Neumaier's compensation (1974) where T is double. */
struct X(total) {
	double hi, lo;
};

static inline void X(add)(struct X(total) *t, double value)
{
#ifdef WIDE
	double sum = t->hi + value;
	t->lo += fabs(t->hi) >= fabs(value) ? (t->hi - sum) + value : (value - sum) + t->hi;
	t->hi = sum;
#else
	t->hi += value;
#endif
}

static inline double X(end)(const struct X(total) *t)
{
	return isfinite(t->hi) ? t->hi + t->lo : t->hi;
}

/* Shapes. */

static void X(forward_transpose)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	const struct shape *s = &call->v->shape;
	int64_t stride[MAX_DIMS], dim[MAX_DIMS], index[MAX_DIMS] = {0}, step_of = 1, offset = 0, n = shape_count(s);
	(void)a;
	(void)keep;
	for (int i = s->ndim - 1; i >= 0; i--) {
		stride[s->ndim - 1 - i] = step_of;
		dim[s->ndim - 1 - i] = s->dim[i];
		step_of *= s->dim[i];
	}
	for (int64_t i = 0; i < n; i++) {
		y[i] = v[offset];
		step(s->ndim, dim, stride, index, &offset);
	}
}

static void X(vjp_transpose)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct op_call back = *call;
	back.v = call->y;
	(void)da;
	(void)needs;
	X(forward_transpose)(&back, dv, g, NULL, NULL);
}

static void X(forward_reshape)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	(void)keep;
	memcpy(y, v, (size_t)shape_count(&call->v->shape) * sizeof *y);
}

static void X(vjp_reshape)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	(void)needs;
	memcpy(dv, g, (size_t)shape_count(&call->v->shape) * sizeof *dv);
}

#define SAME_AS_RESHAPE(NAME)                                                                                          \
	static void X(forward_##NAME)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])        \
	{                                                                                                                  \
		X(forward_reshape)(call, y, v, a, keep);                                                                       \
	}                                                                                                                  \
	static void X(vjp_##NAME)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])         \
	{                                                                                                                  \
		X(vjp_reshape)(call, dv, da, g, needs);                                                                        \
	}
SAME_AS_RESHAPE(flatten)

/* The first index of a slice along an axis of N. */
static int64_t X(slice_start)(const struct attrs *attrs, int64_t n)
{
	int64_t low = attrs->step < 0 ? -1 : 0, high = attrs->step < 0 ? n - 1 : n;
	int64_t start = !attrs->has_start ? (attrs->step < 0 ? high : low) : attrs->start < 0 ? attrs->start + n : attrs->start;
	return start < low ? low : start > high ? high : start;
}

static void X(forward_slice)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct span3 from = split_by(call, &call->v->shape), to = split_by(call, &call->y->shape);
	int64_t start = X(slice_start)(call->attrs, from.length);
	(void)a;
	(void)keep;
	for (int64_t o = 0; o < to.outer; o++)
		for (int64_t i = 0; i < to.length; i++)
			memcpy(y + (o * to.length + i) * to.inner,
			       v + (o * from.length + start + i * call->attrs->step) * from.inner, (size_t)to.inner * sizeof *y);
}

static void X(vjp_slice)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct span3 from = split_by(call, &call->v->shape), to = split_by(call, &call->y->shape);
	int64_t start = X(slice_start)(call->attrs, from.length);
	(void)da;
	(void)needs;
	memset(dv, 0, (size_t)shape_count(&call->v->shape) * sizeof *dv);
	for (int64_t o = 0; o < to.outer; o++)
		for (int64_t i = 0; i < to.length; i++)
			memcpy(dv + (o * from.length + start + i * call->attrs->step) * from.inner,
			       g + (o * to.length + i) * to.inner, (size_t)to.inner * sizeof *dv);
}

static void X(forward_pad)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct span3 from = split_by(call, &call->v->shape), to = split_by(call, &call->y->shape);
	int64_t n = shape_count(&call->y->shape);
	(void)a;
	(void)keep;
	for (int64_t i = 0; i < n; i++)
		y[i] = (T)call->attrs->value;
	for (int64_t o = 0; o < from.outer; o++)
		memcpy(y + (o * to.length + call->attrs->before) * to.inner, v + o * from.length * from.inner,
		       (size_t)(from.length * from.inner) * sizeof *y);
}

static void X(vjp_pad)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct span3 from = split_by(call, &call->v->shape), to = split_by(call, &call->y->shape);
	(void)da;
	(void)needs;
	for (int64_t o = 0; o < from.outer; o++)
		memcpy(dv + o * from.length * from.inner, g + (o * to.length + call->attrs->before) * to.inner,
		       (size_t)(from.length * from.inner) * sizeof *dv);
}

static void X(forward_concat)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct span3 x = split_by(call, &call->v->shape), z = split_by(call, &call->a->shape);
	int64_t nx = x.length * x.inner, nz = z.length * z.inner;
	(void)keep;
	for (int64_t o = 0; o < x.outer; o++) {
		memcpy(y + o * (nx + nz), v + o * nx, (size_t)nx * sizeof *y);
		memcpy(y + o * (nx + nz) + nx, a + o * nz, (size_t)nz * sizeof *y);
	}
}

static void X(vjp_concat)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct span3 x = split_by(call, &call->v->shape), z = split_by(call, &call->a->shape);
	int64_t nx = x.length * x.inner, nz = z.length * z.inner;
	(void)needs;
	for (int64_t o = 0; o < x.outer; o++) {
		if (dv)
			memcpy(dv + o * nx, g + o * (nx + nz), (size_t)nx * sizeof *dv);
		if (da)
			memcpy(da + o * nz, g + o * (nx + nz) + nx, (size_t)nz * sizeof *da);
	}
}

static void X(roll_by)(const struct op_call *call, T *to, const T *from, int64_t shift)
{
	struct span3 s = split_by(call, &call->v->shape);
	if (s.length == 0)
		return;
	shift %= s.length;
	if (shift < 0)
		shift += s.length;
	int64_t n = s.length * s.inner, k = shift * s.inner;
	for (int64_t o = 0; o < s.outer; o++) {
		memcpy(to + o * n + k, from + o * n, (size_t)(n - k) * sizeof *to);
		memcpy(to + o * n, from + o * n + n - k, (size_t)k * sizeof *to);
	}
}

static void X(forward_roll)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	(void)keep;
	X(roll_by)(call, y, v, call->attrs->shift);
}

static void X(vjp_roll)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	(void)needs;
	X(roll_by)(call, dv, g, -call->attrs->shift);
}

/* Reductions. */

static void X(sums)(const struct op_call *call, double *hi, double *lo, const T *v)
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	/* The leading axis alone, or everything: by columns or at once. */
	if (grid.kept == 0) {
		double sum = call->kernels->sum(v, (size_t)grid.terms);
		struct X(total) t = {hi[0], lo ? lo[0] : 0};
		X(add)(&t, sum);
		hi[0] = t.hi;
		if (lo)
			lo[0] = t.lo;
		return;
	}
	bool contiguous = grid.reduced > 0 && grid.reduced_stride[grid.reduced - 1] == 1 && grid.reduced == 1;
	bool columns = grid.reduced == 1 && grid.kept > 0 && grid.reduced_stride[0] == grid.results;
	if (columns) {
		for (int64_t r = 0; r < grid.terms; r++)
			for (int64_t i = 0; i < grid.results; i++) {
				struct X(total) t = {hi[i], lo ? lo[i] : 0};
				X(add)(&t, v[r * grid.results + i]);
				hi[i] = t.hi;
				if (lo)
					lo[i] = t.lo;
			}
		return;
	}
	for (int64_t r = 0; r < grid.results; r++) {
		struct X(total) t = {hi[r], lo ? lo[r] : 0};
		if (contiguous) {
			X(add)(&t, call->kernels->sum(v + corner, (size_t)grid.terms));
		} else {
			int64_t at[MAX_DIMS] = {0}, offset = corner;
			for (int64_t i = 0; i < grid.terms; i++) {
				X(add)(&t, v[offset]);
				step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
			}
		}
		hi[r] = t.hi;
		if (lo)
			lo[r] = t.lo;
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

static void X(reduce_sum)(const struct op_call *call, T *y, const T *v, double divisor)
{
	struct grid grid;
	make_grid(&grid, call);
	/* Blocks of results on the stack. */
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	if (grid.kept == 0) {
		y[0] = (T)(call->kernels->sum(v, (size_t)grid.terms) / divisor);
		return;
	}
	for (int64_t r = 0; r < grid.results; r++) {
		struct X(total) t = {0, 0};
		if (grid.reduced == 1 && grid.reduced_stride[0] == 1) {
			t.hi = call->kernels->sum(v + corner, (size_t)grid.terms);
		} else {
			int64_t at[MAX_DIMS] = {0}, offset = corner;
			for (int64_t i = 0; i < grid.terms; i++) {
				X(add)(&t, v[offset]);
				step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
			}
		}
		y[r] = (T)(X(end)(&t) / divisor);
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

/* dv = g, spread over the reduced axes, times FACTOR. */
static void X(spread)(const struct op_call *call, T *dv, const T *g, double factor)
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	for (int64_t r = 0; r < grid.results; r++) {
		T value = factor == 1 ? g[r] : (T)((double)g[r] * factor);
		int64_t at[MAX_DIMS] = {0}, offset = corner;
		for (int64_t i = 0; i < grid.terms; i++) {
			dv[offset] = value;
			step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
		}
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

static void X(forward_sum)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	(void)keep;
	X(reduce_sum)(call, y, v, 1);
}

static void X(vjp_sum)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	(void)needs;
	X(spread)(call, dv, g, 1);
}

static double X(mean_terms)(const struct op_call *call)
{
	struct grid grid;
	make_grid(&grid, call);
	return (double)(reduces(call, 0) && call->v->shape.ndim ? whole_count(call, grid.terms) : grid.terms);
}

static void X(forward_mean)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	(void)keep;
	X(reduce_sum)(call, y, v, X(mean_terms)(call));
}

static void X(vjp_mean)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	(void)needs;
	X(spread)(call, dv, g, 1 / X(mean_terms)(call));
}

static void X(extreme)(const struct op_call *call, T *y, const T *v, bool largest)
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	for (int64_t r = 0; r < grid.results; r++) {
		int64_t at[MAX_DIMS] = {0}, offset = corner;
		T best = v[corner];
		for (int64_t i = 0; i < grid.terms; i++) {
			T x = v[offset];
			if (best == best && (x != x || (largest ? x > best : x < best)))
				best = x;
			step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
		}
		y[r] = best;
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

static void X(extreme_back)(const struct op_call *call, T *dv, const T *g, const T *v, const T *y)
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	for (int64_t r = 0; r < grid.results; r++) {
		int64_t ties = 0;
		for (int pass = 0; pass < 2; pass++) {
			int64_t at[MAX_DIMS] = {0}, offset = corner;
			for (int64_t i = 0; i < grid.terms; i++) {
				bool tie = v[offset] == y[r];
				if (pass == 0)
					ties += tie;
				else
					dv[offset] = tie ? g[r] / (T)ties : (y[r] != y[r] ? y[r] : 0);
				step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
			}
		}
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

static void X(forward_amax)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	(void)keep;
	X(extreme)(call, y, v, true);
}

static void X(vjp_amax)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	X(extreme_back)(call, dv, g, needs[0], needs[2]);
}

static void X(forward_amin)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	(void)keep;
	X(extreme)(call, y, v, false);
}

static void X(vjp_amin)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	X(extreme_back)(call, dv, g, needs[0], needs[2]);
}

static void X(forward_prod)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	(void)a;
	(void)keep;
	for (int64_t r = 0; r < grid.results; r++) {
		int64_t at[MAX_DIMS] = {0}, offset = corner;
		double product = 1;
		for (int64_t i = 0; i < grid.terms; i++) {
			product *= v[offset];
			step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
		}
		y[r] = (T)product;
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

/* The product of the others: from the left and from the right, so that zeros are exact. */
static void X(vjp_prod)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	const T *v = needs[0];
	(void)da;
	for (int64_t r = 0; r < grid.results; r++) {
		int64_t at[MAX_DIMS] = {0}, offset = corner;
		double left = 1;
		for (int64_t i = 0; i < grid.terms; i++) {
			dv[offset] = (T)left;
			left *= v[offset];
			step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
		}
		double right = g[r];
		for (int64_t i = grid.terms; i-- > 0;) {
			int64_t back = i, place = corner;
			for (int d = grid.reduced - 1; d >= 0; d--) {
				place += back % grid.reduced_dim[d] * grid.reduced_stride[d];
				back /= grid.reduced_dim[d];
			}
			dv[place] = (T)((double)dv[place] * right);
			right *= v[place];
		}
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

static void X(forward_logsumexp)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	(void)a;
	(void)keep;
	for (int64_t r = 0; r < grid.results; r++) {
		struct X(total) t = {0, 0};
		double most = -INFINITY;
		for (int pass = 0; pass < 2; pass++) {
			int64_t at[MAX_DIMS] = {0}, offset = corner;
			for (int64_t i = 0; i < grid.terms; i++) {
				double x = v[offset];
				if (pass == 0)
					most = x > most || x != x ? x : most;
				else
					X(add)(&t, exp(x - (isfinite(most) ? most : 0)));
				step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
			}
		}
		y[r] = (T)(log(X(end)(&t)) + (isfinite(most) ? most : 0));
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

/* dv = g * f(v, y) for reductions whose slope is of the element and the result. */
static void X(vjp_logsumexp)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	const T *v = needs[0], *y = needs[2];
	(void)da;
	for (int64_t r = 0; r < grid.results; r++) {
		int64_t at[MAX_DIMS] = {0}, offset = corner;
		for (int64_t i = 0; i < grid.terms; i++) {
			dv[offset] = (T)(g[r] * exp((double)v[offset] - (double)y[r]));
			step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
		}
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

static void X(forward_norm)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	(void)a;
	(void)keep;
	for (int64_t r = 0; r < grid.results; r++) {
		double most = 0;
		struct X(total) t = {0, 0}, scaled = {0, 0};
		for (int pass = 0; pass < 2; pass++) {
			int64_t at[MAX_DIMS] = {0}, offset = corner;
			for (int64_t i = 0; i < grid.terms; i++) {
				double x = v[offset];
				if (pass == 0) {
					X(add)(&t, x * x);
					most = fabs(x) > most ? fabs(x) : most;
				} else {
					X(add)(&scaled, x / most * (x / most));
				}
				step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
			}
			/* Squares that left the range of double are taken again, scaled. */
			double sum = X(end)(&t);
			if (pass == 0 && !((sum == INFINITY || sum < 1e-290) && most > 0 && isfinite(most)))
				break;
		}
		y[r] = (T)(scaled.hi > 0 ? most * sqrt(X(end)(&scaled)) : sqrt(X(end)(&t)));
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

static void X(vjp_norm)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct grid grid;
	make_grid(&grid, call);
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	const T *v = needs[0], *y = needs[2];
	(void)da;
	for (int64_t r = 0; r < grid.results; r++) {
		int64_t at[MAX_DIMS] = {0}, offset = corner;
		for (int64_t i = 0; i < grid.terms; i++) {
			dv[offset] = y[r] == 0 ? 0 : g[r] * (v[offset] / y[r]);
			step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
		}
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

/* Along an axis. A line is s.length elements, s.inner apart. */

static void X(exp_line)(const struct op_call *call, T *to, const T *from, int64_t n, int64_t stride, double *most,
                        struct X(total) *total)
{
	enum { PIECE = 512 };
	T block[PIECE];
	*most = -INFINITY;
	for (int64_t i = 0; i < n; i++) {
		double x = from[i * stride];
		*most = x > *most || x != x ? x : *most;
	}
	/* Differences of equal infinities are 0, as scipy has them. */
	for (int64_t done = 0; done < n; done += PIECE) {
		int64_t count = n - done < PIECE ? n - done : PIECE;
		for (int64_t i = 0; i < count; i++)
			block[i] = from[(done + i) * stride] - (T)*most;
		struct kernel_args args = {.out = block, .v = block, .n = (size_t)count};
		call->kernels->forward[OP_exp][0](&args);
		for (int64_t i = 0; i < count; i++) {
			X(add)(total, block[i]);
			if (to)
				to[(done + i) * stride] = block[i];
		}
	}
}

static void X(forward_softmax)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct span3 s = split_by(call, &call->v->shape);
	(void)a;
	(void)keep;
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t i = 0; i < s.inner; i++) {
			int64_t at = o * s.length * s.inner + i;
			struct X(total) t = {0, 0};
			double most;
			X(exp_line)(call, y + at, v + at, s.length, s.inner, &most, &t);
			double sum = X(end)(&t);
			for (int64_t k = 0; k < s.length; k++)
				y[at + k * s.inner] = (T)(y[at + k * s.inner] / sum);
		}
}

static void X(vjp_softmax)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct span3 s = split_by(call, &call->v->shape);
	const T *y = needs[2];
	(void)da;
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t i = 0; i < s.inner; i++) {
			int64_t at = o * s.length * s.inner + i;
			struct X(total) t = {0, 0};
			for (int64_t k = 0; k < s.length; k++)
				X(add)(&t, (double)g[at + k * s.inner] * y[at + k * s.inner]);
			T mean = (T)X(end)(&t);
			for (int64_t k = 0; k < s.length; k++)
				dv[at + k * s.inner] = y[at + k * s.inner] * (g[at + k * s.inner] - mean);
		}
}

static void X(forward_log_softmax)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct span3 s = split_by(call, &call->v->shape);
	(void)a;
	(void)keep;
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t i = 0; i < s.inner; i++) {
			int64_t at = o * s.length * s.inner + i;
			struct X(total) t = {0, 0};
			double most;
			X(exp_line)(call, NULL, v + at, s.length, s.inner, &most, &t);
			double shift = log(X(end)(&t));
			for (int64_t k = 0; k < s.length; k++)
				y[at + k * s.inner] = (T)((double)v[at + k * s.inner] - most - shift);
		}
}

static void X(vjp_log_softmax)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct span3 s = split_by(call, &call->v->shape);
	const T *y = needs[2];
	(void)da;
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t i = 0; i < s.inner; i++) {
			int64_t at = o * s.length * s.inner + i;
			struct X(total) t = {0, 0};
			for (int64_t k = 0; k < s.length; k++)
				X(add)(&t, g[at + k * s.inner]);
			double sum = X(end)(&t);
			for (int64_t k = 0; k < s.length; k++)
				dv[at + k * s.inner] = (T)((double)g[at + k * s.inner] - exp((double)y[at + k * s.inner]) * sum);
		}
}

static void X(normalise)(const struct op_call *call, T *y, const T *v, T *scale, bool centred)
{
	struct span3 s = split_by(call, &call->v->shape);
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t i = 0; i < s.inner; i++) {
			int64_t at = o * s.length * s.inner + i;
			struct X(total) sum = {0, 0}, squares = {0, 0};
			for (int64_t k = 0; k < s.length && centred; k++)
				X(add)(&sum, v[at + k * s.inner]);
			double mean = centred ? X(end)(&sum) / (double)s.length : 0;
			for (int64_t k = 0; k < s.length; k++) {
				double d = (double)v[at + k * s.inner] - mean;
				X(add)(&squares, d * d);
			}
			double r = 1 / sqrt(X(end)(&squares) / (double)s.length + call->attrs->eps);
			for (int64_t k = 0; k < s.length; k++)
				y[at + k * s.inner] = (T)(((double)v[at + k * s.inner] - mean) * r);
			if (scale)
				scale[o * s.inner + i] = (T)r;
		}
}

static void X(normalise_back)(const struct op_call *call, T *dv, const T *g, const T *y, const T *scale, bool centred)
{
	struct span3 s = split_by(call, &call->v->shape);
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t i = 0; i < s.inner; i++) {
			int64_t at = o * s.length * s.inner + i;
			struct X(total) sum = {0, 0}, product = {0, 0};
			for (int64_t k = 0; k < s.length; k++) {
				X(add)(&sum, g[at + k * s.inner]);
				X(add)(&product, (double)g[at + k * s.inner] * y[at + k * s.inner]);
			}
			double mean = centred ? X(end)(&sum) / (double)s.length : 0, along = X(end)(&product) / (double)s.length;
			double r = scale[o * s.inner + i];
			for (int64_t k = 0; k < s.length; k++)
				dv[at + k * s.inner] = (T)(r * ((double)g[at + k * s.inner] - mean - y[at + k * s.inner] * along));
		}
}

static void X(forward_layernorm)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	X(normalise)(call, y, v, keep ? keep[0] : NULL, true);
}

static void X(vjp_layernorm)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	X(normalise_back)(call, dv, g, needs[2], needs[3], true);
}

static void X(forward_rmsnorm)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	X(normalise)(call, y, v, keep ? keep[0] : NULL, false);
}

static void X(vjp_rmsnorm)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	X(normalise_back)(call, dv, g, needs[2], needs[3], false);
}

static void X(forward_cumsum)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct span3 s = split_by(call, &call->v->shape);
	(void)a;
	(void)keep;
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t k = 0; k < s.length; k++)
			for (int64_t i = 0; i < s.inner; i++) {
				int64_t at = (o * s.length + k) * s.inner + i;
				y[at] = k ? y[at - s.inner] + v[at] : v[at];
			}
}

static void X(vjp_cumsum)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	struct span3 s = split_by(call, &call->v->shape);
	(void)da;
	(void)needs;
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t k = s.length; k-- > 0;)
			for (int64_t i = 0; i < s.inner; i++) {
				int64_t at = (o * s.length + k) * s.inner + i;
				dv[at] = k + 1 < s.length ? dv[at + s.inner] + g[at] : g[at];
			}
}

/*
 * laplacian: sum over axes, the first first, of ((v[i-1] - 2 v[i]) + v[i+1]) / dx^2.
 * Beyond the edges: periodic wraps, zero is 0, reflect mirrors without repeating
 * the edge. Periodic and zero are their own transposes; reflect's derivative
 * sends what was read twice back twice.
 */
static void X(neighbours)(const struct op_call *call, int64_t n, int64_t i, int64_t *before, int64_t *after)
{
	*before = i - 1;
	*after = i + 1;
	switch (call->attrs->boundary) {
	case BOUNDARY_PERIODIC:
		*before = i ? i - 1 : n - 1;
		*after = i + 1 < n ? i + 1 : 0;
		return;
	case BOUNDARY_REFLECT:
		*before = i ? i - 1 : n > 1 ? 1 : 0;
		*after = i + 1 < n ? i + 1 : n > 1 ? n - 2 : 0;
		return;
	case BOUNDARY_ZERO:
		if (i + 1 == n)
			*after = -1;
		return;
	}
}

static void X(second_difference)(const struct op_call *call, T *y, const T *v, int axis, bool first)
{
	struct span3 s = split_at(&call->v->shape, axis);
	T scale = (T)(1 / (call->attrs->dx * call->attrs->dx));
	bool unit = call->attrs->dx == 1;
	for (int64_t o = 0; o < s.outer; o++)
		for (int64_t k = 0; k < s.length; k++) {
			int64_t b, f;
			X(neighbours)(call, s.length, k, &b, &f);
			const T *base = v + o * s.length * s.inner, *c = base + k * s.inner;
			const T *p = b >= 0 ? base + b * s.inner : NULL, *q = f >= 0 ? base + f * s.inner : NULL;
			T *to = y + (o * s.length + k) * s.inner;
			if (s.inner == 1) { /* the last axis: a line at once, its ends apart */
				if (k > 0 && k + 1 < s.length) {
					int64_t end = s.length - 1;
					const T *line = base;
					T *out = y + o * s.length;
					if (first)
						for (int64_t j = k; j < end; j++)
							out[j] = unit ? (line[j - 1] - 2 * line[j]) + line[j + 1] : ((line[j - 1] - 2 * line[j]) + line[j + 1]) * scale;
					else
						for (int64_t j = k; j < end; j++)
							out[j] += unit ? (line[j - 1] - 2 * line[j]) + line[j + 1] : ((line[j - 1] - 2 * line[j]) + line[j + 1]) * scale;
					k = end - 1;
					continue;
				}
			}
			if (p && q && unit) {
				if (first)
					for (int64_t i = 0; i < s.inner; i++)
						to[i] = (p[i] - 2 * c[i]) + q[i];
				else
					for (int64_t i = 0; i < s.inner; i++)
						to[i] += (p[i] - 2 * c[i]) + q[i];
				continue;
			}
			for (int64_t i = 0; i < s.inner; i++) {
				T d = (((p ? p[i] : 0) - 2 * c[i]) + (q ? q[i] : 0)) * scale;
				to[i] = first ? d : to[i] + d;
			}
		}
}

static void X(forward_laplacian)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	bool first = true;
	(void)a;
	(void)keep;
	for (int axis = 0; axis < call->v->shape.ndim; axis++)
		if (reduces(call, axis)) {
			X(second_difference)(call, y, v, axis, first);
			first = false;
		}
	if (first)
		memset(y, 0, (size_t)shape_count(&call->v->shape) * sizeof *y);
}

static void X(vjp_laplacian)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	if (call->attrs->boundary != BOUNDARY_REFLECT) {
		X(forward_laplacian)(call, dv, g, NULL, NULL);
		return;
	}
	(void)needs;
	T scale = (T)(1 / (call->attrs->dx * call->attrs->dx));
	memset(dv, 0, (size_t)shape_count(&call->v->shape) * sizeof *dv);
	for (int axis = 0; axis < call->v->shape.ndim; axis++) {
		struct span3 s = split_at(&call->v->shape, axis);
		for (int64_t o = 0; o < s.outer && reduces(call, axis); o++)
			for (int64_t k = 0; k < s.length; k++) {
				int64_t b, f;
				X(neighbours)(call, s.length, k, &b, &f);
				for (int64_t i = 0; i < s.inner; i++) {
					T d = g[(o * s.length + k) * s.inner + i] * scale;
					dv[(o * s.length + k) * s.inner + i] -= 2 * d;
					dv[(o * s.length + b) * s.inner + i] += d;
					dv[(o * s.length + f) * s.inner + i] += d;
				}
			}
	}
}

/* Convolutions: a sample's patches as columns, then one product. conv1d is conv2d of height 1. */

struct X(conv) {
	int64_t samples, in, out, h, w, kh, kw, oh, ow, sh, sw, ph, pw;
};

static struct X(conv) X(conv_of)(const struct op_call *call)
{
	const int64_t *v = call->v->shape.dim, *k = call->a->shape.dim, *y = call->y->shape.dim;
	const int64_t *st = call->attrs->stride, *pd = call->attrs->padding;
	if (call->v->shape.ndim == 3)
		return (struct X(conv)){v[0], v[1], k[0], 1, v[2], 1, k[2], 1, y[2], 1, st[0], 0, pd[0]};
	return (struct X(conv)){v[0], v[1], k[0], v[2], v[3], k[2], k[3], y[2], y[3], st[0], st[1], pd[0], pd[1]};
}

/* Columns from a sample, or (BACK) a sample's gradient from the columns'. */
static void X(columns)(const struct X(conv) *c, T *columns, T *sample, bool back)
{
	for (int64_t ch = 0; ch < c->in; ch++)
		for (int64_t y = 0; y < c->kh; y++)
			for (int64_t x = 0; x < c->kw; x++) {
				T *row = columns + ((ch * c->kh + y) * c->kw + x) * c->oh * c->ow;
				for (int64_t oy = 0; oy < c->oh; oy++)
					for (int64_t ox = 0; ox < c->ow; ox++) {
						int64_t iy = oy * c->sh + y - c->ph, ix = ox * c->sw + x - c->pw;
						bool in = iy >= 0 && iy < c->h && ix >= 0 && ix < c->w;
						T *at = in ? &sample[(ch * c->h + iy) * c->w + ix] : NULL;
						if (!back)
							row[oy * c->ow + ox] = in ? *at : 0;
						else if (in)
							*at += row[oy * c->ow + ox];
					}
			}
}

static void X(convolve)(const struct op_call *call, T *y, const T *v, const T *a)
{
	struct X(conv) c = X(conv_of)(call);
	int64_t taps = c.in * c.kh * c.kw, places = c.oh * c.ow;
	T *columns = call->scratch;
	for (int64_t n = 0; n < c.samples; n++) {
		X(columns)(&c, columns, (T *)(uintptr_t)(v + n * c.in * c.h * c.w), false);
		gemm(call->v->dtype, false, false, c.out, places, taps, a, taps, columns, places, false, y + n * c.out * places, places);
	}
}

static void X(convolve_back)(const struct op_call *call, T *dv, T *da, const T *g, const T *v, const T *a)
{
	struct X(conv) c = X(conv_of)(call);
	int64_t taps = c.in * c.kh * c.kw, places = c.oh * c.ow;
	T *columns = call->scratch;
	if (da && c.samples == 0)
		memset(da, 0, (size_t)shape_count(&call->a->shape) * sizeof *da);
	for (int64_t n = 0; n < c.samples; n++) {
		const T *gn = g + n * c.out * places;
		if (da) {
			X(columns)(&c, columns, (T *)(uintptr_t)(v + n * c.in * c.h * c.w), false);
			gemm(call->v->dtype, false, true, c.out, taps, places, gn, places, columns, places, n > 0, da, taps);
		}
		if (dv) {
			T *sample = dv + n * c.in * c.h * c.w;
			gemm(call->v->dtype, true, false, taps, places, c.out, a, taps, gn, places, false, columns, places);
			memset(sample, 0, (size_t)(c.in * c.h * c.w) * sizeof *sample);
			X(columns)(&c, columns, sample, true);
		}
	}
}

#define DEFINE_CONV(NAME)                                                                                              \
	static void X(forward_##NAME)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])        \
	{                                                                                                                  \
		(void)keep;                                                                                                    \
		X(convolve)(call, y, v, a);                                                                                    \
	}                                                                                                                  \
	static void X(vjp_##NAME)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])         \
	{                                                                                                                  \
		X(convolve_back)(call, dv, da, g, needs[0], needs[1]);                                                         \
	}
DEFINE_CONV(conv1d)
DEFINE_CONV(conv2d)
#undef DEFINE_CONV

/* dropout: element i of the whole array is kept where word i of the stream is at least p. */
static void X(drop)(const struct op_call *call, T *to, const T *from)
{
	int64_t n = shape_count(&call->v->shape);
	T scale = (T)(1 / (1 - call->attrs->p));
	uint64_t threshold = (uint64_t)(call->attrs->p * 4294967296.0);
	uint32_t words[4];
	uint64_t have = UINT64_MAX;
	for (int64_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)(call->first + i);
		if (at / 4 != have) {
			have = at / 4;
			philox(have, (uint64_t)call->attrs->seed, words);
		}
		to[i] = words[at % 4] >= threshold ? from[i] * scale : 0;
	}
}

static void X(forward_dropout)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	(void)a;
	(void)keep;
	X(drop)(call, y, v);
}

static void X(vjp_dropout)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	(void)da;
	(void)needs;
	X(drop)(call, dv, g);
}

/* Broadcasting. */

static void X(fill)(const struct kernels *kernels, T *to, const T *a, const struct shape *from, const struct shape *result,
                    int64_t first, int64_t n)
{
	int64_t count = shape_count(from), total = 1;
	if (count == 1) {
		kernels->fill(to, a[0], (size_t)n);
		return;
	}
	/* A trailing pattern, repeated. */
	bool trailing = true;
	for (int i = 1; i <= from->ndim; i++)
		trailing &= from->dim[from->ndim - i] == result->dim[result->ndim - i];
	if (trailing) {
		for (int64_t done = 0, at = first % count; done < n;) {
			int64_t piece = count - at < n - done ? count - at : n - done;
			memcpy(to + done, a + at, (size_t)piece * sizeof *to);
			done += piece;
			at = 0;
		}
		return;
	}
	int64_t stride[MAX_DIMS], index[MAX_DIMS], offset = 0;
	broadcast_strides(from, result, stride);
	for (int i = result->ndim - 1; i >= 0; i--) {
		index[i] = first / total % result->dim[i];
		total *= result->dim[i];
		offset += index[i] * stride[i];
	}
	for (int64_t i = 0; i < n; i++) {
		to[i] = a[offset];
		step(result->ndim, result->dim, stride, index, &offset);
	}
}

static void X(sum_to)(const struct kernels *kernels, T *to, const struct shape *shape, const T *from,
                      const struct shape *whole)
{
	int64_t results = shape_count(shape), count = shape_count(whole);
	if (results == 1) {
		to[0] = (T)kernels->sum(from, (size_t)count);
		return;
	}
	bool trailing = true;
	for (int i = 1; i <= shape->ndim; i++)
		trailing &= shape->dim[shape->ndim - i] == whole->dim[whole->ndim - i];
	if (trailing && results > 0) {
		enum { PIECE = 256 };
		for (int64_t c = 0; c < results; c += PIECE) {
			struct X(total) sums[PIECE];
			int64_t n = results - c < PIECE ? results - c : PIECE;
			memset(sums, 0, sizeof sums);
			for (int64_t r = 0; r < count / results; r++)
				for (int64_t i = 0; i < n; i++)
					X(add)(&sums[i], from[r * results + c + i]);
			for (int64_t i = 0; i < n; i++)
				to[c + i] = (T)X(end)(&sums[i]);
		}
		return;
	}
	/* Each result by itself: the axes that it was spread over. */
	int64_t strides[MAX_DIMS], s = 1;
	struct grid grid = {.results = 1, .terms = 1};
	for (int i = whole->ndim - 1; i >= 0; i--) {
		strides[i] = s;
		s *= whole->dim[i];
	}
	for (int i = 0; i < whole->ndim; i++) {
		int k = i - (whole->ndim - shape->ndim);
		if ((k >= 0 ? shape->dim[k] : 1) == whole->dim[i]) {
			grid.kept_dim[grid.kept] = whole->dim[i];
			grid.kept_stride[grid.kept++] = strides[i];
		} else {
			grid.reduced_dim[grid.reduced] = whole->dim[i];
			grid.reduced_stride[grid.reduced++] = strides[i];
			grid.terms *= whole->dim[i];
		}
	}
	int64_t index[MAX_DIMS] = {0}, corner = 0;
	for (int64_t r = 0; r < results; r++) {
		struct X(total) t = {0, 0};
		int64_t at[MAX_DIMS] = {0}, offset = corner;
		for (int64_t i = 0; i < grid.terms; i++) {
			X(add)(&t, from[offset]);
			step(grid.reduced, grid.reduced_dim, grid.reduced_stride, at, &offset);
		}
		to[r] = (T)X(end)(&t);
		step(grid.kept, grid.kept_dim, grid.kept_stride, index, &corner);
	}
}

/* Losses: differences d of v and t, broadcast; their terms; their slopes, which are kept. */

static T X(loss_term)(const struct op_call *call, T d)
{
	T size = d < 0 ? -d : d, delta = (T)call->attrs->delta;
	if (call->op == OP_mse)
		return d * d;
	if (call->op == OP_mae)
		return size;
	return size <= delta ? d * d / 2 : delta * (size - delta / 2);
}

static T X(loss_slope)(const struct op_call *call, T d)
{
	T delta = (T)call->attrs->delta;
	if (call->op == OP_mse)
		return d;
	if (call->op == OP_mae)
		return d > 0 ? 1 : d < 0 ? -1 : d;
	return d > delta ? delta : d < -delta ? -delta : d;
}

static double X(loss_sum)(const struct op_call *call, const T *v, const T *t, T *kept)
{
	struct shape shape;
	int64_t n = loss_shape(call, &shape);
	T *x = call->scratch, *z = x + n;
	bool same_v = shape_equal(&shape, &call->v->shape), same_t = shape_equal(&shape, &call->a->shape);
	if (!same_v)
		X(fill)(call->kernels, x, v, &call->v->shape, &shape, 0, n);
	if (!same_t)
		X(fill)(call->kernels, z, t, &call->a->shape, &shape, 0, n);
	const T *from = same_v ? v : x, *target = same_t ? t : z;
	for (int64_t i = 0; i < n; i++) {
		T d = from[i] - target[i];
		if (kept)
			kept[i] = X(loss_slope)(call, d);
		x[i] = X(loss_term)(call, d);
	}
	return call->kernels->sum(x, (size_t)n);
}

static void X(forward_loss)(const struct op_call *call, T *y, const T *v, const T *t, T *kept)
{
	struct shape shape;
	double sum = X(loss_sum)(call, v, t, kept);
	if (y)
		y[0] = (T)(sum / (double)whole_count(call, loss_shape(call, &shape)));
}

static void X(vjp_loss)(const struct op_call *call, T *dv, T *da, const T *g, const T *kept)
{
	struct shape shape;
	int64_t n = loss_shape(call, &shape);
	T factor = (T)((double)g[0] * (call->op == OP_mse ? 2.0 : 1.0) / (double)whole_count(call, n));
	T *x = call->scratch;
	for (int side = 0; side < 2; side++) {
		T *to = side ? da : dv;
		const struct shape *want = side ? &call->a->shape : &call->v->shape;
		if (!to)
			continue;
		bool same = shape_equal(want, &shape);
		T *d = same ? to : x;
		T f = side ? -factor : factor;
		for (int64_t i = 0; i < n; i++)
			d[i] = f * kept[i];
		if (!same)
			X(sum_to)(call->kernels, to, want, d, &shape);
	}
}

#define DEFINE_LOSS(NAME)                                                                                              \
	static void X(forward_##NAME)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])        \
	{                                                                                                                  \
		X(forward_loss)(call, y, v, a, keep ? keep[0] : NULL);                                                         \
	}                                                                                                                  \
	static void X(vjp_##NAME)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])         \
	{                                                                                                                  \
		X(vjp_loss)(call, dv, da, g, needs[3]);                                                                        \
	}
DEFINE_LOSS(mse)
DEFINE_LOSS(mae)
DEFINE_LOSS(huber)
#undef DEFINE_LOSS

/* The sum over rows of -log_softmax(v)[t]; softmax is kept. A class that is none gives NaN. */
static void X(entropy_sum)(const struct op_call *call, struct X(total) *total, const T *v, const T *t, T *kept)
{
	int64_t classes = call->v->shape.dim[call->v->shape.ndim - 1], rows = shape_count(&call->a->shape);
	for (int64_t r = 0; r < rows; r++) {
		struct X(total) sum = {0, 0};
		double most;
		T *row = kept ? kept + r * classes : NULL;
		X(exp_line)(call, row, v + r * classes, classes, 1, &most, &sum);
		double all = X(end)(&sum), class = t[r];
		for (int64_t i = 0; row && i < classes; i++)
			row[i] = (T)(row[i] / all);
		bool known = class >= 0 && class < (double)classes && class == floor(class);
		X(add)(total, known ? log(all) + most - (double)v[r * classes + (int64_t)class] : NAN);
	}
}

static void X(forward_cross_entropy)(const struct op_call *call, T *y, const T *v, const T *a, void *const keep[])
{
	struct X(total) total = {0, 0};
	X(entropy_sum)(call, &total, v, a, keep ? keep[0] : NULL);
	if (y)
		y[0] = (T)(X(end)(&total) / (double)whole_count(call, shape_count(&call->a->shape)));
}

static void X(vjp_cross_entropy)(const struct op_call *call, T *dv, T *da, const T *g, const void *const needs[])
{
	int64_t classes = call->v->shape.dim[call->v->shape.ndim - 1], rows = shape_count(&call->a->shape);
	const T *t = needs[1], *kept = needs[3];
	T factor = (T)((double)g[0] / (double)whole_count(call, rows));
	(void)da;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < classes; i++)
			dv[r * classes + i] = factor * (kept[r * classes + i] - (t[r] == (T)i ? 1 : 0));
}

static void X(sum_partial)(const struct op_call *call, double *hi, double *lo, const T *v, const T *a,
                           void *const keep[])
{
	if (call->op == OP_sum || call->op == OP_mean) {
		X(sums)(call, hi, lo, v);
		return;
	}
	struct X(total) t = {hi[0], lo ? lo[0] : 0};
	if (call->op == OP_cross_entropy)
		X(entropy_sum)(call, &t, v, a, keep ? keep[0] : NULL);
	else
		X(add)(&t, X(loss_sum)(call, v, a, keep ? keep[0] : NULL));
	hi[0] = t.hi;
	if (lo)
		lo[0] = t.lo;
}
#undef SAME_AS_RESHAPE
