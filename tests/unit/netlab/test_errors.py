from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from experiments import netlab
from experiments.netlab import Host, Lab, LabError, errors, links
from experiments.netlab.host import Belongings

ROOT = Path(__file__).parents[3]
SLUG = re.compile(r'"(lab\.[a-z_0-9]+)"')


def slugs_in(folder: Path) -> set[str]:
    return {slug for file in folder.rglob("*.py") for slug in SLUG.findall(file.read_text())}


def test_the_list_of_errors_is_what_the_code_raises() -> None:
    sources = [file for file in Path(netlab.__file__).parent.glob("*.py") if file.name != "errors.py"]
    raised = {slug for file in sources for slug in SLUG.findall(file.read_text())}
    in_errors = Path(errors.__file__).read_text().partition("class LabError")[2]
    assert raised | set(SLUG.findall(in_errors)) == set(errors.SLUGS)


def test_every_error_has_a_test() -> None:
    assert set(errors.SLUGS) <= slugs_in(ROOT / "tests")


@pytest.mark.parametrize(
    ("number", "slug"), [(errno.EPERM, "lab.not_permitted"), (errno.EEXIST, "lab.kernel_refused")]
)
def test_what_the_kernel_refuses_is_explained(number: int, slug: str) -> None:
    error = errors.from_kernel(OSError(number, "x"), "make a veth pair", "host a")
    assert error.slug == slug
    assert error.message.startswith("cannot make a veth pair: ")
    assert error.where == "host a"
    assert error.why
    assert error.fix


def test_a_missing_qdisc_is_named_with_its_module_and_option() -> None:
    error = errors.no_qdisc("tbf", "interface eth0")
    assert error.slug == "lab.no_qdisc"
    assert "CONFIG_NET_SCH_TBF" in error.why
    assert "modprobe sch_tbf" in error.fix


@pytest.mark.parametrize(("rate", "buffer"), [(0, 1), (-1, 1), (2**32, 1), (1e6, 0)])
def test_a_shaper_that_passes_nothing_or_too_much_is_refused(rate: float, buffer: int) -> None:
    with pytest.raises(LabError) as caught:
        links.set_tbf(
            "nowhere", "eth0", rate_bytes_per_s=rate, burst_bytes=3000, buffer_bytes=buffer, change=False
        )
    assert caught.value.slug == "lab.bad_value"


def test_an_mtu_without_ipv6_is_refused() -> None:
    a, b = (Host(name, "nowhere", Belongings()) for name in "ab")
    with pytest.raises(LabError) as caught:
        Lab().connect(a, b, mtu_bytes=1279)
    assert caught.value.slug == "lab.bad_value"
    assert "1280" in caught.value.fix


def test_a_host_without_a_link_has_no_address() -> None:
    with pytest.raises(LabError) as caught:
        _ = Host("a", "nowhere", Belongings()).ipv4
    assert caught.value.slug == "lab.bad_value"


def test_a_host_of_a_closed_lab_starts_nothing() -> None:
    host = Host("a", "nowhere", Belongings(closed=True))
    with pytest.raises(LabError) as caught:
        host.run(["true"])
    assert caught.value.slug == "lab.closed"
    with pytest.raises(LabError):
        host.tcp_socket()
