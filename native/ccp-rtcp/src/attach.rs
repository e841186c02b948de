//! The congestion controls, registered.

use std::fmt::Debug;

use ccp_trace::{Rows, load};
use libbpf_rs::{ErrorKind, Link, MapCore, MapType, Object, OpenObject};

use crate::clients;
use crate::core::Options;
use crate::core::types::{rtcp_ack, rtcp_config, rtcp_row};
use crate::kernel::{self, Kernel};
use crate::{Error, Result};

static OBJECT: &[u8] = include_bytes!(env!("CCP_RTCP_OBJECT"));
/// `BPF_F_LINK`: a `struct_ops` map that is registered by creating a link.
const BPF_F_LINK: u32 = 1 << 13;
/// Room for what ACKs leave between two looks at them.
const ACKS_BYTES: u32 = 1 << 24;

/// The congestion controls `rtcp_cubic` and `rtcp_bbr`, offered to sockets. Dropping it takes the names away; sockets
/// that have one of them keep it to their end.
pub struct Attached {
    // In this order: no new sockets first, then the readers, then the maps.
    _links: Vec<Link>,
    rows: Rows,
    acks: Rows,
    object: Object,
    names: Vec<&'static str>,
}

impl Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Attached {
    /// Loads and registers the programs.
    ///
    /// # Errors
    ///
    /// `rtcp.not_permitted`, `rtcp.refused`, `rtcp.name_taken`, `rtcp.no_struct_ops`, `rtcp.no_original` or
    /// `trace.no_btf`.
    pub fn new(options: Options, max_clients: u32, records: bool) -> Result<Self> {
        let (names, maps, mut object) = loaded(options, max_clients, records)?;
        let rows = Rows::named(&object, "rows", size_of::<rtcp_row>())?;
        let acks = Rows::named(&object, "acks", size_of::<rtcp_ack>())?;
        let mut links = Vec::new();
        for (map, name) in maps.iter().zip(&names) {
            let mut ops = object.maps_mut().find(|m| m.name() == *map).ok_or_else(|| load::bug(map))?;
            links.push(ops.attach_struct_ops().map_err(|e| not_registered(name, &e))?);
        }
        Ok(Attached { _links: links, rows, acks, object, names })
    }

    /// Shows the programs to the kernel, and registers nothing.
    ///
    /// # Errors
    ///
    /// `rtcp.not_permitted`, `rtcp.refused`, `rtcp.no_struct_ops`, `rtcp.no_original` or `trace.no_btf`.
    pub fn try_load(options: Options) -> Result<()> {
        loaded(options, 1, false).map(drop)
    }

    /// What sockets can choose: that of each congestion control which the kernel has itself.
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Verdicts since the last call, as the bytes of so many `rtcp_row`.
    ///
    /// # Errors
    ///
    /// `trace.refused`.
    pub fn drain(&self) -> Result<Vec<u8>> {
        self.rows.drain()
    }

    /// ACKs since the last call, as the bytes of so many `rtcp_ack`.
    ///
    /// # Errors
    ///
    /// `trace.refused`.
    pub fn drain_acks(&self) -> Result<Vec<u8>> {
        self.acks.drain()
    }

    /// How many of both were lost because nobody drained them.
    ///
    /// # Errors
    ///
    /// `trace.refused`.
    pub fn dropped(&self) -> Result<u64> {
        load::dropped(&self.object)
    }

    /// How many connections are not bounded, because there was no room for their client.
    ///
    /// # Errors
    ///
    /// `rtcp.refused`.
    pub fn no_room(&self) -> Result<u64> {
        clients::counted(&load::map(&self.object, clients::NO_ROOM)?)
    }
}

/// What sockets are to choose, the map of each, and the object.
fn loaded(options: Options, max_clients: u32, records: bool) -> Result<(Names, Names, Object)> {
    let kernel = Kernel::of(&load::kernel_types()?)?;
    let (names, maps) = choose(&kernel, kernel::offers)?;
    let mut open = load::open(OBJECT)?;
    let config = rtcp_config { options, records: u64::from(records) };
    // SAFETY: plain integers, and the header has no gaps between them.
    let config =
        unsafe { std::slice::from_raw_parts((&raw const config).cast::<u8>(), size_of::<rtcp_config>()) };
    load::set_constants(&mut open, config)?;
    fit(&mut open, &kernel, &maps, max_clients, records).map_err(|e| refused(&e))?;
    let object = open.load().map_err(|e| refused(&e))?;
    Ok((names, maps, object))
}

type Names = Vec<&'static str>;

/// Names, and maps of the object: one of each congestion control that the kernel offers itself.
fn choose(kernel: &Kernel, offers: impl Fn(&str) -> bool) -> Result<(Names, Names)> {
    let all = [("cubic", "rtcp_cubic"), ("bbr", "rtcp_bbr")].into_iter().zip(kernel.fitting());
    let (names, maps): (Names, Names) =
        all.filter(|((own, _), _)| offers(own)).map(|((_, name), map)| (name, map)).unzip();
    if names.is_empty() {
        return Err(Error::new("rtcp.no_original", "this kernel has neither CUBIC nor BBR loaded")
            .why("R-TCP's are the kernel's own, bounded")
            .fix("modprobe tcp_cubic; modprobe tcp_bbr"));
    }
    Ok((names, maps))
}

/// Leaves what does not fit the kernel out, and sets sizes.
fn fit(
    open: &mut OpenObject,
    kernel: &Kernel,
    wanted: &[&str],
    max_clients: u32,
    records: bool,
) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if map.map_type() == MapType::StructOps {
            map.set_autocreate(wanted.contains(&name.as_str()))?;
            if !kernel.has_links {
                let flags = map.map_flags() & !BPF_F_LINK;
                map.set_map_flags(flags)?;
            }
        } else if name == clients::MAP {
            map.set_max_entries(max_clients)?;
        } else if name == "acks" && records {
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
    Error::new("rtcp.refused", "the kernel refused R-TCP's congestion controls")
        .why(why)
        .fix("use Linux 6.1 or newer; CCP_LIBBPF_LOG=1 shows the verifier's log")
}

fn not_registered(name: &str, e: &libbpf_rs::Error) -> Error {
    if e.kind() != ErrorKind::AlreadyExists {
        return refused(e);
    }
    Error::new("rtcp.name_taken", format!("there is a congestion control `{name}` already"))
        .why("a machine has one of each name; perhaps `ccp rtcp attach` runs already")
        .fix("end that one first; `ccp rtcp show` tells what it knows")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn only_what_the_kernel_has_is_offered() {
        let kernel = Kernel { has_tx_start: false, cong_control_has_flag: true, has_links: true };
        let chosen = |own: &'static [&str]| choose(&kernel, |name| own.contains(&name));
        assert_eq!(
            chosen(&["reno", "cubic", "bbr"]).expect("both"),
            (vec!["rtcp_cubic", "rtcp_bbr"], vec!["cubic_7_0", "bbr_7_0"])
        );
        assert_eq!(chosen(&["cubic"]).expect("one"), (vec!["rtcp_cubic"], vec!["cubic_7_0"]));
        assert_eq!(chosen(&["reno"]).expect_err("none").slug, "rtcp.no_original");
    }

    #[test]
    fn what_the_kernel_refuses_is_told_apart() {
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
