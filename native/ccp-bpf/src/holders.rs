//! Slots per user and per cgroup, counted if there are quotas.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::intf::{self, ccp_holder};
use crate::object::{self, Sizes, load_error};
use crate::pins::Pins;
use crate::shared::Observer;
use crate::{Error, Result};
use ccp_load::bug;

static OBJECT: &[u8] = include_bytes!(env!("CCP_HOLDERS_OBJECT"));

/// Maximum slots per user and per cgroup; None: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    pub per_user: Option<u32>,
    /// Slots of the sockets created in one cgroup (v2), without its descendants.
    pub per_cgroup: Option<u32>,
}

pub(crate) struct Holders {
    pins: Pins,
    sizes: Sizes,
    /// Loaded on first use.
    program: Option<OwnedFd>,
}

/// The kinds of holders in a flow's `info.held`, and their ids.
pub(crate) fn holders_of(info: &intf::ccp_flow_info) -> [(u32, u64); 2] {
    [(intf::CCP_HOLDER_USER, u64::from(info.uid)), (intf::CCP_HOLDER_CGROUP, info.cgroup_id)]
}

impl Holders {
    pub fn new(pins: &Pins, sizes: Sizes) -> Self {
        Holders { pins: pins.clone(), sizes, program: None }
    }

    fn load(&self) -> Result<OwnedFd> {
        let mut open = object::open(OBJECT)?;
        object::share_maps(&mut open, &self.pins, self.sizes)?;
        let object = open.load().map_err(|e| load_error(&e))?;
        let program =
            object.progs().find(|p| p.name() == "change_holder").ok_or_else(|| bug("change_holder"))?;
        program.as_fd().try_clone_to_owned().map_err(|e| {
            Error::new("load.refused", "cannot load the program that counts slots")
                .why(e)
                .fix("see ccp doctor")
        })
    }

    /// Adds or removes a slot. Returns whether it was counted.
    pub fn change(&mut self, kind: u32, id: u64, takes: bool) -> Result<bool> {
        if self.program.is_none() {
            self.program = Some(self.load()?);
        }
        let mut request = ccp_holder { id, kind, takes: takes.into() };
        let mut run = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            ctx_in: (&raw mut request).cast(),
            ctx_size_in: size_of::<ccp_holder>() as u32,
            ..Default::default()
        };
        let program = self.program.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: the options name a request that outlives the call.
        let done = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &raw mut run) };
        if done < 0 {
            return Err(Error::new("load.refused", "cannot count the slots of a user or a cgroup")
                .why(std::io::Error::from_raw_os_error(-done))
                .fix("see ccp doctor, or run without quotas"));
        }
        Ok(!takes || run.retval == 1)
    }

    /// Sets quotas, and counts existing flows not counted yet; holders beyond their quota keep their slots.
    pub fn set(&mut self, shared: &Observer, quotas: Quotas) -> Result<()> {
        let g = shared.globals();
        let maximum = [quotas.per_user.unwrap_or(0), quotas.per_cgroup.unwrap_or(0)];
        // SAFETY: aligned words in the mapping that only agents write. New flows are counted from here on.
        let flows_active = unsafe {
            AtomicU32::from_ptr(&raw mut (*g).flows_per_user).store(maximum[0], Ordering::SeqCst);
            AtomicU32::from_ptr(&raw mut (*g).flows_per_cgroup).store(maximum[1], Ordering::SeqCst);
            ptr::read_volatile(&raw const (*g).flows_active)
        };
        if flows_active == 0 || maximum == [0, 0] {
            return Ok(());
        }
        for flow_id in shared.flow_ids() {
            let Some(info) = shared.info(flow_id) else { continue };
            for ((kind, id), maximum) in holders_of(&info).into_iter().zip(maximum) {
                if maximum == 0 || info.held & kind != 0 || (kind == intf::CCP_HOLDER_CGROUP && id == 0) {
                    continue;
                }
                if self.change(kind, id, true)? && !shared.mark_held(flow_id, kind) {
                    self.change(kind, id, false)?;
                }
            }
        }
        Ok(())
    }
}
