//! Downloads by clients that request one object after the other, like curl from nginx.

use serde::Serialize;

use super::ns;

/// A request of curl: method, path, host, agent, accepted types.
pub(crate) const REQUEST_BYTES: u64 = 85;
/// The header of nginx' response.
const HEADER_BYTES: u64 = 240;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectResult {
    /// Number of the client, from 0.
    pub connection: usize,
    /// Number of the download of that client, from 0.
    pub number: usize,
    pub size_bytes: u64,
    /// When the client started it.
    pub start_us: u64,
    /// When the first byte of the response arrived.
    pub first_byte_us: u64,
    pub end_us: u64,
    pub new_connection: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    Rest,
    Ask,
    Connect,
    /// Nothing for a while.
    Wait,
    /// Finished.
    Nothing,
}

#[derive(Debug, Default)]
struct Client {
    number: usize,
    start_ns: u64,
    first_byte_ns: Option<u64>,
    /// Bytes received on its connection when the object is complete.
    until_bytes: u64,
    new_connection: bool,
    /// The end of a gap.
    due_ns: Option<u64>,
    is_over: bool,
}

#[derive(Debug)]
pub(crate) struct Http {
    /// Of each download [bytes].
    sizes: Vec<u64>,
    gaps_ns: Vec<u64>,
    pub persistent: bool,
    clients: Vec<Client>,
    pub objects: Vec<ObjectResult>,
}

impl Http {
    pub fn new(objects: &[u64], gaps_us: &[u64], repeat: u32, connections: u32, persistent: bool) -> Self {
        let clients = (0..connections).map(|_| Client::default()).collect();
        let gaps_ns = gaps_us.iter().map(|gap_us| ns(*gap_us)).collect();
        Http { sizes: objects.repeat(repeat as usize), gaps_ns, persistent, clients, objects: Vec::new() }
    }

    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// All clients have everything.
    pub fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.is_over)
    }

    /// Size of the response to the client's request.
    pub fn answer_bytes(&self, client: usize) -> u64 {
        HEADER_BYTES + self.sizes[self.clients[client].number]
    }

    /// The client starts a download; `received_bytes` arrived on its connection so far.
    pub fn begin(&mut self, now_ns: u64, client: usize, received_bytes: u64, new_connection: bool) {
        let answer_bytes = self.answer_bytes(client);
        let client = &mut self.clients[client];
        client.start_ns = now_ns;
        client.first_byte_ns = None;
        client.until_bytes = received_bytes + answer_bytes;
        client.new_connection = new_connection;
    }

    /// Total bytes received on the client's connection.
    pub fn received(&mut self, now_ns: u64, client: usize, received_bytes: u64) -> Next {
        let nth = client;
        let client = &mut self.clients[nth];
        let first_byte_ns = *client.first_byte_ns.get_or_insert(now_ns);
        if client.is_over || received_bytes < client.until_bytes {
            return Next::Rest;
        }
        self.objects.push(ObjectResult {
            connection: nth,
            number: client.number,
            size_bytes: self.sizes[client.number],
            start_us: client.start_ns / 1000,
            first_byte_us: first_byte_ns / 1000,
            end_us: now_ns / 1000,
            new_connection: client.new_connection,
        });
        let gap_ns = self.gaps_ns.get(client.number % self.gaps_ns.len().max(1)).copied().unwrap_or(0);
        client.number += 1;
        // Later bytes belong to no object.
        client.until_bytes = u64::MAX;
        if client.number == self.sizes.len() {
            client.is_over = true;
            return Next::Nothing;
        }
        if gap_ns > 0 {
            client.due_ns = Some(now_ns + gap_ns);
            return Next::Wait;
        }
        self.go_on()
    }

    fn go_on(&self) -> Next {
        if self.persistent { Next::Ask } else { Next::Connect }
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.clients.iter().filter_map(|client| client.due_ns).min()
    }

    /// A client whose gap is over.
    pub fn take_due(&mut self, now_ns: u64) -> Option<(usize, Next)> {
        let nth = self.clients.iter().position(|client| client.due_ns.is_some_and(|at| at <= now_ns))?;
        self.clients[nth].due_ns = None;
        Some((nth, self.go_on()))
    }
}
