"""Secrets in texts: which options hold one, and texts without them.

In: names of options, their values, texts. Out: the secrets to mask, and texts with asterisks in their place.
`config/visible.py` says what of a pipeline file may be shown at all.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ingest.kafka.properties import KNOWN, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HIDDEN: Final = "********"
"""What stands in the place of a value that is not shown, however long the value is."""
SEEN: Final[set[str]] = set()
"""The secrets of all files that this process has read, for errors that end it."""
MIN_MASKED: Final = 3
"""A secret shorter than this is not looked for in other texts: it would turn every text into asterisks."""

_MAX_LINES: Final = 1_000
"""Lines of a secret that are looked for one by one."""

_NAMES_ONLY: Final = frozenset({"dew.csms.secretName", "properties-from-secret"})
"""Options that name a secret and hold none."""

HARMLESS: Final = frozenset({
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.kerberos.service.name",
    "sasl.kerberos.principal", "sasl.kerberos.keytab", "ssl.truststore.type", "ssl.truststore.location",
    "ssl.keystore.type", "ssl.keystore.location", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
    "ssl.protocol", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
    *(n for n in KNOWN if not SECRET.search(n) and not n.startswith(("sasl.", "ssl.", "security.", "http"))),
})  # fmt: skip
"""Client properties whose values are shown in the lines of a file; those of all others are not."""

UNTIL_KNOWN: Final = frozenset({"sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.password",
                                 "ssl.truststore.password", "ssl.key.pem", "ssl.keystore.key"})  # fmt: skip
HOLDERS: Final = tuple(f"{name}." for name in {*KNOWN, *UNTIL_KNOWN} if SECRET.search(name))
PROPERTIES: Final = "properties."
_FAMILIES: Final = re.compile(r"properties\.(?:sasl|ssl|security|https?)\.|aliyun\.kafka\.|variables(?:\.|$)")
_SETTINGS: Final = re.compile(r"(?:true|false|none|default|oidc|pem|jks|pkcs12|https?://\S*|\d{1,9})", re.IGNORECASE)
"""Texts that no secret is, in options that may hold one."""
_URL_PASSWORD: Final = re.compile(r"(?:://|^)[^\s/@:,]*:([^\s/@]+)@")
_JAAS_SECRET: Final = re.compile(
    r"""(?:pass|secret|token|key|pwd)\w*\s*[=:]?\s*(?:"([^"]+)"?|'([^']+)'?|([^\s;"']+))""", re.IGNORECASE
)
PLACEHOLDERS: Final = re.compile(r"[\"']?(?:\$\{(?:(?:env:)?[A-Za-z0-9_][\w.-]*|file:[\w.:/~-]+)\})+[\"']?", re.ASCII)
"""Placeholders and nothing else; `${vault:…}` is none, so that what stands in it may be a value."""


def mask(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets in it, also where they are quoted, or only some of their lines are there."""
    for form in forms(frozenset(secrets)):
        text = text.replace(form, HIDDEN)
    return text


@lru_cache(maxsize=20)
def forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """How secrets look in a text, longest first: whole and by line, as they are, and as `repr` and JSON write them."""
    found: set[str] = set()
    for secret in secrets:
        for part in (secret, *(line.strip() for line in secret.splitlines()[:_MAX_LINES])):
            found.update((part, *escaped(part)))
    return tuple(sorted((form for form in found if len(form) >= MIN_MASKED), key=len, reverse=True))


def escaped(text: str) -> Iterator[str]:
    """Yield a text as `repr` and JSON write it, without the quotes around it."""
    yield repr(text)[1:-1]
    yield repr(f"\"'{text}")[4:-1]  # in a longer text with both kinds of quotes
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def masked(value: Any, secrets: Iterable[str]) -> Any:  # noqa: ANN401  (what JSON has)
    """A plain value, of maps and lists as well, with every text in it masked; not the keys, which are words of ours."""
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, dict):
        return {key: masked(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, secrets) for item in value]
    return value


def sensitive(option: str) -> bool:
    """Whether an option is one that holds a secret, or is called as if it were."""
    return option not in _NAMES_ONLY and SECRET.search(option) is not None


def opaque(option: str) -> bool:
    """Whether an option holds a text in any case, so that what is nested in it is a text that YAML took for a map."""
    return sensitive(option) or (option.count(".") > 1 and option.startswith(PROPERTIES)) or concealed(option)


def concealed(option: str) -> bool:
    """Whether the value of an option that is understood may be a secret, so that a checkpoint does not keep it."""
    if sensitive(option):
        return True
    return _FAMILIES.match(option) is not None and option.removeprefix(PROPERTIES) not in HARMLESS


def secrets_in(option: str, value: str) -> Iterator[str]:
    """The texts of an option's value that are to be masked wherever else they turn up."""
    yield from _URL_PASSWORD.findall(value)
    if not sensitive(option) or _SETTINGS.fullmatch(value.strip()):
        return
    found = [value, value.strip()]
    if "jaas" in option.lower() or "LoginModule" in value:
        found += [next(filter(None, groups)) for groups in _JAAS_SECRET.findall(value)]
    yield from (text for text in found if not PLACEHOLDERS.fullmatch(text))
