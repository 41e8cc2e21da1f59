"""The memory: who may change it and how, what is distilled into it, and where each fact comes from."""
