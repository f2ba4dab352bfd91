"""The comparison of a pipeline's sink with what its source says: rows that should be there, and rows that are."""
