# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# mutants.sh - bugs that the tests must see.

# The library with a bug, which the tests must see: as tests/mutants/run.py.
test_mutants()
{
	say 'mutants'
	if [ ${#rseq[@]} = 0 ]; then
		record SKIP 'mutants' 'no rseq'
	elif [ "$(uname -m)" != x86_64 ]; then
		record SKIP 'mutants' 'they are for x86-64'
	elif [ "$(nproc)" = 1 ]; then
		record SKIP 'mutants' 'one CPU'
	else
		CC=gcc python3 tests/mutants/run.py "$build/mutants" "$@" | tee -a "$results" ||
			record FAIL 'mutants' 'one survived, or the run broke'
	fi
}

# test_mutants_cross NAME ARCHITECTURE NEED...: bugs that a build for another machine shows.
test_mutants_cross()
{
	local title="mutants, $1"
	say "$title"
	other_machine "$title" "$@" || return 0
	cross_file "$1"
	python3 tests/mutants/run.py "$build/mutants-$1" --cross "$1" "$build/$1-sysroot.ini" |
		tee -a "$results" || record FAIL "$title" 'one survived, or the run broke'
}

# Orders that x86-64 keeps whatever the code says.
test_mutants_tsan()
{
	local title='mutants, ThreadSanitizer'
	say "$title"
	CC=gcc python3 tests/mutants/run.py "$build/mutants-tsan" --tsan | tee -a "$results" ||
		record FAIL "$title" 'one survived, or the run broke'
}

# Bugs in the Rust crates, whose names begin with rust-: all, or these.
test_mutants_crates()
{
	say 'mutants, Rust'
	if ! new_cargo; then
		record SKIP 'mutants, Rust' "no cargo $oldest_cargo"
		return
	fi
	python3 tests/mutants/run.py "$build/mutants-rust" "$@" --crates | tee -a "$results" ||
		record FAIL 'mutants, Rust' 'one survived, or the run broke'
}

# Bugs in the Python modules, whose names begin with python-: all, or these.
test_mutants_modules()
{
	say 'mutants, Python'
	if ! has_python || ! python_venv; then
		record SKIP 'mutants, Python' 'no Python 3.10, or no headers of it'
		return
	fi
	PATH=$python/venv/bin:$PATH python3 tests/mutants/run.py "$build/mutants-python" "$@" --python |
		tee -a "$results" || record FAIL 'mutants, Python' 'one survived, or the run broke'
}

# test_all_mutants [NAME...]: those of other builds need ./dev test --mutants without a name.
test_all_mutants()
{
	local name rust=() modules=() others=()
	begin_tests
	for name in "$@"; do
		case $name in
			rust-*) rust+=("$name") ;;
			python-*) modules+=("$name") ;;
			*) others+=("$name") ;;
		esac
	done
	[ $# != 0 ] && [ ${#others[@]} = 0 ] || test_mutants "${others[@]}"
	[ $# != 0 ] && [ ${#rust[@]} = 0 ] || test_mutants_crates "${rust[@]}"
	[ $# != 0 ] && [ ${#modules[@]} = 0 ] || test_mutants_modules "${modules[@]}"
	[ $# = 0 ] || { summary; return; }
	test_mutants_tsan
	test_mutants_cross i686 i386 "${for_i686[@]}"
	test_mutants_cross aarch64 arm64 "${for_aarch64[@]}"
	summary
}
