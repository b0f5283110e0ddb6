# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# machines.sh - tests for other machines: cross builds, and whole systems emulated.

# apt_for NAME ARCHITECTURE COMMAND...: of apt, with lists and a cache of their own.
apt_for()
{
	local apt=$build/$1-apt
	mkdir -p "$apt"/{lists,cache/archives}/partial
	"$3" -o "APT::Architecture=$2" -o "APT::Architectures=$2" -o APT::Sandbox::User= \
		-o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" "${@:4}"
}

# sysroot NAME ARCHITECTURE: cmocka for another machine, which Debian calls so,
# unpacked beside the build; nothing is installed.
sysroot()
{
	local apt=$build/$1-apt sysroot=$build/$1-sysroot deb
	[ -d "$sysroot" ] && return
	apt_for "$@" apt-get -qq update || true # of several lists, one may not be to be had
	(cd "$apt" && apt_for "$@" apt-get -qq download libcmocka0 libcmocka-dev) || return
	for deb in "$apt"/*.deb; do dpkg-deb -x "$deb" "$sysroot.new" || return; done
	mv "$sysroot.new" "$sysroot"
}

# to_be_had COMMAND...: whether apt knows the package at the end of "apt-cache policy".
to_be_had()
{
	have apt-cache && [[ $(LC_ALL=C "$@") == *"Candidate: "[!\(]* ]]
}

# other_machine TITLE NAME ARCHITECTURE NEED...: there is what builds programs for it and
# runs them. Else it is a skip, and a failure if the packages are to be had.
other_machine()
{
	local title=$1 name=$2 architecture=$3 package lacking
	mapfile -t lacking < <(missing "${@:4}")
	for package in "${lacking[@]}"; do
		if to_be_had apt-cache policy "$package"; then
			record FAIL "$title" "$package is to be had, but not installed"
			return 1
		fi
	done
	if [ ${#lacking[@]} != 0 ]; then
		record SKIP "$title" "no ${lacking[*]}"
	elif [ "$(uname -m)" = "$name" ]; then
		record SKIP "$title" 'this machine is one'
	elif sysroot "$name" "$architecture"; then
		return
	elif to_be_had apt_for "$name" "$architecture" apt-cache policy libcmocka-dev; then
		record FAIL "$title" "libcmocka-dev:$architecture is to be had, but was not downloaded"
	else
		record SKIP "$title" "the registry has no libcmocka-dev:$architecture"
	fi
	return 1
}

# As most kernels of x86-64 do.
runs_i686()
{
	/usr/i686-linux-gnu/lib/ld-linux.so.2 --version >/dev/null 2>&1
}

# cross_file NAME: what tests/NAME.ini does not say.
cross_file()
{
	{
		printf "[constants]\nsysroot = '%s'\n" "$build/$1-sysroot"
		[ "$1" != i686 ] || runs_i686 || printf "[binaries]\nexe_wrapper = 'qemu-i386'\n"
	} >"$build/$1-sysroot.ini"
}

# cross NAME HOW OPTION...: a build for another machine, in build/NAME, by configure or
# configure_tests.
cross()
{
	cross_file "$1"
	"$2" "$1" --cross-file "$build/$1-sysroot.ini" --cross-file "tests/$1.ini" \
		-Dwerror=true -Dbenchmarks=disabled "${@:3}"
}

not_here=77 # the status of what is not done here, which has been recorded

# cross_if_possible NAME ARCHITECTURE NEED...
cross_if_possible()
{
	local options=(-Ddebug=false)
	other_machine "$1" "$@" || return $not_here
	[ "$1" = aarch64 ] || options+=("${cheaply[@]}") # that one is also for whole systems
	cross "$1" configure_tests "${options[@]}"
}

# emulate MACHINE SUITE CPUS BUILD COMPILER OPTION...: a machine with the kernel
# of that release of Debian runs the test programs of a build directory.
emulate()
{
	local name="$1 with $3 CPUs, kernel of $2" work=$build/systems/$1-$2-$3 kernel begin=$SECONDS
	say "$name"
	mkdir -p "$work"
	if ! kernel=$(tests/systems/kernel.sh "$1" "$2" "$build/systems/kernels/$1-$2"); then
		record SKIP "$name" 'no such kernel to be had here'
		return
	fi
	rm -f "$work/testlog.json"
	if "$5" -O2 -Wall -Wextra -Werror -static tests/systems/init.c -o "$work/init"; then
		tests/systems/boot.py "$build/$4" "$work" --machine "$1" --kernel "$kernel" \
			--init "$work/init" --cpus "$3" --compiler "$5" "${only[@]}" "${@:6}" || true
	fi
	python3 tests/tally.py "$work/testlog.json" "$name" --rseq >>"$results" ||
		record FAIL "$name" 'no test ran'
	echo "$name: $((SECONDS - begin)) s"
}

test_systems()
{
	local why
	only=("${@/#/--only=}")
	setup "${emulators[@]}"
	mkdir -p "$build" && : >"$results"
	why=$(missing "${emulators[@]}")
	if [ "$(uname -m)" != x86_64 ]; then
		record SKIP 'whole systems' 'written for an x86-64 machine to run on'
	elif [ -n "$why" ]; then
		record SKIP 'whole systems' "no ${why//$'\n'/, }"
	else
		step 'gcc: build' compile_all gcc
		emulate x86_64 trixie 64 gcc gcc
		emulate x86_64 bookworm 4 gcc gcc --without avx2
		if other_machine aarch64 aarch64 arm64 "${for_aarch64[@]}"; then
			step 'aarch64: build' cross aarch64 configure
			emulate aarch64 trixie 4 aarch64 aarch64-linux-gnu-gcc \
				--libraries "$build/aarch64-sysroot/usr/lib/aarch64-linux-gnu"
		fi
	fi
	summary
}
