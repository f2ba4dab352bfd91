"""Redaction of texts for people: which parts of a pipeline file may be shown, and masking of its secrets.

The rule: values of secret options, and texts that placeholders put in, are never shown; all else is. Comments and
anchors are no values of options, and are not shown. Of a file that cannot be parsed, lines are shown only if the file
has no secret option. docs/secrets.md explains the rule to users.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, TypeAlias

import ingest
from ingest.component.options import Options
from ingest.formats import FORMATS
from ingest.kafka.properties import KNOWN, SECRET
from ingest.model.jsontext import Json
from ingest.sinks import SINKS
from ingest.sources import SOURCES

HIDDEN: Final = "********"
"""Text that replaces a hidden value, however long the value is."""
SEEN: Final[set[str]] = set()
"""Secrets of all files that this process has read. The error that ends the process is masked with them."""
MIN_MASKED: Final = 3
"""Length in characters of the shortest secret that is masked in other texts.

Shorter ones would hide parts of almost every text.
"""
SECTIONS: Final = ("source", "sink", "route", "transform", "pipeline")
"""The sections of a pipeline file."""
CONNECTOR: Final = "connector"
"""The name in Flink of a component's type. Its value is no secret."""
PROPERTIES: Final = "properties."
"""Prefix of the options that are Kafka client properties."""

_COLLECTOR: Final = "dirty-data.collector."
_MAX_LINES: Final = 1_000
"""Number of lines of a secret that are masked one by one."""
_FRAGMENT: Final = 6
"""Number of successive characters of a value that count as a part of it in a message about the value."""
_MOST_WORDS: Final = 2
"""Words of ours that a part of a text may have without being taken for a secret of several words."""

# -- which options and values are secret ---------------------------------------------------------------------------

_NAMES_ONLY: Final = frozenset({"dew.csms.secretName", "properties-from-secret", "ssl.key"})
"""Options that hold the name of a secret, or of its file, and not the secret itself."""
_HARMLESS: Final = frozenset({
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.kerberos.service.name",
    "sasl.kerberos.principal", "sasl.kerberos.keytab", "ssl.truststore.type", "ssl.truststore.location",
    "ssl.keystore.type", "ssl.keystore.location", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
    "ssl.protocol", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
})  # fmt: skip
"""Client properties of the families below that hold no secret."""
_FAMILIES: Final = re.compile(
    r"(?:^|\.)(?:properties\.(?:sasl|ssl|security|https?)\.|aliyun\.kafka\.|variables(?:\.|$)"
    r"|(?:catalog|storage)\.properties\.|[a-z-]*-confluent\.properties\.)"
)
"""Beginnings of options that may hold a secret, whatever they are called."""
_HOLDERS: Final = tuple(f"{name}." for name in KNOWN if SECRET.search(name))
_SETTINGS: Final = re.compile(
    r"(?:true|false|none|default|oidc|pem|jks|pkcs12|user_info|url|static_token|https?://\S*|\d{1,9})", re.IGNORECASE
)
"""Texts that are certainly no secret, in options that may hold one."""
_CREDENTIALS: Final = re.compile(
    r"(?<![^\s/@])[^\s/:@]*:([^\s/@]+)@"  # user and password in an address; tried once a word: long texts are cheap
    r"|(?:pass\w{0,24}+|pwd|secret|token|api.?key)\s*[=:]\s*\S|LoginModule|PRIVATE KEY",
    re.IGNORECASE,
)
_JAAS_SECRET: Final = re.compile(
    r"""(?:pass|secret|token|key|pwd)\w*\s*[=:]?\s*(?:"([^"]+)"?|'([^']+)'?|([^\s;"']+))""", re.IGNORECASE
)
PLACEHOLDERS: Final = re.compile(r"[\"']?(?:\$\{(?:(?:env:)?[A-Za-z0-9_][\w.-]*|file:[\w.:/~-]+)\})+[\"']?", re.ASCII)
"""Text of placeholders only. `${vault:…}` is not one of them, because its content may be a value."""
_KEY: Final = re.compile(r"[\w.*<-]{1,100}")


