#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Landing pads, shadow stacks and signed return addresses: is the library marked
# for them when it is compiled so, does each function that can be called by a
# pointer begin with a pad, and does vfork() work where one is required?
#
#	pads.sh SOURCE WORK
#
# Prints TAP. On x86-64 Linux has no landing pads in user space yet, so there only the code is
# checked. On aarch64 it also runs, if needed in qemu-user.
. "$(dirname "$0")/tap.sh"

# The library in one object, with all the protection that the compiler has.
compile()
{
	local protect=(-fcf-protection=full)
	[ "$1" = x86_64 ] || protect=(-mbranch-protection=standard)
	"${@:2}" "${protect[@]}" -std=gnu11 "$quick" -Wall -Wextra -Werror -I"$src/include"
}

compile_library()
{
	rm -f all.o && compile "$@" -c "$src/src/percpu_all.c" -o all.o
}

# If one unit lacks the mark, the linker removes it from the whole file.
is_marked()
{
	local wanted='IBT, SHSTK'
	[ "$1" = x86_64 ] || wanted='BTI, PAC'
	readelf -n all.o | tee notes && grep -q "feature: $wanted" notes
}

# Prints global functions without a pad, and fails if there are any.
begin_with_pads()
{
	local pad=endbr64 objdump=objdump
	[ "$1" = x86_64 ] || pad='bti|paciasp|hint	#0x(19|22)'
	[ "$1" = "$native" ] || objdump=$1-linux-gnu-objdump
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
	[ "$1" = "$native" ] || run=("${emulator[@]}" -cpu max)
	compile "$@" "$here/pads.c" all.o -o pads -pthread &&
		timeout 60 "${run[@]}" ./pads
}

# all ARCHITECTURE COMPILER
all()
{
	check "$2, $1: built" compile_library "$@"
	check "$2, $1: the library is marked" is_marked "$@"
	check "$2, $1: functions begin with landing pads" begin_with_pads "$@"
	[ "$1" = x86_64 ] || check "$2, $1: called by pointers" runs_guarded "$@"
}

case $native in
x86_64 | aarch64)
	for compiler in "${c_compilers[@]}"; do
		have "$compiler" "$compiler" && all "$native" "$compiler"
	done
	;;
esac
emulates_aarch64 && all aarch64 aarch64-linux-gnu-gcc
finish
