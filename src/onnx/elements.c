/*
 * Operators on each element.
 *
 * Integers of a model are floating numbers in a chain, which hold them exactly up to 2^53. So a division of integers is
 * truncated, and one of narrow unsigned integers that may wrap is reduced.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

static bool is_integer(const struct value *v) { return v && dtype_is_integer(v->type.dtype); }

void translate_identity(struct node *n) { give(n, 0, needed(n, 0)); }

void translate_dropout(struct node *n)
{
	double training = 0, ratio = 0.5;
	if (input(n, 2) && !input_number(n, 2, "training_mode", &training))
		return;
	if (input(n, 1) && training != 0 && !input_number(n, 1, "ratio", &ratio))
		return;
	if (training != 0 && ratio != 0) {
		refuse(n, "it draws random numbers: training_mode is true");
		return;
	}
	struct value *v = needed(n, 0);
	give(n, 0, v);
	if (v && is_wanted(n, 1))
		give(n, 1, filled(n, DTYPE_BOOL, &v->type.shape, 1));
}

void translate_constant(struct node *n)
{
	const Onnx__AttributeProto *a = attribute(n, "value");
	const struct tensor *tensor;
	struct arena *arena = n->importer->context->arena;
	if (a && a->t) {
		if (!n->importer->outcome)
			n->importer->outcome = tensor_read(n->importer, a->t, n->output_count ? n->proto->output[0] : "", &tensor);
		struct value *v = n->importer->outcome ? NULL : constant(n, tensor);
		if (v && n->importer->weights_in_nodes && !n->scope->outer && !n->scope->call)
			v->weight = !dtype_is_integer(tensor->type.dtype) && shape_count(&tensor->type.shape) > 1;
		give(n, 0, v);
		return;
	}
	if ((a = attribute(n, "value_float")))
		give(n, 0, filled(n, DTYPE_F32, NULL, (double)a->f));
	else if ((a = attribute(n, "value_int")))
		give(n, 0, filled(n, DTYPE_I64, NULL, (double)a->i));
	else if ((a = attribute(n, "value_floats")) || (a = attribute(n, "value_ints"))) {
		const size_t count = a->n_floats ? a->n_floats : a->n_ints;
		double *numbers = arena_array(arena, count + 1, sizeof *numbers);
		for (size_t i = 0; numbers && i < count; i++)
			numbers[i] = a->n_floats ? (double)a->floats[i] : (double)a->ints[i];
		give(n, 0,
		     numbers ? numbers_of(n, a->n_floats ? DTYPE_F32 : DTYPE_I64, numbers, NULL, (int64_t)count)
		             : short_of_memory(n));
	} else
		refuse(n, "its value is no tensor of numbers");
}

void translate_cast(struct node *n)
{
	struct value *v = needed(n, 0), *like = input(n, 1);
	enum dtype dtype = like ? like->type.dtype : DTYPE_COUNT;
	const int64_t to = attribute_integer(n, "to", 0);
	if (!like && !model_dtype((int32_t)to, &dtype)) {
		refuse(n, "its type is %s, which chains do not have", model_dtype_name((int32_t)to));
		return;
	}
	give(n, 0, convert(n, v, dtype));
}

void translate_binary(struct node *n) { give(n, 0, binary(n, operation_of(n), needed(n, 0), needed(n, 1))); }

void translate_div(struct node *n)
{
	struct value *a = needed(n, 0), *b = needed(n, 1), *quotient = binary(n, "div", a, b);
	give(n, 0, is_integer(a) && is_integer(b) ? unary(n, "trunc", quotient) : quotient);
}

void translate_power(struct node *n)
{
	struct value *v = needed(n, 0), *power = binary(n, "pow", v, needed(n, 1));
	give(n, 0, power && is_integer(v) && !is_integer(input(n, 1)) ? unary(n, "trunc", power) : power);
}

void translate_mod(struct node *n)
{
	struct value *v = needed(n, 0), *a = needed(n, 1);
	if (!attribute_integer(n, "fmod", 0)) {
		give(n, 0, binary(n, "mod", v, a));
		return;
	}
	/* The remainder has the sign of the dividend. */
	v = once(n, v);
	give(n, 0, binary(n, "mul", unary(n, "sign", v), binary(n, "mod", unary(n, "abs", v), unary(n, "abs", a))));
}

