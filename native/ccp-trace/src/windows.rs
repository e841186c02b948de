//! The congestion window of each connection, kept in the kernel for programs that handle its packets.

use std::net::Ipv6Addr;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};

use crate::Result;
use crate::load::{self, refused};
use crate::remembered::tcp_window;

static OBJECT: &[u8] = include_bytes!(env!("CCP_WINDOWS_OBJECT"));

/// Maximum connections; the kernel evicts those longest silent.
const MAX_CONNECTIONS: u32 = 16_384;

/// A direction of a TCP connection, as in its packets; IPv4 addresses are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub src_port: u16,
    pub dst_port: u16,
}

impl Connection {
    /// `struct windows_key`.
    fn key(&self) -> [u8; 36] {
        let mut key = [0; 36];
        key[..16].copy_from_slice(&self.src.octets());
        key[16..32].copy_from_slice(&self.dst.octets());
        key[32..34].copy_from_slice(&self.src_port.to_ne_bytes());
        key[34..].copy_from_slice(&self.dst_port.to_ne_bytes());
        key
    }
}

/// The sender's congestion window when it sent its newest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub cwnd_bytes: u64,
    /// The sender's segment size.
    pub mss_bytes: u32,
}

/// The attached program. Dropping it detaches it.
pub struct Windows {
    // In this order: detached first, then the maps.
    _links: Vec<Link>,
    windows: MapHandle,
    _object: Object,
}

impl Windows {
    /// Loads and attaches the program, for these network namespaces, or all. Errors: `load.no_btf`,
    /// `trace.no_tracepoint`, `trace.not_permitted` or `trace.refused`.
    pub fn attach(netns_inodes: Option<&[u32]>) -> Result<Self> {
        load::need_tracepoints(&ccp_load::kernel_types()?, &["net_dev_queue"])?;
        let mut open = ccp_load::open(OBJECT).map_err(|e| refused(&e))?;
        let wanted = netns_inodes.map_or(1, |inodes| inodes.len().max(1) as u32);
        let sizes = [("windows", MAX_CONNECTIONS), ("netns_wanted", wanted)];
        load::fit(&mut open, &sizes, &[u64::from(netns_inodes.is_some())])?;
        let object = open.load().map_err(|e| refused(&e))?;
        load::want_netns(&object, netns_inodes.unwrap_or_default())?;
        let windows = MapHandle::try_from(&ccp_load::map(&object, "windows")?).map_err(|e| refused(&e))?;
        Ok(Windows { _links: load::attach(&object)?, windows, _object: object })
    }

    /// The connection's window when it sent its newest packet; one system call.
    pub fn window(&self, connection: &Connection) -> Option<Window> {
        let mut value = [0; size_of::<tcp_window>()];
        self.windows
            .lookup_into(&connection.key(), &mut value, MapFlags::ANY)
            .is_ok_and(|found| found)
            .then(|| parse(value))
    }
}

fn parse(value: [u8; size_of::<tcp_window>()]) -> Window {
    let [a, b, c, d, mss @ ..] = value;
    let mss_bytes = u32::from_ne_bytes(mss);
    Window { cwnd_bytes: u64::from(u32::from_ne_bytes([a, b, c, d])) * u64::from(mss_bytes), mss_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remembered::windows_key;

    #[test]
    fn keys_and_values_lie_as_the_program_has_them() {
        let connection = Connection {
            src: "fd00::1".parse().expect("an address"),
            dst: "fd00::2".parse().expect("an address"),
            src_port: 5201,
            dst_port: 40_000,
        };
        // SAFETY: plain integers without gaps.
        let key = unsafe { std::mem::transmute::<[u8; 36], windows_key>(connection.key()) };
        assert_eq!((key.saddr[15], key.daddr[15], key.sport, key.dport), (1, 2, 5201, 40_000));
        let window = tcp_window { cwnd_pkts: 10, mss_bytes: 1440 };
        // SAFETY: plain integers without gaps.
        let bytes = unsafe { std::mem::transmute::<tcp_window, [u8; 8]>(window) };
        assert_eq!(parse(bytes), Window { cwnd_bytes: 14_400, mss_bytes: 1440 });
    }
}
