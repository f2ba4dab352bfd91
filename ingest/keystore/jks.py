"""Java's own format of key stores, JKS: what `keytool -storetype JKS` writes.

In: the bytes of a store, and passwords. Out: its entries, with certificates and keys as DER. Java's `JavaKeyStore` and
`KeyProtector` have defined this format since 1998. It is big-endian: a magic number, a version, the number of entries,
the entries, and a SHA-1 digest of all this with the store's password.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"
MAX_ENTRIES: Final = 10_000
_KEY: Final = 1
_CERTIFICATE: Final = 2
_DIGEST: Final = 20
"""The length of a SHA-1 digest, in bytes."""
_SALTED: Final = b"Mighty Aphrodite"
"""The text that Java puts between the password and the store's bytes."""
_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier of Java's way to protect a key, as DER: 1.3.6.1.4.1.42.2.17.1.1."""


class StoreError(ValueError):
    """A key store that cannot be used: why."""


class Entry(NamedTuple):
    """An entry of a key store."""

    alias: str
    certificates: tuple[bytes, ...]
    """A trusted certificate; or a key's own certificate, and those of the authorities above it. All are DER."""
    key: bytes | None
    """The private key, protected by a password; None where the entry is a trusted certificate."""


def entries(data: bytes, password: str | None) -> list[Entry]:
    """Return the entries of a key store. Without a password they are not checked, as in Java.

    Raise StoreError for a wrong password, or for bytes that are no such store.
    """
    if len(data) < len(MAGIC) + 8 + _DIGEST or not data.startswith(MAGIC):
        raise StoreError("it is no JKS store")
    if password is not None and _digest(password, _SALTED, data[:-_DIGEST]) != data[-_DIGEST:]:
        raise StoreError("the password is wrong, or the file is damaged")
    store = _Bytes(data[len(MAGIC) : -_DIGEST])
    version, count = store.number(4), store.number(4)
    if version not in {1, 2} or count > MAX_ENTRIES:
        raise StoreError("it is a JKS store of a version that is not known, or damaged")
    return [_entry(store, version) for _ in range(count)]


def private_key(protected: bytes, password: str) -> bytes:
    """Return a private key as PKCS#8 (DER). Raise StoreError for a wrong password."""
    salt, body, check = protected[:_DIGEST], protected[_DIGEST:-_DIGEST], protected[-_DIGEST:]
    stream, block = b"", salt
    while len(stream) < len(body):
        block = _digest(password, block)
        stream += block
    plain = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if _digest(password, plain) != check:
        raise StoreError("the password of the private key is wrong")
    return plain


def _digest(password: str, *parts: bytes) -> bytes:
    """Return the SHA-1 digest of a password, as Java spells it, and of more bytes."""
    return hashlib.sha1(b"".join((password.encode("utf-16-be"), *parts)), usedforsecurity=False).digest()


def _entry(store: _Bytes, version: int) -> Entry:
    tag = store.number(4)
    alias = store.text()
    store.take(8)  # when it was made
    if tag == _CERTIFICATE:
        return Entry(alias, (_certificate(store, version),), None)
    if tag != _KEY:
        raise StoreError(f"its entry {alias[:60]!r} is neither a key nor a certificate")
    key = _protected(store.take(store.number(4)))
    return Entry(alias, tuple(_certificate(store, version) for _ in range(store.number(4))), key)


def _certificate(store: _Bytes, version: int) -> bytes:
    if version > 1 and store.text() != "X.509":
        raise StoreError("it has a certificate that is not of type X.509")
    return store.take(store.number(4))


def _protected(info: bytes) -> bytes:
    """Return the protected bytes of a private key: the octet string of PKCS#8's EncryptedPrivateKeyInfo (DER)."""
    outer = _Bytes(_Bytes(info).element(0x30))
    if not outer.element(0x30).startswith(_PROTECTOR):
        raise StoreError("its private key is protected in a way that is not known")
    return outer.element(0x04)


class _Bytes:
    """A cursor over bytes. Each method reads from its position on, and raises StoreError where there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        """Read the next `count` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise StoreError("the file is cut off or damaged")
        taken, self._at = self._data[self._at : end], end
        return taken

    def number(self, size: int) -> int:
        """Read a big-endian unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        """Read a text behind its length in two bytes. Java's modified UTF-8 differs only in rare characters."""
        return self.take(self.number(2)).decode("utf-8", "replace")

    def element(self, tag: int) -> bytes:
        """Read an element of DER with this tag. Return its content."""
        actual, length = self.number(1), self.number(1)
        if actual != tag:
            raise StoreError("its private key is damaged")
        return self.take(self.number(length & 0x7F) if length & 0x80 else length)
