//! Flows in the order in which they were last seen.

use hashlink::LinkedHashMap;

use crate::FlowKey;

/// Most flows that anybody remembers: their addresses are the senders' to choose.
pub const MAX_FLOWS: usize = 1 << 16;

/// Something about each flow that was seen lately. All operations take constant time, amortised.
#[derive(Clone, Debug)]
pub struct Recent<T> {
    keep_ns: u64,
    /// The longest unseen first.
    flows: LinkedHashMap<FlowKey, (u64, T)>,
}

impl<T> Recent<T> {
    /// Keeps flows for so long after they were last seen.
    pub fn new(keep_ns: u64) -> Self {
        Recent { keep_ns, flows: LinkedHashMap::new() }
    }

    /// Notes that a flow is seen now, and forgets others, those longest unseen if they are too many; what is known of it, or what `make` makes.
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

    /// As [`Recent::seen`], of a flow that is known already.
    pub fn seen_again(&mut self, flow: &FlowKey, now_ns: u64) -> Option<&mut T> {
        self.forget(now_ns);
        let entry = self.flows.to_back(flow)?;
        entry.0 = entry.0.max(now_ns);
        Some(&mut entry.1)
    }

    /// What is known of a flow.
    pub fn get(&self, flow: &FlowKey) -> Option<&T> {
        self.flows.get(flow).map(|(_, known)| known)
    }

    /// What is known of each flow, the longest unseen first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&FlowKey, &mut T)> {
        self.flows.iter_mut().map(|(flow, (_, known))| (flow, known))
    }

    /// How many were seen in the time before now.
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
