"""One file a benchmark: a `NAME`, and `measure(folder, quick)` that returns its figures."""
