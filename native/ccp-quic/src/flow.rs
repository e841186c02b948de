//! What a link and a flow's controller share: letters one way, the window of the moment the other.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ccp_lang::Program;
use ccp_lang::wire::{Create, Message};

use crate::values::Values;

/// A program under the number that an agent gave it.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub number: u32,
    pub program: Arc<Program>,
}

/// What an agent wants of a flow, and has not got yet.
#[derive(Debug, Default)]
pub struct Letter {
    /// The agent that wrote it, as [`crate::Link`] counts them.
    pub agent: u64,
    /// Another program, which starts anew.
    pub program: Option<Numbered>,
    pub values: Values,
}

/// One flow, for its link.
#[derive(Debug)]
pub struct Flow {
    pub number: u32,
    ends: Option<(SocketAddr, SocketAddr)>,
    algorithm: String,
    window_bytes: AtomicU64,
    mss_bytes: AtomicU32,
    is_steered: AtomicBool,
    letter: Mutex<Letter>,
    has_letter: AtomicBool,
}

impl Flow {
    pub fn new(number: u32, ends: Option<(SocketAddr, SocketAddr)>, algorithm: &str) -> Self {
        Flow {
            number,
            ends,
            algorithm: algorithm.to_string(),
            window_bytes: AtomicU64::new(0),
            mss_bytes: AtomicU32::new(0),
            is_steered: AtomicBool::new(false),
            letter: Mutex::default(),
            has_letter: AtomicBool::new(false),
        }
    }

    /// Keeps what an agent is told that takes over, and who has the flow.
    pub fn note(&self, window_bytes: u64, mss_bytes: u16, is_steered: bool) {
        self.is_steered.store(is_steered, Ordering::Relaxed);
        self.window_bytes.store(window_bytes, Ordering::Relaxed);
        self.mss_bytes.store(u32::from(mss_bytes), Ordering::Relaxed);
    }

    /// Whether a program of an agent has the flow.
    pub fn is_steered(&self) -> bool {
        self.is_steered.load(Ordering::Relaxed)
    }

    /// Returns the message that announces the flow, as it is now. Addresses are in network byte order, as CCP's kernel
    /// module sends them; 0 where they are IPv6 or unknown.
    pub fn create(&self) -> Message {
        let [local, peer] = self.ends.map_or([[0; 2]; 2], |(local, peer)| [end(local), end(peer)]);
        Message::Create(Create {
            flow: self.number,
            init_cwnd_bytes: u32::try_from(self.window_bytes.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
            mss_bytes: self.mss_bytes.load(Ordering::Relaxed),
            ends: [local[0], local[1], peer[0], peer[1]],
            algorithm: self.algorithm.clone(),
        })
    }

    /// Puts in what `agent` wants. A program makes void what the letter before said; another agent, too.
    pub fn write(&self, agent: u64, program: Option<Numbered>, values: &Values) {
        let mut letter = self.letter.lock().unwrap_or_else(PoisonError::into_inner);
        if program.is_some() || letter.agent != agent {
            *letter = Letter { agent, program, values: *values };
        } else {
            letter.values.merge(values);
        }
        self.has_letter.store(true, Ordering::Release);
    }

    /// Takes the letter out, if there is one: no lock where there is none.
    pub fn take(&self) -> Option<Letter> {
        if !self.has_letter.load(Ordering::Acquire) {
            return None;
        }
        let mut letter = self.letter.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_letter.store(false, Ordering::Release);
        let empty = Letter { agent: letter.agent, ..Letter::default() };
        Some(std::mem::replace(&mut letter, empty))
    }
}

/// An address and its port, in network byte order.
fn end(address: SocketAddr) -> [u32; 2] {
    match address.ip() {
        IpAddr::V4(ip) => [u32::from_ne_bytes(ip.octets()), u32::from(address.port().to_be())],
        IpAddr::V6(_) => [0; 2],
    }
}
