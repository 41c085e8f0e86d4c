"""Seams by syntax: one place of a function, found by its shape, becomes another.

    Rewritten(reject, "coins(K) * Q < P", "coins(K) < P")

A pattern is a Python expression, or statements that follow each other, in which a single capital letter stands for any
expression, the same one wherever it stands twice. It matches syntax trees: layout, comments and the names that the
letters cover do not matter.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from eredu_conformance.faults.engine.seam import place_of

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Rewritten:
    """A function compiled anew with one place changed.

    Attributes:
        at: The right function.
        pattern: The expression, or the consecutive statements, that must match exactly one place of the function.
        becomes: What it becomes, with the same letters.
    """

    at: Callable[..., Any]
    pattern: str
    becomes: str

    def wrong_version(self) -> FunctionType:
        """The function with the change.

        Raises:
            ValueError: The pattern matches no place of the function, or several.
        """
        right = self.at
        place_of(right)
        assert isinstance(right, FunctionType)
        file = Path(inspect.getfile(right))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        self._change(_definition(tree, right.__qualname__))
        code = _code_of(compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True), right)
        wrong = FunctionType(code, right.__globals__, right.__name__, right.__defaults__, right.__closure__)
        wrong.__kwdefaults__ = right.__kwdefaults__
        wrong.__module__, wrong.__qualname__, wrong.__doc__ = right.__module__, right.__qualname__, right.__doc__
        return wrong

    def _change(self, definition: ast.AST) -> None:
        change = _Change(ast.parse(self.pattern).body, ast.parse(self.becomes).body)
        change.visit(definition)
        if change.count != 1:
            near = [] if change.count else list(_nearest(self.pattern, definition))
            raise ValueError(
                f"{self.pattern!r} matches {change.count} places of {self.at.__module__}.{self.at.__qualname__}, "
                "and must match one" + "".join(f"\n  compare {text}" for text in near)
            )


class _Change(ast.NodeTransformer):
    """Replaces what matches, and counts it."""

    def __init__(self, pattern: list[ast.stmt], becomes: list[ast.stmt]) -> None:
        self._pattern = pattern
        self._becomes = becomes
        self.count = 0

    def visit(self, node: ast.AST) -> Any:
        match self._pattern, self._becomes:
            case [ast.Expr(value=pattern)], [ast.Expr(value=becomes)]:
                bound: dict[str, ast.AST] = {}
                if _matches(pattern, node, bound):
                    self.count += 1
                    return _Fill(bound).visit(deepcopy(becomes))
            case _:
                for _, held in ast.iter_fields(node):
                    if isinstance(held, list):
                        self._change_statements(held)
        return self.generic_visit(node)

    def _change_statements(self, statements: list[Any]) -> None:
        size = len(self._pattern)
        for start in range(len(statements) - size + 1):
            bound: dict[str, ast.AST] = {}
            if _matches(self._pattern, statements[start : start + size], bound):
                self.count += 1
                statements[start : start + size] = [_Fill(bound).visit(each) for each in deepcopy(self._becomes)]
                return


class _Fill(ast.NodeTransformer):
    """Puts what the letters stand for in their places."""

    def __init__(self, bound: dict[str, ast.AST]) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.AST:
        filled = deepcopy(self._bound.get(node.id, node))
        if "ctx" in filled._fields:
            filled.ctx = node.ctx  # type: ignore[attr-defined]
        return filled


def _matches(pattern: object, node: object, bound: dict[str, ast.AST]) -> bool:
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1 and pattern.id.isupper():
        return isinstance(node, ast.expr) and ast.unparse(bound.setdefault(pattern.id, node)) == ast.unparse(node)
    if isinstance(pattern, list) and isinstance(node, list):
        pairs = zip(pattern, node, strict=False)
        return len(pattern) == len(node) and all(_matches(each, other, bound) for each, other in pairs)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.expr_context) or not isinstance(pattern, ast.AST):
        return isinstance(pattern, ast.expr_context) or pattern == node
    return all(_matches(value, getattr(node, field), bound) for field, value in ast.iter_fields(pattern))


def _nearest(pattern: str, definition: ast.AST) -> Iterator[str]:
    """What the function has of the pattern's kind."""
    first = ast.parse(pattern).body[0]
    kind = type(first.value if isinstance(first, ast.Expr) else first)
    for node in ast.walk(definition):
        if type(node) is kind:
            yield ast.unparse(node)


def _definition(tree: ast.Module, qualified: str) -> ast.AST:
    node: ast.AST = tree
    for name in qualified.split("."):
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, _Definition | ast.ClassDef)]
        named = [child for child in inner if child.name == name]
        if len(named) != 1:
            raise ValueError(f"{name} of {qualified} is defined {len(named)} times in its file, and must be once")
        node = named[0]
    return node


def _code_of(module: CodeType, right: FunctionType) -> CodeType:
    """The code of a function in that of its module. Raises `ValueError` if it closes over other variables now."""
    waiting = [module]
    while waiting:
        code = waiting.pop()
        if code.co_qualname == right.__qualname__:
            if code.co_freevars != right.__code__.co_freevars:
                raise ValueError(f"changed, {right.__qualname__} closes over other variables: {code.co_freevars}")
            return code
        waiting.extend(const for const in code.co_consts if isinstance(const, CodeType))
    raise ValueError(f"{right.__qualname__} has no code in {module.co_filename}")
