"""Results of runs: tables, and where they come from.

    result = Result.load("out/my-run")
    result.flows            # a row a flow
    result.flow_samples     # flows over time
    result.metadata["machine"]["kernel"]

A result is a directory: `scenario.yaml`, `metadata.json`, a Parquet file a table (`experiments.runs.tables`
has their columns), and the agent's log. `ResultSet` is what a sweep leaves: many of them.
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
"""Of the files; a reader refuses what is newer than itself."""

METADATA: Final = "metadata.json"
SCENARIO: Final = "scenario.yaml"
SWEEP: Final = "sweep.json"


class Result:
    """What one run left.

    Attributes:
        directory: Where its files are.
        metadata: What it says of itself; see `docs/experiments.md`.
        axes: Values of the sweep's axes that this run has; empty outside of a sweep.
        repeat: Which repeat of a sweep it is, from 0.
    """

    def __init__(
        self,
        directory: Path | None,
        metadata: Mapping[str, Any],
        table: Callable[[str], pd.DataFrame],
        scenario_yaml: str,
    ) -> None:
        """Make it; `load` and `experiments.run.run` do."""
        self.directory = directory
        self.metadata = dict(metadata)
        self.axes: dict[str, Any] = {}
        self.repeat = 0
        self._table = table
        self._scenario_yaml = scenario_yaml

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Open the result of a run, of a failed one, too; tables are read when they are asked for.

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
        """Read a whole result, whose directory may go then."""
        stored = cls.load(directory)
        held = {name: _read_table(directory, name) for name in tables.COLUMNS}
        return cls(None, stored.metadata, held.__getitem__, stored._scenario_yaml)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end; `metadata["error"]` says why not."""
        return bool(self.metadata["complete"])

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.metadata["name"])

    @cached_property
    def scenario(self) -> Scenario:
        """What was run."""
        raw = reading.parse_yaml(self._scenario_yaml, SCENARIO)
        return reading.convert(raw, Scenario, SCENARIO)

    @cached_property
    def flows(self) -> pd.DataFrame:
        """A summary row a flow."""
        return self._table("flows")

    @cached_property
    def flow_samples(self) -> pd.DataFrame:
        """Flows over time; flows with several connections as one."""
        return self._table("flow_samples")

    @cached_property
    def connection_samples(self) -> pd.DataFrame:
        """Every connection over time, as sampled."""
        return self._table("connection_samples")

    @cached_property
    def link_samples(self) -> pd.DataFrame:
        """Directions of links over time."""
        return self._table("link_samples")

    @cached_property
    def events(self) -> pd.DataFrame:
        """What happened when; `detail` is JSON."""
        return self._table("events")

    @cached_property
    def objects(self) -> pd.DataFrame:
        """A row for each object that was downloaded."""
        return self._table("objects")

    @cached_property
    def playback(self) -> pd.DataFrame:
        """A row for each piece of video that was played; empty if there was none."""
        return self._table("playback")

    @cached_property
    def int_summaries(self) -> pd.DataFrame:
        """What in-band telemetry said of flows, interval by interval; empty if there was none."""
        return self._table("int_summaries")

    @cached_property
    def int_hops(self) -> pd.DataFrame:
        """What it said of the nodes on their way; a row for each summary and node."""
        return self._table("int_hops")

    @cached_property
    def int_records(self) -> pd.DataFrame:
        """What sinks noted of every packet, where that was asked for: a row for each node that it met."""
        return self._table("int_records")

    @cached_property
    def int_decisions(self) -> pd.DataFrame:
        """When algorithms had answered to a summary, and how old it was then."""
        return self._table("int_decisions")

    @property
    def receiver_signals(self) -> pd.DataFrame:
        """What receiver agents measured."""
        return self._table("receiver_signals")

    @property
    def regimes(self) -> pd.DataFrame:
        """What they made of it, one row a peer and window."""
        return self._table("regimes")

    @property
    def regime_events(self) -> pd.DataFrame:
        """What became of flows with their regimes."""
        return self._table("regime_events")

    def table(self, name: str) -> pd.DataFrame:
        """Return a table by its name, such as those of features: `rate_limits`."""
        return self._table(name)

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return f"Result({self.name!r}, seed {self.metadata['seed']}{state})"


class ResultSet:
    """What a sweep left: the results of its finished runs, and what is missing.

    Iterating gives the results, in the order of the grid.

    Attributes:
        directory: Where it is.
        axes: Names of the sweep's axes.
    """

    def __init__(self, directory: Path, plan: Mapping[str, Any]) -> None:
        """Describe a sweep; `load` and `experiments.sweep.sweep` do."""
        self.directory = directory
        self.axes: list[str] = list(plan["axes"])
        self._plan = plan

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Open what a sweep left, whether it came to its end or not.

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
        """Those of `planned` that are not finished."""
        return [run for run in self.planned if not is_complete(self.directory / run["key"])]

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Those of `missing` that failed; `error` has the parts of the error, `directory` what there is."""
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
        """Return one of the tables of all finished runs, one below the other.

        Args:
            name: Which; `flows` has a row for each run and flow.

        Returns:
            The table, with the columns `run`, `repeat`, `seed` and one for each axis in front. An axis whose
            name is a column of the table, too, is called `axis.NAME`.
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
    """Return whether a finished run is there, of this format."""
    try:
        data = json.loads((directory / METADATA).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT and data.get("complete") is True


def read_json(file: Path, what: str) -> dict[str, Any]:
    """Return the JSON object that describes a result.

    Args:
        file: The file.
        what: What it describes.

    Raises:
        ResultError: `result.not_found`, `result.newer` or `result.broken`.
    """
    try:
        data: dict[str, Any] = json.loads(file.read_text())
        newer = data["format"] > FORMAT
    except FileNotFoundError as error:
        raise ResultError(
            "result.not_found",
            f"there is no result of a {what} in {file.parent}",
            str(file),
            "the file is not there",
            "`ccp experiment list` shows where there are results",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _broken(file, error) from error
    if newer:
        raise ResultError(
            "result.newer",
            f"this result has format {data['format']}",
            str(file),
            f"this ccplane reads formats up to {FORMAT}",
            "upgrade ccplane (metadata.json says which version wrote it)",
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
    """Return an axis' value as a table can hold it."""
    return value if isinstance(value, str | int | float | bool | None) else json.dumps(value)
