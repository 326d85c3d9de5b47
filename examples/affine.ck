# Three stages, one a line: (v + 1) * 2 - 3.
add 1
mul 2
sub 3
