/* What a call wants of a chain beside its last value. */
#ifndef API_SELECT_H
#define API_SELECT_H

#include "api/chain.h"

struct chain_selection {
	const char *chosen;                       /* the value is this output; or NULL */
	const char *const *more;                  /* a run: names, then NULL; or NULL */
	const struct ckptc_cotangent *cotangents; /* a gradient: of several outputs, then one without a name; or NULL */
};
/*
 * Sets MADE to FROM if nothing is WANTED, else to a chain in the context's arena that gives what is WANTED. FROM must
 * outlive it. The caller frees neither. Fails with STATUS_USAGE if the chain has no such output.
 */
enum status chain_select(const struct context *context, const struct ckptc_chain *from,
                         const struct chain_selection *wanted, struct ckptc_chain *made);

#endif
