/* Records that are put together of pieces: columns of a row, images, and texts between them. Part of the hot loop in C.
   The rule book is flow/rows.py; what its pieces are is in formats/writing.py. */

#ifndef INGEST_FLOW_LAYOUT_H
#define INGEST_FLOW_LAYOUT_H

#include "_handover.h"

/* Put bytes behind those that are in the row's buffer; false with an error. */
static bool append(State *state, size_t *size, const char *text, size_t more)
{
    if (!room_for_row(state, *size + more))
        return false;
    if (more)
        memcpy(state->row + *size, text, more);
    *size += more;
    return true;
}

static bool append_value(State *state, size_t *size, const Field *field, Way way)
{
    if (way == AS_TEXT) {
        if (!room_for_row(state, *size + (size_t)field->size * 2 + 2))
            return false;
        *size = (size_t)(write_as_text(state->row + *size, field->text, field->size) - state->row);
        return true;
    }
    if (way != QUOTED)
        return append(state, size, field->text, field->size);
    return append(state, size, "\"", 1) && append(state, size, field->text, field->size) && append(state, size, "\"", 1);
}

/* A value as a field of a line: 1, 0 where it is not for us, -1 with an error. What has no escapes has no quotes. */
static int append_csv(State *state, size_t *size, const Field *field, Way way)
{
    if (field->kind == NUL)
        return 1;
    if (way == AS_TEXT || field->flags & ESCAPES || field->kind == OBJECT || field->kind == ARRAY)
        return 0;
    return append_value(state, size, field, way) ? 1 : -1;
}

/* Check an image, which may lack columns, and note where they are; whether it is for us. Its columns are those that
   `had` the number that table->row has then. */
static bool check_image(Table *table, const Row *row, const Typing *typing, Way *ways)
{
    int next = 0;
    table->row++;
    for (int i = 0; i < row->count; i++) {
        Column *column = column_of(table, &row->fields[i], &next);
        if (!column || column->had == table->row)
            return false;
        column->had = table->row;
        column->was = i;
        ways[i] = way_in_row(column, row, i, typing);
        if (ways[i] == NOT_OURS)
            return false;
    }
    return true;
}

/* What there is to put records together of */
typedef struct {
    const Row *row, *image; /* the row after, or NULL; the row before, or NULL */
    uint64_t mark;          /* of the columns that the image has */
    bool over;              /* what the image lacks is as in the row */
} Sources;

/* An image, by its columns' order; or by the sink's where it is laid over the row. False with an error. */
static bool append_image(State *state, size_t *size, const Table *table, const Sources *from)
{
    int count = from->over ? table->count : from->image->count;
    for (int i = 0; i < count; i++) {
        const Field *field = from->over ? NULL : &from->image->fields[i];
        const Column *column = from->over ? &table->columns[table->order[i]] : NULL;
        Way way = from->over ? AS_IT_CAME : state->before_ways[i];
        if (column) {
            if (column->had == from->mark) {
                field = &from->image->fields[column->was];
                way = state->before_ways[column->was];
            } else if (column->seen == table->row) {
                field = &from->row->fields[column->at];
                way = state->ways[column->at];
            }
        }
        Text name = column ? (Text){column->name, column->name_size} : (Text){field->name, field->name_size};
        if (!append(state, size, i ? ",\"" : "{\"", 2) || !append(state, size, name.text, name.size) ||
            !append(state, size, "\":", 2) ||
            !(field ? append_value(state, size, field, way) : append(state, size, "null", 4)))
            return false;
    }
    return count ? append(state, size, "}", 1) : append(state, size, "{}", 2);
}

/* Put a value together behind what is in the buffer: 1, 0 where it is not for us, -1 with an error. */
static int append_pieces(State *state, size_t *size, const Table *table, const Pieces *pieces, const Sources *from)
{
    for (int i = 0; i < pieces->count; i++) {
        const Piece *piece = &pieces->pieces[i];
        if (piece->op == PIECE_TEXT) {
            if (!append(state, size, piece->text, piece->size))
                return -1;
        } else if (piece->op == PIECE_IMAGE) {
            if (!append_image(state, size, table, from))
                return -1;
        } else {
            const Column *column = &table->columns[piece->place];
            bool there = column->seen == table->row;
            const Field *field = there ? &from->row->fields[column->at] : NULL;
            if (piece->op == PIECE_CSV) {
                int done = there ? append_csv(state, size, field, state->ways[column->at]) : 1;
                if (done != 1)
                    return done;
            } else if (!(there ? append_value(state, size, field, state->ways[column->at]) : append(state, size, "null", 4)))
                return -1;
        }
    }
    return 1;
}

/* The same for a key, of these fields, one for each key column. */
static int append_key(State *state, size_t *size, const Table *table, const Field *const *fields)
{
    for (int i = 0; i < table->laid_key.count; i++) {
        const Piece *piece = &table->laid_key.pieces[i];
        if (piece->op == PIECE_TEXT) {
            if (!append(state, size, piece->text, piece->size))
                return -1;
            continue;
        }
        const Field *field = fields[piece->place];
        Text value;
        if (!key_text(field, &value))
            return 0;
        bool quote = table->key_strings && field->kind != STRING;
        if ((quote && !append(state, size, "\"", 1)) || !append(state, size, value.text, value.size) ||
            (quote && !append(state, size, "\"", 1)))
            return -1;
    }
    return 1;
}

/* A change whose records are put together of pieces, as RowPlan has them: 1, 0 where it is not for us, -1 with an error.
   The values of both rows are of their types. */
