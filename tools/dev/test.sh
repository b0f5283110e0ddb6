# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# test.sh - the tests of this machine, and the results of all.

# A result: PASS, FAIL or SKIP, the name of the test, and why.
record()
{
	printf '%s\t%s\t%s\n' "$1" "$2" "${3-}" >>"$results"
}

# step NAME COMMAND...: a command that is one test.
step()
{
	local name=$1
	shift
	say "$name"
	if "$@"; then record PASS "$name"; else record FAIL "$name"; fi
}

kernel_has_rseq()
{
	python3 - <<-'END'
		import ctypes, errno, platform, sys
		number = {"x86_64": 334, "aarch64": 293}.get(platform.machine(), 0)
		libc = ctypes.CDLL(None, use_errno=True)
		sys.exit(not number or libc.syscall(number, 0, 0, 0, 0) == 0
		         or ctypes.get_errno() == errno.ENOSYS)
	END
}

# suite NAME DIRECTORY ARGUMENT...: run the tests of a build, record each.
suite()
{
	local name=$1 dir=$build/$2 log=$build/$2/meson-logs/testlog.json
	local at_once=$((2 * $(nproc))) TIMEFORMAT="$1: took %0R s, and of CPU %0U s + %0S s"
	shift 2
	say "$name"
	rm -f "$log"
	# Many tests wait most of the time: there are more of them when all is built.
	[ -z "${computing-}" ] || kill -0 "$computing" 2>/dev/null || at_once=$((3 * $(nproc)))
	# In a process group, which ends with this script, and a shell that starts nothing else.
	set -m
	(time meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes "$at_once" "$@") &
	running=$!
	set +m
	wait "$running" || true
	running=
	case $name in
	gcc | clang | late | asan | own-registration) set -- "${rseq[@]}" ;;
	*) set -- ;;
	esac
	python3 tests/tally.py "$log" "$name" "$@" >>"$results" || record FAIL "$name" 'no test ran'
}

without_files='--suite unit --no-suite repeats --no-suite files'

# What is run of each build by "./dev test --configurations", as arguments of "meson test"; and by
# "./dev test", but for builds that have a selection below.
declare -A suites=(
	[gcc]='--no-suite repeats --timeout-multiplier 2'
	[clang]='--suite unit --suite whole --suite inject --suite stepping --no-suite repeats
		--timeout-multiplier 2'
	# What is read from files does not depend on how a thread finds its area, nor do objects
	# that are made of others, and the instructions behind that on how they are compiled.
	[late]='--suite unit --suite inject --no-suite repeats --no-suite files --no-suite segments
		--no-suite compiled --timeout-multiplier 2'
	# No sanitizer looks into sequences. The examples, which "cli" runs, take long to build:
	# test_configurations has them.
	[asan]='--suite unit --suite inject --no-suite repeats --no-suite sequences
		--timeout-multiplier 4'
	# With that sanitizer there are no sequences; and tests that read a file, meet an error of
	# a system call, or compute have one thread.
	[tsan]='--suite unit --suite stress --suite everywhere --no-suite repeats --no-suite files
		--no-suite errors --no-suite arithmetic --timeout-multiplier 4'
	# Nor has qemu-user rseq; but unit/aborts stops sequences and aborts them, there, too.
	# Stress is for whole systems. What is in files, and which call fails, is the same there.
	[aarch64]='--suite unit --suite whole --suite everywhere --suite stepping
		--no-suite files --no-suite errors --timeout-multiplier 4'
	[i686]='--suite unit --suite mixed --timeout-multiplier 4'
	# What depends on the machine's words and atomics: the emulator takes its time.
	[armhf]='counter region_hostile region_hostile_keys journal local lock lock_thread region
		region_shared seq stats variable wbuf wbuf_cells wbuf_fork wbuf_limit word_size zone
		--timeout-multiplier 4'
	# The unit tests of build/gcc once more, each time with something taken away.
	[own-registration]="$without_files"
	[tier-cpu]="$without_files"
	[tier-shared]="$without_files"
)

