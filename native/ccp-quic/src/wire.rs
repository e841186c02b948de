//! Messages of portus' wire protocol, between an agent and a datapath.
//!
//! Every message begins with its type (16 bits), its length (16 bits, including this header) and the number of a flow
//! (32 bits), all little-endian; a datagram may contain several. An agent installs programs, assigns them to flows and
//! updates registers; a datapath announces itself, its flows and their reports. A report without fields means that the
//! flow closed. `native/ccp-lang/tests/messages.rs` has the same bytes from portus itself.

use std::net::{IpAddr, SocketAddr};

use ccp_lang::MAX_REGISTERS;

/// Maximum length of a report.
pub const MAX_MEASURE_BYTES: usize = HEADER_BYTES + 8 + 8 * MAX_REGISTERS;

const HEADER_BYTES: usize = 8;
/// Length of an algorithm's name, with a final 0.
const NAME_BYTES: usize = 64;

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

pub type Field = (u8, u32, u64);

#[cfg_attr(feature = "python", pyo3::pyclass(eq, module = "ccplane.base._native"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A flow began. Addresses and ports are in network byte order, as in CCP's kernel module; 0 if IPv6 or
    /// unknown. `algorithm` is the requested one; empty for the agent's default.
    Create {
        flow: u32,
        init_cwnd_bytes: u32,
        mss_bytes: u32,
        src_ip: u32,
        src_port: u32,
        dst_ip: u32,
        dst_port: u32,
        algorithm: String,
    },
    /// A report of a program, or the end of a flow if there are no fields.
    Measure {
        flow: u32,
        program: u32,
        fields: Vec<u64>,
    },
    /// A program for all flows; `ccp_lang::bytecode` encodes and decodes it.
    Install {
        program: u32,
        n_events: u32,
        n_instrs: u32,
        code: Vec<u8>,
    },
    Update {
        flow: u32,
        fields: Vec<Field>,
    },
    /// Another program for a flow, with registers that start with other values.
    ChangeProgram {
        flow: u32,
        program: u32,
        fields: Vec<Field>,
    },
    Ready {
        datapath: u32,
    },
}

#[cfg_attr(feature = "python", pyo3::pymethods)]
impl Message {
    /// Returns the bytes. Panics above 64 KiB, which no program or flow needs.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Message::Create {
                flow,
                init_cwnd_bytes,
                mss_bytes,
                src_ip,
                src_port,
                dst_ip,
                dst_port,
                algorithm,
            } => {
                let mut name = algorithm.as_bytes()[..algorithm.len().min(NAME_BYTES - 1)].to_vec();
                name.resize(NAME_BYTES, 0);
                let words =
                    [init_cwnd_bytes, mss_bytes, src_ip, src_port, dst_ip, dst_port].map(|word| *word);
                framed(CREATE, *flow, &words, &name)
            }
            Message::Measure { flow, program, fields } => {
                let values = fields.iter().flat_map(|field| field.to_le_bytes()).collect::<Vec<_>>();
                framed(MEASURE, *flow, &[*program, fields.len() as u32], &values)
            }
            Message::Install { program, n_events, n_instrs, code } => {
                framed(INSTALL, 0, &[*program, *n_events, *n_instrs], code)
            }
            Message::Update { flow, fields } => {
                framed(UPDATE, *flow, &[fields.len() as u32], &packed(fields))
            }
            Message::ChangeProgram { flow, program, fields } => {
                framed(CHANGE_PROGRAM, *flow, &[*program, fields.len() as u32], &packed(fields))
            }
            Message::Ready { datapath } => framed(READY, 0, &[*datapath], &[]),
        }
    }
}

fn framed(of_type: u16, flow: u32, words: &[u32], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER_BYTES + 4 * words.len() + rest.len()).expect("at most 64 KiB");
    let head = u32::from(of_type) | u32::from(length) << 16;
    let mut raw = Vec::with_capacity(usize::from(length));
    [&[head, flow], words].concat().iter().for_each(|word| raw.extend(word.to_le_bytes()));
    raw.extend(rest);
    raw
}

fn packed(fields: &[Field]) -> Vec<u8> {
    let raw =
        |&(kind, index, value): &Field| [&[kind][..], &index.to_le_bytes(), &value.to_le_bytes()].concat();
    fields.iter().flat_map(raw).collect()
}

/// Returns address and port for a [`Message::Create`].
pub fn end(address: SocketAddr) -> (u32, u32) {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            (u32::from_le_bytes(ip.octets()), u16::from_le_bytes(address.port().to_be_bytes()).into())
        }
        IpAddr::V6(_) => (0, 0),
    }
}

/// Writes a report; returns its bytes, without allocating. Panics if there are more than [`MAX_REGISTERS`]
/// fields, which no program has.
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

