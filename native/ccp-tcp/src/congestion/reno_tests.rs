//! Numbers by hand: RFC 5681.

use super::super::test_sock::{acked, busy};
use super::*;

#[test]
fn a_loss_leaves_half_and_two_segments_at_least() {
    let mut reno = Reno::default();
    assert_eq!(reno.ssthresh(&mut busy(101)), 50);
    assert_eq!(reno.ssthresh(&mut busy(3)), 2);
}

#[test]
fn a_round_trip_brings_one_segment() {
    let (mut reno, mut sock) = (Reno::default(), busy(20));
    sock.snd_ssthresh = 20;
    for _ in 0..10 {
        acked(&mut reno, &mut sock, 1000, 2, -1);
    }
    assert_eq!(sock.snd_cwnd, 21);
}

#[test]
fn what_slow_start_leaves_of_an_ack_counts_after_it() {
    let (mut reno, mut sock) = (Reno::default(), busy(18));
    sock.snd_ssthresh = 20;
    acked(&mut reno, &mut sock, 1000, 22, -1);
    assert_eq!(sock.snd_cwnd, 21);
}

#[test]
fn credit_of_a_larger_window_counts_once() {
    let (mut credit, mut sock) = (Credit::default(), busy(10));
    credit.grow(&mut sock, 50, 45);
    assert_eq!(sock.snd_cwnd, 10);
    credit.grow(&mut sock, 10, 1);
    assert_eq!(sock.snd_cwnd, 11);
}

#[test]
fn a_reduction_voids_the_credit_and_a_loss_in_it_does_not() {
    let mut sock = busy(10);
    let mut credit = Credit::default();
    credit.grow(&mut sock, 10, 9);
    credit.on_state(CaState::Cwr, CaState::Recovery);
    credit.grow(&mut sock, 10, 1);
    assert_eq!(sock.snd_cwnd, 11);
    credit.grow(&mut sock, 10, 9);
    credit.on_state(CaState::Disorder, CaState::Recovery);
    credit.grow(&mut sock, 10, 1);
    assert_eq!(sock.snd_cwnd, 11);
}

#[test]
fn the_clamp_holds() {
    let (mut reno, mut sock) = (Reno::default(), busy(10));
    sock.snd_cwnd_clamp = 12;
    acked(&mut reno, &mut sock, 1000, 10, -1);
    assert_eq!(sock.snd_cwnd, 12);
}
