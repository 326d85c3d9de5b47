/* The step of pendulum.ck as a shared object:  cc -O2 -shared -fPIC -o pendulum.so pendulum_so.c -lm */
#include <ckptc_step.h>
#include <math.h>
#include <stdlib.h>

static const char *begin(const struct ckptc_step_signature *types, struct ckptc_step_traits *traits, void **context)
{
	(void)traits; /* backward needs x and k, which is what they say */
	if (types->x.bytes != 8 || types->x.ndim != 2 || types->operand_count != 1) return "it is for f64[2,n] and k";
	int64_t *n = *context = malloc(sizeof *n);
	return n ? *n = types->x.dim[1], NULL : "out of memory";
}

static const char *forward(void *n, int64_t number, const void *from, const void *const *operands, void *to)
{
	(void)number;
	const double *angle = from, *speed = angle + *(int64_t *)n, *k = operands[0];
	double *new_angle = to, *new_speed = new_angle + *(int64_t *)n;
	for (int64_t i = 0; i < *(int64_t *)n; i++) {
		new_speed[i] = 0.99 * speed[i] - 0.01 * k[i] * sin(angle[i]);
		new_angle[i] = angle[i] + 0.01 * new_speed[i];
	}
	return NULL;
}

static const char *backward(void *n, int64_t number, const void *from, const void *const *operands, const void *y,
                            const void *cotangent, uint64_t handle, void *to, void *const *gradients)
{
	(void)number, (void)y, (void)handle;
	const double *angle = from, *k = operands[0], *g = cotangent, *g_speed = g + *(int64_t *)n;
	double *dx = to, *dk = gradients[0];
	for (int64_t i = 0; i < *(int64_t *)n; i++) {
		double speed = g_speed[i] + 0.01 * g[i]; /* the cotangent of the new speed */
		if (dx) dx[i] = g[i] - 0.01 * k[i] * cos(angle[i]) * speed, dx[*(int64_t *)n + i] = 0.99 * speed;
		if (dk) dk[i] = -0.01 * sin(angle[i]) * speed;
	}
	return NULL;
}

const struct ckptc_step ckptc_step = {CKPTC_STEP_VERSION, begin, forward, backward, .close = free};
