/*
 * Losses of classes, and the steps of optimisers.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

/* Returns the loss of CLASSES by the logarithms V [N,C,...] of their probabilities. */
static struct value *class_loss(struct node *n, struct value *v, struct value *classes, struct value *weight)
{
	const Onnx__AttributeProto *ignore = attribute(n, "ignore_index");
	const char *how = attribute_text(n, "reduction", "mean");
	struct value *kept = NULL, *safe = classes;
	if (!v || !classes || v->type.shape.ndim < 2)
		return refuse(n, "its classes do not fit");
	if (ignore) {
		classes = once(n, classes);
		kept = bind(n, binary(n, "ne", classes, number_like(n, classes, (double)ignore->i)), "kept");
		safe = kept ? typed(n, choose(n, kept, classes, number_like(n, classes, 0)), DTYPE_I64) : NULL;
	}
	if (weight)
		safe = once(n, safe);
	struct value *picked = drop_axis(n, apply_to(n, "take_along", v, new_axis(n, safe, 1), "1"), 1);
	struct value *factor = weight ? taken(n, safe, weight, 0) : NULL;
	if (kept && (weight || !strcmp(how, "mean")))
		factor = weight ? choose(n, kept, factor, number_like(n, v, 0))
		                : convert(n, typed(n, kept, DTYPE_BOOL), v->type.dtype);
	if (factor && !strcmp(how, "mean"))
		factor = once(n, factor);
	struct value *loss = unary(n, "neg", picked);
	if (weight)
		loss = binary(n, "mul", loss, factor);
	if (kept && loss)
		loss = choose(n, kept, loss, number_like(n, loss, 0));
	if (!strcmp(how, "none"))
		return loss;
	if (!strcmp(how, "sum"))
		return reduced(n, "sum", loss, NULL, false);
	if (!factor)
		return reduced(n, "mean", loss, NULL, false);
	return binary(n, "div", reduced(n, "sum", loss, NULL, false), reduced(n, "sum", factor, NULL, false));
}

void translate_nll_loss(struct node *n)
{
	struct value *v = needed(n, 0);
	give(n, 0, v ? typed(n, class_loss(n, v, needed(n, 1), input(n, 2)), v->type.dtype) : NULL);
}

void translate_cross_entropy_loss(struct node *n)
{
	struct value *v = needed(n, 0);
	if (!v)
		return;
	const enum dtype dtype = v->type.dtype;
	v = apply(n, "log_softmax", v, v->type.shape.ndim == 2 ? " " : "axis=1");
	if (is_wanted(n, 1))
		give(n, 1, v = once(n, v));
	give(n, 0, typed(n, class_loss(n, v, needed(n, 1), input(n, 2)), dtype));
}

/* The inputs of an optimiser: the rate and the number of the step, then COUNT each of several kinds of arrays. */
static struct value *of_kind(struct node *n, int64_t kind, int64_t kinds, int64_t i)
{
	const int64_t count = ((int64_t)n->input_count - 2) / kinds;
	return needed(n, (size_t)(2 + kind * count + i));
}

static int64_t count_of_kind(struct node *n, int64_t kinds)
{
	if (n->input_count > 2 && (n->input_count - 2) % (size_t)kinds == 0)
		return ((int64_t)n->input_count - 2) / kinds;
	refuse(n, "its inputs do not fit");
	return 0;
}

/* Returns the gradient of V with that of its regularisation. */
static struct value *regularized(struct node *n, struct value *v, struct value *g)
{
	const double by = attribute_number(n, "norm_coefficient", 0);
	return by == 0 ? g : binary(n, "add", times(n, v, by), g);
}

