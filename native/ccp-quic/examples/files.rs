//! Files over QUIC, under a CCP agent or under quinn's own congestion control.
//!
//! ```sh
//! files serve 0.0.0.0:4433 FOLDER CERTIFICATE        # writes its certificate there, for clients to trust
//! files get 10.0.0.2:4433 CERTIFICATE NAME FILE      # FILE may be /dev/null
//! ```
//!
//! The server sends; `CCP_AGENT=/tmp/ccp/portus` in its environment gives its connections to the agent there, and
//! `CCP_ALGORITHM=cubic` says which algorithm they ask for. The name `zeros/N` is N octets, without a file.
//!
//! With `FILES_SAMPLE_MS=20` the server says so often how its connections fare, and the client what it has, a line of
//! JSON each. `FILES_MTU=1452` is the UDP payload that the path is known to take, from the first packet on.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
        ["get", address, certificate, name, file] => get(address.parse()?, certificate, name, file).await,
        _ => Err("files serve ADDRESS FOLDER CERTIFICATE, or files get ADDRESS CERTIFICATE NAME FILE".into()),
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
        tokio::spawn(async move {
            if let Err(error) = answer(incoming, config, &folder).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

/// A configuration of one connection's own, so that the agent knows between which addresses it is.
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

/// What an environment variable says; None if it is not there.
fn told<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

fn sample_interval() -> Option<Duration> {
    told("FILES_SAMPLE_MS").map(Duration::from_millis)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    if let Some(octets) = told("FILES_MTU") {
        transport.initial_mtu(octets);
    }
    transport
}

/// Says how a connection fares, until it ends.
async fn tell(connection: Connection, every: Duration) {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(every);
    while connection.close_reason().is_none() {
        ticks.tick().await;
        let path = connection.stats().path;
        println!(
            "{{\"t_s\": {:.6}, \"cwnd_bytes\": {}, \"srtt_us\": {}, \"lost\": {}}}",
            began.elapsed().as_secs_f64(),
            path.cwnd,
            path.rtt.as_micros(),
            path.lost_packets,
        );
    }
}

async fn answer(incoming: Incoming, config: Arc<ServerConfig>, folder: &Path) -> Result<(), Fails> {
    let connection = incoming.accept_with(config)?.await?;
    if let Some(every) = sample_interval() {
        tokio::spawn(tell(connection.clone(), every));
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
    println!("sent {} octets, {} packets lost", stats.udp_tx.bytes, stats.path.lost_packets);
    Ok(())
}

async fn get(address: SocketAddr, certificate: &str, name: &str, file: &str) -> Result<(), Fails> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(certificate)?))?;
    let mut transport = transport();
    transport.stream_receive_window(WINDOW_BYTES.into()).receive_window(WINDOW_BYTES.into());
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let connection = endpoint.connect_with(config, address, NAME)?.await?;
    let (octets, seconds) = fetch(&connection, name, file).await?;
    println!("{octets} octets in {seconds:.3} s, {:.2} Mbit/s", octets as f64 * 8e-6 / seconds);
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

/// What the client lets a server have on the way.
const WINDOW_BYTES: u32 = 64 << 20;

async fn fetch(connection: &Connection, name: &str, file: &str) -> Result<(u64, f64), Fails> {
    let mut file = File::create(file)?;
    let began = Instant::now();
    let (mut wanted, mut coming) = connection.open_bi().await?;
    wanted.write_all(name.as_bytes()).await?;
    wanted.finish()?;
    let mut octets = 0;
    let (every, mut next) = (sample_interval(), Duration::ZERO);
    while let Some(chunk) = coming.read_chunk(CHUNK_BYTES, true).await? {
        octets += chunk.bytes.len() as u64;
        if let Some(every) = every
            && began.elapsed() >= next
        {
            next = began.elapsed() + every;
            println!("{{\"t_s\": {:.6}, \"octets\": {octets}}}", began.elapsed().as_secs_f64());
        }
        if !name.starts_with(ZEROS) {
            file.write_all(&chunk.bytes)?;
        }
    }
    Ok((octets, began.elapsed().as_secs_f64()))
}
