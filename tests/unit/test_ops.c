/*
 * The table of operations, their arguments, and what a use of an operation has without
 * data: shapes, reach, kept arrays. The expected values are written by hand from NumPy's
 * and torch's rules. test_general's golden data has shapes that NumPy computed.
 */
#include "ops/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scratch.h"
#include "suite.h"

/* "name value" or a value alone: a number, a list like [1,2], true, false or a word. */
static struct argument argument_of(const char *text, int64_t list[64], double numbers[64])
{
	char *end;
	struct argument a = {.kind = ARGUMENT_NUMBER, .number = strtod(text, &end), .word = text};
	if (*text == '[') {
		a.kind = ARGUMENT_LIST;
		a.integers = list;
		a.numbers = numbers;
		for (const char *at = text + 1; *at && *at != ']'; at = end + (*end == ',')) {
			numbers[a.count] = strtod(at, &end);
			a.integers = numbers[a.count] == floor(numbers[a.count]) ? a.integers : NULL;
			list[a.count] = (int64_t)numbers[a.count];
			a.count++;
		}
	} else if (!strcmp(text, "true") || !strcmp(text, "false")) {
		a.kind = ARGUMENT_BOOL;
		a.boolean = *text == 't';
	} else if (*end || end == text) {
		a.kind = ARGUMENT_WORD;
	}
	a.integer = a.number == floor(a.number) && fabs(a.number) < 0x1p63;
	a.as_integer = a.integer ? (int64_t)a.number : 0;
	return a;
}

static enum status set_one(struct attrs *attrs, enum op op, const char *name, int index, const char *value,
                           const char **message, const char **hint)
{
	int64_t list[64];
	static double numbers[64]; /* attributes refer to them */
	struct argument a = argument_of(value, list, numbers);
	struct complaint complaint = {.arena = &arena};
	const enum status status = attrs_set(attrs, op, name, index, &a, &complaint);
	*message = complaint.message;
	*hint = complaint.hint;
	return status;
}

/* Sets all arguments of a text like "op 1 axis=2". Returns OP_COUNT with *MESSAGE if one is wrong. */
static enum op parse(const char *text, struct attrs *attrs, const char **message, const char **hint)
{
	char copy[128], *rest = NULL;
	snprintf(copy, sizeof copy, "%s", text);
	enum op op = op_find(strtok_r(copy, " ", &rest));
	ck_assert_msg(op < OP_COUNT, "%s", text);
	attrs_default(attrs, op);
	int place = 0;
	for (char *token; (token = strtok_r(NULL, " ", &rest));) {
		char *equals = strchr(token, '=');
		if (equals)
			*equals = 0;
		if (set_one(attrs, op, equals ? token : NULL, equals ? -1 : place++, equals ? equals + 1 : token, message,
		            hint))
			return OP_COUNT;
	}
	return op;
}

START_TEST(test_table)
{
	static const char *const groups[] = {
		"arithmetic", "conditions", "one value", "linear algebra", "reductions", "along an axis",          "shape",
		"indices",    "stencils",   "random",    "losses",         "other",      "pooling and resampling", "attention",
		"transforms"};
	for (int op = 0; op < OP_COUNT; op++) {
		const struct op_info *info = &op_table[op];
		bool group = false;
		for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
			group |= !strcmp(groups[i], info->group);
		ck_assert_msg(group, "%s", info->group);
		ck_assert_int_eq(op_find(info->name), op);
		ck_assert_int_ge((int)strlen(info->doc), 2);
		ck_assert_int_eq(info->operands, info->class == OP_CLASS_TERNARY  ? 2
		                                 : info->class == OP_CLASS_BINARY ? 1
		                                 : info->class == OP_CLASS_UNARY  ? 0
		                                                                  : info->operands);
		unsigned needs = 0;
		for (uint32_t k = 0; k < MAX_VALUES; k++) {
			needs |= info->needs[k];
			ck_assert(info->differentiable_by[k] || !info->needs[k]);
			ck_assert(!info->differentiable_by[k] || k <= (uint32_t)op_most_operands((enum op)op));
		}
		/* what a derivative needs is kept */
		ck_assert(!(needs & NEED_K) || info->keeps[0].kind != KEEP_NOTHING);
		ck_assert(!(needs & NEED_L) || info->keeps[1].kind != KEEP_NOTHING);
		ck_assert(!(needs & NEED_A) || info->operands >= 1);
		ck_assert(!(needs & NEED_B) || info->operands >= 2);
		ck_assert(!(needs & NEED_B && needs & NEED_L)); /* a kernel op has one place for both */
		/* and what is kept is needed by a derivative */
		ck_assert(info->keeps[0].kind == KEEP_NOTHING || needs & NEED_K);
	}
	ck_assert_int_eq(op_find("sine"), OP_COUNT);
	ck_assert_int_eq(op_find(""), OP_COUNT);
	ck_assert_str_eq(op_table[OP_sin].keeps[0].name, "cos");
	ck_assert_int_eq(op_table[OP_relu].keeps[0].kind, KEEP_MASK);
	ck_assert_int_eq(op_table[OP_mse].keeps[0].kind, KEEP_VALUE);
	ck_assert_int_eq(op_table[OP_layernorm].keeps[0].kind, KEEP_PER_ROW);
	ck_assert_uint_eq(op_table[OP_div].needs_a, NEED_V | NEED_A);
	ck_assert(!op_table[OP_floor].differentiable);
	ck_assert(!op_table[OP_cross_entropy].operand_differentiable);
	ck_assert(!op_table[OP_sum].operand_differentiable);
}
END_TEST

START_TEST(test_defaults)
{
	struct attrs a;
	attrs_default(&a, OP_leaky_relu);
	ck_assert_double_eq(a.number[0], 0.01);
	attrs_default(&a, OP_layernorm);
	ck_assert(a.has_axis && a.axis_count == 1 && a.axis[0] == -1 && a.eps == 1e-5);
	attrs_default(&a, OP_sum);
	ck_assert(!a.has_axis && !a.keepdims);
	attrs_default(&a, OP_laplacian);
	ck_assert(!a.has_axis && !a.dx.list && a.dx.one == 1 && a.order == 2 && a.boundary == BOUNDARY_PERIODIC);
	attrs_default(&a, OP_slice);
	ck_assert(a.has_axis && a.axis[0] == 0 && !a.start.given && !a.stop.given && a.step == 1);
	attrs_default(&a, OP_conv2d);
	ck_assert(a.stride[0] == 1 && a.stride[1] == 1 && a.padding[0] == 0 && a.padding[1] == 0);
	attrs_default(&a, OP_huber);
	ck_assert_double_eq(a.delta, 1);
	attrs_default(&a, OP_gelu);
	ck_assert_double_eq(a.number[0], 0);
}
END_TEST

