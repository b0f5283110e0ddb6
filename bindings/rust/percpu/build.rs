// SPDX-License-Identifier: MIT
//! Sets the cfg `percpu_labels` if the compiler lets assembly jump to labels of Rust.

use std::env;
use std::process::Command;

/// The first Rust 1.x that does.
const FIRST: u32 = 87;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(percpu_labels)");
    if minor_version().is_some_and(|minor| minor >= FIRST) {
        println!("cargo:rustc-cfg=percpu_labels");
    }
}

/// The x of Rust 1.x; none if the compiler does not say it in the usual way.
fn minor_version() -> Option<u32> {
    let output = Command::new(env::var_os("RUSTC")?)
        .arg("--version")
        .output()
        .ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version
        .strip_prefix("rustc 1.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}
