//! Allocation of indices in the program table.

use crate::intf::CCP_MAX_PROGRAMS as MAX_PROGRAMS;

/// Hands out indices, the longest unused first: a flow that still runs an old program must not find another
/// one at its index.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    used: Vec<bool>,
    next: u32,
}

impl Handles {
    pub fn new() -> Self {
        Handles { used: vec![false; MAX_PROGRAMS as usize], next: 1 }
    }

    /// A free index that no flow uses; `None` if the table is full.
    pub fn take(&mut self, held: impl Fn(u32) -> bool) -> Option<u32> {
        let size = MAX_PROGRAMS;
        for _ in 1..size {
            let candidate = self.next;
            self.next = if candidate + 1 == size { 1 } else { candidate + 1 };
            if !self.used[candidate as usize] && !held(candidate) {
                self.used[candidate as usize] = true;
                return Some(candidate);
            }
        }
        None
    }

    pub fn release(&mut self, handle: u32) -> bool {
        self.used.get_mut(handle as usize).is_some_and(std::mem::take)
    }

    pub fn is_used(&self, handle: u32) -> bool {
        self.used.get(handle as usize).copied().unwrap_or(false)
    }
}

/// Interval between checks of inherited programs [us]: idle flows run them until their next ACK.
const LOOK_US: u64 = 1_000_000;

/// Programs of the previous agent, which flows run until they get new ones.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    handles: Vec<u32>,
    looked_us: u64,
}

impl Inherited {
    pub fn new(handles: Vec<u32>) -> Self {
        Inherited { handles, looked_us: 0 }
    }

    pub fn has(&self, handle: u32) -> bool {
        self.handles.contains(&handle)
    }

    pub fn is_due(&self, now_us: u64) -> bool {
        !self.handles.is_empty() && now_us >= self.looked_us + LOOK_US
    }

    /// Removes those that no flow uses any more, and returns the ones that are not in use again.
    pub fn left(&mut self, now_us: u64, held: impl Fn(u32) -> bool, own: &Handles) -> Vec<u32> {
        self.looked_us = now_us;
        let (gone, stay): (Vec<_>, Vec<_>) =
            self.handles.iter().partition(|handle| own.is_used(**handle) || !held(**handle));
        self.handles = stay;
        gone.into_iter().filter(|handle| !own.is_used(*handle)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inherited_goes_when_no_flow_holds_it_unless_it_was_given_again() {
        let mut own = Handles::new();
        let given = own.take(|_| false).unwrap();
        let mut inherited = Inherited::new(vec![given, 5, 6]);
        assert!(inherited.is_due(LOOK_US));
        assert_eq!(inherited.left(LOOK_US, |h| h == 6, &own), [5]);
        assert!(!inherited.is_due(LOOK_US));
        assert_eq!(inherited.left(2 * LOOK_US, |_| false, &own), [6]);
        assert!(!inherited.is_due(9 * LOOK_US), "there are none");
    }

    #[test]
    fn an_index_comes_back_only_after_all_others_were_given() {
        let mut handles = Handles::new();
        let first = handles.take(|_| false).unwrap();
        assert!(handles.release(first));
        assert!(!handles.release(first));
        let rest: Vec<_> = (1..MAX_PROGRAMS).map(|_| handles.take(|_| false).unwrap()).collect();
        assert_eq!(rest.last(), Some(&first));
        assert_eq!(handles.take(|_| false), None);
    }

    #[test]
    fn an_index_that_a_flow_still_runs_is_not_given_again() {
        let mut handles = Handles::new();
        assert_eq!(handles.take(|h| h < 5), Some(5));
    }
}
