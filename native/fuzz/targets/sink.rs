//! Packets of several flows at a sink: any extension headers, times and counts.

#![no_main]

use std::net::Ipv6Addr;

use ccp_fuzz::{options, seeds};
use ccp_int::{Came, FlowKey, Protocol, Sink, SinkSpec};
use ccp_ioam::{IoamOption, build, read_headers};
use libfuzzer_sys::fuzz_target;

/// A packet's bytes: a head, then its extension headers of the length that it names.
const HEAD_BYTES: usize = 16;

fn flow(number: u8) -> FlowKey {
    FlowKey {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
        src_port: number.into(),
        dst_port: 1,
        protocol: Protocol::Tcp,
    }
}

fn seed(options: &[IoamOption]) -> Vec<u8> {
    let built = build(options, 6).unwrap();
    let headers = [built.hop_by_hop, built.destination].concat();
    let mut one = vec![0; HEAD_BYTES];
    (one[0], one[1], one[2]) = ((headers.len() / 8) as u8, 1, 3);
    one.extend(headers);
    [one.clone(), one].concat()
}

fuzz_target!(
    init: seeds(|| vec![seed(&options()), seed(&options()[..2])]),
    |data: &[u8]| {
        let mut sink = Sink::new(SinkSpec { records: true, echo: true, ..SinkSpec::default() }).unwrap();
        let (mut rest, mut summaries, mut mono_ns) = (data, Vec::new(), 0u64);
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let [words, number, flags, tcp_a, tcp_b, pkts, plain, hop_limit, clock @ ..] = *head;
            let (headers, after) = after.split_at(after.len().min(8 * usize::from(words)));
            rest = after;
            let clock = u64::from_le_bytes(clock);
            mono_ns += clock >> 24;
            let key = flow(number % 4);
            sink.came(
                mono_ns,
                clock,
                &Came {
                    flow: &key,
                    len_bytes: 1500,
                    pkts: pkts.into(),
                    hop_limit: (flags & 2 != 0).then_some(hop_limit),
                    tcp_sequence: (flags & 1 != 0).then_some(u32::from_le_bytes([tcp_a, tcp_b, 0xff, 0xff])),
                    plain_pkts: (flags & 4 != 0).then_some(plain.into()),
                    extension: (flags & 8 == 0).then_some((headers, if flags & 16 == 0 { 0 } else { 60 })),
                },
            );
            if flags & 32 != 0 {
                sink.plain_so_far(mono_ns, &key, plain.into());
            }
            if let Some(echo) = sink.echo(mono_ns, &key.reversed()) {
                assert!(read_headers(&echo, 60).all(|option| option.is_ok()));
            }
            sink.take(mono_ns, &mut summaries);
            for summary in summaries.drain(..) {
                assert!(!serde_json::to_string(&summary).unwrap().contains("null"));
            }
            let mut line = String::new();
            for row in sink.take_records() {
                row.write(&mut line);
            }
        }
    }
);
