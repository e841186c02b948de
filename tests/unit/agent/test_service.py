"""`ccp service install`: its files, checked with systemd's tools where installed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ccplane.agent import service
from ccplane.agent.cli import app
from ccplane.agent.service import Service
from ccplane.base.errors import UsageError

ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
BOTH = (Service.AGENT, Service.RECEIVER)
EXPOSURE = 3.0
"""The most that a unit may have, of 10."""


@pytest.fixture(autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the programs that units name, even without Mosquitto."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("ccp", "mosquitto"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout


def units(root: Path) -> list[Path]:
    return sorted((root / "etc/systemd/system").iterdir())


@needs_systemd
def test_no_unit_is_exposed(tmp_path: Path) -> None:
    service.install(tuple(Service), tmp_path)
    assert len(units(tmp_path)) == 6
    for unit in units(tmp_path):
        judged = subprocess.run(
            [str(ANALYZE), "security", "--offline=yes", f"--threshold={round(10 * EXPOSURE)}", str(unit)],
            capture_output=True,
            text=True,
        )
        level = re.search(r"exposure level for \S+: ([\d.]+)", judged.stdout)
        assert level is not None, judged.stderr
        assert float(level[1]) <= EXPOSURE
        assert judged.returncode == 0


@needs_systemd
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    service.install(tuple(Service), tmp_path)
    for unit in units(tmp_path):
        judged = subprocess.run([str(ANALYZE), "verify", str(unit)], capture_output=True, text=True)
        about_us = [line for line in judged.stderr.splitlines() if "ccplane" in line]
        assert (judged.returncode, about_us) == (0, [])


def test_secrets_are_the_owners_and_settings_stay(tmp_path: Path) -> None:
    service.install(BOTH, tmp_path)
    password = tmp_path / "etc/ccplane/agent.password"
    assert password.stat().st_mode & 0o777 == 0o600
    settings = tmp_path / "etc/ccplane/agent.env"
    settings.write_text("CCP_RUN='reno'\n")
    unit = tmp_path / "etc/systemd/system/ccplane-agent.service"
    unit.write_text("old\n")
    done = service.install(BOTH, tmp_path)
    assert f"kept {settings}" in done
    assert f"wrote {unit}" in done
    assert settings.read_text() == "CCP_RUN='reno'\n"
    assert "[Service]" in unit.read_text()
    assert not list(tmp_path.rglob("*.new"))


def test_what_is_removed_takes_only_its_own(tmp_path: Path) -> None:
    service.install(BOTH, tmp_path)
    service.remove((Service.AGENT,), tmp_path)
    etc = tmp_path / "etc"
    assert [unit.name for unit in units(tmp_path)] == ["ccplane-failed@.service", "ccplane-receiver.service"]
    assert not (etc / "tmpfiles.d/ccplane.conf").exists()
    assert (etc / "sysusers.d/ccplane.conf").exists()
    service.remove((Service.RECEIVER,), tmp_path)
    assert not (etc / "sysusers.d/ccplane.conf").exists()
    assert units(tmp_path) == []
    assert (etc / "ccplane/agent.env").exists()
    assert service.remove(BOTH, tmp_path) == []


def test_mosquitto_reads_its_secrets_as_credentials(tmp_path: Path) -> None:
    service.install((Service.MOSQUITTO,), tmp_path)
    text = (tmp_path / "etc/ccplane/mosquitto/mosquitto.conf").read_text()
    unit = (tmp_path / "etc/systemd/system/ccplane-mosquitto.service").read_text()
    named = re.findall(r"/run/credentials/ccplane-mosquitto\.service/(\S+)", text)
    assert sorted(named) == sorted(re.findall(r"^LoadCredential=([^:]+):", unit, re.M))
    assert not re.search(r"^[^#]*secrets/", text, re.M)
    assert "\nacl_file /etc/ccplane/mosquitto/acl\n" in text


def test_the_command_prints_writes_and_removes(tmp_path: Path) -> None:
    code, out = run("service", "install", "agent", "--dry-run", "--root", str(tmp_path))
    assert code == 0
    assert "# /etc/systemd/system/ccplane-agent.service (mode 644)" in out
    assert not (tmp_path / "etc").exists()
    code, out = run("service", "install", "--root", str(tmp_path))
    assert code == 0
    assert "systemctl enable --now ccplane-agent.service" in out
    code, out = run("service", "remove", "--root", str(tmp_path))
    assert code == 0
    assert f"removed {tmp_path}/etc/systemd/system/ccplane-agent.service" in out


def test_a_program_that_is_not_there_is_not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(UsageError) as caught:
        service.install((Service.AGENT,), tmp_path)
    assert caught.value.slug == "service.no_program"
    assert not list(tmp_path.iterdir())


def test_a_program_in_a_closed_home_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    closed = tmp_path / "home"
    (closed / "bin").mkdir(parents=True)
    (closed / "bin/ccp").touch()
    closed.chmod(0o700)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(closed / "bin"))
    with pytest.raises(UsageError) as caught:
        service.install((Service.AGENT,), Path("/"))
    assert caught.value.slug == "service.out_of_reach"


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("")
    with pytest.raises(UsageError) as caught:
        service.install((Service.AGENT,), tmp_path)
    assert caught.value.slug == "service.not_written"


def test_what_systemd_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError) as caught:
        service._run("systemctl", "daemon-reload")
    assert caught.value.slug == "service.refused"


def test_no_two_units_have_the_same_run_directory(tmp_path: Path) -> None:
    """systemd removes the directory when one of the units stops."""
    service.install(tuple(Service), tmp_path)
    owned = [re.findall(r"^RuntimeDirectory=(.*)", unit.read_text(), re.M) for unit in units(tmp_path)]
    names = [name for words in owned for word in words for name in word.split()]
    assert sorted(names) == ["ccplane", "ccplane-rtcp"]


def settings_of(unit: Path) -> dict[str, list[str]]:
    """Return the words of each setting of a unit."""
    settings: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)", unit.read_text(), re.M):
        settings.setdefault(name, []).extend(value.split())
    return settings


def test_no_service_can_write_what_belongs_to_another_one(tmp_path: Path) -> None:
    service.install(tuple(Service), tmp_path)
    users: list[str] = []
    for one in Service:
        unit = settings_of(tmp_path / "etc/systemd/system" / service.unit_name(one))
        (user,) = unit["User"]
        users.append(user)
        assert unit.get("Group", [user]) == [user]
        # Each directory has the user's name, and so another one than those of all other services.
        for name in ("RuntimeDirectory", "StateDirectory"):
            assert unit.get(name, [user]) == [user]
        assert unit.get("WorkingDirectory", [f"/var/lib/{user}"]) == [f"/var/lib/{user}"]
        assert unit.get("ReadWritePaths", [f"/sys/fs/bpf/{user}"]) == [f"/sys/fs/bpf/{user}"]
        homes = [word for word in unit.get("Environment", []) if word.startswith("HOME=")]
        assert homes == [f"HOME=/var/lib/{user}"] or unit["DynamicUser"] == ["yes"]
    assert len({*users}) == len(Service)
    made = (tmp_path / "etc/sysusers.d/ccplane.conf").read_text()
    assert {*re.findall(r"^u (\S+)", made, re.M)} == {*users} - {"ccplane-bus"}
    pins = (tmp_path / "etc/tmpfiles.d/ccplane.conf").read_text()
    owned = re.findall(r"^[dZ] /sys/fs/bpf/(\S+) \S+ (\S+) (\S+) -$", pins, re.M)
    assert len(owned) == 4
    assert all(folder == user == group for folder, user, group in owned)


def test_metrics_are_on_a_unix_socket_in_the_examples(tmp_path: Path) -> None:
    service.install(tuple(Service), tmp_path)
    for name in ("agent", "rtcp"):
        unit = (tmp_path / f"etc/systemd/system/ccplane-{name}.service").read_text()
        (owned,) = re.findall(r"^RuntimeDirectory=(.*)", unit, re.M)
        places = re.findall(r"--metrics ([^\s\"']+)", (tmp_path / f"etc/ccplane/{name}.env").read_text())
        assert places == [f"unix:/run/{owned}/metrics.sock"]


def test_memory_is_limited_and_repeated_failure_is_reported(tmp_path: Path) -> None:
    service.install(tuple(Service), tmp_path)
    folder = tmp_path / "etc/systemd/system"
    for one in Service:
        unit = (folder / service.unit_name(one)).read_text()
        assert len(re.findall(r"^MemoryMax=\d+[MG]$", unit, re.M)) == 1
        (named,) = re.findall(r"^OnFailure=(.*)", unit, re.M)
        assert (folder / named.replace("%N", "")).exists()


def test_the_report_of_a_failure_says_what_to_do(tmp_path: Path) -> None:
    service.install((Service.AGENT,), tmp_path)
    text = (tmp_path / "etc/systemd/system/ccplane-failed@.service").read_text()
    assert re.findall(r"^SyslogLevel=(.*)", text, re.M) == ["alert"]
    (command,) = re.findall(r"^ExecStart=(.*)", text, re.M)
    assert Path(shlex.split(command)[0]).exists()
    assert "journalctl -u %i" in command
    assert "systemctl reset-failed %i" in command


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to own files")


@needs_root
@pytest.mark.parametrize(
    ("kind", "uid", "gid", "mode", "accepted"),
    [
        ("file", 0, 0, 0o644, True),
        ("folder", 0, 0, 0o755, True),
        ("file", 65_534, 0, 0o644, False),
        ("folder", 65_534, 0, 0o755, False),
        ("file", 0, 65_534, 0o664, False),
        ("folder", 0, 65_534, 0o2775, False),
        ("file", 0, 0, 0o646, False),
        ("folder", 0, 0, 0o757, False),
        ("folder", 0, 0, 0o1777, False),
    ],
)
def test_what_another_user_can_change_is_no_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, uid: int, gid: int, mode: int, accepted: bool
) -> None:
    place = tmp_path / "venv/lib/package"
    place.mkdir(parents=True)
    (tmp_path / "venv/ccp").touch()
    if kind == "file":
        place /= "module.py"
        place.touch()
    os.chown(place, uid, gid)
    place.chmod(mode)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "venv"))
    if accepted:
        service.check_protected(tmp_path / "venv/ccp", "install it")
        return
    with pytest.raises(UsageError) as caught:
        service.check_protected(tmp_path / "venv/ccp", "install it")
    assert (caught.value.slug, caught.value.where) == ("service.not_protected", str(place))


@needs_root
def test_a_folder_above_that_another_user_owns_is_refused_and_symlinks_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "venv").mkdir(parents=True)
    (home / "venv/ccp").touch()
    os.chown(home, 65_534, 65_534)
    link = tmp_path / "ccp"
    link.symlink_to(home / "venv/ccp")
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(empty))
    with pytest.raises(UsageError) as caught:
        service.check_protected(link, "install it")
    assert caught.value.where == str(home)
