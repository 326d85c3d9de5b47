/* A shared object that throws. */
#include <stdexcept>

#include "ckptc_step.h"

static const char *open_step(const struct ckptc_step_signature *, struct ckptc_step_traits *, void **) { return nullptr; }

static const char *forward(void *, int64_t number, const void *, const void *const *, void *)
{
	if (number == 2)
		throw std::runtime_error("no convergence");
	return nullptr;
}

extern "C" const struct ckptc_step ckptc_step = {CKPTC_STEP_VERSION, open_step, forward, nullptr, nullptr,
                                                 nullptr,            nullptr,   nullptr};
