"""Everything that a format, a sink or a source of another package imports; nothing else of `ingest` is public.

docs/extending.md has a whole package that is made of these names. They may change until version 1.0, and the change log
tells each change.
"""

from __future__ import annotations

from ingest.component.options import Duration, Options
from ingest.encode.change_encoder import ChangeEncoder, RecordTemplate
from ingest.encode.upsert_encoder import Destination, Record, TableEncoder
from ingest.errors import ConfigError, DataLoss, IngestError, Unavailable
from ingest.formats.format import Decoder, FormatCapabilities, FormatOptions
from ingest.formats.template import ColumnRef, ImageRef, ValueTemplate, json_key
from ingest.formats.typed import TypedColumn
from ingest.model import types
from ingest.model.change import TOMBSTONE, Change, Decoded, InlineSchema, Kind, Reject, Skip
from ingest.model.commit import CommitScope, RefusedRow, ResumePoint, RowsRefused
from ingest.model.record import Chunk, Headers
from ingest.model.record import Record as SourceRecord
from ingest.model.reject import RowError
from ingest.model.schema import AddColumn, AlterColumnType, Column, CreateTable, SchemaChange, TableSchema
from ingest.model.table import TableId, show
from ingest.schema.infer import Inference
from ingest.schema.type_hints import TypeHints
from ingest.sinks import (
    Announcer,
    BatchCommitter,
    PlaceKeeper,
    RowRemover,
    SchemaKeeper,
    Sink,
    SinkCoordinator,
    TableCommenter,
    TableKeeper,
    TransactionOwner,
    Writer,
)
from ingest.sinks.sink import PlainWriter, SinkCapabilities, SinkOptions
from ingest.sources import OffsetPublisher, Reader, Source, SourceCoordinator
from ingest.sources.records import RecordOptions, SourceCapabilities

__all__ = [
    "TOMBSTONE",
    "AddColumn",
    "AlterColumnType",
    "Announcer",
    "BatchCommitter",
    "Change",
    "ChangeEncoder",
    "Chunk",
    "Column",
    "ColumnRef",
    "CommitScope",
    "ConfigError",
    "CreateTable",
    "DataLoss",
    "Decoded",
    "Decoder",
    "Destination",
    "Duration",
    "FormatCapabilities",
    "FormatOptions",
    "Headers",
    "ImageRef",
    "Inference",
    "IngestError",
    "InlineSchema",
    "Kind",
    "OffsetPublisher",
    "Options",
    "PlaceKeeper",
    "PlainWriter",
    "Reader",
    "Record",
    "RecordOptions",
    "RecordTemplate",
    "RefusedRow",
    "Reject",
    "ResumePoint",
    "RowError",
    "RowRemover",
    "RowsRefused",
    "SchemaChange",
    "SchemaKeeper",
    "Sink",
    "SinkCapabilities",
    "SinkCoordinator",
    "SinkOptions",
    "Skip",
    "Source",
    "SourceCapabilities",
    "SourceCoordinator",
    "SourceRecord",
    "TableCommenter",
    "TableEncoder",
    "TableId",
    "TableKeeper",
    "TableSchema",
    "TransactionOwner",
    "TypeHints",
    "TypedColumn",
    "Unavailable",
    "ValueTemplate",
    "Writer",
    "json_key",
    "show",
    "types",
]
