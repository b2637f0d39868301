"""The compiled kernel from Python."""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import torch
from torch import Tensor

from enginex.errors import EnginexError
from enginex.moe.contract import PLAIN, Form
from enginex.native.build import library_path

__all__ = ["Experts", "Kernels", "Layout", "NotBuilt", "load"]

_ABI = 1
_DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}
_ACTIVATIONS = {"silu": 0, "gelu": 1, "gelu_tanh": 2}
_TORCH = "/libtorch_cpu.so"
_BAD_EXPERT, _BAD_SHAPE, _BAD_KIND, _NO_MEMORY = 1, 2, 3, 4


class NotBuilt(EnginexError):
    """The library is not there or cannot be loaded."""


class Layout(IntEnum):
    """How a matrix of N rows and K columns lies in memory; see ``kernel.h``."""

    ROWS = 0
    PAIRS = 1
    LANES = 2


class _Args(ctypes.Structure):
    """``EnginexMoe`` of ``kernel.h``, field by field."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in ("hidden", "out", "w13", "w2", "b13", "b2", "topk_weights", "topk_ids")
        ),
        *((name, ctypes.c_int64) for name in ("tokens", "experts", "width", "inner", "topk")),
        *((name, ctypes.c_int32) for name in ("dtype", "layout", "activation", "reserved")),
    )


@dataclass(frozen=True, slots=True)
class Experts:
    """One layer's weights as they lie in memory.

    Attributes:
        w13: experts x 2·inner x width elements in ``layout``, the gate first.
        w2: experts x width x inner elements in ``layout``.
        experts: E.
        width: H.
        inner: I.
        layout: How each expert's matrices lie; in PAIRS and LANES, width and inner are multiples of 32.
        form: Activation and biases.
    """

    w13: Tensor
    w2: Tensor
    experts: int
    width: int
    inner: int
    layout: Layout = Layout.ROWS
    form: Form = PLAIN

    @classmethod
    def of_rows(cls, w13: Tensor, w2: Tensor, form: Form = PLAIN) -> Experts:
        """Take [E, 2I, H] and [E, H, I] as the contract has them."""
        return cls(w13.contiguous(), w2.contiguous(), *w2.shape, Layout.ROWS, form)


class Kernels:
    """The loaded library.

    Args:
        path: The library.

    Raises:
        NotBuilt: It cannot be loaded, or it is of another version.
    """

    def __init__(self, path: Path) -> None:
        _share_openmp()
        try:
            self._library = ctypes.CDLL(str(path))
            self._library.enginex_isa.restype = ctypes.c_char_p
            self._library.enginex_read_all.restype = ctypes.c_double
            self._library.enginex_read_all.argtypes = (ctypes.c_void_p, ctypes.c_int64)
            self._library.enginex_moe.argtypes = (ctypes.c_void_p, ctypes.c_int32)
            abi = self._library.enginex_abi()
        except (OSError, AttributeError) as error:
            raise NotBuilt(f"{path} cannot be loaded: {error}") from error
        if abi != _ABI:
            raise NotBuilt(
                f"{path} speaks version {abi} of the interface and this enginex version {_ABI}"
            )
        self._best = self._library.enginex_isa_best()

    @property
    def isa(self) -> str:
        """The instruction set that is used."""
        return self._name(self._best)

    def runnable(self) -> list[str]:
        """List the instruction sets of the library that this processor has, the most capable first."""
        names: list[str] = []
        at = 0
        while self._library.enginex_isa(at) is not None:
            if self._library.enginex_isa_runs(at):
                names.append(self._name(at))
            at += 1
        return names

    def reads(self, dtype: torch.dtype, layout: Layout) -> bool:
        """Whether the kernel computes this dtype in this layout."""
        if layout == Layout.PAIRS:
            return dtype == torch.bfloat16 and self.isa == "avx512bf16"
        return dtype in _DTYPES

    def moe(
        self,
        experts: Experts,
        hidden: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        out: Tensor | None = None,
        isa: str | None = None,
    ) -> Tensor:
        """Compute the routed experts, as :mod:`enginex.moe.contract` defines them.

        Args:
            experts: The layer.
            hidden: [T, H].
            topk_weights: [T, k].
            topk_ids: [T, k].
            out: [T, H], contiguous; made when None.
            isa: Another instruction set than the best, for tests.

        Returns:
            ``out``.

        Raises:
            ValueError: What the kernel was given is outside of the contract.
        """
        # Each of these tensors is held until the kernel is through: it only sees addresses.
        hidden = hidden.contiguous()
        weights = topk_weights.to(torch.float32).contiguous()
        ids = topk_ids.to(torch.int32).contiguous()
        b13, b2 = _fp32(experts.form.b13), _fp32(experts.form.b2)
        result = torch.empty_like(hidden) if out is None else out
        _check(experts, hidden, ids, result)
        args = _Args(
            hidden.data_ptr(),
            result.data_ptr(),
            experts.w13.data_ptr(),
            experts.w2.data_ptr(),
            None if b13 is None else b13.data_ptr(),
            None if b2 is None else b2.data_ptr(),
            weights.data_ptr(),
            ids.data_ptr(),
            hidden.shape[0],
            experts.experts,
            experts.width,
            experts.inner,
            ids.shape[1],
            _DTYPES[hidden.dtype],
            experts.layout,
            _ACTIVATIONS[experts.form.activation],
            0,
        )
        status = self._library.enginex_moe(
            ctypes.byref(args), -1 if isa is None else self._number(isa)
        )
        if status != 0:
            raise _error(status, experts)
        return result

    def read_all(self, tensor: Tensor) -> float:
        """Read a tensor's memory once with all threads; returns a checksum of no meaning."""
        return float(
            self._library.enginex_read_all(
                tensor.data_ptr(), tensor.numel() * tensor.element_size()
            )
        )

    def _name(self, at: int) -> str:
        name: bytes = self._library.enginex_isa(at)
        return name.decode()

    def _number(self, isa: str) -> int:
        at = 0
        while self._library.enginex_isa(at) is not None:
            if self._name(at) == isa and self._library.enginex_isa_runs(at):
                return at
            at += 1
        raise ValueError(f"this processor or library does not have {isa!r}")


