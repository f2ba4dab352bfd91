"""Manifests are written by a writer of our own: any reader of YAML gets back what was written."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ingest.render.yaml_text import write_documents

_TEXTS = st.one_of(
    st.text(),
    st.text("ab: -#'\"\\|>\n\t&*!%@`{}[],?=~.0123456789ä\u2028\ufeff\x85"),
    st.sampled_from(
        ["", "yes", "Null", "~", "1e3", "0x1F", "2026-11-26", "1:20", "=", "<<", "- a", "a: b", "a #b", "x\n\n"]
    ),
)
_VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=12,
)


@given(st.dictionaries(_TEXTS, _VALUES, min_size=1, max_size=4))
@example({"a": [[["x\ny\n"]], {"b": {"c": [{}, [], ""]}}]})
@example({"a": "\U0001f600\n", "b": "line\n  deeper\n"})
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    out = io.StringIO()
    write_documents([document, {"second": 1}], out)
    assert list(YAML(typ="safe", pure=True).load_all(out.getvalue())) == [document, {"second": 1}]
