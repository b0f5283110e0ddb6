# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# rust.sh - the crates of bindings/rust: setup, tests, lint. All is built in build/rust.

rust=$build/rust
crates=bindings/rust
# The tests that pass on each tier.
on_each_tier=(--lib --test model --test histograms --test objects --test families --test segments
	--test errors --test regions --test held --test threads)
# Those of how a thread finds its area, and of the sequences that count there.
of_threads=(--lib --test model --test threads)
oldest_cargo=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' $crates/Cargo.toml)

oldest_rust=$build/oldest-rust
bindings_made_of=$crates/generate/bindings.sha256

# That of the tool, whose libraries need a newer one.
tool_cargo=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' tools/percpu/Cargo.toml)

# has_cargo VERSION: or a later one.
has_cargo()
{
	have cargo &&
		[ "$(printf '%s\n' "$1" "$(cargo --version | cut -d ' ' -f 2)" | sort -V |
			head -n 1)" = "$1" ]
}

new_cargo()
{
	has_cargo "$oldest_cargo"
}

# Debian 12 has a newer one than its "cargo" under another name.
setup_rust()
{
	has_cargo "$tool_cargo" || fetch cargo-web rustc-web
	new_cargo || fetch cargo rustc
	new_cargo || echo "setup: not there, what needs it is skipped: cargo $oldest_cargo"
	has_cargo "$tool_cargo" ||
		echo "setup: not there, the tool percpu is skipped: cargo $tool_cargo"
}

# crate VERB ARGUMENT...: cargo, for the crates, with the library compiled into them.
crate()
{
	"${gently[@]}" cargo "$1" -q --locked --manifest-path $crates/Cargo.toml --target-dir "$rust" \
		"${@:2}"
}

# What is built once, in release, and then run in several ways.
crate_tests()
{
	crate test --release -p percpu --features vendored "$@"
}

