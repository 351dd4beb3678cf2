"""Warnings that are given once in a process, however often a table is planned."""

import logging

_given: set[str] = set()


def warn_once(log: logging.Logger, text: str, *args: object) -> None:
    """Log a warning, unless the same one has been logged before."""
    message = text % args
    if message not in _given:
        _given.add(message)
        log.warning("%s", message)
