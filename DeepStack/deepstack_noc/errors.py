"""Errors of this package: each message names the field, its value and what is allowed."""

from __future__ import annotations


class NocError(ValueError):
    """An argument, or a combination of arguments, that the network model cannot take."""


class ProfileError(NocError):
    """A NoC profile that is missing, damaged or breaks a rule of its format."""
