//! Generates Rust types of headers shared with the BPF programs, and tables of their comments.

use std::fmt::Write;
use std::{env, fs};

use ccp_build::{Described, described};

/// Headers of the datapath, of socket samples and of arrivals.
const HEADERS: [&str; 3] = [INTF, "../ccp-trace/src/bpf/row.h", "../ccp-trace/src/bpf/arrivals.h"];
const INTF: &str = "../ccp-bpf/src/bpf/intf.h";

fn main() -> ccp_build::Result<()> {
    for header in HEADERS {
        ccp_build::watch(header);
        ccp_build::bind(header)?;
    }
    fs::write(format!("{}/facts.rs", env::var("OUT_DIR")?), facts()?)?;
    Ok(())
}

fn facts() -> ccp_build::Result<String> {
    let mut text = String::new();
    let mut table = |name: &str, doc: &str, kind: &str, rows: Vec<String>| {
        let (n, rows) = (rows.len(), rows.concat());
        writeln!(text, "/// {doc}\npub const {name}: [{kind}; {n}] = [{rows}];")
    };
    let of = |of| described(INTF, of);
    let totals = [of("struct ccp_flow")?, of("struct ccp_stats")?, of("struct ccp_counts")?].concat();
    let head = of("struct ccp_record")?;
    let columns = head.iter().map(|fact| {
        let size = fact.rust_type().trim_start_matches('u').parse::<usize>().unwrap_or(64) / 8;
        let offset = format!("std::mem::offset_of!(intf::ccp_record, {})", fact.name);
        format!("({:?}, \"u{size}\", {offset}),", fact.name)
    });
    let counters = of("struct ccp_globals")?;
    let counted = counters.iter().map(|fact| format!("({:?}, |g| g.{}),", fact.name, fact.name));
    table("PRIMITIVES", "By `enum ccp_prim`.", "Fact", of("enum ccp_prim")?.iter().map(primitive).collect())?;
    table("TOTALS", "Totals of a flow.", "Fact", totals.iter().map(member).collect())?;
    table("REPORT_HEAD", "Attributes of every report.", "Fact", head.iter().map(member).collect())?;
    table(
        "REPORT_FLAGS",
        "Bits of a report's `flags`, by `enum ccp_record_flags`.",
        "Fact",
        of("enum ccp_record_flags")?.iter().map(|fact| constant(fact, "CCP_REPORT_")).collect(),
    )?;
    table(
        "FALLBACK_CAUSES",
        "Why the fallback has a flow, by `enum ccp_fallback_cause`.",
        "Fact",
        of("enum ccp_fallback_cause")?.iter().map(|fact| constant(fact, "CCP_FALLBACK_")).collect(),
    )?;
    table("COUNTERS", "Counters of a datapath.", "Fact", counters.iter().map(member).collect())?;
    table(
        "HEAD_COLUMNS",
        "Members of `ccp_record` in every report: name, NumPy format, offset.",
        "(&str, &str, usize)",
        columns.collect(),
    )?;
    table("COUNTED", "The same counters.", "(&str, Counter)", counted.collect())?;
    Ok(text)
}

fn fact(name: &str, kind: &str, fact: &Described) -> String {
    let (unit, tag, doc) = (fact.unit(), &fact.tag, &fact.doc);
    let is_bool = tag == "flag";
    format!(
        "Fact {{ name: {name:?}, kind: {kind:?}, unit: {unit:?}, is_bool: {is_bool}, tag: {tag:?}, doc: {doc:?} }},\n"
    )
}

fn member(of: &Described) -> String {
    fact(&of.name, of.rust_type(), of)
}

/// `CCP_ACK_BYTES_ACKED` is `Ack.bytes_acked` in fold programs.
fn primitive(of: &Described) -> String {
    let name = of.name.trim_start_matches("CCP_").to_lowercase();
    let (class, name) = name.split_once('_').unwrap_or_default();
    let class = class[..1].to_uppercase() + &class[1..];
    fact(&format!("{class}.{name}"), "u64", of)
}

fn constant(of: &Described, prefix: &str) -> String {
    fact(&of.name.trim_start_matches(prefix).to_lowercase(), "", of)
}
