# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# servers.sh - the drop-in for prometheus_client in gunicorn, uvicorn, uWSGI, celery and
# multiprocessing, whose workers are replaced and killed under load.

for_servers=(
	'have python3 python3' 'has_module venv python3-venv' 'has_python_headers . python3-dev'
	'have wrk wrk'
)
servers=$build/python/servers

setup_servers()
{
	local wanted list=bindings/python/tests/servers/requirements.txt
	require
	mapfile -t wanted < <(missing "${for_servers[@]}")
	fetch "${wanted[@]}"
	setup_rust
	[ -x "$servers/bin/pip" ] || python3 -m venv "$servers"
	cmp -s "$list" "$servers/installed.txt" || {
		echo 'setup: servers of Python, into build/python/servers'
		"$servers/bin/pip" -q install -r "$list" && cp "$list" "$servers/installed.txt"
	}
}

# The drop-in in the venv of the servers, and the tool percpu, which reads its file.
build_servers()
{
	PATH="$servers/bin:$PATH" "$servers/bin/pip" -q install --no-build-isolation --no-deps \
		--force-reinstall ./bindings/python && build_tool
}

# The types of the tests, and of their apps, which are programs in a folder of their own.
check_servers()
{
	"$servers/bin/mypy" --strict --cache-dir "$servers/mypy" --exclude apps \
		bindings/python/tests/servers &&
		(cd bindings/python/tests/servers/apps && "$servers/bin/mypy" --strict \
			--cache-dir "$servers/mypy" --explicit-package-bases \
			--untyped-calls-exclude prometheus_client ./*.py)
}

# servers_test NAME: a file of tests; its report is a result for each test.
servers_test()
{
	local name=$1 log=$servers/$1.log verdict test
	say "servers: $name"
	PERCPU=$build/percpu PYTHONDONTWRITEBYTECODE=1 "$servers/bin/python" -m pytest -rpfEs \
		-p no:cacheprovider --basetemp="$servers/tmp" --durations=5 "bindings/python/tests/servers/test_$name.py" |
		tee "$log" || true
	grep -q '^=.* in [0-9.]*s' "$log" || record FAIL "servers: $name" 'it printed no summary'
	while read -r verdict test; do
		case $verdict in
		PASSED) record PASS "servers: ${test#*servers/test_}" ;;
		FAILED | ERROR) record FAIL "servers: ${test#*servers/test_}" ;;
		SKIPPED) record SKIP "servers: $name" "$test" ;;
		esac
	done < <(grep -E '^(PASSED|FAILED|ERROR|SKIPPED) ' "$log" || true)
}

# test_servers NAME...: all of bindings/python/tests/servers, or these.
test_servers()
{
	local name names
	setup_servers
	: >"$results"
	has_cargo "$tool_cargo" || die "the tool percpu needs cargo $tool_cargo"
	step 'servers: build' build_servers
	step 'servers: types' check_servers
	if [ $# = 0 ]; then
		mapfile -t names < <(printf '%s\n' bindings/python/tests/servers/test_*.py |
			sed -E 's,.*/test_(.*)\.py,\1,')
		set -- "${names[@]}"
	fi
	for name in "$@"; do servers_test "$name"; done
	summary
}
