"""Events of a run, and what shows them. Used by the command line and the engine only."""