static int take_laid_out(State *state, Lane *lane, Table *table, char op, Text message_key, bool typed, const Out *out)
{
    bool inserted = op == 'c' || op == 'r', updated = op == 'u', deleted = op == 'd';
    bool both = updated && state->before.size, canal = lane->form == CANAL;
    const Row *row = deleted && !canal ? &state->before : &state->after, *old = &state->before;
    const Typing *old_typing = typed ? &state->before_typing : NULL;
    const Typing *typing = !typed ? NULL : row == old ? old_typing : &state->typing;
    const Field *fields[MAX_KEYS], *old_fields[MAX_KEYS];
    Py_ssize_t rewritten;
    int found = 0;
    if ((!inserted && !updated && !deleted) || !row->size || (deleted && !table->laid_delete && !table->laid_keyed))
        return 0;
    Sources from = {deleted ? NULL : row, deleted ? row : both ? old : NULL, 0, both && canal};
    if (deleted) {
        if (!check_image(table, row, typing, state->before_ways) || find_key(table, row, fields) != table->keys)
            return 0;
        /* The rule book has the key's columns first then */
        if (message_key.text) {
            if (!same_columns(table, message_key, &state->message_key))
                return 0;
            for (int i = 0; i < table->keys; i++)
                if (!is_named(&row->fields[i], state->message_key.fields[i].name, state->message_key.fields[i].name_size))
                    return 0;
        }
    } else {
        if (both && !check_image(table, old, old_typing, state->before_ways))
            return 0;
        from.mark = table->row;
        if (!check_row(table, row, typing, state->ways, &rewritten) || lacks(lane, row))
            return 0;
        if (!key_fields(table, row, fields))
            return 0;
        memcpy(old_fields, fields, (size_t)table->keys * sizeof *fields);
        if (table->keyed && message_key.text && !same_columns(table, message_key, &state->message_key))
            return 0;
        if (both && (found = find_key(table, old, old_fields)) < 0)
            return 0;
    }
    const Pieces *pieces = inserted ? &table->bodies[0] : both ? &table->bodies[1] : updated ? &table->bodies[2] : &table->bodies[3];
    size_t key_end = 0, old_end, end;
    int done = table->laid_keyed ? append_key(state, &key_end, table, fields) : 1;
    old_end = key_end;
    bool moves = table->laid_moves && table->laid_keyed && both && (canal ? found : found == table->keys);
    if (done == 1 && moves)
        done = append_key(state, &old_end, table, old_fields);
    end = old_end;
    if (done == 1 && (!deleted || table->laid_delete))
        done = append_pieces(state, &end, table, pieces, &from);
    if (done != 1)
        return done;
    const char *text = state->row;
    Text none = {NULL, 0}, now = table->laid_keyed ? (Text){text, key_end} : none, was = {text + key_end, old_end - key_end};
    Text value = deleted && !table->laid_delete ? none : (Text){text + old_end, end - old_end};
    bool moved = moves && (was.size != now.size || memcmp(was.text, now.text, now.size));
    if (!touch(state, table) || (moved && !emit(out, table->destination, was, none)) ||
        !emit(out, table->destination, now, value))
        return -1;
    *(inserted ? &table->inserted : updated ? &table->updated : &table->deleted) += 1;
    return 1;
}

/* Pieces of (code, text, place); false with an error. `columns`: how many places there are; `image`: whether there is
   a row before. */
static bool pieces_of(PyObject *given, Pieces *pieces, int columns, bool image)
{
    Py_ssize_t count = PyTuple_Check(given) ? PyTuple_GET_SIZE(given) : -1;
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "pieces are a tuple");
        return false;
    }
    if (!(pieces->pieces = PyMem_Calloc((size_t)count + 1, sizeof(Piece)))) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Piece *piece = &pieces->pieces[i];
        const char *text;
        Py_ssize_t size;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "iy#i", &piece->op, &text, &size, &piece->place))
            return false;
        bool placed = piece->op == PIECE_CELL || piece->op == PIECE_CSV;
        if (placed ? piece->place < 0 || piece->place >= columns : piece->op != PIECE_TEXT && (piece->op != PIECE_IMAGE || !image)) {
            PyErr_SetString(PyExc_ValueError, "no such column, or no such piece");
            return false;
        }
        if (!(piece->text = PyMem_Malloc((size_t)size + 1))) {
            PyErr_NoMemory();
            return false;
        }
        memcpy(piece->text, text, (size_t)size);
        piece->size = (size_t)size;
        pieces->count++;
    }
    return true;
}

/* Table.lay_out(key, insert, update, alone, delete, moves): see the stub. Once. */
static PyObject *table_lay_out(Table *self, PyObject *args)
{
    PyObject *key, *values[4];
    int moves;
    if (!PyArg_ParseTuple(args, "OOOOOp", &key, &values[0], &values[1], &values[2], &values[3], &moves))
        return NULL;
    if (!begin_telling(self, TOLD_LAYOUT))
        return NULL;
    self->laid_moves = moves;
    self->laid_keyed = key != Py_None;
    self->laid_delete = values[3] != Py_None;
    if (self->laid_keyed && !pieces_of(key, &self->laid_key, self->keys, false))
        return NULL;
    /* The row before is known of an update and of a delete */
    for (int i = 0; i < 4; i++)
        if ((i < 3 || self->laid_delete) && !pieces_of(values[i], &self->bodies[i], self->count, i == 1 || i == 3))
            return NULL;
    self->laid_out = true;
    return done_telling(self);
}

#endif
