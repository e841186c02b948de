//! Loads a compiled fold as a kernel program.
//!
//! The body comes from `ccp-lang`. Around it stands a prologue that finds the flow of the socket, and an epilogue
//! that hands over to `ccp_finish_*` (a tail call) only when there is something to apply or to report.

use std::ffi::CString;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use ccp_lang::{Layout, Program};

use crate::intf::{CCP_FLOW_MSS as FLOW_MSS, ccp_flow};
use crate::intf::{
    CCP_IMPL_CWND as IMPL_CWND, CCP_IMPL_RATE as IMPL_RATE, CCP_IMPL_SHOULD_REPORT as IMPL_REPORT,
};
use crate::kernel::Kernel;
use crate::{Error, Result};

const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R6: u8 = 6;
const R7: u8 = 7;
const R10: u8 = 10;

const LDX_W: u8 = 0x61;
const LDX_DW: u8 = 0x79;
const STX_W: u8 = 0x63;
const STX_DW: u8 = 0x7b;
const MOV_K: u8 = 0xb7;
const MOV_X: u8 = 0xbf;
const ADD_K: u8 = 0x07;
const SUB_X: u8 = 0x1f;
const ADD32_K: u8 = 0x04;
const JNE_K: u8 = 0x55;
const JNE_X: u8 = 0x5d;
const JGE_X: u8 = 0x3d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LD_IMM64: u8 = 0x18;
const PSEUDO_MAP_FD: u8 = 1;
const HELPER_MAP_LOOKUP: i32 = 1;
const HELPER_TAIL_CALL: i32 = 12;

/// Offset in `struct ccp_flow`, which fits an instruction's 16 bits by construction (checked at compile time).
const fn field(offset: usize) -> i16 {
    assert!(offset <= i16::MAX as usize);
    offset as i16
}

const fn imp(index: u32) -> i16 {
    field(offset_of!(ccp_flow, impl_) + 8 * index as usize)
}

const PRIM: i16 = field(offset_of!(ccp_flow, prim));

/// Where a fold finds its registers.
pub(crate) const LAYOUT: Layout = Layout {
    prim: PRIM,
    control: field(offset_of!(ccp_flow, control)),
    local: field(offset_of!(ccp_flow, local)),
    report: field(offset_of!(ccp_flow, report)),
    imp: imp(0),
    time_zero_us: field(offset_of!(ccp_flow, time_zero_us)),
    fold_error: field(offset_of!(ccp_flow, fold_error)),
};

const fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> u64 {
    opcode as u64 | ((src << 4 | dst) as u64) << 8 | (off as u16 as u64) << 16 | (imm as u32 as u64) << 32
}

fn load_map(code: &mut Vec<u64>, dst: u8, fd: BorrowedFd<'_>) {
    code.push(insn(LD_IMM64, dst, PSEUDO_MAP_FD, 0, fd.as_raw_fd()));
    code.push(0);
}

/// What a fold needs from the loaded datapath, for one `struct_ops` member.
pub(crate) struct Place<'a> {
    /// `cong_control` or `set_state`.
    pub member: &'a str,
    pub flows: BorrowedFd<'a>,
    pub finish: BorrowedFd<'a>,
}

