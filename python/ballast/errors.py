"""What ballast raises for bad input and for failing files."""

from __future__ import annotations


class Error(Exception):
    """Something outside the program is wrong: a file, an option, a full disk.

    The message is one line that says where, what is wrong and, where that helps, what to do.

    Attributes:
        place: what stands before the message's first ": ", a file, a tensor or an option; None where there is none.
        reason: the rest.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        place, separator, reason = message.partition(": ")
        self.place: str | None = place if separator else None
        self.reason: str = reason if separator else message


class FileError(Error):
    """The system refused: a file that cannot be read or written, a full disk, too little memory. Trying again may
    help."""


class UnsupportedError(Error):
    """The input may well be sound, but it is of a kind that ballast does not read: an architecture, a type, a chat
    template."""
