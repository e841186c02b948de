//! The socket to an agent: found, spoken to, and found again after it ended.
//!
//! An agent binds a datagram socket by name and answers to the
//! name of whoever wrote. Ours is connected, so nobody else's datagrams come in, and the agent's end shows.

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
use ccp_lang::wire::{self, Message};
use socket2::SockRef;

use crate::flow::{Flow, Numbered};
use crate::values::Values;

/// How often is looked whether the agent is there.
const LOOK: Duration = Duration::from_millis(500);
/// How long an agent may leave all messages unread; then it counts as gone until it reads again.
const PATIENCE: Duration = Duration::from_secs(2);
const MAX_DATAGRAM_BYTES: usize = 1 << 16;
/// The first program of an agent: all that were there before are void.
const FIRST_PROGRAM: u32 = 1;

/// A way to one agent, for all flows of a process. It ends with its last flow and its last owner.
#[derive(Debug)]
pub struct Link {
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
    /// Begins to look for the agent whose socket is, or will be, at `agent`. Our own is in the same directory, which is
    /// made if there is none.
    ///
    /// # Errors
    ///
    /// What the system says if there can be no socket there.
    pub fn open(agent: &Path) -> io::Result<Arc<Link>> {
        static LINKS: AtomicU32 = AtomicU32::new(0);
        let directory = agent.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        let own = directory.join(format!("quic-{}-{number}", std::process::id()));
        match std::fs::remove_file(&own) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(&own)?;
        socket.set_read_timeout(Some(LOOK))?;
        let heard = socket.try_clone()?;
        let link = Arc::new(Link {
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
        self.tell(&mut known, octets(&flow.create()));
    }

    /// Tells that a flow closed.
    pub(crate) fn remove(&self, flow: &Flow) {
        let mut known = self.known();
        known.flows.remove(&flow.number);
        let end = Message::Measure { flow: flow.number, program: 0, fields: Vec::new() };
        self.tell(&mut known, octets(&end));
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
            tracing::warn!(agent = %self.agent.display(), flows = known.flows.len(), "the agent is gone: {why}");
        }
        known.peer = None;
        known.waiting.clear();
        known.programs.clear();
    }

    /// Sees whether the agent is there still, or again.
    fn look(&self) {
        let mut known = self.known();
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
        if self.send(&octets(&Message::Ready { datapath: std::process::id() })).is_err() {
            return;
        }
        tracing::info!(agent = %self.agent.display(), flows = known.flows.len(), "an agent is there");
        known.n_agents += 1;
        known.peer = Some(peer);
        known.waiting = known.flows.values().map(|flow| octets(&flow.create())).collect();
        self.full_since_us.store(0, Ordering::Relaxed);
        self.there.store(known.n_agents, Ordering::Release);
        self.flush(known);
    }

    /// Does what the agent says.
    fn heard(&self, datagram: &[u8]) {
        let mut known = self.known();
        let Some(agent) = self.agent() else { return };
        for message in wire::messages(datagram) {
            if let Err(why) = message.and_then(|message| known.obey(agent, message)) {
                tracing::warn!(agent = %self.agent.display(), "what the agent sent is not done: {why}");
            }
        }
        self.flush(&mut known);
    }
}

impl Known {
    fn obey(&mut self, agent: u64, message: Message) -> Result<(), String> {
        match message {
            Message::Install { program, n_events, n_instrs, octets } => {
                if program == FIRST_PROGRAM {
                    self.programs.clear();
                }
                let name = program.to_string();
                let code =
                    Bytecode { n_events, n_instrs, octets: &octets, name: &name, origin: "<the agent>" };
                let decoded = decode(&code).map_err(|error| error.to_string())?;
                self.programs.insert(program, Arc::new(decoded));
            }
            Message::ChangeProgram { flow, program: number, fields } => {
                let values = Values::read(&fields)?;
                let program = self.programs.get(&number);
                let program = program
                    .ok_or_else(|| format!("flow {flow} gets program {number}, which is not installed"))?;
                // Of a flow that closed meanwhile, the agent will hear.
                if let Some(flow) = self.flows.get(&flow) {
                    flow.write(agent, Some(Numbered { number, program: Arc::clone(program) }), &values);
                }
            }
            Message::Update { flow, fields } => {
                let values = Values::read(&fields)?;
                if let Some(flow) = self.flows.get(&flow) {
                    flow.write(agent, None, &values);
                }
            }
            Message::Create(_) | Message::Measure { .. } | Message::Ready { .. } => {
                return Err("it is what a datapath sends".to_string());
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

/// The octets of a message of a datapath, all of which are short.
fn octets(message: &Message) -> Vec<u8> {
    message.octets().expect("a short message")
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
        let Some(link) = link.upgrade() else { return };
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
