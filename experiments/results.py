"""Results of runs: tables and metadata.

    result = Result.load("out/my-run")
    result.flows            # one row per flow
    result.flow_samples     # flows over time
    result.metadata["machine"]["kernel"]

A result is a directory: `scenario.yaml`, `metadata.json`, a Parquet file per table (`experiments.runs.tables`
defines their columns), and the agent's log. A `ResultSet` is the result of a sweep: many runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import pandas as pd
import pyarrow as pa

from experiments.errors import ResultError
from experiments.runs import places, reading, tables
from experiments.scenario import Scenario

FORMAT: Final = 1
"""Version of the file format; a reader refuses newer versions than its own."""

METADATA: Final = "metadata.json"
SCENARIO: Final = "scenario.yaml"
SWEEP: Final = "sweep.json"


class Result:
    """The result of one run.

    Attributes:
        directory: Directory of its files.
        metadata: Its metadata; see `docs/experiments.md`.
        axes: The run's values on the sweep's axes; empty outside of a sweep.
        repeat: Number of the repeat in a sweep, from 0.
    """

    def __init__(
        self,
        directory: Path | None,
        metadata: Mapping[str, Any],
        table: Callable[[str], pd.DataFrame],
        scenario_yaml: str,
    ) -> None:
        """Use `load` or `experiments.run.run` instead."""
        self.directory = directory
        self.metadata = dict(metadata)
        self.axes: dict[str, Any] = {}
        self.repeat = 0
        self._table = table
        self._scenario_yaml = scenario_yaml

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Open the result of a run, finished or failed; tables are read on first access.

        Raises:
            ResultError: `result.not_found`, `result.newer` or `result.broken`.
        """
        directory = Path(directory)
        metadata = read_json(directory / METADATA, "run")
        try:
            text = (directory / SCENARIO).read_text()
        except OSError as error:
            raise _broken(directory / SCENARIO, error) from error
        return cls(directory, metadata, lambda name: _read_table(directory, name), text)

    @classmethod
    def in_memory(cls, directory: Path) -> Self:
        """Read a whole result, so that its directory can be removed."""
        stored = cls.load(directory)
        held = {name: _read_table(directory, name) for name in tables.COLUMNS}
        return cls(None, stored.metadata, held.__getitem__, stored._scenario_yaml)

    @property
    def complete(self) -> bool:
        """Whether the run finished; `metadata["error"]` gives the reason if not."""
        return bool(self.metadata["complete"])

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.metadata["name"])

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of the run."""
        raw = reading.parse_yaml(self._scenario_yaml, SCENARIO)
        return reading.convert(raw, Scenario, SCENARIO)

    @cached_property
    def flows(self) -> pd.DataFrame:
        """A summary row per flow."""
        return self._table("flows")

    @cached_property
    def flow_samples(self) -> pd.DataFrame:
        """Flows over time; the connections of a flow are added up."""
        return self._table("flow_samples")

    @cached_property
    def connection_samples(self) -> pd.DataFrame:
        """Connections over time, as sampled."""
        return self._table("connection_samples")

    @cached_property
    def link_samples(self) -> pd.DataFrame:
        """Link directions over time."""
        return self._table("link_samples")

    @cached_property
    def events(self) -> pd.DataFrame:
        """Events with their times; `detail` is JSON."""
        return self._table("events")

    @cached_property
    def objects(self) -> pd.DataFrame:
        """A row for each downloaded object."""
        return self._table("objects")

    @cached_property
    def playback(self) -> pd.DataFrame:
        """A row for each video segment that was played; empty without video."""
        return self._table("playback")

    @cached_property
    def media(self) -> pd.DataFrame:
        """A row for each flow of media over RTP; empty without media."""
        return self._table("media")

    @cached_property
    def media_packets(self) -> pd.DataFrame:
        """A row for each packet of media."""
        return self._table("media_packets")

    @cached_property
    def int_summaries(self) -> pd.DataFrame:
        """In-band telemetry of flows, by interval; empty without telemetry."""
        return self._table("int_summaries")

    @cached_property
    def int_hops(self) -> pd.DataFrame:
        """In-band telemetry of the nodes on the flows' paths; a row for each summary and node."""
        return self._table("int_hops")

    @cached_property
    def int_records(self) -> pd.DataFrame:
        """Sinks' records of every packet, if enabled: a row for each node that a packet passed."""
        return self._table("int_records")

    @cached_property
    def int_decisions(self) -> pd.DataFrame:
        """Times at which algorithms reacted to a summary, and the age of the summary at that time."""
        return self._table("int_decisions")

    @property
    def receiver_signals(self) -> pd.DataFrame:
        """Measurements of receiver agents."""
        return self._table("receiver_signals")

    @property
    def regimes(self) -> pd.DataFrame:
        """Decisions of receiver agents, one row per peer and window."""
        return self._table("regimes")

    @property
    def regime_events(self) -> pd.DataFrame:
        """Switches and regimes of flows."""
        return self._table("regime_events")

    def table(self, name: str) -> pd.DataFrame:
        """Return a table by name; needed for tables of features, such as `rate_limits`."""
        return self._table(name)

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return f"Result({self.name!r}, seed {self.metadata['seed']}{state})"


