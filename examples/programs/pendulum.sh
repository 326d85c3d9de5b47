#!/usr/bin/env bash
# The step of pendulum.ck as a command that reads and writes numbers as text, by bash and awk.
export LC_ALL=C
while read -r word number rest; do
	case $word in
	open) echo ready 1 backward text ;;
	set) read -r k ;;
	forward)
		read -r x
		echo ok
		awk -v k="$k" '{
			n = split(k, K)
			for (i = 1; i <= n; i++) speed[i] = 0.99 * $(n + i) - 0.01 * K[i] * sin($i)
			for (i = 1; i <= n; i++) printf "%.17g ", $i + 0.01 * speed[i]
			for (i = 1; i <= n; i++) printf "%.17g%s", speed[i], i < n ? " " : "\n"
		}' <<<"$x"
		;;
	backward)
		read -r x
		read -r g
		echo ok
		awk -v k="$k" -v g="$g" '{
			n = split(k, K)
			split(g, G)
			for (i = 1; i <= n; i++) speed[i] = G[n + i] + 0.01 * G[i] # the cotangent of the new speed
			for (i = 1; i <= n; i++) printf "%.17g ", G[i] - 0.01 * K[i] * cos($i) * speed[i]
			for (i = 1; i <= n; i++) printf "%.17g%s", 0.99 * speed[i], i < n ? " " : "\n"
			for (i = 1; i <= n; i++) printf "%.17g%s", -0.01 * sin($i) * speed[i], i < n ? " " : "\n"
		}' <<<"$x"
		;;
	*) echo "error unknown message: $word" ;;
	esac
done
