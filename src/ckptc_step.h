/*
 * ckptc_step.h: a time step, and its adjoint, in a shared object that ckptc loads:
 *
 *     ckptc grad --program step=./step.so chain.ck        where the chain has   program step(c): f64[512,512]
 *
 * The object exports one variable, `const struct ckptc_step ckptc_step`. A function returns NULL if all went well, else
 * a text that says what did not; the text must stay valid until the next call. Arrays are contiguous, in C order, of
 * float or double as their types say. They do not overlap, and are valid during the call only. One context serves one
 * thread at a time.
 *
 * A function must return: no exit, no exec, no longjmp, no C++ exception that leaves it. Its standard output is the
 * command's standard error. It finds the floating-point control of its caller, such as the rounding mode, and may change
 * that for itself. The command restores it after the call, and the signals too; the working directory is not the
 * command's matter. libckptc restores the floating-point control and the thread's signal mask; all else belongs to the
 * process that calls libckptc. ckptc-program(7) says more, and has an example.
 */
#ifndef CKPTC_STEP_H
#define CKPTC_STEP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CKPTC_STEP_VERSION = 1 };

struct ckptc_step_type {
	int bytes;          /* of an element: 4 is float, 8 is double */
	int ndim;           /* number of axes; 0: one number */
	const int64_t *dim; /* their extents */
	int64_t count;      /* number of elements */
};

/* Types of the step's arrays. Bit i of a mask is operand i, in the order in which the chain declares them. */
struct ckptc_step_signature {
	const char *name; /* as the chain names the step */
	struct ckptc_step_type x, y;
	uint32_t operand_count;
	const char *const *operand_names;
	const struct ckptc_step_type *operands;
	int gradient_x;     /* backward gives the cotangent of x: else DX is NULL */
	uint32_t gradients; /* mask: operands whose cotangents backward gives; else those in DOPERANDS are NULL */
};

/* Set by `open`; they come with the values that are given here. */
struct ckptc_step_traits {
	int needs_x;             /* 1: backward reads x; else X may be NULL there */
	int needs_y;             /* 0: so with y */
	uint32_t needs_operands; /* mask, all operands: so with operands */
	int64_t record_bytes;    /* 0: bytes that one record holds, if there is `record` */
	uint32_t sums;           /* mask, 0: operands whose gradients the step adds up itself; `gradient` gives them */
};

struct ckptc_step {
	int version; /* CKPTC_STEP_VERSION */
	/* Begins. *CONTEXT is passed to all other functions. SIGNATURE and what it points to are valid until `close`. */
	const char *(*open)(const struct ckptc_step_signature *signature, struct ckptc_step_traits *traits, void **context);
	/* y = step(x, operands). NUMBER counts the calls of this step in the forward pass, from 0. */
	const char *(*forward)(void *context, int64_t number, const void *x, const void *const *operands, void *y);
	/*
	 * Cotangents from that of y, G. They are written, not added. If HANDLE is not 0, it is from `record`, which ends:
	 * x and y are then NULL, and so are all operands but those of needs_operands that are the same whole param or
	 * const in each call. NULL: the step runs forward only.
	 */
	const char *(*backward)(void *context, int64_t number, const void *x, const void *const *operands, const void *y,
	                        const void *g, uint64_t handle, void *dx, void *const *doperands);
	/* forward, which also keeps what backward needs, under a *HANDLE that is not 0. NULL: there is none. */
	const char *(*record)(void *context, int64_t number, const void *x, const void *const *operands, void *y,
	                      uint64_t *handle);
	/* Ends a record without backward. Only with `record`. */
	void (*release)(void *context, uint64_t handle);
	/* Writes the gradient by OPERAND that was added up since `open` or since the last such call. Only with `sums`. */
	const char *(*gradient)(void *context, uint32_t operand, void *sum);
	void (*close)(void *context); /* NULL: there is nothing to do */
};

#ifdef __cplusplus
}
#endif

#endif
