//! Transfers files over QUIC, controlled by a CCP agent or by quinn's own congestion control.
//!
//! ```sh
//! files serve 0.0.0.0:4433 FOLDER CERTIFICATE        # writes its certificate there, for clients to trust
//! files get 10.0.0.2:4433 CERTIFICATE NAME FILE      # FILE may be /dev/null
//! files list 10.0.0.2:4433 CERTIFICATE LIST          # the steps in the file LIST, in order, on one connection
//! ```
//!
//! The server sends; `CCP_AGENT=/tmp/ccp/portus` in its environment passes its connections to that agent, and
//! `CCP_ALGORITHM=cubic` names the requested algorithm. The name `zeros/N` is N bytes, without a file.
//!
//! Lines of a LIST are `NAME FILE`, or `pause SECONDS`. The client prints start and end of each file as JSON.
//!
//! With `FILES_SAMPLE_US=20000` the server prints the state of its connections at multiples of this interval, and the
//! client its progress, as lines of JSON: `t_us` and all other times are CLOCK_MONOTONIC, and `port` is the client's.
//! `FILES_MTU=1452` is a UDP payload known to fit the path, used from the first packet on.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ccp_quic::{CcpConfig, Link};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, Incoming, ServerConfig, TransportConfig};

type Fails = Box<dyn Error + Send + Sync>;

const NAME: &str = "files";
const MAX_NAME_BYTES: usize = 4096;
const ZEROS: &str = "zeros/";
const CHUNK_BYTES: usize = 1 << 18;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fails> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address, folder, certificate] => serve(address.parse()?, folder, certificate).await,
        ["get", address, certificate, name, file] => {
            let step = Step::Get(name.into(), file.into());
            get(address.parse()?, certificate, &[step], Got::say).await
        }
        ["list", address, certificate, list] => {
            let steps: Vec<Step> =
                std::fs::read_to_string(list)?.lines().map(step).collect::<Result<_, _>>()?;
            get(address.parse()?, certificate, &steps, Got::say_json).await
        }
        _ => Err("files serve ADDRESS FOLDER CERTIFICATE, files get ADDRESS CERTIFICATE NAME FILE, \
                  or files list ADDRESS CERTIFICATE LIST"
            .into()),
    }
}

