"""The laws of TCP on real sockets, over emulated links.

Measured on Linux 6.18 with 2 cores, as deviation from the law:

| | kernel | ccplane |
| --- | --- | --- |
| Reno, Mathis law | -9 % to -12 % | -1 % to -7 % |
| CUBIC, RFC 9438 §5.1 | -13 % to +20 % | -4 % to -9 % |
"""

from __future__ import annotations

import pytest

from tests.laws import Laws

pytestmark = pytest.mark.alone  # many flows at once


class TestLawsOnTheKernel(Laws):
    datapath = "ebpf"
