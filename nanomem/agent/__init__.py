"""The loop that answers."""
