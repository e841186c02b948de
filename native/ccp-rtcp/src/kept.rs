//! Tables that outlive whoever loaded them: pinned, and taken over by the next.

use std::fs;
use std::path::{Path, PathBuf};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType};
use rustix::time::{ClockId, clock_gettime};

use crate::attach::refused;
use crate::clients::{self, CURRENT, MAP, NO_ROOM};
use crate::core::types::{RTCP_APART, RTCP_LIMITED, rtcp_client};
use crate::layout::{Layout, bytes_of};
use crate::{Error, Result};

/// Beside the table: how it lies in memory.
const LAYOUT: &str = "rtcp_layout";
const LAYOUT_BYTES: usize = 4096;
/// How long a client without a connection is known, as far as whoever loads an extension knows: `kept_s`.
const USUAL_KEPT_US: u64 = 600_000_000;

/// What became of the table of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// There was none.
    Nothing,
    /// So many clients are known on: the table is theirs.
    Table(usize),
    /// So many limited clients are in a new table: the old one lay otherwise in memory, or had another size.
    Verdicts(usize),
    /// Nothing of the table can be read, or there is no room for so many verdicts.
    Lost(usize),
}

/// A table that somebody left, open.
#[derive(Debug)]
pub struct Left {
    clients: MapHandle,
    no_room: MapHandle,
    current: Option<MapHandle>,
    layout: Option<Layout>,
}

impl Left {
    /// What is pinned in a folder, if there is something.
    ///
    /// # Errors
    ///
    /// `rtcp.not_permitted` or `rtcp.refused`.
    pub fn open(folder: &Path) -> Result<Option<Self>> {
        let Some((clients, no_room)) = pinned(&folder.join(MAP))?.zip(pinned(&folder.join(NO_ROOM))?) else {
            return Ok(None);
        };
        Ok(Some(Left {
            clients,
            no_room,
            current: pinned(&folder.join(CURRENT))?,
            layout: layout_in(folder)?,
        }))
    }

    /// Whether programs of this version can go on with the table itself.
    pub(crate) fn is_own(&self, max_clients: u32) -> bool {
        self.clients.max_entries() == max_clients
            && self.layout.as_ref().is_some_and(|layout| {
                layout.is_own() && layout.fits(self.clients.key_size(), self.clients.value_size())
            })
    }

    /// What programs can go on with: all, or just the number of those that are registered.
    pub(crate) fn map(&self, name: &str, is_own: bool) -> Option<&MapHandle> {
        match name {
            MAP if is_own => Some(&self.clients),
            NO_ROOM if is_own => Some(&self.no_room),
            CURRENT => self.current.as_ref(),
            _ => None,
        }
    }

    /// The number of the programs before ours.
    ///
    /// # Errors
    ///
    /// `rtcp.not_permitted` or `rtcp.refused`.
    pub(crate) fn load(&self) -> Result<u64> {
        self.current.as_ref().map_or(Ok(0), clients::counted)
    }

    /// Writes what is known of limited clients into the table that is pinned in a folder by now, if it is another one.
    ///
    /// # Errors
    ///
    /// `rtcp.not_permitted` or `rtcp.refused`.
    pub fn go_on(&self, folder: &Path) -> Result<Kept> {
        let Some(now) = pinned(&folder.join(MAP))? else {
            return Ok(Kept::Nothing);
        };
        let id = |map: &MapHandle| map.info().map(|info| info.info.id).map_err(|e| refused(&e));
        if id(&now)? == id(&self.clients)? {
            return Ok(Kept::Table(now.keys().count()));
        }
        self.carry(&now, USUAL_KEPT_US)
    }

