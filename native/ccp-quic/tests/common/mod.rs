//! A test agent, and files over QUIC on the loopback interface.
#![allow(dead_code)] // each test file uses its part

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ccp_lang::{Source, bytecode, compile};
use ccp_quic::wire::{Field, Message, messages};
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};

/// Reports its state each ms, and leaves the window to the agent.
pub const WATCH: &str = "
    (def (Report (volatile acked 0) (window 0) (step 0)) (step 1))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.window Cwnd)
        (:= Report.step step)
        (fallthrough))
    (when (> Micros 1000) (report) (:= Micros 0))";

pub const CONTROL: u8 = 0;
pub const IMPLICIT: u8 = 2;
pub const CWND: u32 = 4;
pub const RATE: u32 = 5;

pub fn install(program: u32, text: &str) -> Message {
    let compiled = compile(&Source { text, name: "test", origin: "<test>", first_line: 1 }).unwrap();
    let (n_events, n_instrs, code) = bytecode::encode(&compiled).unwrap();
    Message::Install { program, n_events, n_instrs, code }
}

pub fn update(flow: u32, fields: &[Field]) -> Message {
    Message::Update { flow, fields: fields.to_vec() }
}

pub fn change(flow: u32, program: u32, fields: &[Field]) -> Message {
    Message::ChangeProgram { flow, program, fields: fields.to_vec() }
}

/// An agent as made with portus: it sends a program to each datapath and flow.
pub struct Agent {
    socket: Arc<UnixDatagram>,
    received: Arc<Mutex<(Vec<Message>, Option<PathBuf>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts serving; each flow gets `text` and the window `cwnd_bytes`.
    pub fn serve(path: &Path, text: &str, cwnd_bytes: u64) -> Agent {
        let mut agent = Agent::deaf(path);
        let (socket, received) = (Arc::clone(&agent.socket), Arc::clone(&agent.received));
        let install = install(1, text).to_bytes();
        agent.thread = Some(std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            loop {
                let (n, from) = socket.recv_from(&mut buffer).unwrap();
                let Some(from) = from.as_pathname().filter(|_| n > 0).map(Path::to_path_buf) else { return };
                let mut said = messages(&buffer[..n]);
                let (Some(Ok(said)), None) = (said.next(), said.next()) else {
                    panic!("one message a datagram")
                };
                // A datapath may be gone before it is answered.
                _ = match &said {
                    Message::Ready { .. } => socket.send_to(&install, &from),
                    Message::Create { flow, .. } => {
                        socket.send_to(&change(*flow, 1, &[(IMPLICIT, CWND, cwnd_bytes)]).to_bytes(), &from)
                    }
                    _ => Ok(0),
                };
                let mut received = received.lock().unwrap();
                received.0.push(said);
                received.1 = Some(from);
            }
        }));
        agent
    }

    /// An agent that reads nothing.
    pub fn deaf(path: &Path) -> Agent {
        _ = std::fs::remove_file(path);
        Agent { socket: Arc::new(UnixDatagram::bind(path).unwrap()), received: Arc::default(), thread: None }
    }

    pub fn emit(&self, message: &Message) {
        self.report_bytes(&message.to_bytes());
    }

    pub fn report_bytes(&self, raw: &[u8]) {
        let to = self.received.lock().unwrap().1.clone().expect("a datapath");
        self.socket.send_to(raw, to).unwrap();
    }

    pub fn said(&self) -> Vec<Message> {
        self.received.lock().unwrap().0.clone()
    }

    pub fn reports(&self, of: u32) -> Vec<Vec<u64>> {
        let report = |said| match said {
            Message::Measure { program, fields, .. } if program == of && !fields.is_empty() => Some(fields),
            _ => None,
        };
        self.said().into_iter().filter_map(report).collect()
    }

    pub fn created(&self) -> Vec<u32> {
        let flow = |said| match said {
            Message::Create { flow, .. } => Some(flow),
            _ => None,
        };
        self.said().into_iter().filter_map(flow).collect()
    }

    pub fn closed(&self, of: u32) -> bool {
        self.said().contains(&Message::Measure { flow: of, program: 0, fields: vec![] })
    }
}

impl Drop for Agent {
    /// As for a killed process: the socket closes, and the name stays.
    fn drop(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A temporary directory.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("ccp-quic-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn agent(&self) -> PathBuf {
        self.0.join("agent")
    }

    pub fn sockets(&self) -> usize {
        std::fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Waits until `look` returns something.
pub async fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "no {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A server that reads everything, and one connection to it with this `transport`.
pub async fn connected(mut transport: TransportConfig) -> Connection {
    // A process that was stopped for a minute continues.
    transport.max_idle_timeout(None);
    let mut idle = TransportConfig::default();
    idle.max_idle_timeout(None);
    let key = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let certificate = CertificateDer::from(key.cert);
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], private.into()).unwrap();
    config.transport_config(Arc::new(idle));
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(config, here).unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let connection = incoming.await.unwrap();
            tokio::spawn(async move {
                while let Ok(mut stream) = connection.accept_uni().await {
                    while let Ok(Some(_)) = stream.read_chunk(1 << 20, false).await {}
                }
            });
        }
    });
    let mut roots = quinn::rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    config.transport_config(Arc::new(transport));
    let client = Endpoint::client(here).unwrap();
    client.connect_with(config, address, "localhost").unwrap().await.unwrap()
}

pub fn send_on(connection: &Connection) {
    let connection = connection.clone();
    tokio::spawn(async move {
        let mut stream = connection.open_uni().await.unwrap();
        while stream.write_all(&[0; 1 << 16]).await.is_ok() {}
    });
}