START_TEST(test_positionals)
{
	static const struct {
		enum op op;
		int least, most;
	} counts[] = {{OP_clip, 2, 2}, {OP_leaky_relu, 0, 1}, {OP_gelu, 0, 0},    {OP_sum, 0, 0},  {OP_reshape, 1, 32},
	              {OP_pad, 2, 2},  {OP_roll, 1, 1},       {OP_dropout, 1, 1}, {OP_cast, 1, 1}, {OP_add, 0, 0}};
	char name[32];
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		int least, most;
		op_positionals(counts[i].op, &least, &most);
		ck_assert_msg(least == counts[i].least && most == counts[i].most, "%s: %d %d", op_table[counts[i].op].name,
		              least, most);
	}
	ck_assert_str_eq(op_positional_name(OP_clip, 1, name), "hi");
	ck_assert_str_eq(op_positional_name(OP_reshape, 5, name), "shape");
	const char *names[16];
	ck_assert_uint_eq(op_argument_names(OP_slice, names, 16, &arena), 4);
	ck_assert_str_eq(names[3], "step");
	ck_assert_uint_eq(op_argument_names(OP_slice, names, 2, &arena), 2);
}
END_TEST

START_TEST(test_values)
{
	const char *message, *hint;
	struct attrs a;
	ck_assert_int_eq(parse("clip -1 2", &a, &message, &hint), OP_clip);
	ck_assert(a.number[0] == -1 && a.number[1] == 2);
	ck_assert_int_eq(parse("clip hi=1 lo=0.5", &a, &message, &hint), OP_clip);
	ck_assert(a.number[0] == 0.5 && a.number[1] == 1);
	ck_assert_int_eq(parse("clip 3 1", &a, &message, &hint), OP_clip); /* as NumPy: hi */
	ck_assert_int_eq(parse("gelu tanh=true", &a, &message, &hint), OP_gelu);
	ck_assert_double_eq(a.number[0], 1);
	ck_assert_int_eq(parse("sum axis=[0,-1] keepdims=true", &a, &message, &hint), OP_sum);
	ck_assert(a.axis_count == 2 && a.axis[0] == 0 && a.axis[1] == -1 && a.keepdims);
	ck_assert_int_eq(parse("reshape 2 -1 3", &a, &message, &hint), OP_reshape);
	ck_assert(a.shape.ndim == 3 && a.shape.dim[1] == -1);
	ck_assert_int_eq(parse("reshape shape=[4,5]", &a, &message, &hint), OP_reshape);
	ck_assert(a.shape.ndim == 2 && a.shape.dim[1] == 5);
	ck_assert_int_eq(parse("conv2d stride=2 padding=[1,3]", &a, &message, &hint), OP_conv2d);
	ck_assert(a.stride[1] == 2 && a.padding[0] == 1 && a.padding[1] == 3);
	ck_assert_int_eq(parse("conv2d padding=[1,2,3,4]", &a, &message, &hint), OP_conv2d);
	struct window window = op_window(OP_conv2d, &a, 1, 0);
	ck_assert(window.before == 3 && window.after == 4 && window.stride == 1);
	ck_assert_int_eq(parse("maxpool2d [2,5] stride=[1,3] padding=[0,1]", &a, &message, &hint), OP_maxpool2d);
	window = op_window(OP_maxpool2d, &a, 1, 0);
	ck_assert(window.extent == 5 && window.stride == 3 && window.before == 1 && window.after == 1);
	ck_assert_int_eq(parse("avgpool1d 4 padding=[2,1]", &a, &message, &hint), OP_avgpool1d);
	window = op_window(OP_avgpool1d, &a, 0, 0);
	ck_assert(window.extent == 4 && window.stride == 4 && window.before == 2 && window.after == 1);
	ck_assert_int_eq(parse("conv2d padding=same dilation=[1,3]", &a, &message, &hint), OP_conv2d);
	window = op_window(OP_conv2d, &a, 1, 4);
	ck_assert(window.extent == 10 && window.before == 4 && window.after == 5 && window.gap == 3);
	ck_assert_int_eq(parse("conv1d stride=[2]", &a, &message, &hint), OP_conv1d);
	ck_assert_int_eq(parse("laplacian axes=[0,1] boundary=reflect dx=0.5", &a, &message, &hint), OP_laplacian);
	ck_assert(a.boundary == BOUNDARY_REFLECT && a.dx.one == 0.5 && a.axis_count == 2);
	ck_assert_int_eq(parse("cast bf16", &a, &message, &hint), OP_cast);
	ck_assert_int_eq(a.dtype, DTYPE_BF16);
	ck_assert_int_eq(parse("dropout 0.25 seed=-9", &a, &message, &hint), OP_dropout);
	ck_assert(a.p == 0.25 && a.seed == -9);
	ck_assert_int_eq(parse("slice start=-3 step=-2", &a, &message, &hint), OP_slice);
	ck_assert(a.start.given && a.start.at == -3 && a.step == -2 && !a.stop.given);
	ck_assert_int_eq(parse("pad 1 2 axis=1 value=nan", &a, &message, &hint), OP_pad);
	ck_assert(a.before == 1 && a.after == 2 && a.axis[0] == 1 && isnan(a.value));
}
END_TEST

