"""Forks runs of the command off a process that has imported what a run imports, which is a third of what it costs.

A run has its own variables, directory, output and exit code, as one that is started. Variables that Python, a library
or the package reads when it is loaded have to be those of the warm process; commands with others are started.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMMAND: Final = str(Path(sys.executable).with_name("ingest"))
_STARTED: Final = frozenset({"sandbox", "warmup"})
"""Commands that start what outlives them, or that look at how Java starts."""
_MODULES: Final = (
    "ingest.cli.run", "ingest.cli.plan", "ingest.cli.rerun", "ingest.sources.kafka.options",
    "ingest.sinks.topics.upsert_kafka", "ingest.kafka.native.client", "ingest.driver.schemas", "pyspark.sql",
    "rich.live", "pyspark.worker", "ingest.schema.ddl_parser", "ingest.formats.avro.schema",
    "ingest.schema_registry.client",
)  # fmt: skip
_AT_IMPORT: Final = ("PYTHON", "LD_", "OPENSSL_", "LC_", "LANG", "TZ", "INGEST_NATIVE", "INGEST_DOCS")
"""How the names of variables begin that count when a module is loaded."""
_PYTHON: Final = """\
#!{python} -SEs
# What a forked run calls its Python: Spark's daemon of workers is forked as well, and all else is started
import json, os, socket, sys
python, address, names, usual = {what}
if sys.argv[1:2] == ["-m"] and sys.argv[2] in {daemons} and usual == {{
    name: value for name, value in os.environ.items() if name.startswith(names)
}}:
    request = json.dumps([[python, *sys.argv[1:]], dict(os.environ), os.getcwd(), python]).encode()
    with socket.socket(socket.AF_UNIX) as status:
        status.connect(address)
        socket.send_fds(status, [len(request).to_bytes(4, "big")], [0, 1, 2])
        status.sendall(request)
        os.closerange(0, 2)
        while status.recv(4):
            pass
    sys.exit()
os.execv(python, [python, *sys.argv[1:]])
"""
_DAEMONS: Final = {
    "ingest.task.daemon": ("ingest.task.native_support", "ingest.task.pipeline"),
    "faulty_daemon": ("ingest.task.native_support", "ingest.task.pipeline", "ingest.sinks.postgres.writer"),
}
"""The modules that daemons of Spark's workers are, and what they need besides."""
_PATH: Final = "PYTHONPATH"
"""Spark in this process adds to it what this process has on its path anyway: so it counts only where it is another."""


