#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetch a kernel of Debian and unpack it; nothing is installed.
#
#	kernel.sh MACHINE SUITE DIRECTORY
#
# Prints where the kernel is. The packages come from the mirror that this
# machine's apt uses, through an apt state of their own in DIRECTORY.
set -euo pipefail

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die()
{
	echo "kernel.sh: $*" >&2
	exit 1
}

[ $# -eq 3 ] || die 'usage: kernel.sh MACHINE SUITE DIRECTORY'
case $1 in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) die "no kernel for $1" ;;
esac
suite=$2
mkdir -p "$3"/apt/{lists,sources,cache/archives}/partial
cd "$3"

compgen -G "$PWD/boot/vmlinuz-*" && exit

# shellcheck disable=SC2016 # apt-get expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
	grep '/debian/$' | head -n 1) || die 'apt knows no mirror of Debian here'
[ -e $keyring ] || die "no $keyring"
echo "deb [signed-by=$keyring] $mirror $suite main" >apt/sources.list
options=(
	-qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture"
	-o APT::Sandbox::User= -o Dir::State::lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt/cache"
	-o Dir::Etc::sourcelist="$PWD/apt/sources.list" -o Dir::Etc::sourceparts="$PWD/apt/sources"
)
apt-get "${options[@]}" update >&2
package=$(apt-cache "${options[@]}" depends --important "linux-image-cloud-$architecture" |
	sed -n 's/.*Depends: //p' | head -n 1)
[ -n "$package" ] || die "$suite has no kernel for $architecture"
apt-get "${options[@]}" download "$package" >&2
dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x ./boot
rm "$package"_*.deb
compgen -G "$PWD/boot/vmlinuz-*"
