//! Compiles the BPF program (clang) and makes Rust types of the header it shares with us (bindgen).

use std::env;
use std::error::Error;
use std::path::PathBuf;

const SOURCE: &str = "src/bpf/trace.bpf.c";
const SHARED: &str = "src/bpf/row.h";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let object = out.join("trace.bpf.o");
    libbpf_cargo::SkeletonBuilder::new()
        .source(SOURCE)
        .obj(&object)
        .clang_args(["-mcpu=v3", "-Wall"])
        .build()
        .map_err(|e| format!("cannot compile {SOURCE}: {e:#}\n  fix  install clang (11 or newer)"))?;
    println!("cargo:rustc-env=CCP_TRACE_OBJECT={}", object.display());
    bindgen::Builder::default()
        .header(SHARED)
        .layout_tests(false)
        .derive_default(true)
        .generate()
        .map_err(|e| format!("cannot read {SHARED}: {e}\n  fix  install libclang (libclang1-14 or newer)"))?
        .write_to_file(out.join("row.rs"))?;
    Ok(())
}
