# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# build.sh - build directories; what is run from them for a person to see.

gently=() # what runs that which builds, where tests run beside it

# set_up NAME OPTION...: a build directory of that name.
set_up()
{
	local dir=$build/$1
	shift
	if [ ! -f "$dir/build.ninja" ]; then
		meson setup "$dir" -Dtool=disabled "$@" # tools/dev/rust.sh builds it
	elif [ -n "$fetched" ]; then # there may be more to build now
		meson setup --reconfigure "$dir"
	fi
}

# configure NAME OPTION...: the same, and all in it is up to date.
configure()
{
	set_up "$@" && "${gently[@]}" meson compile -C "$build/$1"
}

# configure_tests NAME OPTION...: or only what its tests need; new ones are listed only once
# build.ninja is new.
configure_tests()
{
	set_up "$@" && ninja -C "$build/$1" build.ninja &&
		list_tests "$1" | tools/dev/needed.py "$build/$1" |
		"${gently[@]}" xargs ninja -C "$build/$1"
}

# set_up_for COMPILER: build/COMPILER. The benchmarks, in C++, take most of the time, so
# one of the two has them, where there is what they need; to see that they are built:
# "bench" measures by those of another directory.
set_up_for()
{
	local options=(-Dbenchmarks=auto '-Dcpp_args=-O0 -g0')
	[ "$1" = gcc ] || options=(-Dbenchmarks=disabled)
	# Nobody debugs what CI has built: this is enough for traces, and takes an eighth less.
	[ -z "${CI-}" ] || options+=(-Dc_args=-g1)
	CC=$1 set_up "$1" -Dwerror=true "${options[@]}"
}

# compile COMPILER: what is in that directory.
compile()
{
	set_up_for "$1" && "${gently[@]}" meson compile -C "$build/$1"
}

# The same, with benchmarks, examples and tests: after setup. What was configured
# when less was installed looks again.
set_up_all()
{
	local parts=(-Dexamples=enabled -Dtests=enabled)
	[ "$1" != gcc ] || parts+=(-Dbenchmarks=enabled)
	[ ! -f "$build/$1/build.ninja" ] || meson configure "$build/$1" "${parts[@]}" || return
	set_up_for "$1" && ninja -C "$build/$1" build.ninja
}

compile_all()
{
	set_up_all "$1" && compile "$1"
}

# compile_needed COMPILER NAME...: what the tests in that directory need, and what has these names, or
# is below these folders.
compile_needed()
{
	set_up_all "$1" && list_tests "$1" | tools/dev/needed.py "$build/$1" "${@:2}" |
		"${gently[@]}" xargs ninja -C "$build/$1"
}

# The benchmarks are right, as a compiler sees it: what they share, and "which", which has an update of
# each object. All of them take ten times as long; "./dev test --configurations" builds them.
check_benchmarks()
{
	set_up_all gcc >/dev/null &&
		python3 tools/dev/syntax.py "$build/gcc/compile_commands.json" bench |
		(cd "$build/gcc" && "${gently[@]}" xargs -r -d '\n' -P "$(nproc)" -n 1 sh -c)
}

build()
{
	local compiler=gcc
	case "${1-} ${2-}" in
	' ') ;;
	'--cc gcc' | '--cc clang') compiler=$2 ;;
	*)
		echo "dev: build takes --cc gcc or --cc clang, and not \"$*\"." \
			"A part of it: ninja -C build/gcc examples/status" >&2
		exit 2
		;;
	esac
	[ "$compiler" = gcc ] || for_build+=("${for_clang[@]}")
	require "${for_build[@]}"
	compile "$compiler"
	! has_cargo "$tool_cargo" || build_tool
}

# What the demo of the server needs, built so that it is there soon.
build_for_demo()
{
	say 'The server of examples/prefork'
	set_up_for gcc >/dev/null && ninja -C "$build/gcc" examples/prefork/prefork || return
	say 'The tool percpu'
	cargo build --locked --manifest-path $crates/Cargo.toml --target-dir "$rust" -p percpu-tool
}

