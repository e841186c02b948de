//! Writes summaries as lines for a reader that may be slow: lines that do not fit are dropped and counted.

use std::io::{ErrorKind, Write};

use crate::Summary;

/// Lines of JSON for a non-blocking pipe, socket or file.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    line: Vec<u8>,
    rest: Vec<u8>,
    dropped: u64,
}

impl<W: Write> Lines<W> {
    pub fn new(out: W) -> Self {
        Lines { out, line: Vec::new(), rest: Vec::new(), dropped: 0 }
    }

    pub fn write(&mut self, summary: &Summary) {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut line, summary);
        line.push(b'\n');
        self.write_line(&line);
        self.line = line;
    }

    fn write_line(&mut self, line: &[u8]) {
        self.flush();
        let written = if self.rest.is_empty() { written(&mut self.out, line) } else { 0 };
        if written == 0 {
            self.dropped += 1;
        } else {
            self.rest.extend_from_slice(&line[written..]);
        }
    }

    /// Writes the rest, as far as possible.
    pub fn flush(&mut self) {
        if !self.rest.is_empty() {
            let written = written(&mut self.out, &self.rest);
            self.rest.drain(..written);
        }
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn written(out: &mut impl Write, bytes: &[u8]) -> usize {
    loop {
        match out.write(bytes) {
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            // Full, or the reader has closed.
            Err(_) => return 0,
            Ok(written) => return written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::io::ioctl_fionbio;

    fn pipe() -> (File, File) {
        let (reader, writer) = std::io::pipe().unwrap();
        for end in [reader.as_fd(), writer.as_fd()] {
            ioctl_fionbio(end, true).unwrap();
        }
        (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)))
    }

    #[test]
    fn a_full_pipe_drops_whole_lines_and_goes_on_once_it_is_read() {
        let (mut reader, writer) = pipe();
        let mut lines = Lines::new(writer);
        // Too long for an atomic write: one is cut.
        let line = |number: u8| [vec![b'0' + number; 5000], vec![b'\n']].concat();
        (0..20).for_each(|number| lines.write_line(&line(number)));
        let dropped = lines.dropped();
        assert!(!lines.rest.is_empty() && (1..20).contains(&dropped));
        let mut text = vec![0; 20 * 5001];
        let mut read_bytes = reader.read(&mut text).unwrap();
        lines.write_line(b"last\n");
        assert_eq!((lines.rest.len(), lines.dropped()), (0, dropped));
        drop(lines);
        while let Ok(n @ 1..) = reader.read(&mut text[read_bytes..]) {
            read_bytes += n;
        }
        let whole = 20 - dropped as u8;
        let expected: Vec<u8> = (0..whole).flat_map(line).chain(*b"last\n").collect();
        assert_eq!(text[..read_bytes], expected);
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error() {
        let (reader, writer) = pipe();
        let mut lines = Lines::new(writer);
        drop(reader);
        lines.write_line(b"nobody\n");
        assert_eq!(lines.dropped(), 1);
    }
}
