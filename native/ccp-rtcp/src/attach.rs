//! The congestion controls, registered.

use std::fmt::Debug;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ccp_load as load;
use ccp_trace::Rows;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, OpenObject};

use crate::clients;
use crate::core::Options;
use crate::core::types::{rtcp_ack, rtcp_config, rtcp_row};
use crate::kept::{self, Kept, Left};
use crate::kernel::{self, Kernel};
use crate::rules::{self, Rule};
use crate::summary::{self, Summary};
use crate::{Error, Result};

static OBJECT: &[u8] = include_bytes!(env!("CCP_RTCP_OBJECT"));
/// `BPF_F_LINK`: a `struct_ops` map that is registered by creating a link.
const BPF_F_LINK: u32 = 1 << 13;
/// Room for recorded ACKs between two drains.
const ACKS_BYTES: u32 = 1 << 24;

/// Settings of the congestion controls.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub options: Options,
    /// Maximum clients; sockets of further ones are not bounded.
    pub max_clients: u32,
    pub records: bool,
    /// Rules for the bounded sockets, the first match wins; without rules all are bounded.
    pub rules: Vec<Rule>,
    /// Folder in a BPF file system for the table of clients, which then outlives this process; an existing
    /// table is taken over.
    pub keep_in: Option<PathBuf>,
}

/// The congestion controls `rtcp_cubic` and `rtcp_bbr`, available to sockets until dropped. Sockets that use
/// one of them keep it.
pub struct Attached {
    // Drop order: registrations first, then the readers, then the maps.
    _links: Vec<Link>,
    rows: Rows,
    acks: Rows,
    object: Object,
    names: Vec<&'static str>,
    kept: Kept,
    not_kept: Option<Error>,
}

impl Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Attached {
    /// Loads and registers the programs. Errors: `rtcp.not_permitted`, `rtcp.refused`, `rtcp.name_taken`,
    /// `rtcp.no_struct_ops`, `rtcp.no_original`, `rtcp.too_many_rules` or `load.no_btf`.
    pub fn new(wanted: &Wanted) -> Result<Self> {
        let left = wanted.keep_in.as_deref().map(Left::open).transpose()?.flatten();
        let is_own = left.as_ref().is_some_and(|left| left.is_own(wanted.max_clients));
        let number = left.as_ref().map_or(Ok(0), Left::load)? + 1;
        let (names, maps, mut object) = loaded(wanted, number, left.as_ref().map(|left| (left, is_own)))?;
        rules::write(&object, &wanted.rules)?;
        let clients = load::map(&object, clients::MAP)?;
        let kept = match &left {
            None => Kept::Nothing,
            Some(_) if is_own => Kept::Table(clients.keys().count()),
            Some(left) => left.carry(&clients, wanted.options.kept_us)?,
        };
        let rows = Rows::named(&object, "rows", size_of::<rtcp_row>())?;
        let acks = Rows::named(&object, "acks", size_of::<rtcp_ack>())?;
        let mut links = Vec::new();
        for (map, name) in maps.iter().zip(&names) {
            let mut ops = object.maps_mut().find(|m| m.name() == *map).ok_or_else(|| load::bug(map))?;
            links.push(ops.attach_struct_ops().map_err(|e| not_registered(name, &e))?);
        }
        // Not earlier: a process that may not register must change nothing.
        let pinned = wanted.keep_in.as_deref().filter(|_| !is_own).map(|folder| keep(&object, folder));
        load::map(&object, clients::CURRENT)?
            .update(&0u32.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| refused(&e))?;
        let not_kept = pinned.and_then(Result::err);
        Ok(Attached { _links: links, rows, acks, object, names, kept, not_kept })
    }

    /// Loads the programs without registering them. Errors: `rtcp.not_permitted`, `rtcp.refused`,
    /// `rtcp.no_struct_ops`, `rtcp.no_original` or `load.no_btf`.
    pub fn try_load(options: Options) -> Result<()> {
        let wanted = Wanted { options, max_clients: 1, records: false, rules: Vec::new(), keep_in: None };
        loaded(&wanted, 0, None).map(drop)
    }

    /// The available names: one for each congestion control that the kernel has itself.
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The outcome for the previous table.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Why the table will not outlive this process, although requested.
    #[must_use]
    pub fn not_kept(&self) -> Option<&Error> {
        self.not_kept.as_ref()
    }

    /// Statistics of the table of clients. Errors: `rtcp.refused`.
    pub fn summary(&self, bounds_bytes_per_s: &[f64]) -> Result<Summary> {
        let (table, no_room) =
            (load::map(&self.object, clients::MAP)?, load::map(&self.object, clients::NO_ROOM)?);
        summary::of(&table, &no_room, bounds_bytes_per_s)
    }

    /// Verdicts since the last call, as `rtcp_row`s. Errors: `trace.refused`.
    pub fn drain(&self) -> Result<Vec<u8>> {
        self.rows.drain()
    }

    /// ACKs since the last call, as `rtcp_ack`s. Errors: `trace.refused`.
    pub fn drain_acks(&self) -> Result<Vec<u8>> {
        self.acks.drain()
    }

    /// Number of both that were lost because they were not drained. Errors: `trace.refused`.
    pub fn dropped(&self) -> Result<u64> {
        ccp_trace::dropped(&self.object)
    }

    /// Number of connections that are not bounded because there was no room for their client. Errors: `rtcp.refused`.
    pub fn no_room(&self) -> Result<u64> {
        clients::counted(&load::map(&self.object, clients::NO_ROOM)?)
    }
}

