//! A node, attached to its device.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccp_int::{SinkSpec, SourceSpec};
use ccp_load::{self as load, EchoPin};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, MapHandle, Object, OpenObject, ProgramMut, TC_EGRESS, TC_INGRESS,
    TcAttachPoint, TcHook,
};
use serde::Serialize;

use crate::config;
use crate::reader::Reader;
use crate::records::Records;
use crate::shared::{node_air, node_config, node_counters, node_link, node_now, node_radio};
use crate::spec::{NodeSpec, Queue, Radio, Role, Waiting};
use crate::{Error, Result};

static OBJECT: &[u8] = include_bytes!(env!("CCP_NODE_OBJECT"));

/// Handle of the filters within their priority, and the priority: a new node replaces what a killed one left.
const HANDLE: u32 = 0x6363;
const PRIORITY: u32 = 0x6363;
pub(crate) const ONLY: [u8; 4] = [0; 4];
/// In their order of execution.
const ON_DROP: [&str; 3] = ["on_drop", "on_drop_again", "after_drop"];
const ON_RADIO_DROP: &str = "on_radio_drop";

macro_rules! counters {
    ($($counted:ident)*) => {
        /// Counters [packets]: `node_counters` of `node.h`, and the reader's; documented in
        /// `telemetry.inband.node.Counters`.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counters {
            $(pub $counted: u64,)*
            pub summaries_dropped: u64,
            pub unreadable: u64,
            pub records_lost: u64,
        }

        impl Counters {
            fn add(&mut self, counted: &node_counters) {
                $(self.$counted += counted.$counted;)*
            }
        }
    };
}

counters! {
    inserted too_long merged filled overflowed not_filled removed not_removed foreign reflected received
    refused_malformed refused_no_socket refused_segment refused_time ring_full
}

/// The programs' variables and their map.
pub(crate) struct Reported {
    map: MapHandle,
    now: Mutex<node_now>,
}

impl Reported {
    fn lock(&self) -> MutexGuard<'_, node_now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut node_now)) -> Result<()> {
        let mut now = self.lock();
        change(&mut now);
        self.map.update(&ONLY, bytes_of(&*now), MapFlags::ANY).map_err(|e| refused(&e))
    }
}

/// A use of the map of echoes; ends when dropped, also if attaching fails.
struct Echoes(Option<EchoPin>);

impl Drop for Echoes {
    fn drop(&mut self) {
        if let Some(pin) = self.0.take() {
            let _ = pin.end(); // `ccp unload` reports what could not be removed
        }
    }
}

/// The programs, attached to their device until dropped.
pub struct Node {
    /// Programs attached as filters: before Linux 6.6.
    filters: Vec<(&'static str, TcAttachPoint)>,
    /// Programs attached to the device itself, which is faster than filters, until these are closed.
    links: Vec<OwnedFd>,
    ifindex: u32,
    reader: Reader,
    reported: Arc<Reported>,
    radios: MapHandle,
    airs: MapHandle,
    /// The programs that see drops by the kernel and by mac80211, if available.
    drops: Vec<Link>,
    radio_drops: Option<Link>,
    /// For a reader, while it is open.
    echoes: Echoes,
    object: Object,
}

impl Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

impl Node {
    /// Loads and attaches the programs; the device must have a `clsact` queue discipline. Summaries are
    /// written to a non-blocking descriptor as lines of JSON; records to a file. Errors: `int.not_permitted`,
    /// `int.refused`, `int.no_route`, `int.bad_spec`, `int.cannot_write`, `load.no_btf`, or those of
    /// [`ccp_int::SourceSpec::check`].
    pub fn attach(spec: &NodeSpec, summaries: OwnedFd, records: Option<&Path>) -> Result<Self> {
        let records = records.map(Records::create).transpose()?;
        let mut open = opened(spec)?;
        let echoes = spec.roles.contains(&Role::Reader).then(|| EchoPin::begin(&spec.pin_dir)).transpose();
        let echoes = Echoes(echoes.map_err(|e| not_shared(&spec.pin_dir, e))?);
        if let Some(echoes) = &echoes.0 {
            echoes.share(&mut open).map_err(|e| refused(&e))?;
        }
        let object = open.load().map_err(|e| refused(&e))?;
        if let Some(echoes) = &echoes.0 {
            echoes.hand_over().map_err(|e| not_shared(&spec.pin_dir, e))?;
        }
        find_device(&object)?;
        let reported =
            Arc::new(Reported { map: handle(&object, "now")?, now: Mutex::new(node_now::default()) });
        let reader = Reader::start(&object, spec, Arc::clone(&reported), summaries, records)?;
        let radios = handle(&object, "radios")?;
        let airs = handle(&object, "airs")?;
        let sees = |name| {
            if spec.roles.contains(&Role::Transit) { see_drops(&object, name) } else { None }
        };
        let drops = ON_DROP.iter().copied().filter_map(sees).collect();
        let radio_drops = sees(ON_RADIO_DROP);
        let mut node = Node {
            filters: vec![],
            links: vec![],
            ifindex: spec.ifindex,
            reader,
            reported,
            radios,
            airs,
            drops,
            radio_drops,
            echoes,
            object,
        };
        let has = |roles: &[Role]| spec.roles.iter().any(|role| roles.contains(role));
        let leaves = spec.reflects() || has(&[Role::Source, Role::Transit]);
        let comes = has(&[Role::Sink, Role::Reader]);
        let leaves = leaves.then_some(("on_egress", TC_EGRESS));
        let comes = comes.then_some(("on_ingress", TC_INGRESS));
        for (name, point) in leaves.into_iter().chain(comes) {
            if let Some(link) = link(&node.object, name, point, spec.ifindex)? {
                node.links.push(link);
                continue;
            }
            hook(&node.object, name, point, spec.ifindex)?.attach().map_err(|e| refused(&e))?;
            node.filters.push((name, point));
        }
        Ok(node)
    }