/// The whole program, and the index at which the body begins.
fn assemble(body: &[u64], slot_offset: u32, place: &Place<'_>) -> (Vec<u64>, usize) {
    let mut code = vec![
        insn(MOV_X, R7, R1, 0, 0),
        insn(LDX_DW, R1, R7, 0, 0), // sk, the first argument of both members
        insn(LDX_W, R1, R1, slot_offset as i16, 0),
        insn(ADD32_K, R1, 0, 0, -1),
        insn(STX_W, R10, R1, -8, 0),
    ];
    load_map(&mut code, R1, place.flows);
    code.extend([
        insn(MOV_X, R2, R10, 0, 0),
        insn(ADD_K, R2, 0, 0, -8),
        insn(CALL, 0, 0, 0, HELPER_MAP_LOOKUP),
        insn(JNE_K, R0, 0, 2, 0),
        insn(MOV_K, R0, 0, 0, 0),
        insn(EXIT, 0, 0, 0, 0),
        insn(MOV_X, R6, R0, 0, 0),
    ]);
    let body_at = code.len();
    code.extend_from_slice(body);
    // Nothing to do while the window stays within the same segment, the rate is the same and no report is due.
    const CWND: i16 = field(offset_of!(ccp_flow, cwnd_bytes));
    const FLOOR: i16 = field(offset_of!(ccp_flow, cwnd_floor_bytes));
    const RATE: i16 = field(offset_of!(ccp_flow, rate_bytes_per_s));
    let checks = [
        insn(JNE_K, R0, 0, 13, 0),
        insn(LDX_DW, R1, R6, imp(IMPL_REPORT), 0),
        insn(JNE_K, R1, 0, 11, 0),
        insn(LDX_DW, R1, R6, imp(IMPL_CWND), 0),
        insn(MOV_X, R2, R1, 0, 0),
        insn(LDX_DW, R3, R6, FLOOR, 0),
        insn(SUB_X, R2, R3, 0, 0),
        insn(LDX_DW, R4, R6, PRIM + 8 * FLOW_MSS as i16, 0),
        insn(JGE_X, R2, R4, 5, 0), // also when the window is below: the difference wraps
        insn(STX_DW, R6, R1, CWND, 0),
        insn(LDX_DW, R1, R6, imp(IMPL_RATE), 0),
        insn(LDX_DW, R2, R6, RATE, 0),
        insn(JNE_X, R1, R2, 1, 0),
        insn(EXIT, 0, 0, 0, 0), // R0 is 0 here
    ];
    code.extend(checks);
    code.push(insn(MOV_X, R1, R7, 0, 0));
    load_map(&mut code, R2, place.finish);
    code.extend([
        insn(MOV_K, R3, 0, 0, 0),
        insn(CALL, 0, 0, 0, HELPER_TAIL_CALL),
        insn(MOV_K, R0, 0, 0, 0),
        insn(EXIT, 0, 0, 0, 0),
    ]);
    (code, body_at)
}

fn kernel_name(program: &Program) -> CString {
    let name: String = format!("fold_{}", program.uid).chars().take(15).collect();
    CString::new(name).unwrap_or_default()
}

/// The verifier's last words, and the index of the instruction it looked at then.
fn complaint(log: &str) -> (&str, Option<usize>) {
    let lines = || log.lines().rev().map(str::trim_end);
    let noise = ["processed ", "verification time", "stack depth", "insns processed"];
    let reason = lines().find(|l| !l.is_empty() && !noise.iter().any(|n| l.starts_with(n))).unwrap_or("");
    let at = lines().find_map(|l| l.split_once(": (").and_then(|(index, _)| index.parse().ok()));
    (reason, at)
}

