#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Use the library in each supported way: installed (pkg-config, CMake), embedded (Meson), vendored
# (one file). Headers alone: headers.sh.
#
#	run.sh SOURCE WORK
#
# By all compilers, in all dialects, and with the builds of users, if PERCPU_TEST_COMPILERS is
# "all". Prints TAP; the tools' output is in WORK/log.
. "$(dirname "$0")/tap.sh"
prefix=$work/prefix
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
strict=(-Wall -Wextra -Werror -pedantic)

# How Meson builds the library. All other tests compile it unit by unit, and optimized; here it is
# one unit, which takes a fifth of the time.
one_unit=(--unity-size 1000)
installed=(--buildtype plain --unity on "${one_unit[@]}")
embedded=(--buildtype plain --unity subprojects "${one_unit[@]}")
if [ "$many" = all ]; then
	installed=(--buildtype release)
	embedded=()
fi

# have NAME TOOL: returns whether the tool is there; if not, the check is skipped.
have()
{
	command -v "$2" >/dev/null && return
	count=$((count + 1))
	echo "ok $count - $1 # SKIP no $2"
	return 1
}

# The consumer counts exactly, and on the tier that the installed library has.
runs()
{
	local tier
	tier=$(timeout 60 "$@") || { echo "$*: failed: $tier"; return 1; }
	tier=${tier#tier=}
	echo "$*: tier $tier"
	[ "$tier" = "${expected_tier:-$tier}" ]
}

runs_unchanged()
{
	timeout 60 "$1" || { echo "$1: $?"; return 1; }
}

# With only a C compiler, Meson and their dependencies, which README.md names: without options, the
# build needs nothing else.
install_library()
{
	local tool parts=(-Dtests=disabled -Dexamples=disabled -Dbenchmarks=disabled -Dtool=disabled)
	mkdir bare
	for tool in cc as ld ar nm readelf ninja meson python3 pkg-config env sh rm; do
		command -v "$tool" >/dev/null && ln -s "$(command -v "$tool")" "bare/$tool"
	done
	PATH=$work/bare PKG_CONFIG_LIBDIR=$work/none meson setup "$work/all" "$src" &&
		PATH=$work/bare PKG_CONFIG_LIBDIR=$work/none meson setup "$work/build" "$src" \
			--prefix "$prefix" --libdir lib -Dwerror=true "${installed[@]}" \
			"${parts[@]}" &&
		PATH=$work/bare meson install -C "$work/build"
}

shows_nothing()
{
	"$prefix/bin/percpu-show" "$prefix/none" 2>&1 | grep 'there is no such file'
}

# No feature that the oldest supported Meson does not have.
oldest_meson()
{
	meson setup oldest "$src" --fatal-meson-warnings -Dbenchmarks=disabled
}

exported_symbols()
{
	local name
	{
		sed -n 's/^\t\([a-z_0-9]*\);$/\1/p' "$src/src/libpercpu.map"
		printf '%s\n' clone vfork __wrap_clone __wrap_vfork
	} | sort >listed
	for name in percpu percpu-late; do
		nm -D --defined-only "$prefix/lib/lib$name.so" | awk '$2 != "A" { print $3 }' |
			sed 's/@.*//' | sort >"exported-$name"
	done
	diff listed exported-percpu && grep -vx percpu_self listed | diff - exported-percpu-late
}

# The version in the headers is the package's.
version()
{
	echo PERCPU_VERSION_MAJOR.PERCPU_VERSION_MINOR.PERCPU_VERSION_PATCH |
		cc -E -P -I"$prefix/include" -include percpu/base.h - | tail -n 1 | tr -d ' ' >version &&
		pkg-config --modversion percpu | diff version -
}

# A library that was linked without this one gets this one's vfork all the same.
interposition()
{
	cc -shared -fPIC "$here/plugin.c" -o libplugin.so &&
		cc -DMAIN "$here/plugin.c" ./libplugin.so -L"$prefix/lib" -Wl,--no-as-needed -lpercpu \
			-Wl,-rpath,"$prefix/lib" -o plugin &&
		LD_BIND_NOW=1 LD_DEBUG=bindings ./plugin 2>links &&
		grep 'libplugin.so.* to .*libpercpu.so.*vfork' links
}

dynamic_section()
{
	local name
	for name in percpu percpu-late; do
		readelf -d "$prefix/lib/lib$name.so" >dynamic
		grep -q "SONAME.*\[lib$name\.so\.0\]" dynamic && grep -q 'NODELETE' dynamic || return
	done
	! readelf -lW "$prefix/lib/libpercpu-late.so" | grep -w TLS
}

# The flags are words, not a file name.
# shellcheck disable=SC2046
pkgconfig_shared()
{
	cc -O2 "$here/consumer.c" -o shared $(pkg-config --cflags --libs percpu) \
		-Wl,-rpath,"$prefix/lib" &&
		readelf -d shared | grep -q 'NEEDED.*libpercpu\.so\.0' && runs ./shared
}

# shellcheck disable=SC2046
pkgconfig_static()
{
	cc -O2 "$here/consumer.c" -o static -static $(pkg-config --static --cflags --libs percpu) &&
		runs ./static
}

# FreeBSD's include lines; without the flag for them they find none of these headers.
# shellcheck disable=SC2046
pkgconfig_freebsd()
{
	cc -O2 "$here/freebsd_unchanged.c" -o unchanged $(pkg-config --cflags --libs percpu-freebsd) \
		-Wl,-rpath,"$prefix/lib" -pthread && runs_unchanged ./unchanged &&
		! cc -c "$here/freebsd_unchanged.c" -o unchanged.o $(pkg-config --cflags percpu)
}

# shellcheck disable=SC2046
pkgconfig_dragonfly()
{
	cc -O2 "$here/dragonfly_unchanged.c" -o unchanged \
		$(pkg-config --cflags --libs percpu-dragonfly) -Wl,-rpath,"$prefix/lib" -pthread &&
		runs_unchanged ./unchanged &&
		! cc -c "$here/dragonfly_unchanged.c" -o unchanged.o $(pkg-config --cflags percpu)
}

# shellcheck disable=SC2046
pkgconfig_freebsd_late()
{
	cc -O2 "$here/freebsd_unchanged.c" -o unchanged \
		$(pkg-config --cflags --libs percpu-freebsd-late) -Wl,-rpath,"$prefix/lib" \
		-pthread && runs_unchanged ./unchanged &&
		readelf -d unchanged | grep -q 'NEEDED.*libpercpu-late\.so\.0' &&
		! readelf -d unchanged | grep -q 'NEEDED.*libpercpu\.so'
}

# loaded_late OPTION...: a plugin, in a program that does not know of the library.
loaded_late()
{
	cc -O2 "$src/tests/matrix/host.c" -o host -pthread -ldl &&
		cc -O2 -shared -fPIC "$src/tests/matrix/late.c" -o late.so "$@" \
			-Wl,-rpath,"$prefix/lib" -pthread && runs ./host ./late.so
}

# shellcheck disable=SC2046
pkgconfig_late()
{
	loaded_late $(pkg-config --cflags --libs percpu-late) &&
		readelf -d late.so | grep -q 'NEEDED.*libpercpu-late\.so\.0'
}

archive_late()
{
	loaded_late -DPERCPU_LATE -I"$prefix/include" "$prefix/lib/libpercpu-late.a" \
		-Wl,-z,nodelete -Wl,--wrap=vfork -Wl,--wrap=clone
}

archive()
{
	cc "$@" "$here/consumer.c" -I"$prefix/include" "$prefix/lib/libpercpu.a" -o archive -pthread &&
		runs ./archive
}

cmake_package()
{
	cmake -G Ninja -S "$here/cmake" -B cmake -DCMAKE_PREFIX_PATH="$prefix" &&
		cmake --build cmake && runs cmake/percpu && runs cmake/static &&
		runs_unchanged cmake/freebsd && runs_unchanged cmake/dragonfly && runs ./host cmake/liblate-module.so &&
		runs ./host cmake/liblate_static-module.so
}

# meson_subproject KIND TARGET...
meson_subproject()
{
	local kind=$1
	shift
	rm -rf embed && mkdir -p embed/subprojects &&
		cp "$here/meson/meson.build" "$here/consumer.c" "$here/freebsd_unchanged.c" \
			"$src"/tests/matrix/late.[ch] "$src"/tests/matrix/values.h embed/ &&
		ln -s "$src" embed/subprojects/percpu &&
		meson setup "embed-$kind" embed --default-library "$kind" \
			--wrap-mode forcefallback "${embedded[@]}" &&
		meson compile -C "embed-$kind" "$@" && runs "embed-$kind/consumer" &&
		runs_unchanged "embed-$kind/unchanged"
}

# one_file COMPILER OPTIONS LINKED...: options of the compiler, and of the linker.
# shellcheck disable=SC2086 # words
one_file()
{
	local compiler=$1
	whole one-file.o "$compiler" $2 &&
		$compiler -std=gnu11 "${strict[@]}" $2 "${@:3}" -I"$src/include" \
			"$here/consumer.c" one-file.o -o one-file -pthread && runs ./one-file
}

# musl-gcc has no kernel headers, and none are needed.
musl()
{
	one_file musl-gcc "$quick" -static
}

# The whole program in a dialect, with and without optimization.
dialect()
{
	local compiler=$1 std=$2 optimize language=c
	case $std in *++*) language=c++ ;; esac
	for optimize in -O0 -O2; do
		$compiler -x $language -std="$std" "${strict[@]}" $optimize -D_GNU_SOURCE \
			-I"$prefix/include" "$here/consumer.c" -x none "$prefix/lib/libpercpu.a" \
			-o dialect -pthread && runs ./dialect || return
	done
}

