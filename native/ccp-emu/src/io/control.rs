//! The control channel: requests and answers as lines of JSON over a Unix socket.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::spec::Direction;

/// Maximum length of a line: routes of a large network.
const MAX_LINE_BYTES: usize = 64 << 20;
const READ_BYTES: usize = 65_536;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Replaces the parameters of a link direction.
    SetLink {
        id: Value,
        link: String,
        direction: Box<Direction>,
    },
    SetRoutes {
        id: Value,
        routes: Vec<Vec<i64>>,
    },
    Stats {
        id: Value,
    },
    Stop {
        id: Value,
    },
}

impl Request {
    pub fn id(&self) -> Value {
        match self {
            Request::SetLink { id, .. }
            | Request::SetRoutes { id, .. }
            | Request::Stats { id }
            | Request::Stop { id } => id.clone(),
        }
    }
}

#[derive(Debug)]
pub struct Control<'a> {
    fd: BorrowedFd<'a>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    ended: bool,
}

impl<'a> Control<'a> {
    pub fn new(fd: BorrowedFd<'a>) -> Self {
        Control { fd, incoming: Vec::new(), outgoing: Vec::new(), ended: false }
    }

    pub fn fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether an answer waits for the peer to read.
    pub fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns received requests; malformed ones have been answered.
    pub fn requests(&mut self) -> Vec<Request> {
        self.receive();
        let mut requests = Vec::new();
        while let Some(end) = self.incoming.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.incoming.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(request) => requests.push(request),
                Err(e) => {
                    let read: Option<Value> = serde_json::from_slice(&line).ok();
                    let id = read.and_then(|v| v.get("id").cloned()).unwrap_or(Value::Null);
                    self.send(&json!({ "id": id, "error": format!("cannot parse the request: {e}") }));
                }
            }
        }
        requests
    }

    fn receive(&mut self) {
        let mut bytes = [0; READ_BYTES];
        loop {
            match recv(self.fd, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((_, n)) if n > 0 && self.incoming.len() < MAX_LINE_BYTES => {
                    self.incoming.extend_from_slice(&bytes[..n]);
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return,
                Ok(_) | Err(_) => {
                    self.ended = true;
                    return;
                }
            }
        }
    }

    /// Sends an answer, now or as soon as the peer reads.
    pub fn send(&mut self, answer: &Value) {
        self.outgoing.extend_from_slice(answer.to_string().as_bytes());
        self.outgoing.push(b'\n');
        self.flush();
    }

    pub fn flush(&mut self) {
        while !self.outgoing.is_empty() {
            match send(self.fd, &self.outgoing, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => {
                    self.outgoing.drain(..n);
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.ended = true;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn line(stream: &UnixStream) -> Value {
        let mut text = String::new();
        BufReader::new(stream).read_line(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn requests_are_read_also_in_pieces() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let mut control = Control::new(own.as_fd());
        other.write_all(b"{\"id\": 1, \"do\": \"stats\"}\n{\"id\": 2, ").unwrap();
        assert_eq!(control.requests(), [Request::Stats { id: json!(1) }]);
        assert_eq!(control.requests(), []);
        other
            .write_all(b"\"do\": \"set_link\", \"link\": \"l>\", \"direction\": {\"delay_us\": 5}}\n")
            .unwrap();
        let direction = Box::new(Direction { delay_us: 5, ..Direction::default() });
        assert_eq!(control.requests(), [Request::SetLink { id: json!(2), link: "l>".into(), direction }]);
        assert!(!control.has_ended());
        drop(other);
        assert_eq!(control.requests(), []);
        assert!(control.has_ended());
    }

    #[test]
    fn what_is_no_request_is_answered_with_what_is_wrong() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let mut control = Control::new(own.as_fd());
        for (request, id, wrong) in [
            ("{\"id\": 3, \"do\": \"dance\"}", json!(3), "unknown variant `dance`"),
            ("{\"id\": 4, \"do\": \"stats\", \"now\": true}", json!(4), "unknown field `now`"),
            ("{\"do\": \"stop\"}", Value::Null, "missing field `id`"),
            ("rubbish", Value::Null, "expected value"),
        ] {
            writeln!(other, "{request}").unwrap();
            assert_eq!(control.requests(), []);
            let answer = line(&other);
            assert_eq!(answer["id"], id);
            assert!(answer["error"].as_str().unwrap().contains(wrong), "{answer}");
        }
    }

    #[test]
    fn answers_wait_for_a_reader_that_is_slow() {
        let (own, other) = UnixStream::pair().unwrap();
        let mut control = Control::new(own.as_fd());
        let long = "x".repeat(1 << 20);
        control.send(&json!({ "id": 1, "ok": long }));
        assert!(control.has_unsent());
        let reader = std::thread::spawn(move || line(&other));
        while control.has_unsent() {
            control.flush();
        }
        assert_eq!(reader.join().unwrap()["ok"].as_str().unwrap().len(), 1 << 20);
    }
}
