from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker.errors import SLUGS, BusError
from broker.options import BusOptions, Tls


@pytest.mark.parametrize(
    ("url", "host", "port", "user", "password"),
    [
        ("mqtt://localhost", "localhost", 1883, None, None),
        ("mqtt://10.0.0.1:2883/", "10.0.0.1", 2883, None, None),
        ("mqtt://[fd00::1]:1884", "fd00::1", 1884, None, None),
        ("mqtt://anna@bus", "bus", 1883, "anna", None),
        ("mqtt://anna:p%40ss%3A@bus:1", "bus", 1, "anna", "p@ss:"),
        ("mqtts://anna:x@bus", "bus", 8883, "anna", "x"),
    ],
)
def test_a_url_is_read(url: str, host: str, port: int, user: str | None, password: str | None) -> None:
    options = BusOptions.from_url(url)
    assert (options.host, options.port, options.user, options.password) == (host, port, user, password)
    assert (options.tls is not None) == url.startswith("mqtts")


def test_a_password_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss:\n")
    options = BusOptions.from_url(f"mqtts://anna@bus?password_file={file}&ca=c.pem")
    assert (options.user, options.password) == ("anna", "p@ss:")
    file.unlink()
    with pytest.raises(BusError) as caught:
        BusOptions.from_url(f"mqtt://anna@bus?password_file={file}")
    assert caught.value.slug == "bus.no_password_file"
    assert caught.value.where == str(file)


def test_files_for_tls_are_read() -> None:
    options = BusOptions.from_url("mqtts://bus?ca=/etc/ca.pem&cert=c.pem&key=k.pem")
    assert options.tls == Tls(Path("/etc/ca.pem"), Path("c.pem"), Path("k.pem"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "http://bus",
        "mqtt://",
        "mqtt://:1883",
        "mqtt://bus:port",
        "mqtt://bus:99999",
        "mqtt://bus/topic",
        "mqtt://bus#x",
        "mqtt://bus?ca=x",
        "mqtts://bus?what=x",
        "mqtts://bus?key=k.pem",
        "mqtt://bus?password_file=p",
        "mqtt://anna:x@bus?password_file=p",
    ],
)
def test_what_is_no_address_of_a_broker_is_refused(url: str) -> None:
    with pytest.raises(BusError) as caught:
        BusOptions.from_url(url)
    assert caught.value.slug == "bus.bad_url"
    assert caught.value.why


def test_a_password_is_never_shown() -> None:
    assert "secret" not in str(BusOptions.from_url("mqtt://anna:secret@bus"))
    with pytest.raises(BusError) as caught:
        BusOptions.from_url("mqtt://anna:secret@bus/topic")
    assert "secret" not in str(caught.value)
    assert str(BusOptions.from_url("mqtts://anna:x@[fd00::1]")) == "mqtts://anna@[fd00::1]:8883"


def test_another_user_at_the_same_broker() -> None:
    options = BusOptions.from_url("mqtts://bus").as_user("anna", "x")
    assert (options.host, options.user, options.password) == ("bus", "anna", "x")


def test_a_missing_certificate_is_explained(tmp_path: Path) -> None:
    with pytest.raises(BusError) as caught:
        Tls(ca_file=tmp_path / "nowhere.pem").context()
    assert caught.value.slug == "bus.tls_files"
    assert "nowhere.pem" in caught.value.where


def test_certificates_are_checked_by_default() -> None:
    context = Tls().context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def test_every_error_is_tested() -> None:
    folders = [Path(__file__).parent, Path(__file__).parents[2] / "interop"]
    texts = [file.read_text() for folder in folders for file in folder.glob("*.py")]
    assert [slug for slug in SLUGS if not any(f'"{slug}"' in text for text in texts)] == []
