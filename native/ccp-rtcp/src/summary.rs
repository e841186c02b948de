//! Statistics of tables of clients, to monitor many machines.

use std::path::Path;

use libbpf_rs::MapCore;

use crate::Result;
use crate::clients::{self, MAP, NO_ROOM};
use crate::core::EXTENSION;
use crate::core::types::{rtcp_client, rtcp_key};
use crate::kept::pinned;
use crate::layout::Layout;

/// Number of verdicts: `enum rtcp_verdict`.
const VERDICTS: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub max_clients: u32,
    /// Connections that are not bounded, for lack of room for their client.
    pub no_room: u64,
    /// Clients by verdict: `enum rtcp_verdict`.
    pub clients: [u64; VERDICTS],
    /// Limited clients by rate: those up to each bound, and those above the last.
    pub rates: Vec<u64>,
    /// Sum of the rates [bytes/s].
    pub rates_sum: u64,
}

/// The statistics of an agent's extension, if loaded. Errors: `rtcp.not_permitted` or `rtcp.refused`.
pub fn of_agent(pin_dir: &Path, bounds_bytes_per_s: &[f64]) -> Result<Option<Summary>> {
    let folder = pin_dir.join("extension").join(EXTENSION);
    let maps = pinned(&folder.join(MAP))?.zip(pinned(&folder.join(NO_ROOM))?);
    maps.map(|(table, no_room)| of(&table, &no_room, bounds_bytes_per_s)).transpose()
}

pub(crate) fn of(
    table: &impl MapCore,
    no_room: &impl MapCore,
    bounds_bytes_per_s: &[f64],
) -> Result<Summary> {
    let entries = clients::entries(table, &Layout::own())?;
    Ok(Summary {
        max_clients: table.max_entries(),
        no_room: clients::counted(no_room)?,
        ..count(&entries, bounds_bytes_per_s)
    })
}

fn count(entries: &[(rtcp_key, rtcp_client)], bounds_bytes_per_s: &[f64]) -> Summary {
    let mut summary = Summary {
        max_clients: 0,
        no_room: 0,
        clients: [0; VERDICTS],
        rates: vec![0; bounds_bytes_per_s.len() + 1],
        rates_sum: 0,
    };
    for (_, client) in entries {
        if let Some(count) = summary.clients.get_mut(usize::from(client.reported)) {
            *count += 1;
        }
        if client.detector.limited != 0 {
            let rate = client.detector.rate_bytes_per_s;
            summary.rates[bounds_bytes_per_s.partition_point(|bound| *bound < f64::from(rate))] += 1;
            summary.rates_sum += u64::from(rate);
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_by_verdict_and_limited_ones_by_rate() {
        let client = |reported, limited, rate_bytes_per_s| {
            let mut client = rtcp_client { reported, ..Default::default() };
            client.detector.limited = limited;
            client.detector.rate_bytes_per_s = rate_bytes_per_s;
            (rtcp_key::default(), client)
        };
        let all =
            [client(0, 0, 0), client(2, 1, 100), client(2, 1, 101), client(1, 1, 5000), client(5, 0, 9)];
        let summary = count(&all, &[100.0, 1000.0]);
        assert_eq!(summary.clients, [1, 1, 2, 0, 0, 1, 0, 0]);
        assert_eq!((summary.rates, summary.rates_sum), (vec![1, 1, 1], 5201));
    }
}
