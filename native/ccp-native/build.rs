//! Tells the sources whether the kernel part is built: where it is wanted, and the target has such a kernel.

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(kernel)");
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_linux && env::var_os("CARGO_FEATURE_KERNEL").is_some() {
        println!("cargo::rustc-cfg=kernel");
    }
}
