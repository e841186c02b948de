//! How many packets a second of one core's time: `cargo test --release -p ccp-ioam -- --ignored --nocapture`.

use std::fs;
use std::hint::black_box;

use crate::option::IoamOption;
use crate::option::Parsed;
use crate::samples::{node, packet, trace};
use crate::{TraceType, decode, fill, insert, options, remove};

const ROUNDS: u32 = 2_000_000;
/// What the paper's nodes say, and what Linux can: five words, and a snapshot of eight.
const FIELDS: u32 = TraceType::NODE
    | TraceType::INTERFACES
    | TraceType::TIMESTAMP_S
    | TraceType::TIMESTAMP_FRACTION
    | TraceType::QUEUE_DEPTH
    | TraceType::SNAPSHOT;

/// Time of a processor that this thread had [s]: others may use the machine, too.
fn cpu_s() -> f64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn measure(name: &str, mut what: impl FnMut()) {
    let start_s = cpu_s();
    for _ in 0..ROUNDS {
        what();
    }
    let rate = f64::from(ROUNDS) / (cpu_s() - start_s);
    println!("{name:<40} {:5.2} million/s", rate / 1e6);
}

#[test]
#[ignore = "measures, and asserts nothing"]
fn rates() {
    let segment = packet(6, &[0; 1400]);
    let room = [IoamOption::Trace(trace(FIELDS, 40, vec![]))];
    let empty = insert(&segment, &room).unwrap();
    for nodes in [1, 3] {
        let mut on_the_way = empty.clone();
        for _ in 0..nodes {
            fill(&mut on_the_way, 0, &node()).unwrap();
        }
        measure(&format!("read a trace, nodes: {nodes}"), || {
            for found in options(black_box(&on_the_way)).unwrap() {
                if let Parsed::Trace(trace) = found.unwrap().option {
                    for node in trace.nodes() {
                        black_box(node.unwrap());
                    }
                }
            }
        });
        measure(&format!("the same, on its own, nodes: {nodes}"), || {
            black_box(decode(black_box(&on_the_way)).unwrap());
        });
    }
    measure("insert a trace into 1440 octets", || {
        drop(black_box(insert(black_box(&segment), &room).unwrap()))
    });
    let mut slot = empty.clone();
    measure("fill a slot", || {
        slot.copy_from_slice(&empty);
        black_box(fill(black_box(&mut slot), 0, &node()).unwrap());
    });
    measure("remove a trace", || drop(black_box(remove(black_box(&empty)).unwrap())));
}
