//! The program around a fold (`bpf/fold.bpf.c`), fitted to the running kernel by libbpf, and the insertion of the fold.

use std::sync::{Mutex, PoisonError};

use ccp_load::EchoPin;
use libbpf_rs::Object;

use crate::intf;
use crate::kernel::Kernel;
use crate::object::{self, Sizes};
use crate::pins::Pins;
use crate::{Error, Result};

static OBJECT: &[u8] = include_bytes!(env!("CCP_FOLD_OBJECT"));

const MOV_K: u8 = 0xb7;
const MOV_X: u8 = 0xbf;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PSEUDO_CALL: u8 = 1;

/// One `struct bpf_insn`.
pub(crate) const fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> u64 {
    opcode as u64 | ((src << 4 | dst) as u64) << 8 | (off as u16 as u64) << 16 | (imm as u32 as u64) << 32
}

fn imm(insn: u64) -> i32 {
    (insn >> 32) as u32 as i32
}

fn with_imm(insn: u64, imm: i32) -> u64 {
    insn & 0xffff_ffff | u64::from(imm as u32) << 32
}

fn laid_out_otherwise(what: &str) -> Error {
    Error::new("load.object", format!("the BPF program that runs fold programs {what}"))
        .why("the compiler produced an unknown layout")
        .fix("build ccplane with clang 14 to 19, or report this as a bug")
}

/// The program for one member of `tcp_congestion_ops`.
pub(crate) struct Frame {
    pub member: &'static str,
    /// Instructions before the function that the fold replaces.
    insns: Vec<u64>,
}

/// The frames of one datapath. They refer to its maps by descriptors that the object holds.
pub(crate) struct Frames {
    frames: Vec<Frame>,
    _object: Object,
    echoes: Mutex<Option<EchoPin>>,
}

impl Frame {
    fn new(member: &'static str, insns: &[libbpf_sys::bpf_insn]) -> Result<Self> {
        let insns: Vec<u64> =
            insns.iter().map(|i| insn(i.code, i.dst_reg(), i.src_reg(), i.off, i.imm)).collect();
        let calls: Vec<usize> = (0..insns.len())
            .filter(|&i| insns[i] as u8 == CALL && (insns[i] >> 12 & 0xf) as u8 == PSEUDO_CALL)
            .collect();
        let [call] = calls[..] else {
            return Err(laid_out_otherwise(&format!("calls {} functions, not one", calls.len())));
        };
        let callee = (call as i64 + 1 + i64::from(imm(insns[call]))) as usize;
        // mov, exit: the function comes last, and is unchanged.
        if callee + 2 != insns.len() || insns[callee + 1] as u8 != EXIT {
            return Err(laid_out_otherwise("does not end with the fold's place"));
        }
        Ok(Frame { member, insns: insns[..callee].to_vec() })
    }

    /// Returns the complete program, and the index at which the fold's code begins.
    pub fn around(&self, body: &[u64], prims_used: u64) -> (Vec<u64>, usize) {
        let magic = intf::CCP_MAGIC_PRIM as i32;
        // One more bit: whether the fold reads primitives of an echo of the path.
        let of_path = u64::from(prims_used >> intf::CCP_INT_AGE_US != 0) << intf::CCP_PRIM_COUNT;
        let reads = prims_used | of_path;
        let mut code: Vec<u64> = Vec::with_capacity(self.insns.len() + body.len() + 3);
        code.extend(self.insns.iter().map(|&i| {
            let prim = imm(i).wrapping_sub(magic);
            if i as u8 == MOV_K && (0..=intf::CCP_PRIM_COUNT as i32).contains(&prim) {
                with_imm(i, (reads >> prim & 1) as i32)
            } else {
                i
            }
        }));
        code.extend([insn(MOV_X, 6, 1, 0, 0), insn(MOV_X, 7, 2, 0, 0)]);
        let body_at = code.len();
        code.extend_from_slice(body);
        code.push(insn(EXIT, 0, 0, 0, 0));
        (code, body_at)
    }
}

