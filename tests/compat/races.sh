#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program with threads under valgrind's tools that look for races: with the
# suppressions that are installed they report none but the program's own.
#
#	races.sh SOURCE WORK
#
# Prints TAP; what valgrind said is in WORK/log.
set -u

if [ $# -ne 2 ]; then
	echo "usage: $0 SOURCE WORK" >&2
	exit 2
fi
here=$(dirname "$(realpath "$0")")
src=$(realpath "$1") || exit 2
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 2
count=0

# tries NAME STATUS TOOL PROGRAM: one line of TAP.
tries()
{
	local name=$1 expected=$2 tool=$3 program=$4
	count=$((count + 1))
	timeout 100 valgrind -q --tool="$tool" --error-exitcode=9 \
		--suppressions="$src/src/percpu.supp" "$program" >out 2>&1
	if [ $? = "$expected" ]; then
		echo "ok $count - $name"
	else
		echo "not ok $count - $name"
		tail -n 40 out | sed 's/^/# /'
	fi
	cat out >>log
}

if ! command -v valgrind >found; then
	echo '1..0 # SKIP needs valgrind'
	exit 0
fi
# An older format: valgrind 3.19 does not understand what clang 14 writes in the new one.
flags=(-gdwarf-4 -O2 "-I$src/include" -pthread)
build()
{
	cc "${flags[@]}" -shared -fPIC -Wl,-z,nodelete "$src/src/percpu_all.c" -o libpercpu.so &&
		cc "${flags[@]}" "$here/watched.c" ./libpercpu.so -o watched &&
		cc "${flags[@]}" -DRACE "$here/watched.c" ./libpercpu.so -o race
}
if ! build; then
	echo 'Bail out! error: the programs do not compile'
	exit 1
fi
for tool in helgrind drd; do
	tries "$tool reports nothing" 0 "$tool" ./watched
	tries "$tool reports a race of the program's" 9 "$tool" ./race
done
echo "1..$count"
