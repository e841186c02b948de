//! Arrivals at receivers, counted as by `ccplane.base._native.TcpArrivals`.

use ccp_int::FlowKey;
use ccp_record::flow::tcp_arrivals;
use ccp_record::{Plain, bin_of_us, growth};
use ccp_tcp::Data;

use super::World;
use super::connection::{Arrivals, Connection};
use super::hosts::Hosts;

/// The minimum delay is that of the last one or two of these intervals.
const MINIMUM_NS: u64 = 15_000_000_000;

/// An empty count; `s` is the receiver.
pub(super) fn of(connection: usize, key: &FlowKey) -> Box<Arrivals> {
    let now = tcp_arrivals {
        cookie: connection as u64 + 1,
        saddr: key.dst.octets(),
        daddr: key.src.octets(),
        sport: key.dst_port,
        dport: key.src_port,
        tick_us: 1,
        stamped: 1,
        ..tcp_arrivals::default()
    };
    Box::new(Arrivals { now, before: tcp_arrivals::default() })
}

impl Connection {
    /// A segment arrived at the receiver of data.
    pub fn count_arrival(&mut self, now_ns: u64, data: &Data, is_ce: bool) {
        let Some(arrivals) = &mut self.arrivals else { return };
        let now = &mut arrivals.now;
        let delay_us = ((now_ns - data.sent_ns) / 1000) as i64;
        if now.segs == 0 {
            (now.first_ns, now.window_ns, now.min_us) = (now_ns, now_ns, [delay_us; 2]);
        } else if now_ns - now.window_ns >= MINIMUM_NS {
            (now.window_ns, now.min_us) = (now_ns, [delay_us, now.min_us[0]]);
        }
        now.min_us[0] = now.min_us[0].min(delay_us);
        let min_us = now.min_us[0].min(now.min_us[1]);
        now.bins[bin_of_us((delay_us - min_us) as u64)] += 1;
        now.segs += 1;
        now.ce_segs += u64::from(is_ce);
        now.resent_segs += u64::from(data.is_retransmission);
        now.newest_ns = now_ns;
        // Both ends have the same clock.
        now.elapsed_us = (now_ns - now.first_ns) / 1000;
        now.ticks = now.elapsed_us;
    }
}

/// Arrivals of one connection since the last call, and totals of its receiver.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Arrived {
    /// As counted by the kernel's program.
    pub counts: tcp_arrivals,
    pub bytes_received: u64,
    /// Segments with data.
    pub data_in: u64,
    /// Of them, those after a gap.
    pub out_of_order: u64,
    /// Of them, duplicates.
    pub duplicates: u64,
    /// The receiver's host, instead of its network namespace.
    pub netns: u32,
    pub pad: u32,
}

const _: () =
    assert!(size_of::<Arrived>() == size_of::<tcp_arrivals>() + 4 * size_of::<u64>() + 2 * size_of::<u32>());

// SAFETY: integers only, without gaps, as asserted.
unsafe impl Plain for Arrived {}

impl World {
    /// Connections with arrivals since the last call.
    pub fn take_arrivals(&mut self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        for connection in &mut self.connections {
            let bytes_received = connection.in_order_bytes();
            let receiver = &connection.data.receiver;
            let Some(arrivals) = &mut connection.arrivals else { continue };
            if arrivals.now.segs != arrivals.before.segs {
                arrived.push(Arrived {
                    counts: growth(&arrivals.now, &arrivals.before),
                    bytes_received,
                    data_in: receiver.totals.segments,
                    out_of_order: receiver.totals.out_of_order_segments,
                    duplicates: receiver.totals.duplicate_segments,
                    netns: Hosts::netns(connection.receiver),
                    pad: 0,
                });
                arrivals.before = arrivals.now;
            }
            if arrivals.now.closed != 0 {
                connection.arrivals = None;
            }
        }
        arrived
    }
}
