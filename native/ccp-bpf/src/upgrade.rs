//! Takes over from an existing datapath: the same build, other programs on the same maps, or a different
//! datapath. All steps that can fail come before any change.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::extension::{self, Extension, Next, Prepared};
use crate::frame::Frames;
use crate::handover::Claim;
use crate::head::{BUILD_HASH, Head, Kin, LAYOUT_HASH};
use crate::intf;
use crate::kernel::Kernel;
use crate::map::put;
use crate::names::{self, Name};
use crate::object::{self, Loaded, Registration, Sizes};
use crate::options::Options;
use crate::pins::{Pins, remove};
use crate::walk::{Walk, Walked};
use crate::{Error, Result};

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

/// Interval of heartbeats while programs are put into use: a fraction of the shortest timeout.
const BEAT: Duration = Duration::from_millis(10);

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

/// A copy of the programs for a name, not registered yet.
struct Copy {
    cc_id: u32,
    cc_name: String,
    loaded: Loaded,
}

/// A datapath that is assembled next to the existing one, if there is one: all that can fail comes before `commit`.
pub(crate) struct Pending {
    kin: Kin,
    load: u32,
    sizes: Sizes,
    pins: Pins,
    /// Where its maps are: in their final place, or in a stage.
    maps: Pins,
    copies: Vec<Copy>,
    /// The table of names to be.
    names: Vec<Option<Name>>,
    extensions: Vec<Next>,
    /// The existing datapath.
    found: Option<Arc<Head>>,
    /// A running agent has it.
    claim: Option<Claim>,
    held: Option<OwnedFd>,
    opening: OwnedFd,
    /// A registered copy, in which folds continue from the commit on.
    finishing: Option<Loaded>,
}

/// The result of a commit.
pub(crate) struct Committed {
    /// The lock of the agent; None if its predecessor has not released it yet.
    pub held: Option<OwnedFd>,
    /// Until this agent has that lock.
    pub opening: OwnedFd,
    /// Whether flows never were without an agent.
    pub is_live: bool,
    /// The datapath of the agent that handed its flows over.
    pub before: Option<Arc<Head>>,
    /// Heartbeats while the programs are put into use.
    pub beating: Option<Beating>,
    /// The replaced datapath, whose flows move here.
    pub moving: Option<Moving>,
    /// Sockets, listeners and defaults that keep the replaced programs, one line each.
    pub left: Vec<String>,
}

impl Pending {
    /// Loads what is needed; the present owner of the datapath continues. Returns also the frames of folds.
    pub fn make(kernel: &Kernel, pins: &Pins, options: &Options) -> Result<(Self, Frames)> {
        pins.create()?;
        let opening = pins.hold_opening()?;
        let held = match pins.hold() {
            Err(e) if e.slug == "load.already_running" && options.take_over => None,
            held => Some(held?),
        };
        let found = match Head::open(pins) {
            Ok(head) => Some(Arc::new(head)),
            Err(e) if e.slug == "load.not_loaded" => None,
            Err(e) => return Err(e),
        };
        let (held, claim) = match (held, &found) {
            (None, Some(head)) => (None, Some(Claim::begin(pins, head)?)),
            (None, None) => (Some(pins.hold()?), None), // it was being removed
            (held, _) => (held, None),
        };
        let was_there = found.is_some();
        Self::assemble(kernel, pins, options, found, claim, held, opening).inspect_err(|_| {
            // Clean up; the first error counts.
            if was_there {
                let _ = pins.stage().discard();
            } else {
                let _ = remove(pins);
            }
        })
    }

