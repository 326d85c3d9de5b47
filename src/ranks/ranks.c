/* Tests: tests/scripts/check-ranks */
#include "ranks/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks/calls.h"

int ranks_launched(bool *first)
{
	/* Open MPI, and launchers that set the variables of PMI */
	static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *size = getenv(names[i][0]), *rank = getenv(names[i][1]);
		*first = !rank || atoi(rank) == 0;
		if (size && atoi(size) > 1)
			return atoi(size);
	}
	return 1;
}

bool ranks_built(void)
{
#ifdef RANKS_MODULE
	return true;
#else
	return false;
#endif
}

#ifdef RANKS_MODULE
/* Writes DIRECTORY/TAIL, or a path from DIRECTORY upwards. False unless that is a file. */
static bool find_file(char path[PATH_MAX], const char *directory, const char *tail)
{
	const int length = snprintf(path, PATH_MAX, "%s/%s", directory, tail);
	return length > 0 && length < PATH_MAX && access(path, F_OK) == 0;
}

/* Writes to TAIL the path from the installed program's folder to the module: as ../lib/ckptc/ckptc-mpi.so. */
static void find_tail(char tail[PATH_MAX])
{
	const char *program = RANKS_PROGRAMS, *module = RANKS_MODULE;
	size_t same = 0, used = 0; /* SAME: up to the last slash that both have */
	for (size_t i = 0; program[i] && program[i] == module[i]; i++)
		same = module[i] == '/' ? i + 1 : same;
	for (size_t i = same; program[i] && used + 3 < PATH_MAX; i++)
		if (i == same || program[i - 1] == '/')
			used += (size_t)snprintf(tail + used, PATH_MAX - used, "../");
	snprintf(tail + used, PATH_MAX - used, "%s", module + same);
}

/*
 * Returns the file of the module: beside the program that runs, as installed or as built; else where the build installs
 * it. An installed tree may be moved, and a built one need not be installed.
 */
static const char *module_file(char path[PATH_MAX])
{
	char program[PATH_MAX], tail[PATH_MAX];
	const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
	program[length > 0 ? length : 0] = 0;
	char *slash = strrchr(program, '/');
	find_tail(tail);
	if (!slash)
		return RANKS_MODULE;
	*slash = 0;
	return find_file(path, program, tail) || find_file(path, program, "../.libs/ckptc-mpi.so") ? path : RANKS_MODULE;
}
#endif

/* Opens the module. NULL: there is none, and *WHY says why. */
static const struct rank_calls *open_module(const char **why)
{
	const char *path = getenv("CKPTC_RANKS");
	*why = "this build of ckptc has no MPI";
#ifdef RANKS_MODULE
	char found[PATH_MAX];
	path = path ? path : module_file(found);
#endif
	if (!path)
		return NULL;
	void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI's own modules look for its symbols */
	if (!module) {
		*why = dlerror();
		return NULL;
	}
	const struct rank_calls *calls = dlsym(module, "ckptc_rank_calls");
	*why = "it is of another version of ckptc";
	return calls && calls->version == RANK_CALLS_VERSION ? calls : NULL;
}

enum status ranks_start(const struct context *context, struct ranks **ranks)
{
	const char *why;
	struct ranks *made = arena_alloc(context->arena, sizeof *made);
	TRY_ALLOC(made, context->diags);
	made->calls = open_module(&why);
	if (made->calls)
		why = made->calls->start(&made->index, &made->count);
	if (made->calls && !why && made->count > RANKS_MOST)
		why = "there are too many";
	if (!made->calls || why) {
		diag_file(context->diags, STATUS_LIMIT, NULL, -1, "cannot run on several ranks: %s", why);
		return diag_hint(
			context->diags,
			"`ckptc --version` says whether a build has MPI; CKPTC_RANKS names a module that lies elsewhere");
	}
	*ranks = made;
	return ranks_agree(context, made);
}

enum status ranks_broadcast(const struct ranks *ranks, void *data, size_t size)
{
	return !ranks || ranks->calls->broadcast(data, size) ? STATUS_OK : STATUS_OTHER_RANK;
}

enum status ranks_send(const struct ranks *ranks, int to, int tag, const void *data, size_t size)
{
	return ranks->calls->send(to, tag % RANK_TAGS, data, size) ? STATUS_OK : STATUS_OTHER_RANK;
}

enum status ranks_receive(const struct ranks *ranks, int from, int tag, void *data, size_t size)
{
	return ranks->calls->receive(from, tag % RANK_TAGS, data, size) ? STATUS_OK : STATUS_OTHER_RANK;
}

void ranks_fail(const struct ranks *ranks)
{
	if (ranks)
		ranks->calls->fail();
}

const char *ranks_wrong(const struct ranks *ranks) { return ranks ? ranks->calls->wrong() : NULL; }

enum status ranks_check(const struct ranks *ranks)
{
	return !ranks || ranks->calls->good() ? STATUS_OK : STATUS_OTHER_RANK;
}

enum status ranks_settle(const struct ranks *ranks, enum status status, bool *speaks)
{
	unsigned char all[RANKS_MOST];
	const unsigned char mine = (unsigned char)status;
	*speaks = ranks_index(ranks) == 0;
	if (!ranks)
		return status;
	if (status)
		ranks->calls->fail();
	ranks->calls->settle(&mine, 1, all);
	for (int i = 0; i < ranks->count; i++)
		if (all[i] && all[i] != STATUS_OTHER_RANK) {
			*speaks = ranks->index == i;
			return (enum status)all[i];
		}
	return STATUS_OK;
}

void ranks_stop(const struct ranks *ranks)
{
	if (ranks)
		ranks->calls->stop();
}
