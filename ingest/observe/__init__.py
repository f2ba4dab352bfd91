"""Events of a run, and their display. Only the command line and the driver use this package."""
