"""The agent of a run's QUIC flows: `ccp run --datapath quic`, on a socket used only by the run."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs import artifacts
from experiments.runs.session import Progress
from experiments.runs.steering import Steering
from experiments.runs.variants import Variants
from experiments.traffic import files
from experiments.traffic.quic import QuicOptions
from experiments.traffic.spec import QUIC, transport_of

if TYPE_CHECKING:
    from experiments.scenario import Scenario


@dataclass(frozen=True, slots=True)
class OfQuic:
    """What a run needs for its QUIC flows.

    Attributes:
        agent: The agent; None if no flow has an algorithm of ccplane.
        options: Options of the flows' traffic.
    """

    agent: Steering | None
    options: QuicOptions


@contextlib.contextmanager
def quic_agent(
    scenario: Scenario, variants: Variants, directory: Path, facts: dict[str, Any], progress: Progress
) -> Iterator[OfQuic]:
    """Run the agent of QUIC flows during a `with` block. The agent adds nothing to the kernel.

    Raises:
        CcpError: If the agent cannot start, for instance because an algorithm needs what QUIC flows lack.
        LabError: `lab.no_command`, if the program that carries QUIC flows is not built.
    """
    if any(transport_of(flow.traffic) == QUIC for flow in scenario.flows):
        files.must_be_built()
        with open(files.PROGRAM, "rb") as program:
            facts["quic_program_sha256"] = hashlib.file_digest(program, "sha256").hexdigest()
    if not variants.over(QUIC):
        yield OfQuic(None, QuicOptions(sample_interval_us=scenario.sample_interval_us))
        return
    progress("starting the agent of QUIC flows", 0.0)
    with (
        tempfile.TemporaryDirectory(prefix="ccplane-quic-") as folder,
        open(directory / artifacts.QUIC_AGENT_LOG, "wb") as log,
    ):
        socket = Path(folder, "agent")
        agent = Steering(variants.over(QUIC), log, None, str(socket), datapath=QUIC)
        try:
            yield OfQuic(agent, QuicOptions(socket, scenario.sample_interval_us))
        finally:
            agent.stop()
            facts["quic_agent"] = agent.counters
