"""Java's trust and key stores in client properties: `ssl.truststore.*` and `ssl.keystore.*`.

In: properties. Out: the stores that they name. Reads no file. Rules: docs/spec/configuration.md#files-of-properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

STORES: Final = frozenset(
    {
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
    }
)
"""Properties of Java's stores."""
TYPES: Final = ("JKS", "PKCS12", "PEM")
_PEM: Final = (".pem", ".crt", ".cer", ".cert")


class Store(NamedTuple):
    """A store that properties name."""

    option: str
    """The property with its place."""
    place: str
    type: str
    """The type that the properties say, in upper case; an empty text where they say none."""
    password: str | None

    @property
    def is_pem(self) -> bool:
        """True if it is a file with PEM texts: librdkafka reads it by itself."""
        return self.type == "PEM" or (not self.type and self.place.lower().endswith(_PEM))


def store_of(properties: Mapping[str, str], kind: Literal["truststore", "keystore"]) -> Store | None:
    """Return the trust store or the key store; None where there is none, or where a placeholder hides what it is."""
    option = f"ssl.{kind}.location"
    place, said = properties.get(option, ""), properties.get(f"ssl.{kind}.type", "")
    if not place or "${" in said or "${" in place:
        return None
    return Store(option, place, said.upper(), properties.get(f"ssl.{kind}.password"))


def as_pem_files(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties for the stores that are PEM files."""
    out = {}
    trust, own = store_of(properties, "truststore"), store_of(properties, "keystore")
    if trust is not None and trust.is_pem:
        out["ssl.ca.location"] = trust.place
    if own is not None and own.is_pem:  # one file with the key and the certificates
        out["ssl.certificate.location"] = out["ssl.key.location"] = own.place
        if own.password is not None:
            out["ssl.key.password"] = own.password
    return out


def impossible_type(name: str, value: str) -> str:
    """Return why a type of a store is not possible; an empty text where it is, and for other properties."""
    if not name.endswith("store.type") or value.upper() in TYPES or "${" in value:
        return ""
    return f"{name}: {value[:60]!r} is not possible (possible: {', '.join(TYPES)})"
