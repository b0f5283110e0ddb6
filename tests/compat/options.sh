#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The headers in units with other compiler options, and among macros and functions of the user.
#
#	options.sh SOURCE WORK
#
# Prints TAP; the compilers' output is in WORK/log.
. "$(dirname "$0")/tap.sh"
error=wrong # a compiler's "error" is expected
include=(-I"$src/include")
strict=(-Wall -Wextra -Werror)

# runs COMPILER FLAGS...: run inlined code, as C or as C++, at two levels.
runs()
{
	local compiler=$1 level language
	shift
	for level in -O0 -O2; do
		for language in c c++; do
			"$compiler" "$level" "${strict[@]}" "$@" "${include[@]}" -x "$language" \
				"$here/inlined.c" -x none library.o -o runs -pthread -lstdc++ &&
				timeout 60 ./runs || return
		done
	done
}

# The headers' attributes among macros with the same names.
macros()
{
	local name header
	for name in alias aligned always_inline cold common constructor deprecated destructor \
		format gnu_inline hidden hot leaf malloc may_alias noinline nonnull noreturn \
		nothrow optimize packed pure section target tls_model unused vector_size \
		visibility weak; do
		echo "#define $name !not $name!"
	done >names.h
	{
		# The C library's headers come first.
		printf '#include <%s.h>\n' errno pthread stdbool stddef stdint stdio sys/types
		cat names.h
		for header in "$src"/include/percpu/{,freebsd/,dragonfly/,netbsd/,linux/}*.h; do
			# Their names are those of FreeBSD's sf_buf.h, and of counter.h.
			[[ $header == */dragonfly/sfbuf.h || $header == */percpu_counter.h ]] ||
				echo "#include \"$header\""
		done
		cat <<-'EOF'
		static PERCPU_COUNTER_DEFINE(first);
		static PERCPU_VARIABLE(uint64_t, second);
		static counter_u64_t third;
		COUNTER_U64_SYSINIT(third);
		SYSCTL_COUNTER_U64(_net, OID_AUTO, third, CTLFLAG_RD, &third, "");
		void count(void);
		void count(void)
		{
			percpu_static_counter_add(&first, 1);
			PERCPU_VARIABLE_ADD(second, 1);
		}
		EOF
	} >macros.c
	"$1" -x c "${include[@]}" -O2 -c macros.c -o macros.o &&
		"$1" -x c++ "${include[@]}" -O2 -c macros.c -o macros.o
}

# Variables with a copy per CPU that are refused.
constant()
{
	echo '#include <percpu/variable.h>
	static PERCPU_VARIABLE(QUALIFIER int, z) = 4;
	int at(void);
	int at(void) { return *PERCPU_VARIABLE_PTR(z, 0); }' >constant.c
	"$1" "${include[@]}" "${strict[@]}" -pedantic -DQUALIFIER= -c constant.c -o constant.o &&
		! "$1" "${include[@]}" -DQUALIFIER=const -fsyntax-only constant.c
}

# They would have another size in the library, so they are refused with a message.
short_enums()
{
	! "$1" "${include[@]}" -fshort-enums -c "$here/consumer.c" -o short.o 2>short &&
		cat short && grep -q 'needs -fno-short-enums' short
}

need whole library.o cc "$quick"
for compiler in "${c_compilers[@]}"; do
	command -v "$compiler" >found || continue
	check "macros with the names of attributes, $compiler" macros "$compiler"
	check "exceptions from instructions, $compiler" runs "$compiler" -fexceptions \
		-fnon-call-exceptions
	check "enums that are made short, $compiler" short_enums "$compiler"
	check "a constant with a copy per CPU, $compiler" constant "$compiler"
	[ "$native" != x86_64 ] ||
		check "no vector registers, $compiler -mno-sse" runs "$compiler" -mno-sse
	check "no vector registers, $compiler" runs "$compiler" -mgeneral-regs-only
done
if command -v aarch64-linux-gnu-gcc >found; then
	check 'no vector registers, aarch64-linux-gnu-gcc' aarch64-linux-gnu-gcc -O2 "${strict[@]}" \
		-mgeneral-regs-only "${include[@]}" -c "$here/inlined.c" -o inlined.o
fi
finish
