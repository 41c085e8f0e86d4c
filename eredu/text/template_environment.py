"""The environment that chat templates are written for, with a count of what they do.

It is that of `transformers.utils.chat_template_utils`: an immutable sandbox, trimmed blocks, `break` and `continue`,
`{% generation %}` around what the assistant says, `raise_exception`, `strftime_now`, `tojson` without HTML escapes,
`dict` and `namespace` without a way to Python's own names. What it adds is a `Budget`: templates are rewritten as they
are parsed, so that every turn of a loop and every value that they make is counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from eredu.text.template_budget import MOST_BITS, TemplateLimitError, budget, require_short

MOST_SOURCE = 1 << 18
"""Characters of a template; the longest that are published have a tenth of it."""
LAYOUT = 64
"""Most characters of an indent or a separator of `tojson`."""

_SCOPES = {"_loop_vars", "_block_vars"}
"""What Jinja itself adds to a call: the names that are set around it."""


class TemplateRefusalError(jinja2.TemplateError):
    """The template itself refuses the chat, by `raise_exception`."""


class CountingEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, which counts."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        extensions = [_Generation, loopcontrols]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions, finalize=_put_out)
        self.filters |= {"tojson": _to_json}
        self.filters = {name: _counted(name, each) for name, each in self.filters.items()}
        own = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
        self.globals |= {**own, "dict": _Dict(), "namespace": _Namespace}
        del self.globals["lipsum"]  # random text, of any length

    def spend(self, characters: int = 0) -> bool:
        """A step of a template; see `_Counting`."""
        return budget().spend(characters)

    def joined(self, *parts: Any) -> str:
        """The operator `~`."""
        here = budget()
        here.require(sum(here.weigh(part) for part in parts))
        return here.made("".join(map(str, parts)))

    def literal(self, value: Any) -> Any:
        """A list, tuple or dictionary that a template writes out."""
        return budget().made(value)

    def call(self, context: Context, obj: Any, /, *arguments: Any, **named: Any) -> Any:
        """Every call that a template makes."""
        bound = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if bound is self:
            return obj(*arguments)
        here = budget()
        here.spend()
        if not isinstance(obj, Macro):
            name = getattr(obj, "__name__", "") if isinstance(bound, str | bytes | int) else ""
            if name == "join":
                arguments = tuple(list(each) if isinstance(each, Iterator) else each for each in arguments)
            own = {key: value for key, value in named.items() if key not in _SCOPES}
            here.require_room(name, bound, arguments, own)
        return here.made(super().call(context, obj, *arguments, **named))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The operators that can make much of little."""
        here = budget()
        here.spend()
        if operator == "%" and isinstance(left, str):
            here.require_room("%", left, (right,), {})
        elif operator == "+":
            here.require(here.weigh(left) + here.weigh(right))
        elif isinstance(left, int) and isinstance(right, int):
            power = operator == "**"
            bits = left.bit_length() * max(0, right) if power else left.bit_length() + right.bit_length()
            if bits > MOST_BITS and (not power or abs(left) > 1):
                raise TemplateLimitError(f"it makes a whole number of more than {MOST_BITS:,} bits")
        elif operator == "*":
            for some, count in ((left, right), (right, left)):
                if isinstance(count, int):
                    here.require(here.weigh(some) * max(0, require_short(count)))
        return here.made(super().call_binop(context, operator, left, right))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MOST_SOURCE:
            raise TemplateLimitError(f"it has {len(source):,} characters, more than {MOST_SOURCE:,}")
        template = _Counting().visit(super()._parse(source, name, filename))
        assert isinstance(template, nodes.Template)
        return template


