"""Numbers out of the statistics that librdkafka keeps of itself (its STATISTICS.md).

In: what clients in workers tell where `properties.statistics.interval.ms` is set. Out: for each kind of client, the
numbers of the one that has spoken last.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

MAX_KINDS: Final = 20
"""Kinds of clients that are kept."""


class ClientNumbers(NamedTuple):
    """Numbers of a client that help to see why a run is slow."""

    queued: int
    """Records that wait in it: to be sent, or to be worked on."""
    round_trip_s: float
    """The mean time of a request to the slowest broker, in seconds."""
    throttled_s: float
    """How long a broker makes it wait for a quota, in seconds."""
    retries: int
    """Requests that were sent again, or had no answer in time, since the client began."""
    errors: int
    """Failures of connections since the client began."""


class NewestNumbers:
    """The newest numbers of each kind of client."""

    def __init__(self) -> None:
        """Know none yet."""
        self.newest: dict[str, ClientNumbers] = {}

    def tell(self, kind: str, statistics: bytes) -> None:
        """Read the statistics of a client; what is no JSON object says nothing."""
        try:
            found = orjson.loads(statistics)
        except orjson.JSONDecodeError:
            return
        if isinstance(found, dict) and (kind in self.newest or len(self.newest) < MAX_KINDS):
            self.newest[kind] = numbers_of(found)


def numbers_of(found: dict[str, Any]) -> ClientNumbers:
    """Return the numbers of one client's statistics."""
    brokers = [one for one in _maps(found, "brokers") if one.get("nodeid", -1) != -1]  # -1: where it asked first
    partitions = [one for topic in _maps(found, "topics") for one in _maps(topic, "partitions")]
    return ClientNumbers(
        int(_number(found.get("msg_cnt")) + sum(_number(one.get("fetchq_cnt")) for one in partitions)),
        max((_mean(one, "rtt") for one in brokers), default=0) / 1e6,  # microseconds
        max((_mean(one, "throttle") for one in brokers), default=0) / 1e3,  # milliseconds
        int(sum(_number(one.get(name)) for one in brokers for name in ("txretries", "req_timeouts"))),
        int(sum(_number(one.get(name)) for one in brokers for name in ("txerrs", "rxerrs"))),
    )


def _maps(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = found.get(name)
    return [one for one in value.values() if isinstance(one, dict)] if isinstance(value, dict) else []


def _mean(broker: dict[str, Any], name: str) -> float:
    window = broker.get(name)
    return _number(window.get("avg")) if isinstance(window, dict) else 0.0


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
