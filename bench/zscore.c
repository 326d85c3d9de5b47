/*
 * zscore IN OUT [SYNC]: normalises the columns of IN, an npy file of f32 with 64 columns, to OUT, by two threads. It reads the
 * file twice and writes it once, and adds up plain floats in each block: what the kernel and the arithmetic take at least.
 * SYNC: OUT is on disk at the end, as ckptc's output is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLUMNS = 64, HEADER = 128, BYTES = 256 << 10, FLOATS = BYTES / 4 };
static int in, out;
static long blocks, rows;
static atomic_long next;
static double sums[2][2][COLUMNS]; /* by thread: of values and of squares */
static float means[COLUMNS], factors[COLUMNS];

static void *run(void *thread)
{
	float block[FLOATS];
	double(*sum)[COLUMNS] = thread;
	for (long i; (i = atomic_fetch_add(&next, 1)) < blocks;) {
		const ssize_t size = pread(in, block, BYTES, HEADER + i * BYTES);
		float one[COLUMNS] = {0}, two[COLUMNS] = {0};
		for (long at = 0; at < size / 4; at += COLUMNS)
			for (int c = 0; c < COLUMNS; c++) {
				one[c] += block[at + c];
				two[c] += block[at + c] * block[at + c];
				block[at + c] = (block[at + c] - means[c]) * factors[c];
			}
		for (int c = 0; c < COLUMNS && sum; c++) {
			sum[0][c] += one[c];
			sum[1][c] += two[c];
		}
		if (!sum && pwrite(out, block, size, HEADER + i * BYTES) != size)
			_exit(1);
	}
	return NULL;
}

static void run_both(void *first, void *second)
{
	pthread_t other;
	next = 0;
	pthread_create(&other, NULL, run, second);
	run(first);
	pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
	char header[HEADER];
	struct stat stat;
	in = open(argv[1], O_RDONLY);
	out = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0666);
	if (argc < 3 || fstat(in, &stat) || pread(in, header, HEADER, 0) != HEADER ||
	    pwrite(out, header, HEADER, 0) != HEADER)
		return 1;
	rows = (stat.st_size - HEADER) / 4 / COLUMNS;
	blocks = (stat.st_size - HEADER + BYTES - 1) / BYTES;
	run_both(sums[0], sums[1]);
	for (int c = 0; c < COLUMNS; c++) {
		const double mean = (sums[0][0][c] + sums[1][0][c]) / rows, square = (sums[0][1][c] + sums[1][1][c]) / rows;
		means[c] = (float)mean;
		factors[c] = (float)(1 / sqrt(square - mean * mean + 1e-5));
	}
	run_both(NULL, NULL);
	return argc > 3 && fsync(out);
}
