//! Lines for somebody who may read slowly: what does not fit is dropped whole, and counted.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, write};

use super::set_nonblocking;
use crate::{Error, Result};

/// A pipe, socket or file.
#[derive(Debug)]
pub struct Lines<'a> {
    fd: BorrowedFd<'a>,
    /// The rest of a line of which a part has been written.
    rest: Vec<u8>,
    dropped: u64,
}

impl<'a> Lines<'a> {
    /// Takes it over: writes do not wait any more.
    ///
    /// # Errors
    ///
    /// `emulator.cannot_write`.
    pub fn new(fd: BorrowedFd<'a>) -> Result<Self> {
        set_nonblocking(fd).map_err(|e| {
            Error::new("emulator.cannot_write", "summaries cannot be written").at("int.summaries_fd").why(e)
        })?;
        Ok(Lines { fd, rest: Vec::new(), dropped: 0 })
    }

    /// Writes a line, which ends with its line feed.
    pub fn write(&mut self, line: &[u8]) {
        self.flush();
        let written = if self.rest.is_empty() { self.written(line) } else { 0 };
        if written == 0 {
            self.dropped += 1;
        } else {
            self.rest.extend_from_slice(&line[written..]);
        }
    }

    /// Writes what is left, as far as it goes.
    pub fn flush(&mut self) {
        if !self.rest.is_empty() {
            let written = self.written(&self.rest);
            self.rest.drain(..written);
        }
    }

    /// Lines that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn written(&self, bytes: &[u8]) -> usize {
        loop {
            match write(self.fd, bytes) {
                Err(Errno::INTR) => (),
                // Full, or nobody reads any more.
                Err(_) => return 0,
                Ok(written) => return written,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn a_full_pipe_drops_whole_lines_and_goes_on_once_it_is_read() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut lines = Lines::new(writer.as_fd()).unwrap();
        // Longer than what pipes take whole or not at all: one is cut.
        let line = |number: u8| [vec![b'0' + number; 5000], vec![b'\n']].concat();
        (0..20).for_each(|number| lines.write(&line(number)));
        let dropped = lines.dropped();
        assert!(!lines.rest.is_empty() && (1..20).contains(&dropped));
        let mut text = vec![0; 20 * 5001];
        let mut read_bytes = reader.read(&mut text).unwrap();
        lines.write(b"last\n");
        assert_eq!((lines.rest.len(), lines.dropped()), (0, dropped));
        drop(writer);
        while let Ok(n @ 1..) = reader.read(&mut text[read_bytes..]) {
            read_bytes += n;
        }
        let whole = 20 - dropped as u8;
        let expected: Vec<u8> = (0..whole).flat_map(line).chain(*b"last\n").collect();
        assert_eq!(text[..read_bytes], expected);
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut lines = Lines::new(writer.as_fd()).unwrap();
        drop(reader);
        lines.write(b"nobody\n");
        assert_eq!(lines.dropped(), 1);
    }
}
