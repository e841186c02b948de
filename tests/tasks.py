"""The threads of a process, as /proc shows them."""

from __future__ import annotations

from pathlib import Path


def read_of_tasks(pid: int | str, name: str) -> dict[str, str]:
    """Return /proc/PID/task/TID/`name` by thread id; a thread that ends while it is read is left out."""
    reported = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            reported[task.name] = (task / name).read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return reported
