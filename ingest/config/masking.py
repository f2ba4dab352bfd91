"""Masking of secrets: which options hold secrets, and texts with the secrets hidden.

In: names of options, their values, texts. Out: the secrets to mask, and texts with asterisks in their place. The module
`config/visible.py` decides which parts of a pipeline file may be shown at all.
"""

from __future__ import annotations

import json
import re
import string
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ingest.kafka.properties import KNOWN, SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ingest.model.jsontext import Json

HIDDEN: Final = "********"
"""Text that replaces a hidden value, however long the value is."""
SEEN: Final[set[str]] = set()
"""Secrets of all files that this process has read. The error that ends the process is masked with them."""
MIN_MASKED: Final = 3
"""Length in characters of the shortest secret that is masked in other texts.

Shorter ones would hide parts of almost every text.
"""

_MAX_LINES: Final = 1_000
"""Number of lines of a secret that are masked one by one."""

_NAMES_ONLY: Final = frozenset({"dew.csms.secretName", "properties-from-secret", "ssl.key"})
"""Options that hold the name of a secret, or of its file, and not the secret itself."""

HARMLESS: Final = frozenset({
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.kerberos.service.name",
    "sasl.kerberos.principal", "sasl.kerberos.keytab", "ssl.truststore.type", "ssl.truststore.location",
    "ssl.keystore.type", "ssl.keystore.location", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
    "ssl.protocol", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
    *(n for n in KNOWN if not SECRET.search(n) and not n.startswith(("sasl.", "ssl.", "security.", "http"))),
})  # fmt: skip
"""Client properties whose values may be shown in the lines of a file. The values of all others are hidden."""

UNTIL_KNOWN: Final = frozenset({"sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.password",
                                 "ssl.truststore.password", "ssl.key.pem", "ssl.keystore.key"})  # fmt: skip
HOLDERS: Final = tuple(f"{name}." for name in {*KNOWN, *UNTIL_KNOWN} if SECRET.search(name))
PROPERTIES: Final = "properties."
_NAME_CHARACTERS: Final = frozenset(f"{string.ascii_letters}{string.digits}._-")
_FAMILIES: Final = re.compile(
    r"properties\.(?:sasl|ssl|security|https?)\.|aliyun\.kafka\.|variables(?:\.|$)|(?:catalog|storage)\.properties\."
    r"|(?:key\.|value\.)?[a-z-]*-confluent\.properties\."
)
_SETTINGS: Final = re.compile(
    r"(?:true|false|none|default|oidc|pem|jks|pkcs12|user_info|url|static_token|https?://\S*|\d{1,9})", re.IGNORECASE
)
"""Texts that are certainly no secret, in options that may hold one."""
_URL_PASSWORD: Final = re.compile(r"(?:://|^)[^\s/@:,]*:([^\s/@]+)@")
_JAAS_SECRET: Final = re.compile(
    r"""(?:pass|secret|token|key|pwd)\w*\s*[=:]?\s*(?:"([^"]+)"?|'([^']+)'?|([^\s;"']+))""", re.IGNORECASE
)
PLACEHOLDERS: Final = re.compile(r"[\"']?(?:\$\{(?:(?:env:)?[A-Za-z0-9_][\w.-]*|file:[\w.:/~-]+)\})+[\"']?", re.ASCII)
"""Text of placeholders only. `${vault:…}` is not one of them, because its content may be a value."""


def mask(text: str, secrets: Iterable[str], ours: Callable[[str, int, int], bool] | None = None) -> str:
    """Return the text with asterisks in place of secrets.

    Quoted secrets and single lines of a secret are masked, too. `ours`: whether what stands at a place of a text is our
    own word, and not the secret; by default only a part of the name of a client property is.
    """
    if not any(form in text for form in forms(frozenset(secrets))):
        return text
    visible = [True] * len(text)
    hide(text, visible, secrets, ours or _in_a_name)
    out = [c if visible[i] else HIDDEN * (not i or visible[i - 1]) for i, c in enumerate(text)]
    return "".join(out)


def hide(text: str, visible: list[bool], secrets: Iterable[str], ours: Callable[[str, int, int], bool]) -> None:
    """Make `visible` false for each character of a text that is part of a secret. `ours`: see `mask`."""
    for form in forms(frozenset(secrets)):
        at = text.find(form)
        while at >= 0:
            end = at + len(form)
            if not ours(text, at, end):
                visible[at:end] = [False] * len(form)
            at = text.find(form, at + 1)


def _in_a_name(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text belongs to the name of a client property that is longer."""
    first, last = start, end
    while first and text[first - 1] in _NAME_CHARACTERS:
        first -= 1
    while last < len(text) and text[last] in _NAME_CHARACTERS:
        last += 1
    return last - first > end - start and text[first:last].strip(".").removeprefix(PROPERTIES) in KNOWN


@lru_cache(maxsize=20)
def forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """Return all spellings of secrets in a text, longest first.

    The spellings are the whole secret and each of its lines, as they are, and as `repr` and JSON write them.
    """
    found: set[str] = set()
    for secret in secrets:
        for part in (secret, *(line.strip() for line in secret.splitlines()[:_MAX_LINES])):
            found.update((part, *escaped(part)))
    return tuple(sorted((form for form in found if len(form) >= MIN_MASKED), key=len, reverse=True))


def escaped(text: str) -> Iterator[str]:
    """Yield the text as `repr` and JSON write it, without the quotes around it."""
    yield repr(text)[1:-1]
    yield repr(f"\"'{text}")[4:-1]  # the spelling of a longer text that has both kinds of quotes
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def masked(value: Json, secrets: Iterable[str]) -> Json:
    """Return a plain value with every text in it masked, also in maps and lists. The keys of maps are not masked.

    Keys are names that this program chose.
    """
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, dict):
        return {key: masked(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, secrets) for item in value]
    return value


def sensitive(option: str) -> bool:
    """Tell whether an option holds a secret, or has a name as if it held one."""
    return option not in _NAMES_ONLY and SECRET.search(option) is not None


def opaque(option: str) -> bool:
    """Tell whether an option always holds a text. A map below such an option is a text that YAML mistook for a map."""
    return sensitive(option) or (option.count(".") > 1 and option.startswith(PROPERTIES)) or concealed(option)


def concealed(option: str) -> bool:
    """Tell whether an option's value may be a secret. Checkpoints do not keep such values."""
    if sensitive(option):
        return True
    return _FAMILIES.match(option) is not None and option.removeprefix(PROPERTIES) not in HARMLESS


def secrets_in(option: str, value: str) -> Iterator[str]:
    """Yield the parts of an option's value that must be masked in all other texts."""
    yield from _URL_PASSWORD.findall(value)
    if not sensitive(option) or _SETTINGS.fullmatch(value.strip()):
        return
    found = [value, value.strip()]
    if "jaas" in option.lower() or "LoginModule" in value:
        found += [next(filter(None, groups)) for groups in _JAAS_SECRET.findall(value)]
    yield from (text for text in found if not PLACEHOLDERS.fullmatch(text))