def is_secret(option: str) -> bool:
    """Tell whether an option holds a secret, or has a name as if it held one."""
    return option not in _NAMES_ONLY and SECRET.search(option) is not None


def may_be_secret(option: str) -> bool:
    """Tell whether an option's value may be a secret. Neither messages nor checkpoints have such values."""
    if is_secret(option):
        return True
    return _FAMILIES.search(option) is not None and option.rpartition(PROPERTIES)[2] not in _HARMLESS


def hides_value(option: str, text: str) -> bool:
    """Tell whether the value of an option must not be shown. `text` is the value as the file has it."""
    if PLACEHOLDERS.fullmatch(text.strip()):
        return False
    name = text[text.find("${") : text.rfind(":-")].lower() if "${" in text and ":-" in text else ""
    return may_be_secret(option) or _CREDENTIALS.search(text) is not None or is_secret(name) or "key" in name


def is_setting(value: str) -> bool:
    """Tell whether a value is certainly no secret, also in an option that may hold one."""
    return _SETTINGS.fullmatch(value.strip()) is not None or PLACEHOLDERS.fullmatch(value.strip()) is not None


def always_text(option: str) -> bool:
    """Tell whether an option always holds a text. A map below such an option is a text that YAML mistook for a map."""
    return may_be_secret(option) or (option.count(".") > 1 and option.startswith(PROPERTIES))


def shown_key(key: str, parent: str = "") -> str:
    """Return a key below the option `parent` as messages show it: asterisks where the key may contain a secret.

    The name of a secret option with more text after it does: the rest may be the secret.
    """
    name = key.rpartition(PROPERTIES)[2]
    is_key = _KEY.fullmatch(key) is not None and (name in KNOWN or not name.startswith(_HOLDERS))
    return key if is_key and not always_text(parent) else HIDDEN


def secrets_in(option: str, value: str) -> Iterator[str]:
    """Yield the parts of an option's value that must be masked in all other texts."""
    yield from filter(None, _CREDENTIALS.findall(value))
    if not is_secret(option) or _SETTINGS.fullmatch(value.strip()):
        return
    parts = [value, value.strip()]
    if option.endswith("user-info"):
        parts.append(value.partition(":")[2])
    if "jaas" in option.lower() or "LoginModule" in value:
        parts += [next(filter(None, groups)) for groups in _JAAS_SECRET.findall(value)]
    yield from (part for part in parts if part and not PLACEHOLDERS.fullmatch(part))


# -- any text: known secrets are masked ----------------------------------------------------------------------------

_NAME_CHARACTERS: Final = frozenset(f"{string.ascii_letters}{string.digits}._-")


def mask(text: str, secrets: Iterable[str], is_own: Callable[[str, int, int], bool] | None = None) -> str:
    """Return the text with asterisks in place of secrets.

    Quoted secrets and single lines of a secret are masked, too. `is_own`: whether what stands at a place of a text is
    our own word, and not the secret; by default only a part of the name of a client property is.
    """
    if not any(form in text for form in forms(frozenset(secrets))):
        return text
    visible = [True] * len(text)
    _hide(text, visible, secrets, is_own or _in_a_name)
    return _with_asterisks(text, visible)[0]


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


@lru_cache(maxsize=20)
def forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """Return all spellings of secrets in a text, longest first.

    The spellings are the whole secret and each of its lines, as they are, and as `repr` and JSON write them.
    """
    spellings: set[str] = set()
    for secret in secrets:
        for part in (secret, *(line.strip() for line in secret.splitlines()[:_MAX_LINES])):
            spellings.update((part, *_escaped(part)))
    return tuple(sorted((form for form in spellings if len(form) >= MIN_MASKED), key=len, reverse=True))


