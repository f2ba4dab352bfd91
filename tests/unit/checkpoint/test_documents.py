"""Parts of the source's state that are stored under names of their own, as long as the state refers to them."""

from __future__ import annotations

from ingest.checkpoint.checkpoint import KEEP_BATCHES, Checkpoint, Progress
from ingest.checkpoint.storage import MemoryStorage


def test_documents_are_kept_as_long_as_a_stored_batch_may_name_them() -> None:
    checkpoint = Checkpoint(MemoryStorage())
    checkpoint.storage.write("source/answer-1.json", b"{}")  # a person's, which no state refers to so far
    checkpoint.begin({})
    checkpoint.bind({})
    batch = 0
    for documents in ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"all": 4}):
        checkpoint.keep_documents(documents)
        checkpoint.done(Progress(batch, {}), {})
        batch += 1
    assert checkpoint.documents().keys() == {"answer-1", "a", "b", "c", "all"}
    checkpoint.keep_documents({"all": 4, "b": 2})  # as of a plan that is made again
    while batch < 2 + KEEP_BATCHES:
        checkpoint.done(Progress(batch, {}), {})
        batch += 1
        assert checkpoint.documents().keys() >= {"a", "c"}
    checkpoint.done(Progress(batch, {}), {})
    assert checkpoint.documents() == {"answer-1": {}, "b": 2, "all": 4}
    checkpoint.keep_documents({"a": 1})
    assert checkpoint.documents()["a"] == 1


def test_what_a_run_that_died_has_left_is_removed_by_the_next_one() -> None:
    storage = MemoryStorage()
    for name in ("history-1", "history-2", "history-3", "answer-1"):
        storage.write(f"source/{name}.json", b"{}")
    checkpoint = Checkpoint(storage)
    checkpoint.begin({})
    checkpoint.bind({})
    for batch in range(KEEP_BATCHES + 1):
        checkpoint.keep_documents({"history-3": {}})
        assert checkpoint.documents().keys() == {"history-1", "history-2", "history-3", "answer-1"}
        checkpoint.done(Progress(batch, {}), {})
    assert checkpoint.documents().keys() == {"history-3", "answer-1"}