    /// Writes what is known of limited clients into another table, where nobody is known better.
    ///
    /// # Errors
    ///
    /// `rtcp.not_permitted` or `rtcp.refused`.
    pub fn carry(&self, to: &impl MapCore, kept_us: u64) -> Result<Kept> {
        let Some(layout) = self.layout.as_ref().filter(|one| one.has_verdicts()) else {
            return Ok(Kept::Lost(self.clients.keys().count()));
        };
        let now_us = now_us();
        let (mut carried, mut lost) = (0, 0);
        for (mut key, client) in clients::entries(&self.clients, layout)? {
            let Some(mut client) = goes_on(client, now_us, kept_us) else {
                continue;
            };
            match to.update(bytes_of(&mut key), bytes_of(&mut client), MapFlags::NO_EXIST) {
                Ok(()) => carried += 1,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) if e.kind() == ErrorKind::TooBig => lost += 1, // it is full
                Err(e) => return Err(refused(&e)),
            }
        }
        Ok(if lost > 0 { Kept::Lost(lost) } else { Kept::Verdicts(carried) })
    }
}

/// The client as one that nobody is connected to; none if nothing was found of it, or it is forgotten by now.
fn goes_on(known: rtcp_client, now_us: u64, kept_us: u64) -> Option<rtcp_client> {
    let is_there = known.open_flows > 0 || known.over_us == 0;
    let over_us = if is_there { now_us + kept_us } else { known.over_us };
    let is_limited = known.detector.limited != 0;
    if (!is_limited && known.apart == 0) || over_us <= now_us {
        return None;
    }
    let told = if known.apart != 0 { RTCP_APART } else { RTCP_LIMITED };
    let mut client = rtcp_client {
        born_us: now_us,
        over_us,
        netns: known.netns,
        told: told as u8,
        apart: known.apart,
        ..Default::default()
    };
    client.detector.mss_bytes = known.detector.mss_bytes;
    if !is_limited {
        return Some(client);
    }
    let (to, from) = (&mut client.detector, &known.detector);
    (to.limited, to.detected, to.started) = (1, 1, 1);
    (to.bucket_bytes, to.rate_bytes_per_s) = (from.bucket_bytes, from.rate_bytes_per_s);
    (to.told_bytes_per_s, to.highest_bytes_per_s) = (from.told_bytes_per_s, from.highest_bytes_per_s);
    // Of when it was heard of last, and its clock has 32 bits: a transfer that began then keeps that time whole.
    let since_us = from.last.time_us.wrapping_sub(from.transfer.origin_us as u32);
    let last_us = from.transfer.origin_us + u64::from(since_us);
    (to.tokens_ubytes, to.transfer.origin_us, to.last.time_us) =
        (from.tokens_ubytes, last_us, last_us as u32);
    Some(client)
}

/// Pins a table into a folder, in place of what is there.
///
/// # Errors
///
/// `rtcp.not_kept`.
pub(crate) fn pin(folder: &Path, maps: [&MapHandle; 3]) -> Result<()> {
    let failed = |why: String| {
        Error::new("rtcp.not_kept", "verdicts will not outlive this process")
            .at(folder.display().to_string())
            .why(why)
            .fix(
                "run as root with a BPF file system mounted (mount -t bpf bpf /sys/fs/bpf), or use --no-keep",
            )
    };
    fs::create_dir_all(folder).map_err(|e| failed(e.to_string()))?;
    // The layout last: a table without one is not read.
    for (name, map) in [MAP, NO_ROOM, CURRENT].into_iter().zip(maps) {
        replace(folder, name, map).map_err(&failed)?;
    }
    tell_layout(folder).map_err(|e| failed(e.to_string()))
}

fn replace(folder: &Path, name: &str, map: &MapHandle) -> std::result::Result<(), String> {
    let next = folder.join(format!("{name}-next"));
    let _ = fs::remove_file(&next); // what a killed one left
    let mut map = MapHandle::try_from(map).map_err(|e| e.to_string())?;
    map.pin(&next).map_err(|e| format!("{e:#}"))?;
    fs::rename(&next, folder.join(name)).map_err(|e| e.to_string())
}

