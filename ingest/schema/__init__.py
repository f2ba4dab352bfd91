"""Table schemas: their inference, declaration, evolution, and routing to the sink's tables."""
