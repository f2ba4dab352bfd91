"""`make docs`: schemas/pipeline.schema.json and schemas/options.md, from the options models.

With --check: exit code 1 where one of them is not what the models say, or an option says nothing about itself. That
each option is set by a test is a test itself (tests: `test_option_map`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ["INGEST_DOCS"] = "1"  # before the models are made

from ingest.config.pipeline import PipelineOptions, Route, Transform, UserFunction
from ingest.deadletter.collector import DirtyDataCollector
from ingest.formats import FORMATS, options_of_keys
from ingest.model import types
from ingest.sinks import SINKS
from ingest.sources import SOURCES

if TYPE_CHECKING:
    from ingest.component.options import Options, Synonym

FOLDER = Path(__file__).parent.parent / "schemas"
HIDDEN = "*format"
COLLECTOR = "dirty-data.collector"
"""An option with options of its own, written with dots or nested."""
FUNCTIONS = "user-defined-function"
"""A list of maps."""
PLACEHOLDER = {"type": "string", "pattern": r"\$\{.*\}"}


def component(cls: type[Options], formats: dict[str, Any]) -> dict[str, Any]:
    """A model's JSON Schema, as an editor wants it: options of the formats in, placeholders allowed everywhere."""
    schema = cls.model_json_schema(by_alias=True)
    schema.pop("title", None)
    schema.pop("description", None)
    properties: dict[str, Any] = {}
    required = [name for name in schema.get("required", []) if not name.endswith("properties.*")]
    for model in (cls, *formats.values()):
        for name, option in model.model_json_schema(by_alias=True)["properties"].items():
            if name in {HIDDEN, COLLECTOR, FUNCTIONS}:
                continue
            option.pop("title", None)
            if name.endswith("properties.*"):
                continue
            properties[name] = option if name == "type" else loosened(option)
        for name, synonym in model.synonyms.items():
            properties[name] = {**properties[synonym.option], "description": synonym_text(synonym)}
    out: dict[str, Any] = {
        "type": "object", "properties": properties, "required": required, "additionalProperties": False,
    }  # fmt: skip
    any_value = {"type": ["string", "number", "boolean"]}
    own = [name for name in schema["properties"] if name.endswith("properties.*")]
    if own:
        out["patternProperties"] = {f"^{re.escape(name.removesuffix('*'))}": any_value for name in own}
    if "properties.*" in own:
        out["required"] = [*required, "properties.bootstrap.servers"]
    for name, model in formats.items():
        keyed = options_of_keys(model, written=False) is not None
        patterns = [rf"^value\.{name}\.", *([rf"^key\.{name}\."] if keyed else [])]
        if f"{name}.properties.*" in model.model_json_schema(by_alias=True)["properties"]:
            patterns.append(rf"^{name}\.properties\.")
        out.setdefault("patternProperties", {}).update(dict.fromkeys(patterns, any_value))
    return out


def synonym_text(synonym: Synonym) -> str:
    """What is said about another key of an option."""
    counts = "The option's own key counts where a file has both."
    return f"An old name of `{synonym.option}`." if synonym.deprecated else f"The same as `{synonym.option}`. {counts}"


def loosened(option: dict[str, Any]) -> dict[str, Any]:
    """Every option may be a placeholder; a text option may be written as a number."""
    rest = {k: v for k, v in option.items() if k not in {"description", "default"}}
    kept: dict[str, Any] = {k: option[k] for k in ("description", "default") if k in option}
    if rest.get("type") == "object":
        return option
    return {**kept, "anyOf": [rest, PLACEHOLDER]}


def nested(schema: dict[str, Any]) -> dict[str, Any]:
    """`pipeline:` also takes its dotted keys nested."""
    for name, option in component(DirtyDataCollector, {})["properties"].items():
        schema["properties"][f"{COLLECTOR}.{name}"] = option if name != "type" else loosened(option)
    schema["patternProperties"] = {rf"^{COLLECTOR}\.properties\.": {"type": ["string", "number", "boolean"]}}
    schema["properties"][COLLECTOR] = {"type": "object"}
    schema["properties"][FUNCTIONS] = {"type": "array", "items": component(UserFunction, {})}
    for name in list(schema["properties"]):
        if "." in name:
            schema["properties"].setdefault(name.partition(".")[0], {"type": "object"})
    return schema


def pipeline_schema() -> dict[str, Any]:
    """The whole file's JSON Schema."""
    sources = [component(cls, dict(FORMATS)) for cls in SOURCES.values()]
    written = {name: model for name, model in FORMATS.items() if model.capabilities.takes_sink_options}
    sinks = [component(cls, {} if cls.formats is None else written) for cls in SINKS.values()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pipeline of ingest",
        "type": "object",
        "properties": {
            "source": {"anyOf": sources},
            "sink": {"anyOf": sinks},
            "route": {"type": "array", "items": component(Route, {})},
            "transform": {"type": "array", "items": component(Transform, {})},
            "pipeline": nested(component(PipelineOptions, {})),
        },
        "required": ["source", "sink"],
        "additionalProperties": False,
    }


def reference() -> str:
    """The option reference."""
    parts = ["# Options\n\n<!-- Generated from the models by `make docs`; do not edit. -->\n"]
    for kind, registry in (("source", SOURCES), ("sink", SINKS)):
        for name, cls in registry.items():
            if cls in [other for at, other in registry.items() if at < name]:
                continue  # another name of the same
            parts.append(f"## `{kind}:` with `type: {name}`\n\n{table(cls)}")
    for name, fmt in FORMATS.items():
        parts.append(f"### Options of `value.format: {name}`\n\n{table(fmt)}")
    sections: dict[str, type[Options]] = {
        "route": Route, "transform": Transform, "pipeline": PipelineOptions,
        f"pipeline.{COLLECTOR}": DirtyDataCollector, f"pipeline.{FUNCTIONS}": UserFunction,
    }  # fmt: skip
    for name, model in sections.items():
        parts.append(f"## `{name}:`\n\n{table(model)}")
    return "\n".join(parts)


