//! Which entries of the program table are in use.

use crate::intf::CCP_MAX_PROGRAMS as MAX_PROGRAMS;

/// Hands out table indices, the longest unused first: a flow that still runs an old program must not find
/// another one under its index.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    used: Vec<bool>,
    next: u32,
}

impl Handles {
    pub fn new() -> Self {
        Handles { used: vec![false; MAX_PROGRAMS as usize], next: 1 }
    }

    /// An index that is neither in use nor still held by a flow; `None` when the table is full.
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

#[cfg(test)]
mod tests {
    use super::*;

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