cpp_inline()
{
	local compiler=$1 optimize
	for optimize in -O0 -O2; do
		$compiler $optimize -I"$prefix/include" -c "$here/inline.cc" -o first.o &&
			$compiler $optimize -I"$prefix/include" -DSECOND -c "$here/inline.cc" \
				-o second.o &&
			$compiler first.o second.o "$prefix/lib/libpercpu.a" -o inline -pthread &&
			timeout 60 ./inline || return
	done
}

# As in most kernels of x86-64.
i686_runs()
{
	/usr/i686-linux-gnu/lib/ld-linux.so.2 --version >/dev/null 2>&1
}

one_file_i686()
{
	expected_tier=cpu one_file i686-linux-gnu-gcc "$quick" -static
}

check 'install' install_library
[ -e "$prefix/lib/libpercpu.a" ] || { echo "1..$count"; exit 1; }
check 'exported symbols are those of the map' exported_symbols
check 'soname, nodelete, and no thread-local storage of the late one' dynamic_section
check 'version' version
check 'pkg-config, shared' pkgconfig_shared
expected_tier=$(./shared)
check 'percpu-show is installed' shows_nothing
check 'Meson as old as is said' oldest_meson
check "pkg-config, FreeBSD's include lines" pkgconfig_freebsd
check "pkg-config, DragonFly's include lines" pkgconfig_dragonfly
check "another library's vfork" interposition
check 'pkg-config, static program' pkgconfig_static
check 'pkg-config, loaded late' pkgconfig_late
check "pkg-config, FreeBSD's include lines, loaded late" pkgconfig_freebsd_late
check 'archive, loaded late' archive_late
check 'archive, position-independent' archive -O2 -fPIE -pie
check 'archive, no-pie and LTO' archive -O2 -no-pie -flto
have 'CMake package' cmake && check 'CMake package' cmake_package
check 'Meson subproject, shared' meson_subproject shared consumer unchanged
check 'Meson subproject, static' meson_subproject static
check 'Meson subproject, loaded late' runs ./host embed-static/liblate.so

for compiler in "${c_compilers[@]}"; do
	have "$compiler" "$compiler" || continue
	stds=(c11)
	check "one file, $compiler $quick" one_file "$compiler" "$quick"
	if [ "$many" = all ]; then
		check "one file, $compiler -O0" one_file "$compiler" -O0
		check "one file, $compiler -O3 and LTO" one_file "$compiler" '-O3 -flto'
		stds+=(gnu11 c17)
	fi
	for std in "${stds[@]}"; do
		check "program, $compiler $std" dialect "$compiler" "$std"
	done
done
if i686_runs; then
	have 'one file, i686' i686-linux-gnu-gcc && check 'one file, i686' one_file_i686
fi
have 'one file, musl' musl-gcc && check 'one file, musl' musl

for compiler in "${cpp_compilers[@]}"; do
	have "$compiler" "$compiler" || continue
	stds=(c++17)
	[ "$many" != all ] || stds+=(c++20)
	for std in "${stds[@]}"; do
		check "program, $compiler $std" dialect "$compiler" "$std"
	done
	check "inline functions in two units, $compiler" cpp_inline "$compiler"
done
finish
