/*
 * A step's hash is the sum of the hashes of the live slots that it writes. The sum does not depend on the order of a
 * body's outputs, which differs between the forward body and the recording body. A call that writes another number of
 * slots than the first one that wrote any is not compared: one of the two only records.
 * Tests: tests/unit/test_state_hashes.c
 */
#include <string.h>

#include "base/hash.h"
#include "exec/run_state.h"

void state_hashes_begin(struct state_hashes *recompute)
{
	memset(recompute->hashes, 0, (size_t)recompute->steps * sizeof *recompute->hashes);
}

static struct recompute_hash hash_of(const struct machine_call *call, void *const *outs, int64_t rows)
{
	const struct body *body = call->program->body;
	const struct step *step = call->compiled->linear.step;
	struct recompute_hash hash = {0};
	for (size_t i = 0; i < body->out_count; i++) {
		const struct port *port = &body->outs[i];
		if (port->kind != PORT_SLOT || !has_slot(step->live_out, step_slot(step, port)) || !outs[i] ||
		    body_collects(body, port->value)) /* it lacks the parts of later iterations */
			continue;
		const struct value *value = &body->values[port->value];
		const struct type type = type_of_rows(value->type, value->streamed, rows);
		hash.hash += hash_bytes(port->index + 1, outs[i], (size_t)type_bytes(&type));
		hash.arrays++;
	}
	return hash;
}

void state_hashes_see(struct state_hashes *recompute, const struct machine_call *call, void *const *outs, int64_t rows)
{
	struct recompute_hash *first = &recompute->hashes[call->step], hash = hash_of(call, outs, rows);
	if (first->arrays == 0) {
		*first = hash;
		return;
	}
	if (hash.arrays != first->arrays)
		return;
	recompute->compared++;
	if (hash.hash != first->hash && recompute->differing++ == 0)
		recompute->first_step = call->step;
}

void state_hashes_add(struct state_hashes *to, const struct state_hashes *from)
{
	if (to->differing == 0)
		to->first_step = from->first_step;
	to->compared += from->compared;
	to->differing += from->differing;
}
