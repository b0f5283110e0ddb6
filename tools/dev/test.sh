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
	shift 2
	say "$name"
	rm -f "$log"
	# Many tests wait most of the time.
	meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes $((2 * $(nproc))) "$@" ||
		true
	case $name in
	gcc | clang | late | asan | own-registration) set -- "${rseq[@]}" ;;
	*) set -- ;;
	esac
	python3 tests/tally.py "$log" "$name" "$@" >>"$results" || record FAIL "$name" 'no test ran'
}

build_and_test()
{
	local name=$1
	shift
	say "$name: build"
	if "$@"; then
		suite "$name" "$name" "${suite_args[@]}"
	else
		record FAIL "$name: build"
		return 1
	fi
}

# sanitizer NAME KIND OPTION...: a build directory with that sanitizer.
sanitizer()
{
	CC=gcc configure "$1" -Dwerror=true -Dbenchmarks=disabled -Db_sanitize="$2" \
		-Dc_args=-fno-sanitize-recover=all "${@:3}"
}

# The library as it is for what is loaded late, in the programs that test it.
configure_late()
{
	CC=gcc configure late -Dwerror=true -Dbenchmarks=disabled -Dexamples=disabled \
		-Dc_args=-DPERCPU_LATE
}

# The unit tests once more, each time with something taken away.
test_lower_tiers()
{
	GLIBC_TUNABLES=glibc.pthread.rseq=0 suite own-registration gcc --suite unit
	PERCPU_TIER=cpu suite tier-cpu gcc --suite unit
	PERCPU_TIER=shared suite tier-shared gcc --suite unit
}

# What all tests of this file begin with.
begin_tests()
{
	setup
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
	suite_args=(--suite compat --suite matrix --timeout-multiplier 4)
	PERCPU_TEST_COMPILERS=all build_and_test gcc compile_all gcc || true
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

soak()
{
	[[ $1 =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
	setup
	mkdir -p "$build" && : >"$results"
	step 'gcc: build' compile_all gcc
	step "soak for $1 min" "$build/gcc/tests/soak/soak" --minutes "$1"
	summary
}

test_default()
{
	begin_tests
	suite_args=()
	build_and_test gcc compile_all gcc && test_lower_tiers
	suite_args=(--suite unit --suite inject --suite stepping)
	build_and_test clang compile_all clang || true
	suite_args=(--suite unit --suite inject)
	build_and_test late configure_late || true
	suite_args=(--suite unit --suite inject --suite cli --timeout-multiplier 4)
	build_and_test asan sanitizer asan address,undefined || true
	suite_args=(--no-suite compat --no-suite matrix --timeout-multiplier 4)
	build_and_test tsan sanitizer tsan thread -Dexamples=disabled || true
	test_other_machines
	test_mutants --quick
	lint_steps /tests/
	summary
}

run_tests()
{
	case "$# ${1-}" in
	'0 ') test_default ;;
	'1 --mutants') test_all_mutants ;;
	'1 --compilers') test_compilers ;;
	'2 --soak') soak "$2" ;;
	*' --systems') test_systems "${@:2}" ;;
	*) usage >&2; exit 2 ;;
	esac
}
