# Laws on functions, for check-sources. Reads C sources, and prints a line for each place that breaks one:
#     the name of a static function is a name in one file only
#     a function, a pointer to functions and a type of functions have at most MOST parameters
# FOREIGN lists types of functions that other libraries declare. A parenthesis is taken for a list of parameters if it
# follows a name and begins with a type. The layout is clang-format's: a function begins in the first column.

function report(line, what) {
	print FILENAME ":" line ": " what
	broken = 1
}

# Removes comments, strings and characters from TEXT. One that does not end in this line sets `comment`.
function strip(text,    kept) {
	kept = ""
	for (;;) {
		if (comment) {
			if (!match(text, /\*\//))
				return kept
			text = substr(text, RSTART + 2)
			comment = 0
		}
		if (!match(text, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//))
			return kept text
		kept = kept substr(text, 1, RSTART - 1) " "
		if (substr(text, RSTART, 2) == "//")
			return kept
		comment = substr(text, RSTART, 2) == "/*"
		text = substr(text, RSTART + RLENGTH)
	}
}

# Replaces calls of the templates' macros, such as N(tile), by the name in them.
function plain(text) {
	gsub(/__attribute__ *\(\([^()]*(\([^()]*\))?\)\)/, "", text)
	while (match(text, /[A-Z][A-Z_0-9]*\([a-zA-Z_0-9]+\)/)) {
		call = substr(text, RSTART, RLENGTH - 1)
		text = substr(text, 1, RSTART - 1) substr(call, index(call, "(") + 1) substr(text, RSTART + RLENGTH)
	}
	return text
}

# Notes the static function that the line TEXT declares. A template's N(name) is no name of C, and so has none here.
function declare(text,    name) {
	gsub(/__attribute__ *\(\([^()]*(\([^()]*\))?\)\)|_(Atomic|Alignas)\([^()]*\)/, "", text)
	gsub(/[A-Z]+\([a-z_0-9]+\)/, " ", text)
	if (!match(text, /[a-z_][a-zA-Z_0-9]*\(/) || substr(text, RSTART + RLENGTH, 1) == "*" ||
	    substr(text, 1, RSTART) ~ /[={;]/)
		return
	name = substr(text, RSTART, RLENGTH - 1)
	if (name in home && home[name] != FILENAME)
		report(FNR, "the static function '" name "' has the name of the one at " place[name])
	else if (!(name in home)) {
		home[name] = FILENAME
		place[name] = FILENAME ":" FNR
	}
}

# True if TEXT declares a parameter.
function is_parameter(text) {
	sub(/^[ \t]+/, "", text)
	return text ~ /^(const |struct |enum |void|bool|char|int|float|double|size_t|u?int[0-9]+_t)/ ||
		text ~ /^[A-Za-z_][A-Za-z_0-9]* \**[A-Za-z_][A-Za-z_0-9]*(\[.*)?$/
}

# Follows the parentheses in TEXT. `depth` counts those that are open.
function follow(text,    before, mark) {
	while (match(text, /[(),]/)) {
		before = substr(text, 1, RSTART - 1)
		mark = substr(text, RSTART, 1)
		text = substr(text, RSTART + 1)
		if (depth > 0 && count[depth] == 1)
			first[depth] = first[depth] before
		last = last before
		if (mark == "(") {
			depth++
			count[depth] = 1
			first[depth] = ""
			line[depth] = FNR
			name[depth] = match(last, /[A-Za-z_0-9]+ *$/) ? substr(last, RSTART) : last ~ /^[ \t]*$/ ? group : ""
			sub(/^\*/, "", name[depth])
			last = ""
		} else if (depth > 0 && mark == ",") {
			count[depth]++
			last = ""
		} else if (depth > 0) {
			group = last
			if (count[depth] > most && name[depth] != "" && is_parameter(first[depth]) && !(name[depth] in foreign))
				report(line[depth], "'" name[depth] "' has " count[depth] " parameters, more than " most)
			depth--
			last = ""
		}
	}
	if (depth > 0 && count[depth] == 1)
		first[depth] = first[depth] text " "
	last = depth > 0 || text !~ /[;{}]/ ? last text : text
}

BEGIN {
	split(FOREIGN, list, " ")
	for (i in list)
		foreign[list[i]] = 1
	most = MOST
}
FNR == 1 { comment = depth = 0; last = group = "" }
{
	text = $0
	if (comment || text ~ /["'\/]/)
		text = strip(text)
}
/^static / { declare(text) }
depth > 0 || text ~ /\(/ { follow(plain(text)) }
END { exit broken }
