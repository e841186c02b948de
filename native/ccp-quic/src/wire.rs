//! Messages of portus' wire protocol, as `ccplane/datapath/wire.py` has them for agents: what a datapath writes, and what it
//! reads.

use std::net::{IpAddr, SocketAddr};

use ccp_lang::MAX_REGISTERS;

/// Octets of a [`Measure`] at most.
pub const MAX_MEASURE_BYTES: usize = HEADER_BYTES + 8 + 8 * MAX_REGISTERS;

const HEADER_BYTES: usize = 8;
const CREATE_BYTES: usize = HEADER_BYTES + 24 + NAME_BYTES;
/// Of the algorithm that a flow asks for; the last one is 0.
const NAME_BYTES: usize = 64;
const FIELD_BYTES: usize = 13;

const CREATE: u16 = 0;
const MEASURE: u16 = 1;
const INSTALL: u16 = 2;
const UPDATE: u16 = 3;
const CHANGE_PROGRAM: u16 = 4;
const READY: u16 = 5;

const CONTROL: [u8; 2] = [0, 8];
const IMPLICIT: u8 = 2;
const CWND: u32 = 4;
const RATE: u32 = 5;

/// Returns the message that says that a datapath is there.
pub fn ready(datapath: u32) -> Vec<u8> {
    let mut octets = Vec::with_capacity(HEADER_BYTES + 4);
    header(&mut octets, READY, HEADER_BYTES + 4, 0);
    octets.extend(datapath.to_le_bytes());
    octets
}

/// What an agent is told of a flow that came.
#[derive(Clone, Debug)]
pub struct Create<'a> {
    pub flow: u32,
    pub cwnd_bytes: u64,
    pub mss_bytes: u32,
    /// Of this host and of the peer, if they are known.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// That the flow asks for; empty for the agent's default.
    pub algorithm: &'a str,
}

impl Create<'_> {
    /// Returns the message. Addresses are in network byte order, as CCP's kernel module sends them; 0 where they are
    /// IPv6 or unknown.
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(CREATE_BYTES);
        header(&mut octets, CREATE, CREATE_BYTES, self.flow);
        octets.extend(u32::try_from(self.cwnd_bytes).unwrap_or(u32::MAX).to_le_bytes());
        octets.extend(self.mss_bytes.to_le_bytes());
        let (local, peer) = self.ends.map_or(([0; 8], [0; 8]), |(local, peer)| (end(local), end(peer)));
        octets.extend(local);
        octets.extend(peer);
        let name = &self.algorithm.as_bytes()[..self.algorithm.len().min(NAME_BYTES - 1)];
        octets.extend(name);
        octets.resize(CREATE_BYTES, 0);
        octets
    }
}

/// An address and its port, 32 bits each.
fn end(address: SocketAddr) -> [u8; 8] {
    let mut octets = [0; 8];
    if let IpAddr::V4(ip) = address.ip() {
        octets[..4].copy_from_slice(&ip.octets());
        octets[4..6].copy_from_slice(&address.port().to_be_bytes());
    }
    octets
}

/// Writes a report, or the end of a flow where there are no `fields`; returns its octets. It allocates nothing: folds
/// report from the path of an ACK.
///
/// Panics:
///     If there are more than [`MAX_REGISTERS`] fields, which no program has.
pub fn measure<'a>(
    buffer: &'a mut [u8; MAX_MEASURE_BYTES],
    flow: u32,
    program: u32,
    fields: &[u64],
) -> &'a [u8] {
    let length = HEADER_BYTES + 8 + 8 * fields.len();
    let words = [u32::from(MEASURE) | (length as u32) << 16, flow, program, fields.len() as u32];
    for (place, word) in buffer.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    for (place, field) in buffer[HEADER_BYTES + 8..length].chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    &buffer[..length]
}

fn header(octets: &mut Vec<u8>, of_type: u16, length: usize, flow: u32) {
    octets.extend(of_type.to_le_bytes());
    octets.extend((length as u16).to_le_bytes());
    octets.extend(flow.to_le_bytes());
}

