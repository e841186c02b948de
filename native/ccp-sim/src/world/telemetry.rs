//! In-band telemetry of the network: sender state for sources, and summaries of sinks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ccp_emu::spec::Spec;
use ccp_emu::{IntRecords, Network, Role, Telemetry, Windows};
use ccp_int::{FlowKey, Summary};
use ccp_ioam::TcpState;

use super::World;
use super::connection::Connection;
use crate::Result;
use crate::packet::{self, SimPacket};

/// State of senders, by the flow of their packets.
type Minds = Arc<Mutex<HashMap<FlowKey, TcpState>>>;

pub(super) struct Inband {
    /// None if sources do not record it.
    minds: Option<Minds>,
    records: IntRecords,
    summaries: Vec<Summary>,
}

impl Inband {
    pub fn new(spec: &Spec, network: &mut Network<SimPacket>) -> Result<Option<Self>> {
        let Some(int) = &spec.int else { return Ok(None) };
        let has_source = int.nodes.iter().any(|node| node.roles.contains(&Role::Source));
        let minds = (has_source && int.source.tcp_state).then(Minds::default);
        let windows = minds.clone().map(|minds| -> Windows {
            Box::new(move |flow| minds.lock().unwrap_or_else(PoisonError::into_inner).get(flow).copied())
        });
        network.set_telemetry(Telemetry::new(spec, int, windows)?);
        Ok(Some(Inband { minds, records: IntRecords::new(int)?, summaries: Vec::new() }))
    }

    /// Telemetry data of a packet sent now by a host.
    pub fn of_packet(&mut self, connection: &Connection, from: usize) -> Box<packet::Inband> {
        let flow = connection.key_from(from);
        let sender = connection.data.sender.as_ref().filter(|_| from == connection.sender);
        if let (Some(minds), Some(sender)) = (&self.minds, sender) {
            let cwnd_bytes = sender.sock.snd_cwnd.saturating_mul(sender.sock.mss_bytes);
            // All bits set: value missing.
            let state = TcpState {
                cwnd_bytes: Some(cwnd_bytes).filter(|bytes| *bytes != u32::MAX),
                mss_bytes: u16::try_from(sender.sock.mss_bytes).ok().filter(|bytes| *bytes != u16::MAX),
                ..TcpState::default()
            };
            minds.lock().unwrap_or_else(PoisonError::into_inner).insert(flow, state);
        }
        Box::new(packet::Inband { flow, extension: None })
    }

    /// Fetches the summaries of sinks.
    pub fn take(&mut self, now_ns: u64, network: &mut Network<SimPacket>) {
        let Some(telemetry) = network.telemetry_mut() else { return };
        if telemetry.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            telemetry.take(now_ns, &mut self.summaries);
            self.records.take(telemetry);
        }
    }

    pub fn has_said(&self) -> bool {
        !self.summaries.is_empty()
    }

    pub fn close(self, network: &mut Network<SimPacket>) -> Result<()> {
        if let Some(telemetry) = network.telemetry_mut() {
            self.records.take(telemetry);
        }
        self.records.close()
    }
}

impl World {
    pub fn take_summaries(&mut self) -> Vec<Summary> {
        self.inband.as_mut().map(|inband| std::mem::take(&mut inband.summaries)).unwrap_or_default()
    }
}
