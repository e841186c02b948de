"""The BPF objects in the extension, and what old verifiers say of their loops and of their stacks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\x7fELF\x02\x01\x01"
EM_BPF: Final = 247
SHT_SYMTAB: Final = 2
SHT_REL: Final = 9
SHN_UNDEF: Final = 0
SHF_EXECINSTR: Final = 4
STT_FUNC: Final = 2
HEADER: Final = struct.Struct("<16xHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
RELOCATION: Final = struct.Struct("<QQ")
INSTRUCTION: Final = struct.Struct("<BBhi")

BPF_JMP: Final = 0x05
BPF_JMP32: Final = 0x06
BPF_JA: Final = 0x00
BPF_CALL: Final = 0x80
BPF_EXIT: Final = 0x90
LOAD_64_BITS: Final = 0x18
"""Opcode of the one instruction that takes two places."""
BPF_CLASSES: Final = 0x07
BPF_MEMORY: Final = {0x01: 4, 0x02: 0, 0x03: 0}
"""Classes of instructions that go to memory, and by how much the register of the address is shifted."""
COPY: Final = 0xBF
ADD_NUMBER: Final = 0x07
CALL: Final = 0x85
OF_THE_PROGRAM: Final = 1
"""Source register of calls of functions of the program; other calls are of the kernel."""
FRAME: Final = 10
"""Register with the address of the frame."""
FRAME_STEP_BYTES: Final = 32


@dataclass(frozen=True)
class Function:
    """One function of an object.

    Attributes:
        name: As the compiler has it.
        section: Where it stands: a program has a section that says of what kind it is.
        code: Its instructions.
        place: Number of the section, and where in it the function begins [bytes].
        calls: Places of the functions that it calls.
    """

    name: str
    section: str
    code: bytes
    place: tuple[int, int] = (0, 0)
    calls: tuple[tuple[int, int], ...] = ()


def functions(image: bytes) -> list[Function]:
    """Return the functions of all BPF objects in a file that has them among its data.

    Args:
        image: The file's bytes, such as those of a shared library.
    """
    return [function for one in objects(image) for function in one]


def objects(image: bytes) -> list[list[Function]]:
    """Return the functions of each BPF object in a file, as `functions`."""
    found = []
    at = image.find(MAGIC)
    while at >= 0:
        if int.from_bytes(image[at + 18 : at + 20], "little") == EM_BPF:
            found.append(list(_functions(image[at:])))
        at = image.find(MAGIC, at + 1)
    return found


def _functions(elf: bytes) -> Iterator[Function]:
    header = HEADER.unpack_from(elf)
    place, size, count, names = header[5], header[10], header[11], header[12]
    sections = [SECTION.unpack_from(elf, place + size * number) for number in range(count)]
    elsewhere = _relocated(elf, sections)
    for _, kind, _, _, offset, length, strings, _, _, entry in sections:
        if kind != SHT_SYMTAB:
            continue
        for symbol in range(offset, offset + length, entry):
            name, info, _, index, value, bytes_ = SYMBOL.unpack_from(elf, symbol)
            if info & 0xF != STT_FUNC or not sections[index][2] & SHF_EXECINSTR:
                continue
            begin = sections[index][4] + value
            code = elf[begin : begin + bytes_]
            yield Function(
                _string(elf, sections[strings], name),
                _string(elf, sections[names], sections[index][0]),
                code,
                (index, value),
                tuple(_calls(code, (index, value), elsewhere)),
            )


def _relocated(elf: bytes, sections: list[tuple[int, ...]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return, by place of an instruction, the place of the symbol that it is about."""
    found = {}
    for _, kind, _, _, offset, length, symbols, index, _, entry in sections:
        for one in range(offset, offset + length, entry) if kind == SHT_REL else ():
            at, info = RELOCATION.unpack_from(elf, one)
            symbol = SYMBOL.unpack_from(elf, sections[symbols][4] + (info >> 32) * SYMBOL.size)
            found[index, at] = symbol[3], symbol[4]
    return found


def _calls(
    code: bytes, place: tuple[int, int], elsewhere: dict[tuple[int, int], tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    section, begin = place
    for at in range(0, len(code), INSTRUCTION.size):
        opcode, registers, _, number = INSTRUCTION.unpack_from(code, at)
        if opcode == CALL and registers >> 4 == OF_THE_PROGRAM:
            # The number counts instructions from the next one, or from that in front of the symbol.
            section_there, from_there = elsewhere.get((section, begin + at), (section, begin + at))
            if section_there != SHN_UNDEF:  # else it is the kernel's after all
                yield section_there, from_there + (number + 1) * INSTRUCTION.size


def stack_bytes(code: bytes) -> int:
    """Return how much of its frame a function uses: what it reads and writes, or has an address of."""
    most = 0
    copies = set[int]()
    for at in range(0, len(code), INSTRUCTION.size):
        opcode, registers, offset, number = INSTRUCTION.unpack_from(code, at)
        to, source, kind = registers & 0xF, registers >> 4, opcode & BPF_CLASSES
        if kind in BPF_MEMORY and registers >> BPF_MEMORY[kind] & 0xF == FRAME:
            most = max(most, -offset)
        if opcode == ADD_NUMBER and to in copies:
            most = max(most, -number)
        copies.discard(to)
        if opcode == COPY and source == FRAME:
            copies.add(to)
    return most


def deepest_calls(one_object: list[Function]) -> dict[str, int]:
    """Return, by function, the stack of it and of all that it calls, where that is most [bytes].

    Source: Linux 6.1, kernel/bpf/verifier.c, check_max_stack_depth: each frame counts in steps of 32 bytes.
    """
    by_place = {function.place: function for function in one_object}

    def most(function: Function) -> int:
        steps = max(1, -(-stack_bytes(function.code) // FRAME_STEP_BYTES))
        below = [most(by_place[place]) for place in function.calls]
        return steps * FRAME_STEP_BYTES + max(below, default=0)

    return {function.name: most(function) for function in one_object}


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