class _Generation(Extension):
    """`{% generation %}` … `{% endgeneration %}`: training marks the assistant's words by it, and they stand inside."""

    tags = {"generation"}  # noqa: RUF012 (so Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        """The body, in a scope of its own: what is set inside is not seen behind it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class _Counting(NodeTransformer):
    """Writes a step into every loop, macro and piece of text, and a count around what makes values."""

    def get_visitor(self, node: nodes.Node) -> Callable[..., Any] | None:
        """What is done with a node; None leaves it, and goes on inside."""
        visitors: dict[type[nodes.Node], Callable[..., Any]] = {
            nodes.For: self._loop,
            nodes.Macro: self._macro,
            nodes.Output: self._output,
            nodes.Concat: self._concat,
            nodes.List: self._literal,
            nodes.Dict: self._literal,
            nodes.Tuple: self._tuple,
        }
        return visitors.get(type(node))

    def _loop(self, node: nodes.For) -> nodes.Node:
        """A step a turn, the turns that a condition skips too."""
        self.generic_visit(node)
        if node.test is not None:
            node.test = nodes.And(_call("spend"), node.test)
        node.body.insert(0, nodes.ExprStmt(_call("spend")))
        return node

    def _macro(self, node: nodes.Macro) -> nodes.Node:
        """A step a call."""
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call("spend")))
        return node

    def _output(self, node: nodes.Output) -> list[nodes.Node]:
        """The text of the template itself is counted before it; values count themselves as they are put out."""
        self.generic_visit(node)
        text = sum(len(child.data) for child in node.nodes if isinstance(child, nodes.TemplateData))
        return [nodes.ExprStmt(_call("spend", nodes.Const(text))), node] if text else [node]

    def _concat(self, node: nodes.Concat) -> nodes.Node:
        """The operator `~`."""
        self.generic_visit(node)
        return _call("joined", *node.nodes)

    def _literal(self, node: nodes.Expr) -> nodes.Node:
        """A list or a dictionary that is written out."""
        self.generic_visit(node)
        return _call("literal", node)

    def _tuple(self, node: nodes.Tuple) -> nodes.Node:
        """A tuple that is written out; others are names that are set."""
        self.generic_visit(node)
        return _call("literal", node) if node.ctx == "load" else node


def _call(name: str, *arguments: nodes.Expr) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), list(arguments), [], None, None)


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that counts; `wraps` keeps what Jinja notes on it."""
    leading = int(hasattr(function, "jinja_pass_arg"))

    @wraps(function)
    def counted(*arguments: Any, **named: Any) -> Any:
        here = budget()
        here.spend()
        context, values = arguments[:leading], list(arguments[leading:])
        if values:
            if name in {"join", "sum"} and not isinstance(values[0], str | jinja2.Undefined):
                values[0] = list(values[0])
            here.require_room(name, values[0], tuple(values[1:]), named)
        if name == "sum" and not isinstance(named.get("start", values[2] if len(values) > 2 else 0), int | float):
            raise TemplateLimitError("it adds up what are no numbers, which takes the square of their length")
        return here.made(function(*context, *values, **named))

    return counted


@jinja2.pass_context
def _put_out(context: Context, value: Any) -> Any:  # noqa: ARG001 (with the context, constants are not folded)
    budget().put_out(value)
    return value


class _Dict:
    """`dict` without what else Python's has."""

    def __call__(self, *arguments: Any, **named: Any) -> dict[Any, Any]:
        return dict(*arguments, **named)

    def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
        """A dictionary of keys."""
        return dict.fromkeys(*arguments)


class _Namespace(Namespace):
    """`namespace`, whose attributes may not begin with an underscore."""

    def __init__(*arguments: Any, **named: Any) -> None:
        self, *given = arguments
        for name in (attributes := dict(*given, **named)):
            _require_plain(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _require_plain(name)
        super().__setitem__(name, value)


def _require_plain(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace has no attribute {name!r}: it begins with an underscore")


def _to_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 (templates pass these as they please)
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    widths = [indent if isinstance(indent, int) else len(indent or ""), *map(len, separators or ())]
    if max(widths) > LAYOUT:
        raise TemplateLimitError(f"it writes JSON with an indent or a separator of more than {LAYOUT} characters")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRefusalError(str(message))


def _strftime_now(form: str) -> str:
    """The local time, without its zone."""
    return datetime.now().astimezone().replace(tzinfo=None).strftime(form)


@lru_cache(maxsize=1)
def _environment() -> CountingEnvironment:
    return CountingEnvironment()


@lru_cache(maxsize=16)
def compiled(source: str) -> jinja2.Template:
    """A template, ready to render inside `budgeted`. Raises what Jinja and Python's compiler raise."""
    return _environment().from_string(source)
