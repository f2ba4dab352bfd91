"""Message types that may hold themselves: their values have no type of their own.

In: the descriptor of a message. Out: the names of such messages. Rules: docs/spec/protobuf.md#types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.formats.protobuf import well_known

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


def cyclic_messages(root: Descriptor) -> frozenset[str]:
    """Return the full names of the messages, from this one on, that may hold themselves. Raise RecursionError.

    They are the strongly connected components of the graph of messages (Tarjan's algorithm).
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: set[str] = set()

    def visit(message: Descriptor) -> None:
        name = message.full_name
        number[name] = lowest[name] = len(number)
        path.append(name)
        for field in message.fields:
            inner = field.message_type
            if inner is None or well_known.is_known(inner):  # a Struct holds itself, too
                continue
            if inner.full_name == name:
                found.add(name)
            if inner.full_name not in number:
                visit(inner)
                lowest[name] = min(lowest[name], lowest[inner.full_name])
            elif inner.full_name in path:
                lowest[name] = min(lowest[name], number[inner.full_name])
        if lowest[name] == number[name]:
            component = path[path.index(name) :]
            del path[path.index(name) :]
            found.update(component if len(component) > 1 else ())

    visit(root)
    return frozenset(found)
