/*
 * gradient N: the gradient of `repeat K { add { laplacian; mul 0.1 }; sin }` on f32[N,N] by plain loops. It reads the actions
 * that `ckptc plan --schedule` prints: the same steps, copies and backward passes as ckptc's. It prints its seconds, and by how
 * much they exceed those of its evaluations alone. Compile it with -O3 -march=native -ffast-math. bench/run compares.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 100, ACTIONS = 10000 };

static size_t n;
static float *state, *cotangent, *spare, *slots[SLOTS], *slopes[SLOTS];

static float *array(void)
{
	const size_t bytes = n * n * sizeof(float);
	float *made = aligned_alloc(64, (bytes + 63) / 64 * 64);
	return made ? memset(made, 0, bytes) : (exit(6), made);
}

/* sin(v) to some 1e-6 for small arguments: less work than a sine that is correctly rounded. */
static inline float sine(float v)
{
	const float k = rintf(v * 0.318309886F), r = v - k * 3.14159265F, s = r * r;
	const float p = r + r * s * (-1.6666654e-1F + s * (8.3321608e-3F + s * -1.9515296e-4F));
	return (int)k & 1 ? -p : p;
}

/* x + 0.1 laplacian(x) at j */
static inline float sum(const float *x, size_t j)
{
	return x[j] + 0.1F * (x[j - 1] + x[j + 1] + x[j - n] + x[j + n] - 4 * x[j]);
}

/* The points inside: *x = the sum, its sine, or its sine with its cosine in SLOPES. */
static void step(float **x, int sines, float *restrict cosines)
{
	const float *restrict from = *x;
	float *restrict to = spare;
	for (size_t i = 1; i + 1 < n; i++) {
		const size_t begin = i * n + 1, end = i * n + n - 1;
		for (size_t j = begin; cosines && j < end; j++) {
			const float v = sum(from, j);
			to[j] = sine(v);
			cosines[j] = sine(v + 1.57079633F);
		}
		for (size_t j = begin; !cosines && sines && j < end; j++)
			to[j] = sine(sum(from, j));
		for (size_t j = begin; !sines && j < end; j++)
			to[j] = sum(from, j);
	}
	spare = *x;
	*x = to;
}

/* One action on steps FIRST to LAST; or on a state and slot LAST. */
static void act(char name, int first, int last)
{
	if (name == 's')
		memcpy(slots[last], state, n * n * sizeof(float));
	else if (name == 'l')
		memcpy(state, slots[last], n * n * sizeof(float));
	for (int k = first; (name == 'f' || name == 'r') && k <= last; k++)
		step(&state, 1, name == 'r' ? slopes[k - first] : NULL);
	for (int k = last; name == 'b' && k >= first; k--) {
		for (size_t i = 0; i < n * n; i++)
			cotangent[i] *= slopes[k - first][i];
		step(&cotangent, 0, NULL);
	}
}

int main(int argc, char **argv)
{
	static struct {
		char name;
		int first, last;
	} actions[ACTIONS];
	int count = 0;
	n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	state = array(), cotangent = array(), spare = array();
	for (char line[200]; count < ACTIONS && fgets(line, sizeof line, stdin); count++) {
		int first = 0, last = 0;
		if (sscanf(line, "%*s %*s %d%*[^0-9]%d", &first, &last) != 2 || last >= SLOTS)
			continue; // a drop: no copy
		for (int k = first; k <= last && line[0] == 'r'; k++)
			slopes[k - first] = slopes[k - first] ? slopes[k - first] : array();
		if (line[0] == 's' && !slots[last])
			slots[last] = array();
		actions[count].name = line[0], actions[count].first = first, actions[count].last = last;
	}
	double all = 0, forward = 0;
	int evaluations = 0, steps = 0;
	for (int i = 0; i < count; i++) {
		struct timespec begun, ended;
		clock_gettime(CLOCK_MONOTONIC, &begun);
		act(actions[i].name, actions[i].first, actions[i].last);
		clock_gettime(CLOCK_MONOTONIC, &ended);
		const double seconds = (double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec);
		const int done = actions[i].last - actions[i].first + 1;
		all += seconds;
		forward += actions[i].name == 'f' ? seconds : 0;
		steps += actions[i].name == 'f' ? done : 0;
		evaluations += actions[i].name == 'f' || actions[i].name == 'r' ? done : 0;
	}
	printf("%.6f %.3f\n", all, all / (evaluations * forward / steps));
	return 0;
}
