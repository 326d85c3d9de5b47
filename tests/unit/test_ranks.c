/* Memory that ranks share. Two processes are ranks, whose messages go through pipes. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks/calls.h"
#include "ranks/ranks.h"
#include "suite.h"

static int pipes[2][2]; /* to rank 0, to rank 1 */
static int rank;
static int64_t more;                           /* bytes that rank 1 asks for beyond those of rank 0 */
static void (*spoil)(void *data, size_t size); /* changes what rank 1 is sent; or NULL */

static bool send_to(int to, int tag, const void *data, size_t size)
{
	(void)tag;
	return write(pipes[to][1], data, size) == (ssize_t)size;
}

static bool receive_from(int from, int tag, void *data, size_t size)
{
	(void)from, (void)tag;
	return read(pipes[rank][0], data, size) == (ssize_t)size;
}

static bool broadcast(void *data, size_t size)
{
	if (rank == 0)
		return send_to(1, 0, data, size);
	const bool got = receive_from(0, 0, data, size);
	if (spoil)
		spoil(data, size);
	spoil = NULL;
	return got;
}

static const struct rank_calls calls = {.broadcast = broadcast, .send = send_to, .receive = receive_from};

/* Shares SIZE bytes among two processes. Returns what both exit with: bits 1 and 2 of rank 0, 4 and 8 of rank 1, first
 * for memory, then for numbers that the other has written there. */
static int share(int64_t size, bool together)
{
	ck_assert(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
	const pid_t child = fork();
	size += child == 0 ? more : 0;
	ck_assert_int_ge(child, 0);
	rank = child == 0;
	struct allocator_cap cap;
	const struct allocator allocator = allocator_capped(&cap, 6 << 20);
	const struct ranks ranks = {.index = rank, .count = 2, .together = together, .calls = &calls};
	void *memory = &memory;
	char byte = 0;
	bool right = ranks_share(&ranks, size, &allocator, &memory) == STATUS_OK;
	volatile char *at = memory;
	if (at) {
		right = right && at[0] == 0 && at[size - 1] == 0;
		right = right && send_to(!rank, 0, "z", 1) && receive_from(!rank, 0, &byte, 1); /* both have seen zeros */
		at[rank ? size - 1 : 0] = (char)(rank + 1);
		right = right && send_to(!rank, 0, "w", 1) && receive_from(!rank, 0, &byte, 1);
		right = right && at[0] == 1 && at[size - 1] == 2;
	}
	const int mine = (at ? 1 : 0) + (right ? 2 : 0);
	if (child == 0)
		_exit(mine);
	int status = 0;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	for (int i = 0; i < 4; i++)
		close(pipes[i / 2][i % 2]);
	return mine + 4 * (WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

static void change_token(void *data, size_t size) { ((char *)data)[size - 1] ^= 1; }
static void forget(void *data, size_t size) { memset(data, 0, size); }

START_TEST(one_machine)
{
	static const int64_t sizes[] = {2, 64, 4032, 4033, 100000, 5 << 20};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		ck_assert_int_eq(share(sizes[i], true), 15);
}
END_TEST

/* None uses the memory if machines differ, if the file is not the one, if there is none, or if sizes differ. */
START_TEST(several_machines)
{
	ck_assert_int_eq(share(4096, false), 10);
	spoil = change_token;
	ck_assert_int_eq(share(4096, true), 10);
	spoil = forget;
	ck_assert_int_eq(share(4096, true), 10);
	ck_assert_int_eq(share(7 << 20, true), 10);
	more = 64;
	ck_assert_int_eq(share(4096, true), 10);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ranks");
	TCase *tcase = suite_make_case(suite, "ranks");
	tcase_add_test(tcase, one_machine);
	tcase_add_test(tcase, several_machines);
	return suite_run(suite);
}
