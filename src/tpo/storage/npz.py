"""Named arrays as the bytes of an NPZ file, without pickle. A damaged file is an error, never other numbers."""

from __future__ import annotations

import io
import zipfile

import numpy as np

Arrays = dict[str, np.ndarray]

MANY = 0xFFFF
"""What a ZIP notes as its number of members if it has as many or more."""


def to_bytes(arrays: Arrays) -> memoryview:
    """The content of an NPZ file."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getbuffer()


def from_bytes(content: bytes) -> Arrays:
    """The inverse of `to_bytes`. Every member is compared with its checksum, which `np.load` may not do."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    noted = int.from_bytes(content[-12:-10], "little")  # in the last record, which has 22 bytes
    if noted not in (len(members), MANY):
        raise ValueError(f"{len(members)} arrays, expected {noted}")
    return {
        name: np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)
        for name, member in members.items()
    }
