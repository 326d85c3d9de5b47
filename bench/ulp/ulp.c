/*
 * Measures the largest error of every elementary kernel, for each instruction set.
 * Floats are held against the C library in double, all 2^32 of them or every STRIDE-th.
 * Doubles are held against MPFR with 160 bits, at random and at hard points.
 *
 *     ulp [-d] [-s STRIDE] [-n POINTS] [-i ISA] [-f NAME] [-t f32|f64]
 *
 * One line for each: instruction set, type, function, largest error in units of the
 * last place, where. With -d, an instruction set after the first is measured only at
 * floats where its result differs from the first's, and their number is printed. The
 * first's error covers the others, so this takes a tenth of the time. This is a
 * maintainer's program, not a test: with -s 1 it runs for hours.
 * Build: cc -O2 -Isrc bench/ulp/ulp.c libckptc.a -lsleef -lmpfr -lgmp -lm
 */
#include "ops/kernels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, PRECISION = 160 };

/* ---- floats: the functions in double ---- */

static double of_rsqrt(double x) { return 1 / sqrt(x); }
static double of_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double of_softplus(double x) { return isnan(x) ? x : fmax(x, 0) + log1p(exp(-fabs(x))); }
static double of_elu(double x) { return x > 0 ? x : expm1(x); }
static double of_silu(double x) { return x / (1 + exp(-x)); }
static double of_logit(double x) { return x > 0.25 && x < 0.75 ? 2 * atanh(2 * x - 1) : log(x / (1 - x)); }
static double of_mish(double x) { return x * tanh(of_softplus(x)); }
static double of_gelu(double x) { return x * (erfc(-x * M_SQRT1_2) / 2); }
static double of_gelu_tanh(double x) { return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

/* ---- doubles: the functions in MPFR; Y holds x ---- */

static void to_elu(mpfr_t y)
{
	if (mpfr_sgn(y) < 0)
		mpfr_expm1(y, y, MPFR_RNDN);
}
static void to_rsqrt(mpfr_t y)
{
	if (mpfr_zero_p(y))
		mpfr_ui_div(y, 1, y, MPFR_RNDN);
	else
		mpfr_rec_sqrt(y, y, MPFR_RNDN);
}
/* y / (1 + exp(-x)) */
static void times_sigmoid(mpfr_t y, mpfr_t x)
{
	mpfr_neg(x, x, MPFR_RNDN);
	mpfr_exp(x, x, MPFR_RNDN);
	mpfr_add_ui(x, x, 1, MPFR_RNDN);
	mpfr_div(y, y, x, MPFR_RNDN);
}
static void to_sigmoid(mpfr_t y)
{
	mpfr_t one;
	mpfr_init2(one, PRECISION);
	mpfr_set_ui(one, 1, MPFR_RNDN);
	times_sigmoid(one, y);
	mpfr_set(y, one, MPFR_RNDN);
	mpfr_clear(one);
}
static void to_silu(mpfr_t y)
{
	mpfr_t x;
	mpfr_init2(x, PRECISION);
	mpfr_set(x, y, MPFR_RNDN);
	times_sigmoid(y, x);
	mpfr_clear(x);
}
static void to_softplus(mpfr_t y)
{
	if (mpfr_cmp_ui(y, 1000) > 0)
		return;
	mpfr_exp(y, y, MPFR_RNDN);
	mpfr_log1p(y, y, MPFR_RNDN);
}
static void to_gelu(mpfr_t y)
{
	mpfr_t x;
	mpfr_init2(x, PRECISION);
	mpfr_set_ui(x, 2, MPFR_RNDN);
	mpfr_sqrt(x, x, MPFR_RNDN);
	mpfr_div(x, y, x, MPFR_RNDN);
	mpfr_neg(x, x, MPFR_RNDN);
	mpfr_erfc(x, x, MPFR_RNDN);
	mpfr_mul(y, y, x, MPFR_RNDN);
	mpfr_div_ui(y, y, 2, MPFR_RNDN);
	mpfr_clear(x);
}
static void to_gelu_tanh(mpfr_t y)
{
	mpfr_t x, pi;
	mpfr_inits2(PRECISION, x, pi, NULL);
	mpfr_sqr(x, y, MPFR_RNDN);
	mpfr_mul_ui(x, x, 44715, MPFR_RNDN);
	mpfr_div_ui(x, x, 1000000, MPFR_RNDN);
	mpfr_add_ui(x, x, 1, MPFR_RNDN);
	mpfr_mul(x, x, y, MPFR_RNDN);
	mpfr_const_pi(pi, MPFR_RNDN);
	mpfr_ui_div(pi, 8, pi, MPFR_RNDN);
	mpfr_sqrt(pi, pi, MPFR_RNDN);
	mpfr_mul(x, x, pi, MPFR_RNDN);
	times_sigmoid(y, x);
	mpfr_clears(x, pi, NULL);
}
#define IN_MPFR(NAME)                                                                                                  \
	static void to_##NAME(mpfr_t y) { mpfr_##NAME(y, y, MPFR_RNDN); }
IN_MPFR(exp)
IN_MPFR(expm1)
IN_MPFR(log)
IN_MPFR(log1p)
IN_MPFR(sin)
IN_MPFR(cos)
IN_MPFR(tan)
IN_MPFR(asin)
IN_MPFR(acos)
IN_MPFR(atan)
IN_MPFR(sinh)
IN_MPFR(cosh)
IN_MPFR(tanh)
IN_MPFR(erf)
IN_MPFR(erfc)
IN_MPFR(exp2)
IN_MPFR(log2)
IN_MPFR(log10)
IN_MPFR(cbrt)
IN_MPFR(asinh)
IN_MPFR(acosh)
IN_MPFR(atanh)
static void to_mish(mpfr_t y)
{
	mpfr_t x;
	mpfr_init2(x, PRECISION);
	mpfr_set(x, y, MPFR_RNDN);
	to_softplus(x);
	mpfr_tanh(x, x, MPFR_RNDN);
	mpfr_mul(y, y, x, MPFR_RNDN);
	mpfr_clear(x);
}
static void to_logit(mpfr_t y)
{
	mpfr_t x;
	mpfr_init2(x, PRECISION);
	mpfr_ui_sub(x, 1, y, MPFR_RNDN);
	mpfr_div(y, y, x, MPFR_RNDN);
	mpfr_log(y, y, MPFR_RNDN);
	mpfr_clear(x);
}

static const struct function {
	const char *name;
	int op;
	double number;
	double (*in_double)(double x);
	void (*in_mpfr)(mpfr_t y);
	double low, high; /* where most points are */
} functions[] = {
	{"exp", OP_exp, 0, exp, to_exp, -750, 712},
	{"expm1", OP_expm1, 0, expm1, to_expm1, -40, 712},
	{"log", OP_log, 0, log, to_log, 0, 10},
	{"log1p", OP_log1p, 0, log1p, to_log1p, -1, 10},
	{"sin", OP_sin, 0, sin, to_sin, -1000, 1000},
	{"cos", OP_cos, 0, cos, to_cos, -1000, 1000},
	{"tan", OP_tan, 0, tan, to_tan, -1000, 1000},
	{"asin", OP_asin, 0, asin, to_asin, -1, 1},
	{"acos", OP_acos, 0, acos, to_acos, -1, 1},
	{"atan", OP_atan, 0, atan, to_atan, -10, 10},
	{"sinh", OP_sinh, 0, sinh, to_sinh, -711, 711},
	{"cosh", OP_cosh, 0, cosh, to_cosh, -711, 711},
	{"tanh", OP_tanh, 0, tanh, to_tanh, -20, 20},
	{"erf", OP_erf, 0, erf, to_erf, -6, 6},
	{"rsqrt", OP_rsqrt, 0, of_rsqrt, to_rsqrt, 0, 100},
	{"sigmoid", OP_sigmoid, 0, of_sigmoid, to_sigmoid, -750, 40},
	{"softplus", OP_softplus, 0, of_softplus, to_softplus, -750, 40},
	{"elu", OP_elu, 0, of_elu, to_elu, -40, 1},
	{"silu", OP_silu, 0, of_silu, to_silu, -750, 40},
	{"gelu", OP_gelu, 0, of_gelu, to_gelu, -39, 9},
	{"erfc", OP_erfc, 0, erfc, to_erfc, -6, 28},
	{"exp2", OP_exp2, 0, exp2, to_exp2, -1080, 1025},
	{"log2", OP_log2, 0, log2, to_log2, 0, 10},
	{"log10", OP_log10, 0, log10, to_log10, 0, 10},
	{"cbrt", OP_cbrt, 0, cbrt, to_cbrt, -10, 10},
	{"asinh", OP_asinh, 0, asinh, to_asinh, -10, 10},
	{"acosh", OP_acosh, 0, acosh, to_acosh, 1, 10},
	{"atanh", OP_atanh, 0, atanh, to_atanh, -1, 1},
	{"logit", OP_logit, 0, of_logit, to_logit, 0, 1},
	{"mish", OP_mish, 0, of_mish, to_mish, -750, 40},
	{"gelu_tanh", OP_gelu, 1, of_gelu_tanh, to_gelu_tanh, -22, 9},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

struct worst {
	double error, at, at2;
	uint64_t looked_at;
};

static void note(struct worst *worst, double error, double at, double at2)
{
	if (!(error <= worst->error))
		*worst = (struct worst){error, at, at2, worst->looked_at};
	worst->looked_at++;
}

/* ---- floats ---- */

static double error_f32(float y, double want)
{
	int exponent;

	if (isnan(want) || isnan(y))
		return isnan(want) && isnan(y) ? 0 : INFINITY;
	if (isinf(y))
		return fabs(want) >= 0x1.ffffffp127 && (y > 0) == (want > 0) ? 0 : INFINITY;
	if (isinf(want))
		return INFINITY;
	if (want == 0)
		return y == 0 && !signbit(y) == !signbit(want) ? 0 : (double)fabsf(y) / 0x1p-149;
	if (y == 0 && !signbit(y) != !signbit(want))
		return INFINITY;
	frexp(want, &exponent);
	return fabs((double)y - want) / ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

/* Of every STRIDE-th float; where FIRST, of those whose result is another one there. */
static struct worst measure_f32(const struct kernels *kernels, const struct kernels *first, const struct function *f,
                                unsigned long stride)
{
	static float x[BLOCK], y[BLOCK], known[BLOCK];
	struct worst worst = {0, 0, 0, 0};
	const struct kernel_args args = {.out = y, .v = x, .number = {f->number, 0}, .n = BLOCK};
	struct kernel_args at_first = args;
	at_first.out = known;

	for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += stride * BLOCK) {
		for (unsigned long i = 0; i < BLOCK; i++) {
			const uint32_t b = (uint32_t)(bits + i * stride);
			memcpy(&x[i], &b, sizeof b);
		}
		kernels->forward[f->op][0](&args);
		if (first)
			first->forward[f->op][0](&at_first);
		for (int i = 0; i < BLOCK; i++) {
			if (first && !memcmp(&y[i], &known[i], sizeof y[i]))
				continue;
			const double want = f->in_double((double)x[i]);
			const double error = (double)(float)want == (double)y[i] ? 0 : error_f32(y[i], want);
			/* a correctly rounded result is at most half off: only the others are of interest, and zeros' signs */
			note(&worst, y[i] == 0 && want == 0 ? error_f32(y[i], want) : error, (double)x[i], 0);
		}
	}
	return worst;
}

/* ---- doubles ---- */

static uint64_t seed = 7;
static uint64_t random_bits(void)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static double random_double(void)
{
	const uint64_t bits = random_bits();
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static double uniform(double low, double high) { return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53; }

/* Y against the exact WANT, which has mpfr's exponents. */
static double error_f64(double y, mpfr_t want)
{
	mpfr_t difference;
	double error;

	if (mpfr_nan_p(want) || isnan(y))
		return mpfr_nan_p(want) && isnan(y) ? 0 : INFINITY;
	if (mpfr_inf_p(want))
		return isinf(y) && (y > 0) == (mpfr_sgn(want) > 0) ? 0 : INFINITY;
	if (isinf(y))
		return (y > 0) == (mpfr_sgn(want) > 0) && isinf(mpfr_get_d(want, MPFR_RNDN)) ? 0 : INFINITY;
	if (mpfr_zero_p(want))
		return y == 0 && !signbit(y) == !mpfr_signbit(want) ? 0 : INFINITY;
	if (y == 0 && !signbit(y) != !mpfr_signbit(want))
		return INFINITY;
	mpfr_init2(difference, PRECISION);
	mpfr_sub_d(difference, want, y, MPFR_RNDN);
	const long exponent = mpfr_get_exp(want) - 53 < -1074 ? -1074 : mpfr_get_exp(want) - 53;
	mpfr_mul_2si(difference, difference, -exponent, MPFR_RNDN);
	error = fabs(mpfr_get_d(difference, MPFR_RNDN));
	mpfr_clear(difference);
	return error;
}

/* A point: in the domain, near zero, near a multiple of pi/4 or ln 2, near one, or any double. */
static double point(const struct function *f)
{
	const double near = uniform(-1, 1) * ldexp(1, -(int)(random_bits() % 60));

	switch (random_bits() % 8) {
	case 0:
		return random_double();
	case 1:
		return near;
	case 2:
		return nextafter((double)(random_bits() % 4096) * M_PI_4, random_double()) * (random_bits() & 1 ? 1 : -1);
	case 3:
		return nextafter((double)(random_bits() % 2048) * (M_LN2 / 2), random_double()) * (random_bits() & 1 ? 1 : -1);
	case 4:
		return random_bits() & 1 ? 1 + near : -1 + near;
	case 5:
		return uniform(f->low, f->high) * 0.05;
	default:
		return uniform(f->low, f->high);
	}
}

static struct worst measure_f64(const struct kernels *kernels, const struct function *f, unsigned long points)
{
	static const double fixed[] = {0.0,
	                               -0.0,
	                               INFINITY,
	                               -INFINITY,
	                               NAN,
	                               1,
	                               -1,
	                               5e-324,
	                               -5e-324,
	                               0x1p-1022,
	                               DBL_MAX,
	                               -DBL_MAX,
	                               709.782712893384,
	                               709.782712893385,
	                               710.4758600739439,
	                               710.475860073944,
	                               -745.13,
	                               -745.14,
	                               6381956970095103.0 * 0x1p797,
	                               0x1.6ac5b262ca1ffp+849};
	static double x[BLOCK], y[BLOCK];
	struct worst worst = {0, 0, 0, 0};
	const struct kernel_args args = {.out = y, .v = x, .number = {f->number, 0}, .n = BLOCK};
	mpfr_t want;

	seed = 7;
	mpfr_init2(want, PRECISION);
	for (unsigned long done = 0; done < points; done += BLOCK) {
		for (size_t i = 0; i < BLOCK; i++)
			x[i] = i < sizeof fixed / sizeof fixed[0] ? fixed[i] : point(f);
		kernels->forward[f->op][0](&args);
		for (int i = 0; i < BLOCK; i++) {
			mpfr_set_d(want, x[i], MPFR_RNDN);
			if (isinf(x[i]) && (f->op == OP_gelu || f->op == OP_silu || f->op == OP_mish))
				mpfr_set_d(want, x[i] > 0 ? x[i] : NAN, MPFR_RNDN);
			else
				f->in_mpfr(want);
			note(&worst, error_f64(y[i], want), x[i], 0);
		}
	}
	mpfr_clear(want);
	return worst;
}

static double power_f32(double x, double y) { return pow(x, y); }

static struct worst measure_pow(const struct kernels *kernels, unsigned long points)
{
	static double x[BLOCK], y[BLOCK], z[BLOCK];
	static float xf[BLOCK], yf[BLOCK], zf[BLOCK];
	const bool single = kernels->dtype == DTYPE_F32;
	struct worst worst = {0, 0, 0, 0};
	mpfr_t want, exponent;

	seed = 9;
	mpfr_inits2(PRECISION, want, exponent, NULL);
	for (unsigned long done = 0; done < points; done += BLOCK) {
		for (int i = 0; i < BLOCK; i++) {
			const int kind = (int)(random_bits() % 6);
			const double wide = single ? 127 : 1020;
			x[i] = kind == 0   ? random_double()
			       : kind == 1 ? 1 + uniform(-1, 1) * ldexp(1, -(int)(random_bits() % 50))
			       : kind == 2 ? exp2(uniform(-wide, wide))
			                   : uniform(-1, 20);
			y[i] = kind == 0   ? random_double()
			       : kind == 3 ? (double)(int)(random_bits() % 40) / 2 - 10
			                   : uniform(-1, 1) * (single ? 100 : 740) / fmax(fabs(log(fabs(x[i]))), 1e-300);
			if (single) {
				xf[i] = (float)x[i], yf[i] = (float)y[i];
				x[i] = (double)xf[i], y[i] = (double)yf[i];
			}
		}
		const struct kernel_args args = {.out = single ? (void *)zf : (void *)z,
		                                 .v = single ? (void *)xf : (void *)x,
		                                 .a = single ? (void *)yf : (void *)y,
		                                 .n = BLOCK};
		kernels->forward[OP_pow][0](&args);
		for (int i = 0; i < BLOCK; i++) {
			if (single) {
				note(&worst, error_f32(zf[i], power_f32(x[i], y[i])), x[i], y[i]);
				continue;
			}
			mpfr_set_d(want, x[i], MPFR_RNDN);
			mpfr_set_d(exponent, y[i], MPFR_RNDN);
			mpfr_pow(want, want, exponent, MPFR_RNDN);
			note(&worst, error_f64(z[i], want), x[i], y[i]);
		}
	}
	mpfr_clears(want, exponent, NULL);
	return worst;
}

int main(int argc, char **argv)
{
	unsigned long stride = 97, points = 200000;
	const char *isa = NULL, *only = NULL, *type = NULL;
	bool differing = false;

	for (int option; (option = getopt(argc, argv, "ds:n:i:f:t:")) != -1;)
		switch (option) {
		case 'd':
			differing = true;
			break;
		case 's':
			stride = strtoul(optarg, NULL, 10);
			break;
		case 'n':
			points = strtoul(optarg, NULL, 10);
			break;
		case 'i':
			isa = optarg;
			break;
		case 'f':
			only = optarg;
			break;
		case 't':
			type = optarg;
			break;
		default:
			return 2;
		}
	for (int wide = 0; wide < 2; wide++) {
		const struct kernels *tables[4];
		const size_t count = kernels_all(wide ? DTYPE_F64 : DTYPE_F32, tables);
		const char *name = wide ? "f64" : "f32";

		for (size_t table = 0; table < count; table++) {
			if ((isa && strcmp(isa, tables[table]->isa) != 0) || (type && strcmp(type, name) != 0))
				continue;
			const struct kernels *first = differing && table > 0 ? tables[0] : NULL;
			for (int i = 0; i <= FUNCTIONS; i++) {
				const struct function *f = &functions[i];
				const char *label = i < FUNCTIONS ? f->name : "pow";
				if (only && strcmp(only, label) != 0)
					continue;
				const struct worst worst = i == FUNCTIONS ? measure_pow(tables[table], points)
				                           : wide         ? measure_f64(tables[table], f, points)
				                                          : measure_f32(tables[table], first, f, stride ? stride : 1);
				printf("%-9s %s %-10s %8.4f  %a", tables[table]->isa, name, label, worst.error, worst.at);
				if (i == FUNCTIONS)
					printf(", %a", worst.at2);
				printf("  of %" PRIu64 "\n", worst.looked_at);
				fflush(stdout);
			}
		}
	}
	return 0;
}
