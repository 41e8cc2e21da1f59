"""The fact ledger: what a rewrite of the memory may change.

A rewrite is a proposal against a base, applied to what the files are by now: a three-way merge by facts, over the
three files as one set. A fact goes only for a stated reason. Pure.
"""

from nanomem.ledger.lines import CONTRADICTED
from nanomem.ledger.merging import Merged, changes, merge

__all__ = ["CONTRADICTED", "Merged", "changes", "merge"]
