/*
 * What ranks agree on before anything else: whether they share a machine, and what they compute with. Each tells all
 * others its processor, and the kernels that it may choose, by CKPTC_ISA and the processor (ops/kernels.h).
 * Tests: tests/unit/test_rank_facts.c
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/general.h"
#include "ops/kernels.h"
#include "ranks/calls.h"
#include "ranks/ranks.h"

/* What a rank tells the others: bytes, so that all machines read it alike. Sets of instruction sets have a bit for each. */
struct nature {
	unsigned char beside;    /* this rank runs on the machine of rank 0 */
	unsigned char processor; /* the instruction sets of its processor */
	unsigned char allowed;   /* those that are no better than the one it has chosen */
	unsigned char library;   /* what multiplies matrices (blas_wanted) */
};

/* From the least to the best. */
static const char *const sets[] = {"portable", "baseline", "avx2", "avx512"};
enum { SETS = sizeof sets / sizeof *sets };

static unsigned char set_bit(const char *isa)
{
	for (unsigned i = 0; i < SETS; i++)
		if (!strcmp(sets[i], isa))
			return (unsigned char)(1U << i);
	return 0;
}

static struct nature nature_of(bool beside)
{
	const struct kernels *tables[4];
	const char *chosen = kernels_get(DTYPE_F32)->isa;
	struct nature mine = {.beside = beside, .library = blas_wanted()};
	bool allowed = false;
	for (size_t i = 0, count = kernels_all(DTYPE_F32, tables); i < count; i++) { /* the best first */
		const unsigned char bit = set_bit(tables[i]->isa);
		allowed |= !strcmp(tables[i]->isa, chosen);
		mine.processor |= bit;
		mine.allowed |= allowed ? bit : 0;
	}
	return mine;
}

/* A machine: its name, and what its kernel has drawn at its start, since names may be equal. */
struct machine {
	char host[HOST_NAME_MAX + 1], boot[64];
};

static struct machine this_machine(void)
{
	struct machine machine;
	memset(&machine, 0, sizeof machine); /* bytes are compared */
	gethostname(machine.host, sizeof machine.host - 1);
	const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, machine.boot, sizeof machine.boot) < 0)
		machine.boot[0] = 0;
	if (fd >= 0)
		close(fd);
	return machine;
}

/* True if this rank runs on the machine of rank 0. */
static bool is_beside(const struct ranks *ranks)
{
	const struct machine mine = this_machine();
	struct machine first = mine;
	return ranks->calls->broadcast(&first, sizeof first) && !memcmp(&first, &mine, sizeof mine);
}

/* Sets CKPTC_ISA to the best of the sets that ALLOWED has, unless the kernels are of that set. */
static bool choose_set(unsigned allowed)
{
	const char *name = sets[0];
	for (unsigned i = 0; i < SETS; i++)
		name = allowed & 1U << i ? sets[i] : name;
	return !strcmp(kernels_get(DTYPE_F32)->isa, name) || setenv("CKPTC_ISA", name, 1) == 0;
}

enum status ranks_agree(const struct context *context, struct ranks *ranks)
{
	const struct nature mine = nature_of(is_beside(ranks));
	struct nature *all = arena_array(context->arena, (size_t)ranks->count, sizeof *all);
	unsigned allowed = mine.allowed;
	bool alike = true;
	TRY_ALLOC(all, context->diags);
	ranks->calls->settle(&mine, sizeof mine, all);
	ranks->together = true;
	for (int i = 0; i < ranks->count; i++) {
		ranks->together &= all[i].beside;
		allowed &= all[i].allowed;
		alike &= all[i].processor == mine.processor && all[i].library == mine.library;
	}
	TRY_ALLOC(choose_set(allowed), context->diags);
	/* OpenBLAS has kernels of its own for each processor. */
	TRY_ALLOC(alike || setenv("CKPTC_BLAS", "none", 1) == 0, context->diags);
	return STATUS_OK;
}
