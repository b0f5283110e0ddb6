#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What the documentation tells users to copy: each block of C in README.md and some
# pages is compiled as it stands, and the programs of README.md run.
#
#	readme.sh SOURCE WORK
#
# Prints TAP; what the tools said is in WORK/log.
. "$(dirname "$0")/tap.sh"

# blocks FILE NAME: the blocks of C in it, as NAME1.c, NAME2.c, ...
blocks()
{
	awk -v name="$2" '
		/^```$/ { inside = 0 }
		inside { print > (name n ".c") }
		/^```c$/ { inside = 1; n++ }' "$1"
}

compiles()
{
	cc -Wall -Wextra -Werror -O2 -I"$src/include" -c "$1" -o block.o
}

# The program counts in a file of the test's, not in one that might be a user's.
builds()
{
	sed "s|/dev/shm/[a-z]*|$work/region|g" "$1.c" >"$1-here.c" &&
		cc -Wall -Wextra -Werror -O2 -I"$src/include" "$1-here.c" percpu_all.o -o "$1" -pthread
}

# prints TEXT COMMAND...: that is all it prints.
prints()
{
	local text=$1 got
	shift
	got=$(timeout 60 "$@") || { echo "$*: exit status $?, printed: $got"; return 1; }
	echo "$got"
	[ "$got" = "$text" ]
}

# Programs that start together, in a file that is not there.
starts_at_once()
{
	local pids=() pid status=0
	rm -f region
	for _ in $(seq 20); do
		./readme2 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || status=1; done
	return $status
}

refuses()
{
	! ./readme2 2>said && cat said && grep -q "^$work/region: ..." said
}

blocks "$src/README.md" readme
for page in "$src"/docs/*.md "$src"/docs/*/*.md; do
	blocks "$page" "$(basename "$page" .md)"
done
for block in *[0-9].c; do
	check "$block compiles" compiles "$block"
done
check 'the library' whole percpu_all.o cc
for block in readme1 readme2 readme3; do
	check "$block is a program" builds "$block"
done
check 'the shortest useful program' prints 1 ./readme1
check 'nothing to read yet' eval '! ./readme3'
check 'the first start' prints '' ./readme2
check 'the second start' prints '' ./readme2
check 'both have counted' prints '2 requests' ./readme3
check 'starts at once' starts_at_once
check 'all have counted' prints '20 requests' ./readme3
echo 'not a region' >region
check 'a foreign file is refused, in words' refuses
check 'and left alone' grep -qx 'not a region' region
finish
