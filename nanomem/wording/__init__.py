"""Whether one fact says what another says: the same, in other words, in another language, or something else.

Judges by what must not change (numbers, dates, names, units, negations: the particulars) and by whether the words are
all there. It knows no grammar; where in doubt, one fact does not carry the other. Pure.
"""

from nanomem.wording.judging import carries, contradicts, names, overlap
from nanomem.wording.reading import Gist, gist, same

__all__ = ["Gist", "carries", "contradicts", "gist", "names", "overlap", "same"]