# demo [packets]: show a server under load; or packets that are counted.
demo()
{
	local wanted
	case "$*" in
	'')
		require
		mapfile -t wanted < <(missing "${for_prefork[@]}")
		fetch "${wanted[@]}"
		setup_rust
		has_cargo "$tool_cargo" || die "the demo is of the tool percpu, which needs cargo $tool_cargo"
		build_for_demo
		say 'The demo'
		exec examples/prefork/demo.py "$rust/debug/percpu" "$build/gcc/examples/prefork/prefork"
		;;
	packets)
		require "${for_demo[@]}"
		set_up_for gcc && ninja -C "$build/gcc" examples/ipstat
		exec examples/packets.sh "$build/gcc/examples"
		;;
	*)
		usage >&2
		exit 2
		;;
	esac
}

# The crates of bench/peers, if there is a cargo that can build them.
build_peers()
{
	local target=$build/peers
	! command -v cargo >/dev/null ||
		! cargo build --release --manifest-path bench/peers/Cargo.toml --target-dir "$target" ||
		export PERCPU_BENCH_PEERS=$target/release/libpeers.so
}

# The rows of bench/rust, likewise, with the library that their program is linked with.
build_rows()
{
	local target=$build/rows
	! command -v cargo >/dev/null ||
		! PKG_CONFIG_PATH=$build/release/meson-uninstalled cargo build --release \
			--manifest-path bench/rust/Cargo.toml --target-dir "$target" ||
		export PERCPU_BENCH_ROWS=$target/release/librows.so
}

# The tool, for the benchmark of its server.
build_served()
{
	! command -v cargo >/dev/null || ! crate build --release -p percpu-tool ||
		export PERCPU_BENCH_TOOL=$rust/release/percpu
}

# The benchmark of Python, by the interpreter of --python PATH or by python3, with the module as it
# is here. A free-threaded interpreter before 3.15 has no stable ABI.
bench_python()
{
	local python=python3 made limited
	[ "${1-}" != --python ] || { python=${2?--python takes a PATH}; shift 2; }
	have "$python" || die "no Python: $python"
	made=$build/python/bench-$("$python" -c 'import sys
print(sys.implementation.cache_tag + sys.abiflags)')
	limited=$("$python" -c 'import sys; print(str("t" not in sys.abiflags).lower())')
	[ -x "$made/bin/pip" ] || "$python" -m venv "$made"
	"$made/bin/pip" -q install 'meson>=1.3' 'meson-python>=0.17' ninja 'prometheus_client==0.26.0'
	PATH=$made/bin:$PATH "$made/bin/pip" -q install --no-build-isolation --no-deps --force-reinstall \
		"-Csetup-args=-Dpython.allow_limited_api=$limited" ./bindings/python
	mkdir -p "$build/bench"
	exec "$made/bin/python" -B bench/python/python.py --json "$build/bench/python.json" "$@"
}

bench()
{
	local wanted=()
	[ -n "${1-}" ] || { usage >&2; exit 2; }
	[ "$1" != python ] || bench_python "${@:2}"
	[ -n "$(find bench -name "$1.cc")" ] || die "no benchmark $1 in bench/"
	require "${for_bench[@]}"
	case $1 in
	counter9) mapfile -t wanted < <(missing "${peers_of_counter9[@]}") ;;
	objcache) mapfile -t wanted < <(missing "${peers_of_objcache[@]}") ;;
	grace | rwlock) mapfile -t wanted < <(missing "${peers_of_grace[@]}") ;;
	ring) mapfile -t wanted < <(missing "${peers_of_ring[@]}") ;;
	segment) mapfile -t wanted < <(missing "${peers_of_segment[@]}") ;;
	cpp | fcounter | gauge | histogram) mapfile -t wanted < <(missing "${peers_of_values[@]}") ;;
	esac
	fetch "${wanted[@]}"
	# Looks again each time for what has been installed to measure against.
	[ ! -f "$build/release/build.ninja" ] ||
		meson setup --reconfigure "$build/release" -Dpkg_config_path="${PKG_CONFIG_PATH-}"
	configure release --buildtype release -Dtests=disabled -Dexamples=disabled \
		-Dbenchmarks=enabled
	[ -x "$build/release/bench/$1" ] || die "no benchmark $1 in bench/"
	case $1 in histogram | scrape) build_peers ;; esac
	[ "$1" != scrape ] || build_served
	[ "$1" != rust ] || build_rows
	case $1 in
	segment | scrape) has_module prometheus_client || into_venv 'prometheus_client==0.26.0' ;;
	esac
	mkdir -p "$build/bench"
	exec "$build/release/bench/$1" --json "$build/bench/$1.json" "${@:2}"
}
