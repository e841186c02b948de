//! The hand-over from a running agent to its successor, through two words of the datapath's head.
//!
//! 1. The successor locks `opening`, and announces itself: `successor` is its process id, with `PREPARES`.
//! 2. Between two batches the agent freezes: it keeps handling reports, but neither adds nor removes anything else.
//! 3. The successor prepares everything that can fail, and sets `READY`.
//! 4. The agent stops polling: `PAUSED`.
//! 5. The successor writes its process id over the agent's, and adopts the datapath.
//! 6. With its first poll the successor adds `SERVES`. Then the agent ends.
//!
//! Until step 5 the agent resumes if the successor withdraws, or dies, which releases the lock. Steps 4 and 5 are atomic
//! changes of one word, so exactly one of the two has the datapath. If the successor dies between steps 5 and 6, the agent
//! starts again.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::head::{FROZEN, Head, PAUSED, PREPARES, READY, RESUMES, SERVES};
use crate::pins::Pins;
use crate::{Error, Result};

/// Maximum time for an agent to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time that a paused agent waits: the successor has only one word to write.
const PAUSE: Duration = Duration::from_secs(2);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(1);

/// Word of an agent that has the datapath.
pub(crate) fn own_word() -> u32 {
    std::process::id() | RESUMES
}

/// A successor's claim on the datapath of a running agent. Dropping it before `take` withdraws it.
pub(crate) struct Claim {
    pins: Pins,
    head: Arc<Head>,
    word: u32,
}

/// What a successor got.
pub(crate) struct Got {
    /// The agent's lock; None if the agent has not released it yet.
    pub held: Option<OwnedFd>,
    /// Whether the flows never were without an agent.
    pub is_live: bool,
}

/// Maximum time for a successor to serve the flows that it has taken.
const START: Duration = Duration::from_secs(30);

/// After a hand-over: waits until the successor serves the flows. Returns false if it has died before.
pub(crate) fn is_served(pins: &Pins, head: &Head) -> bool {
    let serves = || head.agent().load(Ordering::Acquire) & SERVES != 0;
    let end = Instant::now() + START;
    while !serves() && Instant::now() < end {
        if !pins.is_opening() && pins.is_free() {
            return serves();
        }
        std::thread::sleep(10 * LOOK);
    }
    true
}

impl Claim {
    /// Announces the successor, and waits until the agent has frozen. Agents of earlier versions cannot.
    pub fn begin(pins: &Pins, head: &Arc<Head>) -> Result<Self> {
        let word = std::process::id() | PREPARES;
        let mut claim = Claim { pins: pins.clone(), head: Arc::clone(head), word };
        if !head.is_known() {
            return Err(claim.refused("its version of ccplane cannot hand over flows".to_owned()));
        }
        if head.agent().load(Ordering::Acquire) & RESUMES == 0 {
            claim.word = 0;
            return Ok(claim);
        }
        head.successor().store(word, Ordering::Release);
        let end = Instant::now() + PATIENCE;
        while head.agent().load(Ordering::Acquire) & FROZEN == 0 {
            if pins.is_free() {
                break; // the agent has just ended
            }
            if Instant::now() > end {
                return Err(claim.refused(format!("it has not answered within {} s", PATIENCE.as_secs())));
            }
            std::thread::sleep(LOOK);
        }
        Ok(claim)
    }

    fn refused(&self, why: String) -> Error {
        let pid = self.head.agent_pid();
        Error::new("load.not_handed_over", format!("the agent (pid {pid}) does not hand its flows over"))
            .at(self.pins.dir().display().to_string())
            .why(why)
            .fix(format!("stop that agent (kill {pid}), then start this; meanwhile flows use the fallback"))
    }

    /// Takes the datapath. On an error the agent keeps it.
    pub fn take(&self) -> Result<Got> {
        let successor = self.head.successor();
        if self.word == 0 {
            successor.store(std::process::id(), Ordering::Release); // an earlier version ends
        } else if successor
            .compare_exchange(self.word, self.word | READY, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Err(self.refused("it has withdrawn".to_owned()));
        }
        let agent = self.head.agent();
        let end = Instant::now() + PATIENCE;
        loop {
            let word = agent.load(Ordering::Acquire);
            let is_paused = word & PAUSED != 0;
            if word == 0 {
                self.head.heartbeat(); // the agent is ending for its successor
            }
            if is_paused
                && agent.compare_exchange(word, own_word(), Ordering::AcqRel, Ordering::Acquire).is_ok()
            {
                return Ok(Got { held: None, is_live: true });
            }
            match self.pins.hold() {
                Ok(held) => return Ok(Got { held: Some(held), is_live: word == 0 }),
                Err(e) if e.slug != "load.already_running" => return Err(e),
                Err(_) if Instant::now() > end => {
                    return Err(self.refused(format!("it has not ended within {} s", PATIENCE.as_secs())));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.head.is_known() && self.head.successor_pid() == std::process::id() {
            self.head.successor().store(0, Ordering::Release);
        }
    }
}

/// What an agent does about a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handing {
    /// There is none, or it prepares.
    Serves,
    /// This process id has not taken over: it withdrew, or died.
    Failed(u32),
    /// This process id has the datapath.
    Handed(u32),
    /// This process id is of an earlier version, which gets the datapath when this agent ends.
    Leaves(u32),
}

/// The agent's side.
#[derive(Default)]
pub(crate) struct Handover {
    /// The successor that the agent has frozen for.
    successor: Option<u32>,
}

impl Handover {
    pub fn is_frozen(&self) -> bool {
        self.successor.is_some()
    }

    pub fn frozen(&self) -> Result<()> {
        self.successor.map_or(Ok(()), |pid| {
            Err(Error::new("load.being_handed_over", "the datapath cannot be changed now")
                .why(format!("another agent (pid {pid}) is taking the flows over"))
                .fix(format!("try again; if that agent hangs, end it (kill {pid})")))
        })
    }

    /// Runs between two batches. `heartbeat` keeps the flows from the fallback while the agent is paused.
    pub fn step(&mut self, pins: &Pins, head: &Head, heartbeat: impl Fn()) -> Handing {
        let word = head.successor().load(Ordering::Acquire);
        if word != 0 && word & PREPARES == 0 {
            return Handing::Leaves(word); // of an earlier version
        }
        if word == 0 || !pins.is_opening() {
            return self.resume(head, word);
        }
        let pid = head.successor_pid();
        self.successor = Some(pid);
        head.agent().store(own_word() | FROZEN, Ordering::Release);
        if word & READY == 0 {
            return Handing::Serves;
        }
        let paused = own_word() | PAUSED;
        head.agent().store(paused, Ordering::Release);
        let end = Instant::now() + PAUSE;
        while head.agent().load(Ordering::Acquire) == paused {
            if !pins.is_opening() || Instant::now() > end {
                let back =
                    head.agent().compare_exchange(paused, own_word(), Ordering::AcqRel, Ordering::Acquire);
                if back.is_ok() {
                    return self.resume(head, word);
                }
            }
            heartbeat();
            std::thread::sleep(LOOK);
        }
        Handing::Handed(pid)
    }

    fn resume(&mut self, head: &Head, word: u32) -> Handing {
        let Some(pid) = self.successor.take() else {
            // It died before this agent saw it.
            let _ = head.successor().compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
            return Handing::Serves;
        };
        let _ = head.successor().compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
        head.agent().store(own_word(), Ordering::Release);
        Handing::Failed(pid)
    }
}
