"""`Client`: a running agent from Python, for notebooks and commands.

    from ccplane.agent import Client

    client = Client()
    client.flows()                          # a DataFrame
    client.params["beta"] = 0.8             # all flows; client.params.flow(7)["beta"] = 0.8 for one
    client.load(source)                     # text of an algorithm: live from here on
    for report in client.stream(flow): ...
    client.panel()                          # curves, sliders, an editor, in a notebook

Every call waits for the agent's answer and raises its errors as they are: slug, what, where, why, fix.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import zmq

from ccplane.agent import keys
from ccplane.agent import messages as ask
from ccplane.agent.control import check_address, control_socket, prepare_address, stream_address
from ccplane.agent.messages import Answer, Ask, Envelope, error_of
from ccplane.base.errors import LoadError
from ccplane.base.extras import extra_part
from ccplane.datapath.ebpf import DEFAULT_PIN_DIR

if TYPE_CHECKING:
    import pandas as pd

    from ccplane.agent.panel.panel import Panel

TIMEOUT_S: Final = 10.0
"""How long to wait for an answer [s]."""

LOAD_TIMEOUT_S: Final = 30.0
"""How long to wait for an algorithm to be loaded [s]: one may take 10 s, and others may be before it."""

Row = dict[str, Any]


class Client:
    """A connection to a running agent; a context manager. May be used by several threads.

    Attributes:
        address: Where the agent listens.
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
        """Connect; whether an agent is there shows with the first call.

        Args:
            address: `ipc://PATH` or `tcp://HOST:PORT`; None for the agent of `pin_dir` on this machine.
            pin_dir: Directory of the agent's datapath.
            keys_dir: Directory of CURVE keys, for TCP.
            timeout_s: How long to wait for an answer [s].

        Raises:
            LoadError: `control.no_agent`, if the Unix socket is not there or nobody listens, or we may not
                open it.
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

    # Looking

    def status(self) -> Row:
        """Return what runs, since when, and the counters."""
        return dict(self.ask(ask.Status()))

    def algorithms(self) -> list[str]:
        """Return the names of the running algorithms."""
        return [one["name"] for one in self.status()["algorithms"]]

    def flows(self) -> pd.DataFrame:
        """Return all flows, one a row, by flow id (wants pandas); totals are missing if a flow closed."""
        with extra_part():
            import pandas as pd
        rows = self.ask(ask.Flows())
        columns = ["flow_id"] if not rows else None
        return pd.DataFrame(rows, columns=columns).set_index("flow_id")

    def flow(self, flow_id: int) -> Row:
        """Return everything that is known of one flow: also parameters, state and telemetry."""
        return dict(self.ask(ask.Flow(flow=flow_id)))

    def get_params(self, algorithm: str | None = None, flow: int | None = None) -> dict[str, list[Row]]:
        """Return parameters with value, default, range, unit and meaning, by algorithm."""
        return dict(self.ask(ask.GetParams(algorithm=algorithm, flow=flow)))

    def events(self, limit: int = 100) -> list[Row]:
        """Return the last events."""
        return list(self.ask(ask.Events(limit=limit)))

    # Changing

    def set(
        self,
        values: Mapping[str, ask.Value],
        *,
        flow: int | None = None,
        algorithm: str | None = None,
        rule: str | None = None,
    ) -> int:
        """Set parameters, all or none.

        Args:
            values: Value, or text that spells it, by `NAME` or `ALGORITHM.NAME`.
            flow: For this flow only.
            algorithm: For flows of this algorithm only.
            rule: For flows that match only, those to come included: `dst=10.0.0.0/8 dport=5001`.

        Returns:
            How many running flows it reached.
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
        """Give flows another running algorithm: all and those to come, or those that are named.

        Args:
            algorithm: The algorithm to be.
            flow: This flow only.
            before: Flows of this algorithm only.
            rule: Flows that match only, those to come included.

        Returns:
            How many running flows went over.
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
        """Load an algorithm: as the next version of a running one of its name, or beside the others.

        Args:
            source: Its text, or the path of its file, which is read here.
            name: Under which name; else the one that it gives itself, or that of the same file.
            class_name: Which class, if there are several.
            canary: Put it on trial first, with these new flows: `5%`, `dport=5001`, or `20% dport=5001`.
            seconds: How long the trial lasts [s]; a minute, if None.

        Returns:
            What was done: hashes of the sources before and now, and how many flows went over. Or how the
            trial stands.
        """
        file = None
        if isinstance(source, Path):
            file = str(source.resolve())
            source = source.read_text(encoding="utf-8")
        request = ask.Load(
            source=source, name=name, class_name=class_name, file=file, canary=canary, seconds=seconds
        )
        return dict(self.ask(request, LOAD_TIMEOUT_S))

    def check(self, source: str, name: str | None = None, *, class_name: str | None = None) -> Row:
        """Find out whether the text of an algorithm could be loaded; flows notice nothing.

        Args:
            source: Its text.
            name: Under which name; else the one that it gives itself.
            class_name: Which class, if there are several.

        Returns:
            What `load` would do.

        Raises:
            CcpError: What is wrong with it, as of `load`.
        """
        request = ask.Load(source=source, name=name, class_name=class_name, check=True)
        return dict(self.ask(request, LOAD_TIMEOUT_S))

    def source(self, algorithm: str) -> Row:
        """Return what a running algorithm was made of: `text`, `file`, `class_name`, `sha256`."""
        return dict(self.ask(ask.GetSource(algorithm=algorithm)))

    def reload(
        self, algorithm: str | None = None, *, canary: str | None = None, seconds: float | None = None
    ) -> list[Row]:
        """Read the file of an algorithm again, or those of all; returns what `load` does.

        With `canary` and `seconds`, as of `load`, no algorithm means the default one.
        """
        request = ask.Reload(algorithm=algorithm, canary=canary, seconds=seconds)
        return list(self.ask(request, LOAD_TIMEOUT_S))

    def end_canary(self, algorithm: str, *, widen: bool) -> Row:
        """End the trial of a new version: it takes over, or is taken back; returns how the trial stands."""
        return dict(self.ask(ask.EndCanary(algorithm=algorithm, widen=widen)))

    def rollback(self, algorithm: str) -> Row:
        """Let the version before take over again, or take back one on trial; returns what was done."""
        return dict(self.ask(ask.Rollback(algorithm=algorithm), LOAD_TIMEOUT_S))

    def install_program(self, algorithm: str, source: str, program: str = "default") -> int:
        """Replace a fold program of an algorithm under its flows; returns how many they are."""
        request = ask.InstallProgram(algorithm=algorithm, source=source, program=program)
        return int(self.ask(request, LOAD_TIMEOUT_S))

    def subscribe(self, kind: str) -> list[str]:
        """Let the agent listen to one more kind of telemetry; returns all kinds."""
        return list(self.ask(ask.Subscribe(kind=kind)))

    def unsubscribe(self, kind: str) -> list[str]:
        """Let the agent listen to a kind of telemetry no longer; returns the others."""
        return list(self.ask(ask.Subscribe(kind=kind, on=False)))

    def stop(self) -> None:
        """End the agent, as Ctrl-C does."""
        self.ask(ask.Stop())

    # Listening

    def stream(
        self, flow: int | None = None, *, kinds: tuple[str, ...] = ("report",), timeout_s: float | None = None
    ) -> Stream:
        """Listen from now on.

        Args:
            flow: To this flow only, as far as `report` and `decision` are concerned.
            kinds: Some of `report`, `decision`, `event`, `telemetry`.
            timeout_s: Iterating ends when nothing came for so long [s]; None waits for ever.
        """
        topics = [
            f"{kind}/{flow}/" if flow is not None and kind in ("report", "decision") else f"{kind}/"
            for kind in kinds
        ]
        return Stream(self._connected(zmq.SUB, stream_address(self.address)), topics, timeout_s)

    def panel(self, flow: int | None = None, *, algorithm: str | None = None) -> Panel:
        """Return a live panel to show in a notebook: curves, parameters, the algorithm's source, telemetry.

        Args:
            flow: Of this flow only; else of all flows.
            algorithm: Parameters of this algorithm only.

        Raises:
            LoadError: `load.no_extra`, without anywidget.
        """
        with extra_part():
            from ccplane.agent.panel.panel import Panel

        return Panel(self, flow=flow, algorithm=algorithm)

    # The socket

    def another(self) -> Client:
        """Return another connection to the same agent: an answer that takes long holds up one only."""
        return Client(self.address, keys_dir=self._keys_dir, timeout_s=self._timeout_s)

    def ask(self, what: Ask, timeout_s: float | None = None) -> Any:
        """Ask, and wait for the answer.

        Args:
            what: What is asked for, see `ccplane.agent.messages`.
            timeout_s: How long to wait [s]; None for the client's own limit.

        Raises:
            LoadError: `control.no_answer`.
            CcpError: What the agent says is wrong.
        """
        limit_s = max(timeout_s or 0.0, self._timeout_s) if timeout_s else self._timeout_s
        with self._lock:
            self._next += 1
            number = self._next
            self._socket.send(msgspec.json.encode(Envelope(id=number, ask=what)))
            end_s = time.monotonic() + limit_s
            while (left_s := end_s - time.monotonic()) > 0:
                if self._socket.poll(max(1, round(1000 * left_s))):
                    answer = msgspec.json.decode(self._socket.recv(), type=Answer)
                    if answer.id == number:  # else one that came too late
                        break
            else:
                raise LoadError(
                    "control.no_answer",
                    f"the agent did not answer within {limit_s:g} s",
                    where=self.address,
                    why="it ended, its algorithm hangs, or nobody lets us in",
                    fix="see `ccp doctor`, and the agent's log",
                )
        if answer.error:
            raise error_of(answer.error)
        return answer.ok

    def close(self) -> None:
        """Disconnect; may be called again."""
        self._context.destroy(linger=0)

    def __enter__(self) -> Client:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
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
        path, fix = self.address.removeprefix("ipc://"), "start one with `ccp run`"
        try:
            with socket.socket(socket.AF_UNIX) as trial:
                trial.connect(path)
        except FileNotFoundError:
            reason = "there is no such socket"
        except ConnectionRefusedError:
            reason = "nobody listens there any more: the agent was killed"
        except PermissionError:
            reason = "this user may not open it"
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


class Stream:
    """Messages from the agent as they come; an iterator, and a context manager.

    Attributes:
        dropped: How many were lost so far, because this side did not take them in time.
    """

    def __init__(self, socket: zmq.Socket[bytes], topics: list[str], timeout_s: float | None) -> None:
        """Subscribe."""
        self.dropped = 0
        self._socket = socket
        self._timeout_s = timeout_s
        self._last: dict[bytes, int] = {}
        for topic in topics:
            socket.setsockopt(zmq.SUBSCRIBE, topic.encode())

    def __iter__(self) -> Iterator[Row]:
        """Yield messages until nothing came for `timeout_s`."""
        while (row := self.next(self._timeout_s)) is not None:
            yield row

    def next(self, timeout_s: float | None = None) -> Row | None:
        """Return the next message, None if nothing comes in time.

        Args:
            timeout_s: How long to wait [s]; 0 does not wait, None waits for ever.
        """
        if not self._socket.poll(None if timeout_s is None else round(1000 * timeout_s)):
            return None
        topic, text = self._socket.recv_multipart()
        row: Row = msgspec.json.decode(text)
        number = int(row.pop("number"))
        # A lower number: somebody else subscribed or left, and counting began anew.
        self.dropped += max(0, number - self._last.get(topic, number) - 1)
        self._last[topic] = number
        row["stream"] = topic.partition(b"/")[0].decode()
        return row

    def ready(self) -> list[Row]:
        """Return what has come and was not yet taken; does not wait."""
        rows = []
        while (row := self.next(0)) is not None:
            rows.append(row)
        return rows

    def close(self) -> None:
        """Listen no longer."""
        self._socket.close()

    def __enter__(self) -> Stream:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no longer."""
        self.close()


