from __future__ import annotations

import errno
import json
import logging
import os
import socket
import subprocess
import sys
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


def test_a_full_disk_stops_nothing_and_each_line_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(Path("/dev/full"))
    with caplog.at_level(logging.ERROR, "ccplane.agent"):
        for number in range(2):
            log.add({"uid": 0}, "stop", {"number": number}, "done")
    log.close()
    assert all(os.strerror(errno.ENOSPC) in said for said in caplog.messages)
    assert [f'"number": {number}' in said for number, said in enumerate(caplog.messages)] == [True, True]


def test_a_line_that_is_cut_is_in_the_log_and_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    """A disk takes the bytes that fit, without an error; here a limit of the file's size does so."""
    script = """
import resource, sys
from pathlib import Path
from ccplane.agent.audit import AuditLog

log = AuditLog(Path(sys.argv[1]))
log.add({"uid": 0}, "stop", {"number": 0}, "done")
full = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[1]).stat().st_size + 20, full[1]))
log.add({"uid": 0}, "stop", {"number": 1}, "done")
resource.setrlimit(resource.RLIMIT_FSIZE, full)
log.add({"uid": 0}, "stop", {"number": 2}, "done")
"""
    file = tmp_path / "audit.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True
    )
    first, cut, last = file.read_text().splitlines()
    assert (json.loads(first)["about"], json.loads(last)["about"]) == ({"number": 0}, {"number": 2})
    assert len(cut) == 20
    (said,) = done.stderr.splitlines()
    assert os.strerror(errno.EFBIG) in said
    assert '"number": 1' in said
    assert str(file) in said


@pytest.mark.parametrize("keep", [True, False])
def test_a_rotated_log_is_opened_again(tmp_path: Path, keep: bool) -> None:
    file, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    log = AuditLog(file)
    log.add({"uid": 0}, "stop", {"number": 0}, "done")
    file.rename(old)
    if keep:
        file.touch(mode=0o600)
    log.add({"uid": 0}, "stop", {"number": 1}, "done")
    log.close()
    assert [[line["about"] for line in lines(one)] for one in (old, file)] == [
        [{"number": 0}],
        [{"number": 1}],
    ]
    assert file.stat().st_mode & 0o777 == 0o600


def test_where_no_new_file_can_be_made_the_rotated_log_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    log = AuditLog(file)
    file.rename(old)
    file.mkdir()
    for number in range(2):
        log.add({"uid": 0}, "stop", {"number": number}, "done")
    log.close()
    assert [line["about"] for line in lines(old)] == [{"number": 0}, {"number": 1}]
    assert len(caplog.messages) == 1
    assert os.strerror(errno.EISDIR) in caplog.messages[0]


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
