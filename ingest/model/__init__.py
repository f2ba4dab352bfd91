"""The nouns: table id and selector, types and schema, change event, reject. Pure values, no input or output."""
