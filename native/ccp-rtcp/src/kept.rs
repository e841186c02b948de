//! Pinned tables of clients, which outlive a process and are taken over by the next one.

use std::fs;
use std::path::{Path, PathBuf};

use ccp_load::clock::now_us;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType};

use crate::attach::refused;
use crate::clients::{self, CURRENT, MAP, NO_ROOM};
use crate::core::types::{RTCP_APART, RTCP_LIMITED, rtcp_client};
use crate::layout::{Layout, bytes_of};
use crate::{Error, Result};

/// Pinned beside the table: its layout in memory.
const LAYOUT: &str = "rtcp_layout";
const LAYOUT_BYTES: usize = 4096;
/// For how long a client without a connection is kept if nobody says otherwise: `kept_s`.
const USUAL_KEPT_US: u64 = 600_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Nothing,
    /// The table is taken over, with so many clients.
    Table(usize),
    /// So many limited clients were copied into a new table: layout or size of the old one differ.
    Verdicts(usize),
    /// The table is unreadable, or there is no room for so many verdicts.
    Lost(usize),
}

/// An opened table of an earlier process.
#[derive(Debug)]
pub struct Left {
    clients: MapHandle,
    no_room: MapHandle,
    current: Option<MapHandle>,
    layout: Option<Layout>,
}

impl Left {
    /// Opens the table pinned in a folder, if any. Errors: `rtcp.not_permitted` or `rtcp.refused`.
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

    /// Whether programs of this version can use the table itself.
    pub(crate) fn is_own(&self, max_clients: u32) -> bool {
        self.clients.max_entries() == max_clients
            && self.layout.as_ref().is_some_and(|layout| {
                layout.is_own() && layout.fits(self.clients.key_size(), self.clients.value_size())
            })
    }

    /// A map to use again: all of them, or only the number of the registered programs.
    pub(crate) fn map(&self, name: &str, is_own: bool) -> Option<&MapHandle> {
        match name {
            MAP if is_own => Some(&self.clients),
            NO_ROOM if is_own => Some(&self.no_room),
            CURRENT => self.current.as_ref(),
            _ => None,
        }
    }

    /// The number of the previous programs. Errors: `rtcp.not_permitted` or `rtcp.refused`.
    pub(crate) fn load(&self) -> Result<u64> {
        self.current.as_ref().map_or(Ok(0), clients::counted)
    }

    /// Copies the limited clients into the table that is now pinned in a folder, if it is another one.
    /// Errors: `rtcp.not_permitted` or `rtcp.refused`.
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

    /// Copies the limited clients into another table, except those already known there. Errors:
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
                Err(e) if e.kind() == ErrorKind::TooBig => lost += 1, // full
                Err(e) => return Err(refused(&e)),
            }
        }
        Ok(if lost > 0 { Kept::Lost(lost) } else { Kept::Verdicts(carried) })
    }
}

/// The client, without its connections; none if it is empty or expired.
fn goes_on(known: rtcp_client, now_us: u64, kept_us: u64) -> Option<rtcp_client> {
    let is_there = known.open_flows > 0 || known.over_us == 0;
    let over_us = if is_there { now_us + kept_us } else { known.over_us };
    let is_limited = known.detector.limited != 0;
    if (!is_limited && known.apart == 0) || over_us <= now_us {
        return None;
    }
    let reported = if known.apart != 0 { RTCP_APART } else { RTCP_LIMITED };
    let mut client = rtcp_client {
        born_us: now_us,
        over_us,
        netns: known.netns,
        reported: reported as u8,
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
    (to.reported_bytes_per_s, to.highest_bytes_per_s) = (from.reported_bytes_per_s, from.highest_bytes_per_s);
    // As of the last update, whose clock has 32 bits: a transfer that began then is kept for the whole time.
    let since_us = from.last.time_us.wrapping_sub(from.transfer.origin_us as u32);
    let last_us = from.transfer.origin_us + u64::from(since_us);
    (to.tokens_ubytes, to.transfer.origin_us, to.last.time_us) =
        (from.tokens_ubytes, last_us, last_us as u32);
    Some(client)
}

/// Pins a table into a folder, replacing the present one. Errors: `rtcp.not_kept`.
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
    report_layout(folder).map_err(|e| failed(e.to_string()))
}

fn replace(folder: &Path, name: &str, map: &MapHandle) -> std::result::Result<(), String> {
    let next = folder.join(format!("{name}-next"));
    let _ = fs::remove_file(&next); // left by a killed process
    let mut map = MapHandle::try_from(map).map_err(|e| e.to_string())?;
    map.pin(&next).map_err(|e| format!("{e:#}"))?;
    fs::rename(&next, folder.join(name)).map_err(|e| e.to_string())
}

/// Pins the layout beside a table of this version. Errors: `rtcp.not_permitted` or `rtcp.refused`.
pub fn report_layout(folder: &Path) -> Result<()> {
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
        .map_err(|why| Error::new("rtcp.refused", "cannot pin the layout of a table").why(why))
}

/// The layout pinned beside a table; none if there is none, or it cannot be parsed.
pub(crate) fn layout_in(folder: &Path) -> Result<Option<Layout>> {
    let Some(map) = pinned(&folder.join(LAYOUT))? else {
        return Ok(None);
    };
    let text = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| refused(&e))?.unwrap_or_default();
    Ok(String::from_utf8(text).ok().and_then(|text| Layout::from_text(&text)))
}

/// Deletes the table kept in a folder. Returns whether there was one. Errors: `rtcp.refused`.
pub fn forget(folder: &Path) -> Result<bool> {
    let there: Vec<PathBuf> = [MAP, NO_ROOM, CURRENT, LAYOUT]
        .map(|name| folder.join(name))
        .into_iter()
        .filter(|p| p.exists())
        .collect();
    for path in &there {
        fs::remove_file(path).map_err(|e| {
            Error::new("rtcp.refused", "cannot remove a table of clients")
                .at(path.display().to_string())
                .why(e)
                .fix("run as root")
        })?;
    }
    let _ = fs::remove_dir(folder); // systemd's folder of a service stays
    Ok(!there.is_empty())
}

pub(crate) fn pinned(path: &Path) -> Result<Option<MapHandle>> {
    match MapHandle::from_pinned_path(path) {
        Ok(map) => Ok(Some(map)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(refused(&e)),
    }
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
