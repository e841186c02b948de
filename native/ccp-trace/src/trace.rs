//! Loads the tracing program, and reads its rows.

use libbpf_rs::{Link, Object};

use crate::load::{self, refused};
use crate::row::tcp_row;
use crate::{Result, Rows};

static OBJECT: &[u8] = include_bytes!(env!("CCP_TRACE_OBJECT"));

const MIN_RING_BYTES: u32 = 4096;

/// Which sockets to sample, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Minimum time between two rows of a socket [us]; 0: a row for every arriving segment.
    pub interval_us: u64,
    /// Inodes of the network namespaces to trace; `None`: all.
    pub netns_inodes: Option<Vec<u32>>,
    /// Size of the ring buffer [bytes]; rounded to a power of two.
    pub ring_bytes: u32,
}

impl Options {
    fn sizes(&self) -> [(&'static str, u32); 2] {
        let netns = self.netns_inodes.as_ref().map_or(1, |inodes| inodes.len().max(1) as u32);
        [("rows", self.ring_bytes.max(MIN_RING_BYTES).next_power_of_two()), ("netns_wanted", netns)]
    }

    /// `struct trace_config`.
    fn constants(&self) -> [u64; 2] {
        [self.interval_us, u64::from(self.netns_inodes.is_some())]
    }
}

/// The attached tracing program. Dropping it detaches it.
pub struct Trace {
    // In this order: detached first, then the reader, then the maps.
    _links: Vec<Link>,
    rows: Rows,
    object: Object,
}

impl Trace {
    pub fn attach(options: &Options) -> Result<Self> {
        load::need_tracepoints(&ccp_load::kernel_types()?, &load::SOCKET_TRACEPOINTS)?;
        let mut open = ccp_load::open(OBJECT).map_err(|e| refused(&e))?;
        load::fit(&mut open, &options.sizes(), &options.constants())?;
        let object = open.load().map_err(|e| refused(&e))?;
        load::want_netns(&object, options.netns_inodes.as_deref().unwrap_or_default())?;
        let rows = Rows::of(&object, size_of::<tcp_row>())?;
        Ok(Trace { _links: load::attach(&object)?, rows, object })
    }

    /// Rows since the last call, as an array of `tcp_row`.
    pub fn drain(&self) -> Result<Vec<u8>> {
        self.rows.drain()
    }

    /// Number of rows lost because the ring was full.
    pub fn dropped(&self) -> Result<u64> {
        load::dropped(&self.object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::trace_config;

    #[test]
    fn the_loader_writes_the_configuration_as_the_program_reads_it() {
        let mut open = ccp_load::open(OBJECT).expect("our own object");
        let options = Options { interval_us: 7, netns_inodes: Some(vec![1, 2, 3]), ring_bytes: 5000 };
        load::fit(&mut open, &options.sizes(), &options.constants()).expect("it fits");
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match name.as_str() {
                "rows" => assert_eq!(map.max_entries(), 8192),
                "netns_wanted" => assert_eq!(map.max_entries(), 3),
                _ if name.ends_with(".rodata") => {
                    let config = map.initial_value_mut().expect("it has one").as_ptr().cast::<trace_config>();
                    // SAFETY: fit() checked the size; plain integers.
                    let config = unsafe { config.read_unaligned() };
                    assert_eq!((config.interval_us, config.only_some_netns), (7, 1));
                }
                _ => {}
            }
        }
    }
}
