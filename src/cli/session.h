/* A session is one invocation: its options and its files. Each command is a function of a session, in its own file. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "external/external.h"
#include "io/array.h"
#include "io/lock.h"
#include "language/chain.h"
#include "load/params.h"
#include "measure/costs.h"
#include "ranks/ranks.h"
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
	IMPORT = 512
};
enum {
	BACKWARDS = GRAD | RESIDUALS | PLAN | EXPLAIN | CHECK | PROFILE,
	DATA = RUN | BACKWARDS,
	CHAINS = DATA | FMT,
	ALL = DATA | OPS | FMT | IMPORT,
};

enum option_id {
#define OPTION(ID, ...) OPTION_##ID,
#include "cli/options.def"
	OPTION_COUNT
};

/* The most depths of profile's --depths. */
enum { MOST_DEPTHS = 16 };

enum option_use { ONCE = 1, WRITTEN = 2, READ = 4, OWN = 8 };
struct option_row {
	const char *name;
	char short_name;
	const char *argument;
	int use, commands;
	const char *help;
};
extern const struct option_row option_table[OPTION_COUNT]; /* indexed by option_id */
/* Returns OPTION as it was typed last, or would be: --output, or -o. */
struct session;
const char *option_shown(const struct session *session, int option);
/* Returns the words that OPTION takes with the command of this letter, with a space between two; "" if any text. */
const char *option_words(int option, unsigned command);
/* True if OPTION of `run` is about the table of --residuals alone. */
bool option_needs_residuals(int option);
/* True if the value of OPTION is one of its words, and no file. */
bool option_is_word(const struct session *session, int option);

/* The options as given. NULL, 0 or false if an option was not given; a value is NULL, too, if an option has none. */
struct command_line {
	const char *text, *file;                           /* the TEXT of -e; the file CHAIN */
	const char *values[OPTION_COUNT];                  /* the last value of each option */
	bool given[OPTION_COUNT], by_letter[OPTION_COUNT]; /* BY_LETTER: it was typed last as -o, not as --output */
	struct text_list texts[OPTION_COUNT];              /* all values of each option; "given" if it has none */
	struct text_list policies, grads, compared;        /* --policy and --online; --grad; the two of --diff */
	struct text_list param_files;                      /* --params */
	struct param_binding *params;
	size_t param_count, param_capacity;
	struct external_binding *programs; /* --program */
	size_t program_count, program_capacity;
};

struct policy_list {
	struct policy *items;
	size_t count;
	bool on_disk; /* at least one policy may keep states on disk */
};

/* The values of the options. */
struct settings {
	enum report_format format;
	bool dot;   /* explain --format dot */
	bool color; /* messages have colours; with --color, so have the tables of explain */
	int threads, program_workers;
	double program_timeout;                                         /* seconds; 0: none */
	int64_t tile, memory, spill_limit, max_checkpoints, iterations; /* 0: not given */
	int64_t elements;                                               /* -1: not given */
	int64_t depths[MOST_DEPTHS];                                    /* rising */
	size_t depth_count;
	bool given_policies;     /* check: under no others */
	enum dtype dtype, store; /* DTYPE_COUNT: not given */
	struct policy policy;    /* the first given; else `auto` with --memory, save-all without */
	struct policy_list policies, compared;
	struct type shape;          /* --shape of the first input; ndim -1: not given */
	struct input_shape *shapes; /* all values of --shape */
	size_t shape_count;
	struct reader_options reading;
	double missing; /* of --missing; reading.missing points to it */
	enum format to;
};

/* A file that the command writes. The session owns it; session_close discards it unless it was committed. */
struct opened_output {
	struct output output;
	struct writer writer;                 /* for arrays */
	struct opened_output *before, *after; /* the output opened before; the output that is renamed next */
	bool adds;                            /* the file holds more with each run: it is renamed after those that do not */
};

/* Smaller params take no time worth saving. */
enum { PARAM_LEAVES = 1 << 20 };

