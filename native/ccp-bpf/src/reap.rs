//! Reclaims slots from long silent flows when slots are scarce: leaked ones, whose releasing program did not
//! run, and those of idle connections. A live socket asks for another slot at its next event.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::holders::{Holders, holders_of};
use crate::intf::{self, ccp_close, ccp_flow, ccp_globals};
use crate::shared::Observer;

/// Interval between checks [us]. A slot becomes free one interval after it was reclaimed: then no program can
/// still use it.
const LOOK_US: u64 = 1_000_000;
/// Interval after a check that found nothing [us]: a check reads all flows.
const IN_VAIN_US: u64 = 5_000_000;
/// Slots are scarce if fewer than this fraction is free.
const SCARCE_PART: u32 = 16;

/// A flow that may be reclaimed.
#[derive(Clone, Copy, Debug)]
struct Silent {
    since_us: u64,
    flow_id: u64,
    /// Whether its user or cgroup has used up its quota.
    holds_up: bool,
}

pub(crate) struct Reaper {
    /// Minimum silence of a flow [us].
    silent_us: u64,
    next_look_us: u64,
    /// Earliest time at which a flow can have been silent long enough.
    next_scan_us: u64,
    free_slots: OwnedFd,
    holders: Holders,
    /// Slots reclaimed at the last check.
    taken: Vec<u32>,
    /// Number of slots so far that the kernel side could not return.
    not_returned: u64,
}

/// Number of slots to keep free.
fn wanted(g: &ccp_globals) -> u64 {
    let waiting = g.without_slot[intf::CCP_NO_SLOT_LIMIT as usize];
    u64::from(g.max_flows / SCARCE_PART).max(waiting).min(u64::from(g.max_flows))
}

/// Selects flows: the longest silent ones, as many as slots are wanted, and as many of holders at their quota
/// as sockets wait for theirs.
fn chosen(mut silent: Vec<Silent>, mut missing: u64, mut waiting: u64) -> Vec<u64> {
    silent.sort_unstable_by_key(|one| one.since_us);
    let takes = |one: &Silent| {
        let for_holder = one.holds_up && waiting > 0;
        let any = missing > 0;
        waiting -= u64::from(for_holder);
        missing -= u64::from(any);
        for_holder || any
    };
    let mut takes = takes;
    silent.into_iter().filter(|one| takes(one)).map(|one| one.flow_id).collect()
}

impl Reaper {
    pub fn new(
        shared: &Observer,
        silent_us: u64,
        free_slots: OwnedFd,
        holders: Holders,
        adopted: bool,
    ) -> Self {
        let not_returned = read_globals(shared).slots_not_returned;
        // Slots that the previous agent reclaimed and did not free.
        let taken = if adopted { shared.reaped_slots() } else { Vec::new() };
        Reaper { silent_us, next_look_us: 0, next_scan_us: 0, free_slots, holders, taken, not_returned }
    }

    /// Checks, if it is time. Returns the ends of the reclaimed flows.
    pub fn look(&mut self, shared: &Observer, now_us: u64) -> Vec<ccp_close> {
        if now_us < self.next_look_us {
            return Vec::new();
        }
        self.next_look_us = now_us + LOOK_US;
        let g = read_globals(shared);
        if g.slots_not_returned != self.not_returned {
            self.not_returned = g.slots_not_returned;
            self.taken = shared.reaped_slots();
        }
        self.give_back(shared);
        let g = read_globals(shared);
        let missing = wanted(&g).saturating_sub(u64::from(g.max_flows).saturating_sub(g.flows_active));
        let waiting = g.without_slot[intf::CCP_NO_SLOT_QUOTA as usize];
        if (missing == 0 && waiting == 0) || now_us < self.next_scan_us {
            return Vec::new();
        }
        let silent = self.scan(shared, &g, now_us);
        let flow_ids = chosen(silent, missing, waiting);
        if flow_ids.is_empty() {
            self.next_scan_us = self.next_scan_us.max(now_us + IN_VAIN_US);
        }
        let closes: Vec<_> = flow_ids.into_iter().filter_map(|id| self.take(shared, id, now_us)).collect();
        // SAFETY: an aligned u64 in the mapping, which is changed atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*shared.globals()).flows_reaped) }
            .fetch_add(closes.len() as u64, Ordering::Relaxed);
        closes
    }