# A test of what each object counts or hands out when nothing is in its way, without the library
# that has steps, which would be compiled for it.
fast_paths='approx_rest array compact counter counter_static critical extrema fcounter lwbuf local
	objcache ref ring sfbuf stats stats_group variable wbuf_cells zone'

# What "./dev test" runs of the builds that differ from gcc's in one thing: tests of that thing, and
# of what depends on it.
declare -A selections=(
	# The code that another compiler makes of headers and sequences: each instruction of each
	# sequence, order among inlined code, and all fast paths.
	[clang]="inline_order seq stepping steps $fast_paths"
	# How a thread finds its area: how it gets a record, without keys, too, when it registers, what
	# is left of it in children and at its end, and what counts by it.
	[late]="fork_handlers record_far_key selftest seq status steps thread thread_local_late
		thread_local_no_key vfork $fast_paths"
	# Who registers threads, so their begin, their end, and children of both; and what counts then.
	[own-registration]="cancel first_use first_use_fork first_use_threads fork_handlers helper
		record_far_key selftest seq status status_refused thread thread_local_no_key vfork
		$fast_paths"
	# Without sequences: locks, atomic lanes and fences, which all threads take; snapshots and
	# updates of several fields, which take locks; and how threads of other tiers meet.
	[tier-cpu]="atomic_lanes error fence fork_handlers gauge histogram lock lock_thread lwbuf_threads
		objcache_threads options outputs pair rate ref_modes ring_shared rwlock section_steps
		sum twin_calls twins visit wbuf $fast_paths"
	# The same, and all CPUs share one lane.
	[tier-shared]="atomic_lanes bias_lane error fence fork_handlers gauge histogram lock lwbuf_threads
		objcache_threads options outputs pair rate ref_modes ring_shared rwlock section_steps
		sum twin_calls twins visit wbuf $fast_paths"
	# A race needs two threads: tests that begin some, in a process that the sanitizer sees; so not
	# those of processes alone, which share a file.
	[tsan]="approx approx_steps array arrays_of_callers atomic_lanes cancel compact costs
		counter counter_static cpus cpus_files critical critical_between debug_privileged delays
		depot dragonfly error_opening exemplar extrema extrema_steps family_removal fcounter fence
		first_use first_use_fork first_use_threads fork_handlers freebsd freebsd_critical
		freebsd_names freebsd_sysctl freebsd_uma freebsd_zpcpu gauge grace grace_call helper
		histogram journal linux lock lwbuf lwbuf_limits lwbuf_refused lwbuf_threads memory_steps
		netbsd objcache_debug objcache_threads owned owner owner_name pair participant presence rate
		reader reader_file reader_reads reader_steps readers reclaim reclaim_all record_far_key ref
		ref_fork region_programs region_programs_locks resources ring_read ring_shared rwlock
		rwlock_between section_steps segment_anew segment_check segment_error segment_stats
		segment_steps selftest sfbuf stale stats stats_group stats_group_steps stats_narrow status
		status_refused stress-compact stress-exchange stress-grace stress-hotplug stress-processes
		stress-ref stress-reset stress-rings stress-rwlock stress-signals stress-stats stress-wbuf
		thread thread_local_late thread_local_no_key timer twin_calls twin_pools twin_values twins
		two_at_once variable visit wbuf_fork wbuf_limit xio zone_run zone_steps zone_threads"
	# Sequences in other instructions, which "aborts" stops one by one; order among inlined code;
	# children of vfork(), which it wraps in assembly; and all fast paths.
	[aarch64]="aborts inline_order seq vfork $fast_paths"
	# Words of 32 bits, with times and offsets of 64: files, which processes of both widths share,
	# damaged ones, and what counts in one word or two.
	[i686]='array compact counter extrema fcounter local mixed region region_hostile
		region_hostile_keys region_shared ring seq stats variable wbuf_cells word_size zone'
	# The same, with another machine's atomics and alignment.
	[armhf]='counter local region region_hostile region_hostile_keys region_shared seq stats
		variable wbuf_cells word_size zone'
)

