/* One invocation: its options, and the files that it opens. Each command is a function of a session, in its own file. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "exec/costs.h"
#include "exec/params.h"
#include "io/array.h"
#include "language/chain.h"
#include "report/record.h"
#include "schedule/policy.h"

enum { RUN = 1, GRAD = 2, RESIDUALS = 4, PLAN = 8, EXPLAIN = 16, CHECK = 32, OPS = 64, FMT = 128, PROFILE = 256 };
enum {
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

/* The options as given; NULL or 0 where not. */
struct command_line {
	const char *text, *file;          /* -e TEXT; CHAIN */
	const char *values[OPTION_COUNT]; /* the last value of each */
	bool given[OPTION_COUNT];
	struct text_list policies, grads, compared; /* --policy and --online; --grad; the two of --diff */
	struct param_binding *params;
	size_t param_count, param_capacity;
};

struct policy_list {
	struct policy *items;
	size_t count;
	bool on_disk; /* one of them may keep states on disk */
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

/* A file that the command writes. The session owns it: session_close discards what was not put. */
struct opened_output {
	struct output output;
	struct writer writer;                 /* of arrays */
	struct opened_output *before, *after; /* by opening; by session_put, of the files that wait for session_commit */
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
	struct opened_output *out;                /* of arrays, at --output */
	struct opened_output *outputs;            /* the last opened */
	struct opened_output *whole, **whole_end; /* complete, in the order of session_put */
	struct params bound;
	struct costs_source *costs; /* --costs; NULL: the table's */
	struct job job;             /* of session_make_job */
};

typedef enum status command_function(struct session *session);
struct command {
	const char *name;
	int letter;
	command_function *run;
	const char *summary;
};
extern const struct command command_table[];
extern const size_t command_count;

/* Reports an error of the command line. Returns STATUS_USAGE. */
__attribute__((format(printf, 2, 3))) enum status usage_error(struct session *session, const char *format, ...);
/* Adds a hint to the last message. Returns STATUS, so that a caller can return an error with a hint. */
__attribute__((format(printf, 3, 4))) enum status with_hint(struct session *session, enum status status,
                                                            const char *format, ...);
/* The same with the candidate nearest to NAME as the hint; if none is near, OTHERWISE, which may be NULL. */
enum status with_nearest(struct session *session, enum status status, const char *name, struct text_list candidates,
                         const char *otherwise);
/* Decides before the first message if messages are coloured. Of several --color the last counts. */
void session_choose_color(struct session *session, int argc, char **argv);
/* Parses the command line after the command's name; a NULL ends ARGV. STATUS_USAGE. */
enum status session_parse(struct session *session, char **argv);
/* Sets SOURCE to the text at PATH, of at most MAX_SOURCE bytes. STATUS_LIMIT, STATUS_IO. */
enum status session_read_file(struct session *session, const char *path, struct source *source);
/* Reads, parses and resolves the chain. Names in policies, of its blocks and of options, must be names of the chain. */
enum status session_load_chain(struct session *session);
enum status session_load_syntax(struct session *session);
/* True if --shape replaces the input. */
bool session_makes_input(const struct session *session);
/* Opens the input and makes its reader. */
enum status session_open_input(struct session *session);
enum status session_bind(struct session *session, bool data, enum dtype compute);
/* Opens the source of steps' costs that --costs names. STATUS_DATA, STATUS_IO. */
enum status session_open_costs(struct session *session);
/* Sets TYPE to the input's, by --shape, the chain's declaration or the input's header; binds params to types alone. */
enum status session_bind_types(struct session *session, struct type *type);
/* True if a report for programs goes to standard error, where warnings would break it. */
bool session_error_is_data(const struct session *session);
/* Makes OUTPUT the session's, as *OUT. After a failure it is closed. */
enum status session_own_output(struct session *session, struct opened_output **out, struct output *output);
/* Opens *OUT at PATH, NULL or "-" for standard output; LIVE as output_open_live. */
enum status session_open_output(struct session *session, struct opened_output **out, const char *path, bool live);
/* Makes the writer of OUT, in the format of --to or of the input. */
void session_make_writer(struct session *session, struct opened_output *out);
/* Opens `out`, with its writer, at --output. STATUS_USAGE if it would be appended to the input. */
enum status session_open_arrays(struct session *session);
/*
 * session_put takes OUT, which is complete. A regular file keeps its temporary name until session_commit, which flushes
 * all such files and then renames them in the order of session_put. If one cannot be written, or the command fails, none
 * is renamed. Other outputs are closed at once.
 */
enum status session_put(struct session *session, struct opened_output *out);
enum status session_commit(struct session *session);
/* A text on its way to a file: PATH, or standard error if ERROR, else standard output. */
struct text_file {
	struct opened_output *out;
	struct text text;
	struct report report; /* of --format, to TEXT */
	struct session *session;
	size_t used;
	enum status status;
	char buffer[1 << 15];
};
enum status session_open_text(struct session *session, struct text_file **file, const char *path, bool error);
/* The same for a command's own report: --output, else standard output. */
enum status session_open_report(struct session *session, struct text_file **file);
/* Writes the rest and puts FILE. STATUS_LIMIT if memory was too short for a report. */
enum status session_close_text(struct text_file *file);
void session_close(struct session *session);

/* STATUS_USAGE if two options name one regular file, by any paths. */
enum status outputs_check(struct session *session);
/*
 * STATUS_USAGE if the arrays of `out`, the VALUE and the EVENTS (or NULL), which are written at the same time, or a
 * report after them would mix in one file. Several texts may: a line is written at once, and the value's lines follow
 * the gradient's.
 */
enum status outputs_check_apart(struct session *session, struct opened_output *value,
                                const struct opened_output *events);
/* STATUS_IO if a file that is written after the work cannot be opened now. */
enum status outputs_probe(struct session *session);

/*
 * The most bytes that the process may take: what the machine and its control groups have, less an eighth. The machine
 * would promise more and fail later; a control group would kill the process.
 */
size_t session_memory_most(void);

/* Prints --help of COMMAND; NULL: of the program. */
enum status help_print(struct session *session, const struct command *command);
/* Prints what an operation takes, computes, reaches and keeps. */
enum status help_print_op(struct session *session, enum op op);
/* Prints the lines from which completions are made. */
enum status help_print_options(struct session *session);
command_function command_run, command_grad, command_residuals, command_plan, command_explain, command_check,
	command_profile, command_ops, command_fmt;
/* --dump syntax|chain|plan|schedule, of run and grad. */
command_function command_dump;

#endif
