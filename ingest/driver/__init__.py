"""The driver: plans batches, runs them, merges what tasks observed, stores how far it came."""
