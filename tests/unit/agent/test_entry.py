from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

import pytest

from ccplane.agent import entry


class CtrlC(MetaPathFinder):
    """Raise KeyboardInterrupt in the middle of an import."""

    def find_spec(self, fullname: str, *_others: Any) -> None:
        if fullname == "ccplane.agent.cli":
            raise KeyboardInterrupt


def test_interrupt_while_it_imports_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [CtrlC(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "ccplane.agent.cli", raising=False)
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 130
