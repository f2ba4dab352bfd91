"""Files that options name, and that the driver reads for the workers: stores of certificates, keytabs, krb5.conf.

In: an option's key and the place of its file, which is a path or a URI of one of Hadoop's file systems. Out: bytes, or
the PEM texts of a store. Nothing is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import ConfigError
from ingest.keystore.jks import StoreError
from ingest.model.text import reason_of
from ingest.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.keystore.keystore import Identity, Trusted

MAX_BYTES: Final = 16 << 20
"""The largest file that is read, in bytes."""


class Files:
    """A reader of the files that one section of a pipeline file names."""

    def __init__(self, section: str, fetch: Callable[[str], bytes], warn: Callable[[str], None]) -> None:
        """`section`: the name of the section, for errors.

        `fetch` returns the bytes of a remote file, and raises IngestError. `warn` gets a text for expired certificates.
        """
        self._section = section
        self._fetch = fetch
        self._warn = warn

    def read(self, option: str, place: str) -> bytes:
        """Return what is in a file; raises IngestError."""
        if is_remote(place):
            return self._fetch(place)
        why = unreadable(place)
        if not why:
            try:
                with Path(place).open("rb") as file:
                    data = file.read(MAX_BYTES + 1)
            except OSError as exc:
                why = reason_of(exc)
            else:
                if len(data) <= MAX_BYTES:
                    return data
                why = f"it is larger than {MAX_BYTES >> 20} MiB"
        raise self._refusal(option, place, why, "the file has to be on the machine where the run is started")

    def trusted(self, option: str, place: str, kind: str, password: str | None) -> str:
        """Return the certificates of a trust store as PEM; raises IngestError. `kind`: its type, if that is said."""
        found: Trusted = self._opened(option, place, lambda stores, data: stores.trusted(data, kind, password))
        return found.pem

    def identity(
        self, option: str, place: str, kind: str, password: str | None, key_password: str | None
    ) -> tuple[str, str]:
        """Return the certificates and the private key of a key store as PEM; raises IngestError.

        `key_password`: the password of the key where it is not that of the store.
        """
        found: Identity = self._opened(
            option, place, lambda stores, data: stores.identity(data, kind, password, key_password)
        )
        return found.chain, found.key

    def _opened(self, option: str, place: str, read: Callable[[Any, bytes], Any]) -> Any:
        """Return what a function of the module of stores reads, and warn of certificates that have expired."""
        from ingest.keystore import keystore  # noqa: PLC0415  (slow to import, and most pipelines have no stores)

        try:
            found = read(keystore, self.read(option, place))
        except StoreError as exc:
            raise self._refusal(option, place, str(exc), _HINT) from exc
        for text in found.expired[:_MAX_TOLD]:
            self._warn(f"{self._section}.{option}: {place}: {text}")
        if (more := len(found.expired) - _MAX_TOLD) > 0:
            self._warn(f"{self._section}.{option}: {place}: {more} more certificates have expired")
        return found

    def _refusal(self, option: str, place: str, why: str, hint: str) -> ConfigError:
        return ConfigError(f"cannot use {self._section}.{option}: {place}: {why}", hint)


_HINT: Final = "see its type and its passwords in the pipeline file; keytool -list shows what is in a store"
_MAX_TOLD: Final = 5
"""Number of expired certificates of one store that a warning names."""


def unreadable(place: str) -> str:
    """Return why a local file cannot be read; an empty text where it can, where it is remote, or is not known yet."""
    if is_remote(place) or "${" in place:
        return ""
    path = Path(place)
    try:
        if not path.exists():
            return "there is no such file"
        if not path.is_file():
            return "it is no file"
        with path.open("rb"):
            return ""
    except OSError as exc:
        return f"it cannot be read: {reason_of(exc)}"
