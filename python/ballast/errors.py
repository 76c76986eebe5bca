"""Exceptions for bad input and for failing files."""

from __future__ import annotations


class Error(Exception):
    """An error outside the program: in a file, an option, or because of a full disk.

    The message is one line with the location, the problem and, if helpful, a remedy.

    Attributes:
        place: a file, "file: tensor" or an option; None if the message names none.
        reason: the rest of the message.
    """

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        place = place or message.partition(": ")[0]
        named = message.startswith(f"{place}: ")
        self.place: str | None = place if named else None
        self.reason: str = message.removeprefix(f"{place}: ") if named else message


class FileError(Error):
    """An error of the system: a file that cannot be read or written, a full disk, too little memory. Trying again may
    help."""


class UnsupportedError(Error):
    """The input may be valid, but ballast does not support its kind: an architecture, a type, a chat template."""
