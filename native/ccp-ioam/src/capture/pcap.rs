//! pcap files (draft-ietf-opsawg-pcap), with times in microseconds or nanoseconds.

use super::input::{Input, MAX_BYTES, Order, Outcome};
use super::{Frame, Next};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetsov's tcpdump: microseconds, and eight bytes more in the header of each packet.
const MODIFIED: u32 = 0xa1b2_cd34;

pub struct Reader {
    order: Order,
    ns_per_tick: u64,
    header_bytes: u64,
    minor_version: u16,
    link: u16,
    buffer: Vec<u8>,
}

impl Reader {
    /// Reads the header of a file after its first four bytes.
    pub fn open(magic: &[u8], input: &mut Input) -> Outcome<Self> {
        let known = [MICROSECONDS, NANOSECONDS, MODIFIED];
        let is_known = |order: &Order| order.u32(magic, 0).is_some_and(|magic| known.contains(&magic));
        let Some(order) = [Order::Big, Order::Little].into_iter().find(is_known) else {
            return Err(described(magic));
        };
        let mut buffer = Vec::new();
        input.read_all(20, &mut buffer)?;
        let field = |at| order.u16(&buffer, at).unwrap_or_default();
        if field(0) != 2 {
            return Err(format!("version {}.{} of pcap is not supported", field(0), field(2)));
        }
        let magic = order.u32(magic, 0);
        Ok(Reader {
            order,
            ns_per_tick: if magic == Some(NANOSECONDS) { 1 } else { 1000 },
            header_bytes: if magic == Some(MODIFIED) { 24 } else { 16 },
            minor_version: field(2),
            // The upper half tells whether frames end with a checksum.
            link: order.u32(&buffer, 16).unwrap_or_default() as u16,
            buffer,
        })
    }

    pub fn next(&mut self, input: &mut Input) -> Outcome<Next> {
        if !input.read_next(self.header_bytes, &mut self.buffer)? {
            return Ok(Next::End);
        }
        let field = |at| self.order.u32(&self.buffer, at).unwrap_or_default();
        let (mut captured, mut bytes) = (field(8), field(12));
        // Before version 2.3 the lengths had the other order, and some writers of 2.3 still used it.
        if self.minor_version < 3 || self.minor_version == 3 && captured > bytes {
            (captured, bytes) = (bytes, captured);
        }
        let time_ns = u64::from(field(0)) * 1_000_000_000 + u64::from(field(4)) * self.ns_per_tick;
        if u64::from(captured) > MAX_BYTES {
            return Err(format!("a packet of {captured} bytes: a length before it is wrong"));
        }
        let mut data = Vec::new();
        input.read_all(u64::from(captured), &mut data)?;
        Ok(Next::Frame(Frame { time_ns: Some(time_ns), bytes, link: self.link, data }))
    }
}

/// Why a file with these first bytes is no capture.
fn described(magic: &[u8]) -> String {
    let tool = match magic {
        [] => return "the file is empty".to_owned(),
        [0x1f, 0x8b, ..] => "zcat",
        [0x28, 0xb5, 0x2f, 0xfd] => "zstdcat",
        [0x04, 0x22, 0x4d, 0x18] => "lz4cat",
        [0xfd, b'7', b'z', b'X'] => "xzcat",
        [b'B', b'Z', b'h', ..] => "bzcat",
        _ => return "the first bytes are not those of pcap or pcapng".to_owned(),
    };
    format!("the file is compressed; `{tool} FILE | ccp telemetry decode -` reads it")
}
