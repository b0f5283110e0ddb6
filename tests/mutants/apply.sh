#!/bin/sh
# SPDX-License-Identifier: MIT
# apply.sh NAME DIRECTORY: copy the code of the library there, with the bug NAME;
# "nothing" is none.
set -eu
here=$(dirname "$0")
rm -rf "$2"
mkdir -p "$2"
cp -R "$here/../../include" "$here/../../src" "$here/../../examples" "$here/../../bench" "$2"
[ "$1" != nothing ] || exit 0
patch -s -p1 -d "$2" <"$(find "$here" -name "$1.patch")" >&2 || {
	echo "tests/mutants: $1.patch does not apply: the code has changed, the bug must follow" >&2
	exit 1
}
