"""Chat networks, one module or folder each."""
