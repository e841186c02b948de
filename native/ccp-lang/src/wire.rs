//! Messages between agents made with portus and their datapaths, and their octets.
//!
//! Every message begins with its type (16 bits), its length (16 bits, this header included) and the number of a flow (32
//! bits), all little-endian; a datagram may hold several. An agent installs programs, gives them to flows and updates
//! registers; a datapath says that it is ready, and announces flows and their reports. `tests/messages.rs` has the same
//! octets from portus itself.

use crate::MAX_REGISTERS;

/// Octets of a [`measure`] of a program's registers at most.
pub const MAX_MEASURE_BYTES: usize = HEADER_BYTES + 8 + 8 * MAX_REGISTERS;
/// Octets of any message at most: its length has 16 bits.
pub const MAX_MESSAGE_BYTES: usize = u16::MAX as usize;

const HEADER_BYTES: usize = 8;
/// Of the algorithm that a flow asks for; the last one is 0.
const NAME_BYTES: usize = 64;
const FIELD_BYTES: usize = 13;

/// Kinds of registers that are control registers: those that stay, and the volatile ones.
const CONTROL: [u8; 2] = [0, 8];
/// The kind of registers that every program has.
pub const IMPLICIT: u8 = 2;
/// Number of the implicit register with the window [bytes].
pub const CWND: u32 = 4;
/// Number of the implicit register with the rate [bytes/s].
pub const RATE: u32 = 5;

/// A message; its type on the wire is its place here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A flow came.
    Create(Create),
    /// A report, or the end of a flow if it has no fields.
    Measure { flow: u32, program: u32, fields: Vec<u64> },
    /// A program for all flows; `bytecode` has the octets of its events and instructions.
    Install { program: u32, n_events: u32, n_instrs: u32, octets: Vec<u8> },
    /// New values of registers of a flow.
    Update { flow: u32, fields: Vec<Field> },
    /// A flow gets another program; `fields` are registers that begin otherwise than it says.
    ChangeProgram { flow: u32, program: u32, fields: Vec<Field> },
    /// A datapath is there.
    Ready { datapath: u32 },
}

/// A flow that came. Addresses and ports are numbers as the datapath has them; 0 if unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    pub flow: u32,
    pub init_cwnd_bytes: u32,
    pub mss_bytes: u32,
    /// Address and port of this host, and of the peer.
    pub ends: [u32; 4],
    /// That the flow asks for, at most 63 octets; empty for the agent's default.
    pub algorithm: String,
}

/// A register and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub kind: u8,
    pub index: u32,
    pub value: u64,
}

/// What agents may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    /// A control register by its number.
    Control(u32),
    /// The window [bytes]; 0 leaves it as it is.
    Cwnd,
    /// The rate [bytes/s]; 0 leaves it as it is.
    Rate,
}

impl Field {
    /// Returns which of the settable registers it is, or what is wrong with it.
    pub fn settable(&self) -> Result<Settable, String> {
        match (self.kind, self.index) {
            (IMPLICIT, CWND) => Ok(Settable::Cwnd),
            (IMPLICIT, RATE) => Ok(Settable::Rate),
            (kind, index) if CONTROL.contains(&kind) => Ok(Settable::Control(index)),
            (kind, index) => Err(format!("a register of kind {kind}, number {index}, cannot be set")),
        }
    }
}

impl Message {
    /// Returns the octets, or how many there would be if that is too many.
    pub fn octets(&self) -> Result<Vec<u8>, usize> {
        let (of_type, flow, words) = match self {
            Message::Create(Create { flow, init_cwnd_bytes, mss_bytes, ends: [a, b, c, d], .. }) => {
                (0, *flow, vec![*init_cwnd_bytes, *mss_bytes, *a, *b, *c, *d])
            }
            Message::Measure { flow, program, fields } => (1, *flow, vec![*program, fields.len() as u32]),
            Message::Install { program, n_events, n_instrs, .. } => {
                (2, 0, vec![*program, *n_events, *n_instrs])
            }
            Message::Update { flow, fields } => (3, *flow, vec![fields.len() as u32]),
            Message::ChangeProgram { flow, program, fields } => {
                (4, *flow, vec![*program, fields.len() as u32])
            }
            Message::Ready { datapath } => (5, 0, vec![*datapath]),
        };
        let mut octets: Vec<u8> =
            [of_type, flow].into_iter().chain(words).flat_map(u32::to_le_bytes).collect();
        match self {
            Message::Create(Create { algorithm, .. }) => {
                let end = octets.len() + NAME_BYTES;
                octets.extend(&algorithm.as_bytes()[..algorithm.len().min(NAME_BYTES - 1)]);
                octets.resize(end, 0);
            }
            Message::Measure { fields, .. } => octets.extend(fields.iter().flat_map(|one| one.to_le_bytes())),
            Message::Install { octets: code, .. } => octets.extend(code),
            Message::Update { fields, .. } | Message::ChangeProgram { fields, .. } => {
                for Field { kind, index, value } in fields {
                    octets.push(*kind);
                    octets.extend(index.to_le_bytes());
                    octets.extend(value.to_le_bytes());
                }
            }
            Message::Ready { .. } => {}
        }
        let length = u16::try_from(octets.len()).map_err(|_| octets.len())?;
        octets[2..4].copy_from_slice(&length.to_le_bytes());
        Ok(octets)
    }
}

