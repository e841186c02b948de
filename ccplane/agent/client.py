"""`Client`: inspect and change a running agent from Python, in notebooks and commands.

    from ccplane.agent import Client

    client = Client()
    client.flows()                          # a DataFrame
    client.params["beta"] = 0.8             # all flows; client.params.flow(7)["beta"] = 0.8 for one
    client.load(source)                     # load an algorithm from its text
    for report in client.stream(flow): ...
    client.panel()                          # curves, sliders, an editor, in a notebook

Every call waits for the agent's answer, and raises the agent's errors with all their fields.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import zmq

from ccp_algs.siblings import place_of
from ccplane.agent import keys
from ccplane.agent import messages as ask
from ccplane.agent.client_stream import Stream, bad_answer
from ccplane.agent.control import check_address, control_socket, prepare_address, stream_address
from ccplane.agent.messages import Answer, Ask, Envelope, error_of
from ccplane.agent.upgrade import START_S
from ccplane.base.decoding import UNREADABLE
from ccplane.base.errors import LoadError
from ccplane.base.extras import extra_part
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR

if TYPE_CHECKING:
    import pandas as pd

    from ccplane.agent.panel.panel import Panel

TIMEOUT_S: Final = 10.0
"""Timeout for an answer [s]."""

LOAD_TIMEOUT_S: Final = 30.0
"""Timeout for loading an algorithm [s]: a load may take 10 s, and other loads may be queued before it."""

UPGRADE_TIMEOUT_S: Final = START_S + TIMEOUT_S
"""Timeout for an upgrade [s]."""

Row = dict[str, Any]


class Client:
    """A connection to a running agent; a context manager. Thread-safe.

    Attributes:
        address: Address of the agent.
        params: Parameters of all flows, by `NAME` or `ALGORITHM.NAME`.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        pin_dir: str = DEFAULT_PIN_DIR,
        keys_dir: Path | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Connect. Over TCP, the first call shows whether an agent answers.

        Args:
            address: `ipc://PATH` or `tcp://HOST:PORT`; None for the agent of `pin_dir` on this machine.
            pin_dir: Directory of the agent's datapath.
            keys_dir: Directory of CURVE keys, for TCP.
            timeout_s: Timeout for an answer [s].

        Raises:
            LoadError: `control.no_agent`, if the Unix socket does not exist, no agent listens on it, or
                permission is denied.
            UsageError: `control.bad_address` or `control.bad_keys`.
        """
        self.address = check_address(address or control_socket(pin_dir), "address of the agent")
        self.params = Params(self)
        self._timeout_s = timeout_s
        self._keys_dir = keys_dir
        self._lock = threading.Lock()
        self._next = 0
        self._must_be_there()
        self._context = zmq.Context()
        try:
            self._socket = self._connected(zmq.DEALER, self.address)
        except BaseException:
            self.close()
            raise

    # Queries

    def status(self) -> Row:
        """Return what the agent runs, since when, and its counters."""
        return dict(self.ask(ask.Status()))

    def algorithms(self) -> list[str]:
        """Return the names of the running algorithms."""
        return [one["name"] for one in self.status()["algorithms"]]

    def flows(self) -> pd.DataFrame:
        """Return all flows, one row per flow, by flow id (needs pandas); closed flows have no totals."""
        with extra_part():
            import pandas as pd
        rows = self.ask(ask.Flows())
        columns = ["flow_id"] if not rows else None
        return pd.DataFrame(rows, columns=columns).set_index("flow_id")

    def flow(self, flow_id: int) -> Row:
        """Return all data of one flow, including parameters, algorithm state and telemetry."""
        return dict(self.ask(ask.FlowRequest(flow=flow_id)))

    def get_params(self, algorithm: str | None = None, flow: int | None = None) -> dict[str, list[Row]]:
        """Return parameters with value, default, range, unit and description, by algorithm."""
        return dict(self.ask(ask.GetParams(algorithm=algorithm, flow=flow)))

    def events(self, limit: int = 100) -> list[Row]:
        """Return the last events."""
        return list(self.ask(ask.Events(limit=limit)))

    # Changes

    def set(
        self,
        values: Mapping[str, ask.Value],
        *,
        flow: int | None = None,
        algorithm: str | None = None,
        rule: str | None = None,
    ) -> int:
        """Set parameters, all or none; return the number of running flows affected.

        Args:
            values: Values (or their text) by `NAME` or `ALGORITHM.NAME`.
            flow: Only for this flow.
            algorithm: Only for flows of this algorithm.
            rule: Only for running and future flows that match, such as `dst=10.0.0.0/8 dport=5001`.
        """
        request = ask.SetParams(values=dict(values), flow=flow, algorithm=algorithm, rule=rule)
        return int(self.ask(request))

    def switch(
        self,
        algorithm: str,
        *,
        flow: int | None = None,
        before: str | None = None,
        rule: str | None = None,
    ) -> int:
        """Move flows to another running algorithm; without a selection, all running and future flows.

        Args:
            algorithm: The new algorithm.
            flow: Only this flow.
            before: Only flows of this algorithm.
            rule: Only running and future flows that match.

        Returns:
            Number of running flows that moved.
        """
        return int(self.ask(ask.Switch(algorithm=algorithm, flow=flow, before=before, rule=rule)))

    def load(
        self,
        source: str | Path,
        name: str | None = None,
        *,
        class_name: str | None = None,
        canary: str | None = None,
        seconds: float | None = None,
    ) -> Row:
        """Load an algorithm: as the new version of the running algorithm with its name, or in addition.

        Args:
            source: The algorithm's text, or the path of a file that this process can read.
            name: Its name; by default the name in the source, or the name of the algorithm from that file.
            class_name: Its class, if the source defines several algorithms.
            canary: First try it on these new flows: `5%`, `dport=5001`, or `20% dport=5001`.
            seconds: Duration of the trial [s]; a minute, if None.

        Returns:
            Hashes of the old and new source and the number of flows that switched; or the state of the trial.
        """
        file = None
        if isinstance(source, Path):
            file = str(place_of(source))
            source = source.read_text(encoding="utf-8")
        request = ask.Load(
            source=source, name=name, class_name=class_name, file=file, canary=canary, seconds=seconds
        )
        return dict(self.ask(request, LOAD_TIMEOUT_S))

    def check(self, source: str, name: str | None = None, *, class_name: str | None = None) -> Row:
        """Check whether the text of an algorithm could be loaded; flows are not affected.

        Args:
            source: The algorithm's text.
            name: Its name; by default the name in the source.
            class_name: Its class, if the source defines several algorithms.

        Returns:
            What `load` would do.

        Raises:
            CcpError: As `load`.
        """
        request = ask.Load(source=source, name=name, class_name=class_name, check=True)
        return dict(self.ask(request, LOAD_TIMEOUT_S))

    def source(self, algorithm: str) -> Row:
        """Return the source of a running algorithm: `text`, `file`, `class_name`, `sha256`."""
        return dict(self.ask(ask.GetSource(algorithm=algorithm)))

    def reload(
        self, algorithm: str | None = None, *, canary: str | None = None, seconds: float | None = None
    ) -> list[Row]:
        """Reload the file of one algorithm, or of all algorithms; each result is as for `load`.

        `canary` and `seconds` are as for `load`; with `canary`, None as `algorithm` means the default
        algorithm.
        """
        request = ask.Reload(algorithm=algorithm, canary=canary, seconds=seconds)
        return list(self.ask(request, LOAD_TIMEOUT_S))

    def end_canary(self, algorithm: str, *, widen: bool) -> Row:
        """End the trial of a new version: give it to all flows or take it back; return the trial's state."""
        return dict(self.ask(ask.EndCanary(algorithm=algorithm, widen=widen)))

    def rollback(self, algorithm: str) -> Row:
        """Return to the previous version, or take back a version on trial; the result is as for `load`."""
        return dict(self.ask(ask.Rollback(algorithm=algorithm), LOAD_TIMEOUT_S))

    def install_program(self, algorithm: str, source: str, program: str = "default") -> int:
        """Replace a fold program of an algorithm's flows; return the number of flows."""
        request = ask.InstallProgram(algorithm=algorithm, source=source, program=program)
        return int(self.ask(request, LOAD_TIMEOUT_S))

    def subscribe(self, kind: str) -> list[str]:
        """Subscribe the agent to a kind of telemetry; return all subscribed kinds."""
        return list(self.ask(ask.Subscribe(kind=kind)))

    def unsubscribe(self, kind: str) -> list[str]:
        """Unsubscribe the agent from a kind of telemetry; return the remaining kinds."""
        return list(self.ask(ask.Subscribe(kind=kind, on=False)))

    def upgrade(self, arguments: Sequence[str] | None = None) -> int:
        """Let the agent's service start the installed version, which takes the flows over.

        Args:
            arguments: Arguments of `ccp run`; None for those of the running agent.

        Returns:
            The process id of the new agent, when the old one hands over to it.
        """
        what = ask.Upgrade(arguments=None if arguments is None else [*arguments])
        return int(self.ask(what, UPGRADE_TIMEOUT_S))

    def stop(self) -> None:
        """Stop the agent, as Ctrl-C does."""
        self.ask(ask.Stop())

    # Streams

    def stream(
        self, flow: int | None = None, *, kinds: tuple[str, ...] = ("report",), timeout_s: float | None = None
    ) -> Stream:
        """Subscribe to messages of the agent.

        Args:
            flow: Only `report` and `decision` messages of this flow.
            kinds: Any of `report`, `decision`, `event`, `telemetry`.
            timeout_s: Iteration ends after this time without a message [s]; None: never.
        """
        topics = [
            f"{kind}/{flow}/" if flow is not None and kind in ("report", "decision") else f"{kind}/"
            for kind in kinds
        ]
        return Stream(self._connected(zmq.SUB, stream_address(self.address)), topics, timeout_s)

    def panel(self, flow: int | None = None, *, algorithm: str | None = None) -> Panel:
        """Return a live panel for a notebook: curves, parameters, the algorithm's source, telemetry.

        Raises:
            LoadError: `load.no_extra`, without anywidget.
        """
        with extra_part():
            from ccplane.agent.panel.panel import Panel

        return Panel(self, flow=flow, algorithm=algorithm)

    # The socket

    def another(self) -> Client:
        """Return a second connection to the same agent; a slow answer on one does not block the other."""
        return Client(self.address, keys_dir=self._keys_dir, timeout_s=self._timeout_s)

    def ask(self, what: Ask, timeout_s: float | None = None) -> Any:
        """Send a request, and wait for the answer.

        Args:
            what: The request, see `ccplane.agent.messages`.
            timeout_s: Timeout [s]; None for the client's timeout.

        Raises:
            LoadError: `control.no_answer` or `control.bad_answer`.
            CcpError: The agent's error.
        """
        limit_s = max(timeout_s or 0.0, self._timeout_s) if timeout_s else self._timeout_s
        with self._lock:
            self._next += 1
            number = self._next
            self._socket.send(msgspec.json.encode(Envelope(id=number, ask=what)))
            end_s = time.monotonic() + limit_s
            while (left_s := end_s - time.monotonic()) > 0:
                if self._socket.poll(max(1, round(1000 * left_s))):
                    try:
                        answer = msgspec.json.decode(self._socket.recv(), type=Answer)
                    except UNREADABLE as error:
                        raise bad_answer(self.address, error) from None
                    if answer.id == number:  # ignore late answers to earlier requests
                        break
            else:
                raise LoadError(
                    "control.no_answer",
                    f"the agent did not answer within {limit_s:g} s",
                    where=self.address,
                    why="the agent exited, an algorithm is stuck, or the agent did not accept the keys",
                    fix="run `ccp doctor`, and look at the agent's log",
                )
        if answer.error:
            raise error_of(answer.error)
        return answer.ok

    def close(self) -> None:
        """Disconnect; repeated calls have no effect."""
        self._context.destroy(linger=0)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connected(self, kind: int, address: str) -> zmq.Socket[bytes]:
        made = self._context.socket(kind)
        made.setsockopt(zmq.LINGER, 0)
        prepare_address(made, address)
        if self._keys_dir is not None:
            keys.use(made, self._keys_dir)
        made.connect(address)
        return made

    def _must_be_there(self) -> None:
        if not self.address.startswith("ipc://"):
            return
        path, fix = self.address.removeprefix("ipc://"), "start an agent with `ccp run`"
        try:
            with socket.socket(socket.AF_UNIX) as trial:
                trial.connect(path)
        except FileNotFoundError:
            reason = "this socket does not exist"
        except ConnectionRefusedError:
            reason = "no process listens on this socket: the agent was killed"
        except PermissionError:
            reason = "permission denied"
            fix = "use sudo, or start the agent with `ccp run --control-user NAME`"
        except OSError as error:
            reason = str(error)
        else:
            return
        raise LoadError(
            "control.no_agent",
            "no agent can be reached",
            where=path,
            why=reason,
            fix=fix,
        )


