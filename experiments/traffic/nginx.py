"""A web server on a host: nginx with a generated configuration and files."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from experiments.netlab import process
from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic.scratch import make_folder

_READY_TIMEOUT_S: Final = 10.0
_BACKLOG: Final = 511
_LOG_TAIL_CHARACTERS: Final = 1000

_CONFIGURATION: Final = """\
daemon off;
user root;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/log warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    types {{
        text/html html;
        application/javascript js;
        application/dash+xml mpd;
    }}
    default_type application/octet-stream;
    gzip on;
    gzip_types application/javascript;
    keepalive_requests 1000000000;
    keepalive_timeout 1d;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen {address}:{port}; root {folder}/objects; }}
}}
"""


class Nginx:
    """nginx, serving objects of given sizes as `/SIZE`, and files; it compresses scripts of pages.

    nginx cannot choose a congestion control. So nginx inherits a listening socket (through its environment
    variable NGINX, meant for upgrades of a running server) with a congestion control that the kernel copies
    to each connection. Thus each server on a host can use a different congestion control, and any that the
    kernel has.

    Attributes:
        folder: Its temporary folder.
        port: Its port.
        url: URL for clients, `http://...`.
        process: Its master process, the parent of the serving process. Without a master, nginx 1.22 crashes
            with an inherited socket.
    """

    def __init__(
        self,
        host: Host,
        *,
        port: int | None,
        family: Family,
        congestion: str,
        sizes_bytes: Iterable[int] = (),
        files: Mapping[str, Path | str] = types.MappingProxyType({}),
    ) -> None:
        """Start nginx, and wait until it serves.

        Raises:
            LabError: `lab.no_command`, `lab.no_congestion_control`, `lab.not_listening` or `lab.closed`.
        """
        where = f"host {host.name}: nginx"
        self.port = host.new_port() if port is None else port
        program = process.which("nginx", where)
        self.process: process.Process | None = None
        self._temporary: tempfile.TemporaryDirectory[str] = make_folder(host)
        self.folder = Path(self._temporary.name)
        try:
            objects = self.folder / "objects"
            objects.mkdir()
            for size_bytes in set(sizes_bytes):
                with (objects / str(size_bytes)).open("wb") as file:
                    file.truncate(size_bytes)  # sparse: uses no disk space
            for name, content in files.items():
                if isinstance(content, Path):
                    (objects / name).symlink_to(content)
                else:
                    (objects / name).write_text(content)
            address = host.address(family)
            bracketed = f"[{address}]" if family == "ipv6" else address
            self.url = f"http://{bracketed}:{self.port}"
            configuration = self.folder / "configuration"
            configuration.write_text(
                _CONFIGURATION.format(folder=self.folder, address=bracketed, port=self.port)
            )
            args = [program, "-c", str(configuration), "-e", str(self.folder / "log"), "-p", str(self.folder)]
            with host.tcp_socket(family, congestion) as listening:
                _listen(listening, address, self.port, where)
                # A process of a host only inherits descriptors 0 to 2.
                self.process = host.popen(args, stdin=listening.fileno(), env={**os.environ, "NGINX": "0;"})
            self._wait_until_ready(where)
        except BaseException:
            self.stop()
            raise

    def log(self) -> str:
        """Return the end of nginx' error log."""
        with contextlib.suppress(OSError):
            lines = (self.folder / "log").read_text(errors="replace").splitlines()
            return "\n".join(line for line in lines if "[notice]" not in line)[-_LOG_TAIL_CHARACTERS:]
        return ""

    def stop(self) -> None:
        """Stop nginx and remove its folder; may be called again."""
        if self.process is not None:
            process.end([self.process])
        self._temporary.cleanup()

    def _wait_until_ready(self, where: str) -> None:
        """Wait until it has written its pid file; it serves by then."""
        assert self.process is not None
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while not (self.folder / "pid").exists():
            if self.process.poll() is not None or time.monotonic() > deadline_s:
                raise LabError(
                    "lab.not_listening",
                    "nginx did not start",
                    where,
                    self.log() or "nginx gave no reason",
                    "`nginx -V` in the host shows how it was built",
                )
            time.sleep(0.002)


def _listen(listening: socket.socket, address: str, port: int, where: str) -> None:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        raise LabError(
            "lab.not_listening",
            f"cannot listen on TCP port {port}",
            where,
            os.strerror(error.errno or 0),
            "choose another port if this one is in use",
        ) from error