    fn assemble(
        kernel: &Kernel,
        pins: &Pins,
        options: &Options,
        found: Option<Arc<Head>>,
        claim: Option<Claim>,
        held: Option<OwnedFd>,
        opening: OwnedFd,
    ) -> Result<(Self, Frames)> {
        let sizes = Sizes { max_flows: options.max_flows, ring_bytes: options.ring_bytes };
        let kin = found.as_ref().map_or(Kin::None, |head| head.kin(options.max_flows));
        let stage = pins.stage();
        let load = found.as_ref().map_or(1, |head| head.load());
        let (maps, load) = match kin {
            Kin::Same => (pins.clone(), load),
            Kin::Layout => (pins.clone(), load + 1),
            Kin::None => {
                stage.discard()?; // of an interrupted attempt
                stage.create()?;
                (stage, 1)
            }
        };
        let mut names = vec![None; intf::CCP_MAX_NAMES as usize];
        if kin != Kin::None {
            names = names::read(pins)?;
        }
        let mut copies = Vec::new();
        for (cc_id, name) in if kin == Kin::Same { Vec::new() } else { wanted(pins, found.as_deref()) } {
            let registration =
                Registration { cc_name: &name.cc_name, cc_id, needs_ecn: name.needs_ecn, load };
            let loaded = object::load(kernel, &maps, sizes, &registration)?;
            copies.push(Copy { cc_id, cc_name: name.cc_name.clone(), loaded });
            names[cc_id as usize] = Some(name);
        }
        if kin == Kin::None {
            begin(&maps, options, load)?;
        }
        let frames = Frames::new(kernel, Some((&maps, sizes)))?;
        let pins = pins.clone();
        let (extensions, finishing) = (Vec::new(), None);
        let pending = Pending {
            kin,
            load,
            sizes,
            pins,
            maps,
            copies,
            names,
            extensions,
            found,
            claim,
            held,
            opening,
            finishing,
        };
        Ok((pending, frames))
    }

    /// Where the maps are now.
    pub fn maps(&self) -> &Pins {
        &self.maps
    }

    pub fn adopts(&self) -> bool {
        self.found.is_some()
    }

    /// Whether a running agent still has the datapath.
    pub fn is_claim(&self) -> bool {
        self.claim.is_some()
    }

    pub fn registered(&self) -> Vec<Name> {
        self.names.iter().flatten().filter(|name| name.registered).cloned().collect()
    }

    /// As `Datapath::register`, from the commit on.
    pub fn register(&mut self, kernel: &Kernel, cc_name: &str, needs_ecn: bool) -> Result<u32> {
        names::check(cc_name)?;
        let known = self.names.iter().position(|n| n.as_ref().is_some_and(|n| n.cc_name == cc_name));
        let place = known.or_else(|| self.names.iter().position(Option::is_none));
        let place = place.ok_or_else(|| names::full(self.names.len()))?;
        let cc_id = place as u32;
        if self.names[place].as_ref().is_some_and(|name| name.registered && name.needs_ecn == needs_ecn) {
            return Ok(cc_id);
        }
        names::check_free(&self.pins, cc_name)?;
        let registration = Registration { cc_name, cc_id, needs_ecn, load: self.load };
        let loaded = object::load(kernel, &self.maps, self.sizes, &registration)?;
        self.copies.retain(|copy| copy.cc_id != cc_id);
        self.copies.push(Copy { cc_id, cc_name: cc_name.to_owned(), loaded });
        self.names[place] = Some(Name { cc_name: cc_name.to_owned(), needs_ecn, registered: true });
        Ok(cc_id)
    }

    /// As `Datapath::unregister`, from the commit on.
    pub fn unregister(&mut self, cc_name: &str) -> Result<()> {
        let mut known = self.names.iter_mut().flatten().filter(|n| n.cc_name == cc_name && n.registered);
        known.next().ok_or_else(|| names::unknown(cc_name))?.registered = false;
        self.copies.retain(|copy| copy.cc_name != cc_name);
        Ok(())
    }

    /// As `extension::load`, from the commit on.
    pub fn extend(&mut self, kernel: &Kernel, name: &str, object: &[u8]) -> Result<Extension> {
        self.extensions.retain(|next| next.name != name);
        let taken: Vec<_> = self.extensions.iter().map(|next| next.index).collect();
        let Prepared { extension, next } =
            extension::prepare(kernel, &self.maps, self.sizes, name, object, &taken)?;
        match next {
            // No flow uses the maps of a stage.
            Some(next) if self.kin == Kin::None => next.put_into_use(&self.maps)?,
            next => self.extensions.extend(next),
        }
        Ok(extension)
    }

    /// Takes the datapath from the agent that has it, and puts everything into use. If it is not handed over, nothing has
    /// changed.
    pub fn commit(self, kernel: &Kernel) -> Result<Committed> {
        let (pins, adopts) = (self.pins.clone(), self.adopts());
        self.try_commit(kernel).inspect_err(|_| {
            // Clean up; the first error counts.
            if adopts {
                pins.tidy();
            } else {
                let _ = remove(&pins);
            }
        })
    }

