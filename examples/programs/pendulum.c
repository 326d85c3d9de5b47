/* The step of pendulum.ck as a command with shared memory:  cc -O2 -o pendulum pendulum.c -lm */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char line[4096], *memory;

/* The array whose offset in memory stands behind KEY. */
static double *find(const char *key) { return (double *)(memory + atoll(strstr(line, key) + strlen(key))); }

int main(void)
{
	size_t n = 0;
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "memory ", 7)) { /* no answer; an older mapping may stay */
			memory = mmap(NULL, strtoull(line + 7, NULL, 10), PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
			if (memory == MAP_FAILED) return perror("mmap"), 1;
			continue;
		} else if (sscanf(line, "open 1 step x=f64[2,%zu]", &n) == 1) {
			puts("ready 1 backward memory");
		} else if (!strncmp(line, "forward ", 8)) {
			double *x = find(" x="), *k = find(" k="), *y = find(" y=");
			for (size_t i = 0; i < n; i++) {
				y[n + i] = 0.99 * x[n + i] - 0.01 * k[i] * sin(x[i]);
				y[i] = x[i] + 0.01 * y[n + i];
			}
			puts("ok");
		} else if (!strncmp(line, "backward ", 9)) {
			double *x = find(" x="), *k = find(" k="), *g = find(" g="), *dx = find(" dx="), *dk = find(" dk=");
			for (size_t i = 0; i < n; i++) {
				double speed = g[n + i] + 0.01 * g[i]; /* the cotangent of the new speed */
				dx[i] = g[i] - 0.01 * k[i] * cos(x[i]) * speed;
				dx[n + i] = 0.99 * speed;
				dk[i] = -0.01 * sin(x[i]) * speed;
			}
			puts("ok");
		} else puts("error unknown message");
		fflush(stdout);
	}
}
