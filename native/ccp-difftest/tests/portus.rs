//! Programs compiled and sent by portus have the same effect here as in libccp, with the same messages byte for byte.

use ccp_difftest::compare::{Sent, Tally, try_sent};
use ccp_difftest::is_root;
use ccp_difftest::kernel::Kernel;

const PROGRAMS: u64 = 10_000;

fn compiled(text: &str) -> Option<Sent> {
    let (bin, _) = portus::lang::compile(text.as_bytes(), &[]).ok()?;
    // The serializer rejects programs beyond its limits.
    let raw = bin.serialize().ok()?;
    Some((bin.events.len() as u32, bin.instrs.len() as u32, raw))
}

#[test]
fn what_portus_sends_means_for_us_what_it_means_for_libccp() {
    let kernel = is_root().then(|| Kernel::new().unwrap());
    let mut tally = Tally::default();
    for seed in 0..PROGRAMS {
        try_sent(seed, compiled, kernel.as_ref(), &mut tally).unwrap_or_else(|account| panic!("{account}"));
    }
    println!(
        "{} programs that portus compiled, {} runs, {} reports, {} fold errors, the largest of {} instructions{}",
        tally.programs,
        tally.invocations,
        tally.reports,
        tally.fold_errors,
        tally.max_instrs,
        if is_root() { "" } else { "; kernel eBPF skipped: needs root" }
    );
    assert!(tally.reports * 10 > tally.invocations, "hardly any program reports");
    assert!(tally.fold_errors * 2 < tally.invocations, "most programs end with an error");
}
