"""The consumer group of a pipeline: it shows the positions of a run to monitoring tools, and to other pipelines.

Nothing depends on its offsets. Rules: docs/spec/sources.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError, IngestError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.kafka.admin import Cluster
    from ingest.model.record import Split

KEEP_S: Final = 30.0
"""The time after which the group's offsets are committed again while nothing happens, in seconds."""
GONE_S: Final = 3 * KEEP_S
"""After this many seconds without a sign of it, another pipeline with the same group counts as gone."""
_NOTE: Final = "ingest"


class GroupOffsets:
    """The offsets of one consumer group."""

    def __init__(self, group: str, cluster: Cluster, warn: Callable[[str], None]) -> None:
        """Keep the parts."""
        self.group, self.owner = group, ""
        """The group's id; the identity of the checkpoint that shows its positions here."""
        self._cluster, self._warn = cluster, warn
        self._shown: dict[Split, int] = {}
        self._shown_at = 0.0
        self._commit_failed = False

    def refuse_others(self, splits: Iterable[Split]) -> None:
        """`scan.check.duplicated.group.id`: raises ConfigError where somebody else reads with the group.

        Ordinary readers are its members. A pipeline is none, as it reads what it planned itself: it leaves its
        checkpoint's identity and the time beside the offsets that it shows.
        """
        hint = "stop it, choose another properties.group.id, or unset scan.check.duplicated.group.id"
        members = self._cluster.members(self.group)
        if members:
            msg = f"consumer group {self.group!r} is in use by {len(members)} reader(s): {', '.join(sorted(members))}"
            raise ConfigError(msg, hint)
        for (topic, partition), (_, note) in self._cluster.group_commits(self.group, splits).items():
            word, _, rest = note.partition(" ")
            owner, _, millis = rest.partition(" ")
            if word != _NOTE or owner == self.owner or not millis.isdigit():
                continue
            age = abs(time.time() - int(millis) / 1000)
            if age < GONE_S:
                msg = (
                    f"consumer group {self.group!r} is in use by another pipeline (checkpoint {owner}), which showed "
                    f"its offset in {topic}[{partition}] {age:.0f} s ago"
                )
                raise ConfigError(msg, f"{hint}; one that was killed is forgotten after {GONE_S:.0f} s")

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Show the positions as the consumer group's offsets. Only for monitoring: a failure is a warning, once."""
        self._show(positions, f"{_NOTE} {self.owner} {time.time() * 1000:.0f}", wait=False)

    def keep(self, positions: Mapping[Split, int]) -> None:
        """Show them again now and then while nothing happens: brokers forget offsets, and others look at the time."""
        if time.monotonic() - self._shown_at > KEEP_S:
            self.commit(positions)

    def _show(self, positions: Mapping[Split, int], note: str, *, wait: bool) -> None:
        self._shown, self._shown_at = dict(positions), time.monotonic()
        if not positions:
            return
        try:
            self._cluster.commit(self.group, positions, note, wait=wait)
            self._commit_failed = False
        except Unavailable:
            return
        except IngestError as exc:
            self._complain(str(exc))

    def _complain(self, text: str) -> None:
        if not self._commit_failed:
            self._commit_failed = True
            self._warn(f"{text}; the group's offsets do not show this run's progress, nothing else is affected")

    def close(self) -> None:
        """Show that nobody reads any more: somebody else may have the group now."""
        if self._shown and not self._commit_failed:
            self._show(self._shown, "", wait=True)
