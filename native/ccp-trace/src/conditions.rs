//! Conditions of rules on sockets, from Python and for programs.

use std::net::Ipv6Addr;

use serde::Deserialize;

/// From `src/bpf/conditions.h`.
#[allow(non_camel_case_types, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/conditions.rs"));
}

pub use shared::socket_conditions;

/// Which sockets a rule applies to: all must hold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Conditions {
    /// Own addresses: an address and the prefix length; IPv4 is mapped, so that 10.0.0.0/8 is `::ffff:10.0.0.0`, 104.
    pub src: (Ipv6Addr, u8),
    pub dst: (Ipv6Addr, u8),
    pub sport: (u16, u16),
    pub dport: (u16, u16),
    /// Id of the cgroup in or below which sockets were created.
    pub cgroup: Option<u64>,
}

impl Conditions {
    /// The format of programs; none if a prefix is longer than an address.
    pub fn in_kernel(&self) -> Option<socket_conditions> {
        let (src, src_mask) = prefix(self.src)?;
        let (dst, dst_mask) = prefix(self.dst)?;
        Some(socket_conditions {
            src,
            src_mask,
            dst,
            dst_mask,
            cgroup: self.cgroup.unwrap_or(u64::from(shared::ANY_CGROUP)),
            sport_low: self.sport.0,
            sport_high: self.sport.1,
            dport_low: self.dport.0,
            dport_high: self.dport.1,
        })
    }
}

fn prefix((address, bits): (Ipv6Addr, u8)) -> Option<([u64; 2], [u64; 2])> {
    let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits.into())?).unwrap_or(0);
    Some((words(address.to_bits() & mask), words(mask)))
}

/// Sixteen bytes in network order.
fn words(address: u128) -> [u64; 2] {
    let bytes = address.to_be_bytes();
    let (high, low) = bytes.split_at(8);
    [high, low].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_lie_as_programs_compare_them() {
        let wanted = Conditions {
            src: (Ipv6Addr::UNSPECIFIED, 0),
            dst: ("::ffff:10.1.2.3".parse().expect("an address"), 120),
            sport: (0, u16::MAX),
            dport: (5001, 5010),
            cgroup: None,
        };
        let there = wanted.in_kernel().expect("they are good");
        assert_eq!((there.src_mask, there.dst_mask[0]), ([0, 0], u64::MAX));
        assert_eq!(there.dst_mask[1].to_ne_bytes(), [255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!(there.dst[1].to_ne_bytes(), [0, 0, 255, 255, 10, 1, 2, 0]);
        assert_eq!((there.sport_high, there.dport_low, there.dport_high), (u16::MAX, 5001, 5010));
        assert_eq!(there.cgroup, 0);
        assert!(Conditions { dst: (Ipv6Addr::UNSPECIFIED, 129), ..wanted }.in_kernel().is_none());
    }
}
