# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# lint.sh - format, layers, static analysis, scripts.

# Prints the files of the tree, each ended by a zero byte, that match a find(1) expression.
files()
{
	find . \( -name .git -o -name 'build*' -o -name target \) -prune -o -type f \( "$@" \) -print0
}

lint_format()
{
	files -name '*.[ch]' -o -name '*.cc' -o -name '*.hpp' | xargs -0 clang-format --dry-run -Werror --ferror-limit=3
}

# lint_tidy EXPRESSION: units whose paths do not match; and all but those that are the
# whole library, which is looked at by its parts. Each once, although several libraries
# have it: clang-tidy would look at it as often. What differs where the library is loaded
# late is in one source, looked at in both ways.
#
# lint_tidy EXPRESSION --soon: without the analyzer, which takes most of the time.
lint_tidy()
{
	local how=()
	[ "${2-}" != --soon ] || how=('--checks=-clang-analyzer-*')
	set_up_all clang >/dev/null && mkdir -p "$build/tidy" || return
	python3 tools/dev/units.py "$build/clang/compile_commands.json" \
		"$build/tidy/compile_commands.json" "one_unit\\.c\$|$1" |
		(cd "$build/clang" &&
			"${gently[@]}" xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "$build/tidy" \
				"${how[@]}" 2>&1) |
		sed '/warnings\? generated\.$/d'
}

# The same, soon, of the examples; and of the library in one unit, which takes a tenth of the time.
lint_tidy_shortly()
{
	"${gently[@]}" clang-tidy --quiet --checks='-clang-analyzer-*,-bugprone-suspicious-include' \
		src/percpu_all.c -- -std=gnu11 -Iinclude 2>&1 | sed '/warnings\? generated\.$/d' &&
		lint_tidy '/(src|tests)/' --soon
}

# Arrows go down only; and the library in one unit is all of it.
lint_rooms()
{
	python3 tools/dev/arrows.py && python3 tools/dev/statics.py src/*/*.c &&
		python3 tools/dev/statics.py bindings/python/src/*.c &&
		diff <(sed -n "s/^  '\(.*\.c\)',\$/\1/p" src/meson.build) \
			<(sed -n 's/^#include "\(.*\.c\)"$/\1/p' src/percpu_all.c)
}

# A file is read in one sitting: lines of a file and of a function's body. Functions of classes are
# indented, and short.
lint_lengths()
{
	lint_lengths_of_rust || return
	awk 'FNR == 1 { most = FILENAME ~ /\/arch\// ? 600 : 450; begin = 0 }
		FNR == most + 1 { print FILENAME ": more than " most " lines"; bad = 1 }
		/^\{/ && FILENAME !~ /hpp$/ { begin = FNR }
		/^\}/ && begin && FNR - begin > 51 { print FILENAME ":" begin ": more than 50 lines"; bad = 1 }
		/^\}/ { begin = 0 }
		END { exit bad }' src/*/*.[ch] bindings/python/src/*.[ch] include/percpu/*.h include/percpu/*/*.h include/percpu/*.hpp include/percpu/*/*.hpp
}

# Functions in Rust end at a brace below their first letter. Tests may be long, their files not; the
# bindings are generated.
lint_lengths_of_rust()
{
	files -path './bindings/rust/*.rs' -not -name bindings.rs -o -path './bench/*.rs' -o \
		-path './tools/*.rs' |
		xargs -0 awk 'FNR == 1 { begin = 0 }
		FNR == 451 { print FILENAME ": more than 450 lines"; bad = 1 }
		/^ *(pub(\([a-z]+\))? )?(const )?(unsafe )?(extern "C" )?fn / && FILENAME ~ /(rust|tools)\/.*\/src\// {
			begin = FNR; depth = match($0, /[^ ]/) }
		/^ *}$/ && begin && match($0, /[^ ]/) == depth {
			if (FNR - begin > 51) { print FILENAME ":" begin ": more than 50 lines"; bad = 1 }
			begin = 0 }
		END { exit bad }'
}

