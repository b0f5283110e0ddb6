#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program with threads under valgrind's tools that find races: with the installed suppressions
# they report only the program's own.
#
#	races.sh SOURCE WORK
#
# Prints TAP; valgrind's output is in WORK/log.
. "$(dirname "$0")/tap.sh"

# tries STATUS TOOL PROGRAM: the tool ends with that status.
tries()
{
	local status=0
	timeout 100 valgrind -q --tool="$2" --error-exitcode=9 \
		--suppressions="$src/src/percpu.supp" "$3" || status=$?
	[ $status = "$1" ]
}

if ! command -v valgrind >found; then
	echo '1..0 # SKIP needs valgrind'
	exit 0
fi
# An older format: valgrind 3.19 does not understand what clang 14 writes in the new one.
flags=(-gdwarf-4 -O2 "-I$src/include" -pthread)
build()
{
	cc "${flags[@]}" "$quick" -shared -fPIC -Wl,-z,nodelete "$src/src/percpu_all.c" -o libpercpu.so &&
		cc "${flags[@]}" "$here/watched.c" ./libpercpu.so -o watched &&
		cc "${flags[@]}" -DRACE "$here/watched.c" ./libpercpu.so -o race
}
need build
for tool in helgrind drd; do
	check "$tool reports nothing" tries 0 "$tool" ./watched
	check "$tool reports a race of the program's" tries 9 "$tool" ./race
done
finish
