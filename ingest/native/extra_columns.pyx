# cython: language_level=3, boundscheck=False, wraparound=False
"""Columns that rows have beside those of their message's value; see extra_columns.pxd.

The images of a message are written anew in the workspace with these columns: those of the key, then the value's, then
those about the record. All that comes after works as if they had come so. What the reference would reject, and what is
rare, is a fallback.
"""

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from ingest.native.change cimport MAX_KEYS, Change, Typing, Workspace, room_for, text_of_bytes
from ingest.native.codes cimport FORM_CANAL, FORM_DEBEZIUM
from ingest.native.images cimport room_to_read
from ingest.native.message_schemas cimport AvroTexts, RowCodec
from ingest.native.metadata cimport MetadataWriter, RecordColumns, add_columns
from ingest.native.records cimport RawRecord
from ingest.native.scan cimport MAX_FIELDS, Field, Row, Text, is_named, key_text, skip_space
from ingest.native.table cimport is_compact, scan_message_key


cdef enum:
    MAX_TAKEN = 1 << 30       # most bytes of a key or a value


# -- Keys --------------------------------------------------------------------------------------------------------------


cdef bint read_key(Text text, Row *row) noexcept nogil:
    """Scan a message's key, which is a plain object in its schema envelope or without; False for a fallback."""
    cdef int i, j
    if not scan_message_key(text, row) or row.count > MAX_KEYS:
        return False
    for i in range(row.count):
        # It may be an envelope with more in it, or a part of one
        if is_named(&row.fields[i], b"schema", 6) or is_named(&row.fields[i], b"payload", 7):
            return False
        for j in range(i):
            if is_named(&row.fields[i], row.fields[j].name, row.fields[j].name_size):
                return False
    return True


cdef bint is_same_value(const Field *field, const Field *other) noexcept nogil:
    """Return whether two values surely are the same in a key."""
    cdef Text text, other_text
    if field.size == other.size and not memcmp(field.text, other.text, field.size):
        return True
    if not key_text(field, &text) or not key_text(other, &other_text):
        return False
    return text.size == other_text.size and not memcmp(text.text, other_text.text, text.size)


cdef bint match_key(const Row *key, const Row *row, bint is_old, int *places) noexcept nogil:
    """Put in the places that the key's fields have in a row, or -1; False where both do not surely agree.

    `is_old`: the row may have another key.
    """
    cdef int i, k
    for k in range(key.count):
        places[k] = -1
        for i in range(row.count):
            if not is_named(&row.fields[i], key.fields[k].name, key.fields[k].name_size):
                continue
            if places[k] >= 0 or not (is_old or is_same_value(&key.fields[k], &row.fields[i])):
                return False
            places[k] = i
    return True


# -- Names -------------------------------------------------------------------------------------------------------------


cdef char *put(char *to, const char *text, size_t size) noexcept nogil:
    memcpy(to, text, size)
    return to + size


cdef char *prefix_names(char *to, const Text *prefix, Row *row) noexcept nogil:
    """Let a row's fields have names with a prefix, which are written here; return where they end."""
    cdef Field *field
    cdef int i
    if not prefix.size:
        return to
    for i in range(row.count):
        field = &row.fields[i]
        to = put(put(to, prefix.text, prefix.size), field.name, field.name_size)
        field.name_size += <uint32_t> prefix.size
        field.name = to - field.name_size
    return to


# -- Images ------------------------------------------------------------------------------------------------------------


cdef char *put_field(char *to, Row *made, const Field *field) noexcept nogil:
    """Write a field behind others, and add it to the row that is made; return where it ends."""
    cdef Field *out = &made.fields[made.count]
    to[0] = b',' if made.count else b'{'
    to[1] = b'"'
    out[0] = field[0]
    out.name = to + 2
    to = put(to + 2, field.name, field.name_size)
    to[0], to[1] = b'"', b':'
    out.text = to + 2
    made.count += 1
    return put(to + 2, field.text, field.size)


