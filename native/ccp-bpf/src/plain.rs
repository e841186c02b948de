//! The kernel's CUBIC as a congestion control in BPF without an agent: what benchmarks measure ours beside.

use std::fmt::Debug;

use libbpf_rs::{Link, MapCore, MapType, Object};

use crate::kernel::Kernel;
use crate::object::{self, load_error, register_error};
use crate::{Error, Result};
use ccp_load::bug;

static OBJECT: &[u8] = include_bytes!(env!("CCP_PLAIN_OBJECT"));
/// What sockets choose, as `plain.bpf.c` has it.
const NAME: &str = "plain_cubic";

/// `plain_cubic`, offered to sockets. Dropping it takes the name away; sockets that have it keep it to their end.
pub struct PlainCubic {
    _link: Link,
    _object: Object,
}

impl Debug for PlainCubic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainCubic").finish_non_exhaustive()
    }
}

impl PlainCubic {
    /// Loads and registers it.
    ///
    /// # Errors
    ///
    /// `load.no_btf`, `load.no_struct_ops`, `load.no_cubic`, `load.refused` or `load.register`.
    pub fn new() -> Result<Self> {
        let kernel = Kernel::read()?;
        let wanted = choose(kernel.cubic.cwnd_event, kernel.cubic.tx_start)?;
        let mut open = object::open(OBJECT)?;
        for mut map in open.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
            let fits = map.name().to_string_lossy() == wanted;
            map.set_autocreate(fits).map_err(|e| load_error(&e))?;
            if !kernel.has_struct_ops_link {
                let flags = map.map_flags() & !object::BPF_F_LINK;
                map.set_map_flags(flags).map_err(|e| load_error(&e))?;
            }
        }
        let mut object = open.load().map_err(|e| load_error(&e))?;
        let mut ops = object.maps_mut().find(|map| map.name() == wanted).ok_or_else(|| bug(wanted))?;
        let link = ops.attach_struct_ops().map_err(|e| register_error(NAME, &e))?;
        Ok(PlainCubic { _link: link, _object: object })
    }

    /// What sockets can choose.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAME
    }
}

/// The object's map that fits the kernel's CUBIC.
fn choose(has_cwnd_event: bool, has_tx_start: bool) -> Result<&'static str> {
    match (has_cwnd_event, has_tx_start) {
        (_, true) => Ok("plain_7_1"),
        (true, false) => Ok("plain_7_0"),
        (false, false) => {
            Err(Error::new("load.no_cubic", "this kernel has no CUBIC that BPF programs can call")
                .why("its BTF has none of CUBIC's functions")
                .fix("modprobe tcp_cubic, or use a kernel with CONFIG_TCP_CONG_CUBIC"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn each_kernel_gets_the_programs_that_its_cubic_has_functions_for() {
        assert_eq!(choose(true, false).expect("until 7.0"), "plain_7_0");
        assert_eq!(choose(false, true).expect("since 7.1"), "plain_7_1");
        assert_eq!(choose(false, false).expect_err("none").slug, "load.no_cubic");
    }
}