static const struct {
	const char *text, *message, *hint;
} wrong_arguments[] = {
	{"sum axes=0", "unknown option 'axes' for 'sum'", "axis"},
	{"sum keepdim=true", "unknown option 'keepdim' for 'sum'", "keepdims"},
	{"flatten axis=0", "'flatten' takes no options", NULL},
	{"transpose axis=0", "unknown option 'axis' for 'transpose'", "axes"},
	{"sum 0", "'sum' takes 0 arguments at most", NULL},
	{"gelu 1", "'gelu' takes 0 arguments at most", NULL},
	{"clip 0 1 2", "'clip' takes 2 arguments at most", NULL},
	{"sum axis=1.5", "axis of 'sum' must be an integer or a list of integers", NULL},
	{"sum axis=first", "axis of 'sum' must be an integer or a list of integers, written out: 'first' is a name", NULL},
	{"cumsum axis=[0,1]", "axis of \'cumsum\' must be an integer", NULL},
	{"cumsum axis=x", "axis of \'cumsum\' must be an integer, written out: 'x' is a name", NULL},
	{"sum keepdims=1", "keepdims of 'sum' must be true or false", NULL},
	{"clip a 1", "lo of 'clip' must be a number, written out: 'a' is a name", NULL},
	{"layernorm eps=-1", "eps of 'layernorm' must be a number of 0 or more", NULL},
	{"layernorm eps=nan", "eps of 'layernorm' must be a number of 0 or more", NULL},
	{"reshape 2 x", "shape of 'reshape' must be an integer, written out: 'x' is a name", NULL},
	{"slice step=0", "step of 'slice' must be an integer other than 0", NULL},
	{"slice start=0.5", "start of 'slice' must be an integer", NULL},
	{"slice stop=inf", "stop of 'slice' must be an integer", NULL},
	{"slice stop=99999999999999999999", "stop of 'slice' must be an integer that fits in 64 bits", NULL},
	{"sum axis=-99999999999999999999", "axis of 'sum' must be an integer that fits in 64 bits", NULL},
	{"sum axis=99999999999", "axis 99999999999 of 'sum' is no axis: arrays have at most 32", NULL},
	{"sum axis=[4294967296]", "axis 4294967296 of 'sum' is no axis: arrays have at most 32", NULL},
	{"cumsum axis=99999999999999999999", "axis of \'cumsum\' must be an integer that fits in 64 bits", NULL},
	{"dropout 0.5 seed=18446744073709551615", "seed of 'dropout' must be an integer from -2^63 to 2^63 - 1", NULL},
	{"conv1d stride=99999999999999999999", "stride of 'conv1d' must be an integer that fits in 64 bits", NULL},
	{"pad -1 0", "before of 'pad' must be an integer of 0 or more", NULL},
	{"roll 0.1", "shift of 'roll' must be an integer", NULL},
	{"laplacian dx=0", "dx of 'laplacian' must be a number above 0, or a list of them", NULL},
	{"laplacian dx=[1,-1]", "dx of 'laplacian' must be a number above 0, or a list of them", NULL},
	{"laplacian dx=[]", "dx of 'laplacian' must be a number above 0, or a list of them", NULL},
	{"laplacian order=3", "order of 'laplacian' must be 2, 4, 6 or 8", NULL},
	{"stencil 3", "weights of 'stencil' must be a list, as in [1, -2, 1]", NULL},
	{"stencil [1,2]", "weights of 'stencil' must be an odd number of weights: the middle one is for the element", NULL},
	{"stencil []", "weights of 'stencil' must be an odd number of weights: the middle one is for the element", NULL},
	{"stencil [1,inf,1]", "weights of 'stencil' must be finite", NULL},
	{"stencil [1] axis=[0,1]", "axis of 'stencil' must be an integer", NULL},
	{"laplacian boundary=wrap", "boundary of 'laplacian' must be periodic, zero or reflect", NULL},
	{"conv2d stride=0", "stride of 'conv2d' must be a positive integer, or two of them", NULL},
	{"conv2d padding=[1,2,3]", "padding of 'conv2d' must be an integer of 0 or more, two or four of them, or same",
     NULL},
	{"conv2d padding=-1", "padding of 'conv2d' must be an integer of 0 or more, two or four of them, or same", NULL},
	{"upsample 0", "factor of 'upsample' must be a number above 0, or a list of them", NULL},
	{"upsample 2 mode=liner", "mode of 'upsample' must be nearest or linear", "linear"},
	{"conv1d padding=[1,2,3,4]", "padding of 'conv1d' must be an integer of 0 or more, two of them, or same", NULL},
	{"conv2d groups=0", "groups of 'conv2d' must be a positive integer", NULL},
	{"conv2d dilation=[1,0]", "dilation of 'conv2d' must be a positive integer, or two of them", NULL},
	{"conv_transpose1d output_padding=[0,1]", "output_padding of 'conv_transpose1d' must be an integer of 0 or more",
     NULL},
	{"conv_transpose2d output_padding=-1",
     "output_padding of 'conv_transpose2d' must be an integer of 0 or more, or two of them", NULL},
	{"conv_transpose2d padding=same",
     "padding of 'conv_transpose2d' must be an integer of 0 or more, or two or four of them, written out: 'same' is a "
     "name",
     NULL},
	{"maxpool1d 0", "size of 'maxpool1d' must be a positive integer", NULL},
	{"maxpool1d [2,3]", "size of 'maxpool1d' must be a positive integer", NULL},
	{"avgpool2d [2,3,4]", "size of 'avgpool2d' must be a positive integer, or two of them", NULL},
	{"avgpool2d 2 ceil=yes", "ceil of 'avgpool2d' must be true or false", NULL},
	{"maxpool2d 2 count_padding=true",
     "unknown option 'count_padding' for 'maxpool2d', which has size, stride, padding and ceil", NULL},
	{"conv1d stride=[1,2]", "stride of 'conv1d' must be a positive integer", NULL},
	{"topk -1", "n of 'topk' must be an integer of 0 or more", NULL},
	{"quantile 1.5", "q of 'quantile' must be in [0, 1]", NULL},
	{"irfft n=0", "n of 'irfft' must be a positive integer", NULL},
	{"fft norm=othro", "norm of 'fft' must be backward, ortho or forward", "ortho"},
	{"groupnorm 0", "groups of 'groupnorm' must be a positive integer", NULL},
	{"celu 0", "alpha of 'celu' must be a number above 0", NULL},
	{"dropout 1", "p of 'dropout' must be in [0, 1)", NULL},
	{"dropout -0.1", "p of 'dropout' must be in [0, 1)", NULL},
	{"dropout 0.5 seed=x", "seed of 'dropout' must be an integer, written out: 'x' is a name", NULL},
	{"huber delta=0", "delta of 'huber' must be a number above 0", NULL},
	{"sum keepdims=tru", "keepdims of 'sum' must be true or false", "true"},
	{"sum keepdims=False", "keepdims of 'sum' must be true or false", "false"},
	{"sum axis=None", "axis of 'sum' must be an integer or a list of integers, written out: 'None' is a name", "none"},
	{"laplacian boundary=relect", "boundary of 'laplacian' must be periodic, zero or reflect", "reflect"},
	{"laplacian boundary=zeros", "boundary of 'laplacian' must be periodic, zero or reflect", "zero"},
	{"layernorm epsilon=1", "unknown option 'epsilon' for 'layernorm'", "eps"},
	{"conv1d pad=1", "unknown option 'pad' for 'conv1d'", "padding"},
	{"cast f31", "dtype of 'cast' must be f16, bf16, f32, f64, bool, or an integer type, i8 to u64", "f32"},
	{"cast i31", "dtype of 'cast' must be f16, bf16, f32, f64, bool, or an integer type, i8 to u64", "i32"},
	{"cast 3", "dtype of 'cast' must be f16, bf16, f32, f64, bool, or an integer type, i8 to u64", NULL},
};

