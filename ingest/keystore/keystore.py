"""Trust and key stores of Java pipelines: JKS, PKCS#12 or PEM.

In: the bytes of a file, its type as the pipeline says it, and passwords. Out: PEM texts. The type that counts is that
of the bytes: Java, too, reads PKCS#12 in a file that is called `.jks`. Reads no file and writes none.
"""

from __future__ import annotations

import datetime as dt
import re
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from ingest.keystore import jks
from ingest.keystore.jks import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_JCEKS: Final = b"\xce\xce\xce\xce"
_SEQUENCE: Final = b"\x30"
"""The first byte of a PKCS#12 store."""
_LONG: Final = 0x80
"""The bit of a length in DER that stands for the number of bytes in which it follows."""
_PEM: Final = b"-----BEGIN "
_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----\s*", re.DOTALL)


class Trusted(NamedTuple):
    """The certificates that are trusted."""

    pem: str
    expired: list[str]
    """Texts about those that have expired."""


class Identity(NamedTuple):
    """A client's own private key, and its certificate."""

    chain: str
    """The client's certificate, and those of the authorities above it, as PEM."""
    key: str
    """The private key as PEM. It is encrypted only where a PEM file has it so."""
    expired: list[str]
    """A text where the client's certificate has expired."""


def trusted(data: bytes, kind: str, password: str | None) -> Trusted:
    """Return the certificates that a trust store holds: also those of private keys, as in Java. Raise StoreError.

    `kind`: the type that the pipeline says, or an empty text.
    """
    with _refusing():
        certificates = _certificates(data, _kind(data, kind), password)
        if not certificates:
            raise StoreError("it holds no certificate")
        return Trusted(_pem(certificates), _expired(certificates))


def identity(data: bytes, kind: str, password: str | None, key_password: str | None) -> Identity:
    """Return the private key of a key store with its certificates. Raise StoreError.

    `key_password`: the password of the key where it is not that of the store.
    """
    with _refusing():
        store_kind = _kind(data, kind)
        if store_kind == "PEM":
            return _identity_of_pem(data)
        key, chain = (
            _only_key(data, password, key_password) if store_kind == "JKS" else _key_of_pkcs12(_pkcs12(data, password))
        )
        if key.public_key() != chain[0].public_key():
            raise StoreError("its private key does not belong to its certificate")
        private = key.private_bytes(Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Identity(_pem(chain), private.decode(), _expired(chain[:1]))


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise StoreError for whatever the library raises, which are errors of many kinds; without its warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except StoreError:
        raise
    except Exception as exc:
        raise StoreError(f"it cannot be read: {type(exc).__name__}: {str(exc)[:200]}") from exc


def _certificates(data: bytes, kind: str, password: str | None) -> Sequence[x509.Certificate]:
    if kind == "PEM":
        return _from_pem(data)
    if kind == "JKS":
        entries = jks.entries(data, password)
        return [_parsed(entry.certificates[0], entry) for entry in entries if entry.certificates]
    store = _pkcs12(data, password)
    return [bag.certificate for bag in (store.cert, *store.additional_certs) if bag is not None]


def _identity_of_pem(data: bytes) -> Identity:
    chain, keys = _from_pem(data), _KEY.findall(data)
    if len(keys) != 1 or not chain:
        msg = f"it holds {len(keys)} private keys and {len(chain)} certificates; one key with its own is needed"
        raise StoreError(msg)
    return Identity(_pem(chain), keys[0].decode("ascii", "replace"), _expired(chain[:1]))


def _kind(data: bytes, said: str) -> str:
    """Return the type of a store by its bytes. Raise StoreError where it is none that can be read, or not as `said`."""
    if data.startswith(jks.MAGIC):
        kind = "JKS"
    elif data.startswith(_SEQUENCE):
        kind = "PKCS12"
    elif _PEM in data:
        kind = "PEM"
    elif data.startswith(_JCEKS):
        msg = "it is a JCEKS store, which cannot be read here; keytool -importkeystore converts it to PKCS12"
        raise StoreError(msg)
    else:
        raise StoreError("it is neither a JKS nor a PKCS#12 store, nor a PEM file")
    if said and (said == "PEM") != (kind == "PEM"):
        raise StoreError(f"it is {'a PEM file' if kind == 'PEM' else f'a {kind} store'}, and the pipeline says {said}")
    return kind


def _only_key(
    data: bytes, password: str | None, key_password: str | None
) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    entries = [entry for entry in jks.entries(data, password) if entry.key is not None]
    if len(entries) != 1 or not entries[0].certificates:
        named = f" ({', '.join(entry.alias[:60] for entry in entries[:5])})" if entries else ""
        raise StoreError(f"it holds {len(entries)} private keys{named}; one with its certificate is needed")
    (entry,) = entries
    secret = key_password or password
    if secret is None:
        raise StoreError("its private key needs a password")
    assert entry.key is not None
    key = serialization.load_der_private_key(jks.private_key(entry.key, secret), None)
    return key, [_parsed(der, entry) for der in entry.certificates]


def _pkcs12(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        if password is None:  # as in Java, what is not encrypted is read, and not checked
            return pkcs12.load_pkcs12(_without_mac(data), None)
        return pkcs12.load_pkcs12(data, password.encode())
    except Exception as exc:  # cryptography raises errors of several kinds, by what is wrong
        why = "the password is wrong"
        if password is None:  # keytool writes such stores in any file, also in one that is called .jks
            why = "it is a PKCS#12 store, which needs its password, also where the file is called .jks"
        raise StoreError(f"{why}, or the file is damaged") from exc


def _without_mac(data: bytes) -> bytes:
    """Return a PKCS#12 store without its MAC, the third part of its sequence, which needs the password.

    A store whose lengths are not plain ones stays as it is.
    """
    start, end = _content(data, 0)
    _, version = _content(data, start)
    _, safe = _content(data, version)
    if not start < version < safe < end == len(data):
        return data
    size = safe - start
    length = bytes([size]) if size < _LONG else bytes([_LONG | 4]) + size.to_bytes(4, "big")
    return _SEQUENCE + length + data[start:safe]


def _content(data: bytes, at: int) -> tuple[int, int]:
    """Return where the content of a value in DER begins and ends; raises IndexError, or OverflowError."""
    size = data[at + 1]
    start = at + 2
    if size >= _LONG:
        start += size - _LONG
        size = int.from_bytes(data[at + 2 : start], "big")
    return start, start + size


def _key_of_pkcs12(store: pkcs12.PKCS12KeyAndCertificates) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    if store.key is None or store.cert is None:
        raise StoreError("it holds no private key with its certificate")
    chain = [store.cert.certificate]
    others = [bag.certificate for bag in store.additional_certs]
    while others:
        above = next((certificate for certificate in others if certificate.subject == chain[-1].issuer), None)
        if above is None:
            break
        others.remove(above)
        chain.append(above)
    return store.key, chain


def _from_pem(data: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        return []


def _parsed(der: bytes, entry: jks.Entry) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except Exception as exc:
        raise StoreError(f"its certificate {entry.alias[:60]!r} cannot be read: {str(exc)[:200]}") from exc


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates).decode()


def _expired(certificates: Iterable[x509.Certificate]) -> list[str]:
    """Return a text for each certificate that is not valid any more."""
    now = dt.datetime.now(dt.UTC)
    return [
        f"the certificate of {cert.subject.rfc4514_string()[:200]!r} expired on {cert.not_valid_after_utc:%Y-%m-%d}"
        for cert in certificates
        if cert.not_valid_after_utc < now
    ]
