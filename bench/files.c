/*
 * files OUT BYTES IN...: reads the files IN to memory, and writes BYTES bytes to OUT. It prints its seconds, elapsed and of the
 * processor: what the kernel takes for the files of a run that computes nothing. bench/networks.py compares.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Reads the file PATH to new memory, which is not freed. */
static void read_file(const char *path)
{
	const int file = open(path, O_RDONLY);
	struct stat stat;
	if (file < 0 || fstat(file, &stat))
		exit(4);
	char *const memory = malloc((size_t)stat.st_size + 1);
	for (ssize_t at = 0, got; at < stat.st_size; at += got)
		if (!memory || (got = read(file, memory + at, BLOCK)) <= 0)
			exit(4);
	close(file);
}

static void write_file(const char *path, long long bytes)
{
	static char block[BLOCK];
	const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (file < 0)
		exit(5);
	for (ssize_t put; bytes > 0; bytes -= put)
		if ((put = write(file, block, bytes < BLOCK ? (size_t)bytes : BLOCK)) <= 0)
			exit(5);
	close(file);
}

int main(int argc, char **argv)
{
	const double begin = now(CLOCK_MONOTONIC);
	if (argc < 3)
		return 2;
	for (int i = 3; i < argc; i++)
		read_file(argv[i]);
	write_file(argv[1], atoll(argv[2]));
	printf("%.3f %.3f\n", now(CLOCK_MONOTONIC) - begin, now(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