impl Frames {
    /// Closes the map shared with nodes of in-band telemetry, so that it can be removed.
    pub fn release(&self) {
        *self.echoes.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Fits the frames to the running kernel. `pins` belong to the datapath of the flows; without pins, the
    /// programs can only be verified.
    pub fn new(kernel: &Kernel, pins: Option<(&Pins, Sizes)>) -> Result<Self> {
        let mut open = object::open(OBJECT)?;
        let mut echoes = None;
        if let Some((pins, sizes)) = pins {
            object::share_maps(&mut open, pins, sizes)?;
            let shared = EchoPin::begin(pins.shared()).map_err(|e| pins.not_made(e))?;
            shared.share(&mut open).map_err(|e| object::load_error(&e))?;
            echoes = Some(shared);
        }
        let [fitting, other] = if kernel.cong_control_has_flag {
            ["fold_on_ack", "fold_on_ack_6_9"]
        } else {
            ["fold_on_ack_6_9", "fold_on_ack"]
        };
        object::fit_members(&mut open, kernel, "ccp_fold", &[("cong_control", Some(fitting))], &[])?;
        for mut program in open.progs_mut().filter(|p| p.name() == other) {
            program.set_autoload(false);
        }
        let object = open.load().map_err(|e| object::load_error(&e))?;
        let frame = |member, name: &str| {
            let program = object
                .progs()
                .find(|p| p.name() == name)
                .ok_or_else(|| laid_out_otherwise("is not there"))?;
            Frame::new(member, program.insns())
        };
        let frames = vec![frame("cong_control", fitting)?, frame("set_state", "fold_on_timeout")?];
        Ok(Frames { frames, _object: object, echoes: Mutex::new(echoes) })
    }

    /// The frames for ACKs and for timeouts.
    pub fn all(&self) -> &[Frame] {
        &self.frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: [u64; 4] = [
        insn(MOV_K, 1, 0, 0, intf::CCP_MAGIC_PRIM as i32 + 3),
        insn(CALL, 0, PSEUDO_CALL, 0, 1),
        insn(EXIT, 0, 0, 0, 0),
        insn(MOV_K, 0, 0, 0, 0),
    ];

    fn raw(insns: &[u64]) -> Vec<libbpf_sys::bpf_insn> {
        // SAFETY: an instruction is eight bytes, in this order.
        insns.iter().map(|i| unsafe { std::mem::transmute::<u64, libbpf_sys::bpf_insn>(*i) }).collect()
    }

    #[test]
    fn a_fold_takes_the_place_of_the_last_function() {
        let mut insns = CALLS.to_vec();
        insns.push(insn(EXIT, 0, 0, 0, 0));
        let frame = Frame::new("cong_control", &raw(&insns)).unwrap();
        for (used, known) in [(1 << 3, 1), (!(1 << 3), 0)] {
            let (code, at) = frame.around(&[insn(MOV_K, 0, 0, 0, 42)], used);
            assert_eq!(imm(code[0]), known);
            assert_eq!(code[1..3], insns[1..3]);
            assert_eq!(at, 5);
            assert_eq!(code[at..], [insn(MOV_K, 0, 0, 0, 42), insn(EXIT, 0, 0, 0, 0)]);
        }
    }

    #[test]
    fn what_a_socket_was_reported_of_its_path_is_looked_up_only_if_the_fold_reads_any_of_it() {
        let mut insns = CALLS.to_vec();
        insns.push(insn(EXIT, 0, 0, 0, 0));
        insns[0] = insn(MOV_K, 1, 0, 0, (intf::CCP_MAGIC_PRIM + intf::CCP_PRIM_COUNT) as i32);
        let frame = Frame::new("cong_control", &raw(&insns)).unwrap();
        let last = 1 << (intf::CCP_PRIM_COUNT - 1);
        let others = (1 << intf::CCP_INT_AGE_US) - 1;
        for (used, known) in [(0, 0), (others, 0), (1 << intf::CCP_INT_AGE_US, 1), (last, 1)] {
            assert_eq!(imm(frame.around(&[], used).0[0]), known);
        }
    }

    #[test]
    fn a_frame_that_the_compiler_laid_out_otherwise_is_refused() {
        let mut twice = CALLS.to_vec();
        twice[0] = CALLS[1];
        for insns in [&CALLS[..2], &twice, &CALLS[2..]] {
            assert_eq!(Frame::new("cong_control", &raw(insns)).err().unwrap().slug, "load.object");
        }
    }
}
