//! What the programs know of the clients.

use std::path::Path;

use ccp_trace::load;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use crate::attach::refused;
use crate::core::EXTENSION;
use crate::core::types::{rtcp_client, rtcp_key, rtcp_remote};
use crate::{Error, Result};

/// The map that the programs keep them in.
pub(crate) const MAP: &str = "rtcp_clients";
/// Where they count the connections of clients that it has no room for.
pub(crate) const NO_ROOM: &str = "rtcp_no_room";

/// A client, and the namespace that the connections to it are in.
#[derive(Debug)]
pub struct Client {
    /// The namespace's cookie.
    pub netns_cookie: u64,
    /// Their other ends.
    pub remote: rtcp_remote,
    /// All the rest.
    pub state: rtcp_client,
}

impl Client {
    /// What the programs would say of it now: a number of `rtcp_verdict`.
    #[must_use]
    pub fn verdict(&self) -> u32 {
        self.state.told.into()
    }
}

/// A table of clients.
#[derive(Debug)]
pub struct Table {
    /// Whether it is that of an agent's extension; else of the congestion controls that were attached.
    pub of_agent: bool,
    /// Connections that are not bounded, because there was no room for their client.
    pub no_room: u64,
    /// Who is in it.
    pub clients: Vec<Client>,
}

/// The table of whatever was attached last, while sockets have it, and that of the agent whose datapath is pinned there.
///
/// # Errors
///
/// `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
pub fn tables(pin_dir: &Path) -> Result<Vec<Table>> {
    let folder = pin_dir.join("extension").join(EXTENSION);
    let agents = pinned(&folder.join(MAP))?.zip(pinned(&folder.join(NO_ROOM))?);
    let mut agents_ids = Vec::new();
    for map in agents.iter().flat_map(|(clients, no_room)| [clients, no_room]) {
        agents_ids.push(map.info().map_err(|e| refused(&e))?.info.id);
    }
    let newest = |name: &str| {
        MapInfoIter::default().filter(|m| m.name == name && !agents_ids.contains(&m.id)).map(|m| m.id).max()
    };
    let attached = newest(MAP).zip(newest(NO_ROOM)).map(|(clients, no_room)| {
        let open = |id| MapHandle::from_map_id(id).map_err(|e| refused(&e));
        Ok((open(clients)?, open(no_room)?))
    });
    let mut tables = Vec::new();
    for (maps, of_agent) in [(attached.transpose()?, false), (agents, true)] {
        if let Some((clients, no_room)) = maps {
            tables.push(Table { of_agent, no_room: counted(&no_room)?, clients: read(&clients)? });
        }
    }
    if tables.is_empty() {
        // Who may not look at maps at all finds none, too.
        return Err(Error::new("rtcp.not_attached", "R-TCP's congestion controls are not attached")
            .why("there is no table of clients in the kernel, or this process may not see it")
            .fix("run `ccp rtcp attach` or an algorithm such as r_tcp_cubic first, and look as root"));
    }
    Ok(tables)
}

/// A map that is pinned, if there is one.
fn pinned(path: &Path) -> Result<Option<MapHandle>> {
    match MapHandle::from_pinned_path(path) {
        Ok(map) => Ok(Some(map)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(refused(&e)),
    }
}

/// The number in a [`NO_ROOM`].
pub(crate) fn counted(no_room: &impl MapCore) -> Result<u64> {
    let value = no_room.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| refused(&e))?;
    Ok(value.unwrap_or_default().as_slice().try_into().map_or(0, u64::from_ne_bytes))
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
        clients.push(Client { netns_cookie: key.netns_cookie, remote: key.remote, state });
    }
    Ok(clients)
}
