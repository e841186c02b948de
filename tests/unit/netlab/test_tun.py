from __future__ import annotations

import errno
import os

import pytest

from experiments.netlab import LabError, namespace, tun


def test_addresses_follow_from_the_number_of_the_host() -> None:
    end = tun.interface("eth0", 1, 9000)
    assert (end.ipv4, end.ipv6, end.mtu_bytes) == ("10.78.0.1", "fd78::1", 9000)
    assert tun.interface("eth0", 300, 1500).ipv4 == "10.78.1.44"


@pytest.mark.parametrize(
    ("number", "slug", "part"),
    [
        (errno.ENOENT, "lab.no_tun", "--device /dev/net/tun"),
        (errno.EPERM, "lab.not_permitted", "--privileged"),
        (errno.EBUSY, "lab.kernel_refused", "EBUSY"),
    ],
)
def test_a_device_that_cannot_be_made_is_explained(
    monkeypatch: pytest.MonkeyPatch, number: int, slug: str, part: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(namespace, "call_inside", lambda _, function: function())
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(LabError) as caught:
        tun.open_tun("ccp-1-2-3-sender", tun.interface("eth0", 1, 1500))
    assert caught.value.slug == slug
    assert part in str(caught.value)
