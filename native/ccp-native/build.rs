//! Tells the sources whether to build the kernel part: if requested, and supported by the target. Generates
//! the class of a flow's totals.

use std::fmt::Write;
use std::{env, fs};

use ccp_build::{Described, described};

const INTF: &str = "../ccp-bpf/src/bpf/intf.h";

fn main() -> ccp_build::Result<()> {
    println!("cargo::rustc-check-cfg=cfg(kernel)");
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_linux && env::var_os("CARGO_FEATURE_KERNEL").is_some() {
        println!("cargo::rustc-cfg=kernel");
    }
    ccp_build::watch(INTF);
    fs::write(format!("{}/flow_stats.rs", env::var("OUT_DIR")?), flow_stats()?)?;
    Ok(())
}

/// Source of a class with all totals of a flow, and their conversion from the flow's slot.
fn flow_stats() -> ccp_build::Result<String> {
    let (mut members, mut values) = (String::new(), String::new());
    for (of, place) in [("ccp_flow", "flow"), ("ccp_stats", "flow.stats"), ("ccp_counts", "flow.counts")] {
        for total in described(INTF, &format!("struct {of}"))? {
            let Described { name, tag, doc, .. } = &total;
            writeln!(members, "#[doc = {doc:?}]\npub {name}: {},", total.rust_type())?;
            match tag.as_str() {
                "" => writeln!(values, "{name}: {place}.{name},")?,
                "flag" => writeln!(values, "{name}: {place}.{name} != 0,")?,
                names => writeln!(
                    values,
                    "{name}: ::ccp_record::{}({place}.{name}),",
                    names.trim_start_matches("ccp_")
                )?,
            }
        }
    }
    Ok(format!(
        "/// Totals and state of one flow.
        #[pyclass(frozen, get_all, module = \"ccplane.base._native\")]
        #[derive(Clone, Debug)]
        pub struct FlowStats {{ {members} }}
        impl FlowStats {{
            /// Of a flow that lives.
            pub fn of_flow(flow: &ccp_flow) -> Self {{ FlowStats {{ {values} }} }}
        }}"
    ))
}
