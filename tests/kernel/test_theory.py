"""The laws of TCP on real sockets, over emulated links.

Measured on Linux 6.18 with 2 cores, on two days, as deviation from the law:

| | kernel | ccplane |
| --- | --- | --- |
| Reno, Mathis law | -12 % to 0 % | -7 % to +2 % |
| CUBIC, RFC 9438 §5.1 | -13 % to +20 % | -9 % to -2 % |
"""

from __future__ import annotations

import pytest

from tests.laws import Laws

pytestmark = [pytest.mark.alone, pytest.mark.long]  # many flows at once; daily: in the simulator


class TestLawsOnTheKernel(Laws):
    datapath = "ebpf"
