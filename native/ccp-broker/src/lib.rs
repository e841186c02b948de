//! The embedded MQTT broker: rumqttd, set up for MQTT 5 on one port, with Mosquitto's password files.

mod users;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings, TlsConfig};

pub use users::{UserError, Users};

/// Longest packet that is taken [bytes]; the longest message of ours has 64 KiB.
const MAX_PACKET_BYTES: usize = 128 * 1024;

/// Messages kept for slow subscribers, by filter: so many segments of so many bytes, then the oldest is gone.
const SEGMENTS: usize = 10;
const SEGMENT_BYTES: usize = 1 << 20;

/// How long a client may take to say who it is [ms].
const CONNECT_TIMEOUT_MS: u16 = 5000;

/// Where to listen, and for whom.
#[derive(Debug)]
pub struct Settings {
    /// Address and port.
    pub listen: SocketAddr,
    /// Files with the certificates and the key for TLS; `None` for plain TCP.
    pub tls: Option<(String, String)>,
    /// Who may connect; `None` for everybody.
    pub users: Option<Users>,
}

/// Why the broker does not run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ServeError(String);

/// Runs the broker; returns only if it broke.
///
/// A client that sends nonsense makes rumqttd's task of that connection panic, which ends the connection: such
/// panics are told in one line each, without a backtrace.
pub fn serve(settings: Settings) -> Result<(), ServeError> {
    std::panic::set_hook(Box::new(|info| eprintln!("embedded broker: a connection broke: {info}")));
    let mut broker = Broker::new(config(settings));
    broker.start().map_err(|e| ServeError(e.to_string()))?;
    Err(ServeError("the listening thread ended".into()))
}

fn config(settings: Settings) -> Config {
    let mut connections = ConnectionSettings {
        connection_timeout_ms: CONNECT_TIMEOUT_MS,
        max_payload_size: MAX_PACKET_BYTES,
        max_inflight_count: 100,
        auth: None,
        external_auth: None,
        dynamic_filters: true,
    };
    if let Some(users) = settings.users {
        let users = Arc::new(users);
        connections.set_auth_handler(move |_client, user, password| {
            let users = Arc::clone(&users);
            async move { users.allow(&user, &password) }
        });
    }
    let server = ServerSettings {
        name: "ccp-broker".into(),
        listen: settings.listen,
        tls: settings.tls.map(|(certpath, keypath)| TlsConfig::Rustls { capath: None, certpath, keypath }),
        next_connection_delay_ms: 0,
        connections,
    };
    Config {
        router: RouterConfig {
            max_connections: 1000,
            max_outgoing_packet_count: 200,
            max_segment_size: SEGMENT_BYTES,
            max_segment_count: SEGMENTS,
            ..RouterConfig::default()
        },
        v5: Some(HashMap::from([("v5".to_owned(), server)])),
        ..Config::default()
    }
}