struct session {
	const struct allocator *allocator;
	struct arena arena;
	struct diags diags;
	struct context context; /* the three members above */
	const struct command *command;
	struct command_line line;
	struct settings set;
	struct source source;
	struct syntax syntax;
	struct chain chain;
	const char *directory; /* the folder of the chain's file; "." if the chain comes from -e or standard input */
	struct input_place *input_places; /* of the inputs, by inputs_place; NULL before the chain is loaded */
	struct {
		struct input input;
		struct reader reader;
		struct array loaded; /* of a member that is read in memory */
		bool open;
	} in;                      /* the first input */
	struct inputs inputs;      /* the others, if the command lets them arrive */
	struct opened_output *out; /* for arrays, at --output */
	const char **value_paths;  /* of run: by value, where it is written; NULL: --output says it */
	size_t value_count;
	const char *archive;           /* of run: where all values go; NULL: VALUE_PATHS have them */
	const char **cotangent_paths;  /* of several outputs, by chain.cotangents; NULL: there is at most one */
	struct opened_output *outputs; /* all outputs, the last opened first */
	struct opened_output *pending; /* files that wait for session_commit, in order */
	struct lock_list locks;        /* of --accumulate */
	struct params params;
	/* for session_bind: params of so many bytes, such as PARAM_LEAVES, may stay in their files; 0: none (struct loader) */
	int64_t leaves;
	struct external_set *programs;   /* of the chain; NULL if it has none */
	void (*ended)(const char *what); /* of struct external_options */
	int launched;                    /* processes that the launcher has started; 1 without a launcher */
	struct ranks *ranks;             /* that run the command together; NULL: it runs alone */
	const char *journal;             /* of --journal and of this rank; or NULL */
	bool settled;                    /* the ranks have agreed on a failure: see session_settle */
	bool silent;                     /* another rank reports for all */
	struct costs_source *costs;      /* of --costs; NULL: the costs of the table */
	struct job job;                  /* made by session_make_job */
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

/* Reports an error of the command line. Returns STATUS_USAGE; STATUS_LIMIT if memory is short. */
__attribute__((format(printf, 2, 3))) enum status usage_error(struct session *session, const char *format, ...);
/* Sets the hint of the last diagnostic. Returns STATUS, so that a caller can return an error with a hint. */
__attribute__((format(printf, 3, 4))) enum status with_hint(struct session *session, enum status status,
                                                            const char *format, ...);
/* As with_hint. The hint suggests the candidate nearest to NAME; if none is near, it is OTHERWISE, or none if NULL. */
enum status with_nearest(struct session *session, enum status status, const char *name, struct text_list candidates,
                         const char *otherwise);
/* Reports that --output is given twice, where a command has one value to write; the FIRST time as that file. */
enum status refuse_second_output(struct session *session, const char *first);
/* Sets whether messages are coloured, before the first message. The last --color of ARGV, before any "--", counts. */
void session_choose_color(struct session *session, int argc, char **argv);
/* Parses ARGV, the words after the command's name up to a NULL. Fails with STATUS_USAGE or STATUS_LIMIT. */
enum status session_parse(struct session *session, char **argv);
/* Reads PATH, "-" for standard input, to SOURCE. Fails with STATUS_IO, or beyond MAX_SOURCE bytes with STATUS_LIMIT. */
enum status session_read_file(struct session *session, const char *path, struct source *source);
/* Reads, parses and resolves the chain. Fails if a policy, of a block or an option, names a value the chain lacks. */
enum status session_load_chain(struct session *session);
/* Reads and parses the chain, but does not resolve its names. */
enum status session_load_syntax(struct session *session);
/* True if --shape, without --input, takes the place of an input. */
bool session_makes_input(const struct session *session);
/* Opens the inputs and makes their readers, but reads nothing. With TYPES in set.reading, some may have types alone. */
enum status session_open_input(struct session *session);
/* Binds the params. If DATA, loads their values; else binds types alone. Weak params get the dtype COMPUTE for now. */
enum status session_bind(struct session *session, bool data, enum dtype compute);
/* Learns the traits of the programs that --program binds, for an input of type TYPE; before a plan. */
enum status session_learn_programs(struct session *session, const struct type *type);
/* Sets `costs` from --costs, unless that is the table. With `measured` and --spill, measures the disk now. */
enum status session_open_costs(struct session *session);
/*
 * Opens the first input, and sets TYPE to that of its array. Fails with STATUS_USAGE if it would be typed on a terminal
 * that no option names.
 */
enum status session_read_type(struct session *session, struct type *type);
/* Sets TYPE to the input's type as the chain sees it, by --shape, a declaration or a header. Binds params to types. */
enum status session_bind_types(struct session *session, struct type *type);
/* True if a report for programs goes to standard error. Then no warnings may be printed there. */
bool session_error_is_data(const struct session *session);
/* Makes *OUT from OUTPUT, which SESSION then owns. Closes OUTPUT if memory is short. */
enum status session_own_output(struct session *session, struct opened_output **out, struct output *output);
/* Opens *OUT at PATH; NULL or "-" is standard output. If LIVE, opens it by output_open_live. */
enum status session_open_output(struct session *session, struct opened_output **out, const char *path, bool live);
/* Makes OUT's writer: in --to's format, else as text on a terminal, else in the input's format. */
void session_make_writer(struct session *session, struct opened_output *out);
/* Opens `out` at --output, and makes its writer. STATUS_USAGE if it would be appended to an input that is no text. */
enum status session_open_arrays(struct session *session);
/*
 * session_put ends OUT, which is complete. A regular file keeps its temporary name until session_commit, which flushes
 * all of these files and then renames them in the order of session_put, those of --accumulate last: then a run can be
 * repeated if another file cannot be replaced. If a flush or the command fails, or a program has written more than its
 * answers, no file is renamed. If a rename fails, the note names the files that were replaced before. session_put closes
 * other outputs at once.
 */
enum status session_put(struct session *session, struct opened_output *out);
enum status session_commit(struct session *session);
/*
 * Agrees with the other ranks, if there are any, on whether STATUS is a success. Returns the status of the failure that
 * is reported. Every rank must call it equally often until it returns a failure, which main does for one that it has not
 * seen.
 */
enum status session_settle(struct session *session, enum status status);
/*
 * Compare what all ranks need alike, and agree on the outcome as session_settle does: version, command and options; then
 * the text of `source`, a chain; then the files that the chain and options name, with STATUS_DATA if they differ. Nothing
 * happens without ranks.
 */
enum status session_compare_options(struct session *session);
enum status session_compare_chain(struct session *session);
enum status session_compare_files(struct session *session);
/* Opens *OUT at PATH for rows of arrays. Every rank calls it: all of them write to one file, of which rank 0 has charge. */
enum status session_open_rows(struct session *session, struct opened_output **out, const char *path);
/* A text that is being written to a file. */
struct text_file {
	struct opened_output *out;
	struct text text;
	struct report report; /* in the format of --format, to TEXT */
	struct session *session;
	size_t used;
	enum status status;
	char buffer[1 << 15];
};
/* Opens *FILE at PATH. "-" is standard output, and NULL is standard error if TO_STDERR, else standard output. */
enum status session_open_text(struct session *session, struct text_file **file, const char *path, bool to_stderr);
/* Opens a command's report at --output, else at standard output. */
enum status session_open_report(struct session *session, struct text_file **file);
/* Ends the report's JSON, writes the rest of FILE, and calls session_put. STATUS_LIMIT if memory has been short. */
enum status session_close_text(struct text_file *file);
void session_close(struct session *session);
/*
 * Lets OPTIONS have the format that the ending of PATH says: .npy, .csv, .tsv, .txt or .raw. Changes nothing but the delimiter
 * of csv if they have a format, and nothing at all if PATH has another ending.
 */
void output_follow_ending(const char *path, struct writer_options *options);
/* True if PATH ends as an npz or a safetensors file does. */
bool output_is_archive(const char *path);
/*
 * Fails with STATUS_USAGE if two outputs, standard output and error among them, would be one regular file, or if the name of a
 * file for arrays has the ending of a format that is not written.
 */
enum status outputs_check(struct session *session);
/*
 * Fails with STATUS_USAGE if an output would be the file of the chain, or a file that an option names to be read, by
 * whatever path or link. But the arrays of --output may replace an array that is alone in its file, such as the input,
 * --save-costs costs, and --accumulate adds gradients to params.
 */
enum status outputs_check_read(struct session *session);
/* The same for files that the loaded chain reads by load(). A user who names --output may not know what the chain reads. */
enum status outputs_check_loaded(struct session *session);
/*
 * Fails with STATUS_USAGE if binary arrays would share a file with another output: the arrays of `out` and of VALUE,
 * EVENTS (NULL: not written), or a report after them. Texts may share a file, since each line is one write. If VALUE
 * shares the file of `out`, its lines are deferred until after those of the gradient.
 */
enum status outputs_check_apart(struct session *session, struct opened_output *value,
                                const struct opened_output *events);
/* Fails with STATUS_USAGE if a file of --grad would share a pipe or a descriptor with another output of grad. */
enum status outputs_check_grads(struct session *session);
/* Fails with STATUS_IO if a file that is opened only after the work, or by the first event, cannot be opened. */
enum status outputs_probe(struct session *session);
/*
 * Returns the most bytes that the process may allocate: 7/8 of the machine's memory and all its swap space, but at most
 * 7/8 of its control groups' limit. Beyond these the system would grant memory and kill the process later.
 */
size_t session_memory_most(void);
/* Prints the help of COMMAND, or of the program if it is NULL. */
enum status help_print(struct session *session, const struct command *command);
/* Prints the arguments of OP, what it computes, its reach, and what it keeps. */
enum status help_print_op(struct session *session, enum op op);
enum status help_print_statement(struct session *session, enum statement_kind kind);
/*
 * Prints the manual's sections whose title is WORD or has it, for "topics" all titles; if there is none and TEXTS, the section
 * whose text has it most. FOUND: whether one has.
 */
enum status help_print_topic(struct session *session, const char *word, bool texts, bool *found);
/*
 * If OPTION was given, sets *CHOSEN to FIRST + the index of its value among option_words. STATUS_USAGE if it is not
 * there.
 */
enum status choose_word(struct session *session, int option, int first, int *chosen);
/* Fails with STATUS_USAGE if the default policy, which the chain may decide, takes no --max-checkpoints. */
enum status options_check_default(struct session *session);
/* Prints commands, options with their words, operations and policies as lines, for shell completions. */
enum status help_print_options(struct session *session);
command_function command_run, command_grad, command_residuals, command_plan, command_explain, command_check,
	command_profile, command_ops, command_fmt, command_import;
/* Runs `--dump syntax|chain|plan|schedule` of run and grad. */
command_function command_dump, command_plan_run;

#endif
