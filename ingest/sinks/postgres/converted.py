"""Values of columns that become columns of another type: as rows have them in the new one.

In: a column, its type and the one that it becomes, as the server spells them. Out: expressions of SQL. Rules:
docs/spec/postgres.md#tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import sql

from ingest.model.data_type import DecimalType
from ingest.model.keytext import MAX_ZEROS
from ingest.sinks.postgres.types import is_number, type_of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORTEST: Final = {
    "double precision": (15, 16, 1 << 53, 10**40),
    "real": (6, 8, 1 << 24, 10**30),
    "numeric": (1, 0, 0, 0),
}
"""Numbers whose key may have an exponent, each with the digits that may be enough for some between two sizes, of which
the server's own text has more: it has 9.999999999999999e+22 for 1e23, which is as near to another double."""
_KEY_TEXT: Final = """
CREATE OR REPLACE FUNCTION pg_temp.ingest_key_text(value {0}) RETURNS text LANGUAGE sql AS $$
SELECT CASE
  WHEN digits ~ '^-?[1-9][0-9]*0{{{5}}}$'
    THEN rtrim(digits, '0') || 'e' || length(digits) - length(rtrim(digits, '0'))
  WHEN digits ~ '^-?0[.]0{{{5}}}'
    THEN substring(digits, '^-?') || ltrim(digits, '-0.') || 'e-' || length(split_part(digits, '.', 2))
  ELSE digits END
FROM (SELECT value::text::numeric AS number) AS said, LATERAL (SELECT trim_scale(COALESCE(
  (SELECT shorter FROM generate_series({1}, {2}) AS count, round(number, count - length(trunc(abs(number))::text))
    AS shorter WHERE abs(number) BETWEEN {3} AND {4} AND shorter::{0} = value ORDER BY count LIMIT 1), number)
)::text AS digits) AS plain $$
""".strip()
"""What makes the text that a number has in keys (docs/spec/keys.md#text-of-a-key-value), for this session."""


def becoming(
    table: sql.Identifier, column: sql.Identifier, known: str, to: str, *, of_key: bool
) -> Iterator[sql.Composed]:
    """Yield the statements after which a column has another type. `to`: the type, with a collation if it has one."""
    using = _converted(column, known, to, of_key=of_key)
    if of_key and to.startswith("text") and (kind := _long_number(known)) is not None:
        zeros = sql.SQL(str(MAX_ZEROS + 1))
        yield sql.SQL(_KEY_TEXT).format(sql.SQL(kind), *map(sql.Literal, _SHORTEST[kind]), zeros)
    statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE {} USING {}")
    yield statement.format(table, column, sql.SQL(to), using)


def _converted(column: sql.Identifier, known: str, to: str, *, of_key: bool) -> sql.Composed:
    """Return the expression that makes values of a column's new type: numbers by their digits, moments in UTC."""
    as_text = "{}::text"
    if known == "bytea":
        as_text = "translate(encode({}, 'base64'), E'\\n', '')"
    elif known.endswith("with time zone"):
        as_text = "replace({}::text, '+00', 'Z')"
    elif of_key and _long_number(known) is not None:
        as_text = "pg_temp.ingest_key_text({})"
    elif of_key and is_number(known):  # as keys have it, which is without an exponent for so few digits
        as_text = "trim_scale({}::text::numeric)::text"
    if to.startswith("text"):
        return sql.SQL(as_text).format(column)
    if to.endswith("with time zone"):
        return sql.SQL("{}::timestamp AT TIME ZONE 'UTC'").format(column)
    return sql.SQL("{}::text::{}" if is_number(known) else "{}::{}").format(column, sql.SQL(to))


def _long_number(known: str) -> str | None:
    """Return the type of numbers whose text in keys may have an exponent; None for any other type."""
    kind = type_of_kind(known)
    return None if isinstance(kind, DecimalType) else next((one for one in _SHORTEST if known.startswith(one)), None)
