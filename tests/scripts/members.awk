# A law on the names of members, for check-sources: a name that more than MOST structs have is a word of one meaning.
# WORDS lists those words. NAME:N is a word that still has several meanings, and that at most N structs have. A struct is
# known by its name, or by its place if it has none. The members of structs within a struct are that struct's. Prints a
# line for each name that breaks the law.

# Removes comments from TEXT. One that does not end in this line sets `comment`.
function strip(text,    kept) {
	kept = ""
	for (;;) {
		if (comment) {
			if (!match(text, /\*\//))
				return kept
			text = substr(text, RSTART + 2)
			comment = 0
		}
		if (!match(text, /\/\*|\/\/.*/))
			return kept text
		kept = kept substr(text, 1, RSTART - 1) " "
		comment = substr(text, RSTART, 2) == "/*"
		text = substr(text, RSTART + RLENGTH)
	}
}

function note(name) {
	if ((name, struct) in seen)
		return
	seen[name, struct] = 1
	number[name]++
	where[name] = where[name] " " struct
}

# Notes the members that the declaration TEXT makes.
function declare(text,    list, n, i, name) {
	gsub(/_(Atomic|Alignas)\([^()]*\)|__attribute__ *\(\(.*\)\)/, " ", text)
	if (match(text, /\(\**[a-z_0-9]+(\[[^]]*\])*\)\(/)) { # a pointer to functions
		name = substr(text, RSTART, RLENGTH)
		sub(/\[.*/, "", name)
		gsub(/[^a-z_0-9]/, "", name)
		note(name)
		return
	}
	while (gsub(/\[[^][]*\]/, "", text))
		;
	n = split(text, list, ",")
	for (i = 1; i <= n; i++) {
		sub(/:[^:]*$/, "", list[i]) # bits
		sub(/[ \t]+$/, "", list[i])
		if (match(list[i], /[A-Za-z_][A-Za-z_0-9]*$/))
			note(substr(list[i], RSTART))
	}
}

BEGIN {
	count = split(WORDS, list, " ")
	for (i = 1; i <= count; i++)
		if (split(list[i], pair, ":") == 2)
			limit[pair[1]] = pair[2]
		else if (!(list[i] in limit))
			limit[list[i]] = 1e9
}
FNR == 1 { comment = depth = 0 }
{
	text = comment || $0 ~ /\// ? strip($0) : $0
	if (depth == 0) {
		if (!match(text, /(^|[ \t])(struct|union)( [a-z_0-9]+)? \{/) || text ~ /[=(].*\{/)
			next
		struct = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		sub(/^[ \t]*(struct|union) /, "", struct)
		sub(/ ?\{$/, "", struct)
		if (struct == "")
			struct = FILENAME ":" FNR
		depth = 1
		held = ""
	}
	while (depth > 0 && match(text, /[{};]/)) {
		mark = substr(text, RSTART, 1)
		held = held " " substr(text, 1, RSTART - 1)
		text = substr(text, RSTART + 1)
		if (mark == "{") {
			depth++
			enum[depth] = held ~ /enum/
		} else if (mark == "}")
			depth--
		else if (!enum[depth])
			declare(held)
		held = ""
	}
	held = held " " text
}
END {
	for (name in number) {
		most = name in limit ? limit[name] : MOST
		if (number[name] <= most)
			continue
		printf "the member '%s' is in %d structs, more than %d:%s\n", name, number[name], most, where[name] | "sort"
		broken = 1
	}
	close("sort")
	exit broken
}
