//! Recorded ACKs, passed through the detector in the kernel.

use ccp_load as load;
use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};

use crate::Result;
use crate::attach::refused;
use crate::core::types::{RTCP_RECORDED_ACK, RTCP_RECORDED_NOTHING, RTCP_RECORDED_START, rtcp_recorded};
use crate::core::{Options, Progress, rtcp_detector};

pub use ccp_rtcp_core::replay::{Event, replay};

static OBJECT: &[u8] = include_bytes!(env!("CCP_RTCP_REPLAY_OBJECT"));

/// As `ccp_rtcp_core::replay`, with the kernel's detector. Errors: `rtcp.not_permitted` or `rtcp.refused`.
pub fn replay_in_kernel(
    options: Options,
    mss_bytes: u16,
    events: impl IntoIterator<Item = (Event, Progress)>,
    mut seen: impl FnMut(&Progress, &rtcp_detector),
) -> Result<()> {
    let mut object = load::open(OBJECT).map_err(|e| refused(&e))?.load().map_err(|e| refused(&e))?;
    let mut row = rtcp_recorded {
        options,
        mss_bytes: u32::from(mss_bytes),
        event: RTCP_RECORDED_NOTHING,
        ..Default::default()
    };
    run(&mut object, &row)?;
    for (event, now) in events {
        row.now = now;
        row.event = match event {
            Event::Start => RTCP_RECORDED_START,
            Event::Ack => RTCP_RECORDED_ACK,
        };
        seen(&now, &run(&mut object, &row)?);
    }
    Ok(())
}

/// Runs the program on a row; returns the detector's new state.
fn run(object: &mut Object, row: &rtcp_recorded) -> Result<rtcp_detector> {
    let first = 0u32.to_ne_bytes();
    // SAFETY: plain integers without gaps.
    let bytes = unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(row).cast::<u8>(), size_of::<rtcp_recorded>())
    };
    load::map(object, "recorded")?.update(&first, bytes, MapFlags::ANY).map_err(|e| refused(&e))?;
    let program = object.progs_mut().find(|p| p.name() == "replay").ok_or_else(|| load::bug("replay"))?;
    program.test_run(ProgramInput::default()).map_err(|e| refused(&e))?;
    let known = load::map(object, "detector")?.lookup(&first, MapFlags::ANY).map_err(|e| refused(&e))?;
    let known =
        known.filter(|k| k.len() == size_of::<rtcp_detector>()).ok_or_else(|| load::bug("detector"))?;
    // SAFETY: as many bytes as the structure, whose integers may have any value.
    Ok(unsafe { known.as_ptr().cast::<rtcp_detector>().read_unaligned() })
}
