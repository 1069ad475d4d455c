"""Operators of NumPy's arrays that device arrays do not have. Each raises an error that names libraries which compute
with the same memory."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

_NAMES = {
    "add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod",
    "pow": "**", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "abs": "abs", "invert": "~"}


class NoArithmetic:
    """Raises TypeError for operators, unless the other operand is of a library that may compute with device memory."""

    __slots__ = ()


def _error(operator: str) -> TypeError:
    return TypeError(
        f"a DeviceArray has no operator {operator}: it holds values and does not compute. Pass it without a copy to "
        "cupy.from_dlpack, torch.from_dlpack or jax.dlpack.from_dlpack, or copy it to the host by .numpy()"
    )


def _binary(operator: str) -> Any:
    def refuse(self: NoArithmetic, other: Any, *_: Any) -> Any:
        if isinstance(other, (NoArithmetic, np.ndarray, np.generic, numbers.Number, list, tuple)):
            raise _error(operator)
        return NotImplemented

    return refuse


def _unary(operator: str) -> Any:
    def refuse(self: NoArithmetic) -> Any:
        raise _error(operator)

    return refuse


for _name, _operator in _NAMES.items():
    for _prefix in ("", "r"):
        setattr(NoArithmetic, f"__{_prefix}{_name}__", _binary(_operator))
    if _name != "divmod":
        setattr(NoArithmetic, f"__i{_name}__", _binary(_operator + "="))
for _name, _operator in _COMPARISONS.items():
    setattr(NoArithmetic, f"__{_name}__", _binary(_operator))
for _name, _operator in _UNARY.items():
    setattr(NoArithmetic, f"__{_name}__", _unary(_operator))