/// Writes a [`Message::Measure`]; returns its octets. It allocates nothing: folds report from the path of an ACK.
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
    let words = [1 | (length as u32) << 16, flow, program, fields.len() as u32];
    for (place, word) in buffer.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    for (place, field) in buffer[HEADER_BYTES + 8..length].chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    &buffer[..length]
}

/// Reads the first message of a datagram that is not empty; returns it and what follows it, or what is wrong.
pub fn read(datagram: &[u8]) -> Result<(Message, &[u8]), String> {
    let (Some(first), Some(flow)) = (word(datagram, 0), word(datagram, 4)) else {
        return Err(format!("{} octets are no header", datagram.len()));
    };
    let (of_type, length) = (first & 0xffff, (first >> 16) as usize);
    if length < HEADER_BYTES || length > datagram.len() {
        return Err(format!("a message claims to have {length} octets, of {} that came", datagram.len()));
    }
    let (message, rest) = datagram.split_at(length);
    let read = body(of_type, flow, &message[HEADER_BYTES..]);
    read.map(|read| (read, rest)).ok_or_else(|| format!("{length} octets are no message of type {of_type}"))
}

/// Reads all messages of a datagram, up to the first octets that are none.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Result<Message, String>> {
    std::iter::from_fn(move || {
        (!datagram.is_empty()).then(|| {
            let (message, rest) = read(datagram).inspect_err(|_| datagram = &[])?;
            datagram = rest;
            Ok(message)
        })
    })
}

fn body(of_type: u32, flow: u32, body: &[u8]) -> Option<Message> {
    let at = |i: usize| word(body, 4 * i);
    Some(match of_type {
        0 => {
            let name = body.get(24..).filter(|name| name.len() == NAME_BYTES)?;
            let end = name.iter().position(|octet| *octet == 0)?;
            Message::Create(Create {
                flow,
                init_cwnd_bytes: at(0)?,
                mss_bytes: at(1)?,
                ends: [at(2)?, at(3)?, at(4)?, at(5)?],
                algorithm: String::from_utf8(name[..end].to_vec()).ok()?,
            })
        }
        1 => Message::Measure { flow, program: at(0)?, fields: numbers(at(1)?, body.get(8..)?)? },
        2 => {
            let octets = body.get(12..)?.to_vec();
            Message::Install { program: at(0)?, n_events: at(1)?, n_instrs: at(2)?, octets }
        }
        3 => Message::Update { flow, fields: fields(at(0)?, body.get(4..)?)? },
        4 => Message::ChangeProgram { flow, program: at(0)?, fields: fields(at(1)?, body.get(8..)?)? },
        5 if body.len() == 4 => Message::Ready { datapath: at(0)? },
        _ => return None,
    })
}

fn numbers(n: u32, octets: &[u8]) -> Option<Vec<u64>> {
    let is_whole = octets.len() as u64 == 8 * u64::from(n);
    is_whole.then(|| octets.chunks_exact(8).map(long).collect())
}

fn fields(n: u32, octets: &[u8]) -> Option<Vec<Field>> {
    let is_whole = octets.len() as u64 == FIELD_BYTES as u64 * u64::from(n);
    let field = |one: &[u8]| Some(Field { kind: one[0], index: word(one, 1)?, value: long(&one[5..]) });
    is_whole.then(|| octets.chunks_exact(FIELD_BYTES).map(field).collect())?
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(octets.get(at..at + 4)?.try_into().expect("four octets")))
}

fn long(octets: &[u8]) -> u64 {
    u64::from_le_bytes(octets.try_into().expect("eight octets"))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
