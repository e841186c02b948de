//! What the programs know of the clients.

use std::net::Ipv6Addr;

use ccp_trace::load;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::attach::refused;
use crate::core::types::{rtcp_client, rtcp_key};
use crate::{Error, Result};

/// The map that the programs keep them in.
pub(crate) const MAP: &str = "rtcp_clients";

/// A client, and the namespace that the connections to it are in.
#[derive(Debug)]
pub struct Client {
    /// The namespace's inode.
    pub netns: u32,
    /// IPv4 mapped.
    pub address: Ipv6Addr,
    /// All the rest.
    pub state: rtcp_client,
}

impl Client {
    /// What the programs would say of it now: a number of `rtcp_verdict`.
    #[must_use]
    pub fn verdict(&self) -> u32 {
        self.state.told
    }

    fn is_over(&self, kept_us: u64, now_us: u64) -> bool {
        self.state.open_flows == 0 && now_us.saturating_sub(self.state.closed_us) > kept_us
    }
}

/// Clients of whatever is attached, or was when sockets began that still are.
///
/// # Errors
///
/// `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
pub fn all() -> Result<Vec<Client>> {
    let newest = MapInfoIter::default().filter(|m| m.name == MAP).map(|m| m.id).max();
    let Some(id) = newest else {
        // Who may not look at maps at all finds none, too.
        return Err(Error::new("rtcp.not_attached", "R-TCP's congestion controls are not attached")
            .why("there is no table of clients in the kernel, or this process may not see it")
            .fix("run `ccp rtcp attach` first, and look as root"));
    };
    read(&MapHandle::from_map_id(id).map_err(|e| refused(&e))?)
}

pub(crate) fn sweep(map: &impl MapCore, kept_us: u64, now_us: u64) -> Result<Vec<Client>> {
    let (over, rest): (Vec<_>, Vec<_>) = read(map)?.into_iter().partition(|c| c.is_over(kept_us, now_us));
    for client in over {
        // A connection that began meanwhile finds its client gone, and makes it anew when it starts to send.
        let key = rtcp_key { netns: client.netns, address: client.address.octets() };
        // SAFETY: a whole structure of plain integers without gaps.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const key).cast::<u8>(), size_of::<rtcp_key>()) };
        map.delete(bytes).or_else(|e| match e.kind() {
            libbpf_rs::ErrorKind::NotFound => Ok(()),
            _ => Err(refused(&e)),
        })?;
    }
    Ok(rest)
}

fn read(map: &impl MapCore) -> Result<Vec<Client>> {
    if map.key_size() as usize != size_of::<rtcp_key>()
        || map.value_size() as usize != size_of::<rtcp_client>()
    {
        return Err(load::bug("table of clients of this size"));
    }
    let mut clients = Vec::new();
    for key in map.keys() {
        let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(|e| refused(&e))? else {
            continue;
        };
        // SAFETY: as many bytes as the structures, and any are a value of each of their integers.
        let (key, state) = unsafe {
            (
                key.as_ptr().cast::<rtcp_key>().read_unaligned(),
                value.as_ptr().cast::<rtcp_client>().read_unaligned(),
            )
        };
        clients.push(Client { netns: key.netns, address: key.address.into(), state });
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_over_when_nobody_comes_back_for_long() {
        let client = |open_flows, closed_us| Client {
            netns: 1,
            address: Ipv6Addr::LOCALHOST,
            state: rtcp_client { open_flows, closed_us, ..Default::default() },
        };
        assert!(client(0, 100).is_over(50, 151));
        assert!(!client(0, 100).is_over(50, 150));
        assert!(!client(1, 100).is_over(50, 151));
        assert!(!client(0, 100).is_over(50, 99), "closed after the clock was read");
    }
}
