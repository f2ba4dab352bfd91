"""A KDC for all tests of Kerberos."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kdc as key_distribution
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdc import Kdc


@pytest.fixture(scope="session")
def kdc(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with key_distribution.running(tmp_path_factory.mktemp("kdc")) as made:
        yield made
