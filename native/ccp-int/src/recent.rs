//! Flows in the order of their last packet.

use hashlink::LinkedHashMap;

use crate::FlowKey;

/// Maximum flows remembered: senders choose the addresses.
pub const MAX_FLOWS: usize = 1 << 16;

/// Data about recent flows. All operations take constant time, amortised.
#[derive(Clone, Debug)]
pub struct Recent<T> {
    keep_ns: u64,
    /// The longest unseen first.
    flows: LinkedHashMap<FlowKey, (u64, T)>,
}

impl<T> Recent<T> {
    /// Keeps flows for this time after their last packet.
    pub fn new(keep_ns: u64) -> Self {
        Recent { keep_ns, flows: LinkedHashMap::new() }
    }

    /// Records a packet of a flow and returns its data, created by `make` if new; removes old flows, and the
    /// oldest if there are too many.
    pub fn seen(&mut self, flow: &FlowKey, now_ns: u64, make: impl FnOnce() -> T) -> &mut T {
        self.forget(now_ns);
        if self.flows.len() == MAX_FLOWS && !self.flows.contains_key(flow) {
            self.flows.pop_front();
        }
        let entry = self.flows.raw_entry_mut().from_key(flow);
        let entry = match entry {
            hashlink::linked_hash_map::RawEntryMut::Occupied(mut entry) => {
                entry.to_back();
                entry.into_mut()
            }
            hashlink::linked_hash_map::RawEntryMut::Vacant(entry) => entry.insert(*flow, (now_ns, make())).1,
        };
        entry.0 = entry.0.max(now_ns);
        &mut entry.1
    }

    /// Like [`Recent::seen`], for known flows only.
    pub fn seen_again(&mut self, flow: &FlowKey, now_ns: u64) -> Option<&mut T> {
        self.forget(now_ns);
        let entry = self.flows.to_back(flow)?;
        entry.0 = entry.0.max(now_ns);
        Some(&mut entry.1)
    }

    pub fn get(&self, flow: &FlowKey) -> Option<&T> {
        self.flows.get(flow).map(|(_, known)| known)
    }

    /// The data of each flow, the longest unseen first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&FlowKey, &mut T)> {
        self.flows.iter_mut().map(|(flow, (_, known))| (flow, known))
    }

    pub fn count(&self, now_ns: u64) -> usize {
        let gone = self.flows.values().take_while(|(seen_ns, _)| self.is_gone(*seen_ns, now_ns)).count();
        self.flows.len() - gone
    }

    fn forget(&mut self, now_ns: u64) {
        while self.flows.front().is_some_and(|(_, (seen_ns, _))| self.is_gone(*seen_ns, now_ns)) {
            self.flows.pop_front();
        }
    }

    fn is_gone(&self, seen_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(seen_ns) >= self.keep_ns
    }
}
