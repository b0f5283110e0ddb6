#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Processes of two builds, of 64 and of 32 bits or twice the same, share files: the first one
# creates the file, both count in it at once while both read it, and each takes over the other's
# lock.
#
#	mixed.sh MIXED MIXED
#
# Prints what is wrong, if anything.
set -eu

[ $# = 2 ] || { echo "usage: $0 MIXED MIXED" >&2; exit 2; }
rounds=200000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# share MIXED MIXED FILE
share()
{
	local jobs=() job mixed holder
	for mixed in "$1" "$2"; do
		"$mixed" count "$3" $rounds & jobs+=($!)
		"$mixed" watch "$3" $((2 * rounds)) & jobs+=($!)
	done
	for job in "${jobs[@]}"; do wait "$job"; done
	"$1" check "$3" $((2 * rounds))
	"$2" check "$3" $((2 * rounds))

	coproc "$1" hold "$3"
	holder=$COPROC_PID
	read -r _ <&"${COPROC[0]}"
	kill -KILL "$holder"
	wait "$holder" 2>"$work/killed" || true
	"$2" count "$3" 2
	"$1" check "$3" $((2 * rounds + 2))
}

share "$1" "$2" "$work/first"
share "$2" "$1" "$work/second"

# Lanes that need more address space than one of the two has.
if "$1" large "$work/large" 2>"$work/too-large"; then
	opened=$("$2" open "$work/large")
	[ "$opened" != refused ] || { echo 'a region with long lanes is refused'; exit 1; }
fi
