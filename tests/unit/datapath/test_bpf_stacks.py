"""Stacks of the BPF programs: what verifiers of all supported kernels take."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.base import _native
from tests.unit.datapath.bpf_objects import INSTRUCTION, Function, deepest_calls, objects, stack_bytes

MOST_BYTES = 512
"""Of all frames of a chain of calls: MAX_BPF_STACK."""
STORE, LOAD, COPY, ADD, CALL, EXIT = 0x7B, 0x79, 0xBF, 0x07, 0x85, 0x95
FRAME = 10


def code(*instructions: tuple[int, int, int, int, int]) -> bytes:
    """Encode instructions: opcode, destination, source, offset, number."""
    return b"".join(
        INSTRUCTION.pack(opcode, source << 4 | to, offset, number)
        for opcode, to, source, offset, number in instructions
    )


@pytest.mark.kernel_part
def test_no_chain_of_calls_needs_more_than_linux_6_1_has() -> None:
    found = objects(Path(str(_native.__file__)).read_bytes())
    depths = [deepest_calls(one) for one in found]
    assert any("on_ingress" in one for one in depths)
    too_deep = {name: depth for one in depths for name, depth in one.items() if depth > MOST_BYTES}
    assert not too_deep, "let a map hold what is large, or a function of its own"


def test_a_frame_is_as_large_as_what_is_farthest_in_it() -> None:
    assert stack_bytes(code((STORE, FRAME, 1, -16, 0), (LOAD, 1, FRAME, -24, 0), (EXIT, 0, 0, 0, 0))) == 24
    assert stack_bytes(code((COPY, 2, FRAME, 0, 0), (ADD, 2, 0, 0, -40), (EXIT, 0, 0, 0, 0))) == 40
    assert stack_bytes(code((COPY, 2, 1, 0, 0), (ADD, 2, 0, 0, -40), (STORE, 2, 1, -96, 0))) == 0


def test_frames_of_a_chain_count_in_steps_and_the_deepest_chain_counts() -> None:
    leaf = code((STORE, FRAME, 1, -33, 0), (EXIT, 0, 0, 0, 0))
    small = code((EXIT, 0, 0, 0, 0))
    calls = code((STORE, FRAME, 1, -8, 0), (EXIT, 0, 0, 0, 0))
    chain = [
        Function("leaf", ".text", leaf, (1, 0)),
        Function("small", ".text", small, (1, 16)),
        Function("program", "tc", calls, (2, 0), ((1, 16), (1, 0))),
    ]
    assert deepest_calls(chain) == {"leaf": 64, "small": 32, "program": 96}
