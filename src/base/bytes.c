/* Digits are read by hand: strtod would take hexadecimal, nan, and the locale's comma. */
#include "base/bytes.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static enum status wrong_bytes(const char *text, struct diags *diags)
{
	enum status status = diag_file(diags, STATUS_USAGE, NULL, -1, "'%s' is not a number of bytes", text);
	diag_hint(
		diags,
		"write it like 1500, 64K (thousands), 64KiB (1024s), 1.5GiB; units are K, M, G, T and KiB, MiB, GiB, TiB");
	return status;
}

enum status bytes_parse(const char *text, int64_t *bytes, struct diags *diags)
{
	static const char units[] = "KMGT";
	long double value = 0, place = 1;
	const char *c = text;
	bool digits = false;
	for (; *c >= '0' && *c <= '9'; c++, digits = true)
		value = value * 10 + (*c - '0');
	if (*c == '.')
		for (c++; *c >= '0' && *c <= '9'; c++, digits = true)
			value += (*c - '0') * (place /= 10);
	if (!digits)
		return wrong_bytes(text, diags);
	const char *unit = *c ? strchr(units, toupper((unsigned char)*c)) : NULL;
	if (unit) {
		c++;
		long double base = 1000;
		if (*c == 'i') {
			base = 1024;
			c++;
			if (*c != 'B')
				return wrong_bytes(text, diags);
		}
		for (const char *u = units; u <= unit; u++)
			value *= base;
	}
	if (*c == 'B')
		c++;
	if (*c)
		return wrong_bytes(text, diags);
	if (value >= 9223372036854775807.0L)
		return diag_file(diags, STATUS_USAGE, NULL, -1, "'%s' is more bytes than can be counted", text);
	*bytes = (int64_t)floorl(value + 1e-9L);
	return STATUS_OK;
}
