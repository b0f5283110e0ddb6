#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The headers as programs compile them: each alone, and all inline functions, in each dialect, with
# the warnings that users and kernels enable for their own code; with old compilers, in the other
# assembly syntax, and as FreeBSD's.
#
#	headers.sh SOURCE WORK
#
# By all compilers and in all dialects if PERCPU_TEST_COMPILERS is "all". Prints TAP; the
# compilers' output is in WORK/log.
. "$(dirname "$0")/tap.sh"
error=wrong # a compiler's "error" is expected
include=(-I"$src/include")
warnings=(-Wall -Wextra -Werror -pedantic -Wconversion -Wsign-conversion -Wcast-qual -Wshadow
	-Wundef -Wpointer-arith -Wmissing-declarations)
warnings_c=(-Wstrict-prototypes -Wmissing-prototypes -Wnested-externs)
warnings_cpp=(-Wold-style-cast)
warnings_headers=(-Wzero-as-null-pointer-constant) # in C++; sources that are C, too, have NULL

# In the dialect STD: sets "dialect" to the compiler's arguments, "strictest" to those for headers
# alone, and "cpp_headers" to the headers of C++ if it has them.
speak()
{
	cpp_headers=()
	case $1 in c++17 | c++2*) cpp_headers=("$src"/include/percpu/{,cpp/}*.hpp) ;; esac
	dialect=(-x c -std="$1" "${warnings[@]}" "${warnings_c[@]}")
	case $1 in *++*) dialect=(-x c++ -std="$1" "${warnings[@]}" "${warnings_cpp[@]}") ;; esac
	strictest=("${dialect[@]}")
	case $1 in *++*) strictest+=("${warnings_headers[@]}") ;; esac
}

# alone COMPILER STD: compile each header alone, without code, as it is and for code that is loaded
# late.
alone()
{
	local compiler=$1 header linked ways=(-UPERCPU_LATE)
	speak "$2"
	# Code that is loaded late differs in one header of C: one language is enough for it.
	case $1$many in gcc | *all) ways+=(-DPERCPU_LATE) ;; esac
	for header in "$src"/include/percpu/{,freebsd/,dragonfly/,netbsd/,linux/}*.h \
		"$src"/include/percpu/{freebsd,dragonfly,netbsd,linux}/compat/*/*.h \
		"$src"/include/percpu/arch/{self,generic}.h \
		"${cpp_headers[@]}"; do
		echo "${header##*/}"
		for linked in "${ways[@]}"; do
			"$compiler" "${strictest[@]}" -O2 "${include[@]}" "$linked" \
				-include "$header" -fsyntax-only /dev/null || return
		done
	done
}