static int bits_of(enum dtype dtype) { return 8 * (int)dtype_size(dtype); }
static bool is_unsigned(enum dtype dtype) { return dtype >= DTYPE_U8 && dtype <= DTYPE_U64; }

struct value *wrapped(struct node *n, struct value *v, enum dtype dtype)
{
	if (bits_of(dtype) > 32) /* a chain holds integers up to 2^53 alone, so those that would wrap are beyond it */
		return typed(n, v, dtype);
	const double range = ldexp(1, bits_of(dtype)), half = is_unsigned(dtype) ? 0 : range / 2;
	v = binary(n, "mod", plus(n, v, half), filled(n, DTYPE_F64, NULL, range));
	return typed(n, plus(n, v, -half), dtype);
}

void translate_shift(struct node *n)
{
	struct value *v = needed(n, 0), *a = needed(n, 1);
	const bool right = !strcmp(attribute_text(n, "direction", ""), "RIGHT");
	if (!v || !a)
		return;
	const enum dtype dtype = v->type.dtype;
	struct value *power, *made;
	v = once(n, v);
	a = bind(n, a, "shift");
	power = binary(n, "pow", number_like(n, a, 2), a);
	made = right ? unary(n, "floor", binary(n, "div", v, power)) : wrapped(n, binary(n, "mul", v, power), dtype);
	if (!v || !made)
		return;
	/* A shift by more than there is leaves nothing, or the sign. */
	struct value *beyond =
		right && !is_unsigned(dtype) ? unary(n, "neg", binary(n, "lt", v, number_like(n, v, 0))) : number_like(n, v, 0);
	struct value *inside = binary(n, "and", binary(n, "ge", a, number_like(n, a, 0)),
	                              binary(n, "lt", a, number_like(n, a, bits_of(dtype))));
	give(n, 0, typed(n, choose(n, inside, typed(n, made, dtype), typed(n, beyond, dtype)), dtype));
}

void translate_bitwise_not(struct node *n)
{
	struct value *v = needed(n, 0);
	if (v)
		give(n, 0,
		     typed(n,
		           binary(n, "sub",
		                  filled(n, DTYPE_F64, NULL,
		                         is_unsigned(v->type.dtype) ? ldexp(1, bits_of(v->type.dtype)) - 1 : -1),
		                  v),
		           v->type.dtype));
}

/* Returns the COUNT bits of V, an integer, along a new last axis. POWERS has those of 2. */
static struct value *bits_along(struct node *n, struct value *v, struct value *powers)
{
	struct value *column = v ? new_axis(n, v, v->type.shape.ndim) : NULL;
	return binary(n, "mod", unary(n, "floor", binary(n, "div", column, powers)), number_like(n, column, 2));
}

void translate_bitwise(struct node *n)
{
	enum { EXACT = 53 }; /* bits of a whole number of the chain */
	struct value *v = needed(n, 0), *a = needed(n, 1);
	const char *what = operation_of(n);
	double powers[EXACT + 1], worth[EXACT + 1];
	if (!v || !a)
		return;
	if (v->type.dtype == DTYPE_BOOL || !is_integer(v) || a->type.dtype != v->type.dtype ||
	    v->type.shape.ndim == MAX_DIMS) {
		refuse(n, "its operands are no integers of one type");
		return;
	}
	const bool has_sign = !is_unsigned(v->type.dtype);
	const int bits = bits_of(v->type.dtype) > EXACT ? EXACT + has_sign : bits_of(v->type.dtype);
	for (int i = 0; i < bits; i++)
		powers[i] = worth[i] = ldexp(1, i);
	if (has_sign) /* of two's complement */
		worth[bits - 1] = -worth[bits - 1];
	const enum dtype dtype = v->type.dtype;
	v = typed(n, v, DTYPE_F64);
	a = typed(n, a, DTYPE_F64);
	if (strcmp(what, "and")) {
		v = once(n, v);
		a = once(n, a);
	}
	struct value *two = numbers_of(n, DTYPE_F64, powers, NULL, bits);
	struct value *common = binary(n, "mul", bits_along(n, v, two), bits_along(n, a, two));
	common = binary(n, "matmul", common, numbers_of(n, DTYPE_F64, worth, NULL, bits));
	if (strcmp(what, "and")) /* a or b is a + b - (a and b) */
		common = binary(n, "sub", binary(n, "add", v, a), times(n, common, strcmp(what, "or") ? 2 : 1));
	give(n, 0, typed(n, common, dtype));
}