START_TEST(test_wrong_arguments)
{
	const char *message = NULL, *hint = NULL;
	struct attrs attrs;
	ck_assert_int_eq(parse(wrong_arguments[_i].text, &attrs, &message, &hint), OP_COUNT);
	ck_assert_str_eq(message, wrong_arguments[_i].message);
	ck_assert_pstr_eq(hint, wrong_arguments[_i].hint);
}
END_TEST

/* ---- shapes ---- */

#define S(N, ...)                                                                                                      \
	{                                                                                                                  \
		N, { __VA_ARGS__ }                                                                                             \
	}
#define SCALAR                                                                                                         \
	{                                                                                                                  \
		0                                                                                                              \
	}
#define HUGE_EXTENT ((int64_t)1 << 40)

/* Shapes that do not fit, with the messages. The golden data of test_general has shapes that fit. */
static const struct {
	const char *text;
	struct shape v, a;
	const char *message;
	enum status status;
} misfits[] = {
	{"add", S(1, 3), S(1, 4), "'add': shapes [3] and [4] do not broadcast", STATUS_CHAIN},
	{"matmul", S(2, 2, 3), S(2, 4, 5), "'matmul': shapes [2,3] and [4,5] do not fit: 3 != 4", STATUS_CHAIN},
	{"matmul", S(2, 2, 3), SCALAR, "'matmul': shapes [2,3] and [] do not fit: a scalar is not a matrix", STATUS_CHAIN},
	{"matmul", S(3, 2, 2, 3), S(3, 4, 3, 2), "'matmul': batch axes of [2,2,3] and [4,3,2] do not broadcast",
     STATUS_CHAIN},
	{"linear", S(2, 2, 3), S(2, 3, 5), "'linear': shapes [2,3] and [3,5] do not fit: 3 != 5", STATUS_CHAIN},
	{"dot", S(1, 3), S(2, 3, 5), "'dot': shapes [3,5] and [3] do not fit: 5 != 3", STATUS_CHAIN},
	{"transpose axes=[1,1]", S(2, 2, 3), SCALAR, "'transpose': axis 1 is named twice", STATUS_CHAIN},
	{"transpose axes=[1,2]", S(2, 2, 3), SCALAR, "'transpose': axis 2 is out of range for [2,3]", STATUS_CHAIN},
	{"transpose axes=[1,0]", S(3, 2, 3, 4), SCALAR, "'transpose': axes names 2, and [2,3,4] has 3", STATUS_CHAIN},
	{"sum axis=2", S(2, 2, 3), SCALAR, "'sum': axis 2 is out of range for [2,3]", STATUS_CHAIN},
	{"sum axis=[0,-2]", S(2, 2, 3), SCALAR, "'sum': axis -2 is named twice", STATUS_CHAIN},
	{"amax axis=0", S(2, 0, 3), SCALAR, "'amax': [0,3] has no elements along axis 0", STATUS_CHAIN},
	{"amin", S(2, 3, 0), SCALAR, "'amin': [3,0] has no elements along axis 1", STATUS_CHAIN},
	{"softmax", SCALAR, SCALAR, "'softmax': axis -1 is out of range for []", STATUS_CHAIN},
	{"reshape 4 -1", S(2, 2, 3), SCALAR, "'reshape': [2,3] has 6 elements, which 4 does not divide", STATUS_CHAIN},
	{"reshape -1 -1", S(2, 2, 3), SCALAR, "'reshape': only one extent can be -1", STATUS_CHAIN},
	{"reshape 5", S(2, 2, 3), SCALAR, "'reshape': [2,3] has 6 elements and [5] 5", STATUS_CHAIN},
	{"reshape -2", S(2, 2, 3), SCALAR, "'reshape': an extent of -2", STATUS_CHAIN},
	{"reshape 0 -1", S(2, 0, 3), SCALAR, "'reshape': [0,3] has 0 elements, which 0 does not divide", STATUS_CHAIN},
	{"reshape 1099511627776 1099511627776", S(1, 1), SCALAR, "'reshape': the new shape has too many elements",
     STATUS_CHAIN},
	{"pad 9223372036854774784 9223372036854774784", S(1, 3), SCALAR, "'pad': the padded axis is too long",
     STATUS_CHAIN},
	{"concat", S(2, 2, 3), S(2, 2, 4), "'concat': shapes [2,3] and [2,4] differ beside axis 0", STATUS_CHAIN},
	{"concat axis=1", S(2, 2, 3), S(1, 2), "'concat': shapes [2,3] and [2] differ beside axis 1", STATUS_CHAIN},
	{"stack", S(2, 2, 3), S(1, 3), "'stack': shapes [2,3] and [3] differ", STATUS_CHAIN},
	{"stack axis=3", S(2, 2, 3), S(2, 2, 3), "'stack': axis 3 is out of range for [2,3] with a new axis", STATUS_CHAIN},
	{"expand_dims axis=-4", S(2, 2, 3), SCALAR, "'expand_dims': axis -4 is out of range for [2,3] with a new axis",
     STATUS_CHAIN},
	{"squeeze axis=0", S(2, 2, 1), SCALAR, "'squeeze': axis 0 of [2,1] has the extent 2, not 1", STATUS_CHAIN},
	{"squeeze axis=2", S(2, 1, 1), SCALAR, "'squeeze': axis 2 is out of range for [1,1]", STATUS_CHAIN},
	{"flip axis=[0,0]", S(2, 2, 1), SCALAR, "'flip': axis 0 is named twice", STATUS_CHAIN},
	{"tril", S(1, 3), SCALAR, "'tril': [3] has fewer than two axes", STATUS_CHAIN},
	{"conv2d", S(3, 2, 3, 4), S(4, 1, 2, 3, 3),
     "'conv2d': shapes [2,3,4] and [1,2,3,3]: 4-d arrays are wanted, [N,Cin,...] and [Cout,Cin,...]", STATUS_CHAIN},
	{"conv1d", S(3, 2, 3, 4), S(3, 1, 2, 3), "'conv1d': shapes [2,3,4] and [1,2,3] do not fit: 3 channels != 2",
     STATUS_CHAIN},
	{"conv1d groups=2", S(3, 2, 4, 4), S(3, 3, 2, 3),
     "'conv1d': 2 groups do not divide the channels of [2,4,4] and [3,2,3]", STATUS_CHAIN},
	{"conv1d groups=2", S(3, 2, 4, 4), S(3, 2, 4, 3),
     "'conv1d': shapes [2,4,4] and [2,4,3] do not fit: 2 channels of a group != 4", STATUS_CHAIN},
	{"conv1d dilation=4", S(3, 2, 3, 4), S(3, 1, 3, 2),
     "'conv1d': kernel [1,3,2] is larger than the padded [2,3,4], with its dilation", STATUS_CHAIN},
	{"conv1d padding=same stride=2", S(3, 2, 3, 4), S(3, 1, 3, 2), "'conv1d': padding=same wants a stride of 1",
     STATUS_CHAIN},
	{"conv_transpose1d", S(3, 2, 3, 4), S(3, 2, 1, 2),
     "'conv_transpose1d': shapes [2,3,4] and [2,1,2] do not fit: 3 "
     "channels != 2",
     STATUS_CHAIN},
	{"conv_transpose1d output_padding=2 stride=2", S(3, 2, 3, 4), S(3, 3, 1, 2),
     "'conv_transpose1d': an output_padding of 2 is not below the stride of 2 or the dilation of 1", STATUS_CHAIN},
	{"conv_transpose1d padding=3", S(3, 2, 3, 4), S(3, 3, 1, 2),
     "'conv_transpose1d': a padding of 3 leaves nothing of 5 elements along axis 2", STATUS_CHAIN},
	{"maxpool2d 2", S(1, 4), SCALAR, "'maxpool2d': [4] has fewer than 2 axes", STATUS_CHAIN},
	{"maxpool1d 2", S(2, 4, 0), SCALAR, "'maxpool1d': [4,0] has no elements along an axis of windows", STATUS_CHAIN},
	{"maxpool1d 5", S(2, 2, 4), SCALAR, "'maxpool1d': a window of 5 is larger than the padded axis of 4", STATUS_CHAIN},
	{"avgpool2d 3 padding=[1,2]", S(2, 4, 4), SCALAR,
     "'avgpool2d': a padding of 2 is more than half of the window of 3", STATUS_CHAIN},
	{"maxpool1d 9223372036854774784 padding=4611686018427387392", S(1, 4), SCALAR,
     "'maxpool1d': a window of 9223372036854774784 is too long", STATUS_CHAIN},
	{"conv1d", S(3, 2, 3, 4), S(3, 1, 3, 5), "'conv1d': kernel [1,3,5] is larger than the padded [2,3,4]",
     STATUS_CHAIN},
	{"conv1d padding=9223372036854774784", S(3, 2, 3, 4), S(3, 1, 3, 5),
     "'conv1d': a padding of 9223372036854774784 is too much", STATUS_CHAIN},
	{"laplacian dx=[1,2]", S(1, 3), SCALAR, "'laplacian': dx has 2 numbers, and [3] 1 axis", STATUS_CHAIN},
	{"laplacian axes=[0,1] dx=[1]", S(2, 3, 4), SCALAR, "'laplacian': dx has 1 number, and axes names 2 axes",
     STATUS_CHAIN},
	{"stencil [1]", SCALAR, SCALAR, "'stencil': axis 0 is out of range for []", STATUS_CHAIN},
	{"mse", S(1, 3), S(1, 4), "'mse': shapes [3] and [4] do not broadcast", STATUS_CHAIN},
	{"cross_entropy", S(2, 3, 5), S(1, 5),
     "'cross_entropy': logits [3,5] want one class for each row, and the classes are [5]", STATUS_CHAIN},
	{"cross_entropy", S(2, 3, 0), S(1, 3), "'cross_entropy': logits [3,0] have no classes", STATUS_CHAIN},
	{"cross_entropy axis=0", S(2, 3, 5), S(1, 3),
     "'cross_entropy': logits [3,5] want one class for each row, and the classes are [3]", STATUS_CHAIN},
	{"cross_entropy ignore=2", S(2, 3, 5), S(2, 3, 5),
     "'cross_entropy': ignore is for classes, and [3,5] are probabilities", STATUS_CHAIN},
	{"cross_entropy axis=2", S(2, 3, 5), S(1, 3), "'cross_entropy': axis 2 is out of range for [3,5]", STATUS_CHAIN},
	{"nll", S(2, 3, 5), S(2, 3, 5),
     "'nll': log-probabilities [3,5] want one class for each row, and the classes are [3,5]", STATUS_CHAIN},
	{"nll", SCALAR, SCALAR, "'nll': log-probabilities [] want one class for each row, and the classes are []",
     STATUS_CHAIN},
	{"take", S(1, 3), SCALAR, "'take': axis 0 is out of range for []", STATUS_CHAIN},
	{"take axis=2", S(1, 3), S(2, 4, 5), "'take': axis 2 is out of range for [4,5]", STATUS_CHAIN},
	{"take", S(1, 3), S(2, 0, 5), "'take': [0,5] has no elements along axis 0, and there are indices [3]",
     STATUS_CHAIN},
	{"take_along 1", S(2, 3, 4), S(1, 3), "'take_along': shapes [3,4] and indices [3] do not broadcast beside axis 1",
     STATUS_CHAIN},
	{"take_along 1", S(2, 3, 4), S(2, 2, 4),
     "'take_along': shapes [3,4] and indices [2,4] do not broadcast beside axis 1", STATUS_CHAIN},
	{"take_along 2", S(2, 3, 4), S(2, 3, 4), "'take_along': axis 2 is out of range for [3,4]", STATUS_CHAIN},
	{"take_along 0", S(2, 0, 4), S(2, 2, 4),
     "'take_along': [0,4] has no elements along axis 0, and there are indices [2,4]", STATUS_CHAIN},
	{"scatter_add 4", S(2, 3, 4), S(1, 4), "'scatter_add': shape [3,4] and the indices [4] differ from axis 0 on",
     STATUS_CHAIN},
	{"scatter_add 4 axis=2", S(2, 3, 4), S(1, 4), "'scatter_add': axis 2 is out of range for [3,4] and the indices [4]",
     STATUS_CHAIN},
	{"scatter_add 4", S(1, 3), S(2, 3, 4), "'scatter_add': axis 0 is out of range for [3] and the indices [3,4]",
     STATUS_CHAIN},
	{"scatter_add 0", S(1, 3), S(1, 3), "'scatter_add': there are indices [3], and no rows", STATUS_CHAIN},
	{"one_hot 0", S(1, 3), SCALAR, "'one_hot': there are indices [3], and no classes", STATUS_CHAIN},
	{"solve", S(2, 3, 4), S(2, 3, 4), "'solve': [3,4] has no square matrices in its last two axes", STATUS_CHAIN},
	{"solve", S(2, 4, 3), S(2, 3, 3), "'solve': [4,3] has not the 3 rows of the matrices [3,3]", STATUS_CHAIN},
	{"solve", SCALAR, S(2, 1, 1), "'solve': [] has not the 1 rows of the matrices [1,1]", STATUS_CHAIN},
	{"solve", S(3, 2, 3, 4), S(3, 5, 3, 3), "'solve': batch axes of [2,3,4] and [5,3,3] do not broadcast",
     STATUS_CHAIN},
	{"cholesky", S(1, 3), SCALAR, "'cholesky': [3] has no square matrices in its last two axes", STATUS_CHAIN},
	{"inv", S(2, 1 << 25, 1 << 25), SCALAR, "'inv': the matrices of [33554432,33554432] have more than 16777216 rows",
     STATUS_CHAIN},
	{"fft", S(1, 3), SCALAR, "'fft': [3] has no complex numbers: a last axis of 2, their real and imaginary parts",
     STATUS_CHAIN},
	{"ifft axis=1", S(2, 3, 2), SCALAR, "'ifft': axis 1 is out of range for [3,2], whose last axis does not count",
     STATUS_CHAIN},
	{"fft", S(1, 2), SCALAR, "'fft': axis -1 is out of range for [2], whose last axis does not count", STATUS_CHAIN},
	{"rfft axis=2", S(2, 3, 2), SCALAR, "'rfft': axis 2 is out of range for [3,2]", STATUS_CHAIN},
	{"rfft axis=0", S(2, 0, 2), SCALAR, "'rfft': [0,2] has no elements along axis 0", STATUS_CHAIN},
	{"irfft", S(2, 1, 2), SCALAR, "'irfft': [1,2] has one number along axis 0, and n=1 must say so", STATUS_CHAIN},
	{"irfft", S(2, HUGE_EXTENT, 2), SCALAR, "'irfft': a line of 2199023255550 numbers has more than 1073741824",
     STATUS_CHAIN},
	{"cmul", S(2, 3, 2), S(1, 3),
     "'cmul': [3] has no complex numbers: a last axis of 2, their real and imaginary parts", STATUS_CHAIN},
	{"cmul", S(2, 3, 2), S(2, 4, 2), "'cmul': shapes [3,2] and [4,2] do not broadcast", STATUS_CHAIN},
	{"argmax axis=[0,1]", S(2, 3, 4), SCALAR, "'argmax': takes one axis", STATUS_CHAIN},
	{"argmin axis=0", S(2, 0, 4), SCALAR, "'argmin': [0,4] has no elements along axis 0", STATUS_CHAIN},
	{"add", S(2, HUGE_EXTENT, 1), S(2, 1, HUGE_EXTENT),
     "'add': the result [1099511627776,1099511627776] has too many elements", STATUS_LIMIT},
	{"mse", S(2, HUGE_EXTENT, 1), S(2, 1, HUGE_EXTENT),
     "'mse': shapes [1099511627776,1] and [1,1099511627776] have too many elements together", STATUS_LIMIT},
};

