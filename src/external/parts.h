/*
 * What the files of this folder share. A program has workers; a worker is a context of a shared object, or a process.
 * Both are a backend: functions that programs.c calls once it has checked what they may be called for.
 */
#ifndef EXTERNAL_PARTS_H
#define EXTERNAL_PARTS_H

#include "ckptc_step.h"
#include "external/external.h"
#include "external/guard.h"
#include "external/memory.h"

/* The types of a program, in one piece. */
struct external_types {
	struct external_signature signature; /* points to the arrays below */
	struct type operands[PROGRAM_OPERANDS];
	const char *names[PROGRAM_OPERANDS];
	/* The same for a shared object. */
	struct ckptc_step_signature step;
	struct ckptc_step_type step_operands[PROGRAM_OPERANDS];
};

struct external_worker {
	int64_t opening;        /* the value of program->opening whose types it has; 0: none */
	double seconds;         /* for which calls of it have taken */
	struct watched watched; /* if it is an object's */
	void *context;          /* of the shared object, if OPENING is not 0; or a struct command, NULL before it starts */
};

struct external {
	struct external_set *set;
	const char *name, *target; /* TARGET NULL: it is not bound */
	const struct external_backend *backend;
	void *library; /* of dlopen */
	const struct ckptc_step *step;
	int64_t opening; /* how often its types were set; 0: it has none */
	struct external_types types;
	struct program_traits traits;
	bool shares;                     /* its commands asked for shared memory */
	struct external_worker *workers; /* set->options.workers of them */
};

struct external_set {
	struct context context; /* without diags */
	struct external_options options;
	struct external *programs;
	uint32_t count;
	struct shared_memory memory; /* if there are commands */
	bool has_commands;
	int64_t forgotten;  /* how often constant operands have changed */
	struct guard guard; /* if there are shared objects */
	bool has_objects;
	struct watcher *watcher; /* of the objects; or NULL */
};

struct external_backend {
	/* Starts WORKER if need be, tells it program->types, and writes its TRAITS. */
	enum status (*open)(struct external *program, struct external_worker *worker, struct program_traits *traits,
	                    struct diags *diags);
	enum status (*call)(struct external *program, struct external_worker *worker, const struct external_call *call,
	                    struct diags *diags);
	enum status (*release)(struct external *program, struct external_worker *worker, uint64_t handle,
	                       struct diags *diags);
	/* Writes, not adds, the sum of one worker. */
	enum status (*sum)(struct external *program, struct external_worker *worker, uint32_t operand, void *sum,
	                   struct diags *diags);
	/* Ends what the last `open` began, before program->types change. */
	void (*retire)(struct external *program, struct external_worker *worker);
	/* Announces the end of calls to WORKER, if it runs. The worker has some time to end while others get the announcement. */
	void (*hang_up)(struct external_worker *worker);
	/* Ends WORKER's input, if it runs. */
	void (*end_input)(struct external_worker *worker);
	/* Awaits the end of WORKER, whose input has ended. Fails if it has written more than its answers, or failed then. */
	enum status (*finish)(struct external *program, struct external_worker *worker, struct diags *diags);
	/* Ends WORKER, which is retired. */
	void (*close)(struct external *program, struct external_worker *worker);
};

extern const struct external_backend shared_object_backend, command_backend;

/* Opens program->target, a shared object. */
enum status shared_object_load(struct external *program, struct diags *diags);
/* Does nothing if it is not open. */
void shared_object_unload(struct external *program);
/* Continues *HASH with the contents of the file of PROGRAM, a shared object. */
enum status shared_object_hash(const struct external *program, uint64_t *hash, struct diags *diags);

/*
 * Makes WORKER of PROGRAM one without a process: whoever holds the other ends of INPUT and OUTPUT, which never block,
 * answers. It takes the descriptors. For tests.
 */
enum status command_attach(struct external *program, struct external_worker *worker, int input, int output,
                           struct diags *diags);

/* Reports that PROGRAM failed; NUMBER is the step, or -1 for none. Returns STATUS_PROGRAM. */
__attribute__((format(printf, 4, 5))) enum status external_failed(const struct external *program, int64_t number,
                                                                  struct diags *diags, const char *format, ...);
/* Returns the seconds after which a note says what is awaited, if the slowest answer so far has taken SLOWEST. */
double external_patience(double slowest);
/* True if a backward call returns the cotangent by OPERAND: it is wanted, and the program does not add it up. */
bool external_returns(const struct external *program, uint32_t operand);

#endif