void translate_several(struct node *n)
{
	struct value *v = needed(n, 0);
	for (size_t i = 1; i < n->input_count; i++)
		v = binary(n, operation_of(n), v, needed(n, i));
	give(n, 0, v);
}

void translate_mean_of(struct node *n)
{
	struct value *v = needed(n, 0);
	for (size_t i = 1; i < n->input_count; i++)
		v = binary(n, "add", v, needed(n, i));
	give(n, 0, v ? binary(n, "div", v, number_like(n, v, (double)n->input_count)) : NULL);
}

void translate_compare(struct node *n)
{
	give(n, 0, typed(n, binary(n, operation_of(n), needed(n, 0), needed(n, 1)), DTYPE_BOOL));
}
void translate_not(struct node *n) { give(n, 0, unary(n, "not", needed(n, 0))); }

void translate_is_nan(struct node *n) { give(n, 0, typed(n, unary(n, "isnan", needed(n, 0)), DTYPE_BOOL)); }

void translate_is_infinite(struct node *n)
{
	const bool above = attribute_integer(n, "detect_positive", 1), below = attribute_integer(n, "detect_negative", 1);
	struct value *v = needed(n, 0);
	if (above && below)
		v = unary(n, "abs", v);
	give(n, 0, typed(n, binary(n, "eq", v, number_like(n, v, above ? INFINITY : below ? -INFINITY : NAN)), DTYPE_BOOL));
}

void translate_where(struct node *n)
{
	struct value *v = needed(n, 1), *made = choose(n, needed(n, 0), v, needed(n, 2));
	give(n, 0, made ? typed(n, made, v->type.dtype) : NULL);
}

void translate_unary(struct node *n)
{
	struct value *v = needed(n, 0);
	give(n, 0, unary(n, operation_of(n), v));
}

void translate_leaky_relu(struct node *n)
{
	struct value *v = needed(n, 0);
	const char *slope = number_text(n, attribute_number(n, "alpha", (double)0.01F), DTYPE_F32);
	if (slope)
		give(n, 0, apply(n, "leaky_relu", v, strcmp(slope, "0.01") ? "slope=%s" : " ", slope));
}

/* V where positive, else SCALE (exp(V / WIDTH) - 1). */
static struct value *elu(struct node *n, struct value *v, double scale, double width)
{
	if (scale == 1 && width == 1)
		return unary(n, "elu", v);
	if (scale == width) {
		const char *alpha = number_text(n, scale, DTYPE_F32);
		return alpha ? apply(n, "celu", v, "%s", alpha) : NULL;
	}
	v = once(n, v);
	struct value *below = width == 1 ? v : binary(n, "div", v, number_like(n, v, width));
	below = times(n, unary(n, "expm1", below), scale);
	return v ? choose(n, binary(n, "gt", v, number_like(n, v, 0)), v, below) : NULL;
}

void translate_elu(struct node *n) { give(n, 0, elu(n, needed(n, 0), attribute_number(n, "alpha", 1), 1)); }

void translate_celu(struct node *n)
{
	const double alpha = attribute_number(n, "alpha", 1);
	give(n, 0, elu(n, needed(n, 0), alpha, alpha));
}

void translate_selu(struct node *n)
{
	const double alpha = (double)1.67326319217681884765625F, gamma = (double)1.05070102214813232421875F;
	const double own_alpha = attribute_number(n, "alpha", alpha), own_gamma = attribute_number(n, "gamma", gamma);
	struct value *v = needed(n, 0);
	if (own_alpha == alpha && own_gamma == gamma)
		give(n, 0, unary(n, "selu", v));
	else
		give(n, 0, times(n, elu(n, v, own_alpha, 1), own_gamma));
}

void translate_gelu(struct node *n)
{
	const bool by_tanh = !strcmp(attribute_text(n, "approximate", "none"), "tanh");
	give(n, 0, apply(n, "gelu", needed(n, 0), by_tanh ? "tanh=true" : " "));
}

