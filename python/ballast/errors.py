"""What ballast raises for bad input and for failing files."""

from __future__ import annotations


class Error(Exception):
    """Something outside the program is wrong: a file, an option, a full disk.

    The message is one line that says where, what is wrong and, where that helps, what to do.

    Attributes:
        place: a file, "file: tensor" or an option; None where the message names none.
        reason: the rest of the message.
    """

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        place = place or message.partition(": ")[0]
        named = message.startswith(f"{place}: ")
        self.place: str | None = place if named else None
        self.reason: str = message.removeprefix(f"{place}: ") if named else message


class FileError(Error):
    """The system refused: a file that cannot be read or written, a full disk, too little memory. Trying again may
    help."""


class UnsupportedError(Error):
    """The input may well be sound, but it is of a kind that ballast does not read: an architecture, a type, a chat
    template."""
