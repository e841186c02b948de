//! For build scripts: compiles BPF programs (clang), and makes Rust types of the headers they share with us (bindgen).

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Result of a build script.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Has the script run again when a directory changes.
pub fn watch(directory: &str) {
    println!("cargo:rerun-if-changed={directory}");
}

/// Compiles a program; `variable` tells the crate where the object is.
///
/// # Errors
///
/// It does not compile, or there is no clang.
#[cfg(feature = "bpf")]
pub fn compile(source: &str, variable: &str, clang_args: &[&str]) -> Result<()> {
    let name = Path::new(source).with_extension("o");
    let object = out()?.join(name.file_name().unwrap_or_default());
    libbpf_cargo::SkeletonBuilder::new()
        .source(source)
        .obj(&object)
        .clang_args(["-mcpu=v3", "-Wall"].iter().chain(clang_args))
        .build()
        .map_err(|e| format!("cannot compile {source}: {e:#}\n  fix  install clang (11 or newer)"))?;
    println!("cargo:rustc-env={variable}={}", object.display());
    Ok(())
}

/// Makes Rust types of a header, in a file of its name.
///
/// # Errors
///
/// It cannot be read, or there is no libclang.
pub fn bind(header: &str) -> Result<()> {
    let name = Path::new(header).with_extension("rs");
    bindgen::Builder::default()
        .header(header)
        .prepend_enum_name(false)
        .layout_tests(false)
        .derive_default(true)
        .generate()
        .map_err(|e| format!("cannot read {header}: {e}\n  fix  install libclang (libclang1-14 or newer)"))?
        .write_to_file(out()?.join(name.file_name().unwrap_or_default()))?;
    Ok(())
}

fn out() -> Result<PathBuf> {
    Ok(PathBuf::from(env::var("OUT_DIR")?))
}
