"""What every registered component owes: one test each, over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from ingest.config.pipeline import PipelineOptions, Route, Transform
from ingest.formats import FORMATS
from ingest.model.change import Kind, Reject, Skip
from ingest.registry.options import RegistryOptions
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from ingest.component.options import Options

MODELS: list[type[Options]] = [*FORMATS.values(), *SOURCES.values(), *SINKS.values(), PipelineOptions, Route, Transform]
GARBAGE = [
    None, b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"{}", b'{"op":1}', b"[" * 10_000, b'{"a":NaN}',
    b"\x00" * 100,
]  # fmt: skip


ALONE = {name: cls for name, cls in FORMATS.items() if not issubclass(cls, RegistryOptions)}
"""Formats that need no registry. For the others, tests with a registry try the same."""
NEEDED = {"avro": {"avro.schema": '{"type":"record","name":"r","fields":[{"name":"id","type":"int"}]}'}}
"""Options of formats that cannot do without."""
GOOD = {
    "avro": b"\x02",
    "debezium-json": b'{"op":"c","after":{"id":1},"source":{"db":"a","table":"b"}}',
    "canal-json": b'{"data":[{"id":1}],"database":"a","table":"b","type":"INSERT"}',
    "json": b'{"id":1}',
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_is_frozen_and_takes_nothing_unknown(model: type[Options]) -> None:
    for name, field in model.model_fields.items():
        assert (field.alias or name) == (field.alias or name).strip()
    assert model.model_config["frozen"] is True
    with pytest.raises(ValidationError, match=r"extra_forbidden|Extra inputs"):
        model.model_validate({"no-such-option": 1})


@pytest.mark.parametrize(("name", "cls"), FORMATS.items(), ids=FORMATS)
def test_a_format_owns_its_prefix(name: str, cls: Any) -> None:
    assert cls.name == name
    assert all(field.alias.startswith(f"{name}.") for field in cls.model_fields.values())


@pytest.mark.parametrize(("name", "cls"), ALONE.items(), ids=ALONE)
def test_a_decoder_never_raises(name: str, cls: Any) -> None:
    decoder = cls.model_validate(NEEDED.get(name, {})).decoder("a.b")
    for _ in range(2):  # what it learned from garbage must not spoil what comes later
        out = decoder.decode(GARBAGE, GARBAGE)
        assert len(out) == len(GARBAGE)
        # A text that looks like an object is looked at once, when its row is; in Avro a byte may be a number
        assert all(
            isinstance(result, (Reject, Skip)) or (GARBAGE[i] or b"")[:1] == b"{" or len(GARBAGE[i] or b"") == 1
            for i, result in enumerate(out)
        )
    ((table, kind, before, after, *_),) = decoder.decode([None], [GOOD[name]])
    assert (".".join(table), kind, before, bytes(after)) == ("a.b", Kind.INSERT, None, b'{"id":1}')


@pytest.mark.parametrize("registry", [SOURCES, SINKS])
def test_a_component_is_registered_under_its_type(registry: dict[str, Any]) -> None:
    for name, cls in registry.items():
        assert name in cls.model_fields["type"].annotation.__args__
        for attribute in ("coordinator", "formats"):
            assert hasattr(cls, attribute)
