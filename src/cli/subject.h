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
	bool has_spec; /* --spec was given */
	bool warns;    /* subject_plan warns of options that have no effect */
};

/* Reads the chain and the type of its input, or the file of --spec. */
enum status subject_open(struct subject *subject, struct session *session);
/* Sets *POLICY to a copy of GIVEN with --max-checkpoints. With --spec, a policy by value fails with STATUS_USAGE. */
enum status subject_policy(struct subject *subject, const struct policy *given, const struct policy **policy);
/*
 * Plans *POLICY. Writes its figures to ROW, which the caller zeroes, and its actions to TO unless TO is NULL. Without
 * --spec, replaces `auto` by its choice. Fails with STATUS_LIMIT for an infeasible budget, and sets ROW's least_bytes.
 */
enum status subject_plan(struct subject *subject, const struct policy **policy, struct policy_row *row,
                         struct report *to, struct diags *diags);
/* Plans POLICIES, COUNT budgets, with one search. The caller zeroes ROWS. An infeasible budget gets least_bytes. */
enum status subject_budgets(struct subject *subject, const struct policy *const *policies, size_t count,
                            struct policy_row *rows);
/* Sets LIST to the arrays that POLICY holds when the first sweep ends, and to its figures. */
enum status subject_kept(struct subject *subject, const struct policy *policy, struct kept_list *list);

#endif