    /// Flows silent for long enough. Flows with extensions are excluded: extensions must learn of a flow's end.
    fn scan(&mut self, shared: &Observer, g: &ccp_globals, now_us: u64) -> Vec<Silent> {
        let mut numbers = HashMap::<(u32, u64), u32>::new();
        let mut silent = Vec::new();
        let mut oldest_us = now_us;
        for flow_id in shared.flow_ids() {
            // SAFETY: plain data in the mapping.
            let found = shared.read(flow_id, |f| unsafe {
                (
                    ptr::read_volatile(&raw const (*f).stats.now_us),
                    ptr::read_volatile(&raw const (*f).extensions),
                    ptr::read_volatile(&raw const (*f).info),
                )
            });
            let Some((since_us, extensions, info)) = found else { continue };
            let held = holders_of(&info).map(|holder| (info.held & holder.0 != 0).then_some(holder));
            for holder in held.into_iter().flatten() {
                *numbers.entry(holder).or_default() += 1;
            }
            if extensions == 0 {
                oldest_us = oldest_us.min(since_us);
                if since_us + self.silent_us <= now_us {
                    silent.push((since_us, flow_id, held));
                }
            }
        }
        self.next_scan_us = if silent.is_empty() { oldest_us + self.silent_us } else { 0 };
        let quotas =
            [(intf::CCP_HOLDER_USER, g.flows_per_user), (intf::CCP_HOLDER_CGROUP, g.flows_per_cgroup)];
        let is_used_up = |holder: (u32, u64)| {
            let maximum =
                quotas.iter().find(|(kind, _)| *kind == holder.0).map_or(0, |(_, maximum)| *maximum);
            maximum > 0 && numbers.get(&holder).is_some_and(|number| *number >= maximum)
        };
        silent
            .into_iter()
            .map(|(since_us, flow_id, held)| Silent {
                since_us,
                flow_id,
                holds_up: held.into_iter().flatten().any(is_used_up),
            })
            .collect()
    }

    /// Removes a flow from its slot, unless its socket has just done so. Returns its end.
    fn take(&mut self, shared: &Observer, flow_id: u64, now_us: u64) -> Option<ccp_close> {
        let slot = flow_id as u32;
        let flow = shared.slot(slot)?;
        // SAFETY: aligned words in the mapping. Whoever clears the id owns the slot; the kernel side does the same.
        let (ended, info) = unsafe {
            let id = AtomicU64::from_ptr(&raw mut (*flow).flow_id);
            id.compare_exchange(flow_id, 0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
            state_of(flow).store(intf::CCP_FLOW_REAPED, Ordering::Release);
            (ptr::read_volatile(flow), ptr::read_volatile(&raw const (*flow).info))
        };
        self.taken.push(slot);
        for (kind, id) in holders_of(&info).into_iter().filter(|(kind, _)| info.held & kind != 0) {
            // The program was loaded when the quota was set. Without quotas the count is unused.
            let _ = self.holders.change(kind, id, false);
        }
        let record = intf::ccp_record {
            kind: intf::CCP_RECORD_CLOSE,
            flow_id,
            now_us,
            cwnd_bytes: ended.cwnd_bytes,
            rate_bytes_per_s: ended.rate_bytes_per_s,
            ..Default::default()
        };
        Some(ccp_close { record, stats: ended.stats, counts: ended.counts })
    }

    /// Frees slots that were reclaimed at an earlier check. Those that the kernel refuses stay for the next one.
    fn give_back(&mut self, shared: &Observer) {
        let fd = self.free_slots.as_raw_fd();
        self.taken.retain(|slot| {
            let Some(flow) = shared.slot(*slot) else { return false };
            // SAFETY: aligned words in the mapping; the slot is ours. A queue has no key; its value is a u32.
            unsafe {
                state_of(flow).store(intf::CCP_FLOW_FREE, Ordering::Release);
                let done = libbpf_sys::bpf_map_update_elem(fd, ptr::null(), (&raw const *slot).cast(), 0);
                if done < 0 {
                    state_of(flow).store(intf::CCP_FLOW_REAPED, Ordering::Release);
                } else {
                    AtomicU64::from_ptr(&raw mut (*shared.globals()).flows_active)
                        .fetch_sub(1, Ordering::AcqRel);
                }
                done < 0
            }
        });
    }
}

fn read_globals(shared: &Observer) -> ccp_globals {
    // SAFETY: plain data in the mapping.
    unsafe { ptr::read_volatile(shared.globals()) }
}

/// # Safety
///
/// The flow is in the mapping.
unsafe fn state_of<'a>(flow: *mut ccp_flow) -> &'a AtomicU32 {
    // SAFETY: an aligned u32 in the mapping.
    unsafe { AtomicU32::from_ptr(&raw mut (*flow).state) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent(since_us: u64, flow_id: u64, holds_up: bool) -> Silent {
        Silent { since_us, flow_id, holds_up }
    }

    #[test]
    fn those_that_were_silent_for_longest_go_first() {
        let flows = vec![silent(30, 3, false), silent(10, 1, false), silent(20, 2, false)];
        assert_eq!(chosen(flows.clone(), 2, 0), [1, 2]);
        assert_eq!(chosen(flows, 0, 5), [] as [u64; 0], "nobody is at a quota");
    }

    #[test]
    fn sockets_over_a_quota_get_slots_of_who_is_at_it() {
        let flows = vec![silent(10, 1, false), silent(20, 2, true), silent(30, 3, true)];
        assert_eq!(chosen(flows.clone(), 0, 1), [2]);
        assert_eq!(chosen(flows, 1, 1), [1, 2]);
    }

    #[test]
    fn slots_are_scarce_below_a_part_of_them_or_while_sockets_wait() {
        let mut g = ccp_globals { max_flows: 64, ..Default::default() };
        assert_eq!(wanted(&g), 4);
        g.without_slot[intf::CCP_NO_SLOT_LIMIT as usize] = 100;
        assert_eq!(wanted(&g), 64);
        g.without_slot[intf::CCP_NO_SLOT_LIMIT as usize] = 0;
        g.max_flows = 4;
        assert_eq!(wanted(&g), 0);
    }
}
