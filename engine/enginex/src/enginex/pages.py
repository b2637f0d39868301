"""Huge pages for large tensors.

A CPU looks up every page that it reads, and with pages of 4 KiB the look-ups limit how fast memory can be read. Linux
can put memory that is already there on pages of 2 MiB (``MADV_COLLAPSE``, 6.1 and later); before that, one can only
advise it to do so in its own time (``MADV_HUGEPAGE``).
"""

from __future__ import annotations

import ctypes

from torch import Tensor

__all__ = ["HUGE", "collapse"]

HUGE = 2 << 20
_MADV_HUGEPAGE = 14
_MADV_COLLAPSE = 25


def collapse(tensor: Tensor) -> int:
    """Put a CPU tensor's memory on huge pages, as far as it fills whole ones.

    Returns:
        The bytes that are on huge pages now for certain; 0 where Linux cannot or will not.
    """
    start = -(-tensor.data_ptr() // HUGE) * HUGE
    end = (tensor.data_ptr() + tensor.numel() * tensor.element_size()) // HUGE * HUGE
    if end <= start:
        return 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    madvise(start, end - start, _MADV_HUGEPAGE)
    return end - start if madvise(start, end - start, _MADV_COLLAPSE) == 0 else 0
