# cython: language_level=3
"""The native encoder of one table's rows: checks and writes them; see row_encoder.pxd.

Encoding begins here: whatever has decoded a change, it is encoded by `encode_change` or `feed_change`.
"""

from ingest.native.codes cimport TARGET_OLD_KEY, TARGET_USES
from ingest.native.images cimport read_images
from ingest.native.inline_schema cimport RowCodec
from ingest.native.messages cimport Change
from ingest.native.records cimport EncodedBatch
from ingest.native.results cimport ResultRows
from ingest.native.rows cimport MAX_KEY, has_plain_key, is_key, write_row, written_size
from ingest.native.scan cimport Text
from ingest.native.template cimport RecordAssembler
from ingest.native.transform_input cimport TransformInput
from ingest.native.transform_rows cimport TransformRows
from ingest.native.upserts cimport Upsert, add_upsert, check_change
from ingest.native.workspace cimport Workspace, room_for


cdef class RowEncoder(Table):
    """Checks and writes rows as a `RowEncoderSpec` says. `reference`: the encoder that keeps the counters."""

    def __cinit__(self, spec, reference, destination):
        cdef int use
        if spec.template is not None:
            self.template = RecordAssembler(self, spec.template)
        if spec.transform is not None:
            self.transform = TransformInput(self, spec.transform)
        if spec.results is not None:
            self.results = ResultRows(spec.results)
        if spec.targets is not None:
            if len(spec.targets) != <int> TARGET_USES:
                raise ValueError("not one target for each use")
            for use in range(<int> TARGET_USES):
                if spec.targets[use] < 0:
                    raise ValueError("no such target")
                self.targets[use] = spec.targets[use]
            self.has_targets = True


cdef bint is_for(Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change) except -1:
    """Return whether a change can be encoded as far as its key's columns and its values' forms go.

    `codec`: what its message says of the types of values that are as they came, or None.
    """
    if encoder.key_from_message and change.named and not is_key(encoder, change.names, change.named):
        return False
    if change.sparse and ws.after.count < encoder.own:
        return False  # the reference says what it lacks
    if (codec is not None or encoder.declares or encoder.transform is not None) and not read_images(
        ws, encoder, codec, change, encoder.transform is not None
    ):
        return False
    return not change.numbers or (has_plain_key(encoder, &ws.before) and has_plain_key(encoder, &ws.after))


cdef int encode_change(
    Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change, EncodedBatch batch
) except -1:
    """Add the records of a change, all or none: returns 1, or 0 for a fallback. `codec`: see `is_for`."""
    if encoder.transform is not None or not is_for(ws, encoder, codec, change):
        return 0
    if encoder.template is not None:
        return encoder.template.add(ws, encoder, change, batch)
    return add_upsert(ws, encoder, change, batch)


cdef int feed_change(
    Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change, TransformRows rows
) except -1:
    """Add the rows of a change for expressions, all or none: returns 1, or 0 for a fallback. `codec`: see `is_for`."""
    if encoder.transform is None and not encoder.has_targets:
        return 0
    if not is_for(ws, encoder, codec, change):
        return 0
    if encoder.transform is not None:
        return encoder.transform.add(ws, encoder, change, rows)
    if encoder.template is not None:
        return encoder.template.add_ready(ws, encoder, change, encoder.targets, rows)
    return add_ready(ws, encoder, change, rows)


cdef int add_ready(Workspace *ws, RowEncoder encoder, const Change *change, TransformRows rows) except -1:
    """Add the records of a change whose table's rows go to no expression: returns 1, or 0 for a fallback."""
    cdef char keys[2 * MAX_KEY]
    cdef Upsert made
    cdef Text value
    cdef size_t size
    cdef char *to
    if not check_change(ws, encoder, change, keys, &made):
        return 0
    if made.moved:
        rows.add_ready(encoder.targets[<int> TARGET_OLD_KEY], made.old_key.text, made.old_key.size, NULL, 0)
    value.text, value.size = NULL, 0
    if made.row != NULL:
        value.text, value.size = made.row.text, <size_t> made.row.size
        size = written_size(encoder, made.row, made.rewritten)
        if size:
            to = room_for(&ws.row, size)
            value.text, value.size = to, write_row(encoder, made.row, made.typing, ws.modes, made.rewritten, to)
    rows.add_ready(encoder.targets[made.use], made.key.text, made.key.size, value.text, value.size)
    return 1
