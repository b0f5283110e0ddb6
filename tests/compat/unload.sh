#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that does not know of libpercpu loads plugins that use it, and unloads them: with the
# library in them, beside them, and through another plugin. None of them is linked with -z nodelete.
# See unload.c.
#
#	unload.sh SOURCE WORK
#
# By all compilers and with all options if PERCPU_TEST_COMPILERS is "all". Prints TAP.
. "$(dirname "$0")/tap.sh"
run=()
flags=(-Wall -Wextra -Werror "-I$src/include")

# survives PLUGIN [WAY]: the program survives, whether libc or the library registers its threads.
survives()
{
	local registers
	for registers in 1 0; do
		cp "$1" copy.so && GLIBC_TUNABLES=glibc.pthread.rseq=$registers \
			timeout 60 "${run[@]}" ./unload ./copy.so "${2-}" || return
	done
}

# library_in_plugin COMPILER OPTION...
library_in_plugin()
{
	local library=all.o
	case "$*" in *-flto*) library=$src/src/percpu_all.c ;; esac
	"$@" "${flags[@]}" -std=gnu11 -shared -fPIC "$here/unloaded.c" "$library" -o within.so \
		-pthread && survives within.so
}

# library_beside LANGUAGE COMPILER OPTION...: the plugin only inlines.
library_beside()
{
	"${@:2}" "${flags[@]}" -shared -fPIC -x "$1" "$here/unloaded.c" -x none ./libpercpu.so \
		-o beside.so -Wl,-rpath,"$PWD" && survives beside.so
}

library_in_cpp_plugin()
{
	"$@" "${flags[@]}" -shared -fPIC -x c++ "$here/unloaded.c" -x none all.o -o plugin.so \
		-pthread && survives plugin.so
}

by_another_plugin()
{
	"$@" "${flags[@]}" -shared -fPIC "$here/unloaded.c" ./libpercpu.so -o libinner.so \
		-Wl,-rpath,"$PWD" && echo 'int outer;' >outer.c &&
		"$@" -shared -fPIC outer.c -Wl,--no-as-needed ./libinner.so -o plugin.so \
			-Wl,-rpath,"$PWD" && survives plugin.so outer
}

# Two units and several sequences; the section has one address.
one_constructor()
{
	"$@" "${flags[@]}" -O2 -fPIC -c "$here/unloaded.c" -o one.o &&
		"$@" "${flags[@]}" -O2 -fPIC -c "$here/unloaded.c" -DMORE -o two.o &&
		"$@" -shared -nostartfiles one.o two.o ./libpercpu.so -o plugin.so || return
	readelf -SW plugin.so | tr -d '[]' | awk '$2 == ".init_array" { print $6 }' | tee size
	[ "$(cat size)" = 000008 ]
}

# Nothing is added to a program. A static one must not refer to anything dynamic.
program_has_none()
{
	echo 'int main(void) { return 0; }' >main.c
	"$@" "${flags[@]}" -O2 -fPIE -c "$here/unloaded.c" -o unit.o &&
		! readelf -sW unit.o | grep percpu_object_stay &&
		"$@" "${flags[@]}" -std=gnu11 -O2 -fPIC -static -Wl,--fatal-warnings main.c \
			"$here/unloaded.c" all.o -o program -pthread && ./program
}

# The library, as one object and as a shared one. Only the shared one is linked with -z nodelete.
prepare()
{
	"$@" -O2 "$here/unload.c" -o unload -pthread -ldl &&
		whole all.o "$@" "$quick" &&
		"$@" -shared -Wl,-z,nodelete,-soname,libpercpu.so all.o -o libpercpu.so -pthread
}

for compiler in "${c_compilers[@]}"; do
	have "$compiler" "$compiler" || continue
	check "$compiler: built" prepare "$compiler"
	ways=()
	if [ "$many" = all ]; then
		ways+=('-O2 -flto' -O0 '-O2 -ffunction-sections -Wl,--gc-sections')
		command -v ld.gold >/dev/null && ways+=('-O2 -fuse-ld=gold')
	fi
	for options in "${ways[@]}" -O2; do
		# shellcheck disable=SC2086
		check "$compiler $options: library in the plugin" library_in_plugin $compiler $options
		# shellcheck disable=SC2086
		check "$compiler $options: library beside it" library_beside c $compiler $options
	done
	for way in early deleted memfd namespace; do
		check "$compiler: library in the plugin, $way" survives within.so $way
		check "$compiler: library beside it, $way" survives beside.so $way
	done
	check "$compiler: by way of another plugin" by_another_plugin "$compiler"
	check "$compiler: one constructor" one_constructor "$compiler"
	check "$compiler: programs have none" program_has_none "$compiler"
done
for compiler in "${cpp_compilers[@]}"; do
	have "$compiler" "$compiler" || continue
	check "$compiler: library in the plugin" library_in_cpp_plugin "$compiler" -O2
	check "$compiler: library beside it" library_beside c++ "$compiler" -O2
done

# In the emulator no sequence is preempted, but the test sees whether the plugin stays.
if emulates_aarch64; then
	run=("${emulator[@]}")
	check 'aarch64: built' prepare aarch64-linux-gnu-gcc
	check 'aarch64: library in the plugin' library_in_plugin aarch64-linux-gnu-gcc -O2
	check 'aarch64: library beside it' library_beside c aarch64-linux-gnu-gcc -O2
fi
finish