class Warm:
    """The warm process of this one; it ends with it."""

    def __init__(self) -> None:
        self.at_import = _at_import(os.environ)
        self._folder = tempfile.TemporaryDirectory(prefix="ingest-warm-")
        self._address = str(Path(self._folder.name, "socket"))
        self.python = Path(self._folder.name, "python")
        names = tuple(name for name in _AT_IMPORT if name != "PYTHON")  # Java has set some of those
        usual = {name: value for name, value in os.environ.items() if name.startswith(names)}
        what = (sys.executable, self._address, names, usual)
        script = _PYTHON.format(python=sys.executable, daemons=tuple(_DAEMONS), what=what)
        self.python.write_text(script, encoding="utf-8")
        self.python.chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen()
            command = [sys.executable, "-P", __file__, str(listening.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[listening.fileno()], stdin=subprocess.PIPE)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()

    def fork(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, out: int, err: int) -> Forked:
        """Run a command that writes to these files."""
        request = json.dumps([list(command), dict(env), str(cwd), str(self.python)]).encode()
        status = socket.socket(socket.AF_UNIX)
        try:
            status.connect(self._address)
            with Path(os.devnull).open("rb") as nothing:
                socket.send_fds(status, [len(request).to_bytes(4, "big")], [nothing.fileno(), out, err])
            status.sendall(request)
        except OSError:
            status.close()
            raise
        return Forked(status)


class Forked:
    """A forked run: what of `subprocess.Popen` concerns the process itself."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.pid = int.from_bytes(status.recv(4, socket.MSG_WAITALL), "big")
        if not self.pid:
            status.close()
            raise BrokenPipeError("the warm process has ended")
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._status, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("a forked run", timeout or 0.0)
            self.returncode = os.waitstatus_to_exitcode(int.from_bytes(self._status.recv(4, socket.MSG_WAITALL), "big"))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        if self.returncode is None:
            os.kill(self.pid, number)


_warm: Warm | None = None


def forked(command: Sequence[str], env: Mapping[str, str], cwd: Path, out: int, err: int) -> Forked | None:
    """Run a command as a fork of the warm process; None where it has to be started."""
    global _warm  # noqa: PLW0603  (one for this process, started when it is first wanted)
    program, first = (*command, "")[:2]
    own = program == _COMMAND and first not in _STARTED
    if not own and not first.endswith("faulty_driver.py"):
        return None
    usual = _at_import(os.environ)
    if (_at_import(env), env.get(_PATH)) != (usual, os.environ.get(_PATH)):
        return None
    if _warm is not None and _warm.at_import != usual:
        _warm.close()
        _warm = None
    _warm = _warm or Warm()
    try:
        return _warm.fork(command, env, cwd, out, err)
    except (BrokenPipeError, ConnectionResetError):  # somebody has ended it
        _warm.close()
        _warm = None
        return None


def _at_import(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_IMPORT) and name != _PATH}


def serve(listening: socket.socket) -> None:
    """Fork a child for each request, and tell who asked of its end; this ends when standard input does."""
    for module in _MODULES:
        importlib.import_module(module)
    gc.freeze()
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        selector.register(listening, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is not listening:
                    pid, status = key.data
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    with status, suppress(BrokenPipeError):
                        status.send(os.waitpid(pid, 0)[1].to_bytes(4, "big"))
                elif (asked := _asked(status := listening.accept()[0])) is None:
                    status.close()
                else:
                    request, fds = asked
                    _load(request[0], request[2])
                    pid = os.fork()
                    if not pid:
                        for other in selector.get_map().values():
                            if other.data is not None:
                                other.data[1].close()
                                os.close(other.fd)
                        selector.close()
                        listening.close()
                        status.close()
                        _become(request, fds)
                    with suppress(BrokenPipeError):
                        status.send(pid.to_bytes(4, "big"))
                    for fd in fds:
                        os.close(fd)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def _asked(connection: socket.socket) -> tuple[list[Any], list[int]] | None:
    """A request with its three files; None where who asked has ended."""
    head, fds, _, _ = socket.recv_fds(connection, 4, 3)
    if not head:
        return None
    return json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)), fds


def _load(command: list[str], cwd: str) -> None:
    """Import what pipelines with the sink of this one, or such daemons, need besides: it takes up to seconds."""
    for name in _DAEMONS.get(command[2], ()) if command[1] == "-m" else ():
        importlib.import_module(name)
    for file in (Path(cwd, word) for word in command[2:] if word.endswith(".yaml")):
        text = file.read_text(errors="replace") if file.is_file() else ""
        for name in re.findall(r'type: "?(iceberg|delta|postgres)\b', text):
            importlib.import_module(f"ingest.sinks.{name}.coordinator")
            importlib.import_module(f"ingest.sinks.{'postgres' if name == 'postgres' else 'lake'}.writer")


def _become(request: list[Any], fds: list[int]) -> None:
    """Be the run, or the daemon of Spark's workers, and end as it ends.

    Python does not clear its modules: that takes as long as the start of a run that is forked.
    """
    try:
        _run(request, fds)
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
        if not isinstance(code, int):
            raise
    else:
        code = 0
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(request: list[Any], fds: list[int]) -> None:
    command, env, cwd, python = request
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = command[1:]
    if command[1] == "-m":
        sys.path[:0] = [cwd, *(entry for entry in env.get(_PATH, "").split(os.pathsep) if entry not in sys.path)]
        sys.argv = command[2:]
        runpy.run_module(command[2], run_name="__main__")
    elif command[1].endswith(".py"):
        sys.executable = python
        runpy.run_path(command[1], run_name="__main__")
    else:
        from ingest.cli.app import main

        sys.argv, sys.executable = command, python
        main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
