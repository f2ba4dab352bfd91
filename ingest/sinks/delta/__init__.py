"""Delta: tables in folders, and the versions by which files become rows of them."""