class Params(MutableMapping[str, Any]):
    """Parameters as a mapping: reading asks the agent, assignment sets the value immediately."""

    def __init__(self, client: Client, flow: int | None = None) -> None:
        self._client = client
        self._flow = flow

    def flow(self, flow_id: int) -> Params:
        """Return the parameters of one flow."""
        return Params(self._client, flow_id)

    def __getitem__(self, name: str) -> Any:
        """Return the current value.

        Raises:
            KeyError: If the parameter does not exist, or several algorithms have it with different values.
        """
        values = [value for one, value in self._all() if name in (one, one.partition(".")[2])]
        if not values or any(value != values[0] for value in values):
            raise KeyError(name)
        return values[0]

    def __setitem__(self, name: str, value: Any) -> None:
        self._client.set({name: value}, flow=self._flow)

    def __delitem__(self, name: str) -> None:
        """Set the parameter to its default.

        Raises:
            KeyError: If the parameter does not exist.
        """
        defaults = {
            f"{algorithm}.{row['name']}": row["default"]
            for algorithm, rows in self._client.get_params(flow=self._flow).items()
            for row in rows
            if name in (row["name"], f"{algorithm}.{row['name']}")
        }
        if not defaults:
            raise KeyError(name)
        self._client.set(defaults, flow=self._flow)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {value!r}" for name, value in self._all())

    def _all(self) -> list[tuple[str, Any]]:
        return [
            (f"{algorithm}.{row['name']}", row["value"])
            for algorithm, rows in self._client.get_params(flow=self._flow).items()
            for row in rows
        ]
