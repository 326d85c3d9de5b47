"""The files that the wheel carries: the library and the program."""
from __future__ import annotations

import os


def find_file(folder: str, name: str) -> str:
    """Returns the path of a file that the wheel carries. An editable installation has it in another folder."""
    import ckptc
    places = [os.path.join(place, folder, name) for place in ckptc.__path__]
    for place in places:
        if os.path.exists(place):
            return place
    raise ImportError(f"ckptc has no {name}: {' and '.join(places)} do not exist; install it by `pip install ./python`")


def program() -> str:
    """Returns the path of the program."""
    return find_file("bin", "ckptc")
