"""Sets of transactions by their GTIDs, of MySQL and of MariaDB.

A transaction has a number of a source. MySQL's source is a server's UUID, since 8.3 also with a tag: `uuid:7`,
`uuid:tag:7`. MariaDB's is a domain and a server id: `0-1-7`. Numbers have gaps that are filled later, so a set has
intervals. Rules: docs/spec/mysql.md#another-server.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import pack, unpack_from
from typing import Final, TypeAlias

from ingest.sources.mysql.events import uuid_text

Intervals: TypeAlias = "tuple[tuple[int, int], ...]"
"""First and last numbers, both in the set, in order; between two intervals at least one number is missing."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.IGNORECASE | re.ASCII)
_RANGE: Final = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?", re.ASCII)
_DOMAIN_SERVER: Final = re.compile(r"[0-9]{1,10}-[0-9]{1,10}", re.ASCII)
_MARIADB: Final = re.compile(r"([0-9]{1,10}-[0-9]{1,10})-([0-9]{1,20})", re.ASCII)
LAST: Final = (1 << 64) - 1


class GtidSet:
    """A set of GTIDs. It does not change."""

    __slots__ = ("_sources",)

    def __init__(self, sources: Mapping[str, Iterable[tuple[int, int]]] | None = None) -> None:
        """Take intervals by source, in any order; they may overlap."""
        melted = {source: _melted(intervals) for source, intervals in (sources or {}).items()}
        self._sources: dict[str, Intervals] = {source: melted[source] for source in sorted(melted) if melted[source]}

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Return the set of a text: MySQL's form, `domain-server:1-5`, or MariaDB's `domain-server-5`: all up to 5.

        Raise ValueError.
        """
        sources: dict[str, list[tuple[int, int]]] = {}
        for part in filter(None, (piece.strip() for piece in "".join(text.split()).split(","))):
            if (one := _MARIADB.fullmatch(part)) is not None:
                if int(one[2]):  # 0-1-0 is the position before the first
                    sources.setdefault(_pair(one[1]), []).append((1, _number(one[2], part)))
                continue
            name, *rest = part.split(":")
            source = _source(name, part)
            tag = ""
            if not rest:
                raise ValueError(_refused(part))
            for piece in rest:
                if (span := _RANGE.fullmatch(piece)) is not None:
                    first, last = _number(span[1], part), _number(span[2] or span[1], part)
                    if not 0 < first <= last:
                        raise ValueError(_refused(part))
                    sources.setdefault(f"{source}:{tag}" if tag else source, []).append((first, last))
                elif _TAG.fullmatch(piece) and "-" in source and not is_pair(source):
                    tag = piece.lower()
                else:
                    raise ValueError(_refused(part))
        return cls(sources)

    @classmethod
    def decode(cls, body: bytes) -> GtidSet:
        """Return the set of an event PREVIOUS_GTIDS, without its header and checksum. Raise ValueError."""
        try:
            return cls(_decoded(body))
        except (IndexError, struct.error) as exc:
            raise ValueError(_refused("the event PREVIOUS_GTIDS")) from exc

    @classmethod
    def decode_list(cls, body: bytes) -> GtidSet:
        """Return the set of MariaDB's event GTID_LIST, without its header and checksum. Raise ValueError."""
        count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
        if len(body) < 4 + 16 * count:
            raise ValueError(_refused("the event GTID_LIST"))
        sources: dict[str, list[tuple[int, int]]] = {}
        for at in range(4, 4 + 16 * count, 16):
            domain, server, number = unpack_from("<IIQ", body, at)
            if number:
                sources.setdefault(f"{domain}-{server}", []).append((1, number))
        return cls(sources)

    def encode(self) -> bytes:
        """Return the set as COM_BINLOG_DUMP_GTID has it. Tags are not in this form: raise ValueError."""
        parts = []
        for source, intervals in self._sources.items():
            if not _UUID.fullmatch(source):
                raise ValueError(_refused(source))
            pairs = b"".join(pack("<QQ", first, last + 1) for first, last in intervals)
            parts.append(bytes.fromhex(source.replace("-", "")) + pack("<Q", len(intervals)) + pairs)
        return pack("<Q", len(parts)) + b"".join(parts)

    def __str__(self) -> str:
        """The set as `parse` reads it. MySQL reads it, too, if it is of MySQL."""
        return ",".join(
            f"{source}:" + ":".join(str(first) if first == last else f"{first}-{last}" for first, last in intervals)
            for source, intervals in self._sources.items()
        )

    def __repr__(self) -> str:
        """The call of `parse` that makes this set."""
        return f"GtidSet.parse({str(self)!r})"

    def shown(self, characters: int = 300) -> str:
        """The set's text for messages, truncated to `characters`."""
        text = str(self)
        return text if len(text) <= characters else f"{text[:characters]}… ({self.count()} transactions)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._sources == other._sources

    def __hash__(self) -> int:
        return hash(tuple(self._sources.items()))

    def __bool__(self) -> bool:
        """Whether the set has any transaction."""
        return bool(self._sources)

    def __iter__(self) -> Iterator[tuple[str, Intervals]]:
        """The intervals of each source."""
        return iter(self._sources.items())

    def count(self) -> int:
        """The number of transactions in the set."""
        return sum(last - first + 1 for intervals in self._sources.values() for first, last in intervals)

    def has(self, source: str, number: int) -> bool:
        """Whether the set has a transaction."""
        return any(first <= number <= last for first, last in self._sources.get(source, ()))

    def contains(self, other: GtidSet) -> bool:
        """Whether the set has all transactions of another set."""
        return not other - self

    def __or__(self, other: GtidSet) -> GtidSet:
        """The union of two sets."""
        both = {source: list(intervals) for source, intervals in self}
        for source, intervals in other:
            both.setdefault(source, []).extend(intervals)
        return GtidSet(both)

    def __sub__(self, other: GtidSet) -> GtidSet:
        """The transactions of this set that are not in the other one."""
        return GtidSet({source: _without(own, other._sources.get(source, ())) for source, own in self})

    def __and__(self, other: GtidSet) -> GtidSet:
        """The intersection of two sets."""
        return self - (self - other)

    def without(self, excluded: Callable[[str], bool]) -> GtidSet:
        """Return the set without the sources that a function says yes to, which gets them without tags."""
        return GtidSet({source: own for source, own in self if not excluded(source.partition(":")[0])})

    def position(self) -> str:
        """Return MariaDB's position: of each domain the last transaction, `0-1-100,1-2-7`."""
        last: dict[str, tuple[int, str]] = {}
        for source, intervals in self:
            domain = source.partition("-")[0]
            last[domain] = max(last.get(domain, (0, "")), (intervals[-1][1], source))
        return ",".join(f"{source}-{number}" for number, source in last.values())


