//! State shared by a link and a flow's controller: updates one way, the present window the other.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ccp_lang::Program;

use crate::wire::{Field, Message, Values, end};

/// A program with the agent's number for it.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub number: u32,
    pub program: Arc<Program>,
}

/// An agent's pending update of a flow.
#[derive(Debug, Default)]
pub struct Update {
    /// The agent that wrote it, as [`crate::Link`] counts them.
    pub agent: u64,
    /// Another program, which restarts.
    pub program: Option<Numbered>,
    pub values: Values,
}

#[derive(Debug)]
pub struct Flow {
    pub number: u32,
    ends: Option<(SocketAddr, SocketAddr)>,
    algorithm: String,
    window_bytes: AtomicU64,
    mss_bytes: AtomicU32,
    /// Number of control registers of its last program.
    n_controls: AtomicUsize,
    is_steered: AtomicBool,
    update: Mutex<Update>,
    has_update: AtomicBool,
}

impl Flow {
    pub fn new(number: u32, ends: Option<(SocketAddr, SocketAddr)>, algorithm: &str) -> Self {
        Flow {
            number,
            ends,
            algorithm: algorithm.to_string(),
            window_bytes: AtomicU64::new(0),
            mss_bytes: AtomicU32::new(0),
            n_controls: AtomicUsize::new(0),
            is_steered: AtomicBool::new(false),
            update: Mutex::default(),
            has_update: AtomicBool::new(false),
        }
    }

    /// Records the state for new agents, and whether a program controls the flow.
    pub fn note(&self, window_bytes: u64, mss_bytes: u16, is_steered: bool) {
        self.is_steered.store(is_steered, Ordering::Relaxed);
        self.window_bytes.store(window_bytes, Ordering::Relaxed);
        self.mss_bytes.store(u32::from(mss_bytes), Ordering::Relaxed);
    }

    /// Whether an agent's program controls the flow.
    pub fn is_steered(&self) -> bool {
        self.is_steered.load(Ordering::Relaxed)
    }

    /// Returns the message that announces the flow in its present state.
    pub fn create(&self) -> Vec<u8> {
        let ((src_ip, src_port), (dst_ip, dst_port)) =
            self.ends.map_or(((0, 0), (0, 0)), |(local, peer)| (end(local), end(peer)));
        let create = Message::Create {
            flow: self.number,
            init_cwnd_bytes: u32::try_from(self.window_bytes.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
            mss_bytes: self.mss_bytes.load(Ordering::Relaxed),
            src_ip,
            src_port,
            dst_ip,
            dst_port,
            algorithm: self.algorithm.clone(),
        };
        create.to_bytes()
    }

    /// Adds an update of `agent`. A program replaces the previous update, as does another agent. `Err` names
    /// what cannot be set; nothing is set then.
    pub fn write(&self, agent: u64, program: Option<Numbered>, fields: &[Field]) -> Result<(), String> {
        let values = Values::of(fields)?;
        let n_controls = program
            .as_ref()
            .map_or(self.n_controls.load(Ordering::Relaxed), |program| program.program.controls.len());
        if values.exceed(n_controls) {
            return Err(format!("flow {}: register beyond the {n_controls} of its program", self.number));
        }
        self.n_controls.store(n_controls, Ordering::Relaxed);
        let mut update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        if program.is_some() || update.agent != agent {
            *update = Update { agent, program, values };
        } else {
            update.values.merge(&values);
        }
        self.has_update.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes the update, if there is one; needs no lock if there is none.
    pub fn take(&self) -> Option<Update> {
        if !self.has_update.load(Ordering::Acquire) {
            return None;
        }
        let mut update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_update.store(false, Ordering::Release);
        let empty = Update { agent: update.agent, ..Update::default() };
        Some(std::mem::replace(&mut update, empty))
    }
}
