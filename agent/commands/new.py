"""`ccp new`: a file to start an algorithm from."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ccp_algs import registry
from ccp_base.errors import UsageError

TEMPLATE = Template('''"""$title: say the idea in three sentences.

Source: name the paper or RFC. Deviations: none.
"""

from __future__ import annotations

from typing import Any

from ccp_algs import Algorithm, Param, register
from ccp_algs.api import FlowInfo
from ccp_algs.fold import Ack, Flow, FoldProgram, every, latest, total


class ${title}Fold(FoldProgram):
    """What the kernel does on every ACK, and when it reports."""

    acked_bytes = total(Ack.bytes_acked)
    lost_pkts = total(Ack.lost_pkts_sample)
    rtt_us = latest(Flow.rtt_sample_us)
    when = every(Flow.srtt_us) | (Ack.lost_pkts_sample > 0)


@register("$name")
class $title(Algorithm):
    """Additive increase, multiplicative decrease: one instance a flow."""

    program = ${title}Fold
    increase_pkts = Param(1.0, min=0.1, max=100.0, unit="segments", doc="growth of the window a round trip")
    beta = Param(0.5, min=0.1, max=0.95, doc="window behind a loss, as part of that before")

    def on_create(self, info: FlowInfo) -> None:
        """Take over a flow, new or not."""
        self.cwnd_bytes = float(info.init_cwnd_bytes)
        self.hold_until_us = 0

    def on_report(self, report: Any) -> None:
        """Decide, once a round trip and on loss."""
        mss_bytes = self.flow.info.mss_bytes
        if report.lost_pkts == 0:
            self.cwnd_bytes += self.increase_pkts * mss_bytes * report.acked_bytes / self.cwnd_bytes
        elif report.now_us >= self.hold_until_us:  # losses of one round trip count once
            self.cwnd_bytes = max(self.beta * self.cwnd_bytes, 2.0 * mss_bytes)
            self.hold_until_us = report.now_us + report.rtt_us
        self.flow.set(cwnd_bytes=self.cwnd_bytes)
''')


def new(
    name: Annotated[str, typer.Argument(help="Name: at most 11 of a-z, 0-9 and _.")],
    directory: Annotated[Path, typer.Option("--in", help="Directory of the file.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write NAME.py, a working algorithm to change."""
    if not (name.isascii() and name.isidentifier() and name == name.lower() and len(name) <= 11):
        raise UsageError(
            "algorithm.bad_name",
            f"an algorithm cannot be called `{name}`",
            why="it is a Python module, and sockets choose it as `ccp.NAME`; the kernel takes 15 characters",
            fix="use at most 11 lower-case letters, digits and underscores, the first a letter",
        )
    if name in registry.names() and not force:
        raise UsageError(
            "algorithm.exists",
            f"there is an algorithm `{name}` already",
            why="yours could be run by its path only, and results would have the same name",
            fix="choose another name, or use --force",
        )
    path = directory / f"{name}.py"
    if path.exists() and not force:
        raise UsageError(
            "algorithm.file_exists",
            f"{path} exists",
            fix="choose another name or directory, or overwrite it with --force",
        )
    if not directory.is_dir():
        raise UsageError(
            "algorithm.no_directory",
            f"there is no directory {directory}",
            fix=f"make it: mkdir -p {directory}",
        )
    title = "".join(part.capitalize() for part in name.split("_"))
    path.write_text(TEMPLATE.substitute(name=name, title=title), encoding="utf-8")
    typer.echo(f"wrote {path}; next: ccp check {path}, then (as root) ccp run {path}")
