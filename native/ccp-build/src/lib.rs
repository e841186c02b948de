//! For build scripts: compiles BPF programs (clang), and makes Rust types of the headers they share with us (bindgen).

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// FNV-1a: enough to tell two builds apart, and nothing to depend on.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// The same for C sources one after the other, whatever their comments and spaces are.
///
/// # Errors
///
/// One cannot be read.
pub fn hash_of_sources(paths: &[&str]) -> Result<u64> {
    let mut code = String::new();
    for path in paths {
        code.push_str(&tokens(&fs::read_to_string(path)?));
    }
    Ok(hash(code.as_bytes()))
}

/// A C source without its comments, each space one: what is left changes only if the program does.
fn tokens(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, behind)| behind);
    }
    code.push_str(rest);
    let lines = code.lines().map(|line| line.split_once("//").map_or(line, |(before, _)| before));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Makes Rust types of a header, in a file of its name.
///
/// # Errors
///
/// It cannot be read, or there is no libclang.
pub fn bind(header: &str) -> Result<()> {
    bind_with(header, &[])
}

/// The same with arguments for clang.
///
/// # Errors
///
/// As [`bind`].
pub fn bind_with(header: &str, clang_args: &[&str]) -> Result<()> {
    let name = Path::new(header).with_extension("rs");
    bindgen::Builder::default()
        .header(header)
        .clang_args(clang_args)
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
