#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# demo.sh DIRECTORY - run the programs in that directory for a demonstration. ./dev demo runs this
# after the build. It ends within about a minute.
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

echo
if [ -x "$directory/prefork/prefork" ] && command -v wrk >/dev/null; then
	echo 'A server of several processes (examples/prefork), ended and started again in the middle:'
	"$(dirname "$0")/prefork/load.py" "$directory/prefork/prefork" --seconds 8 --restart || status=1
else
	echo 'The server of examples/prefork is left out: no libevent, no http-parser, or no wrk here.'
fi
exit "$status"