class ResultSet:
    """The result of a sweep: the results of its finished runs, and the list of missing runs.

    Iterating yields the results, in the order of the grid.

    Attributes:
        directory: Directory of the sweep.
        axes: Names of the sweep's axes.
    """

    def __init__(self, directory: Path, plan: Mapping[str, Any]) -> None:
        """Use `load` or `experiments.sweep.sweep` instead."""
        self.directory = directory
        self.axes: list[str] = list(plan["axes"])
        self._plan = plan

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Open the result of a sweep, finished or not.

        Raises:
            ResultError: `result.not_found`, `result.newer` or `result.broken`.
        """
        directory = Path(directory)
        return cls(directory, read_json(directory / SWEEP, "sweep"))

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return str(self._plan["name"])

    @property
    def planned(self) -> list[dict[str, Any]]:
        """All runs: `key` (its directory), `axes` (values by name), `repeat`, `seed`."""
        return [dict(run) for run in self._plan["runs"]]

    @property
    def missing(self) -> list[dict[str, Any]]:
        """The runs of `planned` that are not finished."""
        return [run for run in self.planned if not is_complete(self.directory / run["key"])]

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The runs of `missing` that failed; `error` is the error, `directory` the incomplete result."""
        found = []
        for run in self.missing:
            directory = places.incomplete(self.directory / run["key"])
            if (directory / METADATA).exists():
                error = read_json(directory / METADATA, "run").get("error")
                found.append({**run, "error": error, "directory": str(directory)})
        return found

    def __iter__(self) -> Iterator[Result]:
        for run in self.planned:
            if is_complete(self.directory / run["key"]):
                result = Result.load(self.directory / run["key"])
                result.axes, result.repeat = run["axes"], run["repeat"]
                yield result

    def __len__(self) -> int:
        return len(self.planned) - len(self.missing)

    def __repr__(self) -> str:
        return f"ResultSet({self.name!r}, {len(self)} of {len(self.planned)} runs)"

    def table(self, name: str = "flows") -> pd.DataFrame:
        """Return one of the tables, concatenated over all finished runs.

        Args:
            name: Name of the table; `flows` has a row for each run and flow.

        Returns:
            The table, with leading columns `run`, `repeat`, `seed` and one for each axis. An axis with the
            name of a column of the table is called `axis.NAME`.
        """
        parts = []
        for result in self:
            frame = result.table(name)
            own: dict[str, Any] = {
                "run": result.directory.name if result.directory else "",
                "repeat": result.repeat,
                "seed": result.metadata["seed"],
            }
            own |= {
                f"axis.{axis}" if axis in frame.columns or axis in own else axis: _cell(value)
                for axis, value in result.axes.items()
            }
            front = pd.DataFrame({column: [value] * len(frame) for column, value in own.items()})
            parts.append(pd.concat([front, frame.reset_index(drop=True)], axis=1))
        parts = [part for part in parts if len(part)] or parts[:1]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def is_complete(directory: Path) -> bool:
    """Return whether a directory holds a finished run of this format."""
    try:
        data = json.loads((directory / METADATA).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT and data.get("complete") is True


def read_json(file: Path, what: str) -> dict[str, Any]:
    """Return the JSON object that describes a result.

    Args:
        file: The file.
        what: Kind of result, for errors.

    Raises:
        ResultError: `result.not_found`, `result.newer` or `result.broken`.
    """
    try:
        data: dict[str, Any] = json.loads(file.read_text())
        newer = data["format"] > FORMAT
    except FileNotFoundError as error:
        raise ResultError(
            "result.not_found",
            f"{file.parent} holds no result of a {what}",
            str(file),
            "the file does not exist",
            "`ccp experiment list` lists results",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _broken(file, error) from error
    if newer:
        raise ResultError(
            "result.newer",
            f"this result has the newer format {data['format']}",
            str(file),
            f"this ccplane reads formats up to {FORMAT}",
            "upgrade ccplane (metadata.json names the version that wrote the result)",
        )
    return data


def _read_table(directory: Path, name: str) -> pd.DataFrame:
    try:
        return tables.read(directory, name)
    except (OSError, pa.ArrowException) as error:
        raise _broken(directory / f"{name}.parquet", error) from error


def _broken(file: Path, error: Exception) -> ResultError:
    return ResultError(
        "result.broken",
        f"cannot read {file}",
        str(file),
        f"{type(error).__name__}: {error}",
        "restore the file, or run the scenario again",
    )


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else json.dumps(value)