/// What an agent says.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    Install { program: u32, n_events: u32, n_instrs: u32, octets: &'a [u8] },
    ChangeProgram { flow: u32, program: u32, values: Values },
    Update { flow: u32, values: Values },
}

/// New values of a flow's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    control: [u64; MAX_REGISTERS],
    /// Bit i: `control[i]` is set.
    controls: u64,
    /// [bytes]; 0 leaves the window as it is.
    pub cwnd_bytes: u64,
    /// [bytes/s]; 0 leaves the rate as it is.
    pub rate_bytes_per_s: u64,
}

impl Default for Values {
    fn default() -> Self {
        Values { control: [0; MAX_REGISTERS], controls: 0, cwnd_bytes: 0, rate_bytes_per_s: 0 }
    }
}

impl Values {
    /// Takes over what `later` sets.
    pub fn merge(&mut self, later: &Values) {
        later.write(&mut self.control);
        self.controls |= later.controls;
        for (value, new) in
            [(&mut self.cwnd_bytes, later.cwnd_bytes), (&mut self.rate_bytes_per_s, later.rate_bytes_per_s)]
        {
            if new != 0 {
                *value = new;
            }
        }
    }

    /// Puts new values into a flow's control registers.
    pub fn write(&self, control: &mut [u64; MAX_REGISTERS]) {
        for (i, value) in control.iter_mut().enumerate() {
            if self.controls >> i & 1 == 1 {
                *value = self.control[i];
            }
        }
    }
}

/// Reads the messages of a datagram; `Err` says at the first octets that are none what is wrong with them.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, String>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length =
            rest.get(2..4).map_or(0, |octets| usize::from(u16::from_le_bytes([octets[0], octets[1]])));
        if length < HEADER_BYTES || length > rest.len() {
            let message = format!("{} octets are no message", rest.len());
            rest = &[];
            return Some(Err(message));
        }
        let (message, others) = rest.split_at(length);
        rest = others;
        let read = read(message);
        if read.is_err() {
            rest = &[];
        }
        Some(read)
    })
}

fn read(message: &[u8]) -> Result<Message<'_>, String> {
    let of_type = u16::from_le_bytes([message[0], message[1]]);
    let malformed = || format!("{} octets are no message of type {of_type} from an agent", message.len());
    let flow = word(message, 4).ok_or_else(malformed)?;
    let first = || word(message, 8).ok_or_else(malformed);
    match of_type {
        INSTALL => {
            let (Some(n_events), Some(n_instrs)) = (word(message, 12), word(message, 16)) else {
                return Err(malformed());
            };
            Ok(Message::Install { program: first()?, n_events, n_instrs, octets: &message[20..] })
        }
        UPDATE => Ok(Message::Update { flow, values: values(first()?, &message[12..])? }),
        CHANGE_PROGRAM => {
            let n = word(message, 12).ok_or_else(malformed)?;
            Ok(Message::ChangeProgram { flow, program: first()?, values: values(n, &message[16..])? })
        }
        _ => Err(malformed()),
    }
}

fn values(n: u32, octets: &[u8]) -> Result<Values, String> {
    if octets.len() as u64 != u64::from(n) * FIELD_BYTES as u64 {
        return Err(format!("{} octets are no {n} registers", octets.len()));
    }
    let mut values = Values::default();
    for field in octets.chunks_exact(FIELD_BYTES) {
        let kind = field[0];
        let index = u32::from_le_bytes(field[1..5].try_into().expect("four octets"));
        let value = u64::from_le_bytes(field[5..].try_into().expect("eight octets"));
        match (kind, index) {
            (IMPLICIT, CWND) => values.cwnd_bytes = value,
            (IMPLICIT, RATE) => values.rate_bytes_per_s = value,
            _ if CONTROL.contains(&kind) && (index as usize) < MAX_REGISTERS => {
                values.control[index as usize] = value;
                values.controls |= 1 << index;
            }
            _ => return Err(format!("a register of kind {kind}, number {index}, cannot be set")),
        }
    }
    Ok(values)
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    let octets = octets.get(at..at + 4)?;
    Some(u32::from_le_bytes(octets.try_into().expect("four octets")))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
