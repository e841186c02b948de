//! For build scripts: compiles BPF programs (clang), and makes Rust types of the headers they share with us (bindgen).

mod sources;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use sources::{hash_of_program, hash_of_sources};

/// Result of a build script.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Has the script run again when a directory changes.
pub fn watch(directory: &str) {
    println!("cargo:rerun-if-changed={directory}");
}

/// Compiles a program; `variable` tells the crate where the object is.
///
/// The crate has to depend on libbpf-sys itself: only then cargo tells its build script where libbpf's headers are.
///
/// # Errors
///
/// It does not compile, or there is no clang.
pub fn compile(source: &str, variable: &str, clang_args: &[&str]) -> Result<()> {
    let name = Path::new(source).with_extension("o");
    let object = out()?.join(name.file_name().unwrap_or_default());
    let headers = env::var("DEP_BPF_INCLUDE")?;
    let architecture =
        format!("-D__TARGET_ARCH_{}", libbpf_architecture(&env::var("CARGO_CFG_TARGET_ARCH")?));
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-fno-stack-protector", &architecture]);
    clang.args(clang_args).args(["-I", &headers, "-c", source, "-o"]).arg(&object);
    run(&mut clang)
        .map_err(|e| format!("cannot compile {source}: {e}\n  fix  install clang (11 or newer)"))?;
    // Type information stays; line tables would carry this machine's paths.
    let mut strip = Command::new("llvm-strip");
    strip.arg("--strip-debug").arg(&object);
    run(&mut strip).map_err(|e| format!("cannot strip {}: {e}\n  fix  install llvm", object.display()))?;
    println!("cargo:rustc-env={variable}={}", object.display());
    Ok(())
}

/// The name that libbpf's `bpf_tracing.h` has for an architecture of Rust.
fn libbpf_architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "riscv64" => "riscv",
        "powerpc64" => "powerpc",
        "s390x" => "s390",
        "loongarch64" => "loongarch",
        other => other,
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_os_string();
    let said = command.output().map_err(|e| format!("{}: {e}", Path::new(&program).display()))?;
    if said.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&said.stderr);
    Err(format!("{} {}: {why}", Path::new(&program).display(), said.status).into())
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
