def load() -> str:
    """Make librdkafka's functions ready to be called, and return the library's version.

    Raises LookupError where the library is not to be found, lacks a function, or is of a version that was not tested.
    """
