//! Loads the program that counts arriving segments, and reads its counts.

use std::collections::HashMap;

use ccp_record::{bytes_of, copy_out, growth};
use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::Result;
use crate::flow::{ARRIVALS_IDLE_NS, tcp_arrivals};
use crate::load::{self, refused};

static OBJECT: &[u8] = include_bytes!(env!("CCP_ARRIVALS_OBJECT"));

/// Flows per system call.
const BATCH_FLOWS: u32 = 256;

/// Which segments to count.
#[derive(Clone, Debug)]
pub struct Watched {
    pub netns_inode: u32,
    /// The minimum delay is that of the last one or two of these intervals [us].
    pub minimum_us: u64,
    pub max_flows: u32,
}

/// The attached program. Dropping it detaches it.
pub struct Arrivals {
    // In this order: detached first, then the maps.
    _links: Vec<Link>,
    object: Object,
    /// Flows by cookie, at the last read.
    before: HashMap<u64, tcp_arrivals>,
}

impl Arrivals {
    pub fn attach(watched: &Watched) -> Result<Self> {
        load::need_tracepoints(&ccp_load::kernel_types()?, &load::SOCKET_TRACEPOINTS)?;
        let mut open = ccp_load::open(OBJECT).map_err(|e| refused(&e))?;
        let constants = [watched.minimum_us.saturating_mul(1000), u64::from(watched.netns_inode)];
        load::fit(&mut open, &[("flows", watched.max_flows.max(1))], &constants)?;
        let object = open.load().map_err(|e| refused(&e))?;
        Ok(Arrivals { _links: load::attach(&object)?, object, before: HashMap::new() })
    }

    /// Flows with arrivals since the last call, as an array of `tcp_arrivals`: the increase of `segs`,
    /// `ce_segs`, `resent_segs` and `bins`, other fields unchanged.
    pub fn drain(&mut self) -> Result<Vec<u8>> {
        let flows = ccp_load::map(&self.object, "flows")?;
        let read = flows.lookup_batch(BATCH_FLOWS, MapFlags::ANY, MapFlags::ANY).map_err(|e| refused(&e))?;
        let now: Vec<tcp_arrivals> = read.filter_map(|(_, value)| copy_out(&value)).collect();
        let newest_ns = now.iter().map(|flow| flow.newest_ns).max().unwrap_or(0);
        let mut grown = Vec::new();
        for flow in now {
            let before = self.before.insert(flow.cookie, flow).unwrap_or_default();
            if flow.segs != before.segs {
                grown.extend_from_slice(bytes_of(&growth(&flow, &before)));
            }
            if flow.closed != 0 || newest_ns - flow.newest_ns > ARRIVALS_IDLE_NS {
                self.before.remove(&flow.cookie);
                let _ = flows.delete(&flow.cookie.to_ne_bytes()); // may be gone already
            }
        }
        Ok(grown)
    }

    /// Segments of flows for which there was no room.
    pub fn dropped(&self) -> Result<u64> {
        load::dropped(&self.object)
    }
}
