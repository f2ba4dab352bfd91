"""Values of each type as the encoder writes them for a lake, and names that nobody expects."""

from __future__ import annotations

VALUES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768", "32767"],
    "INT": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "DECIMAL(5,2)": ["-999.99", "0.01"],
    "DECIMAL(38,18)": ["12345678901234567890.123456789012345678", "0.000000000000000001"],
    "FLOAT": ["1.5", "3.4e38"],
    "DOUBLE": ["0.1", "1.7976931348623157e308", "5e-324"],
    "STRING": ['""', '"a\\\\b\\n\\t\\"\\u00e9\\ud83d\\ude00"', '"null"', '"a\\u0000b"'],
    "CHAR(3)": ['"abc"'],
    "VARCHAR(9)": ['"abc"'],
    "BYTES": ['"AP8="', '""'],
    "DATE": ['"2020-01-31"', '"0001-01-01"'],
    "TIME(3)": ['"12:13:14.5"'],
    "TIME(6)": ['"23:59:59.999999"'],
    "TIMESTAMP": ['"2020-01-31 12:13:14.500001"', '"0001-01-01 00:00:00"'],
    "TIMESTAMP_LTZ": ['"2020-01-31 12:13:14.500001Z"'],
    "ARRAY<INT>": ['"[1,null]"'],
    "MAP<STRING, INT>": ['"{\\"a\\":1}"'],
    "ROW<a INT, b STRING>": ['"{\\"a\\":1}"'],
}
HOSTILE = [
    '"', "'", '"; DROP TABLE x; --', "%s", "%(id)s", "{}", "{0}", "a b", "\\", "é", "表", "😀", "select", "ID", "1",
    ".", "a.b", "$1", ":x", "x" * 255, "é" * 127, "--", "/*", ";", "..", "../../up", "a/b", "/abs", "a:b", "*", "?",
    "[x]", "_pos", "_file", "a=b", "a,b", "#", " x ", "file_path", "pos", "id2",
]  # fmt: skip
