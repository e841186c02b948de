from __future__ import annotations

import os
import subprocess
import sys

import pytest

from experiments.netlab import LabError
from experiments.netlab.names import Owner, host_of, namespace_name, owner_of, this_process


def test_a_name_reports_owner_and_host() -> None:
    owner = Owner(pid=4711, start_ticks=123456)
    name = namespace_name(owner, 3, "to-router-2")
    assert owner_of(name) == owner
    assert host_of(name) == "to-router-2"


def test_two_labs_of_one_process_have_different_names() -> None:
    owner = this_process()
    assert namespace_name(owner, 1, "sender") != namespace_name(owner, 2, "sender")


@pytest.mark.parametrize(
    "name", ["", "ccp", "ccp-1", "ccp-1-2-3", "xccp-1-2-3-a", "ccp-1-2-3-A", "ccp-a-2-3-b"]
)
def test_foreign_names_have_no_owner(name: str) -> None:
    assert owner_of(name) is None
    assert host_of(name) == name


@pytest.mark.parametrize("host", ["", "-a", "a-", "A", "a_b", "a/b", "..", "a" * 33, "a b"])
def test_a_bad_host_name_is_refused(host: str) -> None:
    with pytest.raises(LabError) as caught:
        namespace_name(this_process(), 1, host)
    assert caught.value.slug == "lab.bad_value"
    assert "a-z" in caught.value.fix


def test_this_process_is_alive() -> None:
    owner = this_process()
    assert owner.pid == os.getpid()
    assert owner.is_alive()


def test_a_reused_process_number_is_not_the_owner() -> None:
    owner = this_process()
    assert not Owner(owner.pid, owner.start_ticks - 1).is_alive()


def test_a_dead_process_is_not_alive_even_before_it_is_reaped() -> None:
    program = (
        "import experiments.netlab.names as n; o = n.this_process(); print(o.pid, o.start_ticks, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        pid, start_ticks = map(int, child.stdout.read().split())  # end of file: it has closed everything
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not Owner(pid, start_ticks).is_alive()
    assert not Owner(pid, start_ticks).is_alive()


def test_without_proc_a_process_is_reported_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert this_process() == Owner(os.getpid(), 0)
    assert this_process().is_alive()
    assert Owner(1, 0).is_alive()  # another process
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    assert not Owner(child.pid, 0).is_alive()
