// SPDX-License-Identifier: MIT
//! examples/plugin.rs, loaded by dlopen() and unloaded, with the feature `late` and without.

#![allow(clippy::unwrap_used)]

use std::ffi::{CStr, CString};

/// Load the plugin, and return its handle.
fn load() -> *mut libc::c_void {
    let deps = std::env::current_exe().unwrap();
    let path = deps
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/libplugin.so");
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: its constructors only set the counter up.
    let plugin = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    // SAFETY: it returns a string if dlopen() has failed.
    assert!(!plugin.is_null(), "{:?}", unsafe {
        CStr::from_ptr(libc::dlerror())
    });
    plugin
}

fn function(plugin: *mut libc::c_void, name: &CStr) -> *mut libc::c_void {
    // SAFETY: the plugin is loaded.
    let at = unsafe { libc::dlsym(plugin, name.as_ptr()) };
    assert!(!at.is_null(), "{name:?}");
    at
}

#[test]
fn a_plugin_counts_and_stays() {
    let plugin = load();
    // SAFETY: the functions have these types.
    let (count, tier) = unsafe {
        (
            std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64) -> u64>(function(
                plugin,
                c"plugin_count",
            )),
            std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> u32>(function(
                plugin,
                c"plugin_tier",
            )),
        )
    };
    // This test's own library, which is another copy, can use the same tier.
    assert_eq!(tier(), percpu::selftest().tier as u32);
    assert_eq!(count(1000), 1001);
    // SAFETY: the plugin keeps itself loaded, because its threads and the kernel still need it.
    assert_eq!(unsafe { libc::dlclose(plugin) }, 0);
    assert_eq!(count(1000), 2001);
    assert_eq!(load(), plugin);
}
