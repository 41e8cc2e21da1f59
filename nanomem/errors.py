"""What can go wrong, named for what the catcher does next. Knows nothing else of nanomem.

    NanomemError            has `text`: a sentence a person may see
    ├── TryLater            wait, then do the same again
    │   └── NotHere         nobody is there to take it: keep it until somebody is
    ├── TooLong             shorten the request, then ask once more
    ├── ShowModel           give the text to the model as the tool's result
    ├── TellUser            tell the person and end the turn; asking again may help
    │   ├── CannotForce     ask once more without forcing a tool
    │   └── NotNow          do not hold it against what was asked
    ├── Refused             what was asked can never be done: do not try again
    │   └── Gone            the message to edit is no more: send another in its place
    ├── CannotStore         nothing was written: acknowledge nothing, try again when the disk is well
    ├── Misuse              say what to change, and exit with 2
    └── Stop                say why, and exit with 1

Whatever else is raised is a bug and ends the turn loudly, but for an OSError that `passes`.
"""

import errno

_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}
_EACH, _EVERY = 8, 30


class NanomemError(Exception):
    """The root; `text` may be shown to a person and holds no secret.

    `gist` is what of it may stand in a log; it is given where the text quotes others, who may quote what was said.
    """

    def __init__(self, text: str, *, gist: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.gist = text if gist is None else gist


class TryLater(NanomemError):
    """It may work later; `after_s` is the other side's own hint in seconds, if it gave one."""

    def __init__(self, text: str, after_s: float | None = None, *, gist: str | None = None) -> None:
        super().__init__(text, gist=gist)
        self.after_s = after_s


class NotHere(TryLater):
    """Nobody is connected at that address now."""


class TooLong(NanomemError):
    """The model says that the request is longer than its context window."""


class ShowModel(NanomemError):
    """A tool could not do it; the text tells the model why and what to try instead."""


class TellUser(NanomemError):
    """The turn cannot go on; the text tells the person why and what to do."""


class NotNow(TellUser):
    """Nothing is wrong with what was asked: a limit of the owner's is reached, or the provider does not let us in."""


class CannotForce(TellUser):
    """The provider does not take a forced tool choice."""


class Refused(NanomemError):
    """The network will never accept this."""


class Gone(Refused):
    """The message that was to be edited cannot be edited any more."""


class CannotStore(NanomemError):
    """A write failed before anything was acknowledged."""


class BegunAnew(NanomemError):
    """What can be made again from the truth was damaged, and is empty now."""


class Misuse(NanomemError):
    """Wrong settings or arguments."""


class Stop(NanomemError):
    """The program cannot go on."""


def passes(error: BaseException) -> bool:
    """Whether it is of a disk that is full or ill, or too many open files: the same may be done once that is over."""
    return isinstance(error, OSError) and error.errno in _OF_THE_MACHINE


def is_news(attempt: int) -> bool:
    """Whether a failure that follows others is worth a line of the log: each at first, later about one a minute."""
    return attempt <= _EACH or attempt % _EVERY == 0
