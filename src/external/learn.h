/* What programs say of themselves, before a chain with calls of them is planned or run. */
#ifndef EXTERNAL_LEARN_H
#define EXTERNAL_LEARN_H

#include "external/external.h"
#include "ir/lower.h"

/*
 * Opens each program of SET, or NULL, that a stage of PORTION calls, for an input of type INPUT, and sets what CHAIN
 * knows of it. If BACKWARD, the chain will be differentiated. A program that is not bound keeps its traits. Fails with
 * STATUS_CHAIN if two calls of a program have different types, or if it adds up the gradient of an operand that is not
 * the same whole param in each call. Fails as lower and external_open do.
 */
enum status external_learn(const struct context *context, const struct chain *chain, const struct portion *portion,
                           const struct type *input, bool backward, struct external_set *set);
/*
 * Fails with STATUS_USAGE if SET lacks a program of CHAIN. If BACKWARD, fails with STATUS_PROGRAM if a program that
 * external_learn has opened runs forward only.
 */
enum status external_demand(const struct chain *chain, bool backward, struct external_set *set, struct diags *diags);

#endif