# Each public function says from where it may be called, what it orders, whether it waits.
lint_promises()
{
	python3 tools/dev/promises.py include/percpu/*.h include/percpu/{freebsd,dragonfly,netbsd,linux}/*.h
}

# Compilers warn of the dropped results that the rule in base.h names.
lint_mustcheck()
{
	python3 tools/dev/mustcheck.py include/percpu/*.h
}

# Each limit that a public header states has a row in a test's table.
lint_bounds()
{
	python3 tools/dev/bounds.py tests/unit/all/test_bounds.c include/percpu/*.h
}

# Each exported function that can fail is called while calls of libc fail.
lint_sweep()
{
	python3 tools/dev/swept.py tests/unswept.txt src/libpercpu.map \
		include/percpu/*.h include/percpu/{freebsd,dragonfly,netbsd,linux}/*.h
}

lint_links()
{
	files -name '*.md' | xargs -0 python3 tools/dev/links.py
}

# The functions that the models name are where they say.
lint_models()
{
	python3 tools/dev/models.py tests/models/*.pml
}

# Where a state is looked at again, a test can change it before.
lint_rechecks()
{
	python3 tools/dev/rechecks.py tests/rechecks.txt src/*/*.[ch]
}

# What dev sources is looked at with it.
lint_shell()
{
	{ printf 'dev\0.ci/run\0'; files -name '*.sh' -not -path './tools/dev/*'; } |
		xargs -0 shellcheck -x -P SCRIPTDIR
}

lint_python()
{
	files -name '*.py' -o -name '*.pyi' | xargs -0 ruff check --no-cache --line-length 100 &&
		files -name '*.py' -o -name '*.pyi' | xargs -0 ruff format --no-cache --line-length 100 --diff
}

# The scripts here that judge: what they find, and what they let pass.
lint_scripts()
{
	python3 -B -m unittest discover -q -s tests/tools
}

# The Rust that there is: the crates, and what a benchmark measures against.
lint_rust()
{
	if ! cargo fmt --version >/dev/null 2>&1; then
		record SKIP 'lint: rustfmt' 'no rustfmt'
	else
		step 'lint: rustfmt' lint_rustfmt
	fi
}

lint_clippy()
{
	cargo clippy --release --manifest-path bench/peers/Cargo.toml \
		--target-dir "$build/peers" -- -D warnings &&
		cargo clippy --release --manifest-path bench/rust/Cargo.toml \
			--features percpu/vendored --target-dir "$build/rust-bench" -- -D warnings &&
		lint_crates
}

lint_quickly()
{
	step 'lint: clang-format' lint_format
	step 'lint: rooms of src/' lint_rooms
	step 'lint: lengths' lint_lengths
	step 'lint: what fails in sweeps' lint_sweep
	step 'lint: links' lint_links
	step 'lint: pictures' lint_pictures
	step 'lint: promises of public functions' lint_promises
	step 'lint: results of public functions' lint_mustcheck
	step 'lint: limits of public functions' lint_bounds
	step 'lint: models' lint_models
	step 'lint: what is looked at again' lint_rechecks
	step 'lint: selections of tests' lint_selections
	step 'lint: shellcheck' lint_shell
	step 'lint: ruff' lint_python
	step 'lint: tests of scripts' lint_scripts
	lint_rust
}

lint()
{
	require "${for_lint[@]}"
	require_ruff
	mkdir -p "$build" && : >"$results"
	lint_quickly
	step 'lint: clang-tidy' lint_tidy /tests/
	# The analyzer does not know that what a test asserts holds afterwards.
	step 'lint: clang-tidy, tests' lint_tidy '/(src|examples)/' --soon
	if has_python; then
		step 'lint: clang-tidy, Python' lint_tidy_python
		step 'lint: mypy' lint_mypy
	else
		record SKIP 'lint: Python' 'no Python 3.10, or no headers of it'
	fi
	if cargo clippy --version >/dev/null 2>&1; then
		step 'lint: clippy' lint_clippy
	else
		record SKIP 'lint: clippy' 'no clippy'
	fi
	if [ -x "$oldest_rust/usr/bin/rustc" ]; then
		step 'lint: oldest Rust' lint_oldest_rust
	else
		record SKIP 'lint: oldest Rust' "no package of Rust $oldest_cargo"
	fi
	if new_cargo; then
		step 'lint: bindings for Rust' rust_bindings
	else
		record SKIP 'lint: bindings for Rust' "no cargo $oldest_cargo"
	fi
	summary
}
