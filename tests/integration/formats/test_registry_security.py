"""A schema registry that asks for a password, with TLS: whose certificate may be in one of Java's stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness import free_port
from key_stores import PASSWORD, trust_store
from schema_registry import Registry, decoded, options, record

from ingest.component.files import Files
from ingest.errors import AccessError, ConfigError
from ingest.sandbox import registry as sandbox
from ingest.sandbox.secure import USER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROW = record("Value", id="int", name=["null", "string"])


@pytest.fixture(scope="module")
def secured(
    java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[sandbox.RunningRegistry, Path, str]]:
    folder = tmp_path_factory.mktemp("secured")
    there = sandbox.up(folder, free_port(), secure=True)
    yield there, folder / "secure", f"{USER}:{(folder / 'secure' / 'password').read_text().strip()}"
    sandbox.down(folder, wipe=True)


def test_a_registry_with_a_password_and_tls(secured: tuple[sandbox.RunningRegistry, Path, str]) -> None:
    there, folder, user = secured
    assert there.tls is not None
    value = Registry(there.tls, user, folder / "ca.pem").message("s-value", ROW, {"id": 1, "name": "a"})
    trust = {"ssl.truststore.location": str(folder / "ca.pem")}
    given = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": user}
    assert bytes(decoded(options(there.tls, **trust, **given), value)[3]) == b'{"id":1,"name":"a"}'
    in_url = there.tls.replace("//", f"//{user}@")
    same = {"properties.schema.registry.ssl.ca.location": str(folder / "ca.pem")}
    assert bytes(decoded(options(in_url, **same), value)[3]) == b'{"id":1,"name":"a"}'
    with pytest.raises(ConfigError, match="is not trusted"):
        decoded(options(there.tls, **given), value)
    for wrong in ({}, {**given, "basic-auth.user-info": f"{USER}:wrong-password"}):
        with pytest.raises(AccessError, match="refuses access") as raised:
            decoded(options(there.tls, **trust, **wrong), value)
        assert "wrong-password" not in str(raised.value)
    with pytest.raises(AccessError) as raised:
        decoded(options(in_url.replace(user, "user:hidden-word"), **trust), value)
    assert "hidden-word" not in str(raised.value)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_the_certificate_of_the_authority_in_a_store(
    secured: tuple[sandbox.RunningRegistry, Path, str], tmp_path: Path, kind: str
) -> None:
    there, folder, user = secured
    assert there.tls is not None
    value = Registry(there.tls, user, folder / "ca.pem").message("s-value", ROW, {"id": 1, "name": "a"})
    store = trust_store(tmp_path / "trust", kind, (folder / "ca.pem").read_bytes())
    trust = {"ssl.truststore.location": str(store), "ssl.truststore.password": PASSWORD}
    given = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": user}
    made = options(there.tls, **trust, **given).with_files(Files("source", lambda _: b"", print))
    store.unlink()
    assert bytes(decoded(made, value)[3]) == b'{"id":1,"name":"a"}'
    trust_store(store, kind, (folder / "ca.pem").read_bytes())
    wrong = options(there.tls, **{**trust, "ssl.truststore.password": "another"})
    with pytest.raises(ConfigError, match="the password is wrong"):
        wrong.with_files(Files("source", lambda _: b"", print))
