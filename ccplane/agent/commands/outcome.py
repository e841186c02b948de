"""The result of loading a version, as a sentence."""

from __future__ import annotations

from typing import Any


def sentence(done: dict[str, Any]) -> str:
    """Return the result of a load as a sentence."""
    notes = "".join(f"; {note}" for note in done["notes"])
    flows = f"{done['flows']} flow{'' if done['flows'] == 1 else 's'}"
    if done["old_sha256"] == done["new_sha256"]:
        same = f": loaded the same source again, {flows}" if done["programs"] else " is unchanged"
        return f"{done['algorithm']}{same}{notes}"
    before = done["old_sha256"][:12] or "nothing"
    return f"{done['algorithm']}: {before} -> {done['new_sha256'][:12]}, {flows}{notes}"
