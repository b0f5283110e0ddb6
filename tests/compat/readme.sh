#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The code that the documentation has for users to copy: each block of C and C++ in README.md and the
# pages compiles as it is, and the programs of README.md and of docs/start run.
#
#	readme.sh SOURCE WORK
#
# Prints TAP; the tools' output is in WORK/log.
. "$(dirname "$0")/tap.sh"

# blocks FILE NAME: write its blocks of C to NAME1.c, NAME2.c, ..., and those of C++ to NAME1.cc, ...
blocks()
{
	awk -v name="$2" '
		/^```$/ { file = "" }
		file { print > file }
		/^```c$/ { file = name (++c) ".c" }
		/^```cpp$/ { file = name (++cpp) ".cc" }' "$1"
}

compiles()
{
	if [ "${1##*.}" = cc ]; then
		c++ -std=c++17 -Wall -Wextra -Werror "$quick" -I"$src/include" -c "$1" -o block.o
		return
	fi
	cc -Wall -Wextra -Werror "$quick" -I"$src/include" \
		-I"$src/include/percpu/freebsd/compat" -c "$1" -o block.o
}

# builds NAME OPTION...: compile the program so that it counts in files of the test, not of a user,
# and listens on a free port.
builds()
{
	sed -E "s|/dev/shm/[a-z]*|$work/region|g; s|open\\(\"([a-z]+)\"|open(\"$work/\\1\"|
		s|PORT = 8080|PORT = $port|" "$1.c" >"$1-here.c" &&
		cc -Wall -Wextra -Werror -O2 -I"$src/include" \
			-I"$src/include/percpu/freebsd/compat" "${@:2}" "$1-here.c" percpu_all.o \
			-o "$1" -pthread -lm
}

# builds_cpp NAME: the same in C++.
builds_cpp()
{
	sed -E "s|file\{ \"([a-z]+)\"|file{ \"$work/\1-cpp\"|; s|PORT = 8080|PORT = $port|" "$1.cc" \
		>"$1-here.cc" && grep -q "$work" "$1-here.cc" &&
		c++ -std=c++17 -Wall -Wextra -Werror -O2 -I"$src/include" "$1-here.cc" percpu_all.o \
			-o "$1" -pthread
}

# prints TEXT COMMAND...: the command prints that text, and no more.
prints()
{
	local text=$1 got
	shift
	got=$(timeout 60 "$@") || { echo "$*: exit status $?, printed: $got"; return 1; }
	echo "$got"
	[ "$got" = "$text" ]
}

# A server, in a process group of its own.
start_server()
{
	local try
	setsid "$1" &
	server=$!
	for try in $(seq 200); do
		kill -0 "$server" || return
		! asks /nothing '404 Not Found' || return 0
		sleep 0.05
	done
	echo "no answer after $try tries"
	return 1
}

stop_server()
{
	kill -KILL -- "-$server"
	wait "$server"
	[ $? = 137 ]
}

# asks PATH ANSWER: the server gives that answer, and has counted it by then.
asks()
{
	(exec 3<>"/dev/tcp/127.0.0.1/$port" && echo "GET $1 HTTP/1.0" >&3 && head -n 1 <&3) |
		grep -q "$2"
}

# counted CODE: the count that another process reads.
counted()
{
	./prefork1 | sed -n "s/^hello_requests_total code=$1: //p"
}

serves()
{
	local before
	start_server ./readme1 || return
	before=$(counted 404)
	asks / '200 OK' && asks / '200 OK' && asks /nothing '404 Not Found' || return
	[ "$(counted 200)" = "$1" ] && [ "$(counted 404)" = $((before + 1)) ]
}

# Kill the server's workers, and wait until they are gone.
kill_workers()
{
	local workers worker killed=0
	read -ra workers <"/proc/$server/task/$server/children" # without a newline at its end
	for worker in "${workers[@]}"; do
		kill -KILL "$worker" && killed=$((killed + 1))
		while [ -e "/proc/$worker" ]; do sleep 0.01; done
	done
	[ "$killed" = 4 ]
}

loses_workers()
{
	kill_workers && asks / '200 OK' && [ "$(counted 200)" = 3 ]
}

shows()
{
	"$1" "$work/hello" >shown && cat shown && grep -q '^hello_requests_total{code="200"} 3$' shown &&
		grep -q '^hello_requests_in_flight 0$' shown && grep -q hello_request_seconds_count shown
}

# The server in C++ counts the same, and loses no count by a kill.
serves_cpp()
{
	start_server ./cpp1 && asks / '200 OK' && kill_workers &&
		asks / '200 OK' && asks /nothing '404 Not Found' || return
	./show "$work/hello-cpp" >shown && cat shown &&
		grep -q '^hello_requests_total{code="200"} 2$' shown &&
		[ "$(sed -n 's/^hello_request_seconds_count //p' shown)" -ge 4 ] &&
		grep -q '^hello_requests_in_flight 0$' shown
}

# Programs that start at the same time, with a file that does not exist.
starts_at_once()
{
	local pids=() pid status=0
	rm -f region
	for _ in $(seq 20); do
		./structure2 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || status=1; done
	return $status
}

refuses()
{
	! ./structure2 2>said && cat said && grep -q "^$work/region: ..." said
}

builds_plugin()
{
	whole percpu_late.o cc "$quick" -DPERCPU_LATE &&
		cc -Wall -Wextra -Werror -O2 -DPERCPU_LATE -I"$src/include" -shared -fPIC plugin1.c \
			percpu_late.o -o plugin.so -Wl,--wrap=vfork,--wrap=clone -pthread &&
		cc -Wall -Wextra -Werror plugin2.c -o host -ldl
}

blocks "$src/README.md" readme
for page in "$src"/docs/*.md "$src"/docs/*/*.md; do
	blocks "$page" "$(basename "$page" .md)"
done
for block in *[0-9].c *[0-9].cc; do
	[ "${block##*.}" = c ] || have "$block" c++ || continue
	check "$block compiles" compiles "$block"
done
port=$((20000 + RANDOM % 10000))
while (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
check 'the library' whole percpu_all.o cc "$quick"
for block in readme1 prefork1 threaded1 threaded2 dataplane1 kernel1 structure1 structure2; do
	check "$block is a program" builds "$block"
done
check 'no server yet' eval '! ./prefork1'
check 'the server' serves 2
check 'whose workers are killed' loses_workers
cp "$src/examples/percpu-show.c" show.c
check 'what shows it' builds show
check 'it shows all' shows ./show
check 'the server is killed' stop_server
check 'the server starts again, and counts on' serves 5
check 'it is killed again' stop_server
if have 'the server in C++' c++; then
	check 'cpp1 is a program' builds_cpp cpp1
	check 'the server in C++' serves_cpp
	check 'it is killed, too' stop_server
fi
check 'the shortest useful program' prints 1 ./threaded1
check 'values that are read together' \
	prints '300000 hits, 100000 misses, 153600000 bytes' ./threaded2
check 'a plugin and its host' builds_plugin
check 'the plugin counts' prints 10 ./host ./plugin.so "$work/plugin"
check 'and goes on' prints 20 ./host ./plugin.so "$work/plugin"
check 'a data plane' prints 'port 0: 32000 packets, 2048000 bytes
port 1: 32000 packets, 2048000 bytes' ./dataplane1
check 'code of a kernel' prints 1500 ./kernel1
check 'a structure' prints '1000 items, most of them from a list' ./structure1
check 'the first start' prints '1 requests' ./structure2
check 'the second start' prints '2 requests' ./structure2
check 'starts at once' starts_at_once
check 'all have counted' prints '21 requests' ./structure2
echo 'not a region' >region
check 'a foreign file is refused, in words' refuses
check 'and left alone' grep -qx 'not a region' region
finish
