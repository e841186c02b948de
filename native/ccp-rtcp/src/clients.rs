//! The programs' state of the clients.

use std::path::Path;

use ccp_load as load;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use crate::attach::refused;
use crate::core::EXTENSION;
use crate::core::types::{rtcp_client, rtcp_key, rtcp_remote};
use crate::kept::{layout_in, pinned};
use crate::layout::Layout;
use crate::{Error, Result};

pub(crate) const MAP: &str = "rtcp_clients";
/// Map that counts the connections of clients without room.
pub(crate) const NO_ROOM: &str = "rtcp_no_room";
/// Map with the number of the registered programs.
pub(crate) const CURRENT: &str = "rtcp_current";

/// A client, with the namespace of its connections.
#[derive(Debug)]
pub struct Client {
    pub netns_cookie: u64,
    pub remote: rtcp_remote,
    pub state: rtcp_client,
}

impl Client {
    /// The present verdict: a number of `rtcp_verdict`.
    #[must_use]
    pub fn verdict(&self) -> u32 {
        self.state.reported.into()
    }
}

/// Owner of a table of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Agent,
    /// The congestion controls that are attached, or will be.
    Attach,
    /// Sockets of congestion controls that were attached earlier.
    Earlier,
}

#[derive(Debug)]
pub struct Table {
    pub whose: Whose,
    /// Connections that are not bounded because there was no room for their client.
    pub no_room: u64,
    pub max_clients: u32,
    /// Its clients; None if another version owns it and the table is unreadable.
    pub clients: Option<Vec<Client>>,
}

/// All tables: the pinned one, those of sockets, the newest first, and that of the agent whose datapath is
/// pinned there. Errors: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
pub fn tables(pin_dir: &Path, kept_in: &Path) -> Result<Vec<Table>> {
    let agents = pin_dir.join("extension").join(EXTENSION);
    let kept = Found::pinned(kept_in)?;
    let agents = Found::pinned(&agents)?;
    let known: Vec<_> = [&kept, &agents].into_iter().flatten().flat_map(|found| found.ids).collect();
    // Both maps of each load, in the order of creation.
    let others = |name: &str| {
        let mut ids: Vec<_> = MapInfoIter::default()
            .filter(|m| m.name == name && !known.contains(&m.id))
            .map(|m| m.id)
            .collect();
        ids.sort_unstable();
        ids
    };
    let mut attached: Vec<_> = kept.into_iter().collect();
    for (clients, no_room) in others(MAP).into_iter().zip(others(NO_ROOM)) {
        // Their last socket may close meanwhile.
        if let (Some(clients), Some(no_room)) = (by_id(clients)?, by_id(no_room)?) {
            attached.push(Found::of(clients, no_room, Layout::own())?);
        }
    }
    attached.sort_by_key(|found| std::cmp::Reverse(found.ids[0]));
    let whose = [Whose::Attach].into_iter().chain(std::iter::repeat(Whose::Earlier));
    let all = whose.zip(attached).chain(agents.map(|found| (Whose::Agent, found)));
    let tables = all.map(|(whose, found)| found.table(whose)).collect::<Result<Vec<_>>>()?;
    if tables.is_empty() {
        // A process without the right to see maps also finds none.
        return Err(Error::new("rtcp.not_attached", "R-TCP's congestion controls are not attached")
            .why("there is no table of clients in the kernel, or this process may not see it")
            .fix("run `ccp rtcp attach` or an algorithm such as r_tcp_cubic first; root is required"));
    }
    Ok(tables)
}

struct Found {
    clients: MapHandle,
    no_room: MapHandle,
    ids: [u32; 2],
    layout: Layout,
}

impl Found {
    fn of(clients: MapHandle, no_room: MapHandle, layout: Layout) -> Result<Self> {
        let id = |map: &MapHandle| map.info().map(|info| info.info.id).map_err(|e| refused(&e));
        Ok(Found { ids: [id(&clients)?, id(&no_room)?], clients, no_room, layout })
    }

    fn pinned(folder: &Path) -> Result<Option<Self>> {
        let maps = pinned(&folder.join(MAP))?.zip(pinned(&folder.join(NO_ROOM))?);
        let layout = layout_in(folder)?.unwrap_or_else(Layout::own);
        maps.map(|(clients, no_room)| Found::of(clients, no_room, layout)).transpose()
    }

    fn table(&self, whose: Whose) -> Result<Table> {
        let Found { clients, no_room, layout, .. } = self;
        let is_readable = layout.fits(clients.key_size(), clients.value_size()) && layout.has_verdicts();
        let known = is_readable.then(|| entries(clients, layout)).transpose()?;
        let client = |(key, state): (rtcp_key, rtcp_client)| Client {
            netns_cookie: key.netns_cookie,
            remote: key.remote,
            state,
        };
        Ok(Table {
            whose,
            no_room: counted(no_room)?,
            max_clients: clients.max_entries(),
            clients: known.map(|all| all.into_iter().map(client).collect()),
        })
    }
}

fn by_id(id: u32) -> Result<Option<MapHandle>> {
    match MapHandle::from_map_id(id) {
        Ok(map) => Ok(Some(map)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(refused(&e)),
    }
}

pub(crate) fn counted(no_room: &impl MapCore) -> Result<u64> {
    let value = no_room.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| refused(&e))?;
    Ok(value.unwrap_or_default().as_slice().try_into().map_or(0, u64::from_ne_bytes))
}

/// The content of a table with this layout.
pub(crate) fn entries(map: &impl MapCore, layout: &Layout) -> Result<Vec<(rtcp_key, rtcp_client)>> {
    if !layout.fits(map.key_size(), map.value_size()) {
        return Err(load::bug("table of clients of this size"));
    }
    let mut found = Vec::new();
    for key in map.keys() {
        if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(|e| refused(&e))? {
            found.push(layout.entry(&key, &value));
        }
    }
    Ok(found)
}
