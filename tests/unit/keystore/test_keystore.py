"""Key stores that Java's keytool has made, and damaged ones."""

from __future__ import annotations

import datetime as dt
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st
from key_stores import KEY_PASSWORD, PASSWORD, key_store, keytool, trust_store

from ingest.keystore import jks
from ingest.keystore.jks import StoreError
from ingest.keystore.keystore import identity, trusted
from ingest.sandbox.secure import Authority

if TYPE_CHECKING:
    from pathlib import Path

KINDS = pytest.mark.parametrize(("kind", "legacy"), [("JKS", False), ("PKCS12", False), ("PKCS12", True)])
AUTHORITIES = Authority("one"), Authority("two")
KEY, CHAIN = AUTHORITIES[0].issue("client")


class Made(NamedTuple):
    """Stores that tests share, as bytes."""

    trust: bytes
    own: bytes


@pytest.fixture(scope="module")
def found(java: None, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("stores")
    trust = trust_store(folder / "trust.jks", "JKS", AUTHORITIES[0].pem)
    own = key_store(folder / "own.jks", "JKS", KEY, CHAIN)
    return Made(trust.read_bytes(), own.read_bytes())


@KINDS
def test_trusted_certificates(java: None, tmp_path: Path, kind: str, legacy: bool) -> None:
    file = trust_store(tmp_path / "trust", kind, *(one.pem for one in AUTHORITIES), legacy=legacy)
    for said in (kind, "", "JKS"):  # Java, too, goes by the bytes
        got = trusted(file.read_bytes(), said, PASSWORD)
        assert sorted(x509.load_pem_x509_certificates(got.pem.encode()), key=str) == sorted(
            (x509.load_pem_x509_certificate(one.pem) for one in AUTHORITIES), key=str
        )
        assert got.expired == []
    with pytest.raises(StoreError, match="the password is wrong, or the file is damaged"):
        trusted(file.read_bytes(), kind, "another")
    if kind == "JKS":  # as in Java, it is not checked then
        assert trusted(file.read_bytes(), kind, None).pem == got.pem
    else:
        with pytest.raises(StoreError, match="it is a PKCS#12 store, which needs its password"):
            trusted(file.read_bytes(), "JKS", None)


@KINDS
def test_a_private_key_with_its_certificates(java: None, tmp_path: Path, kind: str, legacy: bool) -> None:
    file = key_store(tmp_path / "own", kind, KEY, CHAIN, legacy=legacy)
    key_password = KEY_PASSWORD if kind == "JKS" else None
    got = identity(file.read_bytes(), kind, PASSWORD, key_password)
    assert load_pem_private_key(got.key.encode(), None).public_key() == load_pem_private_key(KEY, None).public_key()
    assert x509.load_pem_x509_certificates(got.chain.encode()) == x509.load_pem_x509_certificates(CHAIN)
    assert got.expired == []
    # A store of keys may be the trust store, too: the key's own certificate is trusted then
    assert x509.load_pem_x509_certificates(CHAIN)[0] in x509.load_pem_x509_certificates(
        trusted(file.read_bytes(), kind, PASSWORD).pem.encode()
    )


@pytest.mark.parametrize("algorithm", ["RSA", "EC", "Ed25519"])
def test_keys_that_keytool_makes_itself(java: None, tmp_path: Path, algorithm: str) -> None:
    file = tmp_path / "made.jks"
    keytool(
        "-genkeypair", "-alias", "ä-öß", "-keyalg", algorithm, "-dname", "CN=x", "-keystore", str(file), "-storetype",
        "JKS", "-storepass", PASSWORD, "-keypass", PASSWORD,
    )  # fmt: skip
    got = identity(file.read_bytes(), "JKS", PASSWORD, None)  # the key's password is the store's, where none is given
    own = x509.load_pem_x509_certificate(got.chain.encode())
    assert load_pem_private_key(got.key.encode(), None).public_key() == own.public_key()


def test_a_certificate_that_cannot_be_read_is_named(java: None, tmp_path: Path) -> None:
    file = tmp_path / "dsa.jks"
    keytool(
        "-genkeypair", "-alias", "older", "-keyalg", "DSA", "-dname", "CN=x", "-keystore", str(file), "-storetype",
        "JKS", "-storepass", PASSWORD, "-keypass", PASSWORD,
    )  # fmt: skip
    for function in (trusted, partial(identity, key_password=None)):
        with pytest.raises(StoreError, match="its certificate 'older' cannot be read: "):
            function(file.read_bytes(), "JKS", PASSWORD)


def test_passwords_of_jks(found: Made) -> None:
    assert trusted(found.trust, "JKS", None) == trusted(found.trust, "JKS", PASSWORD)  # unchecked, as in Java
    with pytest.raises(StoreError, match="the password of the private key is wrong"):
        identity(found.own, "JKS", PASSWORD, "another")
    with pytest.raises(StoreError, match="the password is wrong"):
        identity(found.own, "JKS", "another", KEY_PASSWORD)
    with pytest.raises(StoreError, match="its private key needs a password"):
        identity(found.own, "JKS", None, None)


def test_certificates_of_pkcs12_that_are_not_encrypted_need_no_password(java: None, tmp_path: Path) -> None:
    source, file = tmp_path / "authority.crt", tmp_path / "trust.jks"
    source.write_bytes(AUTHORITIES[0].pem)
    keytool(
        "-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE", "-importcert", "-alias", "authority", "-file", str(source),
        "-keystore", str(file), "-storetype", "PKCS12", "-storepass", PASSWORD,
    )  # fmt: skip
    data = file.read_bytes()
    assert trusted(data, "JKS", None) == trusted(data, "JKS", PASSWORD)  # Java, too, passes over the MAC
    with pytest.raises(StoreError, match="the password is wrong"):
        trusted(data, "JKS", "another")
    for length in range(len(data)):
        with pytest.raises(StoreError):
            trusted(data[:length], "", None)


def test_what_a_store_does_not_hold(found: Made, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="it holds 0 private keys"):
        identity(found.trust, "JKS", PASSWORD, None)
    file = key_store(tmp_path / "two.jks", "JKS", KEY, CHAIN)
    key_store(file, "JKS", *AUTHORITIES[1].issue("other"), alias="second")
    with pytest.raises(StoreError, match=r"it holds 2 private keys \((own, second|second, own)\)"):
        identity(file.read_bytes(), "JKS", PASSWORD, KEY_PASSWORD)
    only_trust = trust_store(tmp_path / "trust.p12", "PKCS12", AUTHORITIES[0].pem)
    with pytest.raises(StoreError, match="it holds no private key"):
        identity(only_trust.read_bytes(), "PKCS12", PASSWORD, None)
    keytool("-delete", "-alias", "authority-0", "-keystore", str(only_trust), "-storepass", PASSWORD)
    with pytest.raises(StoreError, match="it holds no certificate"):
        trusted(only_trust.read_bytes(), "PKCS12", PASSWORD)


def test_pem_files_without_a_name_that_says_so(found: Made) -> None:
    assert trusted(CHAIN, "", None).pem == CHAIN.decode()
    got = identity(KEY + CHAIN, "PEM", None, None)
    assert (got.key.strip(), got.chain) == (KEY.decode().strip(), CHAIN.decode())
    with pytest.raises(StoreError, match="it holds 0 private keys and 2 certificates"):
        identity(CHAIN, "", None, None)
    with pytest.raises(StoreError, match="it is a PEM file, and the pipeline says JKS"):
        trusted(CHAIN, "JKS", PASSWORD)
    with pytest.raises(StoreError, match="it is a JKS store, and the pipeline says PEM"):
        trusted(found.trust, "PEM", None)


def test_other_files(java: None, tmp_path: Path) -> None:
    for data in (b"", b"bootstrap.servers=h:1"):
        with pytest.raises(StoreError, match="it is neither a JKS nor a PKCS#12 store, nor a PEM file"):
            trusted(data, "", None)
    other = trust_store(tmp_path / "other", "JCEKS", AUTHORITIES[0].pem)
    with pytest.raises(StoreError, match="it is a JCEKS store"):
        trusted(other.read_bytes(), "", PASSWORD)


def test_expired_certificates_are_told() -> None:
    key, chain = AUTHORITIES[0].issue("old", valid=dt.timedelta(days=-3))
    (text,) = trusted(chain, "PEM", None).expired
    assert "the certificate of 'CN=old' expired on " in text
    assert identity(key + chain, "PEM", None, None).expired == [text]


def test_a_cut_store_is_refused(found: Made) -> None:
    for data in found:
        for length in range(len(data)):
            with pytest.raises(StoreError):
                jks.entries(data[:length], PASSWORD)
            try:
                identity(data[:length], "", None, KEY_PASSWORD)
            except StoreError:
                continue
            pytest.fail(f"{length} bytes of {len(data)} were taken")


@given(st.data())
def test_a_damaged_store_is_refused_or_read(found: Made, data: st.DataObject) -> None:
    store = bytearray(data.draw(st.sampled_from(found)))
    for _ in range(data.draw(st.integers(1, 8))):
        store[data.draw(st.integers(0, len(store) - 1))] = data.draw(st.integers(0, 255))
    for function in (lambda: trusted(bytes(store), "", None), lambda: identity(bytes(store), "", None, KEY_PASSWORD)):
        try:
            got = str(function())
        except StoreError as exc:
            got = f"refused: {exc}"
        assert re.search(r"BEGIN CERTIFICATE|refused: \w", got)
