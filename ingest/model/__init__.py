"""Plain values that all other packages use: table id, types, schema, change event, reject. No input or output here."""