class Params(MutableMapping[str, Any]):
    """Parameters as a mapping: reading asks the agent, assigning sets at once."""

    def __init__(self, client: Client, flow: int | None = None) -> None:
        """Mean all flows, or one."""
        self._client = client
        self._flow = flow

    def flow(self, flow_id: int) -> Params:
        """Return the parameters of one flow."""
        return Params(self._client, flow_id)

    def __getitem__(self, name: str) -> Any:
        """Return the value that holds.

        Raises:
            KeyError: If there is none of this name, or several with different values: name the algorithm.
        """
        values = [value for one, value in self._all() if name in (one, one.partition(".")[2])]
        if not values or any(value != values[0] for value in values):
            raise KeyError(name)
        return values[0]

    def __setitem__(self, name: str, value: Any) -> None:
        """Set it."""
        self._client.set({name: value}, flow=self._flow)

    def __delitem__(self, name: str) -> None:
        """Set it to its default.

        Raises:
            KeyError: If there is none of this name.
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
        """Yield the names, as `ALGORITHM.NAME`."""
        return (name for name, _ in self._all())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all())

    def __repr__(self) -> str:
        """Return names and values."""
        return "\n".join(f"{name} = {value!r}" for name, value in self._all())

    def _all(self) -> list[tuple[str, Any]]:
        return [
            (f"{algorithm}.{row['name']}", row["value"])
            for algorithm, rows in self._client.get_params(flow=self._flow).items()
            for row in rows
        ]
