"""The text form of metrics: Prometheus' text format 0.0.4, as `prometheus_client` writes it, several times as fast.

A run of a thousand tables has five thousand samples, and whoever asks for them takes time of the driver, which plans
batches. What stands in front of a sample's number stays the same, so it is made once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prometheus_client import CollectorRegistry

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of the text."""
MAX_HEADS: Final = 50_000
"""Samples of one name whose beginnings are kept."""


class Family(Metric):
    """Gauges or counters of one name, as the values of their labels and numbers: no object for each is kept."""

    def __init__(self, kind: str, name: str, text: str, labels: Sequence[str]) -> None:
        """`kind`: `gauge` or `counter`; `labels`: the names of labels."""
        self.name, self.documentation, self.type, self.unit = name, text, kind, ""
        self.sample_name = f"{name}_total" if kind == "counter" else name
        self.numbers: list[tuple[tuple[str, ...], float]] = []
        self.labels = labels

    @property
    def samples(self) -> list[Sample]:  # type: ignore[override]
        """Samples, for whoever wants objects."""
        return [Sample(self.sample_name, self.labels_of(values), number) for values, number in self.numbers]

    def labels_of(self, values: Sequence[str]) -> dict[str, str]:
        """Return labels by their names."""
        return dict(zip(self.labels, values, strict=True))


class Exposition:
    """The metrics of a registry as text. It may be asked in any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Keep the registry, whose samples have no timestamps, and no exemplars."""
        self._registry = registry
        self._heads: dict[str, dict[tuple[str, ...], str]] = {}

    def __call__(self) -> bytes:
        """Return all metrics as they are now."""
        parts: list[str] = []
        for family in self._registry.collect():
            self._add(family, parts)
        return "".join(parts).encode()

    def _add(self, family: Metric, parts: list[str]) -> None:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        text = family.documentation.replace("\\", "\\\\").replace("\n", "\\n")
        parts.append(f"# HELP {name} {text}\n# TYPE {name} {family.type}\n")
        if isinstance(family, Family):
            heads = self._heads.setdefault(name, {})
            for values, number in family.numbers:
                head = heads.get(values)
                if head is None:
                    head = _head(name, family.labels_of(values))
                    if len(heads) < MAX_HEADS:
                        heads[values] = head
                parts.append(f"{head} {_shown(number)}\n")
        else:
            parts += [f"{_head(s.name, s.labels)} {_shown(s.value)}\n" for s in family.samples]


def _shown(value: float) -> str:
    # a whole number has its own text below a million, from where on Go's has an exponent
    if type(value) is int and -1_000_000 < value < 1_000_000:
        return f"{value}.0"
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _head(name: str, labels: Mapping[str, str]) -> str:
    """Return what stands in front of a sample's number: its name and its labels, by their names."""
    if not labels:
        return name
    texts = ",".join(f'{label}="{_escaped(text)}"' for label, text in sorted(labels.items()))
    return f"{name}{{{texts}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
