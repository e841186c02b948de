//! Whether connections of a client share a bucket.

use crate::Progress;
use crate::types::{RTCP_APART_PKTS, RTCP_MAX_DUE_PKTS, rtcp_member};

unsafe extern "C" {
    fn rtcp_host_member_start(m: *mut rtcp_member, now_us: u64);
    fn rtcp_host_member_add(m: *mut rtcp_member, now_us: u64, delivered_bytes: u64, lost_bytes: u64);
    fn rtcp_host_member_ack(m: *mut rtcp_member, mss_bytes: u32, client: *const Progress) -> i32;
}

const MSS: u32 = 1448;
const RTT_US: u32 = 10_000;
const ROUND_US: u64 = 2 * RTT_US as u64;

/// Delivered and lost packets of a connection, and of all others.
type Round = [u64; 4];

/// The doubt about a common bucket after some rounds, and whether it suffices.
fn doubt(rounds: &[Round], round_us: u64) -> (u32, bool) {
    let mut member = rtcp_member::default();
    let mut client = Progress { time_us: 1_000_000, min_rtt_us: RTT_US, ..Progress::default() };
    let mut is_apart = false;
    // SAFETY: complete structures that outlive the calls.
    unsafe {
        rtcp_host_member_start(&raw mut member, client.time_us);
        rtcp_host_member_ack(&raw mut member, MSS, &raw const client);
        for [delivered, lost, others_delivered, others_lost] in rounds {
            client.time_us += round_us;
            client.delivered_pkts += delivered + others_delivered;
            client.lost_pkts += lost + others_lost;
            let bytes = |pkts: &u64| pkts * u64::from(MSS);
            rtcp_host_member_add(&raw mut member, client.time_us, bytes(delivered), bytes(lost));
            is_apart = rtcp_host_member_ack(&raw mut member, MSS, &raw const client) != 0;
        }
    }
    (member.doubt_pkts, is_apart)
}

#[test]
fn doubt_is_what_should_have_been_lost() {
    let cases: [(&[Round], u32); 10] = [
        (&[[40, 0, 100, 25]], 8),                 // a fifth of 40 should have been lost
        (&[[40, 25, 100, 0]], RTCP_MAX_DUE_PKTS), // reversed: most of 100 should have been
        (&[[40, 1, 100, 25]], 8 - 4),
        (&[[40, 8, 100, 25]], 0),
        (&[[400, 0, 100, 25]], RTCP_MAX_DUE_PKTS),
        (&[[19, 0, 100, 25]], 0),   // three of these prove nothing
        (&[[400, 0, 100, 2]], 0),   // two lost packets do not show an empty bucket
        (&[[400, 0, 1000, 25]], 0), // nor does less than a twentieth
        (
            &[[400, 0, 100, 25], [400, 0, 100, 25], [400, 0, 100, 25], [40, 1, 100, 10]],
            3 * RTCP_MAX_DUE_PKTS - 1,
        ),
        (&[[400, 0, 100, 25], [40, 4, 100, 25]], 0), // both lose much
    ];
    for (rounds, expected) in cases {
        assert_eq!(doubt(rounds, ROUND_US).0, expected, "{rounds:?}");
    }
}

#[test]
fn a_long_round_speaks_only_against_doubt() {
    for (rounds, expected) in [(8, 0), (7, RTCP_MAX_DUE_PKTS)] {
        assert_eq!(doubt(&[[400, 0, 100, 25]], rounds * ROUND_US).0, expected);
    }
    assert_eq!(doubt(&[[40, 4, 100, 25]], 8 * ROUND_US).0, 0);
}

#[test]
fn a_round_that_says_nothing_continues() {
    assert_eq!(doubt(&[[10, 0, 40, 10]; 2], ROUND_US).0, 4);
    assert_eq!(doubt(&[[4, 0, 40, 2]; 4], ROUND_US).0, 0);
    assert_eq!(doubt(&[[4, 0, 40, 3]; 5], ROUND_US).0, 0, "another round has begun");
}

#[test]
fn several_rounds_are_needed() {
    for (rounds, is_apart) in [(2, false), (3, true)] {
        let (doubt, says) = doubt(&vec![[400, 0, 100, 25]; rounds], ROUND_US);
        assert_eq!((doubt >= RTCP_APART_PKTS, says), (is_apart, is_apart));
    }
}
