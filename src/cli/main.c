/*
 * Finds the command, runs it, prints the diagnostics, and exits. ends.c exits for others.
 * Tests: tests/cases/cli.test
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "cli/ends.h"
#include "cli/job.h"
#include "external/external.h"
#include "language/recipes.h"
#include "ranks/ranks.h"

const struct command command_table[] = {
	{"run", RUN, command_run, "forward: input arrays in, output arrays out"},
	{"grad", GRAD, command_grad, "backward: input in, gradient with respect to the input out"},
	{"residuals", RESIDUALS, command_residuals, "what is saved for the backward pass"},
	{"plan", PLAN, command_plan, "what policies cost: evaluations, memory, overhead"},
	{"explain", EXPLAIN, command_explain, "forward and backward programs side by side"},
	{"check", CHECK, command_check, "gradients against finite differences, and policies against each other"},
	{"profile", PROFILE, command_profile,
     "measures time and memory by depth and by policy, and finds what bounds them"},
	{"ops", OPS, command_ops, "the operations"},
	{"fmt", FMT, command_fmt, "the chain in canonical form"},
	{"import", IMPORT, command_import, "a chain and its weights from an ONNX model"},
};
const size_t command_count = sizeof command_table / sizeof *command_table;

/* Sets the bool at CONTEXT if writing fails. A closed standard error is no failure: it was closed on purpose. */
static void write_error(void *context, const char *text, size_t length)
{
	bool *failed = context;
	*failed |= !io_write_at(io_standard(2), IO_NEXT, text, length) && errno != EBADF;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < command_count; i++)
		if (!strcmp(command_table[i].name, name))
			return &command_table[i];
	return NULL;
}

/* Returns the names of the commands and, if OPS, of the operations. None if memory is short. */
static struct text_list names_of(struct session *s, bool ops)
{
	const size_t most = command_count + OP_LISTED + STATEMENT_COUNT;
	struct text_list list = {.items = arena_array(&s->arena, most, sizeof *list.items)};
	for (size_t i = 0; list.items && i < command_count; i++)
		list.items[list.count++] = command_table[i].name;
	for (int i = 0; list.items && ops && i < OP_LISTED; i++)
		list.items[list.count++] = op_table[op_list[i]].name;
	for (int kind = 0; list.items && ops && kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE)
			list.items[list.count++] = statement_word((enum statement_kind)kind);
	return list;
}

/* True if this process prints what all ranks would print alike. No rank waits for another then. */
static bool prints(struct session *s)
{
	bool first;
	s->launched = ranks_launched(&first);
	return s->launched == 1 || first;
}

