//! Loading the program that looks at arriving segments, and reading what it counted.

use std::collections::HashMap;
use std::fmt::Debug;

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::Result;
use crate::flow::{ARRIVALS_BINS, ARRIVALS_IDLE_NS, ARRIVALS_STEP_BITS, ARRIVALS_STEPS, tcp_arrivals};
use crate::load::{self, map, refused};

static OBJECT: &[u8] = include_bytes!(env!("CCP_ARRIVALS_OBJECT"));

/// Flows read by one system call.
const BATCH_FLOWS: u32 = 256;

/// Whose segments to look at.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Inode of the network namespace.
    pub netns_inode: u32,
    /// The least delay is that of the last one or two of these [us].
    pub minimum_us: u64,
    /// For how many flows there is room.
    pub max_flows: u32,
}

/// Least delay of each bin of `tcp_arrivals.bins` [us]; the last bin has no end.
pub fn bin_bounds_us() -> Vec<u64> {
    let bounds = (0..ARRIVALS_BINS).map(|bin| {
        let (doubling, step) = (bin >> ARRIVALS_STEP_BITS, bin % ARRIVALS_STEPS);
        match doubling {
            0 => u64::from(bin),
            _ => u64::from(ARRIVALS_STEPS + step) << (doubling - 1),
        }
    });
    bounds.collect()
}

/// The program, attached. Dropping it takes it out of the kernel.
pub struct Arrivals {
    // In this order: detached first, then the maps.
    _links: Vec<Link>,
    object: Object,
    /// Flows by cookie, as they were when they were last read.
    before: HashMap<u64, tcp_arrivals>,
}

impl Debug for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

impl Arrivals {
    /// Loads and attaches the program.
    pub fn attach(watched: &Watched) -> Result<Self> {
        load::need_tracepoints(&load::kernel_types()?, &load::SOCKET_TRACEPOINTS)?;
        let mut open = load::open(OBJECT)?;
        let constants = [watched.minimum_us.saturating_mul(1000), u64::from(watched.netns_inode)];
        load::fit(&mut open, &[("flows", watched.max_flows.max(1))], &constants)?;
        let object = open.load().map_err(|e| refused(&e))?;
        Ok(Arrivals { _links: load::attach(&object)?, object, before: HashMap::new() })
    }

    /// Flows that something came of since the last call, as the bytes of so many `tcp_arrivals`: what grew since then
    /// in `segs`, `ce_segs`, `resent_segs` and `bins`, the rest as it is.
    pub fn drain(&mut self) -> Result<Vec<u8>> {
        let flows = map(&self.object, "flows")?;
        let read = flows.lookup_batch(BATCH_FLOWS, MapFlags::ANY, MapFlags::ANY).map_err(|e| refused(&e))?;
        let now: Vec<tcp_arrivals> = read.filter_map(|(_, value)| parse(&value)).collect();
        let newest_ns = now.iter().map(|flow| flow.newest_ns).max().unwrap_or(0);
        let mut grown = Vec::new();
        for flow in now {
            let before = self.before.insert(flow.cookie, flow).unwrap_or_default();
            if flow.segs != before.segs {
                grown.extend_from_slice(bytes_of(&growth(&flow, &before)));
            }
            if flow.closed != 0 || newest_ns - flow.newest_ns > ARRIVALS_IDLE_NS {
                self.before.remove(&flow.cookie);
                let _ = flows.delete(&flow.cookie.to_ne_bytes()); // gone already is as good
            }
        }
        Ok(grown)
    }

    /// How many segments belonged to flows for which there was no room.
    pub fn dropped(&self) -> Result<u64> {
        load::dropped(&self.object)
    }
}

fn growth(now: &tcp_arrivals, before: &tcp_arrivals) -> tcp_arrivals {
    let mut grown = *now;
    grown.segs = now.segs.wrapping_sub(before.segs);
    grown.ce_segs = now.ce_segs.wrapping_sub(before.ce_segs);
    grown.resent_segs = now.resent_segs.wrapping_sub(before.resent_segs);
    for (bin, before) in grown.bins.iter_mut().zip(before.bins) {
        *bin = bin.wrapping_sub(before);
    }
    grown
}

fn parse(value: &[u8]) -> Option<tcp_arrivals> {
    // SAFETY: enough bytes are there, and any bytes are a value of plain integers.
    (value.len() >= size_of::<tcp_arrivals>())
        .then(|| unsafe { value.as_ptr().cast::<tcp_arrivals>().read_unaligned() })
}

fn bytes_of(flow: &tcp_arrivals) -> &[u8] {
    // SAFETY: plain integers without gaps, as the header has them.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(flow).cast::<u8>(), size_of::<tcp_arrivals>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_begin_where_the_one_before_ends_and_are_never_wider_than_an_eighth() {
        let bounds = bin_bounds_us();
        assert_eq!(&bounds[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(&bounds[14..20], [14, 15, 16, 18, 20, 22]);
        assert_eq!(bounds.last(), Some(&(15 << 20)));
        for pair in bounds.windows(2) {
            assert!(pair[0] < pair[1] && (pair[1] - pair[0]) * 8 <= pair[0].max(8));
        }
    }

    #[test]
    fn only_what_grew_is_told() {
        let mut before = tcp_arrivals { cookie: 7, segs: 100, ce_segs: 3, ticks: 50, ..Default::default() };
        before.resent_segs = 9;
        before.bins[5] = u32::MAX;
        let mut now = tcp_arrivals { segs: 104, ce_segs: 4, ticks: 60, resent_segs: 11, ..before };
        now.bins[5] = 1;
        let grown = parse(bytes_of(&growth(&now, &before))).expect("it is whole");
        assert_eq!((grown.cookie, grown.segs, grown.ce_segs, grown.resent_segs), (7, 4, 1, 2));
        assert_eq!(grown.ticks, 60);
        assert_eq!((grown.bins[5], grown.bins.iter().sum::<u32>()), (2, 2)); // it went round
        assert!(parse(&bytes_of(&now)[1..]).is_none());
    }
}
