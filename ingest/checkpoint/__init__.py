"""What a run leaves for the next one: batches, positions, schemas, on any file system."""
