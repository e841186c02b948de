"""What a reload did, as a sentence."""

from __future__ import annotations

from typing import Any


def told(done: dict[str, Any]) -> str:
    """Return what a reload did as a sentence."""
    notes = "".join(f"; {note}" for note in done["notes"])
    flows = f"{done['flows']} flow{'' if done['flows'] == 1 else 's'}"
    if done["old_sha256"] == done["new_sha256"]:
        again = f": the same source again, {flows}" if done["programs"] else " goes on"
        return f"{done['algorithm']}{again}{notes}"
    before = done["old_sha256"][:12] or "nothing"
    return f"{done['algorithm']}: {before} -> {done['new_sha256'][:12]}, {flows}{notes}"
