# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# python.sh - the distributions of bindings/python: setup, tests, lint, wheels. All is built in
# build/python.

python=$build/python
distribution=bindings/python
# What builds, tests and checks them, in build/python/venv.
python_packages=(
	'meson>=1.3' 'meson-python==0.22.1' ninja 'pytest==9.2.0' 'prometheus_client==0.26.0' 'mypy==2.4.1'
)

new_python()
{
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'
}

# has_python: there is what builds a module for Python.
has_python()
{
	have python3 && new_python && [ -z "$(missing "${for_python[@]}")" ]
}

# venv_of FOLDER PACKAGE...: a virtual environment with these, made anew if others are wanted.
venv_of()
{
	local packages="${*:2}"
	cmp -s "$1/packages" - <<<"$packages" && return
	rm -rf "$1" && mkdir -p "$(dirname "$1")" && python3 -m venv "$1" &&
		"$1/bin/pip" -q --disable-pip-version-check install "${@:2}" && echo "$packages" >"$1/packages"
}

python_venv()
{
	venv_of "$python/venv" "${python_packages[@]}"
}

# python_sum: of what the module is built from.
python_sum()
{
	find include src $distribution -type f \( -name '*.[ch]' -o -name '*.py*' -o -name 'meson.build' \) \
		-not -path '*/tests/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum |
		cat - tools/dev/python.sh | sha256sum
}

# build_python NAME PIP-OPTION...: builds and installs it, unless nothing has changed since. The build
# directory is build/python/NAME.
build_python()
{
	local name=$1 sum
	sum=$(python_sum) && shift
	cmp -s "$python/$name.sum" - <<<"$sum" && return
	PATH=$python/venv/bin:$PATH "${gently[@]}" "$python/venv/bin/pip" -q --disable-pip-version-check \
		install --no-build-isolation --no-deps --no-index --force-reinstall \
		"-Cbuild-dir=$python/$name" -Csetup-args=-Dwerror=true "$@" "./$distribution" &&
		echo "$sum" >"$python/$name.sum"
}

# pytest_of NAME TEST...: runs them, and records each.
pytest_of()
{
	local name=$1 report=$python/$1.xml status=0
	shift
	rm -f "$report"
	"${gently[@]}" "$python/venv/bin/python" -B -m pytest -q -p no:cacheprovider -o junit_family=xunit1 \
		--junitxml "$report" "$@" || status=$?
	python3 tools/dev/junit.py "$report" "$name" >>"$results" || status=1
	return $status
}

# The module as users have it, in the virtual environment of its tests.
python_gcc()
{
	python_venv && CC=gcc build_python gcc
}

# The same with sanitizers, in a folder that comes before it.
python_asan()
{
	CC=gcc build_python asan --target "$python/asan-site" --upgrade \
		-Csetup-args=-Db_sanitize=address,undefined -Csetup-args=-Db_lundef=false \
		-Csetup-args=-Doptimization=1
}

# Python allocates what it never frees: leaks are looked for by tests/unit. Tests that look at the
# memory of the process allow little for what was freed and is not used again.
pytest_asan()
{
	local -x ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=1:thread_local_quarantine_size_kb=16
	local -x UBSAN_OPTIONS=halt_on_error=1 PYTHONPATH=$python/asan-site
	local -x LD_PRELOAD
	LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
	pytest_of python-asan $distribution/tests
}

# Its status is $not_here where there is no Python that is new enough, or no headers.
test_python()
{
	has_python || return "$not_here"
	step 'python: mypy' lint_mypy
	python_gcc || return
	record PASS 'python: build'
	step 'python: tests' pytest_of python $distribution/tests
}

test_python_again()
{
	has_python || return "$not_here"
	python_gcc && python_asan || return
	record PASS 'python: build with sanitizers'
	step 'python: tests with sanitizers' pytest_asan
	step "python: the client's own tests" pytest_of python-upstream -m whole $distribution/tests/upstream
}

await_python()
{
	local status=0
	say 'python'
	await python || status=$?
	case $status in
	0) ;;
	"$not_here") record SKIP 'python' 'no Python 3.10, or no headers of it' ;;
	*) record FAIL 'python' ;;
	esac
}

# test_python_named TEST...: the inner loop: these, such as python/test_plain_segment.
test_python_named()
{
	local name tests=()
	has_python || { require "${for_python[@]}" && has_python; } || die 'no Python 3.10, or no headers of it'
	python_gcc || die 'see above'
	for name in "$@"; do
		tests+=("$distribution/tests/$(sed -E 's,^python/([^:]*),\1.py,; s,\.py\.py,.py,' <<<"$name")")
	done
	"$python/venv/bin/python" -B -m pytest -p no:cacheprovider "${tests[@]}"
}

lint_mypy()
{
	python_venv && (
		cd $distribution &&
			"$python/venv/bin/mypy" --strict --no-error-summary --cache-dir "$python/mypy" \
				--python-version 3.10 percpu percpu_prometheus autoload/*.py
	)
}

# As lint_tidy, of the module: the library in it is looked at elsewhere. Without the analyzer, which
# takes what a handle is declared from for what it keeps, and Python's references for null.
lint_tidy_python()
{
	local headers
	headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))') || return
	find $distribution/src -name '*.c' -print0 |
		"${gently[@]}" xargs -0 -P "$(nproc)" -I '{}' clang-tidy --quiet '--checks=-clang-analyzer-*' \
			'{}' -- -std=gnu11 \
			-Iinclude "-isystem$headers" -DPERCPU_LATE -DPy_LIMITED_API=0x030a0000 2>&1 |
		sed '/warnings\? generated\.$/d'
}
