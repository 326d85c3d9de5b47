/* One invocation: its options, and the files that it opens. Each command is a function of a session, in its own file. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "exec/costs.h"
#include "exec/params.h"
#include "io/array.h"
#include "language/chain.h"
#include "report/record.h"
#include "schedule/policy.h"

enum {
	RUN = 1,
	GRAD = 2,
	RESIDUALS = 4,
	PLAN = 8,
	EXPLAIN = 16,
	CHECK = 32,
	OPS = 64,
	FMT = 128,
	PROFILE = 256,
	BACKWARDS = GRAD | RESIDUALS | PLAN | EXPLAIN | CHECK | PROFILE,
	DATA = RUN | BACKWARDS,
	CHAINS = DATA | FMT,
	ALL = DATA | OPS | FMT,
};

enum option_id {
#define OPTION(ID, ...) OPTION_##ID,
#include "cli/options.def"
	OPTION_COUNT
};

enum option_use { ONCE = 1, WRITTEN = 2 };
struct option_row {
	const char *name;
	char short_name;
	const char *argument;
	int use, commands;
	const char *help;
};
extern const struct option_row option_table[OPTION_COUNT]; /* by option_id */

struct word_list {
	const char **items;
	size_t count, capacity;
};

/* The options as given; NULL or 0 where not. */
struct command_line {
	const char *text, *file;          /* -e TEXT; CHAIN */
	const char *values[OPTION_COUNT]; /* the last value of each */
	bool given[OPTION_COUNT];
	struct word_list policies, grads, compared; /* --policy and --online; --grad; the two of --diff */
	struct param_binding *params;
	size_t param_count, param_capacity;
};

struct policy_list {
	struct policy *items;
	size_t count;
};

/* The options as understood. */
struct settings {
	enum report_format format;
	bool dot;   /* explain --format dot */
	bool color; /* on standard error */
	int threads;
	int64_t tile, memory, max_checkpoints; /* 0: not given */
	enum dtype dtype, store;               /* DTYPE_COUNT: not given */
	struct policy policy;                  /* the first; without --policy `auto` if --memory is given, else save-all */
	struct policy_list policies, compared;
	struct type shape; /* --shape; ndim -1: not given */
	struct reader_options reading;
	enum format to;
};

struct opened_input {
	struct input input;
	struct reader reader;
	bool open;
};

struct opened_output {
	struct output output;
	struct writer writer;
	bool open;
};

struct session {
	const struct allocator *allocator;
	struct arena arena;
	struct diags diags;
	struct context context; /* of the three above */
	const struct command *command;
	struct command_line line;
	struct settings set;
	struct source source;
	struct syntax syntax;
	struct chain chain;
	const char *directory; /* of the chain's file */
	struct opened_input in;
	struct opened_output out;
	struct whole *whole, **whole_end; /* files that are complete and wait for session_commit */
	struct params bound;
	struct costs_source *costs; /* --costs; NULL: the table's */
};

struct command {
	const char *name;
	int letter;
	enum status (*run)(struct session *session);
	const char *usage, *summary;
};
extern const struct command command_table[];
extern const size_t command_count;

/* Reports an error of the command line. Returns STATUS_USAGE. */
__attribute__((format(printf, 2, 3))) enum status usage_error(struct session *session, const char *format, ...);
/* Adds a hint to the last message. Returns STATUS, so that a caller can return an error with a hint. */
__attribute__((format(printf, 3, 4))) enum status with_hint(struct session *session, enum status status,
                                                            const char *format, ...);
/* The same with the candidate nearest to NAME as the hint; if none is near, OTHERWISE, which may be NULL. */
enum status with_nearest(struct session *session, enum status status, const char *name, struct word_list candidates,
                         const char *otherwise);
/* Decides before the first message if messages are coloured. Of several --color the last counts. */
void session_choose_color(struct session *session, int argc, char **argv);
/* Parses the command line after the command's name. STATUS_USAGE. */
enum status session_parse(struct session *session, int argc, char **argv);
/* Reads a text of at most MAX_SOURCE bytes. STATUS_LIMIT, STATUS_IO. */
enum status session_read_file(struct session *session, const char *path, char **text, size_t *length);
/* Reads, parses and resolves the chain. Names in policies, of its blocks and of options, must be names of the chain. */
enum status session_load_chain(struct session *session);
enum status session_load_syntax(struct session *session);
/* Opens the input and makes its reader. */
enum status session_open_input(struct session *session);
/* After the one array that a command reads: warns if more arrays follow. STATUS_DATA for other bytes. */
enum status session_end_input(struct session *session);
enum status session_bind(struct session *session, bool data, enum dtype compute);
/* Opens the source of steps' costs that --costs names. STATUS_DATA, STATUS_IO. */
enum status session_open_costs(struct session *session);
/* Milliseconds that JOB takes by --costs; 0 if costs are not times. */
double session_predicted_ms(const struct session *session, const struct job *job);
/* Sets TYPE to the input's, by --shape, the chain's declaration or the input's header; binds params to types alone. */
enum status session_bind_types(struct session *session, struct type *type);
/* True if a report for programs goes to standard error, where warnings would break it. */
bool session_error_is_data(const struct session *session);
/* Opens standard output or -o, for arrays or for text. */
enum status session_open_output(struct session *session, const char *path);
void session_make_writer(struct session *session, struct writer *writer, struct output *output);
/*
 * session_put takes OUTPUT, which is complete. A regular file keeps its temporary name until session_commit, which
 * flushes all such files and then renames them in the order of session_put. If one cannot be written, or the command
 * fails, none is renamed. Other outputs are closed at once.
 */
enum status session_put(struct session *session, struct output *output);
enum status session_commit(struct session *session);
/* A text on its way to a file: PATH, or standard error if ERROR, else standard output. */
struct text_file {
	struct output output;
	struct text text;
	struct report report; /* of --format, to TEXT */
	struct session *session;
	char *buffer;
	size_t used;
	enum status status;
};
enum status session_open_text(struct session *session, struct text_file *file, const char *path, bool error);
/* The same for a command's own report: --output, else standard output. */
enum status session_open_report(struct session *session, struct text_file *file);
/* Writes the rest and puts FILE. If the function that wrote the text failed with STATUS, discards FILE and returns it. */
enum status session_close_text(struct text_file *file, enum status status);
void session_close(struct session *session);

enum status command_run(struct session *session);
enum status command_grad(struct session *session);
enum status command_residuals(struct session *session);
enum status command_plan(struct session *session);
enum status command_explain(struct session *session);
enum status command_check(struct session *session);
enum status command_profile(struct session *session);
enum status command_ops(struct session *session);
enum status command_fmt(struct session *session);

#endif