# select_few: from here on, of those builds no more than that.
select_few()
{
	local name
	for name in "${!selections[@]}"; do
		suites[$name]="${selections[$name]} --timeout-multiplier 4"
	done
}

# Each test that a selection names is one.
lint_selections()
{
	local name missing=0
	for name in ${selections[*]}; do
		grep -rqE --include=meson.build "'${name#stress-}'[],:]" tests ||
			{ echo "tools/dev/test.sh selects $name, and there is no such test"; missing=1; }
	done
	return $missing
}

# list_tests NAME: what is run of that build.
list_tests()
{
	# shellcheck disable=SC2086 # words
	meson test -C "$build/$1" --no-rebuild --list ${suites[$1]}
}

# What is compiled once more, for another configuration, takes half the time so, and with
# no more debugging information than traces need. As users have it it is in gcc and clang.
cheaply=(-Doptimization=1)

# sanitizer NAME KIND OPTION...: a build directory with that sanitizer.
sanitizer()
{
	local args='-g1 -fno-sanitize-recover=all'
	CC=gcc configure_tests "$1" -Dwerror=true -Dbenchmarks=disabled -Db_sanitize="$2" \
		"${cheaply[@]}" -Dc_args="$args" -Dcpp_args="$args" "${@:3}"
}

# The library as it is for what is loaded late, in the programs that test it.
configure_late()
{
	local args='-g1 -DPERCPU_LATE'
	CC=gcc configure_tests late -Dwerror=true -Dbenchmarks=disabled -Dexamples=disabled \
		"${cheaply[@]}" -Dc_args="$args" -Dcpp_args="$args"
}

# Many tests wait most of the time, so what computes comes beside them, one after the
# other: behind NAME COMMAND... runs it, and await NAME says how it ended.
beside=$build/beside

behind()
{
	local name=$1 status=0 TIMEFORMAT="$1: took %0R s beside others, and of CPU %0U s + %0S s"
	shift
	{ time "$@" >"$beside/$name.log" 2>&1 || status=$?; } 2>"$beside/$name.time"
	echo "$status" >"$beside/$name.status"
	mv "$beside/$name.status" "$beside/$name"
}

await()
{
	local status=1
	until [ -e "$beside/$1" ] || ! kill -0 "$computing" 2>/dev/null; do sleep 0.2; done
	cat "$beside/$1.log" "$beside/$1.time" || true
	read -r status <"$beside/$1" || true
	return "$status"
}

# What the default suite needs. Builds of Rust leave a core idle at times, so they come while tests
# of gcc's build run; at the end come builds that use all cores.
compute()
{
	set +m
	behind tools setup_tools & # mostly waits for what it downloads
	gently=(nice -n 10)
	behind gcc compile_needed gcc examples/
	behind mutants test_mutants --quick & # one after the other, and waits, too
	behind rust test_rust
	behind python test_python
	behind asan sanitizer asan address,undefined
	behind tsan sanitizer tsan thread -Dexamples=disabled
	behind clang compile_needed clang
	behind late configure_late
	compute_crosses
	behind benchmarks check_benchmarks
	behind clang-tidy lint_tidy_shortly # ./dev lint does it all
	wait
}

compute_crosses()
{
	behind aarch64 cross_if_possible aarch64 arm64 "${for_aarch64[@]}"
	behind armhf cross_if_possible armhf armhf "${for_armhf[@]}"
	behind i686 cross_if_possible i686 i386 "${for_i686[@]}"
}

# What the other configurations need.
compute_configurations()
{
	set +m
	behind tools setup_tools &
	gently=(nice -n 10)
	behind gcc compile_all gcc
	behind clang compile_needed clang fuzz_region fuzz_reader
	behind late configure_late
	behind asan sanitizer asan address,undefined
	behind tsan sanitizer tsan thread -Dexamples=disabled
	compute_crosses
	behind rust test_rust_again
	behind python test_python_again
	behind fuzz fuzz_shortly
	wait
}

# When this script ends, also if it is interrupted: Meson ends the tests that run, and these
# remove their files.
end_tests()
{
	local group
	for group in ${computing-} ${running-}; do kill -- "-$group" 2>/dev/null || true; done
	[ -z "${running-}" ] || while kill -0 -- "-$running" 2>/dev/null; do sleep 0.1; done
}

