# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# coverage.sh - what of the library no test reaches.

# A build whose programs count in a file that they map, so that a child that is killed loses
# no count: clang does that, and gcc's counts are written where a program ends by exit(3).
configure_coverage()
{
	CC=clang configure_tests "$1" -Dbenchmarks=disabled -Dexamples=disabled -Doptimization=1 \
		-Dc_args="-g1 -fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic -mllvm -runtime-counter-relocation ${*:2}" \
		-Dc_link_args=-fprofile-instr-generate
}

# The tests of the builds, and those about objects once more on the lower tiers. All of them
# count in one directory.
run_coverage()
{
	local all=(--suite unit --suite inject --suite stepping --suite stress --suite cli
		--timeout-multiplier 10)
	local unit=(--suite unit --no-suite files --timeout-multiplier 10)
	export LLVM_PROFILE_FILE=$build/coverage/raw/%m%c.profraw
	suite coverage coverage "${all[@]}"
	PERCPU_TIER=cpu suite coverage-cpu coverage "${unit[@]}"
	PERCPU_TIER=shared suite coverage-shared coverage "${unit[@]}"
	GLIBC_TUNABLES=glibc.pthread.rseq=0 suite coverage-own coverage "${unit[@]}"
	suite coverage-late coverage-late "${unit[@]}"
}

# Prints what is not reached and not explained; fails if there is such a line.
report_coverage()
{
	local programs
	mapfile -t programs < <(find "$build"/coverage{,-late}/tests -type f -perm -u+x \
		! -name '*.so*' -exec grep -l __llvm_covmap {} +)
	llvm-profdata merge "$build"/coverage/raw/*.profraw -o "$build/coverage/all.profdata" &&
		python3 tools/dev/coverage.py "$build/coverage/all.profdata" tests/unreached.txt \
			"${programs[@]}"
}

test_coverage()
{
	local tools
	suites[coverage]='--suite unit --suite inject --suite stepping --suite stress --suite cli'
	suites[coverage-late]='--suite unit'
	begin_tests
	tools=$(dirname "$(readlink -f "$(command -v clang)")")
	PATH=$PATH:$tools # llvm-cov and llvm-profdata of that clang
	step 'coverage: build' configure_coverage coverage
	step 'coverage: build, late' configure_coverage coverage-late -DPERCPU_LATE
	rm -rf "$build/coverage/raw"
	run_coverage
	step 'coverage: all is reached, or explained' report_coverage
	summary
}
