// SPDX-License-Identifier: MIT
//! Prints the bindings of percpu-sys: `./dev bindings` writes them into the file.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../percpu-sys");
    let bindings = bindgen::builder()
        .header(sys.join("wrapper.h").display().to_string())
        .clang_args([
            "-std=gnu11",
            "-I",
            &sys.join("vendor/include").display().to_string(),
        ])
        .allowlist_item("(percpu|PERCPU)_.*")
        // Thread-local, and a type of the compiler: src/lib.rs says where these are.
        .blocklist_item("percpu_self|percpu_words2")
        // Of libc, by the crate of that name.
        .blocklist_type("FILE|_IO_.*")
        .raw_line("use libc::FILE;")
        // Of the architecture.
        .blocklist_item("(PERCPU|percpu)_SEQ_.*")
        .formatter(bindgen::Formatter::Prettyplease)
        .use_core()
        .ctypes_prefix("core::ffi")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_cstr(true)
        .generate_comments(false)
        .derive_default(true)
        .layout_tests(true)
        .rust_target(bindgen::RustTarget::stable(85, 0).map_err(|_| "no such Rust")?)
        .rust_edition(bindgen::RustEdition::Edition2021)
        .generate()?;
    print!("{bindings}");
    Ok(())
}
