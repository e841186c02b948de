//! interpreter = kernel eBPF = libccp, register for register, on random programs. CCP_DIFF_PROGRAMS (default
//! 10000) sets their number, CCP_DIFF_SEED the first seed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use ccp_difftest::compare::{Tally, try_seed};
use ccp_difftest::is_root;
use ccp_difftest::kernel::Kernel;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
        Err(_) => default,
    }
}

#[test]
fn machines_agree_on_random_programs() {
    let programs = number("CCP_DIFF_PROGRAMS", 10_000);
    let seed = number("CCP_DIFF_SEED", 1);
    let started = Instant::now();
    let failed = AtomicBool::new(false);
    let n_threads = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let work = |first: u64| -> Result<Tally, String> {
        let kernel = is_root().then(Kernel::new).transpose()?;
        let mut tally = Tally::default();
        for seed in (first..seed + programs).step_by(n_threads as usize) {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            try_seed(seed, kernel.as_ref(), &mut tally)
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(tally)
    };
    let mut total = Tally::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|i| scope.spawn(move || work(seed + i))).collect();
        for thread in threads {
            match thread.join().expect("no machine panics") {
                Ok(tally) => total.add(&tally),
                Err(account) => panic!("{account}"),
            }
        }
    });
    let machines = if is_root() { "interpreter = kernel eBPF = libccp" } else { "interpreter = libccp" };
    println!(
        "{} programs, {} invocations: {machines} ({} programs also by libccp, {} reports, {} fold errors, \
         {} eBPF instructions, largest program {}, seed {seed}, {:.1} s)",
        total.programs,
        total.invocations,
        total.with_libccp,
        total.reports,
        total.fold_errors,
        total.insns,
        total.max_instrs,
        started.elapsed().as_secs_f64(),
    );
    if !is_root() {
        println!("kernel eBPF skipped: needs root");
    }
    assert_eq!(total.programs as u64, programs);
    // Programs that all fail, or never report, would test little.
    assert!(total.reports * 10 > total.invocations || programs < 1000, "hardly any program reports");
    assert!(total.fold_errors * 2 < total.invocations || programs < 1000, "most programs end with an error");
}
