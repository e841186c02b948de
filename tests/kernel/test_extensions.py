"""Extensions of the kernel datapath: the one that ships with ccplane, and one of somebody else's."""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import struct
import subprocess
from ipaddress import IPv6Address, ip_address
from pathlib import Path

import pytest

from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import RateLimit, message
from ccplane.agent.features.rtcp.tables import known_tables
from ccplane.base import _native
from ccplane.base.errors import CcpError
from experiments import netlab
from tests.kernel.bpf_maps import opened
from tests.kernel.driving import EVERY_ACK, PIN_DIR, Driver, Start, loaded

SOURCE = Path(__file__).parent / "extensions/ack_counter.bpf.c"
HEADERS = Path(__file__).parents[2] / "native/ccp-bpf/src/bpf"
ARCHITECTURE = {"x86_64": "x86", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
NAME = "ack_counter"
REPORT_EVERY = 10
"""ACKs of a flow."""


def counter_message(prefix_bits: int, report_every: int = REPORT_EVERY) -> bytes:
    return struct.pack("=II", prefix_bits, report_every)


def counted(reported: _native.Reported) -> tuple[IPv6Address, int, int]:
    """Return the prefix, its ACKs, and those that were folded."""
    prefix, acks, folded = struct.unpack("=16sQQ", reported.raw)
    return IPv6Address(prefix), acks, folded


def mapped(address: str) -> IPv6Address:
    ip = ip_address(address)
    return ip if isinstance(ip, IPv6Address) else IPv6Address(f"::ffff:{ip}")


def compile_as_author(source: Path, made: Path) -> Path:
    """Compile with the headers of the datapath and of libbpf."""
    assert shutil.which("clang"), "make setup installs clang and libbpf-dev"
    options = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", f"-D__TARGET_ARCH_{ARCHITECTURE}"]
    command = ["clang", *options, "-Wno-unused-function", f"-I{HEADERS}", "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_as_author(SOURCE, tmp_path_factory.mktemp("extensions") / f"{NAME}.bpf.o")


def test_an_extension_is_loaded_when_it_is_asked_for() -> None:
    limits = message(Options(), cwnd=True)
    with loaded(max_flows=4) as datapath:
        without = set(os.listdir(PIN_DIR))
        with pytest.raises(CcpError) as refused:
            datapath.update(1 << 32, messages={"rate_limits": limits})
        assert refused.value.slug == "load.extension"
        with pytest.raises(CcpError) as unknown:
            datapath.extend("rate_limit")
        assert (unknown.value.slug, "rate_limits" in unknown.value.fix) == ("load.extension", True)
        assert set(os.listdir(PIN_DIR)) == without
        datapath.extend("rate_limits")
        datapath.extend("rate_limits")
        assert {"limits", "mail", "rtcp_clients"} <= set(os.listdir(f"{PIN_DIR}/extension/rate_limits"))
        assert not datapath.update(1 << 32, messages={"rate_limits": limits})  # no such flow
    assert not os.path.exists(PIN_DIR), "unloading takes the extension's maps, too"


def fill_with_clients_that_are_over(table: str, count: int) -> None:
    """Write clients into a pinned table that nobody has come back to, as after ten minutes."""
    born_us, over_us = 1, 1
    with opened(table) as clients:
        for n in range(count):
            key = struct.pack("=QQQ", 1, 0, n).ljust(clients.key_size, b"\0")
            clients[key] = struct.pack("=QQ", born_us, over_us).ljust(clients.value_size, b"\0")


def test_flows_of_clients_that_find_no_room_say_so_until_the_table_was_swept(
    wire: netlab.Path, start_transfer: Start
) -> None:
    max_flows = 16

    def table() -> tuple[int, set[str]]:
        (known,) = (one for one in known_tables(PIN_DIR) if one.by == "agent")
        assert known.clients is not None
        return known.no_room, {one["client"] for one in known.clients}

    with loaded(max_flows=max_flows) as datapath:
        datapath.extend("rate_limits")
        assert table() == (0, set())
        fill_with_clients_that_are_over(f"{PIN_DIR}/extension/rate_limits/rtcp_clients", max_flows)
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        limits = {"rate_limits": message(Options(), cwnd=True)}

        def give(info: _native.FlowInfo) -> None:
            datapath.update(info.flow_id, messages=limits)

        driver.on_create = give

        def send() -> set[int]:
            start_transfer(wire.sender, wire.receiver, congestion="ccp", duration_s=30, rate_bytes_per_s=1e6)
            driver.until(lambda: any(info.flow_id not in earlier for info in driver.seen.created))
            return {info.flow_id for info in driver.seen.created}

        earlier: set[int] = set()
        earlier = send()
        driver.until(lambda: driver.seen.reported)
        reported = RateLimit.from_bytes(driver.seen.reported[0].raw)
        assert (reported.state, reported.client) == ("no_room", wire.receiver.ipv4)
        driver.until(lambda: not table()[1])
        no_room = table()[0]
        assert 1 <= no_room == len({one.flow_id for one in driver.seen.reported})
        send()
        driver.until(lambda: wire.receiver.ipv4 in table()[1])
        driver.run_for(0.2)
        assert table()[0] == no_room


def test_what_cannot_be_loaded_leaves_everything_as_it_was(compiled: Path) -> None:
    with loaded(max_flows=4) as datapath:
        without = set(os.listdir(PIN_DIR))
        good = compiled.read_bytes()
        for name, raw in ((NAME, b"ELF"), ("other", good), ("with space", good)):
            with pytest.raises(CcpError) as refused:
                datapath.extend(name, raw)
            assert refused.value.slug == "load.extension"
            assert set(os.listdir(PIN_DIR)) == without
        datapath.extend(NAME, compiled.read_bytes())
        with pytest.raises(CcpError) as refused:
            datapath.update(1 << 32, messages={NAME: b"too long for it"})
        assert (refused.value.slug, refused.value.why) == ("update.extension", "it accepts 8")


@pytest.mark.parametrize("alongside", [(), ("rate_limits",)], ids=["alone", "beside rate_limits"])
def test_acks_of_each_prefix_are_counted(
    compiled: Path, alongside: tuple[str, ...], wire: netlab.Path, start_transfer: Start
) -> None:
    limits = {name: message(Options(observe=True), cwnd=True) for name in alongside}
    with loaded() as datapath:
        for name in alongside:
            datapath.extend(name)
        datapath.extend(NAME, compiled.read_bytes())
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        ends = wire.sender, wire.receiver
        bits = {wire.receiver.ipv4: 120, wire.receiver.ipv6: 64}

        def give(info: _native.FlowInfo) -> None:
            if info.dst_addr in bits:  # not what servers send
                counter = counter_message(bits[info.dst_addr])
                datapath.update(info.flow_id, messages={NAME: counter, **limits})

        driver.on_create = give
        transfers = [
            start_transfer(*ends, congestion="ccp", family=family, duration_s=3, rate_bytes_per_s=1e6)
            for family in ("ipv4", "ipv4", "ipv6")
        ]
        driver.until(lambda: not any(transfer.running for transfer in transfers))
        driver.until(lambda: len(driver.seen.closed) == len(driver.seen.created))
        acks = {info.flow_id: driver.seen.closed[info.flow_id].acks for info in driver.seen.created}
        assert {reported.extension for reported in driver.seen.reported} == {NAME}
        for address, length in bits.items():
            flows = {info.flow_id for info in driver.seen.created if info.dst_addr == address}
            assert len(flows) >= (2 if length == 120 else 1)
            reported = [counted(one) for one in driver.seen.reported if one.flow_id in flows]
            low = int(mapped(address)) >> (128 - length) << (128 - length)
            assert {prefix for prefix, _, _ in reported} == {IPv6Address(low)}
            # All flows to a prefix count together; the first ACKs of a flow come before its letter, on a slow
            # machine nearly half of them.
            total = sum(acks[flow_id] for flow_id in flows)
            _, maximum, folded = reported[-1]
            assert total / 4 <= maximum <= total
            assert maximum - len(flows) <= folded <= maximum
            assert all(before[1] < after[1] for before, after in itertools.pairwise(reported))


def test_a_flow_is_left_and_another_version_begins_again(
    compiled: Path, wire: netlab.Path, start_transfer: Start
) -> None:
    with loaded() as datapath:
        datapath.extend(NAME, compiled.read_bytes())
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        reported = driver.seen.reported
        start_transfer(wire.sender, wire.receiver, congestion="ccp", duration_s=10, rate_bytes_per_s=1e6)
        driver.until(lambda: len(driver.seen.reports) > 50)
        flow_id = driver.seen.busiest()
        datapath.update(flow_id, messages={NAME: counter_message(128)})
        driver.until(lambda: len(reported) > 5)
        datapath.update(flow_id, messages={NAME: b""})
        driver.run_for(0.2)
        so_far, reports = len(reported), len(driver.seen.reports)
        driver.until(lambda: len(driver.seen.reports) > reports + 3 * REPORT_EVERY)
        assert len(reported) == so_far
        before = counted(reported[-1])[1]
        # Octets behind the object's end are nothing to libbpf, and another version to the datapath.
        datapath.extend(NAME, compiled.read_bytes() + b"another")
        datapath.update(flow_id, messages={NAME: counter_message(128, report_every=1)})
        driver.until(lambda: len(reported) > so_far)
        assert before > 5 * REPORT_EVERY
        assert counted(reported[so_far])[1] < REPORT_EVERY


def test_a_version_that_the_kernel_refuses_leaves_the_one_that_runs(
    compiled: Path, tmp_path: Path, wire: netlab.Path, start_transfer: Start
) -> None:
    """Its programs, its maps with what they counted, and its messages."""
    right, beyond = "&count->folded", "&count[1].folded"
    source = tmp_path / "refused.bpf.c"
    source.write_text(SOURCE.read_text().replace(right, beyond))
    refused = compile_as_author(source, tmp_path / "refused.bpf.o").read_bytes()
    place = f"{PIN_DIR}/extension"
    with loaded() as datapath:
        datapath.extend(NAME, compiled.read_bytes())
        maps = set(os.listdir(f"{place}/{NAME}"))
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        reported = driver.seen.reported
        start_transfer(wire.sender, wire.receiver, congestion="ccp", duration_s=60, rate_bytes_per_s=1e6)
        driver.until(lambda: len(driver.seen.reports) > 50)
        flow_id = driver.seen.busiest()
        datapath.update(flow_id, messages={NAME: counter_message(128)})
        driver.until(lambda: len(reported) > 5)
        for _ in range(2):
            with pytest.raises(CcpError) as error:
                datapath.extend(NAME, refused)
            assert error.value.slug == "load.extension"
        assert os.listdir(place) == [NAME]
        assert set(os.listdir(f"{place}/{NAME}")) == maps
        before, so_far = counted(reported[-1])[1], len(reported)
        driver.until(lambda: len(reported) > so_far + 5)
        assert counted(reported[-1])[1] > before, "the old programs count on"
        datapath.update(flow_id, messages={NAME: b""})
        driver.run_for(0.2)
        so_far, reports = len(reported), len(driver.seen.reports)
        driver.until(lambda: len(driver.seen.reports) > reports + 3 * REPORT_EVERY)
        assert len(reported) == so_far, "they read messages"
        for _ in range(2):
            datapath.extend(NAME, compiled.read_bytes() + b"another")
        datapath.update(flow_id, messages={NAME: counter_message(128, report_every=1)})
        driver.until(lambda: len(reported) > so_far)
        assert counted(reported[so_far])[1] < REPORT_EVERY
        assert os.listdir(place) == [NAME]
    assert not os.path.exists(PIN_DIR)
