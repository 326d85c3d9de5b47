/* The one hash of bytes. It tells changes and names apart; it does not resist an attacker. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_START = 0 };
/*
 * Returns the hash of SIZE bytes that follow those of HASH, a former result or HASH_START.
 * Another division of the bytes among calls gives another hash. Words are read in the
 * processor's byte order, so hashes are compared only on one machine.
 */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);

#endif