/// Decodes the messages of a datagram; `Err` describes the first malformed one, and ends it.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message, String>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length =
            rest.get(2..4).map_or(0, |length| usize::from(u16::from_le_bytes([length[0], length[1]])));
        if length < HEADER_BYTES || length > rest.len() {
            let message = format!("{} bytes are not a message, which would have {length}", rest.len());
            rest = &[];
            return Some(Err(message));
        }
        let (message, others) = rest.split_at(length);
        rest = others;
        let of_type = u16::from_le_bytes([message[0], message[1]]);
        let read = read(of_type, word(message, 4)?, &message[HEADER_BYTES..]);
        if read.is_none() {
            rest = &[];
        }
        Some(read.ok_or_else(|| format!("{length} bytes are not a message of type {of_type}")))
    })
}

fn read(of_type: u16, flow: u32, body: &[u8]) -> Option<Message> {
    let at = |place: usize| word(body, 4 * place);
    Some(match of_type {
        CREATE => {
            let name = body.get(24..).filter(|name| name.len() == NAME_BYTES)?;
            let end = name.iter().position(|byte| *byte == 0)?;
            Message::Create {
                flow,
                init_cwnd_bytes: at(0)?,
                mss_bytes: at(1)?,
                src_ip: at(2)?,
                src_port: at(3)?,
                dst_ip: at(4)?,
                dst_port: at(5)?,
                algorithm: std::str::from_utf8(&name[..end]).ok()?.to_string(),
            }
        }
        MEASURE => {
            let fields = records(body.get(8..)?, at(1)?)?.into_iter().map(u64::from_le_bytes).collect();
            Message::Measure { flow, program: at(0)?, fields }
        }
        INSTALL => Message::Install {
            program: at(0)?,
            n_events: at(1)?,
            n_instrs: at(2)?,
            code: body.get(12..)?.to_vec(),
        },
        UPDATE => Message::Update { flow, fields: unpacked(body.get(4..)?, at(0)?)? },
        CHANGE_PROGRAM => {
            Message::ChangeProgram { flow, program: at(0)?, fields: unpacked(body.get(8..)?, at(1)?)? }
        }
        READY if body.len() == 4 => Message::Ready { datapath: at(0)? },
        _ => return None,
    })
}

fn unpacked(raw: &[u8], n: u32) -> Option<Vec<Field>> {
    let field = |raw: [u8; 13]| {
        let [kind, i, j, k, l, value @ ..] = raw;
        (kind, u32::from_le_bytes([i, j, k, l]), u64::from_le_bytes(value))
    };
    Some(records(raw, n)?.into_iter().map(field).collect())
}

/// Splits bytes into `n` records of N bytes each; `None` if the length differs.
fn records<const N: usize>(raw: &[u8], n: u32) -> Option<Vec<[u8; N]>> {
    let is_whole = raw.len() as u64 == u64::from(n) * N as u64;
    is_whole.then(|| raw.chunks_exact(N).map(|one| one.try_into().expect("N bytes")).collect())
}

fn word(raw: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(raw.get(at..at + 4)?.try_into().expect("four bytes")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    control: [u64; MAX_REGISTERS],
    /// Bit i: `control[i]` is set.
    controls: u64,
    /// [bytes]; 0 leaves the window unchanged.
    pub cwnd_bytes: u64,
    /// [bytes/s]; 0 leaves the rate unchanged.
    pub rate_bytes_per_s: u64,
}

impl Default for Values {
    fn default() -> Self {
        Values { control: [0; MAX_REGISTERS], controls: 0, cwnd_bytes: 0, rate_bytes_per_s: 0 }
    }
}

impl Values {
    /// Decodes registers of a message; `Err` names one that agents cannot set.
    pub fn of(fields: &[Field]) -> Result<Values, String> {
        let mut values = Values::default();
        for &(kind, index, value) in fields {
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

    /// Returns the values by name: the control registers `c0` and so on, and window and rate if not 0.
    pub fn named(&self) -> Vec<(String, u64)> {
        let controls = self.control.iter().enumerate().filter(|(i, _)| self.controls >> i & 1 == 1);
        let own = [("cwnd_bytes", self.cwnd_bytes), ("rate_bytes_per_s", self.rate_bytes_per_s)];
        let own = own.into_iter().filter(|(_, value)| *value != 0);
        controls
            .map(|(i, value)| (format!("c{i}"), *value))
            .chain(own.map(|(name, value)| (name.to_string(), value)))
            .collect()
    }

    /// Whether it sets a control register beyond a program's `n`.
    pub fn exceed(&self, n: usize) -> bool {
        self.controls.checked_shr(n as u32).unwrap_or(0) != 0
    }

    /// Merges a later update into this one.
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

    pub fn write(&self, control: &mut [u64; MAX_REGISTERS]) {
        for (i, value) in control.iter_mut().enumerate() {
            if self.controls >> i & 1 == 1 {
                *value = self.control[i];
            }
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
