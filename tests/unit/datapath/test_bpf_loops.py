"""Loops of the BPF programs, laid out so that the verifiers of all supported kernels take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.base import _native
from tests.unit.datapath.bpf_objects import INSTRUCTION, back_edges, functions

ADD, JUMP_IF_NOT_ZERO, JUMP, LOAD_64_BITS, CALL, EXIT = 0x07, 0x55, 0x05, 0x18, 0x85, 0x95


def code(*instructions: tuple[int, int]) -> bytes:
    """Encode instructions of which only the opcode and the offset matter."""
    return b"".join(INSTRUCTION.pack(opcode, 1, offset, 0) for opcode, offset in instructions)


@pytest.mark.kernel_part
def test_no_loop_that_verifiers_before_6_4_refuse() -> None:
    found = functions(Path(str(_native.__file__)).read_bytes())
    one_of_each_crate = {"ccp_cong_control", "on_egress", "on_event", "on_segment"}
    assert one_of_each_crate <= {one.name for one in found}
    refused = {f"{one.section} {one.name}": edges for one in found if (edges := back_edges(one.code))}
    assert not refused, "write the loop so that its code begins at its beginning, or unroll it"


@pytest.mark.parametrize(
    ("instructions", "edges"),
    [
        ([(ADD, 0), (JUMP_IF_NOT_ZERO, -2), (EXIT, 0)], []),
        ([(ADD, 0), (JUMP, -2), (EXIT, 0)], []),
        # the loop is entered in its middle, and its end falls through to there
        ([(JUMP, 1), (ADD, 0), (ADD, 0), (JUMP_IF_NOT_ZERO, -3), (EXIT, 0)], [(1, 2)]),
        ([(JUMP, 1), (CALL, 0), (ADD, 0), (JUMP_IF_NOT_ZERO, -3), (EXIT, 0)], [(1, 2)]),
        ([(JUMP, 2), (LOAD_64_BITS, 0), (0, 0), (ADD, 0), (JUMP_IF_NOT_ZERO, -4), (EXIT, 0)], [(1, 3)]),
        ([(JUMP, 1), (JUMP, 0), (ADD, 0), (JUMP_IF_NOT_ZERO, -3), (EXIT, 0)], []),
        # two ways to one place are no loop
        ([(JUMP_IF_NOT_ZERO, 1), (ADD, 0), (ADD, 0), (EXIT, 0)], []),
    ],
)
def test_back_edges_are_told_from_jumps(
    instructions: list[tuple[int, int]], edges: list[tuple[int, int]]
) -> None:
    assert back_edges(code(*instructions)) == edges
