"""The sysctls and root qdiscs of a host that the paper's method changes; they are restored at the end.

    with HostSettings() as settings:
        settings.choose("dctcp")
        if not (why := settings.pace(index)):
            settings.limit(index, 1_250_000_000)

All calls apply to the network namespace of the calling thread. The original settings are stored in a file, so
after a crash the next start restores them.

A network namespace other than the initial one can use as its default only congestion controls that
`tcp_allowed_congestion_control` lists. In the initial namespace the kernel itself adds the new default to
that list; the list is also restored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from pyroute2 import IPRoute
from pyroute2.netlink import nla
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import plugins

from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.features.regime.namespace import cookie
from ccplane.base.private import ROOT_DIR
from telemetry.putback import claim, keep, left_behind

SYSCTLS: Final = Path("/proc/sys/net/ipv4")
ECN_ON: Final = "1"
"""Request and accept ECN: `tcp_ecn` of ip-sysctl.rst."""

_DEFAULT: Final = "tcp_congestion_control"
_ALLOWED: Final = "tcp_allowed_congestion_control"
_ECN: Final = "tcp_ecn"
_NO_LIMIT: Final = 2**32 - 1
_HANDLE: Final = 0xCC7_0000
_LOCAL: Final = 2  # RTN_LOCAL, <linux/rtnetlink.h>


class Before(msgspec.Struct, kw_only=True, frozen=True):
    """Original settings of a host.

    Attributes:
        congestion: Default congestion control.
        allowed: Congestion controls that are allowed without privilege.
        ecn: Its `tcp_ecn`.
        added: Default congestion controls chosen since.
        paced: Interfaces that got fq since, by index.
    """

    congestion: str
    allowed: tuple[str, ...]
    ecn: str
    added: tuple[str, ...] = ()
    paced: tuple[int, ...] = ()


class HostSettings:
    """The settings of one network namespace; a context manager.

    Attributes:
        before: The original settings.
    """

    before: Before

    def __init__(self, sysctls: Path = SYSCTLS, run_dir: Path = ROOT_DIR) -> None:
        """Prepare; nothing changes yet."""
        self._sysctls = sysctls
        self._run_dir = run_dir
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Restore the settings after a crash, and store the original settings.

        Raises:
            SwitchError: `switch.host_in_use` or `switch.not_permitted`.
            LoadError: `load.not_private`.
        """
        with contextlib.ExitStack() as stack, _kernels_answers("change the settings of this host"):
            taken = claim("host")
            if taken is None:
                raise SwitchError(
                    "switch.host_in_use",
                    "another process already switches the settings of this host",
                    "this network namespace",
                    fix="stop the other `ccp regime apply --how host`",
                )
            stack.enter_context(taken)
            self._ipr = stack.enter_context(IPRoute())
            self._file = self._run_dir / f"regime-{cookie()}.json"
            left = left_behind(self._file, Before)
            if left is not None:
                self._put_back(left)
            self.before = Before(
                congestion=self._read(_DEFAULT),
                allowed=tuple(self._read(_ALLOWED).split()),
                ecn=self._read(_ECN),
            )
            keep(self._file, self.before)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore all settings."""
        with self._open, _kernels_answers("restore the settings of this host"):
            self._put_back(self.before)
            self._file.unlink()

    def leave(self) -> None:
        """Stop without restoring the settings."""
        self._file.unlink()
        self._open.close()

    def choose(self, congestion: str) -> str:
        """Set the default congestion control, and enable ECN; existing sockets keep their congestion control.

        Returns:
            The previous default.

        Raises:
            SwitchError: `switch.no_congestion_control` or `switch.not_permitted`.
        """
        chosen = self._read(_DEFAULT)
        if congestion not in self.before.added:
            self._change(added=(*self.before.added, congestion))
        with _kernels_answers(f"make {congestion} the default of this network namespace"):
            self._write(_DEFAULT, congestion)
            self._write(_ECN, ECN_ON)
        return chosen

    def is_here(self, address: str) -> bool:
        """Return whether an address belongs to this network namespace."""
        route = self._route_to(address)
        return route is not None and route["type"] == _LOCAL

    def interface_to(self, address: str) -> int | None:
        """Return the index of the interface towards an address; None without a route."""
        route = self._route_to(address)
        return None if route is None else route.get("oif")

    def _route_to(self, address: str) -> Any:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            (route,) = self._ipr.route("get", dst=address, family=family)
        except NetlinkError:
            return None
        return route

    def pace(self, index: int) -> str:
        """Set fq as the root qdisc of an interface, unless another one was configured.

        Returns:
            Why fq was not set; empty if it was set.
        """
        root = self._root(index)
        if root is not None and root["handle"]:
            return f"{self.name(index)} already has a configured qdisc, {root.get('kind')}"
        self._change(paced=(*self.before.paced, index))
        try:
            self._ipr.tc("add", "fq", index, handle=_HANDLE, max_rate=_NO_LIMIT)
        except NetlinkError as error:
            self._change(paced=tuple(one for one in self.before.paced if one != index))
            why = "the kernel has no sch_fq" if error.code == errno.ENOENT else error.args[-1]
            return f"cannot set fq on {self.name(index)}: {why}"
        return ""

    def limit(self, index: int, rate_bytes_per_s: int | None) -> None:
        """Limit the rate of each flow of an interface, if it still has the fq of `pace`.

        Raises:
            SwitchError: `switch.not_permitted`.
        """
        rate = _NO_LIMIT if rate_bytes_per_s is None else rate_bytes_per_s
        with _kernels_answers("limit the rate of flows"):
            if self._is_paced(index):
                self._ipr.tc("change", "fq", index, handle=_HANDLE, max_rate=rate)

    def name(self, index: int) -> str:
        """Return the name of an interface."""
        name: str = self._ipr.get_links(index)[0].get("ifname")
        return name

    def _change(self, **fields: Any) -> None:
        """Store what must be restored, before it changes."""
        self.before = msgspec.structs.replace(self.before, **fields)
        keep(self._file, self.before)

    def _put_back(self, before: Before) -> None:
        for index in before.paced:
            if self._is_paced(index):
                self._ipr.tc("del", index=index, parent=TC_H_ROOT, handle=_HANDLE)
        self._write(_ECN, before.ecn)
        self._write(_DEFAULT, before.congestion)
        own = {*before.added} - {*before.allowed}
        allowed = self._read(_ALLOWED).split()
        if own & {*allowed}:
            self._write(_ALLOWED, " ".join(name for name in allowed if name not in own))

    def _is_paced(self, index: int) -> bool:
        """Return whether an interface exists and has the fq of `pace`."""
        root = self._root(index)
        return root is not None and root["handle"] == _HANDLE

    def _root(self, index: int) -> Any:
        found = self._ipr.get_qdiscs(index=index)
        return next((one for one in found if one["parent"] == TC_H_ROOT), None)

    def _read(self, name: str) -> str:
        return (self._sysctls / name).read_text().strip()

    def _write(self, name: str, value: str) -> None:
        (self._sysctls / name).write_text(f"{value}\n")


@contextlib.contextmanager
def _kernels_answers(what: str) -> Iterator[None]:
    """Turn the kernel's errors into errors of ccplane."""
    try:
        yield
    except (NetlinkError, OSError) as error:
        number = error.code if isinstance(error, NetlinkError) else error.errno
        if number == errno.ENOENT:
            raise SwitchError(
                "switch.no_congestion_control",
                f"cannot {what}",
                str(SYSCTLS / _DEFAULT),
                "the congestion control does not exist",
                "load the congestion control's module, or run the algorithm with `ccp run`",
            ) from error
        allowed = number in (errno.EPERM, errno.EACCES) and os.geteuid() == 0
        raise SwitchError(
            "switch.not_permitted",
            f"cannot {what}",
            "this network namespace",
            str(error),
            f"add the congestion control to {SYSCTLS / _ALLOWED} in the initial network namespace"
            if allowed
            else "run as root",
        ) from error


class _Fq:
    """Encodes fq for pyroute2, which has no plug-in for it.

    Source: <linux/pkt_sched.h>.
    """

    parent = TC_H_ROOT

    @staticmethod
    def get_parameters(options: dict[str, Any]) -> dict[str, Any]:
        """Return the contents of TCA_OPTIONS."""
        return {"attrs": [["TCA_FQ_RATE_ENABLE", 1], ["TCA_FQ_FLOW_MAX_RATE", options["max_rate"]]]}

    class options(nla):  # type: ignore[misc]  # noqa: N801 - pyroute2 looks for this name
        nla_map = (
            ("TCA_FQ_UNSPEC", "none"),
            ("TCA_FQ_PLIMIT", "uint32"),
            ("TCA_FQ_FLOW_PLIMIT", "uint32"),
            ("TCA_FQ_QUANTUM", "uint32"),
            ("TCA_FQ_INITIAL_QUANTUM", "uint32"),
            ("TCA_FQ_RATE_ENABLE", "uint32"),
            ("TCA_FQ_FLOW_DEFAULT_RATE", "uint32"),
            ("TCA_FQ_FLOW_MAX_RATE", "uint32"),
        )


plugins["fq"] = _Fq
