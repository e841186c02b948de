//! Compiles the BPF programs (clang) and makes Rust types of the header they share with us (bindgen).

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const SOURCE: &str = "src/bpf/ccp.bpf.c";

/// FNV-1a: enough to tell two builds apart, and nothing to depend on.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let object = out.join("ccp.bpf.o");

    libbpf_cargo::SkeletonBuilder::new()
        .source(SOURCE)
        .obj(&object)
        .clang_args(["-mcpu=v3", "-Wall", "-Wno-unused-function"])
        .build()
        .map_err(|e| format!("cannot compile {SOURCE}: {e:#}\n  fix  install clang (11 or newer)"))?;

    // Line information would make the hash depend on comments and paths; the sources themselves do not.
    let mut sources: Vec<_> = fs::read_dir("src/bpf")?.collect::<Result<Vec<_>, _>>()?;
    sources.sort_by_key(std::fs::DirEntry::file_name);
    let mut all = Vec::new();
    for file in &sources {
        all.extend(fs::read(file.path())?);
    }
    println!("cargo:rustc-env=CCP_BUILD_HASH={}", hash(&all));
    println!("cargo:rustc-env=CCP_BPF_OBJECT={}", object.display());

    bindgen::Builder::default()
        .header(Path::new("src/bpf/intf.h").to_string_lossy())
        .prepend_enum_name(false)
        .layout_tests(false)
        .derive_default(true)
        .generate()
        .map_err(|e| {
            format!("cannot read src/bpf/intf.h: {e}\n  fix  install libclang (libclang1-14 or newer)")
        })?
        .write_to_file(out.join("intf.rs"))?;
    Ok(())
}
