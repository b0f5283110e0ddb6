#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fibers that move between threads, whatever the compiler keeps across their
# switches: fibers.c, with the library in it, by all compilers and options.
#
#	fibers.sh SOURCE WORK
#
# By all compilers and with all options if PERCPU_TEST_COMPILERS is "all". Prints TAP.
. "$(dirname "$0")/tap.sh"

# moves ARCHITECTURE COMPILER OPTION...: the fibers of a build find their threads' areas.
moves()
{
	local run=() library=all.o
	[ "$1" = "$native" ] || run=("${emulator[@]}")
	case "$*" in *-flto*) library=$src/src/percpu_all.c ;; esac
	"${@:2}" -std=gnu11 -Wall -Wextra -Werror -I"$src/include" "$here/fibers.c" "$library" \
		-o fibers -pthread && timeout 60 "${run[@]}" ./fibers
}

# tries ARCHITECTURE COMPILER OPTION...
tries()
{
	check "$*" moves "$@"
}

# Each compiler with options that optimize, and that address thread-local variables differently.
# By default those where a compiler can keep most: the library is inlined, and a thread's area is
# found by a call, or by a register that C can read. The last options of GCC inline all that they
# can, slow paths included.
all()
{
	local arch=$1 kind=$2 optimize options=('-O3 -flto')
	shift 2
	case $many,$arch in
	all,*) options+=(-O2 '-O3 -flto -DPERCPU_LATE' -O0 -O1 -O3 -Os '-O2 -flto'
		'-O2 -fPIC -pie' '-O2 -fno-pie -no-pie' '-O3 -static' '-O2 -DPERCPU_LATE') ;;
	,x86_64) options=(-O2 '-O3 -flto -DPERCPU_LATE') ;;
	esac
	[ ${#options[@]} = 1 ] || need whole all.o "$@" "$quick"
	for optimize in "${options[@]}"; do
		# shellcheck disable=SC2086
		tries "$arch" "$@" $optimize
	done
	[ "$many" = all ] || return
	[ "$arch" = aarch64 ] || tries "$arch" "$@" -O2 -mcmodel=medium
	[ "$kind" = clang ] || tries "$arch" "$@" -O3 -flto -finline-limit=100000 \
		--param=max-inline-insns-single=10000 --param=max-inline-insns-auto=10000 \
		--param=inline-unit-growth=10000 --param=large-function-growth=10000
}

for cc in "${c_compilers[@]}"; do
	have "$cc" "$cc" && all "$native" "$cc" "$cc"
done
if emulates_aarch64; then
	all aarch64 gcc aarch64-linux-gnu-gcc
	if [ "$many" = all ] && command -v clang >/dev/null; then
		all aarch64 clang clang --target=aarch64-linux-gnu
	fi
fi
finish
