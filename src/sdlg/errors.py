"""Everything that can go wrong, as one tree.

SdlgError
├── UsageError              what was asked cannot be done as asked; nothing was run (exit code 2)
│   ├── UnknownName         a name that is not in a table; the message lists the choices
│   ├── BadOption           an option outside its range
│   ├── BadQuestion         an empty question or a line that is not a question
│   ├── PromptTooLong       the prompt does not fit the model's context
│   └── NotSupported        the model cannot do what the method needs
├── InputUnavailable        what one measure needs cannot be had: a reason, beside the other measures
└── RunError                the request was fine, the run was not (exit code 1)
    ├── ModelNotFound       no such model on this machine or hub
    ├── LabelNotFound       an NLI model without contradiction or entailment
    └── Interrupted         the work was broken off: always passed on, never stored as if it were an answer
        ├── CacheUnavailable    the cache folder cannot be written (full, read-only)
        ├── ServerFailed        a model server that is gone, silent, or answers nonsense
        ├── TimedOut            a deadline passed
        └── Cancelled           nobody wants the answer any more
"""


class SdlgError(Exception):
    """Base of all our errors: catch this one to catch them all."""

    exit_code = 1


class UsageError(SdlgError):
    """What was asked cannot be done as asked."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not in its table."""


class BadOption(UsageError):
    """An option outside its range."""


class BadQuestion(UsageError):
    """A question that cannot be asked."""


class PromptTooLong(UsageError):
    """A prompt that does not fit the model's context."""


class NotSupported(UsageError):
    """The model cannot do what the method needs."""


class InputUnavailable(SdlgError):
    """What one measure needs cannot be had."""


class RunError(SdlgError):
    """The request was fine, the run was not."""


class ModelNotFound(RunError):
    """No such model here."""


class LabelNotFound(RunError):
    """An NLI model that lacks a label we need."""


class Interrupted(RunError):
    """The work was broken off, and may be taken up again."""


class CacheUnavailable(Interrupted):
    """The cache folder cannot be written."""


class ServerFailed(Interrupted):
    """A model server that is gone, silent, or answers nonsense."""


class TimedOut(Interrupted):
    """A deadline passed."""


class Cancelled(Interrupted):
    """Nobody wants the answer any more."""


def first_line(error: BaseException) -> str:
    """What a foreign library's error says, without its essay."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