@functools.cache
def load() -> Kernels:
    """Load the library, once in a process.

    Raises:
        NotBuilt: It was not built, or cannot be loaded.
    """
    path = library_path()
    if not path.exists():
        raise NotBuilt("it was not built; run: python -m enginex.native.build")
    return Kernels(path)


def _check(experts: Experts, hidden: Tensor, ids: Tensor, out: Tensor) -> None:
    """Refuse what would make the kernel read or write outside of a tensor."""
    tokens = hidden.shape[0]
    if hidden.shape != (tokens, experts.width) or ids.shape[0] != tokens:
        raise ValueError(
            f"hidden {tuple(hidden.shape)} and topk_ids {tuple(ids.shape)} do not fit {experts.width}"
        )
    if out.shape != hidden.shape or out.dtype != hidden.dtype or not out.is_contiguous():
        raise ValueError("out must be contiguous and like hidden")
    if (
        hidden.dtype not in _DTYPES
        or experts.w13.dtype != hidden.dtype
        or experts.w2.dtype != hidden.dtype
    ):
        raise ValueError(
            f"dtypes differ or are unknown: {hidden.dtype}, {experts.w13.dtype}, {experts.w2.dtype}"
        )
    size = experts.experts * experts.width * experts.inner
    if experts.w13.numel() != 2 * size or experts.w2.numel() != size:
        raise ValueError(f"the weights do not have {3 * size} elements")


def _fp32(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.to(torch.float32).contiguous()


def _error(status: int, experts: Experts) -> Exception:
    if status == _NO_MEMORY:
        return MemoryError("the compiled kernel found no memory for its scratch space")
    return ValueError(
        {
            _BAD_EXPERT: f"topk_ids must lie in 0 to {experts.experts - 1}",
            _BAD_SHAPE: f"width {experts.width} and inner {experts.inner} do not fit the layout {experts.layout.name}",
            _BAD_KIND: f"the kernel does not read {experts.w13.dtype} in the layout {experts.layout.name}",
        }.get(status, f"the kernel failed with status {status}")
    )


def _share_openmp() -> None:
    """Let the library find the OpenMP runtime that torch computes with.

    A process can hold several: wheels bring their own copies along. Only the one that torch's own code is bound to
    has torch's threads, and with another the kernel would start as many again.

    Raises:
        NotBuilt: torch was built without OpenMP.
    """
    symbol = _symbol_of_torch("GOMP_parallel") or _symbol_of_torch("__kmpc_fork_call")
    runtime = None if symbol is None else _file_of(symbol)
    if runtime is None:
        raise NotBuilt("this process has no OpenMP runtime, which torch should have brought")
    ctypes.CDLL(runtime, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)


def _symbol_of_torch(name: str) -> int | None:
    """Look a symbol up as torch's own code does: in what is global, then in its own dependencies."""
    with Path("/proc/self/maps").open() as maps:
        found = next((line.split(maxsplit=5)[5].strip() for line in maps if _TORCH in line), None)
    for library in (None, found):
        try:
            at = getattr(ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(at, ctypes.c_void_p).value
    return None


class _DlInfo(ctypes.Structure):
    """``Dl_info`` of ``dlfcn.h``."""

    _fields_ = (
        ("fname", ctypes.c_char_p),
        ("fbase", ctypes.c_void_p),
        ("sname", ctypes.c_char_p),
        ("saddr", ctypes.c_void_p),
    )


def _file_of(address: int) -> str | None:
    """Name the library that an address lies in."""
    info = _DlInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_DlInfo))
    if dladdr(address, ctypes.byref(info)) == 0 or info.fname is None:
        return None
    return os.fsdecode(info.fname)
