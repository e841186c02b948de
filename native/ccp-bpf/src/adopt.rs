//! Taking the flows of a datapath, and handing them over.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};
use std::time::Duration;

use crate::datapath::{Datapath, Locks, lock};
use crate::handles::Inherited;
use crate::handover::{self, Handing, Handover, own_word};
use crate::head::{PREPARES, READY, SERVES};
use crate::holders::Holders;
use crate::intf::CCP_MAX_PROGRAMS as MAX_PROGRAMS;
use crate::object::Sizes;
use crate::pins::Pins;
use crate::reap::Reaper;
use crate::upgrade::{Beating, Committed};
use crate::{Result, Update};

impl Datapath {
    /// Takes the flows, from a running agent if there is one, and puts into use what was prepared. Returns sockets,
    /// listeners and defaults that keep replaced programs, one line each. If the running agent does not hand its flows
    /// over, it keeps them.
    pub fn adopt(&self) -> Result<Vec<String>> {
        let Some(pending) = lock(&self.pending).take() else { return Ok(Vec::new()) };
        let Committed { held, opening, is_live, before, beating, moving, left } =
            pending.commit(&self.kernel)?;
        let pins = Pins::new(&self.options.pin_dir);
        self.shared.moved_to(&pins);
        // SAFETY: aligned words in the mapping that only agents write.
        unsafe {
            let g = self.shared.globals();
            ptr::write_volatile(&raw mut (*g).heartbeat_timeout_us, self.options.heartbeat_timeout_ms * 1000);
            ptr::write_volatile(&raw mut (*g).max_cwnd_bytes, self.options.max_cwnd_bytes);
        }
        self.head.agent().store(own_word(), Ordering::Release);
        if is_live {
            let heads = [Some(&self.head), moving.as_ref().map(|m| &m.head)].into_iter().flatten();
            let slice = Duration::from_millis(self.heartbeat_slice_ms);
            *lock(&self.opening) = Some(Beating::begin(heads.cloned().collect(), slice));
        } else {
            self.expect_answers();
        }
        drop(beating);
        *lock(&self.locks) = Locks { held, opening: Some(opening), before, has_flows: true };
        let has_moved = moving.is_some();
        *lock(&self.moving) = moving;
        let sizes = Sizes { max_flows: self.options.max_flows, ring_bytes: self.options.ring_bytes };
        let mut holders = Holders::new(&pins, sizes);
        holders.set(&self.shared, self.options.quotas)?;
        let silent_us = self.options.reap_after_ms * 1000;
        let free_slots = pins.open_map("free_slots")?;
        *lock(&self.reaper) = Some(Reaper::new(&self.shared, silent_us, free_slots, holders, self.adopted()));
        if self.adopted() && !has_moved {
            self.begin_again(is_live);
        }
        self.lock_alone();
        self.heartbeat();
        Ok(left)
    }

    /// Discards programs, updates and reports of the previous agent, except programs that live flows run until they get
    /// new ones. Other flows are in the fallback; new and closed flows are found in the flow table.
    fn begin_again(&self, is_live: bool) {
        let in_use = if is_live { self.programs_in_flows() } else { HashMap::new() };
        let is_own = |handle: &u32| lock(&self.handles).is_used(*handle);
        let others = (1..MAX_PROGRAMS).filter(|handle| !is_own(handle));
        let (stay, go): (Vec<_>, Vec<_>) = others.partition(|handle| in_use.contains_key(handle));
        go.into_iter().for_each(|handle| self.clear_folds(handle));
        *lock(&self.inherited) = Inherited::new(stay);
        let flow_ids = self.shared.flow_ids();
        if !is_live {
            self.shared.clear_mailboxes();
            let to_fallback = Update { program: Some(0), ..Update::default() };
            flow_ids.iter().for_each(|flow_id| _ = self.shared.write(*flow_id, &to_fallback, 0));
        }
        while !lock(&self.ring).0.drain().is_empty() {}
        lock(&self.extensions).iter().for_each(|one| one.begin_again(&flow_ids));
    }

    /// Locks the pin directory as soon as the predecessor has released it.
    fn lock_alone(&self) {
        let mut locks = lock(&self.locks);
        if locks.has_flows && locks.held.is_none() {
            locks.held = self.shared.pins().hold().ok();
        }
        if locks.held.is_some() {
            locks.opening = None;
        }
    }

    /// With each poll: lets a predecessor end.
    pub(crate) fn serves(&self) {
        self.lock_alone();
        if let Some(head) = lock(&self.locks).before.take() {
            head.agent().fetch_or(SERVES, Ordering::AcqRel);
            self.expect_answers();
        }
    }

    /// From now on a flow whose report is not answered in time gets the fallback.
    fn expect_answers(&self) {
        self.head.set_report_timeout_us(self.options.report_timeout_ms * 1000);
    }

    /// After a hand-over: waits until the successor serves the flows. Returns false if it has died before.
    pub fn is_served(&self) -> bool {
        handover::is_served(&self.shared.pins(), &self.head)
    }

    /// Whether a successor waits for this agent to stop polling.
    pub(crate) fn is_awaited(&self) -> bool {
        let word = self.head.successor().load(Ordering::Acquire);
        word != 0 && (word & PREPARES == 0 || word & READY != 0)
    }

    /// Runs between two batches: lets a successor prepare, and then take the flows. If it fails, this agent keeps them.
    pub fn hand_over(&self) -> Handing {
        let mut handover = match self.handover.try_lock() {
            Ok(handover) => handover,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return Handing::Serves, // another thread installs a program
        };
        if self.head.successor().load(Ordering::Acquire) == 0 && !handover.is_frozen() {
            return Handing::Serves;
        }
        let pins = self.shared.pins();
        let handing = handover.step(&pins, &self.head, || self.heartbeat());
        match handing {
            Handing::Handed(_) => self.forget(),
            Handing::Failed(_) => self.tidy(&pins),
            _ => {}
        }
        handing
    }

    /// Removes what a successor that failed has left. Not while the next one starts.
    fn tidy(&self, pins: &Pins) {
        let Ok(_opening) = pins.try_opening() else { return };
        let in_use = self.programs_in_flows();
        let is_known = |handle: &u32| {
            lock(&self.handles).is_used(*handle)
                || lock(&self.inherited).has(*handle)
                || in_use.contains_key(handle)
        };
        (1..MAX_PROGRAMS).filter(|handle| !is_known(handle)).for_each(|handle| self.clear_folds(handle));
        pins.tidy();
    }

    /// Excludes the hand-over until the result is dropped. Error: a successor prepares to take over.
    pub(crate) fn change(&self) -> Result<MutexGuard<'_, Handover>> {
        let handover = lock(&self.handover);
        handover.frozen()?;
        Ok(handover)
    }

    /// Whether this agent waits for `adopt`.
    pub fn is_pending(&self) -> bool {
        lock(&self.pending).is_some()
    }
}
