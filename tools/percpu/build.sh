#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# build.sh CARGO TARGET OUT DEPFILE - the tool, its man pages and its completions, into OUT. Cargo
# works in TARGET, unless CARGO_TARGET_DIR says where.
set -euo pipefail
cargo=$1 target=${CARGO_TARGET_DIR:-$PWD/$2} out=$PWD/$3 depfile=$PWD/$4
tool=$target/release/percpu
cd "$(dirname "$0")"

"$cargo" build --release --locked --target-dir "$target"
# What cargo says of the files that it has read, for a target that the caller knows.
sed "s|^[^:]*:|$3/percpu:|" "$tool.d" >"$depfile"
"$tool" man >"$out/percpu.1"
for verb in ls show watch top serve push textfile doctor gc reset diff completions man; do
	"$tool" man "$verb" >"$out/percpu-$verb.1"
done
"$tool" completions bash >"$out/percpu.bash"
"$tool" completions zsh >"$out/_percpu"
"$tool" completions fish >"$out/percpu.fish"
cp "$tool" "$out/percpu"