    /// Loads the programs of all roles without attaching them. Errors: `int.not_permitted`, `int.refused` or
    /// `load.no_btf`.
    pub fn try_load() -> Result<()> {
        let anywhere = NodeSpec {
            ifindex: 0,
            roles: vec![Role::Source, Role::Transit, Role::Sink, Role::Reader],
            node_id: 0,
            link_bytes: 14,
            is_veth: false,
            is_wireless: true,
            mtu_bytes: 1500,
            to: (Ipv6Addr::UNSPECIFIED, 0),
            trusted: None,
            source: SourceSpec::default(),
            sink: SinkSpec { echo: true, ..SinkSpec::default() },
            pin_dir: PathBuf::new(),
        };
        opened(&anywhere)?.load().map(drop).map_err(|e| refused(&e))
    }

    /// Describes the device's queue. Errors: `int.refused`.
    pub fn set_queue(&self, queue: &Queue) -> Result<()> {
        let sees = self.drops.len() == ON_DROP.len() && (queue.air.is_none() || self.radio_drops.is_some());
        self.reported.change(|now| config::put_queue(now, queue, sees))
    }

    /// Sets the wireless state of all peers. Errors: `int.refused` or `ioam.cannot_write`.
    pub fn set_radios(&self, radios: &[Radio]) -> Result<()> {
        let states: Result<Vec<_>> =
            radios.iter().map(|radio| Ok((radio.address, config::radio(&radio.state)?))).collect();
        replace(&self.radios, &states?)
    }

    /// Sets the lengths of mac80211's queues for all peers. Errors: `int.refused`.
    pub fn set_waiting(&self, waiting: &[Waiting]) -> Result<()> {
        let air = |one: &Waiting| node_air { read_ns: one.read_ns, pkts: one.pkts, all_pkts: one.all_pkts };
        replace(&self.airs, &waiting.iter().map(|one| (one.address, air(one))).collect::<Vec<_>>())
    }

    /// Monotonic time of the last packet at the device; 0: none yet. Errors: `int.refused`.
    pub fn came_ns(&self) -> Result<u64> {
        let link = load::map(&self.object, "link")?.lookup(&ONLY, MapFlags::ANY).map_err(|e| refused(&e))?;
        Ok(link.and_then(|bytes| parse::<node_link>(&bytes)).map_or(0, |link| link.last_ns))
    }

    /// The counters. Errors: `int.refused`.
    pub fn counters(&self) -> Result<Counters> {
        let map = load::map(&self.object, "counters")?;
        let each = map.lookup_percpu(&ONLY, MapFlags::ANY).map_err(|e| refused(&e))?.unwrap_or_default();
        let mut sum = Counters {
            summaries_dropped: self.reader.summaries_dropped(),
            unreadable: self.reader.unreadable(),
            records_lost: self.reader.records_lost(),
            ..Counters::default()
        };
        each.iter().filter_map(|bytes| parse::<node_counters>(bytes)).for_each(|counted| sum.add(&counted));
        Ok(sum)
    }

