//! The socket to an agent: connected, used, and reconnected after the agent has ended.
//!
//! An agent binds a named datagram socket and answers to the sender's name. The datapath's socket is connected, so it
//! receives no other datagrams, and detects the agent's end.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use ccp_lang::bytecode::{Bytecode, decode};
use socket2::SockRef;

use crate::flow::{Flow, Numbered};
use crate::place::checked;
use crate::wire::{self, Message};

/// Interval between checks for the agent.
const LOOK: Duration = Duration::from_millis(500);
/// Time after which an agent that reads no messages counts as gone, until it reads again.
const PATIENCE: Duration = Duration::from_secs(2);
const MAX_DATAGRAM_BYTES: usize = 1 << 16;
/// An agent's first program: it invalidates all earlier ones.
const FIRST_PROGRAM: u32 = 1;

pub enum Event<'a> {
    /// An agent has appeared; `flows` flows are announced to it.
    Came { flows: usize },
    /// The agent has gone.
    Gone { flows: usize, why: &'a str },
    /// The agent's message was rejected.
    Refused { why: &'a str },
    /// A datagram from the agent.
    Datagram(&'a [u8]),
}

/// Receives events on any thread; must not call the link. Returns true if the datagram was handled.
type Listener = Box<dyn Fn(&Path, &Event<'_>) -> bool + Send + Sync>;

/// A link to one agent, for all flows of a process. It ends with its last flow and its last owner.
pub struct Link {
    listener: Listener,
    agent: PathBuf,
    own: PathBuf,
    socket: UnixDatagram,
    /// The present agent, counted from 1; 0: none.
    there: AtomicU64,
    /// Time since which the agent has had no room [us after `began`]; 0 while it has.
    full_since_us: AtomicU64,
    began: Instant,
    next_flow: AtomicU32,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    flows: HashMap<u32, Arc<Flow>>,
    programs: HashMap<u32, Arc<ccp_lang::Program>>,
    /// Messages for which the agent had no room.
    waiting: VecDeque<Vec<u8>>,
    peer: Option<Peer>,
    n_agents: u64,
    is_closed: bool,
}

/// The socket at a name: device, inode, and time [s, ns], because inode numbers are reused.
type Peer = (u64, u64, i64, i64);

/// Outcome of sending.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    Yes,
    /// The agent has no room at present.
    Busy,
    /// There is no agent.
    Gone,
}

impl Link {
    /// Starts looking for the agent with its socket at `agent`. The datapath's socket is in the same directory, which
    /// is created if missing. Events go to `tracing`. Errors: the system's, if the socket cannot be created.
    pub fn open(agent: &Path) -> io::Result<Arc<Link>> {
        Link::with(agent, Link::alongside(agent, "quic"), Box::new(trace))
    }

    /// Returns a name for a socket next to the agent's, unique in this process.
    pub fn alongside(agent: &Path, name: &str) -> PathBuf {
        static LINKS: AtomicU32 = AtomicU32::new(0);
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        agent.with_file_name(format!("{name}-{}-{number}", std::process::id()))
    }

    /// Like [`Link::open`], with a socket named `own`, and events for a listener. Error: also if another user could
    /// replace the socket.
    pub fn with(agent: &Path, own: PathBuf, listener: Listener) -> io::Result<Arc<Link>> {
        std::fs::create_dir_all(own.parent().unwrap_or(Path::new(".")))?;
        let own = checked(&own)?;
        match std::fs::remove_file(&own) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(&own)?;
        socket.set_read_timeout(Some(LOOK))?;
        let incoming = socket.try_clone()?;
        let link = Arc::new(Link {
            listener,
            agent: agent.to_path_buf(),
            own,
            socket,
            there: AtomicU64::new(0),
            full_since_us: AtomicU64::new(0),
            began: Instant::now(),
            next_flow: AtomicU32::new(1),
            known: Mutex::default(),
        });
        link.look();
        let weak = Arc::downgrade(&link);
        thread::Builder::new().name("ccp".to_string()).spawn(move || receive(&weak, &incoming))?;
        Ok(link)
    }

    /// Returns the present agent, counted from 1; `None` if there is none.
    pub fn agent(&self) -> Option<u64> {
        Some(self.there.load(Ordering::Acquire)).filter(|agent| *agent != 0)
    }

    /// Returns the number of flows, and of those controlled by a program of the agent.
    pub fn flows(&self) -> (usize, usize) {
        let known = self.known();
        (known.flows.len(), known.flows.values().filter(|flow| flow.is_steered()).count())
    }

    pub(crate) fn flow(&self, ends: Option<(SocketAddr, SocketAddr)>, algorithm: &str) -> Flow {
        Flow::new(self.next_flow.fetch_add(1, Ordering::Relaxed), ends, algorithm)
    }

    /// Announces a flow, now and to each new agent.
    pub(crate) fn add(&self, flow: &Arc<Flow>) {
        let mut known = self.known();
        known.flows.insert(flow.number, Arc::clone(flow));
        self.emit(&mut known, flow.create());
    }

    /// Announces a flow that only sends reports later; returns its number.
    pub fn announce(
        &self,
        ends: Option<(SocketAddr, SocketAddr)>,
        algorithm: &str,
        window_bytes: u64,
        mss_bytes: u16,
    ) -> u32 {
        let flow = self.flow(ends, algorithm);
        flow.note(window_bytes, mss_bytes, false);
        let number = flow.number;
        self.add(&Arc::new(flow));
        number
    }

    pub fn remove(&self, number: u32) {
        let mut known = self.known();
        known.flows.remove(&number);
        self.emit(&mut known, Message::Measure { flow: number, program: 0, fields: vec![] }.to_bytes());
    }

    /// Sends a report, or keeps it while the agent has no room; without an agent it is lost.
    pub fn measured(&self, flow: u32, program: u32, fields: &[u64]) {
        let mut buffer = [0; wire::MAX_MEASURE_BYTES];
        self.emit(&mut self.known(), wire::measure(&mut buffer, flow, program, fields).to_vec());
    }

    /// Leaves the agent permanently: flows continue without one, and the socket is removed.
    pub fn close(&self) {
        let mut known = self.known();
        known.is_closed = true;
        self.there.store(0, Ordering::Release);
        known.waiting.clear();
        _ = std::fs::remove_file(&self.own);
    }

    /// Sends a report without blocking, for ACK handling.
    pub(crate) fn report(&self, raw: &[u8]) -> Sent {
        match self.try_send(raw) {
            Ok(()) => Sent::Yes,
            Err(error) if is_busy(&error) => Sent::Busy,
            Err(error) => {
                self.lose(&mut self.known(), &error.to_string());
                Sent::Gone
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_send(&self, raw: &[u8]) -> io::Result<()> {
        if self.agent().is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = self.send(raw);
        match &sent {
            Err(error) if is_busy(error) => {
                let now_us = self.began.elapsed().as_micros() as u64;
                _ = self.full_since_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
            }
            _ => self.full_since_us.store(0, Ordering::Relaxed),
        }
        sent
    }

    fn send(&self, raw: &[u8]) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        SockRef::from(&self.socket).send_with_flags(raw, flags).map(|_| ())
    }

    /// Whether the agent has not read for too long.
    fn is_deaf(&self) -> bool {
        let since_us = self.full_since_us.load(Ordering::Relaxed);
        since_us != 0 && self.began.elapsed().saturating_sub(Duration::from_micros(since_us)) > PATIENCE
    }

    /// Sends a message, or keeps it while the agent has no room; without an agent it is lost.
    fn emit(&self, known: &mut Known, raw: Vec<u8>) {
        known.waiting.push_back(raw);
        self.flush(known);
    }

    fn flush(&self, known: &mut Known) {
        while let Some(raw) = known.waiting.front() {
            match self.try_send(raw) {
                Ok(()) => known.waiting.pop_front(),
                Err(error) if is_busy(&error) => return,
                Err(error) => return self.lose(known, &error.to_string()),
            };
        }
    }

    fn lose(&self, known: &mut Known, why: &str) {
        if self.there.swap(0, Ordering::AcqRel) != 0 {
            (self.listener)(&self.agent, &Event::Gone { flows: known.flows.len(), why });
        }
        known.peer = None;
        known.waiting.clear();
        known.programs.clear();
    }

    /// Checks whether the agent is still, or again, there.
    fn look(&self) {
        let mut known = self.known();
        if known.is_closed {
            return;
        }
        match self.peer() {
            Ok(peer) if known.peer == Some(peer) => {
                self.flush(&mut known);
                if self.is_deaf() {
                    self.lose(&mut known, "it does not read");
                }
            }
            Ok(peer) => {
                self.lose(&mut known, "another agent replaced it");
                self.greet(&mut known, peer);
            }
            Err(error) => self.lose(&mut known, &error.to_string()),
        }
    }

    /// Finds the socket at the agent's name, and connects to it, which fails if no process has it open.
    fn peer(&self) -> io::Result<Peer> {
        let agent = checked(&self.agent)?;
        let found = std::fs::symlink_metadata(&agent)?;
        // SAFETY: a plain system call.
        let user = unsafe { libc::geteuid() };
        if !found.file_type().is_socket() || ![user, 0].contains(&found.uid()) {
            return Err(io::Error::other("the file at its name is not a socket of this user or of root"));
        }
        self.socket.connect(&agent)?;
        Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
    }

    /// Announces datapath and flows to a new agent; one without room for that does not count yet.
    fn greet(&self, known: &mut Known, peer: Peer) {
        if self.send(&Message::Ready { datapath: std::process::id() }.to_bytes()).is_err() {
            return;
        }
        (self.listener)(&self.agent, &Event::Came { flows: known.flows.len() });
        known.n_agents += 1;
        known.peer = Some(peer);
        known.waiting = known.flows.values().map(|flow| flow.create()).collect();
        self.full_since_us.store(0, Ordering::Relaxed);
        self.there.store(known.n_agents, Ordering::Release);
        self.flush(known);
    }

    fn incoming(&self, datagram: &[u8]) {
        if self.agent().is_none() {
            self.look(); // portus 0.5 sends programs first
        }
        let Some(agent) = self.agent() else { return };
        if (self.listener)(&self.agent, &Event::Datagram(datagram)) {
            return;
        }
        let mut known = self.known();
        for message in wire::messages(datagram) {
            if let Err(why) = message.and_then(|message| known.obey(agent, message)) {
                (self.listener)(&self.agent, &Event::Refused { why: &why });
            }
        }
        self.flush(&mut known);
    }
}

impl Known {
    fn obey(&mut self, agent: u64, message: Message) -> Result<(), String> {
        match message {
            Message::Install { program, n_events, n_instrs, code } => {
                if program == FIRST_PROGRAM {
                    self.programs.clear();
                }
                let name = program.to_string();
                let code = Bytecode { n_events, n_instrs, raw: &code, name: &name, origin: "<the agent>" };
                let decoded = decode(&code).map_err(|error| error.to_string())?;
                self.programs.insert(program, Arc::new(decoded));
            }
            // If a flow closed meanwhile, the agent will be notified.
            Message::ChangeProgram { flow, program: number, fields } => {
                let program = self.programs.get(&number);
                let program =
                    program.ok_or_else(|| format!("flow {flow}: program {number} is not installed"))?;
                let program = Numbered { number, program: Arc::clone(program) };
                self.flows.get(&flow).map_or(Ok(()), |flow| flow.write(agent, Some(program), &fields))?;
            }
            Message::Update { flow, fields } => {
                self.flows.get(&flow).map_or(Ok(()), |flow| flow.write(agent, None, &fields))?;
            }
            Message::Create { .. } | Message::Measure { .. } | Message::Ready { .. } => {
                return Err("agents must not send this message".to_string());
            }
        }
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.own);
    }
}

fn trace(agent: &Path, event: &Event<'_>) -> bool {
    let agent = agent.display();
    match event {
        Event::Came { flows } => tracing::info!(%agent, flows, "agent connected"),
        Event::Gone { flows, why } => tracing::warn!(%agent, flows, "agent disconnected: {why}"),
        Event::Refused { why } => tracing::warn!(%agent, "rejected a message of the agent: {why}"),
        Event::Datagram(_) => {}
    }
    false
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The link's thread, until the link has no owner.
fn receive(link: &Weak<Link>, socket: &UnixDatagram) {
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let mut looked = Instant::now();
    loop {
        let received = socket.recv(&mut buffer);
        let Some(link) = link.upgrade().filter(|link| !link.known().is_closed) else { return };
        match received {
            Ok(n) => link.incoming(&buffer[..n]),
            Err(error) if is_busy(&error) => {}
            Err(_) => thread::sleep(LOOK), // the agent has ended
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            link.look();
        }
    }
}
