"""Checks of `docker-compose.yml` that need no containers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
CONTAINERFILE = (ROOT / "containers/Containerfile").read_text()
SERVICES = sorted(COMPOSE["services"])
STARTS_AS_ROOT = {"agent"}
"""It becomes another user: engines give capabilities to root only."""


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_what_it_needs_and_no_more(name: str) -> None:
    service = COMPOSE["services"][name]
    assert ("user" in service) == (name in STARTS_AS_ROOT)
    assert ("cap_add" in service) == (name in STARTS_AS_ROOT)
    assert service["cap_drop"] == ["ALL"]
    profiles = ["seccomp=containers/seccomp-agent.json"] if name in STARTS_AS_ROOT else []
    assert service["security_opt"] == ["no-new-privileges", *profiles]
    assert service["read_only"] is True
    assert "ports" not in service
    assert "privileged" not in service


def test_who_starts_as_root_becomes_another_user() -> None:
    for name in STARTS_AS_ROOT:
        assert "--user ccplane" in COMPOSE["services"][name]["command"]


def test_prometheus_asks_where_the_agent_answers() -> None:
    asked = yaml.safe_load((ROOT / "containers/prometheus.yml").read_text())["scrape_configs"]
    targets = [target for job in asked for config in job["static_configs"] for target in config["targets"]]
    assert re.findall(r"--metrics (\S+)", COMPOSE["services"]["agent"]["command"]) == targets


def test_prometheus_has_the_files_of_its_rules() -> None:
    rules = yaml.safe_load((ROOT / "containers/prometheus.yml").read_text())["rule_files"]
    copied = re.findall(r"^COPY (containers/prometheus.yml .*) /etc/ccplane/$", CONTAINERFILE, re.MULTILINE)
    assert {f.rpartition("/")[2] for f in copied[0].split()[1:]} == set(rules)


def test_no_password_is_in_a_command_or_an_environment() -> None:
    for service in COMPOSE["services"].values():
        said = f"{service.get('command', '')} {service.get('environment', '')}"
        assert not re.search(r"mqtts?://[^@/\s]+:[^@\s]+@", said)
        assert "PASSWORD" not in said


def test_a_password_is_seen_by_its_service_and_by_who_makes_it() -> None:
    mounted: dict[str, set[str]] = {}
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", []):
            mounted.setdefault(volume.partition(":")[0], set()).add(name)
    for volume, names in mounted.items():
        if volume.endswith("-secrets"):
            assert len(names - {"secrets"}) == 1, volume
    assert {name for name in mounted if not name.startswith("/")} == set(COMPOSE["volumes"])


def test_images_are_built_from_what_is_here() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\S+)", CONTAINERFILE, re.M))
    assert {service["build"]["target"] for service in COMPOSE["services"].values()} == targets - {"base"}
    for line in re.findall(r"^COPY (.+) \S+$", CONTAINERFILE, re.M):
        for file in line.split():
            assert file.startswith("dist/") or (ROOT / file).exists(), file
    for target in targets - {"base"}:
        stage = CONTAINERFILE.partition(f" AS {target}\n")[2].partition("\nFROM ")[0]
        assert re.findall(r"^USER (\S+)", stage, re.M)[-1] == "ccplane"


def test_an_image_takes_the_wheel_of_its_architecture() -> None:
    taken = re.findall(r"^RUN set -- (\S+)", CONTAINERFILE, re.M)
    assert taken == ['/tmp/ccplane-*_"$(uname', '/tmp/ccplane-*_"$(uname']
