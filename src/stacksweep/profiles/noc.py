"""Profiles of networks between chips, loaded by `deepstack_noc`."""

from typing import Any

import deepstack_noc
from deepstack_noc import Noc
from stacksweep.profiles.base import ProfileError


def load_noc(source: Any) -> Noc:
    """Load and check the profile of a network.

    Parameters
    ----------
    source : str, path, mapping or deepstack_noc.Noc
        A bundled name, a file, the content of one, or a loaded profile.

    Returns
    -------
    deepstack_noc.Noc

    Raises
    ------
    ProfileError
        If there is no such profile, or it breaks a rule of the format.
    """
    try:
        return deepstack_noc.load_noc(source)
    except deepstack_noc.ProfileError as error:
        raise ProfileError(str(error)) from None
