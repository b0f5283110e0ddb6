#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Does what compilers and linkers make of the sequences hold together? Builds
# check.c, which judges its own records, in many ways, and with wrong ones.
#
#	records.sh SOURCE WORK
#
# Prints TAP.
set -u

if [ $# -ne 2 ]; then
	echo "usage: $0 SOURCE WORK" >&2
	exit 2
fi
src=$(realpath "$1") || exit 2
here=$src/tests/proof
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 2
count=0

# check NAME COMMAND...: one line of TAP; a failure brings its output along.
check()
{
	local name=$1
	shift
	count=$((count + 1))
	if "$@" >out 2>&1; then
		echo "ok $count - $name: $(tail -n 1 out)"
	else
		echo "not ok $count - $name"
		tail -n 40 out | sed 's/^/# /'
	fi
}

# objects DIRECTORY COMPILER OPTION...: the library, and both units.
objects()
{
	local dir=$1 compile=("${@:2}" -I"$src/include" -c)
	mkdir -p "$dir"
	"${compile[@]}" -std=gnu11 "$src/src/percpu_all.c" -o "$dir/all.o" &&
		"${compile[@]}" -std=gnu11 "$here/records.c" -o "$dir/records.o" &&
		"${compile[@]}" -std=gnu11 "$here/check.c" -o "$dir/check.o" &&
		"${compile[@]}" -std=gnu11 -DSECOND "$here/check.c" -o "$dir/second.o"
}

# holds DIRECTORY COMPILER OPTION...: link them, and let the program judge.
holds()
{
	"${@:2}" "$1"/*.o -o "$1/check" -pthread && timeout 60 "$1/check"
}

# cpp DIRECTORY COMPILER OPTION...: the two units in C++, the rest from DIRECTORY.
# Where nothing is inlined, both units have every function; one copy is kept.
cpp()
{
	local dir=$1 compile=("${@:2}" -std=c++17 -I"$src/include" -x c++)
	"${compile[@]}" -c "$here/check.c" -o "$dir/check.oo" &&
		"${compile[@]}" -DSECOND -c "$here/check.c" -o "$dir/second.oo" &&
		"${@:2}" "$dir"/{check,second}.oo "$dir"/{all,records}.o -o "$dir/cpp" -pthread &&
		timeout 60 "$dir/cpp"
}

# refused DIRECTORY COMPILER NUMBER FAULT: a wrong record is seen, for what it is.
refused()
{
	local dir=$1
	"$2" -I"$src/include" -DPLANTED="$3" -c "$here/check.c" -o "$dir/planted.oo" &&
		"$2" "$dir"/planted.oo "$dir"/{second,all,records}.o -o "$dir/planted" -pthread ||
		return
	timeout 60 "$dir/planted" && return 1
	"$dir/planted" | grep -q ": $4\$"
}

for cc in gcc clang; do
	if ! command -v $cc >/dev/null; then
		count=$((count + 1))
		echo "ok $count - $cc # SKIP no $cc"
		continue
	fi
	for optimize in -O0 -O1 -O2 -O3; do
		dir=$cc$optimize
		check "$cc $optimize: build" objects "$dir" $cc $optimize -fPIE
		check "$cc $optimize" holds "$dir" $cc -pie
		check "$cc $optimize, static" holds "$dir" $cc -static
	done
	check "$cc -O2, no-pie: build" objects $cc-no-pie $cc -O2 -fno-pie
	check "$cc -O2, no-pie" holds $cc-no-pie $cc -no-pie
	check "$cc LTO: build" objects $cc-lto $cc -O2 -fPIE -flto
	check "$cc LTO" holds $cc-lto $cc -O2 -flto -pie
	check "$cc LTO, static" holds $cc-lto $cc -O2 -flto -static
	check "$cc LTO, no-pie: build" objects $cc-lto-no-pie $cc -O3 -fno-pie -flto
	check "$cc LTO, no-pie" holds $cc-lto-no-pie $cc -O3 -flto -no-pie

	check "$cc: no signature is seen" refused $cc-O2 $cc 1 'signature'
	check "$cc: handler in its sequence is seen" refused $cc-O2 $cc 2 \
		'abort handler within its sequence'
	check "$cc: handler outside of code is seen" refused $cc-O2 $cc 3 \
		'abort handler is not executable'

	cxx=${cc/gcc/g++}
	cxx=${cxx/clang/clang++}
	if command -v "$cxx" >/dev/null; then
		for optimize in -O0 -O2 -O3; do
			check "$cxx $optimize, two units" cpp $cc-O2 "$cxx" $optimize
		done
	fi
done
echo "1..$count"
