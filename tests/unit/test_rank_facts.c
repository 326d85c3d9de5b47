/* What ranks compare and agree on, with another rank that the test plays: it records messages, and gives them to the next. */
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "ops/kernels.h"
#include "ranks/calls.h"
#include "ranks/ranks.h"
#include "suite.h"

static struct {
	bool sends;
	size_t used, at;
	int sent, received; /* messages from one rank to another */
	char bytes[1 << 16];
	unsigned char other[4]; /* what rank 1 tells in ranks_agree: its machine, processor, allowed sets and library */
} wire;

static bool fake_broadcast(void *data, size_t size)
{
	if (wire.sends) {
		memcpy(wire.bytes + wire.used, data, size);
		wire.used += size;
	} else {
		ck_assert_uint_le(wire.at + size, wire.used);
		memcpy(data, wire.bytes + wire.at, size);
		wire.at += size;
	}
	return true;
}

/* A rank tells rank 0 that it is here, which waits for all. */
static bool fake_send(int to, int tag, const void *data, size_t size)
{
	(void)data;
	ck_assert_int_eq(to, 0);
	ck_assert_int_eq(tag, 0);
	ck_assert_uint_eq(size, 1);
	wire.sent++;
	return true;
}

static bool fake_receive(int from, int tag, void *data, size_t size)
{
	ck_assert_int_eq(from, 1 + wire.received++);
	ck_assert_int_eq(tag, 0);
	memset(data, 0, size);
	return true;
}

static void fake_settle(const void *mine, size_t size, void *all)
{
	ck_assert_uint_eq(size, sizeof wire.other);
	memcpy(all, mine, size);
	memcpy((char *)all + size, wire.other, size);
}

static const struct rank_calls calls = {.version = RANK_CALLS_VERSION,
                                        .broadcast = fake_broadcast,
                                        .send = fake_send,
                                        .receive = fake_receive,
                                        .settle = fake_settle};

/* A list of facts: label, text and key of each; a key of 0 stands for that of the text. */
struct listed {
	const char *label, *shown;
	uint64_t key;
};

static void list(struct rank_facts *facts, struct arena *arena, const struct listed *listed)
{
	*facts = (struct rank_facts){.arena = arena};
	for (; listed->label; listed++)
		if (listed->key)
			ck_assert(ranks_add_fact(facts, STATUS_DATA, listed->label, listed->shown, listed->key));
		else
			ck_assert(ranks_add_text(facts, STATUS_USAGE, listed->label, listed->shown));
}

/* Compares SECOND, of rank 2, with FIRST. WANTED: the message, or NULL if they are equal. */
static void compare(const struct listed *first, const struct listed *second, enum status status, const char *wanted)
{
	struct arena arena;
	struct diags diags;
	struct rank_facts facts;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	struct ranks ranks = {.index = 0, .count = 3, .calls = &calls};
	wire.used = wire.at = 0;
	wire.sent = wire.received = 0;
	wire.sends = true;
	list(&facts, &arena, first);
	ck_assert_int_eq(ranks_compare(&context, &ranks, &facts), STATUS_OK);
	wire.sends = false;
	ranks.index = 2;
	list(&facts, &arena, second);
	ck_assert_int_eq(ranks_compare(&context, &ranks, &facts), status);
	ck_assert_uint_eq(wire.at, wire.used);
	ck_assert_int_eq(wire.received, 2); /* equal or not, all have compared before one fails */
	ck_assert_int_eq(wire.sent, 1);
	if (wanted)
		ck_assert_str_eq(diags.first->message, wanted);
	else
		ck_assert_ptr_null(diags.first);
	arena_free(&arena);
}

START_TEST(test_compare)
{
	const struct listed base[] = {
		{"--policy", "sqrt", 0}, {"--tile", NULL, 0}, {"the input", "x.npy", 7}, {NULL, NULL, 0}};
	compare(base, base, STATUS_OK, NULL);
	compare(base, (struct listed[]){{"--policy", "every:2", 0}, {"--tile", NULL, 0}, {NULL, NULL, 0}}, STATUS_USAGE,
	        "all ranks run one command, but --policy differs: 'sqrt' on rank 0, 'every:2' on rank 2");
	compare(base, (struct listed[]){{"--policy", "sqrt", 0}, {"--tile", "", 0}, {NULL, NULL, 0}}, STATUS_USAGE,
	        "all ranks run one command, but --tile differs: none on rank 0, '' on rank 2");
	compare(base, (struct listed[]){base[0], base[1], {"the input", "./x.npy", 7}, {NULL, NULL, 0}}, STATUS_OK, NULL);
	compare(base, (struct listed[]){base[0], base[1], {"the input", "x.npy", 8}, {NULL, NULL, 0}}, STATUS_DATA,
	        "all ranks run one command, but the input of rank 2 differs from that of rank 0: 'x.npy'");
	compare(base, (struct listed[]){base[0], base[1], {NULL, NULL, 0}}, STATUS_USAGE,
	        "all ranks run one command, but the input differs: 'x.npy' on rank 0, none on rank 2");
}
END_TEST

/* A long text is shown around the first byte that differs. */
START_TEST(test_long)
{
	char a[1001] = "", b[1001] = "";
	memset(a, 'a', 1000);
	memset(b, 'a', 1000);
	b[500] = 'b';
	compare(
		(struct listed[]){{"the chain", a, 0}, {NULL, NULL, 0}},
		(struct listed[]){{"the chain", b, 0}, {NULL, NULL, 0}}, STATUS_USAGE,
		"all ranks run one command, but the chain differs: "
		"'...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' "
		"on rank 0, "
		"'...aaaaaaaaaaaaaaaaaaaaaaaabaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' "
		"on rank 2");
}
END_TEST

/* The best set that both ranks have, for another rank of each set. Only equal processors may multiply by OpenBLAS. */
START_TEST(test_agree)
{
	static const char *const sets[] = {"portable", "baseline", "avx2", "avx512"};
	const struct kernels *tables[4];
	struct arena arena;
	struct diags diags;
	struct ranks ranks = {.index = 0, .count = 2, .calls = &calls};
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	int own = 0;
	unsetenv("CKPTC_ISA");
	unsetenv("CKPTC_BLAS");
	kernels_all(DTYPE_F32, tables);
	while (strcmp(sets[own], tables[0]->isa) != 0)
		own++;
	const int both = _i < own ? _i : own;
	wire.sends = true;
	wire.used = 0;
	memcpy(wire.other, (unsigned char[]){_i % 2, (unsigned char)((2 << _i) - 1), (unsigned char)((2 << _i) - 1), 1}, 4);
	ck_assert_int_eq(ranks_agree(&context, &ranks), STATUS_OK);
	ck_assert_int_eq(ranks.together, _i % 2);
	ck_assert_str_eq(kernels_get(DTYPE_F32)->isa, sets[both]);
	ck_assert_int_eq(getenv("CKPTC_ISA") != NULL, both < own);
	if (_i != own)
		ck_assert_str_eq(getenv("CKPTC_BLAS"), "none");
	arena_free(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rank_facts");
	TCase *tests = suite_make_case(suite, "rank_facts");
	tcase_add_test(tests, test_compare);
	tcase_add_test(tests, test_long);
	tcase_add_loop_test(tests, test_agree, 0, 4);
	return suite_run(suite);
}
