"""The ledger of datapaths: any name of a socket, any bytes in the file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from ccplane.datapath.ccp_unix.ledger import Ledger
from ccplane.datapath.wire import Create


@given(names=st.lists(st.binary(min_size=1, max_size=20).map(os.fsdecode), unique=True))
@example(["/run/a\n05000c000000000000000000 /run/forged"])
@example([os.fsdecode(b"/run/\xff")])
def test_any_name_of_a_socket_is_read_again_from_the_ledger(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flows"
        ledger = Ledger(file)
        for name in names:
            ledger.joined(name)
            ledger.created(name, Create(3, 14480, 1448, 0, 0, 0, 0, ""))
        ledger.close()
        again = Ledger(file)
        again.close()
        assert again.known == ledger.known
        assert set(again.known) == set(names)


@given(st.binary(max_size=200))
@example(b"05000c000000000000000000 /run/x\ngone /run/x\n")
@example(b"\xff")
@example(b"05000c0000000000000000 /run/x")
def test_any_file_is_read_or_ignored(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flows"
        file.write_bytes(raw)
        Ledger(file).close()