static enum status print_version(struct session *s)
{
	struct text_file *file;
	if (!prints(s))
		return STATUS_OK;
	TRY(session_open_text(s, &file, NULL, false));
	text_printf(&file->text, "ckptc " PACKAGE_VERSION "%s\n", ranks_built() ? " (with MPI)" : "");
	return session_close_text(file);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Returns the kind of statement that TOPIC begins, or STATEMENT_COUNT. A stage begins with its operation. */
static int statement_of(const char *topic)
{
	int kind = 0;
	while (kind < STATEMENT_COUNT &&
	       (kind == STATEMENT_STAGE || strcmp(statement_word((enum statement_kind)kind), topic)))
		kind++;
	return kind;
}

/* True if TOPIC is the name of a command or an operation in other letters, small or capital. */
static bool is_respelled(const char *topic)
{
	char lower[32];
	size_t n = 0;
	for (; topic[n] && n + 1 < sizeof lower; n++)
		lower[n] = (char)tolower((unsigned char)topic[n]);
	lower[n] = '\0';
	return find_command(lower) || op_find(lower) != OP_COUNT;
}

/* Returns the operation of which TOPIC is the plural, or OP_COUNT. */
static enum op op_in_plural(struct session *s, const char *topic)
{
	const size_t length = strlen(topic);
	const char *one = length > 3 && topic[length - 1] == 's' ? arena_strndup(&s->arena, topic, length - 1) : NULL;
	return one ? op_find(one) : OP_COUNT;
}

static enum status help_on(struct session *s, const char *topic)
{
	if (!topic || is_help(topic))
		return prints(s) ? help_print(s, NULL) : STATUS_OK;
	const struct command *command = find_command(topic);
	const enum op op = op_find(topic);
	if (command)
		return prints(s) ? help_print(s, command) : STATUS_OK;
	if (op != OP_COUNT)
		return prints(s) ? help_print_op(s, op) : STATUS_OK;
	const int statement = statement_of(topic);
	if (statement != STATEMENT_COUNT)
		return prints(s) ? help_print_statement(s, (enum statement_kind)statement) : STATUS_OK;
	bool found = !prints(s);
	const bool policy = policy_find(topic, strcspn(topic, ":")) < POLICY_COUNT;
	if (!found && !is_respelled(topic))
		TRY(help_print_topic(s, policy ? "policies" : topic, false, &found));
	const enum op plural = found ? OP_COUNT : op_in_plural(s, topic);
	if (plural != OP_COUNT)
		return help_print_op(s, plural);
	const char *recipe = found ? NULL : recipe_hint_word(&s->arena, topic);
	if (!found && !recipe && !is_respelled(topic))
		TRY(help_print_topic(s, topic, true, &found));
	if (found)
		return STATUS_OK;
	const enum status status = usage_error(s, "no command, operation or statement is named '%s'", topic);
	if (recipe)
		return with_hint(s, status, "%s", recipe);
	return with_nearest(
		s, status, topic, names_of(s, true),
		"`ckptc --help` lists the commands, `ckptc ops` the operations, `ckptc help topics` the manual's sections");
}

/* Prints the section of the manual whose title is WORDS. */
static enum status help_on_words(struct session *s, char **words)
{
	bool found = !prints(s);
	const char *title = words[0];
	for (char **word = words + 1; title && *word; word++)
		title = arena_printf(&s->arena, "%s %s", title, *word);
	TRY_ALLOC(title, &s->diags);
	if (!found)
		TRY(help_print_topic(s, title, false, &found));
	return found ? STATUS_OK : usage_error(s, "help takes one command or operation, but got '%s' too", words[1]);
}

/*
 * KiB: the least stack limit, and the most that kernels use. Arguments and environment may take a quarter of it. PARSE_KIB
 * are enough to parse the command line and to report a limit below LEAST_KIB.
 */
enum { LEAST_KIB = 1024, USED_KIB = 704, PARSE_KIB = 128 };

/* Returns the bytes of stack that RLIMIT_STACK leaves below this function's frame, or SIZE_MAX if it sets no limit. */
static size_t stack_left(char **argv)
{
	struct rlimit stack;
	const char here = 0, *top = &here;
	/* The kernel puts the words of the arguments and then those of the environment at the stack's end. */
	for (char **list = argv; list; list = list == argv ? environ : NULL)
		for (char **word = list; *word; word++)
			if ((uintptr_t)*word > (uintptr_t)top)
				top = *word;
	const size_t used = (uintptr_t)top - (uintptr_t)&here;
	if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return stack.rlim_cur > used ? stack.rlim_cur - used : 0;
}

/* Grows the stack to the depth that kernels may need; it does not shrink again. */
static __attribute__((noinline)) char grow_stack(void)
{
	volatile char deep[USED_KIB << 10];
	deep[0] = 0;
	return deep[0];
}

/*
 * Fails with STATUS_LIMIT if the stack limit, which also holds for threads, is too small for kernels. If the address
 * space is limited, grows the stack now: a stack that cannot grow later would crash the program.
 */
static enum status check_stack(struct session *s)
{
	struct rlimit stack, space;
	const size_t bytes = (USED_KIB + 64) << 10; /* 64 KiB for this function and its callers */
	if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY && stack.rlim_cur < LEAST_KIB << 10)
		return with_hint(s,
		                 diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "the stack is limited to %lld KiB; %d are needed",
		                           (long long)(stack.rlim_cur >> 10), LEAST_KIB),
		                 "`ulimit -s %d` allows them", LEAST_KIB);
	if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY)
		return STATUS_OK;
	void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "out of memory: the stack needs %d KiB", USED_KIB);
	munmap(room, bytes);
	(void)grow_stack();
	return STATUS_OK;
}

/*
 * If a launcher has started several processes, joins the ranks, which compare their command lines. s->ranks stays NULL for
 * a command that ranks do not share: rank 0 runs it alone, and may lack MPI. *IDLE: this process has nothing to do.
 */