    fn try_commit(mut self, kernel: &Kernel) -> Result<Committed> {
        if self.found.is_some() {
            Head::open(&self.pins)?; // it may have been removed meanwhile
        }
        self.register_new(kernel)?;
        let (mut held, mut is_live) = (self.held.take(), false);
        if let Some(claim) = &self.claim {
            let got = claim.take()?;
            (held, is_live) = (got.held, got.is_live);
        }
        let before = self.found.clone().filter(|_| is_live);
        let beating = before.clone().map(|head| {
            if self.kin != Kin::None {
                head.wait_for_answers();
            }
            let next = Head::open(&self.maps).ok().map(Arc::new);
            Beating::begin([Some(head), next].into_iter().flatten().collect(), BEAT)
        });
        let (moving, left) = self.apply(kernel, is_live)?;
        Ok(Committed { held, opening: self.opening, is_live, before, beating, moving, left })
    }

    /// Registers names that are not registered yet, or none of them.
    fn register_new(&mut self, kernel: &Kernel) -> Result<()> {
        let pins = &self.pins;
        let is_new = |copy: &Copy| !pins.registration(&copy.cc_name).exists();
        let (new, other): (Vec<_>, Vec<_>) = std::mem::take(&mut self.copies).into_iter().partition(is_new);
        self.copies = other;
        let mut registered = Vec::<String>::new();
        for mut copy in new {
            let attached = if self.kin == Kin::None { copy.loaded.finish_folds(kernel) } else { Ok(()) };
            attached.and_then(|()| copy.loaded.attach(kernel, pins, &copy.cc_name)).inspect_err(|_| {
                registered.iter().for_each(|cc_name| _ = pins.unregister(cc_name));
            })?;
            registered.push(copy.cc_name);
            if self.kin != Kin::None {
                self.finishing = Some(copy.loaded);
            }
        }
        Ok(())
    }

    fn apply(&mut self, kernel: &Kernel, is_live: bool) -> Result<(Option<Moving>, Vec<String>)> {
        let pins = &self.pins;
        let before = if self.found.is_some() { names::read(pins).unwrap_or_default() } else { Vec::new() };
        if let Some(loaded) = &self.finishing {
            loaded.finish_folds(kernel)?;
        }
        for mut copy in std::mem::take(&mut self.copies) {
            copy.loaded.finish_folds(kernel)?;
            copy.loaded.attach(kernel, pins, &copy.cc_name)?;
        }
        let names: Vec<_> = self.registered().into_iter().map(|name| name.cc_name).collect();
        for Name { cc_name, .. } in before.iter().flatten().filter(|name| name.registered) {
            if !names.contains(cc_name) {
                pins.unregister(cc_name).map_err(|e| names::busy(pins, cc_name, &e))?;
            }
        }
        for (cc_id, name) in (0..).zip(&self.names) {
            if let Some(name) = name {
                names::write(&self.maps, cc_id, name)?;
            }
        }
        let Some(head) = self.found.take() else {
            pins.adopt_maps(&self.maps)?;
            return Ok((None, Vec::new()));
        };
        if self.kin == Kin::None {
            pins.adopt_extensions(&self.maps)?;
            pins.adopt_maps(&self.maps)?;
            // Without an agent flows need not wait: they already use the fallback.
            if is_live { head.replace() } else { head.retire("") }
        }
        for next in std::mem::take(&mut self.extensions) {
            next.put_into_use(pins)?;
        }
        if self.kin == Kin::Same {
            return Ok((None, Vec::new()));
        }
        if self.kin == Kin::Layout {
            head.renew(self.load);
        }
        // Sockets of removed names get the plain one.
        let all = before.into_iter().flatten().map(|name| name.cc_name);
        let goes_to = |name: String| {
            let to = if names.contains(&name) { name.clone() } else { "ccp".to_owned() };
            (name, to)
        };
        let ways: BTreeMap<_, _> = all.chain(names.iter().cloned()).map(goes_to).collect();
        // Not then_some(): dropping an unused one makes all sockets leave at once.
        let is_known = head.is_known();
        let moving = (self.kin == Kin::None && is_live).then(|| Moving { head, at: 0 });
        // Sockets of versions without a head do not leave by themselves.
        let left = match Walk::new(ways, is_known) {
            Ok(walk) => {
                let Walked { mut left, hidden, .. } = walk.all();
                if hidden > 0 {
                    left.push(format!(
                        "network namespaces of {hidden} processes that this process may not open"
                    ));
                }
                left
            }
            Err(e) => vec![format!("sockets and defaults were not checked: {}: {}", e.message, e.why)],
        };
        Ok((moving, left))
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
        report_timeout_us: options.report_timeout_ms * 1000,
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
