# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts use what is set here
# SPDX-License-Identifier: MIT
# Shared by scripts that are called as "SCRIPT SOURCE WORK" and print TAP: they begin by sourcing
# this file, and end with "finish".
#
# It sets "src" to the library's code, "here" to the script's directory and "work" to an empty
# directory, and changes to that. The output of commands is in WORK/log.
set -u

if [ $# -ne 2 ]; then
	echo "usage: $0 SOURCE WORK" >&2
	exit 2
fi
here=$(dirname "$(realpath "$0")")
src=$(realpath "$1") || exit 2
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 2
work=$PWD
native=$(uname -m)
emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
count=0

# A word in the output of a test that could not run, by which run.py of tests/mutants knows that the
# test has not seen the bug. A script that expects a compiler's "error" sets another word.
error=error

# result STATUS NAME: print a line of TAP; for a failure also the output. 77: it cannot be tried
# here, and the last line of output says why.
result()
{
	count=$((count + 1))
	case $1 in
	0) echo "ok $count - $2" ;;
	77) echo "ok $count - $2 # SKIP $(tail -n 1 "$work/out")" ;;
	*)
		echo "not ok $count - $2"
		tail -n 40 "$work/out" | sed "s/error:/$error:/; s/^/# /"
		;;
	esac
	{ echo "== $2"; cat "$work/out"; } >>"$work/log"
}

# check NAME COMMAND...: the command succeeds.
check()
{
	"${@:2}" >"$work/out" 2>&1
	result $? "$1"
}

# skip NAME WHY
skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# have NAME TOOL: returns whether the tool is there; if not, NAME is skipped.
have()
{
	command -v "$2" >/dev/null || { skip "$1" "no $2"; return 1; }
}

# need COMMAND...: without it there is nothing to check.
need()
{
	"$@" >>"$work/log" 2>&1 && return
	tail -n 40 "$work/log" | sed 's/^/# /'
	echo "Bail out! error: $1 failed"
	exit 1
}

# The compilers that a script tries: gcc, and with "./dev test --compilers", which sets this
# variable, clang.
many=${PERCPU_TEST_COMPILERS-}
c_compilers=(gcc)
cpp_compilers=(g++)
# Options to compile the library for a script that does not test its code: that takes a fourth of
# the time.
quick=-O0
if [ "$many" = all ]; then
	c_compilers+=(clang)
	cpp_compilers+=(clang++)
	quick=-O2
fi

# whole OBJECT COMPILER OPTION...: compile the library into one object, position-independent, and
# optimized unless an option says how. The first script that needs an object compiles it, and keeps
# it for the others in $PERCPU_TEST_WHOLE, until the sources or the compiler change.
whole()
{
	local object=$1 tool kept of options
	shift
	tool=$(realpath "$(command -v "$1")") && options=(-O2 "${@:2}" -std=gnu11 -fPIC) || return
	kept=${PERCPU_TEST_WHOLE:-$work/whole}
	of=$(cat "$tool" "$src"/include/percpu/{,*/}*.h "$src"/src/{,*/}*.[ch] | sha256sum)
	mkdir -p "$kept" && kept+=/$(echo "$tool" "${options[@]}" | sha256sum | cut -c-16) || return
	(
		flock 9 || return
		[ "$of" != "$(cat "$kept.of" 2>&1)" ] || exit 0
		"$1" "${options[@]}" -Wall -Wextra -Werror -I"$src/include" \
			-c "$src/src/percpu_all.c" -o "$kept.o" && echo "$of" >"$kept.of"
	) 9>"$kept.lock" && cp "$kept.o" "$object"
}

# Returns whether programs for aarch64 can be built, and run by the emulator; if not, they are
# skipped. On an aarch64 machine they run without it.
emulates_aarch64()
{
	[ "$native" != aarch64 ] || return
	have aarch64 qemu-aarch64 && have aarch64 aarch64-linux-gnu-gcc || return
	[ -d /usr/aarch64-linux-gnu/include ] || { skip aarch64 'no C library for it'; return 1; }
}

finish()
{
	echo "1..$count"
}
