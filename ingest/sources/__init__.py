"""One file per source: its options, what splits there are, where they end, how to pull a range.

Third parties add theirs under the entry point `ingest.sources`.
"""

from __future__ import annotations

from ingest.sources.kafka import KafkaSource

SOURCES: dict[str, type[KafkaSource]] = {"kafka": KafkaSource}
"""The sources that come with the package, by their `type`."""
