"""A fold program at work on one connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ccplane.base import native
from ccplane.base.errors import CcpError

if TYPE_CHECKING:
    from ccplane.base._native import Program

NO_RATE_BYTES_PER_S: Final = 0xFFFF_FFFF
"""A rate from here on is none, as for libccp."""

WINDOW_AND_RATE: Final = frozenset({"cwnd_bytes", "rate_bytes_per_s"})
"""What every program has beside its control registers."""


class Fold:
    """A program and its registers, and what it and its agent decided.

    Attributes:
        number: The program's.
    """

    def __init__(
        self, number: int, program: Program, cwnd_bytes: int, rate_bytes_per_s: int, now_us: int
    ) -> None:
        """Start a program.

        Args:
            number: The agent's number for it.
            program: What `Program.from_bytecode` made of it.
            cwnd_bytes: The window that there is [bytes].
            rate_bytes_per_s: The rate that the program before left [bytes/s]; 0: none.
            now_us: Time since the flow began [µs].
        """
        self.number = number
        self._machine = native.Interpreter(program, now_us)
        self._machine.cwnd_bytes, self._machine.rate_bytes_per_s = cwnd_bytes, rate_bytes_per_s
        self._fields = program.report_fields
        self._known = WINDOW_AND_RATE.union(program.control_registers)

    @property
    def rate_bytes_per_s(self) -> int:
        """The rate [bytes/s]; 0 if none was set."""
        return self._machine.rate_bytes_per_s

    def set(self, values: Mapping[str, int]) -> None:
        """Do what the agent wants: all of it, or nothing.

        Args:
            values: As `wire.values` gives them.

        Raises:
            CcpError: `register.unknown`.
        """
        if unknown := values.keys() - self._known:
            raise CcpError(
                "register.unknown",
                f"program {self.number} has no control register {', '.join(sorted(unknown))}",
                why=f"it has {', '.join(sorted(self._known - WINDOW_AND_RATE)) or 'none'}",
                fix="declare it in the program, outside of Report",
            )
        for name, value in values.items():
            if name in WINDOW_AND_RATE:
                setattr(self._machine, name, value)
            else:
                self._machine.set(name, value)

    def run(self, now_us: int, primitives: Mapping[str, int]) -> Sequence[int] | None:
        """Run the program once. An operator that stops it leaves window and rate, as does a 0.

        Args:
            now_us: Time since the flow began [µs].
            primitives: By name; those that are not given are 0, or no sample.

        Returns:
            The Report registers, if it reports.
        """
        before = self._machine.cwnd_bytes, self._machine.rate_bytes_per_s
        try:
            report = self._machine.ack(now_us, dict(primitives))
        except ArithmeticError:
            self._machine.cwnd_bytes, self._machine.rate_bytes_per_s = before
            return None
        self._machine.cwnd_bytes = self._machine.cwnd_bytes or before[0]
        self._machine.rate_bytes_per_s = self._machine.rate_bytes_per_s or before[1]
        return None if report is None else [report[name] for name in self._fields]

    def window_bytes(self, srtt_us: int, least_bytes: int) -> int:
        """Return the window [bytes]: the program's, or what its rate needs for one SRTT; the smaller one.

        aioquic paces by window and SRTT, and by no rate that one could set.

        Args:
            srtt_us: The SRTT [µs].
            least_bytes: The window is never smaller [bytes].
        """
        window_bytes = self._machine.cwnd_bytes
        if 0 < self.rate_bytes_per_s < NO_RATE_BYTES_PER_S:
            window_bytes = min(window_bytes, self.rate_bytes_per_s * srtt_us // 1_000_000)
        return max(window_bytes, least_bytes)