static enum status join_ranks(struct session *s, bool *idle)
{
	const bool *given = s->line.given;
	const bool shares = s->command->letter & (RUN | GRAD | CHECK) && !given[OPTION_DUMP] && !given[OPTION_HELP] &&
	                    !given[OPTION_VERSION];
	struct diags unseen;
	bool first;
	diags_init(&unseen, &s->arena);
	const struct context alone = {s->allocator, &s->arena, &unseen};
	s->launched = ranks_launched(&first);
	*idle = false;
	if (s->launched == 1)
		return STATUS_OK;
	const enum status status = ranks_start(shares ? &s->context : &alone, &s->ranks);
	*idle = !shares && !first;
	if (status)
		return shares ? status : STATUS_OK;
	TRY(session_compare_options(s));
	if (!shares) {
		ranks_stop(s->ranks);
		s->ranks = NULL;
	}
	return STATUS_OK;
}

static enum status dispatch(struct session *s, int argc, char **argv)
{
	if (argc < 2)
		return with_hint(s, usage_error(s, "no command"), "`ckptc --help` lists the commands");
	const char *name = argv[1];
	if (!strcmp(name, "--version"))
		return argc > 2 ? usage_error(s, "--version takes no argument, but got '%s'", argv[2]) : print_version(s);
	if (!strcmp(name, "--dump-options"))
		return help_print_options(s);
	if (is_help(name) && argc <= 3)
		return help_on(s, argv[2]);
	if (is_help(name))
		return help_on_words(s, argv + 2);
	s->command = find_command(name);
	if (!s->command && name[0] == '-')
		return with_hint(s, usage_error(s, "unknown option '%s' in place of a command", name),
		                 "options before a command are --help and --version");
	if (!s->command)
		return with_nearest(s, usage_error(s, "unknown command '%s'", name), name, names_of(s, false),
		                    "`ckptc --help` lists the commands");
	TRY(session_parse(s, argv + 2));
	bool idle;
	TRY(join_ranks(s, &idle));
	if (idle)
		return STATUS_OK;
	if (s->line.given[OPTION_HELP])
		return help_print(s, s->command);
	if (s->line.given[OPTION_VERSION])
		return print_version(s);
	TRY(check_stack(s));
	TRY(ends_watch_objects(s));
	s->journal = s->line.values[OPTION_JOURNAL];
	if (s->journal && s->launched > 1)
		TRY_ALLOC(s->journal = arena_printf(&s->arena, "%s.%d", s->journal, ranks_index(s->ranks)), &s->diags);
	const enum status status = s->command->run(s);
	if (status && status != STATUS_CHECK) /* a failed check still writes its report */
		return status;
	TRY(session_commit(s));
	if (!status)
		warn_unassumed(s);
	return status;
}

/* Starts the ranks after a failure before that, so that one of them reports it. */
static void start_after_failure(struct session *s)
{
	bool first;
	if (s->launched == 0 && ranks_launched(&first) > 1 && ranks_start(&s->context, &s->ranks) != STATUS_OK)
		s->silent = !first;
}

/* Runs the command of ARGV, and prints the diagnostics. Returns the exit status. */
static __attribute__((noinline)) int run_command_line(int argc, char **argv)
{
	struct allocator_cap cap;
	const struct allocator allocator = allocator_capped(&cap, session_memory_most());
	struct session session = {.allocator = &allocator};
	ends_begin();
	arena_init(&session.arena, session.allocator);
	diags_init(&session.diags, &session.arena);
	session.context = (struct context){&allocator, &session.arena, &session.diags};
	session_choose_color(&session, argc - 1, argv + 1);
	enum status status = dispatch(&session, argc, argv);
	if (status)
		start_after_failure(&session);
	if (status)
		status = session_settle(&session, status);
	if (status && session.diags.exhausted) /* diags_render prints "out of memory" */
		status = STATUS_LIMIT;
	assert(status || session.diags.errors == 0);
	bool failed = false;
	if (!session.silent && (status || !session_error_is_data(&session)))
		diags_render(&session.diags, session.set.color, write_error, &failed);
	ranks_stop(session.ranks);
	session_close(&session);
	status = status || !failed ? status : STATUS_IO;
	ends_finish((int)status);
	return (int)status;
}

/* A stack that is too small to report that is a fault at the first deep call. So main itself has a small frame. */
int main(int argc, char **argv)
{
	static const char text[] = "ckptc: error: less than 128 KiB of stack are left; 1024 KiB are needed\n"
							   "ckptc: note: run `ulimit -s 1024` before ckptc\n";
	if (stack_left(argv) >= PARSE_KIB << 10)
		return run_command_line(argc, argv);
	(void)io_write_at(2, IO_NEXT, text, sizeof text - 1);
	return STATUS_LIMIT;
}