START_TEST(test_misfits)
{
	struct attrs attrs;
	struct type result, v = {DTYPE_F64, misfits[_i].v}, a = {DTYPE_F64, misfits[_i].a};
	const char *message = NULL, *hint;
	enum op op = parse(misfits[_i].text, &attrs, &message, &hint);
	ck_assert_msg(op < OP_COUNT, "%s", message);
	struct complaint complaint = {.arena = &arena};
	const struct type *const operands[MAX_OPERANDS] = {op_table[op].operands ? &a : NULL};
	ck_assert_int_eq(op_infer(op, &attrs, &v, operands, &result, &complaint), misfits[_i].status);
	ck_assert_str_eq(complaint.message, misfits[_i].message);
}
END_TEST

/* ---- reach ---- */

static const struct {
	const char *text;
	struct shape v, a;
	bool streamed;
	enum scope scope;
} reaches[] = {
	{"sin", S(2, 5, 3), SCALAR, false, SCOPE_ELEM},
	{"cast f32", SCALAR, SCALAR, false, SCOPE_ELEM},
	{"dropout 0.5", S(1, 5), SCALAR, false, SCOPE_ELEM},
	{"softmax", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"softmax", S(1, 5), SCALAR, false, SCOPE_NORM},
	{"softmax axis=0", S(2, 5, 3), SCALAR, false, SCOPE_NORM},
	{"layernorm axis=-2", S(2, 5, 3), SCALAR, false, SCOPE_NORM},
	{"cumsum axis=1", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"sum", S(2, 5, 3), SCALAR, false, SCOPE_SUM},
	{"sum", SCALAR, SCALAR, false, SCOPE_ALL},
	{"mean axis=0", S(2, 5, 3), SCALAR, false, SCOPE_SUM},
	{"sum axis=1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"amax axis=[0,1]", S(2, 5, 3), SCALAR, false, SCOPE_FOLD},
	{"prod axis=[0,1]", S(2, 5, 3), SCALAR, false, SCOPE_FOLD},
	{"any axis=0", S(2, 5, 3), SCALAR, false, SCOPE_FOLD},
	{"median axis=0", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"median axis=1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"layernorm axis=[0,1]", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"softmax axis=[1,2]", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"groupnorm 3", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"sort", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"topk 2 axis=0", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"tile 1 2", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"tile 2 1", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"broadcast_to 5 3", S(2, 5, 1), SCALAR, false, SCOPE_ROW},
	{"broadcast_to 2 5 3", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"repeat_each 2", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"diag", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"norm axis=-1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"reshape 5 -1", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"reshape -1 6", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"reshape -1 3", S(3, 5, 3, 2), SCALAR, false, SCOPE_ALL},
	{"reshape 15 2", S(3, 5, 3, 2), SCALAR, false, SCOPE_ALL},
	{"flatten", S(1, 5), SCALAR, false, SCOPE_ROW},
	{"flatten", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"transpose", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"transpose", S(1, 5), SCALAR, false, SCOPE_ROW},
	{"transpose axes=[0,2,1]", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"transpose axes=[-3,2,1]", S(3, 5, 3, 2), SCALAR, false, SCOPE_ROW},
	{"transpose axes=[1,0,2]", S(3, 5, 3, 2), SCALAR, false, SCOPE_ALL},
	{"slice start=1", S(2, 5, 3), SCALAR, false, SCOPE_NEIGHBOUR},
	{"slice step=2", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"slice step=-1", S(1, 5), SCALAR, false, SCOPE_ALL},
	{"slice axis=-1 start=1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"pad 1 1", S(2, 5, 3), SCALAR, false, SCOPE_NEIGHBOUR},
	{"pad 1 1 axis=1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"roll 1", S(2, 5, 3), SCALAR, false, SCOPE_NEIGHBOUR},
	{"stack axis=-1", S(1, 5), S(1, 5), true, SCOPE_ROW},
	{"stack axis=1", S(2, 5, 3), S(2, 5, 3), true, SCOPE_ROW},
	{"stack", S(2, 5, 3), S(2, 5, 3), true, SCOPE_ALL},
	{"stack axis=-3", S(2, 5, 3), S(2, 5, 3), true, SCOPE_ALL},
	{"expand_dims 0", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"expand_dims -1", S(1, 5), SCALAR, false, SCOPE_ROW},
	{"squeeze", S(2, 5, 1), SCALAR, false, SCOPE_ROW},
	{"squeeze", S(2, 1, 5), SCALAR, false, SCOPE_ALL},
	{"squeeze axis=1", S(2, 1, 1), SCALAR, false, SCOPE_ROW},
	{"flip", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"flip axis=-1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"tril", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"triu 1", S(3, 5, 3, 3), SCALAR, false, SCOPE_ROW},
	{"concat axis=1", S(2, 5, 3), S(2, 5, 3), true, SCOPE_ROW},
	{"concat", S(2, 5, 3), S(2, 5, 3), true, SCOPE_ALL},
	{"laplacian", S(2, 5, 3), SCALAR, false, SCOPE_NEIGHBOUR},
	{"laplacian axes=1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"laplacian axes=[1,0]", S(2, 5, 3), SCALAR, false, SCOPE_NEIGHBOUR},
	{"matmul", S(2, 5, 3), S(2, 3, 4), false, SCOPE_ROW},
	{"matmul", S(1, 3), S(2, 3, 4), false, SCOPE_ALL},
	{"matmul", S(2, 5, 3), S(1, 3), false, SCOPE_ROW},
	{"matmul", S(2, 5, 3), S(2, 3, 5), true, SCOPE_ALL},
	{"matmul", S(3, 5, 2, 3), S(3, 5, 3, 4), true, SCOPE_ROW},
	{"matmul", S(3, 5, 2, 3), S(3, 1, 3, 4), false, SCOPE_ROW},
	{"matmul", S(3, 5, 2, 3), S(3, 5, 3, 4), false, SCOPE_ALL},
	{"matmul", S(2, 5, 3), S(3, 2, 3, 4), false, SCOPE_ALL},
	{"linear", S(2, 5, 3), S(2, 4, 3), false, SCOPE_ROW},
	{"dot", S(2, 5, 3), S(2, 4, 5), false, SCOPE_ALL},
	{"dot", S(3, 6, 5, 3), S(2, 4, 5), false, SCOPE_ROW},
	{"conv1d", S(3, 5, 2, 8), S(3, 1, 2, 3), false, SCOPE_ROW},
	{"maxpool1d 2", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"maxpool1d 2", S(1, 5), SCALAR, false, SCOPE_ALL},
	{"avgpool2d 2", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"avgpool2d 2", S(3, 5, 3, 3), SCALAR, false, SCOPE_ROW},
	{"upsample 2", S(3, 5, 3, 3), SCALAR, false, SCOPE_ROW},
	{"upsample 2", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"upsample 2 axes=1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"mse", S(2, 5, 3), S(2, 5, 3), true, SCOPE_SUM},
	{"mse", S(2, 5, 3), S(1, 3), false, SCOPE_SUM},
	{"mse", S(2, 5, 3), SCALAR, false, SCOPE_SUM},
	{"mse", S(2, 5, 3), S(2, 1, 3), false, SCOPE_SUM},
	{"mse", S(2, 5, 3), S(2, 5, 3), false, SCOPE_ALL},
	{"mse", S(2, 5, 1), S(2, 5, 3), true, SCOPE_ALL},
	{"mse", S(1, 3), S(2, 5, 3), false, SCOPE_ALL},
	{"cross_entropy", S(2, 5, 3), S(1, 5), true, SCOPE_SUM},
	{"cross_entropy", S(2, 5, 3), S(1, 5), false, SCOPE_ALL},
	{"cross_entropy ignore=1", S(2, 5, 3), S(1, 5), true, SCOPE_FOLD},
	{"cross_entropy ignore=1 reduction=sum", S(2, 5, 3), S(1, 5), true, SCOPE_SUM},
	{"nll", S(2, 5, 3), S(1, 5), true, SCOPE_ROW},
	{"nll", S(2, 5, 3), S(1, 5), false, SCOPE_ALL},
	{"nll axis=0", S(2, 5, 3), S(1, 3), true, SCOPE_ALL},
	{"cross_entropy", S(1, 5), SCALAR, false, SCOPE_ALL},
	{"take", S(2, 5, 3), S(2, 4, 2), false, SCOPE_ROW},
	{"take", SCALAR, S(2, 4, 2), false, SCOPE_ALL},
	{"take axis=1", S(2, 5, 3), S(2, 4, 2), false, SCOPE_ALL},
	{"take axis=-2", S(2, 5, 3), S(2, 4, 2), false, SCOPE_ROW},
	{"take_along 1", S(2, 5, 3), S(2, 5, 2), true, SCOPE_ROW},
	{"take_along 1", S(2, 5, 3), S(2, 1, 2), false, SCOPE_ROW},
	{"take_along 1", S(2, 5, 3), S(2, 5, 2), false, SCOPE_ALL},
	{"take_along -2", S(2, 5, 3), S(2, 5, 2), true, SCOPE_ALL},
	{"scatter_add 4", S(2, 5, 3), S(1, 5), false, SCOPE_ALL},
	{"scatter_add 4 axis=1", S(2, 5, 3), S(1, 3), false, SCOPE_ROW},
	{"one_hot 4", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"solve", S(2, 3, 4), S(2, 3, 3), false, SCOPE_ALL},
	{"solve", S(3, 5, 3, 4), S(2, 3, 3), false, SCOPE_ROW},
	{"solve", S(3, 5, 3, 4), S(3, 5, 3, 3), true, SCOPE_ROW},
	{"solve", S(3, 5, 3, 4), S(3, 5, 3, 3), false, SCOPE_ALL},
	{"fft", S(3, 5, 4, 2), SCALAR, false, SCOPE_ROW},
	{"ifft axis=-2", S(3, 5, 4, 2), SCALAR, false, SCOPE_ALL},
	{"rfft", S(2, 5, 4), SCALAR, false, SCOPE_ROW},
	{"rfft", S(1, 5), SCALAR, false, SCOPE_ALL},
	{"irfft axis=0", S(2, 5, 2), SCALAR, false, SCOPE_ALL},
	{"cmul", S(3, 5, 4, 2), S(2, 4, 2), false, SCOPE_ROW},
	{"cmul", S(2, 5, 2), S(2, 5, 2), true, SCOPE_ROW},
	{"cmul", S(2, 5, 2), S(2, 5, 2), false, SCOPE_ALL},
	{"cmul", S(2, 5, 2), S(3, 3, 5, 2), false, SCOPE_ALL},
	{"cholesky", S(2, 3, 3), SCALAR, false, SCOPE_ALL},
	{"inv", S(3, 5, 3, 3), SCALAR, false, SCOPE_ROW},
	{"logdet", S(3, 5, 3, 3), SCALAR, false, SCOPE_ROW},
	{"argmax", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
	{"argmax axis=1", S(2, 5, 3), SCALAR, false, SCOPE_ROW},
	{"argmin axis=0", S(2, 5, 3), SCALAR, false, SCOPE_ALL},
};

START_TEST(test_reach)
{
	struct attrs attrs;
	struct type v = {DTYPE_F64, reaches[_i].v}, a = {DTYPE_F64, reaches[_i].a};
	const char *message = NULL, *hint;
	enum op op = parse(reaches[_i].text, &attrs, &message, &hint);
	ck_assert_msg(op_scope(op, &attrs, &v, op_table[op].operands ? &a : NULL, reaches[_i].streamed) ==
	                  reaches[_i].scope,
	              "%d: %s", _i, reaches[_i].text);
}
END_TEST

START_TEST(test_kept_types)
{
	struct attrs attrs;
	struct type v = {DTYPE_F32, S(3, 4, 5, 6)}, a = {DTYPE_F32, S(1, 6)}, y = v, k;
	const char *message, *hint;
	char text[TYPE_TEXT];
	parse("layernorm axis=1", &attrs, &message, &hint);
	k = op_keep_type(OP_layernorm, &attrs, &v, NULL, &y, 0);
	ck_assert_str_eq(type_format(&k, text), "f32[4,1,6]");
	k = op_keep_type(OP_relu, &attrs, &v, NULL, &y, 0);
	ck_assert_str_eq(type_format(&k, text), "bool[4,5,6]");
	k = op_keep_type(OP_sin, &attrs, &v, NULL, &y, 0);
	ck_assert_str_eq(type_format(&k, text), "f32[4,5,6]");
	y.shape.ndim = 0;
	k = op_keep_type(OP_mse, &attrs, &v, &a, &y, 0);
	ck_assert_str_eq(type_format(&k, text), "f32[4,5,6]");
	k = op_keep_type(OP_mse, &attrs, &a, &v, &y, 0);
	ck_assert_str_eq(type_format(&k, text), "f32[4,5,6]");
	y = v;
	k = op_keep_type(OP_max, &attrs, &a, &v, &y, 1);
	ck_assert_str_eq(type_format(&k, text), "bool[4,5,6]");
}
END_TEST

START_TEST(test_costs)
{
	struct attrs attrs;
	struct type v = {DTYPE_F32, S(2, 8, 16)}, w = {DTYPE_F32, S(2, 16, 4)}, y = {DTYPE_F32, S(2, 8, 4)};
	attrs_default(&attrs, OP_matmul);
	ck_assert_double_eq(op_cost(OP_matmul, NULL, &v, &w, &y), 2 * 8 * 16 * 4);
	ck_assert_double_eq(op_cost(OP_sin, NULL, &v, NULL, &v), 25 * 128);
	ck_assert_double_gt(op_cost(OP_transpose, NULL, &v, NULL, &v), 0);
	struct type x = {DTYPE_F32, S(3, 2, 3, 10)}, k = {DTYPE_F32, S(3, 4, 3, 3)}, z = {DTYPE_F32, S(3, 2, 4, 8)};
	ck_assert_double_eq(op_cost(OP_conv1d, NULL, &x, &k, &z), 2.0 * 2 * 4 * 8 * 9);
	k.shape = (struct shape)S(3, 3, 4, 3);
	ck_assert_double_eq(op_cost(OP_conv_transpose1d, NULL, &x, &k, &z), 2.0 * 2 * 3 * 10 * 12);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ops");
	TCase *tests = suite_make_case(suite, "ops");
	tcase_add_checked_fixture(tests, scratch_setup, scratch_teardown);
	tcase_add_test(tests, test_table);
	tcase_add_test(tests, test_defaults);
	tcase_add_test(tests, test_positionals);
	tcase_add_test(tests, test_values);
	tcase_add_loop_test(tests, test_wrong_arguments, 0, sizeof wrong_arguments / sizeof *wrong_arguments);
	tcase_add_loop_test(tests, test_misfits, 0, sizeof misfits / sizeof *misfits);
	tcase_add_loop_test(tests, test_reach, 0, sizeof reaches / sizeof *reaches);
	tcase_add_test(tests, test_kept_types);
	tcase_add_test(tests, test_costs);
	return suite_run(suite);
}
