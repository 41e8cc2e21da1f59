"""What was said by whom, and what follows for the facts that a model wants to learn.

A person's own words count for a fact; what they only pass on (forwards, pasted pages, results of tools) may say
anything. It compares words and understands none: a translation or an inference has no words of anyone and may be
learnt, and so may a lie told in the person's own words. Pure.
"""

from nanomem.evidence.comparing import words
from nanomem.evidence.judging import Evidence, evidence_of, founded, screened, unfit
from nanomem.evidence.reading import apart

__all__ = ["Evidence", "apart", "evidence_of", "founded", "screened", "unfit", "words"]