# compute_beside COMMAND: in a process group, which ends with this script.
compute_beside()
{
	rm -rf "$beside"
	mkdir -p "$beside"
	set -m
	"$1" &
	computing=$!
	set +m
}

# built NAME: fails if there are no programs.
built()
{
	local status=0
	say "$1: build"
	await "$1" || status=$?
	case $status in
	0) ;;
	"$not_here") return 1 ;;
	*) record FAIL "$1: build"; return 1 ;;
	esac
}

# test_built NAME: the same.
test_built()
{
	# shellcheck disable=SC2086 # words
	built "$1" && suite "$1" "$1" ${suites[$1]}
}

# shellcheck disable=SC2086 # words
test_lower_tiers()
{
	GLIBC_TUNABLES=glibc.pthread.rseq=0 suite own-registration gcc ${suites[own-registration]}
	PERCPU_TIER=cpu suite tier-cpu gcc ${suites[tier-cpu]}
	PERCPU_TIER=shared suite tier-shared gcc ${suites[tier-shared]}
}

# The builds beside those of gcc.
test_other_builds()
{
	local name mixed=tests/compat/mixed
	for name in clang late aarch64 armhf; do
		test_built "$name" || true
	done
	if test_built i686 && [ "$(uname -m)" = x86_64 ]; then
		step 'i686 and x86-64 share files' "$mixed.sh" "build/gcc/$mixed" "build/i686/$mixed"
	fi
}

# All that differs from one configuration to the next: the default suite tries a part of it.
test_configurations()
{
	local status=0
	begin_tests setup_packages
	suites[asan]='--suite cli --timeout-multiplier 4'
	compute_beside compute_configurations
	built gcc && test_lower_tiers
	await tools || true
	test_built asan || true
	test_built tsan || true
	test_other_builds
	await_rust
	await_python
	say 'fuzz for 20 s'
	await fuzz || status=$?
	case $status in
	0) record PASS 'fuzz for 20 s' ;;
	77) record SKIP 'fuzz for 20 s' 'no libFuzzer' ;;
	*) record FAIL 'fuzz for 20 s' ;;
	esac
	summary
}

# begin_tests [SETUP]: what all tests of this file begin with.
begin_tests()
{
	trap end_tests EXIT
	"${1-setup}"
	mkdir -p "$build" && : >"$results"
	rseq=()
	if kernel_has_rseq; then
		rseq=(--rseq)
	else
		record SKIP 'tier rseq' 'this kernel has no rseq'
	fi
}

# What the default suite tries by some of the compilers, options and dialects.
test_compilers()
{
	begin_tests
	step 'gcc: build' compile_all gcc
	PERCPU_TEST_COMPILERS=all suite gcc gcc --suite compat --suite matrix --suite repeats \
		--timeout-multiplier 4
	summary
}

# Prints the totals as the last line; fails if something failed.
summary()
{
	local passed failed skipped
	say 'results'
	grep -E '^(SKIP|FAIL)' "$results" || true
	passed=$(grep -c '^PASS' "$results" || true)
	failed=$(grep -c '^FAIL' "$results" || true)
	skipped=$(grep -c '^SKIP' "$results" || true)
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ] && [ "$passed" != 0 ]
}

# Its status is 77 where there is no libFuzzer.
fuzz_shortly()
{
	local name fuzzer=$build/clang/tests/fuzz/fuzz_
	[ -x "${fuzzer}region" ] || return 77
	for name in region reader; do
		"${gently[@]}" tests/fuzz/run.sh "$fuzzer$name" 10 "$build/fuzz/$name" || return 1
	done
}

