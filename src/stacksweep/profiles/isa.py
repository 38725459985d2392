"""Cycles of one pipelined instruction, from expressions over the numbers of a chip profile."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction

from stacksweep.profiles.base import LARGEST_INTEGER

# Cycles per instruction of PLENA's analytic model (AICrossSim/PLENA_Simulator, analytic_models/performance).
PIPELINED: dict[str, str] = {
    "M_MM": "BLEN",
    "M_MV": "1 + BLEN",
    "M_BTMV": "1 + BLEN",
    "V_BASIC": "VECTOR_BASIC_CYCLES",
    "V_ADD_VV": "VECTOR_ADD_CYCLES",
    "V_MUL_VV": "VECTOR_MUL_CYCLES",
    "V_EXP_V": "1 + VECTOR_EXP_CYCLES",
    "V_RED_MAX": "1 + VECTOR_MAX_CYCLES",
    "V_TOPK": "1 + VECTOR_MAX_CYCLES",
    "S_BASIC": "SCALAR_FP_BASIC_CYCLES",
    "S_EXP_FP": "SCALAR_FP_EXP_CYCLES",
    "S_RECI_FP": "SCALAR_FP_RECI_CYCLES",
    "H_PREFETCH_M": "1",
    "H_PREFETCH_V": "1",
    "H_STORE_V": "1",
}

_LONGEST_EXPRESSION = 200
_LONGEST_POWER_BITS = 4096

_Operator = Callable[[Fraction, Fraction], Fraction]


class ExpressionError(ValueError):
    """An expression that has no cycle count. The message says why, without the instruction."""


class UnknownNameError(ExpressionError):
    """An expression with a name that stands for no number.

    Attributes
    ----------
    name : str
        The unknown name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not a number of the chip profile")
        self.name = name


def cycles(expression: str, names: Mapping[str, int]) -> int:
    """Evaluate the cycle count of an instruction.

    Parameters
    ----------
    expression : str
        Integers, names, ``+ - * / // % **`` and parentheses. Arithmetic is exact: ``BLEN / 4`` is allowed where it
        comes out whole.
    names : Mapping
        Value of each name.

    Returns
    -------
    int
        Cycles, at least 1.

    Raises
    ------
    ExpressionError
        If the expression holds anything else, cannot be computed, or does not give an integer above 0.

    Examples
    --------
    >>> cycles("2 * (1 + BLEN) // 4", {"BLEN": 128})
    64
    """
    if len(expression) > _LONGEST_EXPRESSION:
        raise ExpressionError(f"got {len(expression)} characters, needs at most {_LONGEST_EXPRESSION}")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ExpressionError(_not_allowed(expression)) from None
    try:
        value = _value(tree.body, expression, names)
    except ZeroDivisionError:
        raise ExpressionError(f"{expression!r} divides by zero") from None
    if value.denominator != 1 or not 1 <= value <= LARGEST_INTEGER:
        raise ExpressionError(f"{expression!r} gives {_short(value)}, needs an integer above 0 and at most 2**53")
    return int(value)


def _value(node: ast.expr, expression: str, names: Mapping[str, int]) -> Fraction:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return Fraction(number)
        case ast.Name(id=name):
            if name not in names:
                raise UnknownNameError(name)
            return Fraction(names[name])
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            value = _value(operand, expression, names)
            return -value if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            apply = _OPERATORS[type(op)]
            return apply(_value(left, expression, names), _value(right, expression, names))
    raise ExpressionError(_not_allowed(expression))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ExpressionError(f"got the exponent {_short(exponent)}, needs an integer")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent) > _LONGEST_POWER_BITS:
        raise ExpressionError(f"got a power of more than {_LONGEST_POWER_BITS} bits")
    return base ** int(exponent)


def _floor_division(left: Fraction, right: Fraction) -> Fraction:
    return Fraction(left // right)


_OPERATORS: dict[type[ast.operator], _Operator] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: _floor_division,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}


def _short(value: Fraction) -> str:
    text = str(value)
    return text if len(text) <= 40 else "a number of more than 40 digits"


def _not_allowed(expression: str) -> str:
    return f"{expression!r} is not made of names, integers, + - * / // % ** and parentheses"
