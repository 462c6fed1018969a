"""A SQL database, for a model that writes the queries."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from runwell.errors import InvalidInput, MissingExtra, StorageError, ToolError, nearest
from runwell.tools.decorator import tool
from runwell.tools.kits.sql_access import check_enforceable, reading
from runwell.tools.structured import StructuredTool

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SqlDatabase", "sql_tools"]

MOST_DESCRIBED = 40
"""Tables that are described when none is named; of more only the names are told."""


def sql_tools(
    database: Any,
    *,
    read_only: bool = True,
    max_rows: int = 100,
    max_cell: int = 500,
    max_chars: int = 50_000,
    timeout: float = 30.0,
) -> list[StructuredTool]:
    """Two tools over a database: `sql_schema` says what is in it, `sql_query` runs one statement.

    `database` is a URL (`"sqlite:///shop.db"`, `"postgresql+psycopg://..."`) or an SQLAlchemy engine. The database
    itself sees to it that nothing is changed: SQLite asks us about every action of a statement, PostgreSQL runs it in a
    read-only transaction as the body of a cursor. Any other is refused with `InvalidInput`, unless `read_only=False`;
    then `sql_query` commits what it does and counts as destructive. What a function with side effects of its own may
    do is a matter of the user's rights: log in as one with few.

    An answer is CSV, of at most `max_rows` rows, `max_cell` characters a value and `max_chars` in all, and says what
    was left out. A statement takes at most `timeout` seconds (where `read_only`). What the database refuses, the model
    is told.

    Needs `pip install "runwell[sql]"`.
    """
    base = SqlDatabase(
        database, read_only=read_only, max_rows=max_rows, max_cell=max_cell, max_chars=max_chars, timeout=timeout
    )
    kind = base.engine.dialect.name
    may = "It can only read." if read_only else "It can change data, and what it changes is kept."

    @tool(
        description="Tables of the database and their columns. Name tables to see only those.",
        read_only=True,
        idempotent=True,
    )
    def sql_schema(tables: Annotated[list[str] | None, "Tables to describe; all if left out."] = None) -> str:
        return base.schema(tables)

    @tool(
        description=f"Run one SQL statement ({kind} dialect) and get its rows as CSV, at most {max_rows}. {may} "
        "Look at sql_schema first.",
        read_only=read_only,
        idempotent=read_only,
        destructive=not read_only,
    )
    def sql_query(query: Annotated[str, "One statement."]) -> str:
        return base.query(query)

    return [sql_schema, sql_query]


def _engine(database: Any) -> Any:
    """An engine for a URL. Nothing is connected yet; what the errors say never holds the URL, which has a password."""
    import sqlalchemy

    try:
        url = sqlalchemy.make_url(database)
        return sqlalchemy.create_engine(url)
    except sqlalchemy.exc.NoSuchModuleError as error:
        raise InvalidInput(
            f"SQLAlchemy knows no database {url.drivername!r}.",
            hint="For instance sqlite:///shop.db or postgresql+psycopg://user@host/name.",
        ) from error
    except sqlalchemy.exc.ArgumentError as error:
        raise InvalidInput(
            "The text given as a database is no URL of one.",
            hint="For instance sqlite:///shop.db or postgresql+psycopg://user@host/name.",
        ) from error
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"The driver of {url.drivername!r} is not installed: {error}.",
            hint="Install it, or name another in the URL, as in postgresql+psycopg://.",
        ) from error


class SqlDatabase:
    """What `sql_tools` do, for programs. As thread-safe as its engine."""

    def __init__(
        self,
        database: Any,
        *,
        read_only: bool = True,
        max_rows: int = 100,
        max_cell: int = 500,
        max_chars: int = 50_000,
        timeout: float = 30.0,
    ) -> None:
        try:
            import sqlalchemy
        except ImportError as missing:
            raise MissingExtra("sql_tools", "sql") from missing
        if min(max_rows, max_cell, max_chars) < 1 or not timeout > 0:
            raise InvalidInput(
                f"max_rows={max_rows!r}, max_cell={max_cell!r}, max_chars={max_chars!r}, timeout={timeout!r}",
                hint="Above 0, all of them.",
            )
        if isinstance(database, (str, sqlalchemy.URL)):
            database = _engine(database)
        if not isinstance(database, sqlalchemy.Engine):
            raise InvalidInput(
                f"{database!r:.200} is no database.",
                hint="Pass a URL or an SQLAlchemy Engine; of an AsyncEngine its sync counterpart.",
            )
        self.engine = database
        self.read_only = read_only
        self.max_rows = max_rows
        self.max_cell = max_cell
        self.max_chars = max_chars
        self.timeout = timeout
        if read_only:
            check_enforceable(database)

    def schema(self, tables: Sequence[str] | None = None) -> str:
        """Tables and views with their columns, as `CREATE TABLE` would say it."""
        from sqlalchemy import inspect

        with self._told():
            seen = inspect(self.engine)
            known = [*seen.get_table_names(), *seen.get_view_names()]
            for name in tables or ():
                if name not in known:
                    listed = ", ".join(known[:MOST_DESCRIBED]) or "none"
                    raise ToolError(f"There is no table {name!r}{nearest(name, known)}. There are: {listed}.")
            if not tables and len(known) > MOST_DESCRIBED:
                return f"{len(known)} tables; name those to describe: {', '.join(known)}"
            return "\n\n".join(_described(seen, name) for name in tables or known) or "The database has no tables."

    def query(self, query: str) -> str:
        """The rows of a statement as CSV, or how many it changed. Raises ToolError for what the database refuses."""
        with self._told() as reached, self.engine.connect() as connection:
            reached.append(connection)
            if self.read_only:
                with reading(connection, self.timeout) as limited:
                    result = limited.exec_driver_sql(query)
                    shown = self._rows(result)
                    result.close()
                return shown
            result = connection.execution_options(no_parameters=True).exec_driver_sql(query)
            shown = self._rows(result) if result.returns_rows else f"{max(0, result.rowcount)} rows changed."
            connection.commit()
            return shown

    def _rows(self, result: Any) -> str:
        if not result.returns_rows:
            raise ToolError("The statement gives no rows.")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(result.keys())
        shown = -1
        for shown, row in enumerate(result):  # one by one: each may be large
            before = text.tell()
            if shown < self.max_rows:
                writer.writerow([self._cell(value) for value in row])
            if shown == self.max_rows or text.tell() > self.max_chars:
                text.truncate(text.seek(before))
                text.write(f"[The first {shown} rows; there are more. Narrow the query, or count.]\n")
                break
        if shown < 0:
            text.write("[No rows.]\n")
        return text.getvalue().rstrip("\n")

    def _cell(self, value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"<{len(bytes(value))} bytes>"
        text = str(value)
        if len(text) <= self.max_cell:
            return text
        return f"{text[: self.max_cell]}... [{len(text) - self.max_cell} characters more]"

    @contextmanager
    def _told(self) -> Iterator[list[Any]]:
        """What the database says of a statement, or of a row of it, goes to the model; that it cannot be reached does
        not. Whoever has a connection appends it to what is given.
        """
        reached: list[Any] = []
        from sqlalchemy import exc

        try:
            yield reached
        except UnicodeEncodeError as error:
            raise ToolError(f"The statement cannot be sent: {error.reason}.") from error
        except exc.DBAPIError as error:
            if error.connection_invalidated or (error.statement is None and not reached):
                raise StorageError(f"The database {self.engine.url!r} cannot be used: {error.orig}") from error
            said = str(error.orig).strip()
            if said == "interrupted" or "canceling statement" in said:
                raise ToolError(f"It took more than {self.timeout:g} s. Ask for less, or in another way.") from error
            if "not authorized" in said or "prohibited" in said:
                said = f"{said}: only reading is allowed"
            raise ToolError(f"The database refused it: {said}") from error
        except exc.SQLAlchemyError as error:
            raise ToolError(f"That cannot be run: {error}") from error


def _described(seen: Any, table: str) -> str:
    lines = []
    for column in seen.get_columns(table):
        needed = "" if column.get("nullable", True) else " NOT NULL"
        about = f"  -- {column['comment']}" if column.get("comment") else ""
        lines.append((f"{column['name']} {_type(column['type'])}{needed}", about))
    keys = seen.get_pk_constraint(table).get("constrained_columns") or []
    if keys:
        lines.append((f"PRIMARY KEY ({', '.join(keys)})", ""))
    for key in seen.get_foreign_keys(table):
        there = f"{key['referred_table']} ({', '.join(key['referred_columns'])})"
        lines.append((f"FOREIGN KEY ({', '.join(key['constrained_columns'])}) REFERENCES {there}", ""))
    body = "\n".join(f"  {said}{',' if at < len(lines) - 1 else ''}{about}" for at, (said, about) in enumerate(lines))
    return f"{table} (\n{body}\n)"


def _type(kind: Any) -> str:
    from sqlalchemy.exc import CompileError

    try:
        return str(kind)
    except CompileError:  # a type that the database has and the library does not know
        return type(kind).__name__
