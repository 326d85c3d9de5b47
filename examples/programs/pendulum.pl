#!/usr/bin/env perl
# The step of pendulum.ck as a command, by pipe, in Perl without modules of others.
use strict;
use warnings;
use IO::Handle;

my ($n, @k, @wanted) = (0);

sub get {
	my ($count) = @_;
	read(STDIN, my $bytes, 8 * $count) == 8 * $count or exit 1;
	return unpack "d<$count", $bytes;
}

binmode $_ for *STDIN, *STDOUT;
while (my $line = <STDIN>) {
	my $last = $n - 1;
	if ($line =~ /^open 1 step x=f64\[2,(\d+)\] .* gradients=(\S*)$/) {
		$n = $1;
		@wanted = split /,/, $2;
		print "ready 1 backward\n";
	} elsif ($line eq "set k\n") {
		@k = get($n);
	} elsif ($line =~ /^forward /) {
		my @x = get(2 * $n);
		my @speed = map { 0.99 * $x[$n + $_] - 0.01 * $k[$_] * sin $x[$_] } 0 .. $last;
		my @angle = map { $x[$_] + 0.01 * $speed[$_] } 0 .. $last;
		print "ok\n", pack "d<*", @angle, @speed;
	} elsif ($line =~ /^backward /) {
		my @x = get(2 * $n);
		my @g = get(2 * $n);
		my @speed = map { $g[$n + $_] + 0.01 * $g[$_] } 0 .. $last; # the cotangent of the new speed
		my @angle = map { $g[$_] - 0.01 * $k[$_] * cos($x[$_]) * $speed[$_] } 0 .. $last;
		my %by = (
			x => [@angle, map { 0.99 * $_ } @speed],
			k => [map { -0.01 * sin($x[$_]) * $speed[$_] } 0 .. $last],
		);
		print "ok\n", pack "d<*", map { @{$by{$_}} } @wanted;
	} else {
		print "error unknown message: $line";
	}
	STDOUT->flush;
}
