#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# packets.sh DIRECTORY - count real packets by the programs in that directory. ./dev demo packets
# runs this after the build. It ends within about a minute.
set -euo pipefail

directory=${1:?usage: packets.sh DIRECTORY, the one with the programs that were built}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

status=0
timeout 60 "$directory/ipstat" --demo -o "$work/counters" || status=$?
[ "$status" = 0 ] || [ "$status" = 1 ] || exit "$status"

echo
echo 'All of its processes are gone. The counters are still there (ipstat --attach):'
"$directory/ipstat" --attach "$work/counters"
exit "$status"
