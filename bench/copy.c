/*
 * copy IN OUT SECONDS: copies IN to OUT by two threads, 1 MiB at a time, and computes for SECONDS with each MiB while it is in the
 * cache: what a chain that takes as long costs beside the kernel's work. OUT is on disk at the end, as ckptc's output is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1 << 20, TURNS = 1000 };
static int in, out;
static long blocks;
static double seconds;
static atomic_long next;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *run(void *unused)
{
	static _Thread_local char block[BYTES];
	for (long i; (i = atomic_fetch_add(&next, 1)) < blocks;) {
		const ssize_t size = pread(in, block, BYTES, (off_t)i * BYTES);
		for (const double end = now() + seconds; now() < end;)
			for (volatile int turn = 0; turn < TURNS; turn++)
				;
		if (size < 0 || pwrite(out, block, (size_t)size, (off_t)i * BYTES) != size)
			_exit(1);
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct stat stat;
	pthread_t other;
	if (argc < 4)
		return 2;
	seconds = strtod(argv[3], NULL);
	in = open(argv[1], O_RDONLY);
	out = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0666);
	if (out < 0 || fstat(in, &stat))
		return 1;
	(void)fallocate(out, FALLOC_FL_KEEP_SIZE, 0, stat.st_size); /* as ckptc does */
	blocks = (stat.st_size + BYTES - 1) / BYTES;
	if (pthread_create(&other, NULL, run, NULL))
		return 1;
	run(NULL);
	pthread_join(other, NULL);
	return fsync(out) != 0;
}
