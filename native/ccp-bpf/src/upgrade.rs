//! Takes over from an existing datapath: the same build, other programs on the same maps, or a different
//! datapath. All steps that can fail come before any change.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::frame::Frames;
use crate::head::{BUILD_HASH, Head, Kin, LAYOUT_HASH};
use crate::intf;
use crate::kernel::Kernel;
use crate::map::put;
use crate::names::{self, Name};
use crate::object::{self, Loaded, Registration, Sizes};
use crate::options::Options;
use crate::pins::{Pins, remove};
use crate::walk::Walk;
use crate::{Error, Result};

/// Maximum time for an agent to end for its successor.
const PATIENCE: Duration = Duration::from_secs(10);
/// Its successor's polling interval.
const LOOK: Duration = Duration::from_millis(1);
/// Maximum time from here to an agent's first poll: flows are kept from the fallback no longer.
const START: Duration = Duration::from_secs(30);

/// Sends heartbeats while the agent is busy, until dropped, but no longer than `START`.
pub(crate) struct Beating(#[expect(dead_code, reason = "dropping it ends the thread")] mpsc::Sender<()>);

impl Beating {
    pub fn begin(heads: Vec<Arc<Head>>, each: Duration) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let end = Instant::now() + START;
        heads.iter().for_each(|head| head.heartbeat());
        std::thread::spawn(move || {
            while stopped.recv_timeout(each) == Err(mpsc::RecvTimeoutError::Timeout) && Instant::now() < end {
                heads.iter().for_each(|head| head.heartbeat());
            }
        });
        Beating(stop)
    }
}

pub(crate) struct Taken {
    pub held: OwnedFd,
    /// Flows and registrations were taken over.
    pub adopted: bool,
    /// Heartbeats for flows that an agent has handed over, which wait without the fallback.
    pub live: Option<Beating>,
    /// The replaced datapath, whose flows move here.
    pub moving: Option<Moving>,
    pub frames: Frames,
}

/// Loads what is needed, and replaces what exists.
pub(crate) fn take(kernel: &Kernel, pins: &Pins, options: &Options, each: Duration) -> Result<Taken> {
    pins.create()?;
    let find = || match Head::open(pins) {
        Ok(head) => Ok(Some(Arc::new(head))),
        Err(e) if e.slug == "load.not_loaded" => Ok(None),
        Err(e) => Err(e),
    };
    let free = match pins.hold() {
        Err(e) if e.slug == "load.already_running" && options.take_over => None,
        held => Some(held?),
    };
    let found = find()?;
    let tidied = |ready: Result<Ready>, was_there: bool| {
        // Clean up; the first error counts.
        ready.inspect_err(|_| _ = if was_there { remove(&pins.stage()) } else { remove(pins) })
    };
    let mut ready = tidied(Ready::make(kernel, pins, options, found.as_deref()), found.is_some())?;
    let (held, live) = match (free, &found) {
        (Some(held), _) => (held, None),
        (None, Some(head)) => succeed(pins, head, each).inspect_err(|_| _ = remove(&pins.stage()))?,
        (None, None) => (pins.hold()?, None), // it was being removed
    };
    let found = find()?;
    let adopted = found.is_some();
    if !ready.fits(options, found.as_deref()) {
        ready = tidied(Ready::make(kernel, pins, options, found.as_deref()), adopted)?;
    }
    let applied = ready.apply(kernel, pins, found, live.is_some());
    let (moving, frames) =
        applied.inspect_err(|_| _ = if adopted { remove(&pins.stage()) } else { remove(pins) })?;
    Ok(Taken { held, adopted, live, moving, frames })
}

