//! The bytes of a capture, from a file or a pipe.

use std::io::{self, BufRead, BufReader, Read};

/// Longest packet or block that is kept in memory.
pub const MAX_BYTES: u64 = 128 << 20;

/// Reason why reading cannot continue.
pub type Outcome<T> = Result<T, String>;

pub struct Input(BufReader<Box<dyn Read + Send>>);

impl Input {
    pub fn new(source: Box<dyn Read + Send>) -> Self {
        Input(BufReader::with_capacity(1 << 16, source))
    }

    /// Whether the next read may wait for a pipe.
    pub fn may_wait(&self) -> bool {
        self.0.buffer().is_empty()
    }

    /// Waits for bytes or the end. Errors: `Interrupted` if a signal arrived.
    pub fn wait(&mut self) -> io::Result<()> {
        self.0.fill_buf().map(drop)
    }

    /// Replaces the buffer's content by up to `bytes` bytes: fewer only at the end.
    pub fn read(&mut self, bytes: u64, into: &mut Vec<u8>) -> Outcome<()> {
        into.clear();
        self.0.by_ref().take(bytes).read_to_end(into).map(drop).map_err(|e| e.to_string())
    }

    pub fn read_all(&mut self, bytes: u64, into: &mut Vec<u8>) -> Outcome<()> {
        self.read(bytes, into)?;
        if into.len() as u64 == bytes { Ok(()) } else { Err(ends_early()) }
    }

    /// Reads the start of what follows; false at the end of the file.
    pub fn read_next(&mut self, bytes: u64, into: &mut Vec<u8>) -> Outcome<bool> {
        self.read(bytes, into)?;
        if into.is_empty() || into.len() as u64 == bytes { Ok(!into.is_empty()) } else { Err(ends_early()) }
    }

    pub fn skip(&mut self, bytes: u64) -> Outcome<()> {
        match io::copy(&mut self.0.by_ref().take(bytes), &mut io::sink()) {
            Ok(skipped) if skipped == bytes => Ok(()),
            Ok(_) => Err(ends_early()),
            Err(e) => Err(e.to_string()),
        }
    }
}

fn ends_early() -> String {
    "the file ends in the middle of a packet, or a length in it is wrong".to_owned()
}

/// Numbers in the byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Big,
    Little,
}

impl Order {
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub fn i64(self, bytes: &[u8], at: usize) -> Option<i64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) })
    }
}
