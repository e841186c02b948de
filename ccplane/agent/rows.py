"""Reports as plain dictionaries, for streams and the control API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ccplane.datapath.protocol import REPORT_HEAD, Reports

HEAD: Final = tuple(name for name, _ in REPORT_HEAD)


def rows_of(reports: Reports, flow_ids: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
    """Yield reports as dictionaries: the head, and the program's registers under `fields`."""
    import numpy as np

    names = reports.dtype.names or ()
    wanted = [flow_id for flow_id in np.unique(reports["flow_id"]).tolist() if flow_ids(flow_id)]
    if not wanted:
        return
    for row in reports[np.isin(reports["flow_id"], np.array(wanted, np.uint64))].tolist():
        both = dict(zip(names, row, strict=True))
        flags = both["flags"]
        yield {
            "flow_id": both["flow_id"],
            "t_us": both["now_us"],
            "cwnd_bytes": both["cwnd_bytes"],
            "rate_bytes_per_s": both["rate_bytes_per_s"],
            "missed": both["missed"],
            "timeout": bool(flags & 1),
            "fold_error": bool(flags & 2),
            "fields": {name: value for name, value in both.items() if name not in HEAD},
        }


def row_of(report: Any) -> dict[str, Any]:
    """Return one report in the format of `rows_of`."""
    return {
        "flow_id": report.flow_id,
        "t_us": report.now_us,
        "cwnd_bytes": report.cwnd_bytes,
        "rate_bytes_per_s": report.rate_bytes_per_s,
        "missed": report.missed,
        "timeout": report.timeout,
        "fold_error": report.fold_error,
        "fields": report.as_dict(),
    }