/// Says beside a table of ours how it lies in memory.
///
/// # Errors
///
/// `rtcp.not_permitted` or `rtcp.refused`.
pub fn tell_layout(folder: &Path) -> Result<()> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let map = MapHandle::create(MapType::Array, Some(LAYOUT), 4, LAYOUT_BYTES as u32, 1, &options)
        .map_err(|e| refused(&e))?;
    let mut text = Layout::own().to_text().into_bytes();
    text.resize(LAYOUT_BYTES, 0);
    map.update(&0u32.to_ne_bytes(), &text, MapFlags::ANY).map_err(|e| refused(&e))?;
    replace(folder, LAYOUT, &map)
        .map_err(|why| Error::new("rtcp.refused", "a table's layout cannot be pinned").why(why))
}

/// What is told beside a table; none if nothing is, or it is not understood.
pub(crate) fn layout_in(folder: &Path) -> Result<Option<Layout>> {
    let Some(map) = pinned(&folder.join(LAYOUT))? else {
        return Ok(None);
    };
    let text = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| refused(&e))?.unwrap_or_default();
    Ok(String::from_utf8(text).ok().and_then(|text| Layout::from_text(&text)))
}

/// Forgets what is kept in a folder. Returns whether there was something.
///
/// # Errors
///
/// `rtcp.refused`.
pub fn forget(folder: &Path) -> Result<bool> {
    let there: Vec<PathBuf> = [MAP, NO_ROOM, CURRENT, LAYOUT]
        .map(|name| folder.join(name))
        .into_iter()
        .filter(|p| p.exists())
        .collect();
    for path in &there {
        fs::remove_file(path).map_err(|e| {
            Error::new("rtcp.refused", "a table of clients cannot be removed")
                .at(path.display().to_string())
                .why(e)
                .fix("run as root")
        })?;
    }
    let _ = fs::remove_dir(folder); // a service's is made for it, and stays
    Ok(!there.is_empty())
}

/// A map that is pinned, if there is one.
pub(crate) fn pinned(path: &Path) -> Result<Option<MapHandle>> {
    match MapHandle::from_pinned_path(path) {
        Ok(map) => Ok(Some(map)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(refused(&e)),
    }
}

fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(over_us: u64, open_flows: u32) -> rtcp_client {
        let mut client = rtcp_client { over_us, open_flows, netns: 9, ..Default::default() };
        client.detector.limited = 1;
        client.detector.rate_bytes_per_s = 125_000;
        client.detector.tokens_ubytes = 3;
        client.detector.transfer.origin_us = (1 << 32) - 1;
        client.detector.last.time_us = 4;
        client
    }

    #[test]
    fn a_verdict_goes_on_until_its_time_is_up() {
        let now_us = 1_000;
        let until = |client| goes_on(client, now_us, 50).map(|client| client.over_us);
        assert_eq!(until(limited(1_020, 0)), Some(1_020));
        assert_eq!(until(limited(1_000, 0)), None);
        assert_eq!(until(limited(0, 1)), Some(1_050), "somebody is connected, who will not be seen to go");
        assert_eq!(until(limited(900, 2)), Some(1_050));
        assert_eq!(until(rtcp_client { over_us: 1_020, ..Default::default() }), None, "it is not limited");
        let apart = rtcp_client { over_us: 1_020, apart: 1, ..Default::default() };
        let kept = goes_on(apart, now_us, 50).expect("its connections stay clients of their own");
        assert_eq!((kept.apart, kept.detector.limited), (1, 0));
    }

    #[test]
    fn who_comes_finds_the_limit_and_its_tokens() {
        let client = goes_on(limited(0, 1), 1_000, 50).expect("it is limited");
        assert_eq!((client.born_us, client.open_flows, client.netns), (1_000, 0, 9));
        assert_eq!((client.detector.rate_bytes_per_s, client.detector.tokens_ubytes), (125_000, 3));
        assert_eq!((client.detector.transfer.origin_us, client.detector.last.time_us), ((1 << 32) + 4, 4));
        assert_eq!((client.detector.limited, client.detector.detected, client.detector.started), (1, 1, 1));
    }
}
