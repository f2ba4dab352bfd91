"""Entry point of `python -m ingest`: runs the command `ingest`."""

from ingest.cli.app import main

if __name__ == "__main__":
    main()