# together COMPILER STD: all headers in one unit, but for DragonFly's sf_buf and Linux's
# percpu_counter, whose names others have for other functions; and in C++ for NetBSD's struct percpu,
# as percpu is a namespace.
together()
{
	local others='dragonfly/sfbuf|linux/percpu_counter'
	speak "$2"
	[ ${#cpp_headers[@]} = 0 ] || others+='|netbsd/percpu'
	printf '#include "%s"\n' "$src"/include/percpu/{,freebsd/,dragonfly/,netbsd/,linux/}*.h \
		"${cpp_headers[@]}" |
		grep -Ev "$others" >all.h
	"$1" "${strictest[@]}" -O2 "${include[@]}" -include ./all.h -fsyntax-only /dev/null
}

# optimized COMPILER STD: code of each inline function, at each level: warnings about variables
# differ by level.
optimized()
{
	local compiler=$1 headers level levels=(-Og -O2)
	[ "$many" != all ] || levels=(-Og -Os -O1 -O2 -O3)
	speak "$2"
	for headers in "$src"/include/percpu{,/freebsd,/netbsd,/linux,/dragonfly}; do
		printf '#include "%s"\n' "$headers"/*.h >uses.c
		{
			echo 'extern const void *const uses[];'
			echo 'const void *const uses[] = { 0,'
			sed -nE 's/^(PERCPU_INLINE|static inline) [^(]*[ *]([a-z0-9_]+)\(.*/(const void *)\2,/p' \
				"$headers"/*.h
			echo '};'
		} >>uses.c
		for level in "${levels[@]}"; do
			"$compiler" "${dialect[@]:0:3}" -Wall -Wextra -Werror "$level" \
				"${include[@]}" -c uses.c -o uses.o || return
		done
	done
	nm uses.o | grep objcache_get
}

# spec.h declares each sequence, so a port that lacks one does not compile.
port_lacks()
{
	local compiler=$1 sequence
	for sequence in add pop append4; do
		sed "s/percpu_seq_$sequence(/percpu_other_$sequence(/" \
			"$src/include/percpu/arch/generic.h" >lacking.h
		! "$compiler" -std=gnu11 -Wall -Werror "${include[@]}" -DPERCPU_GENERIC \
			-include ./lacking.h -c "$here/../objects/sequences.c" -o lacking.o 2>lacking.txt || return
		grep "percpu_seq_$sequence" lacking.txt >found || return
	done
}

# In the dialect the program of a system's names works, and wrong uses do not compile.
names()
{
	local compiler=$1 std=$2 system=$3
	speak "$std"
	"$compiler" "${dialect[@]}" -O2 "${include[@]}" "$here/$system.c" -x none library.o \
		-o "$system" -pthread && timeout 60 "./$system" || return
	refuses "$here/$system.c" "$compiler" "${dialect[@]:0:3}"
}

# The same for statistics, which a unit in C uses, too.
stats()
{
	local compiler=$1
	speak "$2"
	cc -std=c11 "${warnings[@]}" "${warnings_c[@]}" -O2 "${include[@]}" \
		-c "$here/stats_other.c" -o stats_other.o &&
		"$compiler" "${dialect[@]}" -O2 "${include[@]}" "$here/stats.c" -x none \
			stats_other.o library.o -o stats -pthread && timeout 60 ./stats || return
	refuses "$here/stats.c" "$compiler" "${dialect[@]:0:3}"
}

# The classes of C++, which count with exceptions and without; wrong uses do not compile.
classes()
{
	local compiler=$1 options ways=(-O2 '-O0 -fno-exceptions -fno-rtti')
	speak "$2"
	[ "$many" != all ] || ways+=('-O2 -fno-rtti' '-O2 -fno-exceptions')
	for options in "${ways[@]}"; do
		rm -f segment
		# shellcheck disable=SC2086
		"$compiler" "${strictest[@]}" $options "${include[@]}" "$here/cpp.cc" -x none \
			library.o -o classes -pthread && timeout 60 ./classes ./segment || return
	done
	refuses "$here/cpp.cc" "$compiler" "${dialect[@]:0:3}"
}

# Results that programs must not ignore, and those that they may.
results()
{
	local compiler=$1
	speak "$2"
	"$compiler" "${dialect[@]:0:3}" -Wall -Werror -O2 "${include[@]}" -c "$here/results.c" \
		-o results.o && refuses "$here/results.c" "$compiler" "${dialect[@]:0:3}" -Werror
}

# refuses FILE COMPILER...: each mistake in it, marked "#ifdef REFUSED_...", does not compile. Words
# in quotes after the mark are what a static assertion says; in C++ not those after "C:".
refuses()
{
	local file=$1 mistake mistakes language='C: |' words
	case $* in *'-x c++'*) language= ;; esac
	shift
	mapfile -t mistakes < <(grep -o 'REFUSED_[A-Z_]*' "$file" | sort -u)
	[ ${#mistakes[@]} != 0 ] || return
	for mistake in "${mistakes[@]}"; do
		if "$@" "$quick" "${include[@]}" -D"$mistake" -c "$file" -o mistake.o 2>mistake.txt; then
			echo "$mistake compiles"
			return 1
		fi
		cat mistake.txt
		words=$(sed -nE "s/^#ifdef $mistake \/\* ($language)\"(.*)\" .*/\2/p" "$file")
		[ "$words" ] || continue
		if ! grep "error: static.assert.* failed.*$words" mistake.txt; then
			echo "$mistake is refused without the words: $words"
			return 1
		fi
	done
}

# Sources with a system's own include lines, which find our headers only with the flag for it.
unchanged()
{
	local compiler=$1 system=$3 order
	speak "$2"
	for order in -DFORWARD -DREVERSE; do
		"$compiler" "${dialect[@]}" -O2 "$order" "${include[@]}" \
			-I"$src/include/percpu/$system/compat" "$here/${system}_unchanged.c" \
			-x none library.o -o unchanged -pthread && timeout 60 ./unchanged || return
	done
	! "$compiler" "${include[@]}" -c "$here/${system}_unchanged.c" -o unchanged.o
}

# Structs have the layout that programs have inlined, and none is missing.
layout()
{
	"$1" -std=c11 "${warnings[@]}" "${include[@]}" -c "$here/layout.c" -o layout.o &&
		sed -n 's/^struct \(percpu_[a-z_]*\) {$/\1/p' "$src"/include/percpu/{,arch/}*.h |
		sort >structs && sed -n 's/^SIZE(\([a-z_]*\),.*/\1/p' "$here/layout.c" | sort |
		diff structs -
}

# A kernel's own macros and types, and no C library's headers.
port()
{
	"$1" -std=gnu11 "${warnings[@]}" "${warnings_c[@]}" -Wno-shadow -O2 -nostdinc "${include[@]}" \
		"$here/freebsd_port.c" library.o -o port -pthread && timeout 60 ./port
}

# Another implementation's headers beside ours.
mixed()
{
	local ours
	for ours in -DOUR_COUNTERS -DOUR_ZONES; do
		"$1" -std=gnu11 -Wall -Wextra -Werror -O2 "$ours" "${include[@]}" \
			"$here/freebsd_mixed.c" library.o -o mixed -pthread &&
			timeout 60 ./mixed || return
	done
	refuses "$here/freebsd_mixed.c" "$1" -std=gnu11
}

# In a unit for which the compiler prints operands in the other syntax.
intel_syntax()
{
	local compiler=$1 flags
	for flags in -O0 -O2 '-O2 -mavx2' '-O2 -mavx512f'; do
		# shellcheck disable=SC2086
		"$compiler" $flags -masm=intel "${include[@]}" "$here/consumer.c" library.o \
			-o intel -pthread && timeout 60 ./intel || return
	done
}

# A compiler that looks like GCC 10 to a header: its units have no sequences, and still count.
old_compiler()
{
	gcc -U__GNUC__ -D__GNUC__=10 -O2 "${include[@]}" -c "$here/consumer.c" -o old.o &&
		! readelf -SW old.o | grep -q __rseq_cs &&
		gcc old.o library.o -o old -pthread && timeout 60 ./old
}

need whole library.o cc "$quick"
for compiler in "${c_compilers[@]}" "${cpp_compilers[@]}"; do
	command -v "$compiler" >found || continue
	case $compiler in
	gcc) stds=(c11) more=(gnu11 c17 c2x) ;;
	clang) stds=(c2x) more=(c11 gnu11 c17) ;;
	g++) stds=(c++17) more=(c++20 c++23) ;;
	clang++) stds=(c++20) more=(c++17 c++2b) ;;
	esac
	[ "$many" != all ] || stds+=("${more[@]}")
	for std in "${stds[@]}"; do
		check "each header alone, $compiler $std" alone "$compiler" "$std"
		check "statistics, $compiler $std" stats "$compiler" "$std"
		check "dropped results, $compiler $std" results "$compiler" "$std"
		case $compiler in *++) check "classes, $compiler $std" classes "$compiler" "$std" ;; esac
		check "FreeBSD names, $compiler $std" names "$compiler" "$std" freebsd
		check "Linux names, $compiler $std" names "$compiler" "$std" linux
		check "FreeBSD includes, $compiler $std" unchanged "$compiler" "$std" freebsd
		check "DragonFly includes, $compiler $std" unchanged "$compiler" "$std" dragonfly
	done
	check "inline functions at each level, $compiler" optimized "$compiler" "${stds[0]}"
	case $compiler$many in
	*++all)
		for std in c++11 c++14; do
			check "each header alone, $compiler $std" alone "$compiler" "$std"
		done
		;;
	esac
	case $compiler in *++) continue ;; esac
	check "layout of structs, $compiler" layout "$compiler"
	check "a port of a kernel, $compiler" port "$compiler"
	check "headers of another beside ours, $compiler" mixed "$compiler"
	check "a port that lacks a sequence, $compiler" port_lacks "$compiler"
	[ "$native" = x86_64 ] || continue
	check "Intel syntax, $compiler" intel_syntax "$compiler"
done
for compiler in {i686-linux-gnu,arm-linux-gnueabihf}-{gcc,g++}; do
	command -v "$compiler" >found || continue
	std=c11
	case $compiler in
	*++) std=c++17 ;;
	*) check "layout of structs, 32 bits, $compiler" layout "$compiler" ;;
	esac
	check "all headers, 32 bits, $compiler $std" together "$compiler" "$std"
done
if command -v gcc >found; then
	check 'a compiler whose asm goto has no outputs' old_compiler
fi
finish
