"""What every registered component owes: one test each, over all of them.

A format's own messages are those of its scenarios: of the files in tests/scenarios whose source has the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pydantic import ValidationError
from scenario_files import FILES, name

from ingest.config.pipeline import PipelineOptions, Route, Transform
from ingest.config.scenario import read
from ingest.formats import FORMATS, OF_ROWS
from ingest.model.change import Kind, Reject, Skip
from ingest.model.reject import CODES
from ingest.model.table import MAX_PARTS
from ingest.schema_registry.options import RegistryOptions
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from ingest.component.options import Options
    from ingest.config.pipeline import Pipeline
    from ingest.config.scenario import Scenario

MODELS: list[type[Options]] = [*FORMATS.values(), *SOURCES.values(), *SINKS.values(), PipelineOptions, Route, Transform]
GARBAGE = [
    None, b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"{}", b'{"op":1}', b"[" * 10_000, b'{"a":NaN}',
    b"\x00" * 100,
]  # fmt: skip

ALONE = {name: cls for name, cls in FORMATS.items() if RegistryOptions not in cls.mro()}
"""Formats that need no registry. For the others, tests with a registry try the same."""


Scenarios = list[tuple["Scenario", "Pipeline"]]


@pytest.fixture(scope="module")
def scenarios() -> Scenarios:
    """The scenarios whose pipelines are valid, with these."""
    found = [read(file) for file in FILES]
    return [(scenario, scenario.loaded.pipeline) for scenario in found if scenario.loaded.pipeline is not None]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_is_frozen_and_takes_nothing_unknown(model: type[Options]) -> None:
    for attribute, field in model.model_fields.items():
        assert (field.alias or attribute) == (field.alias or attribute).strip()
    assert model.model_config["frozen"] is True
    with pytest.raises(ValidationError, match=r"extra_forbidden|Extra inputs"):
        model.model_validate({"no-such-option": 1})


def rows_of(result: Any) -> list[tuple[Any, ...]]:
    """The changes of a result of a decoder, without what its message declares; checks that each is one."""
    changes = result if type(result) is list else [result]
    for table, kind, before, after, key, _ in changes:
        assert 1 <= len(table) <= MAX_PARTS
        assert all(isinstance(part, str) for part in table)
        assert all(image is None or isinstance(image, msgspec.Raw) for image in (before, after))
        assert (after is None) == (kind is Kind.DELETE)
        assert key is None or isinstance(key, bytes)
    return [(change[0], change[1], *(image and bytes(image) for image in change[2:4]), change[4]) for change in changes]


@pytest.mark.parametrize(("format_name", "cls"), FORMATS.items(), ids=FORMATS)
def test_a_format_owns_its_prefix(format_name: str, cls: Any) -> None:
    assert cls.name == format_name
    assert all(field.alias.startswith(f"{format_name}.") for field in cls.model_fields.values())


@pytest.mark.parametrize(("format_name", "cls"), FORMATS.items(), ids=FORMATS)
def test_a_format_has_the_methods_of_its_capabilities_and_no_other(format_name: str, cls: Any) -> None:
    found = cls.capabilities
    needed = {method for _, method in found.methods()}
    methods = {"reader_of", "value_of", "key_of", "row_writer", "change_writer", "beside_keys"}
    assert {method for method in methods if hasattr(cls, method)} == needed
    assert found.rows == (format_name in OF_ROWS)


@pytest.mark.parametrize(("format_name", "cls"), ALONE.items(), ids=ALONE)
def test_a_decoder_never_raises_and_learns_nothing_wrong_from_garbage(
    scenarios: Scenarios, format_name: str, cls: Any
) -> None:
    """The messages of each scenario of the format give the same after garbage as without it."""
    changes = 0
    for scenario, pipeline in scenarios:
        source = pipeline.source
        if source.format.name != format_name:
            continue
        keys, values = [message.key for message in scenario.messages], [message.value for message in scenario.messages]
        fresh, later = (source.format.decoder("topic", keyed=source.extra.key) for _ in range(2))
        out = later.decode(GARBAGE, GARBAGE)
        assert len(out) == len(GARBAGE)
        for result in out:
            if isinstance(result, Reject):
                assert result.code in {*CODES, *cls.codes}
            elif not isinstance(result, Skip):
                assert rows_of(result)
        for before, after in zip(fresh.decode(keys, values), later.decode(keys, values), strict=True):
            if isinstance(before, (Reject, Skip)):
                assert before == after, name(scenario.file)
            else:
                assert rows_of(before) == rows_of(after), name(scenario.file)
                changes += 1
    assert changes, f"tests/scenarios has no message of {format_name} that is a change"


@pytest.mark.parametrize("registry", [SOURCES, SINKS])
def test_a_component_is_registered_under_its_type(registry: dict[str, Any]) -> None:
    for type_name, cls in registry.items():
        assert type_name in cls.model_fields["type"].annotation.__args__
        for attribute in ("coordinator", "formats"):
            assert hasattr(cls, attribute)


@pytest.mark.parametrize("type_name", SINKS)
def test_a_sink_has_a_scenario(scenarios: Scenarios, type_name: str) -> None:
    assert any(pipeline.sink.type == type_name for _, pipeline in scenarios)
