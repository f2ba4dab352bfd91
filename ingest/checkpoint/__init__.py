"""Checkpoints: the batches, positions and schemas that a run keeps for the next run, on any file system."""
