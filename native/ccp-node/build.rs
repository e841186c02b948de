//! Compiles the BPF programs (clang) and makes Rust types of the header they share with us (bindgen).

use std::env;
use std::error::Error;
use std::path::PathBuf;

const SOURCE: &str = "src/bpf/node.bpf.c";
const SHARED: &str = "src/bpf/node.h";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let object = out.join("node.bpf.o");
    libbpf_cargo::SkeletonBuilder::new()
        .source(SOURCE)
        .obj(&object)
        .clang_args(["-mcpu=v3", "-Wall"])
        .build()
        .map_err(|e| format!("cannot compile {SOURCE}: {e:#}\n  fix  install clang (11 or newer)"))?;
    println!("cargo:rustc-env=CCP_NODE_OBJECT={}", object.display());
    bindgen::Builder::default()
        .header(SHARED)
        .layout_tests(false)
        .derive_default(true)
        .generate()
        .map_err(|e| format!("cannot read {SHARED}: {e}\n  fix  install libclang (libclang1-14 or newer)"))?
        .write_to_file(out.join("node.rs"))?;
    Ok(())
}