    /// Detaches the programs, and writes the remaining packets. Errors: `int.refused`, or `int.cannot_write`
    /// for records.
    pub fn close(&mut self) -> Result<()> {
        self.links.clear();
        for (name, point) in self.filters.drain(..) {
            let _gone_with_the_device = hook(&self.object, name, point, self.ifindex)?.detach();
        }
        self.drops.clear();
        self.radio_drops = None;
        self.echoes = Echoes(None);
        self.reader.close()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // After an error elsewhere, which is the one reported.
        let _ = self.close();
    }
}

fn opened(spec: &NodeSpec) -> Result<OpenObject> {
    let btf = load::kernel_types()?;
    let mut open = load::open(OBJECT).map_err(|e| refused(&e))?;
    // Without them, nodes do not report queue drops.
    let sees = |name: &OsStr| {
        (!ON_DROP.iter().any(|drop| name == *drop)
            || btf.type_by_name::<Typedef<'_>>("btf_trace_kfree_skb").is_some())
            && (name != ON_RADIO_DROP || (spec.is_wireless && has_mac80211(&btf)))
    };
    open.progs_mut()
        .filter(|program| !sees(program.name()))
        .for_each(|mut program| program.set_autoload(false));
    load::set_constants(&mut open, &[("config", bytes_of(&config::config(spec)?))])?;
    Ok(open)
}

fn not_shared(pin_dir: &Path, why: std::io::Error) -> Error {
    Error::new("int.refused", "cannot share the path's telemetry, which receivers echo, with the agent")
        .at(pin_dir.display().to_string())
        .why(why)
        .fix("mount a BPF file system: mount -t bpf bpf /sys/fs/bpf; use the agent's --pin-dir")
}

/// Whether this kernel has mac80211, built in or as a loaded module.
fn has_mac80211(btf: &Btf<'_>) -> bool {
    btf.type_by_name::<Func<'_>>("ieee80211_free_txskb").is_some()
        || Path::new("/sys/kernel/btf/mac80211").exists()
}

/// Attaches a program that counts queue drops; `None` if this kernel does not support it.
fn see_drops(object: &Object, name: &str) -> Option<Link> {
    object.progs_mut().find(|program| program.name() == name)?.attach().ok()
}

fn replace<T: Plain>(map: &MapHandle, ends: &[([u8; 6], T)]) -> Result<()> {
    let gone: Vec<_> =
        map.keys().filter(|key| ends.iter().all(|(address, _)| address[..] != **key)).collect();
    for (address, value) in ends {
        map.update(address, bytes_of(value), MapFlags::ANY).map_err(|e| refused(&e))?;
    }
    gone.iter().try_for_each(|key| map.delete(key).map_err(|e| refused(&e)))
}

fn find_device(object: &Object) -> Result<()> {
    let link = program(object, "find_device")?.attach().map_err(|e| refused(&e))?;
    let mut routes = Iter::new(&link).map_err(|e| refused(&e))?;
    std::io::copy(&mut routes, &mut std::io::sink()).map_err(|e| refused(&e.into()))?;
    let found = load::map(object, "device")?.lookup(&ONLY, MapFlags::ANY).map_err(|e| refused(&e))?;
    if found.is_some_and(|address| address != [0; 8]) {
        return Ok(());
    }
    Err(Error::new("int.no_route", "there is no IPv6 route through the device")
        .why("the device is down, or IPv6 is disabled on the device")
        .fix("ip link set IFACE up; sysctl net.ipv6.conf.IFACE.disable_ipv6=0"))
}

fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    object.progs_mut().find(|program| program.name() == name).ok_or_else(|| load::bug(name))
}

/// Attaches a program to the device itself; `None` if the kernel does not support it.
fn link(object: &Object, name: &str, point: TcAttachPoint, ifindex: u32) -> Result<Option<OwnedFd>> {
    let fd = program(object, name)?.as_fd().as_raw_fd();
    let kind = if point == TC_EGRESS { libbpf_sys::BPF_TCX_EGRESS } else { libbpf_sys::BPF_TCX_INGRESS };
    // SAFETY: the program is open while the object is, and there are no options.
    let link = unsafe { libbpf_sys::bpf_link_create(fd, ifindex as i32, kind, std::ptr::null()) };
    // SAFETY: a new descriptor that nothing else owns.
    Ok((link >= 0).then(|| unsafe { OwnedFd::from_raw_fd(link) }))
}

fn hook(object: &Object, name: &str, point: TcAttachPoint, ifindex: u32) -> Result<TcHook> {
    let mut hook = TcHook::new(program(object, name)?.as_fd());
    hook.ifindex(ifindex as i32).attach_point(point).replace(true).handle(HANDLE).priority(PRIORITY);
    Ok(hook)
}

pub(crate) fn handle(object: &Object, name: &str) -> Result<MapHandle> {
    MapHandle::try_from(&load::map(object, name)?).map_err(|e| refused(&e))
}

/// Types generated from the header: plain integers without gaps.
pub(crate) trait Plain: Default {}
impl Plain for node_config {}
impl Plain for node_now {}
impl Plain for node_radio {}
impl Plain for node_air {}
impl Plain for node_link {}
impl Plain for node_counters {}
impl Plain for crate::shared::node_flow {}
impl Plain for crate::shared::node_record {}
impl Plain for crate::shared::node_sunk {}

fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain integers without gaps, as required by the trait.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

pub(crate) fn parse<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, and any bytes are valid for plain integers.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

pub(crate) fn refused(e: &libbpf_rs::Error) -> Error {
    let why = format!("{e:#}");
    if load::lacks_rights(e) {
        return Error::new("int.not_permitted", "a node of in-band telemetry is not permitted")
            .why(why)
            .fix("run as root, or give the process CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
    }
    Error::new("int.refused", "the kernel rejected the programs of the node")
        .why(why)
        .fix("run with CCP_LIBBPF_LOG=1 to see the verifier's log, and ccp doctor for missing requirements")
}
