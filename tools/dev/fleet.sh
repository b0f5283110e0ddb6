# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# fleet.sh - the tool percpu beside what others run: Prometheus, node_exporter, receivers of
# OpenTelemetry, a browser, and machines that are network namespaces.

for_fleet=(
	"${for_prefork[@]}" 'have curl curl' 'have ip iproute2' 'have chromium chromium'
)

# Packages that would run a server: they are unpacked and not installed.
unpack_servers()
{
	local package
	for package in prometheus prometheus-node-exporter; do
		have "$package" && continue
		have apt-get || return 0
		echo "setup: $package, into build/promtool"
		mkdir -p "$promtool" && (
			cd "$promtool" && apt-get -qq download "$package" &&
				dpkg-deb --fsys-tarfile "${package}"_*.deb | tar -x ./usr/bin
			rm -f ./*.deb
		) || true
	done
}

setup_fleet()
{
	local wanted
	require
	mapfile -t wanted < <(missing "${for_fleet[@]}")
	fetch "${wanted[@]}"
	setup_rust
	unpack_servers
	# Receivers of OpenTelemetry.
	has_module oteltest || into_venv 'oteltest==0.49.0'
	has_module oteltap || into_venv 'oteltap==1.0.0'
}

# A collector of OpenTelemetry, where there is a Go that can build it.
build_collector()
{
	! have go || (cd tests/fleet/collector && go build -o "$build/fleet/collector" .)
}

# The tool with all of its features, and what counts for it.
build_fleet()
{
	build_for_demo &&
		crate build -p percpu-tool --features percpu-tool/grpc --example counting --bin percpu
}

# fleet_test NAME: its TAP is a result for each test.
fleet_test()
{
	local name=$1 log=$build/fleet/$1.tap line collector=()
	[ ! -x "$build/fleet/collector" ] || collector=("$build/fleet/collector")
	say "fleet: $name"
	tests/fleet/test_"$name".py "$rust/debug/percpu" "$build/gcc/examples/prefork/prefork" \
		examples/prefork/load.py "${collector[@]}" | tee "$log"
	grep -q '^1\.\.[1-9]' "$log" || record FAIL "fleet: $name" 'it printed no plan'
	while read -r line; do
		case $line in
		'not ok '*) record FAIL "fleet: $name: ${line#* - }" ;;
		*'# SKIP '*) record SKIP "fleet: $name" "${line#*# SKIP }" ;;
		'ok '*) record PASS "fleet: $name: ${line#* - }" ;;
		esac
	done <"$log"
}

# test_fleet NAME...: all of tests/fleet, or these.
test_fleet()
{
	local name names
	setup_fleet
	mkdir -p "$build/fleet" && : >"$results"
	has_cargo "$tool_cargo" || die "the tool percpu needs cargo $tool_cargo"
	step 'fleet: build' build_fleet
	build_collector || record SKIP 'fleet: collector' 'go could not build it'
	if [ $# = 0 ]; then
		mapfile -t names < <(printf '%s\n' tests/fleet/test_*.py | sed -E 's,.*/test_(.*)\.py,\1,')
		set -- "${names[@]}"
	fi
	for name in "$@"; do fleet_test "$name" || true; done
	summary
}