# oldest_crate VERB ARGUMENT...: as crate, by the oldest Rust.
oldest_crate()
{
	local libraries
	libraries=$(find "$oldest_rust"/{lib,usr} -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
	LD_LIBRARY_PATH=$libraries RUSTC=$oldest_rust/usr/bin/rustc "${gently[@]}" \
		"$oldest_rust/usr/bin/cargo" "$1" -q --locked --manifest-path $crates/Cargo.toml \
		--target-dir "$oldest_rust/target" "${@:2}"
}

# The tests on each tier, by the oldest Rust: its sequences leave by a number.
oldest_crate_tests()
{
	oldest_crate test --release -p percpu --features vendored "${on_each_tier[@]}"
}

# tap FILE COMMAND...: a command that prints TAP, which the file keeps.
tap()
{
	"${@:2}" >"$1" && ! grep -A3 '^not ok' "$1"
}

# The recorder for the facade metrics.
facade_tests()
{
	crate test --release -p percpu-metrics --features vendored
}

# A C program that counts together with those in Rust, with the library of the crate.
build_peer()
{
	local archive
	crate_tests --no-run || return
	archive=$(find "$rust/release/build" -path '*/percpu-sys-*/out/libpercpu.a' -printf '%T@ %p\n' |
		sort -n | tail -n 1 | cut -d ' ' -f 2)
	cc -std=gnu11 -O2 -Iinclude $crates/percpu/tests/peer.c "$archive" -pthread -o "$rust/peer"
}

# The server of examples/prefork, which counts in Rust; and beside that in C, in one segment.
rust_prefork()
{
	local parts=() name prefork=$PWD/examples/prefork
	crate rustc --release -p percpu --features vendored --example prefork || return
	for name in answer connection prefork worker; do parts+=("$prefork/$name.c"); done
	cc -std=gnu11 -O2 -D_GNU_SOURCE "${parts[@]}" "$rust/release/examples/libprefork.a" \
		-levent_core -lhttp_parser -pthread -ldl -lm -o "$rust/prefork" &&
		tap "$rust/prefork.tap" tests/cli/test_prefork.py "$rust/prefork" "$prefork/load.py" \
			"$prefork/latency.py" "$build/gcc/examples/prefork/prefork"
}

# Each example that is a program.
rust_examples()
{
	local name
	for name in counters stats limits ring shared; do
		crate run --release -p percpu --features vendored --example "$name" || return
	done
	for name in hello families; do
		crate run --release -p percpu --features vendored --example "$name" || return
		rm -f "/dev/shm/percpu.${name}_rust"
	done
}

# The same bindings as in the tree, made anew from the headers. Nobody debugs what makes them.
rust_bindings()
{
	local -x CARGO_PROFILE_DEV_DEBUG=0
	crate run -p generate | diff - $crates/percpu-sys/src/bindings.rs
}

# bindings_sum: of the bindings, and of what they are made of: the headers without comments, and what
# reads them.
bindings_sum()
{
	{
		find include -name '*.h' -print0 | LC_ALL=C sort -z | xargs -0 cat |
			cc -w -fpreprocessed -dD -E -P -x c - &&
			cat $crates/percpu-sys/{wrapper.h,src/bindings.rs} $crates/generate/{Cargo.toml,src/main.rs} &&
			grep -A 1 'name = "bindgen"' $crates/Cargo.lock
	} | sha256sum
}

# What makes the bindings takes as long to build as the crates and all of their tests. They are made
# anew only if something has changed since "bindings" wrote them; by lint, and with
# --configurations, always.
rust_bindings_if_changed()
{
	bindings_sum | cmp -s - "$bindings_made_of" || rust_bindings
}

# bindings: writes them.
bindings()
{
	require "${for_clang[@]}"
	setup_rust
	mkdir -p "$rust"
	crate run -p generate >"$rust/bindings.rs" &&
		cp "$rust/bindings.rs" $crates/percpu-sys/src/bindings.rs &&
		bindings_sum >"$bindings_made_of"
}

# A package has the C sources, to which the tree has symbolic links.
rust_packages()
{
	local package=$rust/package/percpu-sys-0.1.0.crate
	crate package --no-verify --allow-dirty -p percpu-sys -p percpu -p percpu-metrics &&
		tar -tzf "$package" | grep '/vendor/src/percpu_all\.c$' >/dev/null &&
		tar -xzOf "$package" percpu-sys-0.1.0/vendor/src/percpu_all.c | cmp - src/percpu_all.c
}

# rust_late TESTS...: the library as it is for what is loaded late, without optimization: how the
# crate finds a thread's area is tested here, and the library's code elsewhere.
rust_late()
{
	local -x CFLAGS=-O0
	local late=(--features 'vendored late')
	crate build --release -p percpu "${late[@]}" --example plugin &&
		crate test --release -p percpu "${late[@]}" "$@" --test plugin
}

# The tool, as build/percpu.
build_tool()
{
	crate build --release -p percpu-tool && cp "$rust/release/percpu" "$build/percpu" &&
		echo 'The tool is build/percpu: see docs/tool.md.'
}

# has_man_pages PERCPU FOLDER: whether each verb of the tool has its man page there.
has_man_pages()
{
	local verb
	for verb in $("$1" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'); do
		[ "$verb" = help ] || [ -s "$2/percpu-$verb.1" ] || { echo "no percpu-$verb.1"; return 1; }
	done
}

# The tool as Meson installs it.
tool_installed()
{
	local dir=$rust/tool
	rm -rf "$dir" && mkdir -p "$dir"
	meson setup "$dir/build" --prefix /usr -Dtests=disabled -Dexamples=disabled \
		-Dbenchmarks=disabled -Dtool=enabled >/dev/null &&
		CARGO_TARGET_DIR=$rust ninja -C "$dir/build" tools/percpu/percpu >/dev/null &&
		DESTDIR=$dir/root meson install -C "$dir/build" --no-rebuild --quiet \
			--tags percpu-tool >/dev/null &&
		"$dir/root/usr/bin/percpu" --version | grep '^percpu 0\.1\.0$' &&
		grep -F 'yes' "$dir/root/usr/share/man/man1/percpu-gc.1" >/dev/null &&
		has_man_pages "$dir/root/usr/bin/percpu" "$dir/root/usr/share/man/man1" &&
		bash -n "$dir/root/usr/share/bash-completion/completions/percpu.bash"
}

# The command-line tool, built once and without optimization, as is the library in it, and what it says
# of this machine and of the server of examples/prefork.
test_tool()
{
	local -x CFLAGS=-O0 CARGO_INCREMENTAL=0
	local prefork=$build/gcc/examples/prefork/prefork
	if ! has_cargo "$tool_cargo"; then
		record SKIP 'percpu' "no cargo $tool_cargo"
		return
	fi
	if [ -x "$prefork" ]; then
		PERCPU_PREFORK=$prefork step 'percpu: tests' crate test -p percpu-tool
		if have wrk; then
			step 'percpu: demo' examples/prefork/demo.py "$rust/debug/percpu" "$prefork" --seconds 4
		else
			record SKIP 'percpu: demo' 'no wrk'
		fi
		step 'percpu: prefork' tap "$rust/percpu.tap" tests/cli/test_percpu.py \
			"$rust/debug/percpu" "$prefork" examples/prefork/load.py
	else
		step 'percpu: tests' crate test -p percpu-tool
		record SKIP 'percpu: prefork' 'no libevent, or no http-parser'
	fi
	step 'percpu: doctor' tap "$rust/doctor.tap" tests/cli/test_doctor.py "$rust/debug/percpu"
}

# What builds the crates once more: by the oldest Rust, and the tool as users have it; the bindings;
# and the tests of the crates that the default suite leaves out where they are loaded late. Its
# status is $not_here where there is no cargo.
test_rust_again()
{
	new_cargo || return "$not_here"
	mkdir -p "$rust"
	step 'rust: bindings' rust_bindings
	step 'rust: loaded late, all tests' rust_late "${on_each_tier[@]}"
	if [ -x "$oldest_rust/usr/bin/rustc" ]; then
		step 'rust: oldest Rust' oldest_crate_tests
		PERCPU_TIER=cpu step 'rust: oldest Rust, tier cpu' oldest_crate_tests
	else
		record SKIP 'rust: oldest Rust' "no package of Rust $oldest_cargo"
	fi
	if has_cargo "$tool_cargo"; then
		step 'percpu: installed' tool_installed
	else
		record SKIP 'percpu' "no cargo $tool_cargo"
	fi
}

# Its status is $not_here where there is no cargo.
test_rust()
{
	new_cargo || return "$not_here"
	mkdir -p "$rust"
	step 'rust: a program in C beside it' build_peer
	PERCPU_PEER=$rust/peer step 'rust: tests' crate_tests
	PERCPU_TIER=cpu step 'rust: tier cpu' crate_tests "${on_each_tier[@]}"
	PERCPU_TIER=shared step 'rust: tier shared' crate_tests "${on_each_tier[@]}"
	GLIBC_TUNABLES=glibc.pthread.rseq=0 step 'rust: own registration' crate_tests "${on_each_tier[@]}"
	step 'rust: examples' rust_examples
	if [ -x "$build/gcc/examples/prefork/prefork" ]; then
		step 'rust: prefork' rust_prefork
	else
		record SKIP 'rust: prefork' 'no libevent, or no http-parser'
	fi
	step 'rust: metrics' facade_tests
	step 'rust: object code' tests/objects/rust.py . "$rust/objects"
	step 'rust: loaded late' rust_late "${of_threads[@]}"
	step 'rust: packages' rust_packages
	step 'rust: bindings' rust_bindings_if_changed
	test_tool
}

lint_rustfmt()
{
	cargo fmt --check --manifest-path bench/peers/Cargo.toml &&
		cargo fmt --check --manifest-path bench/rust/Cargo.toml &&
		cargo fmt --all --check --manifest-path $crates/Cargo.toml
}

# The crates are built by the oldest Rust that they are for.
lint_oldest_rust()
{
	oldest_crate check -p percpu -p percpu-metrics --all-targets --features percpu/vendored
}

lint_crates()
{
	crate clippy --release --all-targets --features percpu/vendored -- -D warnings &&
		{ ! has_cargo "$tool_cargo" ||
			crate clippy --release --all-targets -p percpu-tool -- -D warnings; }
}
