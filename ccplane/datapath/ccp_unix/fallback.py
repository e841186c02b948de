"""The fallback program for datapaths built on libccp: Reno in CCP's language.

libccp has no fallback of its own; each datapath has one for a silent agent. So this program is installed
first. The fallback program controls flows whose algorithm raised or has no program, and all flows when the
agent ends.

Source: RFC 5681 sections 3.1 and 3.2; one reduction per window as in RFC 6582 section 3.2.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "fallback"

SOURCE: Final = """
(def
  (ssthresh_bytes +infinity)
  (recover_at 0)
  (left_bytes 0)
)
(when (&& (> Ack.lost_pkts_sample 0) (> (+ Flow.delivered_bytes 1) recover_at))
  (:= ssthresh_bytes (max (/ Cwnd 2) (* 2 Flow.mss)))
  (:= recover_at (+ Flow.delivered_bytes Cwnd))
  (:= Cwnd ssthresh_bytes)
  (fallthrough)
)
(when (|| Flow.was_timeout false)
  (:= ssthresh_bytes (max (/ (max left_bytes Cwnd) 2) (* 2 Flow.mss)))
  (:= recover_at (+ Flow.delivered_bytes (max left_bytes Cwnd)))
  (:= Cwnd (* 2 Flow.mss))
  (fallthrough)
)
(when (&& Flow.cwnd_limited (> (+ Flow.delivered_bytes 1) recover_at))
  (:= starting (< Cwnd ssthresh_bytes))
  (:= gain_bytes (/ (* Flow.mss Ack.bytes_acked) (max Cwnd 1)))
  (:= left_bytes (+ Cwnd gain_bytes))
  (:= left_bytes (if starting (+ Cwnd Ack.bytes_acked)))
  (:= Cwnd left_bytes)
  (fallthrough)
)
(when true
  (:= left_bytes Cwnd)
  (fallthrough)
)
(when (> Micros 100000)
  (report)
  (:= Micros 0)
)
"""
"""Reports every 100 ms."""
