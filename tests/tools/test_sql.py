"""SQL for a model: what it sees, and that reading is all it can do, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import InvalidInput, StorageError, ToolError
from runwell.testing.postgres import PostgresServer
from runwell.tools.kits import SqlDatabase, sql_tools

sqlalchemy = pytest.importorskip("sqlalchemy")

TABLES = [
    "CREATE TABLE customer (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, note TEXT)",
    "CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer (id), total NUMERIC(8, 2))",
    "CREATE VIEW rich AS SELECT customer FROM purchase WHERE total > 100",
    "INSERT INTO customer VALUES (1, 'Ann', NULL), (2, 'Bo, \"the\" 2nd', 'likes 50% off')",
    "INSERT INTO purchase VALUES (1, 1, 120.5), (2, 2, 3)",
]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "sqlite":
        made = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.new_schema()
        made = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    with made.begin() as connection:
        for statement in TABLES:
            connection.execute(sqlalchemy.text(statement))
    yield made
    made.dispose()


def counted(engine: Any) -> list[int]:
    with engine.connect() as connection:
        return [connection.execute(sqlalchemy.text(f"SELECT count(*) FROM {name}")).scalar() for name in NAMES]


NAMES = ("customer", "purchase")


def test_the_tools_of_a_database(engine: Any, driver: Any) -> None:
    schema, query = sql_tools(engine)
    assert [schema.name, query.name] == ["sql_schema", "sql_query"]
    assert (schema.read_only, query.read_only, query.destructive) == (True, True, False)
    told = driver.invoke(schema, {})
    assert ",\n  name VARCHAR(40) NOT NULL,\n  note TEXT,\n  PRIMARY KEY (id)\n)" in told
    assert "FOREIGN KEY (customer) REFERENCES customer (id)" in told
    assert "rich (" in told
    assert driver.invoke(schema, {"tables": ["rich"]}) == "rich (\n  customer INTEGER\n)"
    with pytest.raises(ToolError, match="There is no table 'customers'; did you mean 'customer'"):
        driver.invoke(schema, {"tables": ["customers"]})
    rows = driver.invoke(
        query, {"query": "SELECT name, note FROM customer WHERE note IS NULL OR note LIKE '%50%%' ORDER BY 1"}
    )
    assert rows == 'name,note\nAnn,NULL\n"Bo, ""the"" 2nd",likes 50% off'
    assert driver.invoke(query, {"query": "WITH x AS (SELECT 1 AS a) SELECT a FROM x"}) == "a\n1"
    assert driver.invoke(query, {"query": "SELECT id FROM customer WHERE id = 9"}) == "id\n[No rows.]"


WRITES = [
    "INSERT INTO customer VALUES (3, 'Eve', NULL)",
    "UPDATE customer SET name = 'x'",
    "DELETE FROM purchase",
    "DROP TABLE purchase",
    "CREATE TABLE more (id INTEGER)",
    "CREATE TEMPORARY TABLE more (id INTEGER)",
    "ALTER TABLE customer ADD COLUMN x INTEGER",
    "WITH gone AS (DELETE FROM purchase RETURNING id) SELECT * FROM gone",
    "DELETE FROM purchase RETURNING id",
    "SELECT 1; DELETE FROM purchase",
    "SELECT 1; COMMIT; DELETE FROM purchase",
    "COMMIT",
    "BEGIN",
    "COMMIT; DELETE FROM purchase; SELECT 1",
    "-- a comment\nDELETE FROM purchase",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "ATTACH DATABASE '/tmp/other.db' AS other",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET TRANSACTION READ WRITE",
    "VACUUM",
    "COPY customer TO '/tmp/stolen'",
    "DO $$ BEGIN DELETE FROM purchase; END $$",
    "SELECT * INTO more FROM customer",
    "EXPLAIN ANALYZE DELETE FROM purchase",
    "SELECT load_extension('x')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "",
]


@pytest.mark.parametrize("statement", WRITES)
def test_nothing_but_reading_comes_through(engine: Any, statement: str) -> None:
    base = SqlDatabase(engine)
    before = counted(engine)
    with pytest.raises(ToolError):
        base.query(statement)
    assert counted(engine) == before
    assert "1" in base.query("SELECT 1")
    with engine.begin() as connection:  # and the program's own connections may do what they could
        connection.execute(sqlalchemy.text("INSERT INTO customer VALUES (9, 'Own', NULL)"))
    assert "Own" in base.query("SELECT name FROM customer WHERE id = 9")


def test_a_statement_that_the_program_prepared_before_is_refused_too(tmp_path: Path) -> None:
    """SQLite keeps prepared statements: what was allowed when one was made is not what counts."""
    pool = sqlalchemy.pool.StaticPool
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'x.db'}", poolclass=pool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    with pytest.raises(ToolError, match="only reading is allowed"):
        SqlDatabase(engine).query("INSERT INTO t VALUES (1)")
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    assert SqlDatabase(engine).query("SELECT count(*) AS n FROM t") == "n\n2"


def test_rows_and_values_are_capped_and_it_is_said(engine: Any) -> None:
    base = SqlDatabase(engine, max_rows=1, max_cell=5)
    told = base.query("SELECT name, 'a long value' AS v FROM customer ORDER BY id")
    assert (
        told
        == "name,v\nAnn,a lon... [7 characters more]\n[The first 1 rows; there are more. Narrow the query, or count.]"
    )


ENDLESS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "postgresql": "SELECT pg_sleep(20)",
}


def test_a_statement_that_takes_too_long_is_stopped(engine: Any) -> None:
    base = SqlDatabase(engine, timeout=0.2)
    with pytest.raises(ToolError, match=r"It took more than 0\.2 s"):
        base.query(ENDLESS[engine.dialect.name])
    if engine.dialect.name == "postgresql":  # it lifts its own limit, and goes on in a later part of its rows
        rows = "FROM generate_series(1, 99) AS i"
        with pytest.raises(ToolError, match=r"It took more than 0\.2 s"):
            base.query(
                f"SELECT set_config('statement_timeout', '0', true), pg_sleep(CASE i WHEN 9 THEN 20 ELSE 0 END) {rows}"
            )
    assert "1" in base.query("SELECT 1")


def test_an_answer_is_bounded_however_wide_its_rows(engine: Any) -> None:
    wide = ", ".join(f"'{'x' * 90}' AS c{at}" for at in range(100))
    query = sql_tools(engine, max_chars=25_000)[1]
    told = query.invoke({"query": f"SELECT {wide} FROM customer UNION ALL SELECT {wide} FROM customer"})
    assert len(told) < 25_100
    assert told.endswith("[The first 2 rows; there are more. Narrow the query, or count.]")


def test_a_text_of_a_gigabyte_is_refused_before_it_is_made(tmp_path: Path) -> None:
    query = sql_tools(f"sqlite:///{tmp_path / 'a.db'}", timeout=5)[1]
    with pytest.raises(ToolError, match="too big"):
        query.invoke({"query": "SELECT length(zeroblob(900000000))"})
    assert query.invoke({"query": "SELECT length(zeroblob(1000000)) AS n"}) == "n\n1000000"


def test_what_goes_wrong_at_a_later_row_is_told(engine: Any) -> None:
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90) SELECT {} FROM n"
    wrong = {"sqlite": "json(substr('[]', 1, 60 - i))", "postgresql": "1 / (60 - i)"}[engine.dialect.name]
    with pytest.raises(ToolError, match=r"malformed|division by zero"):
        sql_tools(engine)[1].invoke({"query": rows.format(wrong)})


def test_half_a_character_in_a_statement_is_told(engine: Any) -> None:
    with pytest.raises(ToolError, match="surrogates not allowed"):
        sql_tools(engine)[1].invoke({"query": "SELECT '\ud800'"})


def test_a_database_that_may_be_changed(engine: Any, driver: Any) -> None:
    _, query = sql_tools(engine, read_only=False)
    assert (query.read_only, query.destructive) == (False, True)
    assert driver.invoke(query, {"query": "UPDATE customer SET note = '5%' WHERE id < 3"}) == "2 rows changed."
    assert driver.invoke(query, {"query": "SELECT note FROM customer WHERE id = 1"}) == "note\n5%"
    with pytest.raises(ToolError, match="The database refused it"):
        driver.invoke(query, {"query": "SELECT nothing FROM nowhere"})


def test_what_no_database_can_be_held_to_is_refused() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    engine.dialect.name, engine.dialect.driver = "mysql", "pymysql"
    with pytest.raises(InvalidInput, match="'mysql' database reached by 'pymysql'"):
        SqlDatabase(engine)
    assert SqlDatabase(engine, read_only=False)
    for wrong in (3, object()):
        with pytest.raises(InvalidInput, match="is no database"):
            SqlDatabase(wrong)
    with pytest.raises(InvalidInput, match="max_rows=0"):
        sql_tools("sqlite://", max_rows=0)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("shop.db secret", "is no URL"),
        ("nosuch://user:secret@host/shop", "knows no database 'nosuch'"),
        ("mysql+driver_that_is_not_there://user:secret@host/shop", "knows no database"),
        ("mssql+pymssql://user:secret@host/shop", "The driver of 'mssql.pymssql' is not installed"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_at_once(url: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        sql_tools(url, read_only=False)
    assert "secret" not in str(refused.value)


def test_a_database_that_is_not_there_is_no_matter_of_the_model(tmp_path: Path) -> None:
    base = SqlDatabase(f"sqlite:///{tmp_path / 'no' / 'folder.db'}")
    with pytest.raises(StorageError, match="cannot be used"):
        base.query("SELECT 1")


def test_of_many_tables_only_the_names_are_told() -> None:
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    with engine.begin() as connection:
        for number in range(41):
            connection.exec_driver_sql(f"CREATE TABLE t{number:02} (a)")
    told = SqlDatabase(engine).schema()
    assert told.startswith("41 tables; name those to describe: t00, t01")
    assert SqlDatabase(engine).schema(["t07"]).startswith("t07 (\n  a ")
    assert SqlDatabase("sqlite://").schema() == "The database has no tables."