def undocumented() -> list[str]:
    """Options of any section that say nothing about themselves."""
    models: list[type[Options]] = [
        *SOURCES.values(), *SINKS.values(), *FORMATS.values(), DirtyDataCollector, PipelineOptions, Route, Transform,
        UserFunction,
    ]  # fmt: skip
    return [f.alias or name for model in models for name, f in model.model_fields.items() if not f.description]


GROUPS = {
    "Connection": r"type|name|path|warehouse|topic|topic-pattern|properties.*|endpoint|dbname|username|password|ssl.*"
    r"|(catalog|storage)\.properties.*|.*\.(url|bearer-auth.*|basic-auth.*|ssl\..*)|[\w-]+\.properties\.\*",
    "Start, end and pace": r"scan\.(startup|bounded|topic-partition|rate-limit|header-filter|check).*|parallelism"
    r"|batch-interval|sink\.(parallelism|commit-interval|buffer-flush.*)",
    "Errors": r"ingestion\..*|.*ignore-parse-errors|scan\.on-data-loss|.*(unavailable-value|unknown-fields)",
    "Schema": r"scan\.(value\.initial-schemas|max\.pre\.fetch).*|.*schema\.(change|inference).*|.*infer-schema.*|max-.*"
    r"|sink\.type-normalize.*",
    "Rows": r"format|(key|value)\..*|metadata\.list|file\.envelope|debezium-json\.include.*|local-time-zone"
    r"|user-defined.*",
    "Names of cloud services": r"(dew|aliyun)\..*",
    "Writing": r"sink\..*|partition\.strategy|table_property.*",
    "Metrics and health": r"metrics\..*|liveness\..*",
    "Others": r".*",
}
"""Groups of options, by their names, in the order in which each name is looked for."""
ORDER = (
    "Connection", "Start, end and pace", "Rows", "Schema", "Writing", "Errors", "Metrics and health", "Others",
    "Names of cloud services",
)  # fmt: skip
LONG = 12
"""A model with more options than this is shown in groups."""


def group(name: str) -> str:
    """Return the group of an option."""
    return next(title for title, names in GROUPS.items() if re.fullmatch(names, name))


def table(cls: type[Options]) -> str:
    """A model's options, a line each; in groups where there are many."""
    schema = cls.model_json_schema(by_alias=True)["properties"]
    lines = {}
    for attribute, field in cls.model_fields.items():
        name = field.alias or attribute
        if name in {HIDDEN, COLLECTOR}:
            continue
        default = "required" if field.is_required() else shown(schema[name])
        values = schema[name].get("enum")
        text = " ".join((field.description or "").split())
        if values:
            text += f" Possible: {', '.join(f'`{v}`' for v in values)}."
        lines[name] = f"| `{name}` | {default} | {text.replace('|', '&#124;')} |"
    lines |= {name: f"| `{name}` |  | {synonym_text(synonym)} |" for name, synonym in cls.synonyms.items()}
    head = "| option | default | what it does |\n|---|---|---|\n"
    if len(lines) <= LONG:
        return head + "\n".join(lines.values()) + "\n"
    parts = []
    for title in ORDER:
        rows = [line for name, line in lines.items() if group(name) == title]
        if rows:
            parts.append(f"**{title}**\n\n{head}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def shown(option: dict[str, Any]) -> str:
    """A default, as it would be written in the file."""
    default = option.get("default")
    if isinstance(default, float):
        return f"`{default:g} s`"
    if default in (None, "", {}):
        return ""
    return f"`{json.dumps(default) if isinstance(default, bool) else default}`"


MERGED = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "CHAR(3)", "VARCHAR(5)",
    "STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP", "TIMESTAMP_LTZ", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>",
)  # fmt: skip


def types_table() -> str:
    """What becomes of a column that has had values of two types, for every pair."""
    parsed = {name: types.parse(name) for name in MERGED}
    lines = [
        "# Types that meet in one column\n",
        "<!-- Generated by `make docs`; do not edit. -->\n",
        "A column with values of one type that gets one of another becomes:\n",
        f"| | {' | '.join(f'`{name}`' for name in MERGED)} |",
        "|---" * (len(MERGED) + 1) + "|",
    ]
    for name, first in parsed.items():
        merged = (types.name(types.merge(first, second)) for second in parsed.values())
        lines.append(f"| **`{name}`** | {' | '.join(merged)} |")
    lines += [
        "",
        "A value that fits its column's type exactly changes nothing: `5` fits an INT, `3000000000` does not and makes",
        "it BIGINT. Two DECIMALs give the larger integer part and the larger scale; past 38 digits together STRING. A",
        "column that was only null so far takes the type of its first value. How a value reads in a STRING column: ",
        "[docs/schemas.md](../docs/schemas.md).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write, or check."""
    made = {
        FOLDER / "types.md": types_table(),
        FOLDER / "pipeline.schema.json": json.dumps(pipeline_schema(), indent=2) + "\n",
        FOLDER / "options.md": reference(),
    }
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(FOLDER.parent)} is not what the models say: run make docs")
        for name in undocumented():
            print(f"option {name} has no docstring")
        sys.exit(bool(stale or undocumented()))
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