def _escaped(text: str) -> Iterator[str]:
    """Yield the text as `repr` and JSON write it, without the quotes around it."""
    yield repr(text)[1:-1]
    yield repr(f"\"'{text}")[4:-1]  # the spelling of a longer text that has both kinds of quotes
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def _hide(text: str, visible: list[bool], secrets: Iterable[str], is_own: Callable[[str, int, int], bool]) -> None:
    """Make `visible` false for each character of a text that is part of a secret. `is_own`: see `mask`."""
    for form in forms(frozenset(secrets)):
        at = text.find(form)
        while at >= 0:
            end = at + len(form)
            if not is_own(text, at, end):
                visible[at:end] = [False] * len(form)
            at = text.find(form, at + 1)


def _with_asterisks(text: str, visible: list[bool]) -> tuple[str, list[int]]:
    """Return the text with asterisks for hidden parts, and the new position of each character and of the end."""
    out: list[str] = []
    places: list[int] = []
    length = 0
    for i, c in enumerate(text):
        if visible[i]:
            places.append(length)
            out.append(c)
            length += 1
            continue
        if i == 0 or visible[i - 1]:
            out.append(HIDDEN)
            length += len(HIDDEN)
        places.append(length - len(HIDDEN))
    return "".join(out), [*places, length]