cdef char *put_as_it_is(char *to, Row *made, const Row *row) noexcept nogil:
    """Write a row without its last brace, with the white space that it has; return where that ends."""
    cdef int i
    for i in range(row.count):
        made.fields[i] = row.fields[i]
        made.fields[i].name = to + (row.fields[i].name - row.text)
        made.fields[i].text = to + (row.fields[i].text - row.text)
    made.count = row.count
    return put(to, row.text, <size_t> row.size - 1)


cdef bint is_among(int i, const int *places, int count) noexcept nogil:
    cdef int k
    for k in range(count):
        if places[k] == i:
            return True
    return False


cdef char *put_fields(
    char *to, Row *made, const Row *row, const Typing *typing, int32_t *types, const Row *key, const int *places,
    bint except_key,
) noexcept nogil:
    """Write the fields of a key and of a row, without the last brace; return where they end.

    What both have stands where the key has it, with the row's value, or with `except_key` the key's. `types`: the
    numbers of the values' types.
    """
    cdef const Field *field
    cdef int i, k, keys = key.count if key != NULL else 0
    for k in range(keys):
        i = places[k]
        field = &key.fields[k]
        types[made.count] = 0
        if i >= 0 and not except_key:
            field = &row.fields[i]
            types[made.count] = typing.types[i]
        to = put_field(to, made, field)
    for i in range(row.count):
        if not is_among(i, places, keys):
            types[made.count] = typing.types[i]
            to = put_field(to, made, &row.fields[i])
    if not made.count:
        to[0] = b'{'
        to += 1
    return to


cdef void take_row(Row *row, Typing *typing, const Row *made, const int32_t *types) noexcept nogil:
    """Let a row be one that was made, with values of these types."""
    cdef int i
    row.text, row.end, row.size, row.count, row.alike = made.text, made.end, made.size, made.count, 0
    memcpy(row.fields, made.fields, <size_t> made.count * sizeof(Field))
    memcpy(typing.types, types, <size_t> made.count * sizeof(int32_t))
    for i in range(made.count):
        typing.came[i].text = NULL


cdef bint read_types(Workspace *ws, RowCodec codec, Row *old, Row *row) except -1:
    """Put values in the form of the types that their message declares; False for a fallback.

    What is known of the rows is in the workspace then.
    """
    cdef char *to
    cdef int i
    if codec is not None:
        to = room_for(&ws.made, (room_to_read(old) if old != NULL else 0) + (room_to_read(row) if row != NULL else 0))
        if old != NULL and not codec.read_row(old, &ws.before_typing, &to):
            return False
        return row == NULL or codec.read_row(row, &ws.typing, &to)
    if old != NULL:
        for i in range(old.count):
            ws.before_typing.types[i], ws.before_typing.came[i].text = 0, NULL
    if row != NULL:
        for i in range(row.count):
            ws.typing.types[i], ws.typing.came[i].text = 0, NULL
    return True


# -- Messages ----------------------------------------------------------------------------------------------------------


cdef bint has_images(Workspace *ws, const Change *change, Row **old, Row **row) noexcept nogil:
    """Put in the images that count for a change, or NULL; False for a fallback. A delete's may be of size 0."""
    old[0] = row[0] = NULL
    if change.op == b'u':
        if ws.before.size:
            old[0] = &ws.before
        row[0] = &ws.after
    elif change.op == b'd':
        if change.form == FORM_CANAL:
            row[0] = &ws.after
        else:
            old[0] = &ws.before
    elif change.op == b'c' or change.op == b'r':
        ws.before.size = 0
        row[0] = &ws.after
    else:
        return False
    return row[0] == NULL or row[0].size != 0


cdef bint lacks_image(Workspace *ws, RowCodec codec, const RawRecord *record, Change *change) noexcept nogil:
    """Let a delete without an image have an empty one, which the key's columns fill; False for a fallback."""
    if not ws.message_key.count:
        return False
    # Debezium's types are those of the envelope then, its own or the key's
    if change.form == FORM_DEBEZIUM:
        if codec is not None or ws.message_key.text != skip_space(record.key, record.key + record.key_size):
            return False
    ws.before.text, ws.before.size, ws.before.count = b"{}", 2, 0
    return True


cdef bint has_places(const Row *key, const int *places) noexcept nogil:
    """Return whether a row has all fields of a key."""
    cdef int k
    for k in range(key.count):
        if places[k] < 0:
            return False
    return True


