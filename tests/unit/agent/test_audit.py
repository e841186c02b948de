from __future__ import annotations

import errno
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq.auth

from ccplane.agent.audit import Audit, AuditLog
from ccplane.agent.client import Client
from ccplane.agent.control import ControlOptions
from ccplane.agent.management import managed
from ccplane.base.errors import CcpError, LoadError
from ccplane.datapath.ebpf import compile_program
from tests.unit.agent.test_control import SOURCE, Served


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    for outcome in ("done", "param.unknown"):
        log = AuditLog(file)
        log.add({"uid": 7, "pid": 8}, "set", {"values": {"beta": 0.7}}, outcome)
        log.close()
    first, second = lines(file)
    assert (first["who"], first["what"], first["about"]) == (
        {"uid": 7, "pid": 8},
        "set",
        {"values": {"beta": 0.7}},
    )
    assert (first["outcome"], second["outcome"]) == ("done", "param.unknown")
    assert first["t"] <= second["t"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_is_reported_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(Path("/dev/full"))
    with caplog.at_level(logging.ERROR, "ccplane.agent"):
        for number in range(2):
            log.add({"uid": 0}, "stop", {"number": number}, "done")
    log.close()
    (said,) = caplog.messages
    assert os.strerror(errno.ENOSPC) in said
    assert '"number": 0' in said  # what could not be written is in the log


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as caught:
        AuditLog(tmp_path / "none" / "audit.jsonl")
    assert caught.value.slug == "audit.cannot_open"


@contextmanager
def audited(folder: Path, address: str = "", keys: Path | None = None) -> Iterator[tuple[Client, Path]]:
    """A client of an agent loop with an audit log, and the file."""
    served, file = Served(folder), folder / "audit.jsonl"
    log = AuditLog(file)
    options = ControlOptions(address or served.address, keys=keys)
    with managed(served.agent_loop, compile_program, options, audit=Audit(log, served.agent_loop)):
        thread = threading.Thread(target=served.agent_loop.run)
        thread.start()
        try:
            with Client(options.address, keys_dir=keys) as client:
                yield client, file
        finally:
            served.agent_loop.request_stop()
            thread.join()
    log.close()


def test_changes_are_written_down_and_questions_are_not(tmp_path: Path) -> None:
    with audited(tmp_path) as (client, file):
        client.flows()
        client.params["mine.beta"] = 0.7
        with pytest.raises(CcpError):
            client.switch("nobody")
        client.load(SOURCE, name="other")
        client.check(SOURCE)
    written = lines(file)
    assert [(line["what"], line["outcome"]) for line in written] == [
        ("set_params", "done"),
        ("switch", "algorithm.unknown"),
        ("load", "done"),
    ]
    assert {line["who"]["uid"] for line in written} == {os.getuid()}
    assert {line["who"]["pid"] for line in written} == {os.getpid()}
    assert written[0]["about"] == {"values": {"mine.beta": 0.7}}
    assert len(written[2]["source_sha256"]) == 64
    assert set(written[2]["sha256"]) == {"mine", "other"}
    assert SOURCE not in file.read_text()


def test_over_tcp_the_key_says_who_it_was(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = tmp_path / "keys"
    with audited(tmp_path, f"tcp://127.0.0.1:{port}", keys) as (client, file):
        client.params["mine.beta"] = 0.6
    public, _ = zmq.auth.load_certificate(keys / "client.key_secret")
    assert [line["who"] for line in lines(file)] == [{"key": public.decode()}]
