#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Check that the library's effects on a process are those of docs/cpu/process.md.
#
#	process.sh SOURCE WORK
#
# Prints TAP.
. "$(dirname "$0")/tap.sh"
page=$here/../../docs/cpu/process.md
flags=(-Wall -Wextra -Werror -std=gnu11 -O2 "-I$src/include")

# Optimized as little as the page's limit of thread-local storage allows: the calls are the same.
build()
{
	whole all.o cc -O1 &&
		cc "${flags[@]}" "$here/process.c" all.o -o process -pthread
}

# Descriptors, threads and blocked signals are the same at the end as at the begin.
leaves_nothing()
{
	local registers
	# A thread is in the phase that it began last. One that began none, such as those of the
	# self-test, is in the last phase of all; while others count it is in none.
	for registers in 1 0; do
		rm -f region
		GLIBC_TUNABLES=glibc.pthread.rseq=$registers timeout 60 ./process region || return
	done
}

# Prints "PHASE CALL" for all calls, by any thread. A write to an invalid descriptor begins a phase.
trace()
{
	local registers
	# A thread is in the phase that it began last. One that began none, such as those of the
	# self-test, is in the last phase of all; while others count it is in none.
	for registers in 1 0; do
		rm -f region
		GLIBC_TUNABLES=glibc.pthread.rseq=$registers timeout 100 \
			strace -f -qq -o trace ./process region || return
		awk '{ thread = $1; sub(/^[0-9]+ +/, "") }
			/^write\(-1, "/ { split($0, part, "\""); last = phase[thread] = part[2]; next }
			last != "" && match($0, /^[a-z_0-9]+\(/) {
				its = thread in phase ? phase[thread] : last == "count" ? "libc" : last
				print its "\t" substr($0, 1, RLENGTH - 1) }' trace
	done | sort -u >calls
	grep -q '^first use	rseq$' calls && grep -q '^visit	sched_setaffinity$' calls
}

counting_makes_none()
{
	! grep '^count	' calls
}

all_are_on_the_page()
{
	# shellcheck disable=SC2016 # a mark of the page, not of the shell
	grep '^| `' "$page" | cut -d'|' -f2 | grep -o '`[a-z_0-9]*`' | tr -d '`' | sort -u >listed
	grep -v '^libc	' calls | cut -f2 | sort -u >made
	[ "$(wc -l <listed)" -gt 20 ] && ! comm -13 listed made | grep .
}

little_tls()
{
	local size
	cc -shared all.o -o libpercpu.so && size=$(readelf -lW libpercpu.so |
		awk '$1 == "TLS" { print $6 }') && echo "$size" && [ $((size)) -le 128 ]
}

# wrapped FILE OPTION...: prints which of the two calls the file has.
wrapped()
{
	nm "${@:2}" --defined-only "$1" | awk '$3 == "vfork" || $3 == "clone" { print $3 }' | sort | xargs
}

can_be_left_out()
{
	cc "${flags[@]}" -O0 -DPERCPU_NO_WRAP -c "$src/src/percpu_all.c" -o bare.o || return
	[ "$(wrapped all.o)" = 'clone vfork' ] && [ "$(wrapped bare.o)" = '' ] &&
		cc "${flags[@]}" "$here/process.c" bare.o -o bare -pthread && rm -f region &&
		timeout 60 ./bare region
}

can_be_left_out_by_meson()
{
	meson setup build "$here/../.." -Dwrap=disabled -Dtests=disabled -Dexamples=disabled \
		-Dbenchmarks=disabled -Dwerror=true --buildtype debug --unity on \
		--unity-size 1000 &&
		meson compile -C build percpu:shared_library &&
		[ "$(wrapped build/src/libpercpu.so -D)" = '' ]
}

check 'built' build
check 'no descriptors, threads or blocked signals are left' leaves_nothing
if have 'system calls' strace; then
	check 'system calls' trace
	check 'counting and reading make none' counting_makes_none
	check 'all are on the page' all_are_on_the_page
fi
check 'thread-local storage' little_tls
check 'wrappers can be left out' can_be_left_out
have 'wrappers can be left out by Meson' meson &&
	check 'wrappers can be left out by Meson' can_be_left_out_by_meson
finish
