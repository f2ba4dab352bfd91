"""Subjects of the schemas that a sink writes, and their ids.

In: the options of a format, a topic, and the name of a record. Out: the subject; and for a schema its id, asked of the
registry when the first record needs it. The type of a schema is a parameter. Rules: docs/spec/avro.md#subjects.
"""

from __future__ import annotations

from ingest.errors import ConfigError
from ingest.schema_registry.options import NORMALIZES, REGISTERS, STRATEGIES, RegistryOptions


def by_topic(options: RegistryOptions, part: str) -> bool:
    """Return whether the subject of keys or values does not depend on the record's name. `part`: `key` or `value`."""
    return options.subject is not None or options.strategy(part) == STRATEGIES[0]


def subject_of(options: RegistryOptions, topic: str, part: str, record: str) -> str:
    """Return the subject of a topic's keys or values. `record` is the full name of the record that they are."""
    if options.subject is not None:
        return options.subject
    strategy = options.strategy(part)
    if strategy == STRATEGIES[0]:
        return f"{topic}-{part}"
    return record if strategy == STRATEGIES[1] else f"{topic}-{record}"


class SchemaNumber:
    """The id of one schema under a subject. It is asked for once."""

    def __init__(self, options: RegistryOptions, subject: str, kind: str, text: str, *, asks: bool) -> None:
        """Without `asks` the id is zero, for rows that are written nowhere."""
        self._options, self._subject, self._kind, self._text = options, subject, kind, text
        self._number = None if asks else 0

    def get(self) -> int:
        """Return the id; register the schema first unless the subject has it.

        Raise Unavailable, AccessError or ConfigError.
        """
        if self._number is None:
            self._number = self._ask()
        return self._number

    def unregistered(self) -> str | None:
        """Return the subject where it lacks the schema, which a run would register then; None where it has it.

        Raise as `get` does, also where a run would stop because it cannot register the schema.
        """
        client = self._options.registry()
        if client.number_of(self._subject, self._kind, self._text, normalize=self._normalizes) is not None:
            return None
        if not self._registers:
            raise self._lacking()
        client.check(self._subject, self._kind, self._text)
        return self._subject

    def _ask(self) -> int:
        client = self._options.registry()
        if self._registers:
            return client.register(self._subject, self._kind, self._text, normalize=self._normalizes)
        number = client.number_of(self._subject, self._kind, self._text, normalize=self._normalizes)
        if number is None:
            raise self._lacking()
        return number

    @property
    def _registers(self) -> bool:
        return self._options.switch(REGISTERS, default=True)

    @property
    def _normalizes(self) -> bool:
        """True if the registry compares schemas in their normal form.

        Who registered a schema may have written its JSON in another order.
        """
        return self._options.switch(NORMALIZES, default=self._kind != "PROTOBUF" and not self._registers)

    def _lacking(self) -> ConfigError:
        lacks = f"subject {self._subject!r} of the schema registry lacks this schema, and {REGISTERS} is false"
        return ConfigError(f"{lacks}: {self._text[:2000]}", "register it, or let the sink do so")
