//! The socket to an agent: found, spoken to, and found again after it ended.
//!
//! An agent binds a datagram socket by name and answers to the name of the socket that wrote. The datapath's is connected,
//! so no other datagrams come in, and the agent's end shows.

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
use crate::wire::{self, Message};

/// How often is looked whether the agent is there.
const LOOK: Duration = Duration::from_millis(500);
/// How long an agent may leave all messages unread; then it counts as gone until it reads again.
const PATIENCE: Duration = Duration::from_secs(2);
const MAX_DATAGRAM_BYTES: usize = 1 << 16;
/// The first program of an agent: all that were there before are void.
const FIRST_PROGRAM: u32 = 1;

/// What happens on a link, for its owner.
pub enum Event<'a> {
    /// An agent is there; so many flows are announced to it.
    Came { flows: usize },
    /// The agent is gone.
    Gone { flows: usize, why: &'a str },
    /// What the agent sent is not done.
    Refused { why: &'a str },
    /// The agent sent this.
    Datagram(&'a [u8]),
}

/// Gets events, on any thread, and must not call the link. True: the datagram is done.
type Listener = Box<dyn Fn(&Path, &Event<'_>) -> bool + Send + Sync>;

/// A way to one agent, for all flows of a process. It ends with its last flow and its last owner.
pub struct Link {
    listener: Listener,
    agent: PathBuf,
    own: PathBuf,
    socket: UnixDatagram,
    /// The agent that is there, counted from 1; 0 without one.
    there: AtomicU64,
    /// Since when the agent has had no room [us after `began`]; 0 while it has.
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

/// Which socket is at a name: device, inode, and its time [s, ns], because numbers of inodes are used again.
type Peer = (u64, u64, i64, i64);

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    Yes,
    /// The agent has no room at the moment.
    Busy,
    /// There is no agent.
    Gone,
}

impl Link {
    /// Begins to look for the agent whose socket is, or will be, at `agent`. The datapath's own is in the same directory,
    /// which is made if there is none. What happens goes to `tracing`.
    ///
    /// # Errors
    ///
    /// What the system says if there can be no socket there.
    pub fn open(agent: &Path) -> io::Result<Arc<Link>> {
        Link::with(agent, Link::beside(agent, "quic"), Box::new(trace))
    }

    /// Returns a name for a socket next to the agent's that no other link of this process has.
    pub fn beside(agent: &Path, name: &str) -> PathBuf {
        static LINKS: AtomicU32 = AtomicU32::new(0);
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        agent.with_file_name(format!("{name}-{}-{number}", std::process::id()))
    }

    /// As [`Link::open`], with a socket named `own`, and events for a listener.
    ///
    /// # Errors
    ///
    /// What the system says if there can be no socket there.
    pub fn with(agent: &Path, own: PathBuf, listener: Listener) -> io::Result<Arc<Link>> {
        std::fs::create_dir_all(own.parent().unwrap_or(Path::new(".")))?;
        match std::fs::remove_file(&own) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(&own)?;
        socket.set_read_timeout(Some(LOOK))?;
        let heard = socket.try_clone()?;
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
        thread::Builder::new().name("ccp".to_string()).spawn(move || hear(&weak, &heard))?;
        Ok(link)
    }

    /// Returns which agent is there, counted from 1; `None` without one.
    pub fn agent(&self) -> Option<u64> {
        Some(self.there.load(Ordering::Acquire)).filter(|agent| *agent != 0)
    }

    /// Returns how many flows there are, and how many of them a program of the agent has.
    pub fn flows(&self) -> (usize, usize) {
        let known = self.known();
        (known.flows.len(), known.flows.values().filter(|flow| flow.is_steered()).count())
    }

    pub(crate) fn flow(&self, ends: Option<(SocketAddr, SocketAddr)>, algorithm: &str) -> Flow {
        Flow::new(self.next_flow.fetch_add(1, Ordering::Relaxed), ends, algorithm)
    }

    /// Tells of a flow, now and whenever an agent comes.
    pub(crate) fn add(&self, flow: &Arc<Flow>) {
        let mut known = self.known();
        known.flows.insert(flow.number, Arc::clone(flow));
        self.tell(&mut known, flow.create());
    }

    /// Announces a flow of which nothing but its reports comes later; returns its number.
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

    /// Sends that a flow closed.
    pub fn remove(&self, number: u32) {
        let mut known = self.known();
        known.flows.remove(&number);
        self.tell(&mut known, Message::Measure { flow: number, program: 0, fields: vec![] }.octets());
    }

    /// Sends a report, or keeps it while the agent has no room; without an agent it is lost.
    pub fn measured(&self, flow: u32, program: u32, fields: &[u64]) {
        let mut buffer = [0; wire::MAX_MEASURE_BYTES];
        self.tell(&mut self.known(), wire::measure(&mut buffer, flow, program, fields).to_vec());
    }

    /// Leaves the agent permanently: flows continue without one, and the socket is removed.
    pub fn close(&self) {
        let mut known = self.known();
        known.is_closed = true;
        self.there.store(0, Ordering::Release);
        known.waiting.clear();
        _ = std::fs::remove_file(&self.own);
    }

    /// Sends a report, from the path of an ACK: it does not wait.
    pub(crate) fn report(&self, octets: &[u8]) -> Sent {
        match self.try_send(octets) {
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

    fn try_send(&self, octets: &[u8]) -> io::Result<()> {
        if self.agent().is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = self.send(octets);
        match &sent {
            Err(error) if is_busy(error) => {
                let now_us = self.began.elapsed().as_micros() as u64;
                _ = self.full_since_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
            }
            _ => self.full_since_us.store(0, Ordering::Relaxed),
        }
        sent
    }

    fn send(&self, octets: &[u8]) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        SockRef::from(&self.socket).send_with_flags(octets, flags).map(|_| ())
    }

    /// Whether the agent has read nothing for too long.
    fn is_deaf(&self) -> bool {
        let since_us = self.full_since_us.load(Ordering::Relaxed);
        since_us != 0 && self.began.elapsed().saturating_sub(Duration::from_micros(since_us)) > PATIENCE
    }

    /// Sends a message, or keeps it while the agent has no room; without an agent it is lost.
    fn tell(&self, known: &mut Known, octets: Vec<u8>) {
        known.waiting.push_back(octets);
        self.flush(known);
    }

    fn flush(&self, known: &mut Known) {
        while let Some(octets) = known.waiting.front() {
            match self.try_send(octets) {
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

    /// Sees whether the agent is there still, or again.
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
                self.lose(&mut known, "another one took its place");
                self.greet(&mut known, peer);
            }
            Err(error) => self.lose(&mut known, &error.to_string()),
        }
    }

    /// Finds the socket at the agent's name, and connects ours to it, which fails if nobody has it open.
    fn peer(&self) -> io::Result<Peer> {
        let found = std::fs::symlink_metadata(&self.agent)?;
        // SAFETY: a plain system call.
        let user = unsafe { libc::geteuid() };
        if !found.file_type().is_socket() || ![user, 0].contains(&found.uid()) {
            return Err(io::Error::other("what is at its name is no socket of this user or of root"));
        }
        self.socket.connect(&self.agent)?;
        Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
    }

    /// Tells an agent that knows nothing of us who is here; one that has no room for that is none yet.
    fn greet(&self, known: &mut Known, peer: Peer) {
        if self.send(&Message::Ready { datapath: std::process::id() }.octets()).is_err() {
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

    /// Does what the agent says.
    fn heard(&self, datagram: &[u8]) {
        if self.agent().is_none() {
            self.look(); // portus 0.5 sends programs before anything is sent to it
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
                let code = Bytecode { n_events, n_instrs, octets: &code, name: &name, origin: "<the agent>" };
                let decoded = decode(&code).map_err(|error| error.to_string())?;
                self.programs.insert(program, Arc::new(decoded));
            }
            // When a flow closed meanwhile, the agent will be told.
            Message::ChangeProgram { flow, program: number, fields } => {
                let program = self.programs.get(&number);
                let program = program
                    .ok_or_else(|| format!("flow {flow} gets program {number}, which is not installed"))?;
                let program = Numbered { number, program: Arc::clone(program) };
                self.flows.get(&flow).map_or(Ok(()), |flow| flow.write(agent, Some(program), &fields))?;
            }
            Message::Update { flow, fields } => {
                self.flows.get(&flow).map_or(Ok(()), |flow| flow.write(agent, None, &fields))?;
            }
            Message::Create { .. } | Message::Measure { .. } | Message::Ready { .. } => {
                return Err("agents send no such message".to_string());
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

/// Writes what happens to the log of a Rust program.
fn trace(agent: &Path, event: &Event<'_>) -> bool {
    let agent = agent.display();
    match event {
        Event::Came { flows } => tracing::info!(%agent, flows, "an agent is there"),
        Event::Gone { flows, why } => tracing::warn!(%agent, flows, "the agent is gone: {why}"),
        Event::Refused { why } => tracing::warn!(%agent, "what the agent sent is not done: {why}"),
        Event::Datagram(_) => {}
    }
    false
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// What the link's thread does, until nobody has the link any more.
fn hear(link: &Weak<Link>, socket: &UnixDatagram) {
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let mut looked = Instant::now();
    loop {
        let received = socket.recv(&mut buffer);
        let Some(link) = link.upgrade().filter(|link| !link.known().is_closed) else { return };
        match received {
            Ok(n) => link.heard(&buffer[..n]),
            Err(error) if is_busy(&error) => {}
            Err(_) => thread::sleep(LOOK), // an agent that ended
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            link.look();
        }
    }
}
