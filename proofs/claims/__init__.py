"""A module for each claim; what is in this folder is found by itself."""
