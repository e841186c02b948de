"""Tables of a probe: their changes and their content."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, Final

from telemetry.bpfcc.values import Value, plain

# enum bpf_map_type, <linux/bpf.h>
_ARRAYS: Final = frozenset({2, 6})
_OF_PROCESSORS: Final = frozenset({5, 6, 10})
KINDS: Final = frozenset({1, 9}) | _ARRAYS | _OF_PROCESSORS
"""Types of maps that count as tables: hashes and arrays."""

_HISTOGRAM: Final = re.compile(r"\bBPF_HISTOGRAM\s*\(\s*(\w+)")


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a table of a probe.

    Attributes:
        name: Name of the table.
        entries: Entries with `key` and `value`. Of arrays, nonzero entries by index; of counting hashes, the
            largest first. Per-processor values are summed.
        histogram: A BPF_HISTOGRAM as drawn by bcc; else "".
    """

    name: str
    entries: list[dict[str, Value]]
    histogram: str = ""


class Tables:
    """The tables of a probe.

    Attributes:
        unreadable: Tables whose keys or values have a type that bcc does not know.
    """

    def __init__(self, bpf: Any, kinds: Mapping[str, int], text: str) -> None:
        """Prepare reading.

        Args:
            bpf: bcc's object: name -> table.
            kinds: Name -> type, one of KINDS.
            text: The probe's text; only it shows which tables are histograms.
        """
        self._bpf = bpf
        self._kinds = kinds
        self._histograms = frozenset(_HISTOGRAM.findall(text))
        self._log2 = "bpf_log2l" in text
        self._seen: dict[str, dict[str, Value]] = {name: {} for name in kinds}
        self.unreadable = [name for name in kinds if not self._is_readable(name)]

    def changes(self, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Value]]]:
        """Yield table name and entry for each value that changed since the last call."""
        for name in names:
            before, self._seen[name] = self._seen[name], {}
            # All entries of an array exist from the start, as 0.
            unseen = 0 if self._kinds[name] in _ARRAYS else None
            for entry in self._entries(name):
                key = repr(entry["key"])
                self._seen[name][key] = entry["value"]
                if entry["value"] != before.get(key, unseen):
                    yield name, entry

    def read(self) -> list[Table]:
        """Return the current content of all readable tables."""
        names = [name for name in self._kinds if name not in self.unreadable]
        return [Table(name, self._whole(name), self._drawn(name)) for name in names]

    def _is_readable(self, name: str) -> bool:
        try:
            self._bpf[name.encode()]
        except Exception:  # bcc has no exception types
            return False
        return True

    def _whole(self, name: str) -> list[dict[str, Value]]:
        entries = list(self._entries(name))
        if self._kinds[name] in _ARRAYS:
            return [one for one in entries if one["value"] != 0]
        if all(isinstance(one["value"], int) for one in entries):
            entries.sort(key=lambda one: -one["value"])
        return entries

    def _entries(self, name: str) -> Iterator[dict[str, Value]]:
        for key, value in self._bpf[name.encode()].items():
            found = plain(value)
            if self._kinds[name] in _OF_PROCESSORS and all(isinstance(one, int) for one in found):
                found = sum(found)
            yield {"key": plain(key), "value": found}

    def _drawn(self, name: str) -> str:
        if name not in self._histograms:
            return ""
        table = self._bpf[name.encode()]
        with redirect_stdout(io.StringIO()) as drawn:
            try:
                draw = table.print_log2_hist if self._log2 else table.print_linear_hist
                draw(strip_leading_zero=True)
            except IndexError:  # more slots than bcc can draw
                return ""
        return drawn.getvalue().rstrip()
