/*
 * The outcome of every fallible function. The values are the exit statuses of
 * the program (ckptc(1)), so that main() returns one without a table.
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

#endif