static struct value *swish(struct node *n, struct value *v, double alpha)
{
	if (alpha == 1)
		return unary(n, "silu", v);
	v = once(n, v);
	return binary(n, "mul", v, unary(n, "sigmoid", times(n, v, alpha)));
}

void translate_swish(struct node *n) { give(n, 0, swish(n, needed(n, 0), attribute_number(n, "alpha", 1))); }

void translate_swiglu(struct node *n)
{
	give(n, 0, binary(n, "mul", swish(n, needed(n, 0), attribute_number(n, "alpha", 1)), needed(n, 1)));
}

void translate_hard_sigmoid(struct node *n)
{
	const double alpha = attribute_number(n, "alpha", (double)0.2F), beta = attribute_number(n, "beta", 0.5);
	give(n, 0, apply(n, "clip", plus(n, times(n, needed(n, 0), alpha), beta), "0 1"));
}

void translate_thresholded_relu(struct node *n)
{
	struct value *v = once(n, needed(n, 0));
	if (v)
		give(
			n, 0,
			choose(n, binary(n, "gt", v, number_like(n, v, attribute_number(n, "alpha", 1))), v, number_like(n, v, 0)));
}

void translate_shrink(struct node *n)
{
	const double bias = attribute_number(n, "bias", 0), lambda = attribute_number(n, "lambd", 0.5);
	struct value *v = once(n, needed(n, 0));
	if (!v)
		return;
	struct value *below =
		choose(n, binary(n, "lt", v, number_like(n, v, -lambda)), bias ? plus(n, v, bias) : v, number_like(n, v, 0));
	give(n, 0, choose(n, binary(n, "gt", v, number_like(n, v, lambda)), bias ? plus(n, v, -bias) : v, below));
}

void translate_prelu(struct node *n) { give(n, 0, binary(n, "prelu", needed(n, 0), needed(n, 1))); }

void translate_clip(struct node *n)
{
	struct value *v = needed(n, 0), *lo = input(n, 1), *hi = input(n, 2);
	if (!v)
		return;
	if (n->version < 11) {
		lo = attribute(n, "min") ? number_like(n, v, attribute_number(n, "min", 0)) : NULL;
		hi = attribute(n, "max") ? number_like(n, v, attribute_number(n, "max", 0)) : NULL;
	}
	/* The bounds of an initializer are no weights. */
	const bool low = lo && is_readable(lo) && shape_count(&lo->type.shape) == 1,
			   high = hi && is_readable(hi) && shape_count(&hi->type.shape) == 1;
	if (low && high) {
		const double least = tensor_at(lo->constant, 0), most = tensor_at(hi->constant, 0);
		const char *first = number_text(n, least, lo->type.dtype), *last = number_text(n, most, hi->type.dtype);
		if (first && last && least <= most)
			give(n, 0, apply(n, "clip", v, "%s %s", first, last));
		else
			give(n, 0, binary(n, "min", binary(n, "max", v, number_like(n, v, least)), number_like(n, v, most)));
		return;
	}
	if (lo)
		v = binary(n, "max", v, low ? number_like(n, v, tensor_at(lo->constant, 0)) : lo);
	if (hi)
		v = binary(n, "min", v, high ? number_like(n, v, tensor_at(hi->constant, 0)) : hi);
	give(n, 0, v);
}

void translate_binarizer(struct node *n)
{
	struct value *v = needed(n, 0);
	if (v)
		give(n, 0, typed(n, binary(n, "gt", v, number_like(n, v, attribute_number(n, "threshold", 0))), v->type.dtype));
}

void translate_bit_cast(struct node *n)
{
	struct value *v = needed(n, 0);
	enum dtype dtype;
	if (!v)
		return;
	if (!model_dtype((int32_t)attribute_integer(n, "to", 0), &dtype) || !is_integer(v) || !dtype_is_integer(dtype) ||
	    dtype == DTYPE_BOOL || v->type.dtype == DTYPE_BOOL || bits_of(dtype) != bits_of(v->type.dtype))
		refuse(n, "it reads the bits of numbers as those of another type");
	else
		give(n, 0, wrapped(n, v, dtype));
}
