#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# demo.sh DIRECTORY - show what the programs in that directory do: ./dev demo
# runs it after the build. It ends by itself, within about half a minute.
set -euo pipefail

directory=${1:?usage: demo.sh DIRECTORY, the one with the programs that were built}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$directory/hello"
echo
status=0
timeout 60 "$directory/ipstat" --demo -o "$work/counters" || status=$?
[ "$status" = 0 ] || [ "$status" = 1 ] || exit "$status"

echo
echo 'All of its processes are gone. The counters are still there (ipstat --attach):'
"$directory/ipstat" --attach "$work/counters"
exit "$status"