/// Asks the agent that owns the datapath to end, and waits for it. Returns the lock; since then flows have no
/// agent, but heartbeats.
fn succeed(pins: &Pins, head: &Arc<Head>, each: Duration) -> Result<(OwnedFd, Option<Beating>)> {
    let pid = head.agent_pid();
    let refused = |why: String| {
        Error::new("load.not_handed_over", format!("the agent (pid {pid}) does not hand its flows over"))
            .at(pins.dir().display().to_string())
            .why(why)
            .fix(format!(
                "stop that agent (kill {pid}), then start this agent again; meanwhile flows use the fallback"
            ))
    };
    if !head.is_known() {
        return Err(refused("its version of ccplane cannot hand over flows".to_owned()));
    }
    head.successor().store(std::process::id(), Ordering::Release);
    let end = Instant::now() + PATIENCE;
    let mut beating = None;
    loop {
        if beating.is_none() && head.agent_pid() == 0 {
            beating = Some(Beating::begin(vec![Arc::clone(head)], each));
        }
        match pins.hold() {
            Ok(held) => {
                head.successor().store(0, Ordering::Release);
                return Ok((held, beating));
            }
            Err(e) if e.slug != "load.already_running" => return Err(e),
            Err(_) if Instant::now() > end => {
                head.successor().store(0, Ordering::Release);
                return Err(refused(format!("it has not ended within {} s", PATIENCE.as_secs())));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

struct Ready {
    kin: Kin,
    load: u32,
    copies: Vec<(u32, Name, Loaded)>,
    frames: Frames,
}

/// Names that are or shall be registered, by `cc_id`.
fn wanted(pins: &Pins, found: Option<&Head>) -> Vec<(u32, Name)> {
    let known = found.and_then(|_| names::read(pins).ok()).unwrap_or_default();
    let mut wanted: Vec<_> = (0..)
        .zip(known)
        .filter_map(|(id, name)| name.filter(|n| n.registered).map(|name| (id, name)))
        .collect();
    if wanted.first().is_none_or(|(id, _)| *id != 0) {
        let plain = Name { cc_name: "ccp".to_owned(), needs_ecn: false, registered: true };
        wanted.insert(0, (0, plain));
    }
    wanted
}

impl Ready {
    /// Loads what is needed; the present owner of the datapath continues.
    fn make(kernel: &Kernel, pins: &Pins, options: &Options, found: Option<&Head>) -> Result<Self> {
        let sizes = Sizes { max_flows: options.max_flows, ring_bytes: options.ring_bytes };
        let kin = found.map_or(Kin::None, |head| head.kin(options.max_flows));
        let stage = pins.stage();
        let (maps, load) = match kin {
            Kin::Same => (pins, 1),
            Kin::Layout => (pins, found.map_or(1, |head| head.load() + 1)),
            Kin::None => {
                if stage.dir().exists() {
                    remove(&stage)?; // of an interrupted attempt
                }
                stage.create()?;
                (&stage, 1)
            }
        };
        let mut copies = Vec::new();
        for (cc_id, name) in if kin == Kin::Same { Vec::new() } else { wanted(pins, found) } {
            let registration =
                Registration { cc_name: &name.cc_name, cc_id, needs_ecn: name.needs_ecn, load };
            let loaded = object::load(kernel, maps, sizes, &registration)?;
            copies.push((cc_id, name, loaded));
        }
        if kin == Kin::None {
            begin(&stage, options, load)?;
            for (cc_id, name, _) in &copies {
                names::write(&stage, *cc_id, name)?;
            }
        }
        Ok(Ready { kin, load, copies, frames: Frames::new(kernel, Some((maps, sizes)))? })
    }

    /// Whether the existing datapath is still the one that this was made for.
    fn fits(&self, options: &Options, found: Option<&Head>) -> bool {
        let kin = found.map_or(Kin::None, |head| head.kin(options.max_flows));
        let load = found.map_or(1, |head| head.load() + 1);
        kin == self.kin && (kin != Kin::Layout || load == self.load)
    }

    /// Puts the programs into use. Returns the datapath whose sockets are to move here, if it is another one.
    fn apply(
        self,
        kernel: &Kernel,
        pins: &Pins,
        found: Option<Arc<Head>>,
        is_live: bool,
    ) -> Result<(Option<Moving>, Frames)> {
        if self.kin == Kin::Same {
            return Ok((None, self.frames));
        }
        let names = self.copies.iter().map(|(_, name, _)| name.cc_name.clone()).collect::<Vec<_>>();
        for (_, name, loaded) in self.copies {
            loaded.register(kernel, pins, &name.cc_name)?;
        }
        let Some(head) = found else {
            pins.adopt_maps(&pins.stage())?;
            return Ok((None, self.frames));
        };
        // Sockets of removed names get the plain one.
        let all = names::read(pins).unwrap_or_default().into_iter().flatten().map(|name| name.cc_name);
        let goes_to = |name: String| {
            let to = if names.contains(&name) { name.clone() } else { "ccp".to_owned() };
            (name, to)
        };
        let ways: BTreeMap<_, _> = all.chain(names.iter().cloned()).map(goes_to).collect();
        // Sockets of versions without a head do not leave by themselves.
        let only_listeners = head.is_known();
        if self.kin == Kin::Layout {
            head.renew(self.load);
        } else {
            for extension in pins.extension_names() {
                pins.forget_extension(&extension)?;
            }
            pins.adopt_maps(&pins.stage())?;
            // Without an agent flows need not wait: they already use the fallback.
            if is_live { head.replace() } else { head.retire("") }
        }
        if let Ok(walk) = Walk::new(ways, only_listeners) {
            walk.all();
        }
        // Not then_some(): dropping an unused one makes all sockets leave at once.
        let moving = (self.kin == Kin::None && is_live).then(|| Moving { head, at: 0 });
        Ok((moving, self.frames))
    }
}

/// Fills the table of free slots, and marks the datapath's build.
fn begin(pins: &Pins, options: &Options, load: u32) -> Result<()> {
    let free_slots = pins.open_map("free_slots")?;
    for slot in 0..options.max_flows {
        // SAFETY: a queue has no key; its value is a u32.
        let done = unsafe {
            libbpf_sys::bpf_map_update_elem(free_slots.as_raw_fd(), ptr::null(), (&raw const slot).cast(), 0)
        };
        if done < 0 {
            return Err(Error::new("load.map", "cannot fill the table of free flow slots")
                .why(std::io::Error::from_raw_os_error(-done))
                .fix("see ccp doctor"));
        }
    }
    let globals = intf::ccp_globals {
        abi_version: intf::CCP_ABI_VERSION,
        max_flows: options.max_flows,
        build_hash: BUILD_HASH,
        layout_hash: LAYOUT_HASH,
        load,
        heartbeat_timeout_us: options.heartbeat_timeout_ms * 1000,
        max_cwnd_bytes: options.max_cwnd_bytes,
        ..Default::default()
    };
    put(&pins.open_map("globals")?, 0, &globals)
}

/// A replaced datapath. Its sockets move to the new one in portions, because an agent has to adopt each of them.
pub(crate) struct Moving {
    pub head: Arc<Head>,
    at: u32,
}

impl Moving {
    /// Lets some more move. Returns whether all may move now.
    pub fn step(&mut self) -> bool {
        let all = self.head.max_flows();
        self.at = self.at.saturating_add((all / 512).max(16));
        self.head.let_leave(self.at);
        self.at >= all
    }
}

impl Drop for Moving {
    /// Lets the remaining sockets move.
    fn drop(&mut self) {
        self.head.retire("");
    }
}
