/*
 * Functions of the C library that a shared object of --program calls, but that are the command's: those of the program
 * come first. They are declared where the C library declares them.
 */
#ifndef CLI_INTERPOSED_H
#define CLI_INTERPOSED_H

#include <signal.h>

/* Looks for the C library's functions. The functions of interposed.c do so else, but not from a handler of signals. */
void interposed_find(void);
/* Prepares for threads, before an object is loaded. */
void interposed_prepare(void);
/* The C library's own sigaction. It is async-signal-safe after interposed_find. */
int interposed_sigaction(int number, const struct sigaction *new, struct sigaction *old);

#endif
