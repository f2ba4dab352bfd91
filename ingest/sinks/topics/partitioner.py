"""The option `sink.partitioner`: the name of a partitioner, or a class of the user's.

Rules: docs/spec/sinks.md#kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Protocol, cast

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ingest.errors import ConfigError
from ingest.expressions.user_code import PLACE, CodeError, imported, travelling

NAMES: Final = ("default", "fixed", "round-robin")
"""The partitioners that come with the sink; others are `module:Class`."""


class UserPartitioner(Protocol):
    """Interface of a class of the user's. It is made without arguments, once for each writer."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, partitions: int, /) -> int:
        """Return the partition of a record, from 0 on and below `partitions`."""


def _checked(text: str) -> str:
    if text not in NAMES and PLACE.fullmatch(text) is None:
        expected = ", ".join(repr(name) for name in NAMES)
        raise PydanticCustomError("literal_error", "no partitioner", {"expected": f"{expected} or 'module:Class'"})
    return text


Partitioner = Annotated[
    str, AfterValidator(_checked), WithJsonSchema({"type": "string", "examples": [*NAMES, "module:Class"]})
]
"""The name of a partitioner, or `module:Class`."""


def load(text: str) -> type[UserPartitioner]:
    """Import the module and return the class that `module:Class` names.

    Importing runs the user's code. Raise CodeError where there is no such class, or where it is no partitioner.
    """
    loaded = imported(text, "class")
    method = getattr(loaded, "partition", None) if isinstance(loaded, type) else None
    if not callable(method):
        raise CodeError(f"{text!r} is no class with a method partition(topic, key, value, partitions)")
    return cast("type[UserPartitioner]", loaded)


def packed(text: str, folder: Path | None) -> bytes:
    """Return a class of the user's as bytes, with the user's modules beside the pipeline file.

    Workers need no files then. Raise ConfigError where the class cannot be loaded.
    """
    from pyspark import cloudpickle  # noqa: PLC0415  (few runs need it)

    try:
        partitioner = load(text)
    except CodeError as exc:
        msg = f"sink.partitioner: {exc}"
        raise ConfigError(msg, "name a class as module:Class, in a module beside the pipeline file") from exc
    travelling([partitioner.__module__], folder)
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps(partitioner)
