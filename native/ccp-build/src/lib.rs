//! For build scripts: compiles BPF programs (clang), and generates Rust types from shared headers (bindgen).

mod sources;

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use sources::{hash_of_program, hash_of_sources};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reruns the script when a directory changes.
pub fn watch(directory: &str) {
    println!("cargo:rerun-if-changed={directory}");
}

/// Compiles a program; `variable` passes the object's path to the crate. The crate must depend on libbpf-sys
/// itself: only then does cargo tell its build script where libbpf's headers are. Errors: compilation fails,
/// or there is no clang.
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
    // Type information stays; line tables would contain this machine's paths.
    let mut strip = Command::new("llvm-strip");
    strip.arg("--strip-debug").arg(&object);
    run(&mut strip).map_err(|e| format!("cannot strip {}: {e}\n  fix  install llvm", object.display()))?;
    println!("cargo:rustc-env={variable}={}", object.display());
    Ok(())
}

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

/// Generates Rust types from a header, in a file of the same name. Errors: it cannot be read, or there is no libclang.
pub fn bind(header: &str) -> Result<()> {
    bind_with(header, &[])
}

/// The same with arguments for clang.
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

/// A member of a structure or enumeration, as described by its comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// `__u32`, or empty in an enumeration.
    pub kind: String,
    pub name: String,
    /// The word before the first colon of the comment; may be empty.
    pub tag: String,
    pub doc: String,
}

impl Described {
    /// The unit in brackets; may be empty.
    pub fn unit(&self) -> &str {
        self.doc.split_once('[').and_then(|(_, after)| after.split_once(']')).map_or("", |(unit, _)| unit)
    }

    pub fn rust_type(&self) -> &str {
        match (self.tag.as_str(), self.kind.as_str()) {
            ("flag", _) => "bool",
            ("ccp_fallback_cause", _) => "&'static str",
            (_, "__u64") => "u64",
            (_, "__u16") => "u16",
            _ => "u32",
        }
    }
}

/// The members of `struct NAME` or `enum NAME` that have a comment with two stars, in order. Errors: the
/// header cannot be read, or has no such type.
pub fn described(header: &str, of: &str) -> Result<Vec<Described>> {
    members(&fs::read_to_string(header)?, of).ok_or_else(|| format!("{header} has no {of}").into())
}

fn members(text: &str, of: &str) -> Option<Vec<Described>> {
    let (_, body) = text.split_once(&format!("\n{of} {{\n"))?;
    let (mut rest, _) = body.split_once("\n}")?;
    let mut found = Vec::new();
    while let Some((before, after)) = rest.split_once("/**<") {
        let (comment, behind) = after.split_once("*/")?;
        rest = behind;
        let member = before.lines().last()?.trim().trim_end_matches([';', ',']);
        let (kind, name) =
            member.split_once(' ').filter(|(_, rest)| !rest.starts_with('=')).unwrap_or(("", member));
        let doc = comment.split_whitespace().collect::<Vec<_>>().join(" ");
        let (tag, doc) = match doc.split_once(": ") {
            Some((tag, doc)) if tag.chars().all(|c| c.is_ascii_lowercase() || c == '_') => (tag, doc),
            _ => ("", doc.as_str()),
        };
        found.push(Described {
            kind: kind.into(),
            name: name.split(' ').next()?.into(),
            tag: tag.into(),
            doc: doc.into(),
        });
    }
    Some(found)
}
