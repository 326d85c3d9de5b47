/*
 * spin MS pipe|memory: a program whose step halves a state of f64 and computes on until MS milliseconds have passed, by pipe or
 * by shared memory. At its end it writes to stderr the seconds that it spent in steps, elapsed and of the processor:
 * bench/acoustic compares.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double spent[2];

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void halve(const double *from, double *to, size_t count, double seconds)
{
	const double elapsed = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
	for (size_t i = 0; i < count; i++)
		to[i] = 0.5 * from[i];
	while (now(CLOCK_PROCESS_CPUTIME_ID) - used < seconds)
		;
	spent[0] += now(CLOCK_MONOTONIC) - elapsed;
	spent[1] += now(CLOCK_PROCESS_CPUTIME_ID) - used;
}

/* The array behind KEY in the message LINE; NULL if LINE has none. */
static double *find(const char *line, const char *key, char *memory)
{
	const char *at = strstr(line, key);
	return at && memory ? (double *)(memory + atoll(at + strlen(key))) : NULL;
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? atof(argv[1]) / 1000 : 0;
	char line[4096], *memory = NULL;
	double *own = NULL;
	size_t count = 0, bytes;
	while (fgets(line, sizeof line, stdin)) {
		const char *shape = strstr(line, " x=f64[");
		if (sscanf(line, "memory %zu", &bytes) == 1) {
			if ((memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0)) == MAP_FAILED)
				return 1;
			continue;
		}
		if (shape) {
			count = strtoul(shape + 7, NULL, 10);
			own = realloc(own, 2 * count * sizeof *own);
			printf("ready 1 backward needs= %s\n", argc > 2 && !strcmp(argv[2], "memory") ? "memory" : "");
		} else if (memory) {
			const int forward = line[0] == 'f';
			halve(find(line, forward ? " x=" : " g=", memory), find(line, forward ? " y=" : " dx=", memory), count,
			      seconds);
			puts("ok");
		} else {
			if (fread(own, sizeof *own, count, stdin) != count)
				return 1;
			halve(own, own + count, count, seconds);
			puts("ok");
			fwrite(own + count, sizeof *own, count, stdout);
		}
		fflush(stdout);
	}
	fprintf(stderr, " %.6f %.6f\n", spent[0], spent[1]);
	return 0;
}
