# Prints the declarations of ckptc.h, or those that the SYNOPSIS of pages of section 3 shows, one a line, without comments
# and with no more blanks than C needs. Declarations of a struct without fields are left out.

# The text of a line of a page: .BI puts its arguments together.
function page_line(line,    text) {
	gsub(/\\-/, "-", line)
	gsub(/\\&/, "", line)
	gsub(/\\\(aq/, "'", line)
	if (verbatim)
		return line
	if (line !~ /^\.BI? /)
		return ""
	sub(/^\.BI? /, "", line)
	while (match(line, /^ *("[^"]*"|[^" ][^ ]*)/)) {
		text = text substr(line, RSTART, RLENGTH)
		line = substr(line, RSTART + RLENGTH)
		sub(/^ */, "", line)
	}
	gsub(/"/, "", text)
	return text
}

FNR == 1 { page = FILENAME ~ /\.3$/; inside = !page; verbatim = 0 }
page && /^\.SH/ { inside = $2 == "SYNOPSIS"; next }
page && /^\.E[XE]/ { verbatim = $1 == ".EX"; next }
/^#ifdef __cplusplus/ { skipped = 1 }
/^#endif/ { skipped = 0 }
inside && !skipped {
	line = page ? page_line($0) : $0
	if (line !~ /^#/)
		all = all " " line
}
END {
	while ((start = index(all, "/*")) > 0)
		all = substr(all, 1, start - 1) " " substr(all, start + 2 + index(substr(all, start + 2), "*/") + 1)
	gsub(/CKPTC_API|[ \t]+/, " ", all)
	gsub(/  +/, " ", all)
	while (match(all, / [^A-Za-z0-9_]|[^A-Za-z0-9_] /)) {
		part = substr(all, RSTART, RLENGTH)
		sub(/ /, "", part)
		all = substr(all, 1, RSTART - 1) part substr(all, RSTART + RLENGTH)
	}
	gsub(/,}/, "}", all)
	depth = 0
	for (i = 1; i <= length(all); i++) {
		c = substr(all, i, 1)
		one = one c
		depth += (c == "{") - (c == "}")
		if (c == ";" && depth == 0) {
			if (one !~ /^ ?struct [a-z_]+;$/) {
				sub(/^ /, "", one)
				print one
			}
			one = ""
		}
	}
}
