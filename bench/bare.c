/*
 * bare COMMAND MESSAGES [SUM]: sends the lines of the file MESSAGES to COMMAND, and awaits its answers, as ckptc does with
 * shared memory. SUM: adds up each dc in two doubles, as ckptc does. It neither plans nor computes anything else:
 * bench/acoustic compares.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the array NAME of the message LINE; NULL if it has none. */
static double *find(const char *line, const char *name, char *memory)
{
	const char *at = strstr(line, name);
	return at && memory ? (double *)(memory + atoll(at + strlen(name))) : NULL;
}

int main(int argc, char **argv)
{
	const int fd = memfd_create("bare", 0);
	int in[2], out[2];
	char line[4096], answer[4096], *memory = NULL;
	long cells = 0;
	double *sum = NULL, *low = NULL, *c = NULL;
	FILE *messages = argc > 2 ? fopen(argv[2], "r") : NULL;
	if (!messages || pipe(in) || pipe(out))
		return 1;
	if (!fork()) {
		if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || dup2(fd, 3) < 0 || close_range(4, ~0U, 0))
			return 1;
		return execl("/bin/sh", "sh", "-c", argv[1], NULL);
	}
	close(in[0]), close(out[1]);
	while (fgets(line, sizeof line, messages)) {
		const char *shape = strstr(line, " c=f64[");
		const size_t bytes = strncmp(line, "memory ", 7) ? 0 : strtoull(line + 7, NULL, 10);
		if (shape) {
			cells = atol(shape + 7) * atol(shape + 7);
			sum = calloc(2 * (size_t)cells, sizeof *sum);
			low = sum + cells;
		} else if (bytes && (ftruncate(fd, (off_t)bytes) ||
		                     (memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)) {
			return 1;
		} else if (!c && (c = find(line, " c=", memory))) {
			for (long i = 0; i < cells; i++)
				c[i] = 0.4;
		}
		if (write(in[1], line, strlen(line)) < 0 || (!bytes && read(out[0], answer, sizeof answer) <= 0))
			return 1;
		const double *dc = argc > 3 ? find(line, " dc=", memory) : NULL;
		for (long i = 0; dc && i < cells; i++) { /* Knuth's sum, whose error is exact */
			const double total = sum[i] + dc[i], part = total - sum[i];
			low[i] += (sum[i] - (total - part)) + (dc[i] - part);
			sum[i] = total;
		}
	}
	close(in[1]);
	return wait(NULL) < 0;
}