cdef class RowExtender:
    """Adds columns of the key and of the record to rows, and prefixes to names, as an `ExtraColumnsSpec` says."""

    def __cinit__(self, spec):
        self.kept = [spec.key_prefix, spec.value_prefix]
        text_of_bytes(spec.key_prefix, &self.key_prefix)
        text_of_bytes(spec.value_prefix, &self.value_prefix)
        self.key, self.key_is_primary, self.except_key = spec.key, spec.key_is_primary, spec.except_key
        if len(spec.key_fields) > MAX_KEYS:
            raise ValueError("too many fields of a key")
        for name in spec.key_fields:
            text_of_bytes(name, &self.key_fields[self.key_field_count])
            self.kept.append(name)
            self.key_field_count += 1
        self.keys = None if spec.key_avro is None else AvroTexts(spec.key_avro)
        self.metadata = MetadataWriter(spec.metadata, spec.separator)

    cdef bint extend(self, Workspace *ws, RowCodec codec, const RawRecord *record, Change *change) except -1:
        """Write the images of a message anew, with all their columns; False for a fallback.

        `codec`: the types that the message declares for its value, or None. Its values are in their form then, and what
        is known of them is in the workspace.
        """
        cdef Row *old
        cdef Row *row
        cdef RecordColumns about
        cdef const Row *key = &ws.message_key if self.key else NULL
        cdef char *to
        if record.key_size > MAX_TAKEN or record.value_size > MAX_TAKEN or not has_images(ws, change, &old, &row):
            return False
        if not self.read_columns(ws, record, change):
            return False
        if old != NULL and not old.size and not (self.key and lacks_image(ws, codec, record, change)):
            return False
        # Canal's row before an update has what changed, and the key's columns
        if codec is not None and change.form == FORM_CANAL and old != NULL and self.key and ws.message_key.count:
            return False
        if not read_types(ws, codec, old, row):
            return False
        to = room_for(&ws.extended, self.room(ws, record, change))
        to = self.put_key(ws, change, to)
        to = self.metadata.put(record, &about, to)
        if to != NULL and old != NULL:
            to = self.rewrite(&ws.composed, old, &ws.before_typing, key, row != NULL, &about, to)
        if to != NULL and row != NULL:
            to = self.rewrite(&ws.composed, row, &ws.typing, key, False, &about, to)
        change.typed = change.declared = change.composed = change.extended = True
        return to != NULL

    cdef bint read_columns(self, Workspace *ws, const RawRecord *record, Change *change) except -1:
        """Read the fields of a message's key as far as they are needed; False for a fallback."""
        cdef bint renamed = self.value_prefix.size and change.message_key.text != NULL
        cdef Text key
        ws.message_key.count = 0
        if record.key == NULL and self.key and self.key_is_primary and self.key_field_count:
            return False  # these are the primary key, which the row may lack
        if record.key == NULL or not (self.key or renamed):
            return True
        key.text, key.size = record.key, record.key_size
        # A message's key that is written with other names is the format's to read, which may be another one
        if self.keys is not None:
            if renamed or not self.keys.read(&key, &ws.columns_text):
                return False
            change.numbers |= self.keys.last.numbers
        if not read_key(key, &ws.message_key):
            return False
        # The reference reads the columns of a key by the schema of its envelope
        self.has_schema = self.key and self.keys is None and ws.message_key.text != skip_space(key.text, key.text + key.size)
        if self.has_schema and (self.except_key or self.key_is_primary or self.key_prefix.size or self.value_prefix.size):
            return False
        return not self.key_field_count or self.choose_fields(&ws.message_key, change)

    cdef bint choose_fields(self, Row *key, const Change *change) noexcept nogil:
        """Leave only those fields of a key that are columns, in the order of the option; False for a fallback."""
        cdef Field[MAX_KEYS] chosen
        cdef int i, k
        if self.value_prefix.size and change.message_key.text != NULL:
            return False  # the message's key has to be written as well, with all of its fields
        for k in range(self.key_field_count):
            for i in range(key.count):
                if is_named(&key.fields[i], self.key_fields[k].text, self.key_fields[k].size):
                    chosen[k] = key.fields[i]
                    break
            else:
                return False
        key.count = self.key_field_count
        memcpy(key.fields, chosen, <size_t> key.count * sizeof(Field))
        return True

    cdef size_t room(self, Workspace *ws, const RawRecord *record, const Change *change) noexcept nogil:
        """Return how many bytes at most are written for a message."""
        cdef size_t prefix = self.key_prefix.size + self.value_prefix.size
        cdef size_t key = 8, images = 16, names = 0
        cdef const Row *row
        cdef int i, k
        for i in range(ws.message_key.count):
            key += prefix + ws.message_key.fields[i].name_size * 2 + ws.message_key.fields[i].size + 8
        for k in range(2):
            row = &ws.after if k else &ws.before
            if row.size:
                images += <size_t> row.size
                for i in range(row.count):
                    images += prefix * 2 + row.fields[i].name_size * 2 + row.fields[i].size + 8
        for i in range(change.named):
            names += prefix + change.names[i].size
        # The key is written as the message's, and in two images; its names with a prefix once more
        return self.metadata.room(record) * 3 + key * 4 + images + names

    cdef char *put_key(self, Workspace *ws, Change *change, char *to) noexcept nogil:
        """Give the message's key, its columns and those of the primary key their prefixes; return where they end."""
        cdef Row *key = &ws.message_key
        cdef const Field *field
        cdef Text *name
        cdef char *start = to
        cdef int i
        if self.value_prefix.size and change.message_key.text != NULL:
            for i in range(key.count):
                field = &key.fields[i]
                to[0], to[1] = b',' if i else b'{', b'"'
                to = put(put(to + 2, self.value_prefix.text, self.value_prefix.size), field.name, field.name_size)
                to[0], to[1] = b'"', b':'
                to = put(to + 2, field.text, field.size)
            to = put(to, b"}" if key.count else b"{}", 1 if key.count else 2)
            change.message_key.text, change.message_key.size = start, <size_t> (to - start)
        for i in range(change.named):
            name = &change.names[i]
            to = put(put(to, self.value_prefix.text, self.value_prefix.size), name.text, name.size)
            name.size += self.value_prefix.size
            name.text = to - name.size
        to = prefix_names(to, &self.key_prefix, key)
        if self.key and self.key_is_primary and not change.named:
            change.named = key.count
            for i in range(key.count):
                change.names[i].text, change.names[i].size = key.fields[i].name, key.fields[i].name_size
        return to

    cdef bint is_plain(self, const Row *row, const Typing *typing) noexcept nogil:
        """Return whether the reference writes a row with the white space that it came with."""
        cdef int i
        if self.key or self.value_prefix.size or memchr(row.text, b'\\', <size_t> row.size) != NULL:
            return False
        for i in range(row.count):
            if typing.came[i].text != NULL:
                return False
        return not self.metadata.is_in(row)

    cdef char *rewrite(
        self, Row *made, Row *row, Typing *typing, const Row *key, bint is_old, const RecordColumns *about, char *to
    ) noexcept nogil:
        """Write an image with all its columns, and let it be there; return where it ends, or NULL for a fallback.

        `made`: room for a row; `key`: NULL where its fields are no columns; `is_old`: the row may have another key.
        """
        cdef int places[MAX_KEYS]
        cdef int32_t types[MAX_FIELDS]
        if row.count + about.count + (key.count if key != NULL else 0) > MAX_FIELDS:
            return NULL
        to = prefix_names(to, &self.value_prefix, row)
        if key != NULL and not match_key(key, row, is_old or self.except_key, places):
            return NULL
        if key != NULL and self.has_schema and not is_old and not has_places(key, places):
            return NULL
        made.text, made.count = to, 0
        if is_compact(row) or not self.is_plain(row, typing):
            to = put_fields(to, made, row, typing, types, key, places, self.except_key)
        else:
            to = put_as_it_is(to, made, row)
            memcpy(types, typing.types, <size_t> row.count * sizeof(int32_t))
        if self.metadata.clashes(made):
            return NULL
        to = add_columns(about, made, types, to)
        to[0] = b'}'
        made.end, made.size = to + 1, to + 1 - made.text
        take_row(row, typing, made, types)
        return to + 1
