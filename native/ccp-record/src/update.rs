//! Updates from an agent to a flow.

/// An update. `None` and missing registers leave values unchanged.
#[derive(Clone, Debug, Default)]
pub struct Update<'a> {
    pub cwnd_bytes: Option<u64>,
    /// Pacing rate [bytes/s]; 0 ends pacing.
    pub rate_bytes_per_s: Option<u64>,
    /// Handle of an installed program; 0 hands the flow to the fallback.
    pub program: Option<u32>,
    /// A number of the agent's, returned in the reports of `program`.
    pub stamp: u16,
    pub controls: &'a [(usize, u64)],
    /// Messages to extensions of the datapath.
    pub messages: &'a [Message<'a>],
}

/// A message to an extension of the datapath about a flow.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub extension: &'a str,
    /// The message in the extension's format; empty detaches the flow.
    pub raw: &'a [u8],
}
