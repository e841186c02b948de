//! eBPF instructions, and an assembler with labels.

/// One instruction in the kernel's little-endian encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn(u64);

impl Insn {
    fn new(code: u8, dst: R, src: R, offset: i16, imm: i32) -> Self {
        let regs = dst.0 | src.0 << 4;
        let low = u64::from(code) | u64::from(regs) << 8 | u64::from(offset as u16) << 16;
        Insn(low | u64::from(imm as u32) << 32)
    }

    /// Returns the eight bytes of the kernel's `struct bpf_insn`.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    fn with_offset(self, offset: i16) -> Self {
        Insn(self.0 & !0xffff_0000 | u64::from(offset as u16) << 16)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct R(pub u8);

pub(super) const R0: R = R(0);
pub(super) const R10: R = R(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Src {
    Reg(R),
    /// Sign-extended to 64 bits.
    Imm(i32),
}

/// Returns a constant as an immediate that is extended to it, if possible.
pub(super) fn imm32(n: u64) -> Option<i32> {
    i32::try_from(n as i64).ok()
}

const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU32: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_JMP32: u8 = 0x06;
const CLASS_ALU64: u8 = 0x07;
const FROM_REG: u8 = 0x08;
const MEM_U32: u8 = 0x60;
const MEM_U64: u8 = 0x78;
const LD_IMM64: u8 = 0x18;

#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Rsh = 0x70,
    Neg = 0x80,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// Conditions of a jump; unsigned unless stated otherwise.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Jmp {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    Ne = 0x50,
    SignedGt = 0x60,
    Lt = 0xa0,
    Le = 0xb0,
}

impl Jmp {
    pub fn negated(self) -> Self {
        match self {
            Jmp::Eq => Jmp::Ne,
            Jmp::Ne => Jmp::Eq,
            Jmp::Gt => Jmp::Le,
            Jmp::Le => Jmp::Gt,
            Jmp::Lt => Jmp::Ge,
            Jmp::Ge => Jmp::Lt,
            Jmp::SignedGt => unreachable!("used for 32-bit numbers only, never inverted"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A jump exceeds its 16-bit offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooFar {
    pub line: u32,
}

#[derive(Default)]
pub(super) struct Asm {
    insns: Vec<Insn>,
    lines: Vec<u32>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    /// Source line of the next instruction.
    pub line: u32,
}

impl Asm {
    fn emit(&mut self, insn: Insn) {
        self.insns.push(insn);
        self.lines.push(self.line);
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.insns.len());
    }

    pub fn alu(&mut self, op: Alu, dst: R, src: Src) {
        self.alu_of(CLASS_ALU64, op, dst, src);
    }

    /// Like [`Asm::alu`] on the lower halves; the upper half of the result is 0.
    pub fn alu32(&mut self, op: Alu, dst: R, src: Src) {
        self.alu_of(CLASS_ALU32, op, dst, src);
    }

    fn alu_of(&mut self, class: u8, op: Alu, dst: R, src: Src) {
        self.emit(match src {
            Src::Reg(src) => Insn::new(class | op as u8 | FROM_REG, dst, src, 0, 0),
            Src::Imm(imm) => Insn::new(class | op as u8, dst, R0, 0, imm),
        });
    }

    pub fn mov(&mut self, dst: R, src: R) {
        if dst != src {
            self.alu(Alu::Mov, dst, Src::Reg(src));
        }
    }

    pub fn set(&mut self, dst: R, n: u64) {
        match imm32(n) {
            Some(imm) => self.alu(Alu::Mov, dst, Src::Imm(imm)),
            None => {
                self.emit(Insn::new(LD_IMM64, dst, R0, 0, n as i32));
                self.emit(Insn::new(0, R0, R0, 0, (n >> 32) as i32));
            }
        }
    }

    pub fn load(&mut self, dst: R, base: R, offset: i16) {
        self.emit(Insn::new(CLASS_LDX | MEM_U64, dst, base, offset, 0));
    }

    pub fn store(&mut self, base: R, offset: i16, src: Src) {
        self.emit(match src {
            Src::Reg(src) => Insn::new(CLASS_STX | MEM_U64, base, src, offset, 0),
            Src::Imm(imm) => Insn::new(CLASS_ST | MEM_U64, base, R0, offset, imm),
        });
    }

    pub fn store_u32(&mut self, base: R, offset: i16, src: R) {
        self.emit(Insn::new(CLASS_STX | MEM_U32, base, src, offset, 0));
    }

    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.emit(Insn::new(CLASS_JMP, R0, R0, 0, 0));
    }

    pub fn jump_if(&mut self, jmp: Jmp, left: R, right: Src, to: Label) {
        self.jump_if_of(CLASS_JMP, jmp, left, right, to);
    }

    /// Like [`Asm::jump_if`] on the lower halves.
    pub fn jump32_if(&mut self, jmp: Jmp, left: R, right: Src, to: Label) {
        self.jump_if_of(CLASS_JMP32, jmp, left, right, to);
    }

    fn jump_if_of(&mut self, class: u8, jmp: Jmp, left: R, right: Src, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.emit(match right {
            Src::Reg(right) => Insn::new(class | jmp as u8 | FROM_REG, left, right, 0, 0),
            Src::Imm(imm) => Insn::new(class | jmp as u8, left, R0, 0, imm),
        });
    }

    pub fn finish(mut self) -> Result<(Vec<Insn>, Vec<u32>), TooFar> {
        for (from, Label(label)) in self.jumps {
            let to = self.labels[label].expect("every label that is jumped to is placed");
            let distance = to as i64 - from as i64 - 1;
            let offset = i16::try_from(distance).map_err(|_| TooFar { line: self.lines[from] })?;
            self.insns[from] = self.insns[from].with_offset(offset);
        }
        Ok((self.insns, self.lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings as in the kernel's Documentation/bpf/standardization/instruction-set.rst.
    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let mut asm = Asm::default();
        let end = asm.label();
        asm.alu(Alu::Add, R(1), Src::Reg(R(2)));
        asm.set(R(3), 0x1_0000_0002);
        asm.load(R(4), R(6), -8);
        asm.jump_if(Jmp::Lt, R(1), Src::Imm(-1), end);
        asm.store(R(6), 16, Src::Imm(7));
        asm.place(end);
        let (insns, _) = asm.finish().unwrap();
        let bytes: Vec<[u8; 8]> = insns.iter().map(|i| i.to_u64().to_le_bytes()).collect();
        assert_eq!(
            bytes,
            [
                [0x0f, 0x21, 0, 0, 0, 0, 0, 0],
                [0x18, 0x03, 0, 0, 2, 0, 0, 0],
                [0x00, 0x00, 0, 0, 1, 0, 0, 0],
                [0x79, 0x64, 0xf8, 0xff, 0, 0, 0, 0],
                [0xa5, 0x01, 1, 0, 0xff, 0xff, 0xff, 0xff],
                [0x7a, 0x06, 16, 0, 7, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn a_jump_that_is_too_long_is_refused_with_its_line() {
        let mut asm = Asm { line: 7, ..Asm::default() };
        let end = asm.label();
        asm.jump(end);
        asm.line = 8;
        for _ in 0..=i16::MAX as usize {
            asm.set(R0, 0);
        }
        asm.place(end);
        assert_eq!(asm.finish(), Err(TooFar { line: 7 }));
    }

    #[test]
    fn immediates_are_those_that_sign_extension_restores() {
        assert_eq!(imm32(0x7fff_ffff), Some(0x7fff_ffff));
        assert_eq!(imm32(0x8000_0000), None);
        assert_eq!(imm32(u64::MAX), Some(-1));
    }
}
