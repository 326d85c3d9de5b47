/*
 * The outcome of a fallible function. The values are the program's exit statuses
 * (ckptc(1)), so main() returns one as it is.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

enum status {
	STATUS_OK = 0,
	STATUS_CHECK = 1, /* a check failed */
	STATUS_USAGE = 2, /* the command line */
	STATUS_CHAIN = 3, /* the chain: syntax, names, types */
	STATUS_DATA = 4,  /* npy, text, npz, safetensors */
	STATUS_IO = 5,    /* the system's input and output */
	STATUS_LIMIT = 6, /* memory or a documented limit */
};

/* Returns the status of CALL from the function around it, unless that is STATUS_OK. */
#define TRY(CALL)                                                                                                      \
	do {                                                                                                               \
		const enum status tried = (CALL);                                                                              \
		if (tried)                                                                                                     \
			return tried;                                                                                              \
	} while (0)

#endif