def _in_a_name(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text belongs to the name of a client property that is longer."""
    first, last = start, end
    while first and text[first - 1] in _NAME_CHARACTERS:
        first -= 1
    while last < len(text) and text[last] in _NAME_CHARACTERS:
        last += 1
    return last - first > end - start and text[first:last].strip(".").removeprefix(PROPERTIES) in KNOWN


# -- messages of `check`: nothing of a value that must not be shown, and all of our own words ------------------------

_QUOTATION: Final = re.compile(r"(?<!\w)b?(?:'((?:[^'\\]|\\.)*)(?:'|\\?$)|\"((?:[^\"\\]|\\.)*)(?:\"|\\?$))", re.DOTALL)
"""Quotations in a message, as `repr` writes them, also without their end."""
_WORD: Final = re.compile(r"[A-Za-z]+")
_LETTERS: Final = str.maketrans("", "", string.ascii_letters)
_LITERAL: Final = re.compile(r'"[^"\n]*"')


def redact(message: str, values: Iterable[str], shown: Iterable[str] = ()) -> str:
    """Return a message without its quotations, words or parts of the given values.

    Quotations of the texts in `shown` stay. Quotations of option names stay, too, unless the name is part of a value.
    """
    hidden = [value for value in values if value.strip()]
    if not hidden:
        return message
    spellings = {form for value in hidden for form in (value, *_escaped(value))}
    quotable = [form for value in shown for form in (value, *_escaped(value))]
    words = {word for value in hidden for word in re.findall(r"\w{3,}", value)} - vocabulary()

    def plain(text: str) -> str:
        text = mask(text, hidden, is_own_word)
        text = re.sub(r"\w{3,}", lambda word: HIDDEN if word[0] in words else word[0], text)
        return _without_fragments(text, spellings)

    def quoted(match: re.Match[str]) -> str:
        inner = (match[1] or match[2] or "").removesuffix("…")
        stays = any(inner in form for form in quotable)
        if not stays and inner in option_names():
            stays = not any(inner in form for form in spellings)
        return match[0] if stays else f"'{HIDDEN}'"

    out, at = [], 0
    for match in _QUOTATION.finditer(message):
        out += [plain(message[at : match.start()]), quoted(match)]
        at = match.end()
    return "".join([*out, plain(message[at:])])


def _without_fragments(text: str, values: Collection[str]) -> str:
    visible = [True] * len(text)
    for i in range(len(text) - _FRAGMENT + 1):
        piece = text[i : i + _FRAGMENT]
        if "*" not in piece and any(piece in value for value in values) and not is_own_word(text, i, i + _FRAGMENT):
            visible[i : i + _FRAGMENT] = [False] * _FRAGMENT
    return _with_asterisks(text, visible)[0]


@cache
def option_names() -> frozenset[str]:
    """Return the names of all options, which messages may propose. It loads all components: only mistakes need it."""
    formats, others = FORMATS.values(), [*SOURCES.values(), *SINKS.values(), *_subclasses(Options)]
    return frozenset(
        {
            *KNOWN,
            *(PROPERTIES + name for name in KNOWN),
            CONNECTOR,
            *(name for cls in others for name in _names(cls)),
            *(prefix + name for cls in formats for name in _names(cls) for prefix in ("", "key.", "value.")),
        }
        - {"*format", "properties.*", "variables"}
    )


def _subclasses(cls: type[Options]) -> Iterator[type[Options]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _names(cls: type[Options]) -> Iterator[str]:
    yield from (field.alias for field in cls.model_fields.values() if field.alias is not None)
    yield from cls.synonyms


def is_option(key: str) -> bool:
    """Tell whether a pipeline file has an option with this key."""
    return key.removeprefix(_COLLECTOR) in option_names()


@cache
def listed_words() -> frozenset[str]:
    """Return all names that messages list: options, sections and components.

    Masking does not replace them, because asterisks in a list of known names would tell which name is a password.
    """
    return option_names().union(SECTIONS, FORMATS, SINKS, SOURCES)


@cache
def vocabulary() -> frozenset[str]:
    """Return the words of our own messages: those of option names, and of all texts in the code of this package.

    Where a secret is such a word, or a part of one, asterisks in its place would tell that.
    """
    words = {word for name in listed_words() for word in _WORD.findall(name)}
    for path in Path(ingest.__file__).parent.rglob("*.py"):
        for literal in _LITERAL.findall(path.read_text(encoding="utf-8")):
            words.update(_WORD.findall(literal))
    return frozenset(words)


def is_own_word(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text belongs to a word of our own messages, or to two of them."""
    first, last = start, end
    while first and text[first].isalpha() and text[first - 1].isalpha():
        first -= 1
    while last < len(text) and text[last - 1].isalpha() and text[last].isalpha():
        last += 1
    words = _WORD.findall(text[first:last])
    others = text[first:last].translate(_LETTERS).strip(" .,;:'-_")
    return 0 < len(words) <= _MOST_WORDS and not others.strip() and vocabulary().issuperset(words)


# -- lines of a file -----------------------------------------------------------------------------------------------

_STRUCTURE: Final = frozenset(" \t-:[]{},?|>\"'")
_Parts: TypeAlias = "Iterable[tuple[int, int]]"


def redact_line(line: str, shown: _Parts, hidden: _Parts, secrets: Iterable[str]) -> tuple[str, list[int]]:
    """Return a line of a file as messages show it, and the new position of each character and of the end.

    `shown` and `hidden` are the places of its keys and values. A character in both (an alias) is hidden. Between them
    only the marks of YAML's structure are shown. Secrets are hidden wherever they are.
    """
    marks: list[bool | None] = [None] * len(line)
    for value, places in ((True, shown), (False, hidden)):
        for start, end in places:
            for i in range(max(0, start), min(end, len(line))):
                marks[i] = value
    comment = False
    for i, c in enumerate(line):
        if marks[i] is None:
            comment = comment or c == "#"
            marks[i] = not comment and c in _STRUCTURE
    visible = [bool(mark) for mark in marks]
    _hide(line, visible, secrets, is_own_word)
    return _with_asterisks(line, visible)


def redact_unparsed(line: str, text: str) -> tuple[str, list[int]]:
    """Return a line of a text that is no YAML as messages show it, with positions as `redact_line` does.

    Where the text names an option that may hold a secret, only the indentation and a known key at the start are shown.
    """
    if not _CREDENTIALS.search(text) and not any(map(may_be_secret, re.findall(r"[\w.-]+", text))):
        return _with_asterisks(line, [True] * len(line))
    key, colon, rest = line.partition(":")
    end = len(line) - len(line.lstrip(" \t-"))
    if colon and rest[:1] in {"", " ", "\t"} and key[end:].strip() in option_names().union(SECTIONS):
        end = len(key) + 2
    return _with_asterisks(line, [i < end for i in range(len(line))])