# fuzz SECONDS: from the corpora on, and from what earlier runs have kept.
fuzz()
{
	local name
	[[ $# = 1 && $1 =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
	require "${for_build[@]}" "${for_fuzz[@]}"
	compile clang
	for name in region reader; do
		tests/fuzz/run.sh "$build/clang/tests/fuzz/fuzz_$name" $((($1 + 1) / 2)) \
			"$build/fuzz/$name"
	done
}

soak()
{
	[[ $1 =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
	setup
	mkdir -p "$build" && : >"$results"
	step 'gcc: build' compile_all gcc
	step 'a million snapshots' "$build/gcc/tests/stress/test_stats" 1000000
	step 'a server under load for a minute' examples/prefork/load.py \
		"$build/gcc/examples/prefork/prefork" --seconds 60 --kills 20 --restart
	step "soak for $1 min" "$build/gcc/tests/soak/soak" --minutes "$1"
	summary
}

# The steps of the crates, and of the tool.
await_rust()
{
	local status=0
	say 'rust'
	await rust || status=$?
	case $status in
	0) ;;
	"$not_here") record SKIP 'rust' "no cargo $oldest_cargo" ;;
	*) record FAIL 'rust' ;;
	esac
}

test_default()
{
	local status
	begin_tests setup_packages
	select_few
	compute_beside compute
	lint_quickly
	await tools || true
	test_built gcc && test_lower_tiers
	test_built asan || true
	test_built tsan || true
	test_other_builds
	await_rust
	await_python
	test_models_shortly
	say 'mutants'
	await mutants || record FAIL 'mutants'
	step 'benchmarks: what they share' await benchmarks
	step 'lint: clang-tidy' await clang-tidy
	say 'not run'
	cat <<-'END'
		./dev test --configurations  all tests by clang, with ThreadSanitizer, for what is loaded late,
		                             for aarch64, i686 and armhf, and on lower tiers, of which this
		                             ran some; libFuzzer, examples and Python with AddressSanitizer, a
		                             build of all benchmarks, the crates by the oldest Rust and for what is
		                             loaded late, their bindings made anew, the tool as Meson
		                             installs it
		./dev test --compilers       clang, and more options and dialects, in tests/compat
		./dev test --fleet           the tool beside Prometheus, a browser, and others
		./dev test --servers         the drop-in for prometheus_client in servers of Python
		./dev test --mutants, --models, --coverage, --systems, --soak: ./dev --help
	END
	summary
}

# Prints what Meson calls tests that mutants call unit/zone, stress/kill, compat/pads.sh.
names_of_tests()
{
	sed -E 's,^stress/(.*),stress-\1,; s,^.*/,,; s,\.(sh|py)( .*)?$,,'
}

# tests_named NAME...: prints the tests of build/gcc that are meant: unit/zone, zone, or those
# of a function or file.
tests_named()
{
	local name all
	all=$(meson test -C "$build/gcc" --list 2>/dev/null | sed -n 's,^percpu:.* / ,,p')
	for name in "$@"; do
		names_of_tests <<<"$name" | grep -Fx -- "$all" ||
			{ tools/dev/tests_of.py --tests "$name" | names_of_tests | grep -Fx -- "$all"; }
	done | sort -u
}

# The inner loop: builds and runs these in build/gcc, or those of Python.
test_some()
{
	local names
	[[ $1 != python/* ]] || { test_python_named "$@"; return; }
	require "${for_build[@]}"
	set_up_for gcc >/dev/null || die 'see above'
	names=$(tests_named "$@") && [ -n "$names" ] || die "no such test, and no test of it: $*"
	# shellcheck disable=SC2086 # words
	meson test -C "$build/gcc" --print-errorlogs $names
}

run_tests()
{
	case "$# ${1-}" in
	'0 ') test_default ;;
	*' --mutants') test_all_mutants "${@:2}" ;;
	'1 --compilers') test_compilers ;;
	'1 --configurations') test_configurations ;;
	'1 --coverage') test_coverage ;;
	*' --fleet') test_fleet "${@:2}" ;;
	*' --models') test_models "${@:2}" ;;
	*' --servers') test_servers "${@:2}" ;;
	'2 --soak') soak "$2" ;;
	*' --systems') test_systems "${@:2}" ;;
	*' '[!-]*) test_some "$@" ;;
	*) usage >&2; exit 2 ;;
	esac
}
