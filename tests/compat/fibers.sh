#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fibers that move between threads, whatever the compiler keeps across their
# switches: fibers.c, with the library in it, by all compilers and options.
#
#	fibers.sh SOURCE WORK
#
# By all options if PERCPU_TEST_COMPILERS is "all". Prints TAP.
set -u

if [ $# -ne 2 ]; then
	echo "usage: $0 SOURCE WORK" >&2
	exit 2
fi
here=$(dirname "$(realpath "$0")")
src=$(realpath "$1") || exit 2
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 2
count=0
many=${PERCPU_TEST_COMPILERS-}
native=$(uname -m)
cross=/usr/aarch64-linux-gnu

# moves ARCHITECTURE COMPILER OPTION...: the fibers of a build find their threads' areas.
moves()
{
	local run=() library=all.o
	[ "$1" = "$native" ] || run=("qemu-$1" -L "$cross")
	case "$*" in *-flto*) library=$src/src/percpu_all.c ;; esac
	"${@:2}" -std=gnu11 -Wall -Wextra -Werror -I"$src/include" "$here/fibers.c" "$library" \
		-o fibers -pthread && timeout 60 "${run[@]}" ./fibers
}

# check ARCHITECTURE COMPILER OPTION...: one line of TAP; a failure brings its output along.
check()
{
	count=$((count + 1))
	if moves "$@" >out 2>&1; then
		echo "ok $count - $*"
	else
		echo "not ok $count - $*"
		tail -n 40 out | sed 's/^/# /'
	fi
}

skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# Each compiler by what optimizes, and by what addresses thread-local variables.
# The last options of GCC inline what they can, the slow paths included.
all()
{
	local arch=$1 kind=$2 optimize options=(-O2 '-O3 -flto' '-O3 -flto -DPERCPU_LATE')
	shift 2
	"$@" -std=gnu11 -O2 -fPIC -I"$src/include" -c "$src/src/percpu_all.c" -o all.o
	[ "$many" != all ] || options+=(-O0 -O1 -O3 -Os '-O2 -flto' '-O2 -fPIC -pie'
		'-O2 -fno-pie -no-pie' '-O3 -static' '-O2 -DPERCPU_LATE')
	for optimize in "${options[@]}"; do
		# shellcheck disable=SC2086
		check "$arch" "$@" $optimize
	done
	[ "$many" = all ] || return
	[ "$arch" = aarch64 ] || check "$arch" "$@" -O2 -mcmodel=medium
	[ "$kind" = clang ] || check "$arch" "$@" -O3 -flto -finline-limit=100000 \
		--param=max-inline-insns-single=10000 --param=max-inline-insns-auto=10000 \
		--param=inline-unit-growth=10000 --param=large-function-growth=10000
}

for cc in gcc clang; do
	if command -v $cc >/dev/null; then
		all "$native" $cc $cc
	else
		skip $cc "no $cc"
	fi
done
if [ "$native" = aarch64 ]; then
	: # done above
elif ! command -v qemu-aarch64 >/dev/null ||
	! command -v aarch64-linux-gnu-gcc >/dev/null || [ ! -d "$cross/include" ]; then
	skip aarch64 'no qemu-user or no compiler for aarch64'
else
	all aarch64 gcc aarch64-linux-gnu-gcc
	if command -v clang >/dev/null; then
		all aarch64 clang clang --target=aarch64-linux-gnu
	fi
fi
echo "1..$count"
