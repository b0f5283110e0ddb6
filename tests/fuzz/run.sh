#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh PROGRAM SECONDS [DIRECTORY]: let libFuzzer search for bugs for so long, beginning with the
# program's corpus beside this file. If a directory is given, it gets useful inputs, and an input
# that shows a bug.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
kept=${3-}
if [ -z "$kept" ]; then
	kept=$(mktemp -d)
	trap 'rm -rf "$kept"' EXIT
fi
mkdir -p "$kept"
# A reader that waits for long, or forever, is a bug as well.
"$1" -max_total_time="$2" -max_len=400 -timeout=20 -print_final_stats=1 \
	-artifact_prefix="$kept/bug-" "$kept" "$here/corpus/${1##*/fuzz_}"
