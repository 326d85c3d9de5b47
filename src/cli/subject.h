/* The subject of `ckptc plan`: a chain on an input, or the costs of a chain that another program runs. */
#ifndef CLI_SUBJECT_H
#define CLI_SUBJECT_H

#include "cli/session.h"
#include "plan/spec.h"
#include "report/counters.h"

struct subject {
	struct session *session;
	struct type type; /* without --spec: of the chain's input */
	struct spec spec;
	bool has_spec;                 /* --spec was given */
	const struct job *base;        /* prepared by the first subject_plan: all jobs share its steps; NULL before */
	const struct portion *portion; /* of the chain, to be planned; NULL: as options say */
	bool warns;                    /* subject_plan warns of options that have no effect */
};

/* Reads the chain, the type of its input and --costs; or the file of --spec, which refuses options of a chain. */
enum status subject_open(struct subject *subject, struct session *session);
/* Sets *POLICY to GIVEN with --max-checkpoints. For --spec, resolves `auto`, and refuses by value: STATUS_USAGE. */
enum status subject_policy(struct subject *subject, const struct policy *given, const struct policy **policy);
/*
 * Plans *POLICY. Writes policy, counters and predicted_ms to ROW, which the caller zeroes, and the actions to TO unless
 * that is NULL. Without --spec, replaces `auto` by its choice. An infeasible budget (or `auto`) fails with STATUS_LIMIT
 * and sets ROW's least_bytes.
 */
enum status subject_plan(struct subject *subject, const struct policy **policy, struct policy_row *row,
                         struct report *to, struct diags *diags);
/* Plans COUNT budgets by one search. The caller zeroes ROWS. An infeasible one is no error, but gets least_bytes. */
enum status subject_budgets(struct subject *subject, const struct policy *const *policies, size_t count,
                            struct policy_row *rows);
/* Returns the interval of every:N that --sweep plans after N: all up to 32, then every interval that is 25% longer. */
int64_t sweep_next(int64_t n);
/* Sets LIST to the arrays that POLICY holds in memory when the first sweep ends, and LIST's row to its figures. */
enum status subject_kept(struct subject *subject, const struct policy *policy, struct kept_list *list);
/* Writes the costs of the chain's steps, or of those of one tile, to --save-costs. STATUS_USAGE if there are no steps. */
enum status subject_save_costs(struct subject *subject);

#endif
