"""The BPF objects in the extension, and what verifiers that are older than Linux 6.4 say of their loops."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\x7fELF\x02\x01\x01"
EM_BPF: Final = 247
SHT_SYMTAB: Final = 2
SHF_EXECINSTR: Final = 4
STT_FUNC: Final = 2
HEADER: Final = struct.Struct("<16xHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
INSTRUCTION: Final = struct.Struct("<BBhi")

BPF_JMP: Final = 0x05
BPF_JMP32: Final = 0x06
BPF_JA: Final = 0x00
BPF_CALL: Final = 0x80
BPF_EXIT: Final = 0x90
LOAD_64_BITS: Final = 0x18
"""Opcode of the one instruction that takes two places."""


@dataclass(frozen=True)
class Function:
    """One function of an object.

    Attributes:
        name: As the compiler has it.
        section: Where it stands: a program has a section that says of what kind it is.
        code: Its instructions.
    """

    name: str
    section: str
    code: bytes


def functions(image: bytes) -> list[Function]:
    """Return the functions of all BPF objects in a file that has them among its data.

    Args:
        image: The file's bytes, such as those of a shared library.
    """
    found = []
    at = image.find(MAGIC)
    while at >= 0:
        if int.from_bytes(image[at + 18 : at + 20], "little") == EM_BPF:
            found += _functions(image[at:])
        at = image.find(MAGIC, at + 1)
    return found


def _functions(elf: bytes) -> Iterator[Function]:
    header = HEADER.unpack_from(elf)
    place, size, count, names = header[5], header[10], header[11], header[12]
    sections = [SECTION.unpack_from(elf, place + size * number) for number in range(count)]
    for _, kind, _, _, offset, length, strings, _, _, entry in sections:
        if kind != SHT_SYMTAB:
            continue
        for symbol in range(offset, offset + length, entry):
            name, info, _, index, value, bytes_ = SYMBOL.unpack_from(elf, symbol)
            if info & 0xF != STT_FUNC or not sections[index][2] & SHF_EXECINSTR:
                continue
            begin = sections[index][4] + value
            yield Function(
                _string(elf, sections[strings], name),
                _string(elf, sections[names], sections[index][0]),
                elf[begin : begin + bytes_],
            )


def _string(elf: bytes, table: tuple[int, ...], offset: int) -> str:
    begin = table[4] + offset
    return elf[begin : elf.index(b"\0", begin)].decode()


def back_edges(code: bytes) -> list[tuple[int, int]]:
    """Return the edges that go back without a jump, from and to the number of an instruction.

    A loop that its code enters in the middle has one: the end of its body falls through to its beginning. The
    verifier takes back edges of jumps; those it refuses.

    Source: Linux 6.1, kernel/bpf/verifier.c, check_cfg: `push_insn` with `loop_ok` false.
    """
    found = []
    on_path, done = set[int](), set[int]()
    stack = [(0, _edges(code, 0))]
    on_path.add(0)
    while stack:
        here, edges = stack[-1]
        following = next(edges, None)
        if following is None:
            stack.pop()
            on_path.discard(here)
            done.add(here)
            continue
        there, is_jump = following
        if there in on_path and not is_jump:
            found.append((here, there))
        elif there not in on_path and there not in done:
            on_path.add(there)
            stack.append((there, _edges(code, there)))
    return found


def _edges(code: bytes, number: int) -> Iterator[tuple[int, bool]]:
    """Go through what may follow an instruction, in the verifier's order, and whether by a jump."""
    opcode, _, offset, _ = INSTRUCTION.unpack_from(code, number * INSTRUCTION.size)
    kind, operation = opcode & 0x07, opcode & 0xF0
    if kind not in (BPF_JMP, BPF_JMP32) or operation == BPF_CALL:
        yield number + (2 if opcode == LOAD_64_BITS else 1), False
    elif operation == BPF_JA:
        yield number + 1 + offset, True
    elif operation != BPF_EXIT:
        yield number + 1, True
        yield number + 1 + offset, True
