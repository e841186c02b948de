//! What an agent tells a flow.

/// What to write to a flow. `None` and missing registers stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Update<'a> {
    /// Window [bytes].
    pub cwnd_bytes: Option<u64>,
    /// Pacing rate [bytes/s]; 0 ends pacing.
    pub rate_bytes_per_s: Option<u64>,
    /// Handle of an installed program; 0 gives the flow to the fallback law.
    pub program: Option<u32>,
    /// A number of the agent's that the reports of `program` bring back.
    pub stamp: u16,
    /// Control registers by index.
    pub controls: &'a [(usize, u64)],
    /// Letters to extensions of the datapath.
    pub letters: &'a [Letter<'a>],
}

/// What an extension of the datapath is told about a flow.
#[derive(Clone, Copy, Debug)]
pub struct Letter<'a> {
    /// Its name.
    pub extension: &'a str,
    /// What only it understands; none has it leave the flow.
    pub octets: &'a [u8],
}
