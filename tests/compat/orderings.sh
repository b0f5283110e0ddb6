#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The loads and stores of each sequence for aarch64, as they are in an object
# file: whether each is acquire or release as arch/spec.h has it ("Ordering").
# No machine need show what goes wrong otherwise, and an emulator cannot.
#
#	orderings.sh SOURCE WORK
#
# Prints TAP.
set -u

if [ $# -ne 2 ]; then
	echo "usage: $0 SOURCE WORK" >&2
	exit 2
fi
here=$(dirname "$(realpath "$0")")
src=$(realpath "$1") || exit 2
rm -rf "$2" && mkdir -p "$2" && cd "$2" || exit 2
prefix=
[ "$(uname -m)" = aarch64 ] || prefix=aarch64-linux-gnu-

# What each sequence does from its start, where it loads the CPU number, to its
# commit; loops once.
sequences=(
	'add          ldr ldr str'
	'add2         ldr ldr ldr str'
	'bank_add     ldr ldr ldr str'
	'bank_add2    ldr ldr ldr str'
	'bank_update  ldr ldr ldar ldr ldr str stlr'
	'add_return   ldr ldar ldr str'
	'add_limit    ldr ldar ldr str'
	'store        ldr ldar str'
	'cmpxchg      ldr ldar ldr str'
	'xchg         ldr ldar ldr str'
	'push         ldr ldar ldr str stlr'
	'pop          ldr ldar ldr ldr str'
	'copy         ldr ldar ldr ldar ldr str stlr'
	'append       ldr ldr ldar ldr str ldr str stlr'
	'narrow_add   ldr ldr str'
	'narrow_cross ldr ldar ldr str'
)

# accesses FUNCTION N: its first N loads and stores behind the one that arms.
accesses()
{
	awk -v name="<$1>:" -v n="$2" '
		NF == 2 && /:$/ { inside = $2 == name; next }
		!inside || $3 !~ /^(ld|st)/ { next }
		armed && n > 0 { printf "%s%s", separator, $3; separator = " "; n-- }
		$3 == "str" && /\[x10, #8\]/ { armed = 1 }' code
}

if ! command -v "${prefix}gcc" "${prefix}objdump" >found || [ "$(wc -l <found)" != 2 ]; then
	echo "1..0 # SKIP no ${prefix}gcc"
	exit
fi
if ! "${prefix}gcc" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$src/include" -c "$here/orderings.c" \
	-o orderings.o || ! "${prefix}objdump" -d orderings.o >code; then
	echo 'Bail out! error: orderings.c does not compile'
	exit 1
fi
count=0
for sequence in "${sequences[@]}"; do
	read -r name want <<<"$sequence"
	count=$((count + 1))
	found=$(accesses "$name" "$(wc -w <<<"$want")")
	if [ "$found" = "$want" ]; then
		echo "ok $count - $name: $want"
	else
		echo "not ok $count - $name: $found, not $want"
	fi
done
# Those of four and eight words have no instruction here.
count=$((count + 1))
unknown=$(sed -n 's/.* percpu_seq_\([a-z_0-9]*\)(void \*cell.*/\1/p' "$src/include/percpu/arch/aarch64.h" |
	grep -vxE "$(printf '%s\n' "${sequences[@]}" bank_add4 bank_add8 | awk '{ print $1 }' | paste -sd '|')")
[ -z "$unknown" ] || echo "not ok $count - not looked at: ${unknown//$'\n'/ }"
[ -n "$unknown" ] || echo "ok $count - all sequences were looked at"
echo "1..$count"
