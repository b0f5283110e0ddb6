// SPDX-License-Identifier: MIT
//! Links the installed library, or with the feature `vendored` compiles it.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let late = env::var_os("CARGO_FEATURE_LATE").is_some();
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux")
        || env::var("CARGO_CFG_TARGET_POINTER_WIDTH").as_deref() != Ok("64")
    {
        fail("libpercpu is for Linux, and this crate for its 64-bit machines");
    }
    if let Err(why) = library(late) {
        fail(&why);
    }
}

/// The unit src/percpu_all.c has all of the library, and meson.build says how it is compiled.
#[cfg(feature = "vendored")]
fn library(late: bool) -> Result<(), String> {
    for part in ["vendor/src", "vendor/include"] {
        let path = std::fs::canonicalize(part).map_err(|e| format!("{part}: {e}"))?;
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let mut unit = cc::Build::new();
    unit.file("vendor/src/percpu_all.c")
        .include("vendor/include")
        .flag("-std=gnu11")
        .flag("-fvisibility=hidden")
        .flag("-pthread")
        .opt_level(2);
    if late {
        unit.define("PERCPU_LATE", None);
    }
    unit.try_compile("percpu").map_err(|e| e.to_string())
}

#[cfg(not(feature = "vendored"))]
fn library(late: bool) -> Result<(), String> {
    let name = if late { "percpu-late" } else { "percpu" };
    let version = env!("CARGO_PKG_VERSION");
    match pkg_config::Config::new()
        .atleast_version(version)
        .probe(name)
    {
        Ok(_) => Ok(()),
        Err(e) => Err(format!(
            "{e}\n\nInstall libpercpu {version} or later, or enable the feature `vendored`, which \
             compiles the library into the crate."
        )),
    }
}

/// Cargo shows what a failed build script prints to standard error.
fn fail(why: &str) -> ! {
    eprintln!("percpu-sys: {why}");
    std::process::exit(1);
}
