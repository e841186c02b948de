//! Path information from ACKs: `load_path()` of `ccp-bpf`'s `fold.bpf.c`, and what `ccp-node` stores for it.

use ::ccp_record::intf::*;
use ccp_ioam::PathEcho;
use ccp_lang::prims::Prims;

#[derive(Debug, Default)]
pub(super) struct Path {
    echo: PathEcho,
    /// When the echoed packet was sent; 0: no echo yet.
    left_us: u64,
    /// Not yet seen by a fold.
    is_fresh: bool,
    /// Packets lost by congestion, on links, and at unknown places: never decreasing.
    losses: [u64; 3],
}

impl Path {
    /// An ACK carries an echo. Overtaken ones are ignored.
    pub fn receive(&mut self, echo: &PathEcho) {
        let left_us = u64::from(echo.sent_s) * 1_000_000 + u64::from(echo.sent_us);
        if left_us < self.left_us {
            return;
        }
        for ((losses, now), before) in self.losses.iter_mut().zip(reported(echo)).zip(reported(&self.echo)) {
            let more = now.wrapping_sub(before).cast_signed();
            *losses += u64::try_from(more).unwrap_or(0);
        }
        (self.echo, self.left_us, self.is_fresh) = (*echo, left_us, true);
    }

    pub fn load(&mut self, prims: &mut Prims, now_us: u64, mss_bytes: u32) {
        if self.left_us == 0 {
            return;
        }
        let bytes = |pkts: Option<u32>| u64::from(pkts.unwrap_or(0)) * u64::from(mss_bytes);
        let echo = &self.echo;
        let [congestion, link, unknown] = self.losses;
        let free_bytes = if echo.is_unlimited() { u64::MAX } else { bytes(echo.free_pkts) };
        for (index, value) in [
            (CCP_INT_AGE_US, now_us.saturating_sub(self.left_us)),
            (CCP_INT_FRESH, u64::from(std::mem::take(&mut self.is_fresh))),
            (CCP_INT_HOP, echo.hop.unwrap_or(0).into()),
            (CCP_INT_NODE, echo.node_id.unwrap_or(0).into()),
            (CCP_INT_HOPS, echo.hops.into()),
            (CCP_INT_ALL_KNOWN, echo.all_known.into()),
            (CCP_INT_QUEUE_BYTES, bytes(echo.queue_pkts)),
            (CCP_INT_FREE_BYTES, free_bytes),
            (CCP_INT_ARRIVAL_BYTES_PER_S, bytes(echo.arrival_pkts_per_s)),
            (CCP_INT_LINK_BYTES_PER_S, echo.link_rate_bytes_per_s.unwrap_or(0).into()),
            (CCP_INT_FLOW_COUNT, echo.flow_count.unwrap_or(0).into()),
            (CCP_INT_LOSSES_CONGESTION, congestion),
            (CCP_INT_LOSSES_LINK, link),
            (CCP_INT_LOSSES_UNKNOWN, unknown),
        ] {
            prims[index as usize] = value;
        }
    }
}

fn reported(echo: &PathEcho) -> [u32; 3] {
    [echo.losses_congestion, echo.losses_link, echo.losses_unknown]
}

#[cfg(test)]
mod tests {
    use ccp_ioam::State;
    use ccp_lang::prims::NOTHING;

    use super::*;

    const MSS_BYTES: u32 = 1000;

    fn echo() -> PathEcho {
        PathEcho {
            hops: 3,
            all_known: true,
            hop: Some(2),
            node_id: Some(8),
            queue_pkts: Some(4),
            free_pkts: Some(58),
            arrival_pkts_per_s: Some(1008),
            link_rate_bytes_per_s: Some(1_250_000),
            flow_count: Some(5),
            losses_congestion: 2,
            losses_link: 7,
            losses_unknown: 1,
            sent_s: 3,
            sent_us: 40,
        }
    }

    fn load(path: &mut Path) -> Vec<u64> {
        let mut prims = NOTHING;
        path.load(&mut prims, 3_050_000, MSS_BYTES);
        prims[CCP_INT_AGE_US as usize..CCP_PRIM_COUNT as usize].to_vec()
    }

    #[test]
    fn without_an_echo_there_is_nothing() {
        assert_eq!(load(&mut Path::default()), [&[u64::MAX][..], &[0; 13]].concat());
    }

    #[test]
    fn an_echo_is_fresh_for_one_fold() {
        let mut path = Path::default();
        path.receive(&echo());
        let seen = [49_960, 1, 2, 8, 3, 1, 4000, 58_000, 1_008_000, 1_250_000, 5, 2, 7, 1];
        assert_eq!(load(&mut path), seen);
        assert_eq!(load(&mut path)[1], 0);
        assert_eq!(load(&mut path)[2..], seen[2..]);
    }

    #[test]
    fn no_limit_is_not_no_answer() {
        let mut path = Path::default();
        let (mut unlimited, mut silent) = (echo(), echo());
        unlimited.free_pkts = Some(State::UNLIMITED_PKTS);
        silent.free_pkts = None;
        for (echo, free_bytes) in [(unlimited, u64::MAX), (silent, 0)] {
            path.receive(&echo);
            assert_eq!(load(&mut path)[7], free_bytes);
        }
    }

    #[test]
    fn an_echo_that_was_overtaken_says_nothing() {
        let mut path = Path::default();
        path.receive(&echo());
        path.receive(&PathEcho { sent_us: 39, queue_pkts: Some(9), ..echo() });
        assert_eq!(load(&mut path)[6], 4000);
    }

    #[test]
    fn losses_never_grow_less() {
        let mut path = Path::default();
        for (sent_us, reported, losses_link) in [
            (40, u32::MAX, 0), // one less than before
            (41, 1, 2),
            (42, 0, 2), // the sink has forgotten the flow
            (43, 5, 7),
        ] {
            path.receive(&PathEcho { sent_us, losses_link: reported, ..echo() });
            assert_eq!(load(&mut path)[12], losses_link, "{reported}");
        }
    }
}
