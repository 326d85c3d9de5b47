/* A chain as the library holds it, and what plans and runs of it share. */
#ifndef API_CHAIN_H
#define API_CHAIN_H

#include "api/owner.h"
#include "external/external.h"
#include "language/chain.h"
#include "load/params.h"
#include "plan/job.h"

struct ckptc_chain {
	struct owner owner;
	struct source source;
	struct chain chain;
	const char *directory;
	struct memory_array *arrays; /* bound by name; as many as the chain has params fit */
	size_t array_count;
	struct given_number *numbers;          /* of consts that stand where a number must */
	struct param_binding *number_bindings; /* the same, as the values of these consts */
	size_t number_count;
	struct external_binding *programs; /* bound, as arrays */
	size_t program_count;
};

/* Sets TYPE to that of ARRAY. Fails with STATUS_USAGE, and calls it WHAT, if it has none, or no data if DATA. */
enum status array_type(const struct ckptc_array *array, const char *what, bool data, struct type *type,
                       struct diags *diags);
/* Finds *NAME among COUNT NAMES of things that are WHAT, and sets it to that one. STATUS_USAGE, with the nearest, if not. */
enum status find_declared(const struct context *context, const char *const *names, size_t count, const char *what,
                          const char **name);
/* Sets ARRAY to TYPE and DATA. */
void array_show(struct ckptc_array *array, const struct type *type, const void *data);
/* Binds the params of CHAIN for an input of TYPE: types alone, unless DATA. The caller calls params_free. */
enum status chain_bind_params(const struct context *context, struct ckptc_chain *chain, const struct type *type,
                              bool data, struct params *params);
/* Binds the programs of CHAIN, with as many processes as threads. The caller calls external_close on *SET, or NULL. */
enum status chain_bind_programs(const struct context *context, const struct ckptc_chain *chain, int threads,
                                struct external_set **set);
/* Reads TEXT as policy_read does, for CHAIN. STATUS_USAGE too if it names a value that the chain lacks. */
enum status chain_read_policy(const struct context *context, const struct ckptc_chain *chain, const char *text,
                              const struct ckptc_plan_options *options, struct policy *policy);
/* Returns the options of a job under POLICY, whose params take PARAM_BYTES. */
struct job_options chain_job_options(const struct ckptc_plan_options *options, const struct policy *policy,
                                     int64_t param_bytes);

#endif
