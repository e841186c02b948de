//! Runs recorded ACKs through the detector.

use crate::{Detector, Options, Progress, rtcp_detector};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Start,
    Ack,
}

/// Passes events to a new detector, and calls `seen` after each.
pub fn replay(
    options: Options,
    mss_bytes: u16,
    events: impl IntoIterator<Item = (Event, Progress)>,
    mut seen: impl FnMut(&Progress, &rtcp_detector),
) {
    let mut detector = Detector::new(options, mss_bytes);
    for (event, now) in events {
        match event {
            Event::Start => detector.start(&now),
            Event::Ack => detector.ack(&now),
        }
        seen(&now, detector.state());
    }
}