/// The available names, the map of each, and the object.
fn loaded(wanted: &Wanted, number: u64, left: Option<(&Left, bool)>) -> Result<(Names, Names, Object)> {
    let kernel = Kernel::of(&load::kernel_types()?)?;
    let (names, maps) = choose(&kernel, kernel::offers)?;
    let mut open = load::open(OBJECT).map_err(|e| refused(&e))?;
    let config = rtcp_config {
        options: wanted.options,
        records: u64::from(wanted.records),
        n_rules: wanted.rules.len() as u64,
        others: u64::from(rules::others_too(&wanted.rules)),
        load: number,
    };
    // SAFETY: plain integers, and the header has no gaps.
    let config =
        unsafe { std::slice::from_raw_parts((&raw const config).cast::<u8>(), size_of::<rtcp_config>()) };
    load::set_constants(&mut open, &[("config", config)])?;
    fit(&mut open, &kernel, &maps, wanted, left).map_err(|e| refused(&e))?;
    let object = open.load().map_err(|e| refused(&e))?;
    Ok((names, maps, object))
}

fn keep(object: &Object, folder: &Path) -> Result<()> {
    let handle = |name| {
        let map = load::map(object, name)?;
        MapHandle::try_from(&map).map_err(|e| refused(&e))
    };
    kept::pin(folder, [&handle(clients::MAP)?, &handle(clients::NO_ROOM)?, &handle(clients::CURRENT)?])
}

type Names = Vec<&'static str>;

/// Names and maps of the object: one for each congestion control of the kernel.
fn choose(kernel: &Kernel, offers: impl Fn(&str) -> bool) -> Result<(Names, Names)> {
    let all = [("cubic", "rtcp_cubic"), ("bbr", "rtcp_bbr")].into_iter().zip(kernel.fitting());
    let (names, maps): (Names, Names) = all
        .filter(|((own, _), _)| offers(own) && (*own != "bbr" || kernel.calls_bbr))
        .map(|((_, name), map)| (name, map))
        .unzip();
    if names.is_empty() {
        return Err(Error::new("rtcp.no_original", "the kernel has loaded neither CUBIC nor BBR")
            .why("R-TCP bounds the kernel's own congestion controls")
            .fix("modprobe tcp_cubic; modprobe tcp_bbr"));
    }
    Ok((names, maps))
}

/// Omits what the kernel does not support, and sets sizes.
fn fit(
    open: &mut OpenObject,
    kernel: &Kernel,
    offered: &[&str],
    wanted: &Wanted,
    left: Option<(&Left, bool)>,
) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if map.map_type() == MapType::StructOps {
            map.set_autocreate(offered.contains(&name.as_str()))?;
            if !kernel.has_links {
                let flags = map.map_flags() & !BPF_F_LINK;
                map.set_map_flags(flags)?;
            }
        } else if let Some(there) = left.and_then(|(left, is_own)| left.map(&name, is_own)) {
            map.reuse_fd(there.as_fd())?;
        } else if name == clients::MAP {
            map.set_max_entries(wanted.max_clients)?;
        } else if name == "acks" && wanted.records {
            map.set_max_entries(ACKS_BYTES)?;
        }
    }
    Ok(())
}

pub(crate) fn refused(e: &libbpf_rs::Error) -> Error {
    let why = format!("{e:#}");
    if load::lacks_rights(e) {
        return Error::new("rtcp.not_permitted", "registering congestion controls is not permitted")
            .why(why)
            .fix("run as root, or give the process CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN");
    }
    Error::new("rtcp.refused", "the kernel rejected R-TCP's congestion controls")
        .why(why)
        .fix("use Linux 6.1 or newer; CCP_LIBBPF_LOG=1 shows the verifier's log")
}

fn not_registered(name: &str, e: &libbpf_rs::Error) -> Error {
    if e.kind() != ErrorKind::AlreadyExists {
        return refused(e);
    }
    Error::new("rtcp.name_taken", format!("there is already a congestion control `{name}`"))
        .why("names are unique per machine; `ccp rtcp attach` may already be running")
        .fix("end the running `ccp rtcp attach` first; `ccp rtcp show` prints its state")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn only_what_the_kernel_has_is_offered() {
        let mut kernel =
            Kernel { has_tx_start: false, cong_control_has_flag: true, has_links: true, calls_bbr: true };
        let chosen = |kernel: &Kernel, own: &'static [&str]| choose(kernel, |name| own.contains(&name));
        assert_eq!(
            chosen(&kernel, &["reno", "cubic", "bbr"]).expect("both"),
            (vec!["rtcp_cubic", "rtcp_bbr"], vec!["cubic_7_0", "bbr_7_0"])
        );
        assert_eq!(chosen(&kernel, &["cubic"]).expect("one"), (vec!["rtcp_cubic"], vec!["cubic_7_0"]));
        assert_eq!(chosen(&kernel, &["reno"]).expect_err("none").slug, "rtcp.no_original");
        kernel.calls_bbr = false;
        assert_eq!(chosen(&kernel, &["cubic", "bbr"]).expect("one").0, ["rtcp_cubic"]);
    }

    #[test]
    fn what_the_kernel_refuses_is_reported_apart() {
        let of = |number| io::Error::from_raw_os_error(number).into();
        assert_eq!(
            [refused(&of(1)).slug, refused(&of(13)).slug, refused(&of(22)).slug],
            ["rtcp.not_permitted", "rtcp.refused", "rtcp.refused"]
        );
        assert_eq!(
            [not_registered("x", &of(17)).slug, not_registered("x", &of(22)).slug],
            ["rtcp.name_taken", "rtcp.refused"]
        );
    }
}
