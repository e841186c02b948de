//! Applications: each is told of the events of its connections, and writes to them.

mod bulk;
mod http;
mod on_off;
mod rtp;

use ccp_tcp::Sender;

use crate::control::Control;
use crate::plan;

pub(crate) use bulk::Bulk;
pub use http::ObjectResult;
pub(crate) use http::{Http, Next, REQUEST_BYTES};
pub(crate) use on_off::OnOff;
pub(crate) use rtp::{Act, DRAIN_NS, Rtp, SentReport};
pub use rtp::{MediaPacket, MediaReport};

/// Interval at which a rate-limited source writes.
const TICK_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) enum App {
    Bulk(Bulk),
    Http(Http),
    OnOff(OnOff),
    Rtp(Rtp),
}

impl App {
    pub fn new(app: &plan::App) -> Self {
        match app {
            plan::App::Bulk { total_bytes, rate_bytes_per_s, parallel } => {
                App::Bulk(Bulk::new(*total_bytes, *rate_bytes_per_s, *parallel))
            }
            plan::App::Http { objects, gaps_us, repeat, connections, persistent } => {
                App::Http(Http::new(objects, gaps_us, *repeat, *connections, *persistent))
            }
            plan::App::OnOff { phases_us, rate_bytes_per_s } => {
                App::OnOff(OnOff::new(phases_us, *rate_bytes_per_s))
            }
            plan::App::Rtp { frames_per_s, frame, report_us } => {
                App::Rtp(Rtp::new(*frames_per_s, frame, *report_us))
            }
        }
    }

    pub fn ports(&self) -> usize {
        match self {
            App::Bulk(bulk) => bulk.streams(),
            App::Http(http) => http.clients(),
            App::OnOff(_) | App::Rtp(_) => 1,
        }
    }

    pub fn first_connections(&self) -> usize {
        match self {
            App::Http(http) => http.clients(),
            App::Bulk(_) | App::OnOff(_) => 1,
            App::Rtp(_) => 0,
        }
    }

    /// Whether it opens another connection when the present ones are established: streams of iperf3 connect one by one.
    pub fn opens_more(&self, connections: usize) -> bool {
        matches!(self, App::Bulk(bulk) if connections < bulk.streams())
    }

    /// Bytes of each connection that are not application data.
    pub fn overhead_bytes(&self) -> u64 {
        match self {
            App::Bulk(_) => bulk::COOKIE_BYTES,
            App::Http(_) | App::OnOff(_) | App::Rtp(_) => 0,
        }
    }

    /// The receiver of the data requests it, and opens the connection.
    pub fn receiver_opens(&self) -> bool {
        matches!(self, App::Http(_))
    }

    /// It writes again whenever a connection has sent something.
    pub fn refills(&self) -> bool {
        match self {
            App::Bulk(bulk) => !bulk.is_unlimited(),
            App::OnOff(_) => true,
            App::Http(_) | App::Rtp(_) => false,
        }
    }

    pub fn fill(&mut self, now_ns: u64, nth: usize, sender: &mut Sender<Control>) {
        match self {
            App::Bulk(bulk) => bulk.fill(now_ns, nth, sender),
            App::OnOff(on_off) => on_off.fill(now_ns, sender),
            App::Http(_) | App::Rtp(_) => (),
        }
    }

    pub fn due_ns(&self) -> Option<u64> {
        match self {
            App::Bulk(bulk) => bulk.due_ns(),
            App::Http(http) => http.due_ns(),
            App::OnOff(on_off) => on_off.due_ns(),
            App::Rtp(rtp) => rtp.due_ns(),
        }
    }
}

fn ns(us: u64) -> u64 {
    us.saturating_mul(1000)
}
