#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Landing pads, shadow stacks and signed return addresses: is the library marked
# for them when it is compiled so, does each function that can be called by a
# pointer begin with a pad, and does vfork() work where one is required?
#
#	pads.sh SOURCE WORK
#
# Prints TAP. User space of x86-64 has no landing pads in Linux yet, so there the
# code is looked at. On aarch64 it also runs, in qemu-user if need be.
set -u

if [ $# -ne 2 ]; then
	echo "usage: $0 SOURCE WORK" >&2
	exit 2
fi
here=$(dirname "$(realpath "$0")")
src=$(realpath "$1") || exit 2
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 2
count=0
native=$(uname -m)
cross=/usr/aarch64-linux-gnu

# The library in one object, with all the protection that the compiler has.
compile()
{
	local protect=(-fcf-protection=full)
	[ "$1" = x86_64 ] || protect=(-mbranch-protection=standard)
	"${@:2}" "${protect[@]}" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$src/include"
}

compile_library()
{
	compile "$@" -c "$src/src/percpu_all.c" -o all.o
}

# One unit without the mark, and the linker takes it away from all.
is_marked()
{
	local wanted='IBT, SHSTK'
	[ "$1" = x86_64 ] || wanted='BTI, PAC'
	compile_library "$@" && readelf -n all.o | tee notes && grep -q "feature: $wanted" notes
}

# Prints the global functions that begin otherwise, and fails if there are any.
begin_with_pads()
{
	local pad=endbr64 objdump=objdump
	[ "$1" = x86_64 ] || pad='bti|paciasp|hint	#0x(19|22)'
	[ "$1" = "$native" ] || objdump=$1-linux-gnu-objdump
	compile_library "$@" &&
		readelf -sW all.o | awk '$4 == "FUNC" && $5 == "GLOBAL" && $7 != "UND" { print $8 }' \
			>functions && grep -qx vfork functions &&
		$objdump -d --no-show-raw-insn all.o | awk -v pad="$pad" '
			NR == FNR { wanted[$1]; next }
			/^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); next }
			name in wanted { n++; if ($0 !~ pad) { print name ":" $0; bad = 1 } }
			{ name = "" }
			END { exit bad || n == 0 }' functions -
}

# 77: there is no such processor.
runs_guarded()
{
	local run=()
	[ "$1" = "$native" ] || run=("qemu-$1" -cpu max -L "$cross")
	compile "$@" "$here/pads.c" "$src/src/percpu_all.c" -o pads -pthread &&
		timeout 60 "${run[@]}" ./pads
}

# check NAME COMMAND...: one line of TAP; a failure brings its output along.
check()
{
	local name=$1 status
	shift
	count=$((count + 1))
	"$@" >out 2>&1
	status=$?
	case $status in
	0) echo "ok $count - $name" ;;
	77) echo "ok $count - $name # SKIP $(tail -n 1 out)" ;;
	*)
		echo "not ok $count - $name"
		tail -n 40 out | sed 's/^/# /'
		;;
	esac
}

skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# all ARCHITECTURE COMPILER
all()
{
	check "$2, $1: the library is marked" is_marked "$@"
	check "$2, $1: functions begin with landing pads" begin_with_pads "$@"
	[ "$1" = x86_64 ] || check "$2, $1: called by pointers" runs_guarded "$@"
}

case $native in
x86_64 | aarch64)
	for compiler in gcc clang; do
		if command -v $compiler >/dev/null; then
			all "$native" $compiler
		else
			skip "$compiler" "no $compiler"
		fi
	done
	;;
esac
if [ "$native" != aarch64 ]; then
	if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
		skip aarch64 'no aarch64-linux-gnu-gcc or qemu-aarch64'
	elif [ "$native" = x86_64 ] || command -v aarch64-linux-gnu-objdump >/dev/null; then
		all aarch64 aarch64-linux-gnu-gcc
	fi
fi
echo "1..$count"
