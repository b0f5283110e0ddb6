#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The library in a plugin that is loaded late, by dlopen() into a program that does not know of it
# (host.c), with little static TLS left: on glibc, on musl, on aarch64.
#
#	late.sh SOURCE WORK
#
# By all compilers if PERCPU_TEST_COMPILERS is "all". Prints TAP.
. "$(dirname "$0")/../compat/tap.sh"
strict=(-std=gnu11 -O2 -Wall -Wextra -Werror)
wrap=('-Wl,--wrap=vfork' '-Wl,--wrap=clone')
run=()

# world DIRECTORY COMPILER OPTION...: build hosts, libraries they load first, the library, plugins.
world()
{
	local compiler=$2
	mkdir -p "$1" && cd "$1" || return
	shift
	cc=("$@" "${strict[@]}" -I"$src/include")
	for i in 1 2 3; do
		"${cc[@]}" -shared -fPIC "$here/filler.c" -o "filler$i.so" || return
	done
	library percpu usual.o && library percpu-late late.o -DPERCPU_LATE &&
		host host && host host-percpu -lpercpu && host host-percpu-late -lpercpu-late &&
		plugin usual -lpercpu && plugin late -DPERCPU_LATE -lpercpu-late &&
		plugin carries -DPERCPU_LATE late.o
}

# library NAME OBJECT OPTION...: build a shared library.
library()
{
	whole "$2" "$compiler" "$quick" "${@:3}" &&
		"${cc[@]}" -shared "$2" -o "lib$1.so" -Wl,-soname,"lib$1.so" -Wl,-z,nodelete \
			-pthread
}

host()
{
	"${cc[@]}" "$here/host.c" -o "$1" -Wl,--no-as-needed -L. -Wl,-rpath,"$PWD" "${@:2}" \
		-pthread -ldl
}

plugin()
{
	"${cc[@]}" -shared -fPIC "$here/late.c" -o "$1.so" -L. -Wl,-rpath,"$PWD" "${@:2}" \
		"${wrap[@]}" -Wl,-z,nodelete -pthread
}

# loads TIER HOST ARGUMENT...: the plugin counts exactly, on this tier.
loads()
{
	local said
	for _ in 1 2 3 4; do # a busy machine may leave the tier unproven
		said=$(timeout 240 "${run[@]}" "${@:2}") || break # an emulator, on a busy machine
		[ "$said" != "tier=$1" ] || return 0
	done
	echo "$*: $said"
	return 1
}

# refused WORDS ARGUMENT...: the plugin is not loaded, and these words say why.
refused()
{
	local said status=0
	said=$(timeout 60 "${run[@]}" ./host "${@:2}") || status=$?
	echo "status $status: $said"
	[ $status = 2 ] && [[ $said == *$1* ]]
}

# rows NAME TIER WHY OTHER...: a plugin linked as usual is refused, and a late one is not.
rows()
{
	local name=$1 best=$2 tier
	check "$name: linked as usual, is refused" refused "$3" ./usual.so "${@:4}"
	check "$name: late" loads "$best" ./host ./late.so "${@:4}"
	check "$name: late, with the library in it" loads "$best" ./host ./carries.so "${@:4}"
	check "$name: late, the program has the library" \
		loads "$best" ./host-percpu ./late.so "${@:4}"
	# The emulator takes its time for lanes that do not depend on how they are found.
	[ "$name,$many" != aarch64, ] || return 0
	for tier in cpu shared; do
		[ "$tier" != "$best" ] || continue
		PERCPU_TIER=$tier check "$name: late, tier $tier" \
			loads "$tier" ./host ./late.so "${@:4}"
	done
}

full=(./filler1.so ./filler2.so ./filler3.so)
block='static TLS block'

tier=rseq

for compiler in "${c_compilers[@]}"; do
	cd "$work" || exit
	have "glibc, $compiler" "$compiler" || continue
	check "glibc, $compiler: build" world "$compiler" "$compiler"
	tier=$(./host ./usual.so) && tier=${tier#tier=}
	rows "glibc, $compiler" "$tier" "$block" "${full[@]}"
	GLIBC_TUNABLES=glibc.pthread.rseq=0 check "glibc, $compiler: late, libc registers nothing" \
		loads "$tier" ./host ./late.so "${full[@]}"
	check "glibc, $compiler: late, no key left" loads cpu ./host keys ./late.so "${full[@]}"
	check "glibc, $compiler: usual, the program has the late library" \
		loads "$tier" ./host-percpu-late ./usual.so
done

cd "$work" || exit
if ! command -v musl-gcc >/dev/null || [ ! -e "/lib/ld-musl-$native.so.1" ]; then
	skip musl 'no musl-gcc, or no dynamic linker of musl'
else
	wrap=('-Wl,--wrap=vfork')
	check 'musl: build' world musl musl-gcc
	rows musl "$tier" 'initial-exec TLS'
	wrap=('-Wl,--wrap=vfork' '-Wl,--wrap=clone')
fi

cd "$work" || exit
if emulates_aarch64; then
	run=("${emulator[@]}")
	check 'aarch64: build' world aarch64 aarch64-linux-gnu-gcc -DEMULATED=1
	rows aarch64 cpu "$block" "${full[@]}"
fi
finish
