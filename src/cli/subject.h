/* The subject of `ckptc plan`: a chain on an input, or the costs of a chain that another program runs. */
#ifndef CLI_SUBJECT_H
#define CLI_SUBJECT_H

#include "cli/session.h"
#include "plan/spec.h"
#include "report/counters.h"

struct subject {
	struct session *session;
	struct type type; /* of the input, of a chain */
	struct spec spec;
	bool has_spec; /* --spec */
	bool warns;    /* subject_plan warns of options that have no effect */
};

/* Reads the chain and the input's type, or the file of --spec. */
enum status subject_open(struct subject *subject, struct session *session);
/* Sets *POLICY to GIVEN as the subject can have it, with --max-checkpoints. STATUS_USAGE. */
enum status subject_policy(struct subject *subject, const struct policy *given, const struct policy **policy);
/*
 * Plans *POLICY, which becomes what `auto` stands for: its figures go to ROW, zeroed before, its schedule to the report
 * TO if that is not NULL. An infeasible budget is reported in DIAGS, and ROW has its least_bytes.
 */
enum status subject_plan(struct subject *subject, const struct policy **policy, struct policy_row *row,
                         struct report *to, struct diags *diags);
/* Plans COUNT POLICIES of kind budget with one search: their figures in ROWS, or least_bytes if infeasible. */
enum status subject_budgets(struct subject *subject, const struct policy *const *policies, size_t count,
                            struct policy_row *rows);
/* Lists the arrays that POLICY holds when the first sweep ends, with its figures. */
enum status subject_kept(struct subject *subject, const struct policy *policy, struct kept_list *list);

#endif