fn refused(program: &Program, errno: i32, log: &str, body_at: usize, lines: &[u32]) -> Error {
    let os = std::io::Error::from_raw_os_error(errno);
    let (reason, at) = complaint(log);
    let line = at.and_then(|insn| lines.get(insn.checked_sub(body_at)?));
    let place = line.map_or_else(
        || format!("{}, program \"{}\"", program.origin, program.name),
        |line| format!("{}:{line}, program \"{}\"", program.origin, program.name),
    );
    let error = Error::new("verifier.refused", "the kernel's verifier refused the fold program").at(place);
    if errno == libc::EPERM || errno == libc::EACCES && log.is_empty() {
        return error.why(os).fix("run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
    }
    let saved = save_log(program, log);
    error
        .why(format!("{os}: {reason}"))
        .fix(format!("make the program smaller or simpler; the whole log is in {saved}"))
}

fn save_log(program: &Program, log: &str) -> String {
    let path = std::env::temp_dir().join(format!("ccp-verifier-{}-{}.log", std::process::id(), program.uid));
    match std::fs::write(&path, log) {
        Ok(()) => path.display().to_string(),
        Err(e) => format!("nowhere ({e})"),
    }
}

/// Compiles, assembles and loads a fold for one member.
pub(crate) fn load(program: &Program, kernel: &Kernel, place: &Place<'_>) -> Result<OwnedFd> {
    let (body, lines) = ccp_lang::codegen_with_lines(program, &LAYOUT).map_err(|e| {
        let place = format!("{}:{}, program \"{}\"", program.origin, e.line, program.name);
        Error::new(e.slug, e.message.clone()).at(place).why(&e.why).fix(e.fix.clone())
    })?;
    let body: Vec<u64> = body.iter().map(|insn| insn.to_u64()).collect();
    let (code, body_at) = assemble(&body, kernel.slot_offset, place);
    let name = kernel_name(program);
    let try_load = |log: &mut [u8]| {
        let mut opts = libbpf_sys::bpf_prog_load_opts {
            sz: std::mem::size_of::<libbpf_sys::bpf_prog_load_opts>() as u64,
            expected_attach_type: kernel.member(place.member)?,
            attach_btf_id: kernel.ops_type_id,
            ..Default::default()
        };
        if !log.is_empty() {
            opts.log_level = 1;
            opts.log_size = log.len() as u32;
            opts.log_buf = log.as_mut_ptr().cast();
        }
        // SAFETY: name, code and log outlive the call; their lengths are given.
        Ok(unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_STRUCT_OPS,
                name.as_ptr(),
                c"GPL".as_ptr(),
                code.as_ptr().cast(),
                code.len() as u64,
                &raw mut opts,
            )
        })
    };
    let mut fd = try_load(&mut [])?;
    if fd < 0 {
        let mut log = vec![0u8; 4 << 20];
        fd = try_load(&mut log)?;
        if fd < 0 {
            let end = log.iter().position(|b| *b == 0).unwrap_or(0);
            return Err(refused(program, -fd, &String::from_utf8_lossy(&log[..end]), body_at, &lines));
        }
    }
    // SAFETY: a fresh descriptor, ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks the kernel's verifier about a program without a loaded datapath, and leaves nothing behind.
pub fn verify(program: &Program) -> Result<()> {
    let kernel = Kernel::read()?;
    let map = |kind, value_size: usize| -> Result<OwnedFd> {
        // SAFETY: plain numbers; no options.
        let fd = unsafe {
            libbpf_sys::bpf_map_create(
                kind,
                c"ccp_verify".as_ptr(),
                4,
                value_size as u32,
                1,
                std::ptr::null(),
            )
        };
        if fd < 0 {
            return Err(Error::new("load.no_permission", "cannot ask the kernel's verifier")
                .why(std::io::Error::from_raw_os_error(-fd))
                .fix("run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"));
        }
        // SAFETY: a fresh descriptor, ours alone.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    use std::os::fd::AsFd;
    let flows = map(libbpf_sys::BPF_MAP_TYPE_ARRAY, std::mem::size_of::<ccp_flow>())?;
    for member in ["cong_control", "set_state"] {
        let finish = map(libbpf_sys::BPF_MAP_TYPE_PROG_ARRAY, 4)?;
        load(program, &kernel, &Place { member, flows: flows.as_fd(), finish: finish.as_fd() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn the_verifiers_last_words_and_place_are_found() {
        let log = "0: R1=ctx() R10=fp0\n0: (bf) r7 = r1\n12: (79) r1 = *(u64 *)(r0 +0)\nR0 invalid mem access 'scalar'\n\
                   processed 12 insns (limit 1000000) max_states_per_insn 0\n";
        assert_eq!(complaint(log), ("R0 invalid mem access 'scalar'", Some(12)));
        assert_eq!(complaint(""), ("", None));
    }
}