def is_pair(source: str) -> bool:
    """Tell whether a source is MariaDB's."""
    return _DOMAIN_SERVER.fullmatch(source) is not None


def canonical(source: str) -> str:
    """Return a source's name as sets have it: a UUID in lower case with dashes. Raise ValueError."""
    return _source(source, source)


def _source(name: str, part: str) -> str:
    if _UUID.fullmatch(name):
        return uuid_text(bytes.fromhex(name.replace("-", "")))
    if _DOMAIN_SERVER.fullmatch(name):
        return _pair(name)
    raise ValueError(_refused(part))


def _pair(text: str) -> str:
    domain, _, server = text.partition("-")
    return f"{int(domain)}-{int(server)}"


def _number(text: str, part: str) -> int:
    number = int(text)
    if number > LAST:
        raise ValueError(_refused(part))
    return number


def _refused(part: str) -> str:
    return f"{part[:80]!r} is no set of GTIDs: uuid:1-5:7 of MySQL, domain-server-number of MariaDB, commas between"


def _melted(intervals: Iterable[tuple[int, int]]) -> Intervals:
    out: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if out and first <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(out[-1][1], last)
        else:
            out.append((first, last))
    return tuple(out)


def _without(own: Intervals, other: Intervals) -> list[tuple[int, int]]:
    left = []
    for first, last in own:
        at = first
        for begin, end in other:
            if end < at:
                continue
            if begin > last:
                break
            if begin > at:
                left.append((at, begin - 1))
            at = max(at, end + 1)
        if at <= last:
            left.append((at, last))
    return left


def _decoded(body: bytes) -> dict[str, list[tuple[int, int]]]:
    """Return the intervals of a set in the server's form, whose upper ends are not in it.

    Of 8.3 on, the first eight bytes have a format in the highest byte, and each source may have a tag.
    """
    tagged = body[7] == 1
    count = int.from_bytes(body[1:7] if tagged else body[:8], "little")
    sources: dict[str, list[tuple[int, int]]] = {}
    at = 8
    for _ in range(count):
        source = uuid_text(body[at : at + 16])
        at += 16
        if tagged:
            size = body[at] >> 1  # a number of one byte: its lowest bit is 0
            tag = body[at + 1 : at + 1 + size].decode("ascii", "replace")
            at += 1 + size
            source = f"{source}:{tag}" if tag else source
        (intervals,) = unpack_from("<Q", body, at)
        at += 8
        for _ in range(intervals):
            first, after = unpack_from("<QQ", body, at)
            at += 16
            if not 0 < first < after:
                raise ValueError(_refused("the event PREVIOUS_GTIDS"))
            sources.setdefault(source, []).append((first, after - 1))
    return sources