void translate_adagrad(struct node *n)
{
	const int64_t count = count_of_kind(n, 3);
	const double decay = attribute_number(n, "decay_factor", 0), eps = attribute_number(n, "epsilon", 0);
	for (int64_t i = 0; i < count; i++) {
		struct value *v = of_kind(n, 0, 3, i), *h = of_kind(n, 2, 3, i);
		struct value *g = once(n, regularized(n, v, of_kind(n, 1, 3, i)));
		struct value *rate = binary(n, "div", needed(n, 0), plus(n, times(n, needed(n, 1), decay), 1));
		struct value *total = bind(n, binary(n, "add", h, unary(n, "square", g)), n->proto->output[count + i]);
		struct value *step = binary(n, "div", binary(n, "mul", rate, g), plus(n, unary(n, "sqrt", total), eps));
		give(n, (size_t)i, v ? typed(n, binary(n, "sub", v, step), v->type.dtype) : NULL);
		give(n, (size_t)(count + i), total);
	}
}

void translate_adam(struct node *n)
{
	const int64_t count = count_of_kind(n, 4);
	const double alpha = attribute_number(n, "alpha", (double)0.9F), beta = attribute_number(n, "beta", (double)0.999F);
	const double eps = attribute_number(n, "epsilon", 0), after = attribute_number(n, "norm_coefficient_post", 0);
	for (int64_t i = 0; i < count && (size_t)(2 * count + i) < n->output_count; i++) {
		struct value *v = of_kind(n, 0, 4, i), *momentum = of_kind(n, 2, 4, i), *h = of_kind(n, 3, 4, i);
		struct value *g = once(n, regularized(n, v, of_kind(n, 1, 4, i))), *t = once(n, needed(n, 1)),
					 *rate = needed(n, 0);
		if (!v || !t || !rate)
			return;
		momentum =
			bind(n, binary(n, "add", times(n, momentum, alpha), times(n, g, 1 - alpha)), n->proto->output[count + i]);
		h = bind(n, binary(n, "add", times(n, h, beta), times(n, unary(n, "square", g), 1 - beta)),
		         n->proto->output[2 * count + i]);
		struct value *one = number_like(n, rate, 1), *a = number_like(n, rate, alpha), *b = number_like(n, rate, beta);
		struct value *corrected =
			binary(n, "mul", rate,
		           binary(n, "div", unary(n, "sqrt", binary(n, "sub", one, binary(n, "pow", b, t))),
		                  binary(n, "sub", one, binary(n, "pow", a, t))));
		rate = choose(n, binary(n, "gt", t, number_like(n, t, 0)), corrected, rate);
		struct value *step = binary(n, "mul", rate, binary(n, "div", momentum, plus(n, unary(n, "sqrt", h), eps)));
		give(n, (size_t)i, typed(n, times(n, binary(n, "sub", v, step), 1 - after), v->type.dtype));
		give(n, (size_t)(count + i), momentum);
		give(n, (size_t)(2 * count + i), h);
	}
}

void translate_momentum(struct node *n)
{
	const int64_t count = count_of_kind(n, 3);
	const double alpha = attribute_number(n, "alpha", 0), beta = attribute_number(n, "beta", 0);
	const bool nesterov = !strcmp(attribute_text(n, "mode", ""), "nesterov");
	for (int64_t i = 0; i < count; i++) {
		struct value *v = of_kind(n, 0, 3, i), *momentum = of_kind(n, 2, 3, i);
		struct value *g = once(n, regularized(n, v, of_kind(n, 1, 3, i))), *rate = needed(n, 0), *t = needed(n, 1);
		if (!v || !t)
			return;
		/* The first step has no momentum to damp. */
		struct value *fresh = beta == 1 ? g
		                                : binary(n, "mul",
		                                         choose(n, binary(n, "gt", t, number_like(n, t, 0)),
		                                                number_like(n, v, beta), number_like(n, v, 1)),
		                                         g);
		momentum = bind(n, binary(n, "add", times(n, momentum, alpha), fresh), n->proto->output[count + i]);
		struct value *step = nesterov ? binary(n, "add", g, times(n, momentum, alpha)) : momentum;
		give(n, (size_t)i, typed(n, binary(n, "sub", v, binary(n, "mul", rate, step)), v->type.dtype));
		give(n, (size_t)(count + i), momentum);
	}
}