async fn serve(address: SocketAddr, folder: &str, certificate: &str) -> Result<(), Fails> {
    let made = rcgen::generate_simple_self_signed([NAME.to_string()])?;
    std::fs::write(certificate, made.cert.der())?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let plain = ServerConfig::with_single_cert(vec![CertificateDer::from(made.cert)], key.into())?;
    let link = env::var_os("CCP_AGENT").map(|agent| Link::open(Path::new(&agent))).transpose()?;
    let folder = Arc::new(PathBuf::from(folder));
    let endpoint = Endpoint::server(plain.clone(), address)?;
    println!("serves {address}");
    while let Some(incoming) = endpoint.accept().await {
        let (folder, config) = (Arc::clone(&folder), configured(&plain, link.as_ref(), address, &incoming));
        let link = link.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(incoming, config, &folder, link).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

/// A configuration for a single connection, so that the agent knows its addresses.
fn configured(
    plain: &ServerConfig,
    link: Option<&Arc<Link>>,
    address: SocketAddr,
    incoming: &Incoming,
) -> Arc<ServerConfig> {
    let mut transport = transport();
    if let Some(link) = link {
        let local = incoming.local_ip().map_or(address, |ip| SocketAddr::new(ip, address.port()));
        let config = CcpConfig::new(Arc::clone(link))
            .algorithm(&env::var("CCP_ALGORITHM").unwrap_or_default())
            .ends(local, incoming.remote_address());
        transport.congestion_controller_factory(Arc::new(config));
    }
    let mut config = plain.clone();
    config.transport_config(Arc::new(transport));
    Arc::new(config)
}

/// Value of an environment variable; None if unset.
fn reported<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

fn sample_interval() -> Option<Duration> {
    reported("FILES_SAMPLE_US").filter(|&us| us > 0).map(Duration::from_micros)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    if let Some(n_bytes) = reported("FILES_MTU") {
        transport.initial_mtu(n_bytes);
    }
    transport
}

fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Prints a line of JSON at multiples of an interval, and at start and end of a connection.
async fn emit(connection: Connection, every: Duration, port: u16, fields: impl Fn() -> String) {
    let every_us = every.as_micros() as u64;
    loop {
        let open = connection.close_reason().is_none();
        println!("{{\"t_us\": {}, \"port\": {port}, \"open\": {open}, {}}}", now_us(), fields());
        if !open {
            return;
        }
        let wait = Duration::from_micros(every_us - now_us() % every_us);
        tokio::select! {
            () = tokio::time::sleep(wait) => (),
            _ = connection.closed() => (),
        }
    }
}

fn state(connection: &Connection, link: Option<&Arc<Link>>) -> String {
    let stats = connection.stats();
    let steered = link.is_some_and(|link| {
        let (all, steered) = link.flows();
        all > 0 && all == steered
    });
    format!(
        "\"cwnd_bytes\": {}, \"srtt_us\": {}, \"lost_pkts\": {}, \"sent_bytes\": {}, \"mtu_bytes\": {}, \
         \"steered\": {steered}",
        stats.path.cwnd,
        stats.path.rtt.as_micros(),
        stats.path.lost_packets,
        stats.udp_tx.bytes,
        stats.path.current_mtu,
    )
}

async fn answer(
    incoming: Incoming,
    config: Arc<ServerConfig>,
    folder: &Path,
    link: Option<Arc<Link>>,
) -> Result<(), Fails> {
    let connection = incoming.accept_with(config)?.await?;
    if let Some(every) = sample_interval() {
        let (reported, port) = (connection.clone(), connection.remote_address().port());
        tokio::spawn(emit(connection.clone(), every, port, move || state(&reported, link.as_ref())));
    }
    while let Ok((mut out, mut wanted)) = connection.accept_bi().await {
        let name = String::from_utf8(wanted.read_to_end(MAX_NAME_BYTES).await?)?;
        if let Some(n) = name.strip_prefix(ZEROS) {
            let mut left: usize = n.parse()?;
            let zeros = [0; CHUNK_BYTES];
            while left > 0 {
                let n = left.min(CHUNK_BYTES);
                out.write_all(&zeros[..n]).await?;
                left -= n;
            }
        } else {
            let inside = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
            if !inside {
                return Err(format!("{name:?} is not in the folder").into());
            }
            let mut file = File::open(folder.join(&name))?;
            let mut chunk = vec![0; CHUNK_BYTES];
            while let n @ 1.. = file.read(&mut chunk)? {
                out.write_all(&chunk[..n]).await?;
            }
        }
        out.finish()?;
    }
    let stats = connection.stats();
    println!("sent {} bytes, {} packets lost", stats.udp_tx.bytes, stats.path.lost_packets);
    Ok(())
}

enum Step {
    Get(String, String),
    Pause(Duration),
}

fn step(line: &str) -> Result<Step, Fails> {
    match line.split_once(' ') {
        Some(("pause", seconds)) => Ok(Step::Pause(Duration::try_from_secs_f64(seconds.parse()?)?)),
        Some((name, file)) => Ok(Step::Get(name.into(), file.into())),
        None => Err(format!("cannot parse {line:?}: expected `NAME FILE` or `pause SECONDS`").into()),
    }
}

struct Got {
    /// The client's start, including a new connection's handshake [us].
    start_us: u64,
    /// Time of the request [us].
    asked_us: u64,
    first_byte_us: u64,
    end_us: u64,
    size_bytes: u64,
    port: u16,
}

impl Got {
    fn say(&self) {
        let seconds = (self.end_us - self.asked_us) as f64 / 1e6;
        let rate_mbit = self.size_bytes as f64 * 8e-6 / seconds;
        println!("{} bytes in {seconds:.3} s, {rate_mbit:.2} Mbit/s", self.size_bytes);
    }

    fn say_json(&self) {
        let Got { start_us, first_byte_us, end_us, size_bytes, port, .. } = self;
        println!(
            "{{\"start_us\": {start_us}, \"first_byte_us\": {first_byte_us}, \"end_us\": {end_us}, \
             \"size_bytes\": {size_bytes}, \"port\": {port}}}"
        );
    }
}

/// Gets files on one connection, and reports each.
async fn get(address: SocketAddr, certificate: &str, steps: &[Step], say: fn(&Got)) -> Result<(), Fails> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(certificate)?))?;
    let mut transport = transport();
    transport.stream_receive_window(WINDOW_BYTES.into()).receive_window(WINDOW_BYTES.into());
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::new(transport));
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let endpoint = Endpoint::client((any, 0).into())?;
    let began_us = now_us();
    let connection = endpoint.connect_with(config, address, NAME)?.await?;
    let (port, n_bytes) = (endpoint.local_addr()?.port(), Arc::new(AtomicU64::new(0)));
    if let Some(every) = sample_interval() {
        let n_bytes = Arc::clone(&n_bytes);
        let fields = move || format!("\"bytes\": {}", n_bytes.load(Ordering::Relaxed));
        tokio::spawn(emit(connection.clone(), every, port, fields));
    }
    let mut start_us = Some(began_us);
    for step in steps {
        match step {
            Step::Pause(length) => tokio::time::sleep(*length).await,
            Step::Get(name, file) => {
                let asked_us = now_us();
                let (size_bytes, first_byte_us) = fetch(&connection, name, file, &n_bytes).await?;
                let start_us = start_us.take().unwrap_or(asked_us);
                say(&Got { start_us, asked_us, first_byte_us, end_us: now_us(), size_bytes, port });
            }
        }
    }
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

const WINDOW_BYTES: u32 = 64 << 20;
/// Maximum silence of a connection: pauses must not end it.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Gets a file; returns its length, and the arrival time of its first byte [us].
async fn fetch(
    connection: &Connection,
    name: &str,
    file: &str,
    n_bytes: &AtomicU64,
) -> Result<(u64, u64), Fails> {
    let mut file = File::create(file)?;
    let (mut wanted, mut coming) = connection.open_bi().await?;
    wanted.write_all(name.as_bytes()).await?;
    wanted.finish()?;
    let (mut size_bytes, mut first_us) = (0, None);
    while let Some(chunk) = coming.read_chunk(CHUNK_BYTES, true).await? {
        first_us.get_or_insert_with(now_us);
        let n = chunk.bytes.len() as u64;
        size_bytes += n;
        n_bytes.fetch_add(n, Ordering::Relaxed);
        if !name.starts_with(ZEROS) {
            file.write_all(&chunk.bytes)?;
        }
    }
    Ok((size_bytes, first_us.unwrap_or_else(now_us)))
}
