//! What an agent tells a flow.

use crate::{copy_out, intf};

/// The extension of a datapath that keeps flows within rate limits: the name by which algorithms ask for it.
pub const RATE_LIMITS: &str = "rate_limits";

/// What to write to a flow. `None` and missing registers stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Update<'a> {
    /// Window [bytes].
    pub cwnd_bytes: Option<u64>,
    /// Pacing rate [bytes/s]; 0 ends pacing.
    pub rate_bytes_per_s: Option<u64>,
    /// Handle of an installed program; 0 gives the flow to the fallback law.
    pub program: Option<u32>,
    /// Control registers by index.
    pub controls: &'a [(usize, u64)],
    /// How the flow is kept within a rate limit.
    pub caps: Option<Caps>,
}

/// How a flow is kept within the rate limit of its client; by default none is looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caps {
    /// `enum ccp_caps`; 0 for none.
    pub kinds: u32,
    /// Parameters of R-TCP.
    pub options: intf::rtcp_options,
}

impl Caps {
    /// Caps of window and pacing rate, with the bytes of a `struct rtcp_options`; `None` if there are caps, and not as
    /// many bytes.
    pub fn new(cwnd: bool, rate: bool, options: &[u8]) -> Option<Self> {
        let kind = |wanted: bool, kind: u32| if wanted { kind } else { 0 };
        let kinds = kind(cwnd, intf::CCP_CAP_CWND) | kind(rate, intf::CCP_CAP_RATE);
        if kinds == 0 {
            return Some(Caps::default());
        }
        let fits = options.len() == size_of::<intf::rtcp_options>();
        copy_out(options).filter(|_| fits).map(|options| Caps { kinds, options })
    }
}
