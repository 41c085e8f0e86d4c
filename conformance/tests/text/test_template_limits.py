"""Templates that run on are stopped: in seconds, in bounded memory, by one typed line."""

import resource
import sys
from time import monotonic

import pytest

from eredu.contract.errors import TokenizerError
from eredu.contract.message import MOST_CHARACTERS
from eredu.text import template_budget
from eredu.text.chat_template import ChatTemplate

CHAT = [{"role": "user", "content": "Hi"}]
MOST_SECONDS = 20.0
"""A stopped template takes less on a busy machine too: twice what the clock allows."""
PATIENCE_S = 0.2
"""What the clock allows where these tests wait for it."""
MOST_MEMORY = 300 * 2**20
DOUBLED = "{% set ns = namespace(x=START) %}{% for i in range(60) %}{% set ns.x = STEP %}{% endfor %}{{ ns.x }}"
MILLION = "('b' * 1000000)"


def doubled(start: str, step: str) -> str:
    return DOUBLED.replace("START", start).replace("STEP", step)


SIZES = {
    "a doubled text": doubled("'ab'", "ns.x + ns.x"),
    "a doubled text, joined": doubled("'ab'", "ns.x ~ ns.x"),
    "a doubled list": doubled("[1]", "ns.x + ns.x"),
    "a list of itself, twice": doubled("[1]", "[ns.x, ns.x]"),
    "a tuple of itself": doubled("(1,)", "(ns.x, ns.x)"),
    "an object of itself": doubled("[1]", "{'a': ns.x, 'b': ns.x}"),
    "dict of itself": doubled("[1]", "dict(a=ns.x, b=ns.x)"),
    "a doubled block": "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set y %}{{ ns.x }}"
    "{{ ns.x }}{% endset %}"
    "{% set ns.x = y %}{% endfor %}",
    "namespaces in lists": "".join(f"{{% set n{i} = namespace() %}}{{% set l{i} = [n{i}, n{i}] %}}"
    "" for i in range(40))
    + "".join(f"{{% set n{i + 1}.x = l{i} %}}" for i in range(39)) + "{{ l39 }}",
    "a centred text": "{{ 'a'|center(10**9) }}",
    "a centred text, by method": "{{ 'a'.center(10**9) }}",
    "padding": "{{ 'a'.ljust(10**9) }}{{ 'a'.rjust(10**9) }}",
    "zeros": "{{ '1'.zfill(10**9) }}",
    "tabs": "{{ ('\t' * 1000).expandtabs(10**8) }}",
    "a block through a filter": "{% filter center(10**9) %}x{% endfilter %}",
    "a power": "{{ 2**(2**33) }}",
    "a power of a power": "{{ (9**9999)**9999 }}",
    "a product": "{{ (10**4000) * (10**4000) }}",
    "a repeated text": "{{ 'a' * 10**9 }}",
    "a repeated text, turned round": "{{ 10**9 * 'a' }}",
    "a repeated list": "{{ ([1] * 10**9)|length }}",
    "a format": "{{ '%1000000000d' % 1 }}",
    "a format as filter": "{{ '%1000000000d'|format(1) }}",
    "a width among arguments": "{{ '%*d'|format(1000000000, 1) }}",
    "a precision": "{{ '%.1000000000f' % 1.0 }}",
    "a brace format": "{{ '{:1000000000}'.format(1) }}",
    "a nested brace format": "{{ '{0:{1}}'.format(1, 1000000000) }}",
    "many fields": f"{{{{ ('%(a)s' * 1000000) % {{'a': {MILLION}}} }}}}",
    "an indent": "{{ 'ab'|indent(10**9) }}",
    "a replacement": f"{{{{ {MILLION}|replace('b', {MILLION}) }}}}",
    "a replacement of nothing": f"{{{{ {MILLION}.replace('', {MILLION}) }}}}",
    "a separator": f"{{{{ range(99999)|join({MILLION}) }}}}",
    "a separator's method": f"{{{{ {MILLION}.join([''] * 100000) }}}}",
    "a separator of a stream": f"{{{{ {MILLION}.join(range(99)|map('string')) }}}}",
    "wrapped words": f"{{{{ {MILLION}|wordwrap(1, true, {MILLION}) }}}}",
    "a translation": f"{{{{ {MILLION}.translate({{98: {MILLION}}}) }}}}",
    "an indent of JSON": "{{ messages|tojson(indent=10**9) }}",
    "a batch": "{{ [1]|batch(10**9, 'x')|list }}",
    "slices": "{{ [1]|slice(10**9)|list }}",
    "digits": "{{ 1.5|round(10**9) }}",
    "characters as a list": "{{ ('a' * 8000000)|list|length }}",
    "pieces": "{{ ('a' * 8000000).split('a')|length }}",
    "bytes": "{{ (1).to_bytes(10**10, 'big') }}",
    "a sum of lists": "{{ (range(99999)|batch(1)|list)|sum(start=[])|length }}",
    "much output": "{% for i in range(99999) %}{{ 'x' * 100000 }}{% endfor %}",
    "much text": "{% for i in range(99999) %}" + "x" * 10_000 + "{% endfor %}",
    "many texts": "{% set ns = namespace(x=[]) %}{% for i in range(999) %}"
    "{% set ns.x = ns.x + ['a' * i * 9999] %}{% endfor %}",
    "a long template": "a" * 300_000,
}  # fmt: skip
TIMES = {
    "nested loops": "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3,
    "loops without a turn": "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "macros that branch": "{% macro f(n) %}{% if n < 40 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}"
    "{% endmacro %}{{ f(0) }}",
    "loops that branch": "{% for i in [1, 2] recursive %}{% if loop.depth < 50 %}{{ loop([1, 2]) }}"
    "{% endif %}{% endfor %}",
    "searches": "{% set a = 'a' * 8000000 %}{% for i in range(99999) %}{{ 'b' in a }}{% endfor %}",
    "sorting": "{% set a = range(99999)|list %}{% for i in range(99999) %}{{ a|sort|length }}{% endfor %}",
    "copies": "{% set a = 'a' * 8000000 %}{% for i in range(99999) %}{% set b = a[::-1] %}{% endfor %}",
    "a growing list": "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = ns.x + [i] %}"
    "{% endfor %}",
}  # fmt: skip
DEPTHS = {
    "a macro of itself": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "a loop of itself": "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "a namespace of itself": "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
    "a namespace in its list": "{% set ns = namespace(a=1) %}{% set ns.x = [ns, ns] %}{{ ns }}",
    "a deep list": "{% set ns = namespace(x=[1]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}"
    "{% endfor %}{{ ns.x }}",
    "JSON of a deep list": "{% set ns = namespace(x=[1]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}"
    "{% endfor %}"
    "{{ ns.x|tojson }}",
    "brackets": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "blocks": "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
    "loops": "{% for x in [1] %}" * 30 + "{% endfor %}" * 30,
    "a long sum": "{{ 1 " + "+ 1 " * 20_000 + "}}",
}  # fmt: skip


def stopped(source: str) -> str:
    """What the error says, which comes in time and takes little memory."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, monotonic()
    with pytest.raises(TokenizerError) as caught:
        ChatTemplate(source).render(CHAT)
    assert monotonic() - start < MOST_SECONDS
    unit = 1 if sys.platform == "darwin" else 1024
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < MOST_MEMORY
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) <= MOST_CHARACTERS
    assert "roles and contents" not in message
    return message


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_bounded(name: str) -> None:
    assert "was stopped: it " in stopped(SIZES[name])


@pytest.mark.parametrize("name", TIMES)
def test_time_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_budget, "MOST_SECONDS", PATIENCE_S)
    assert "was stopped: it takes longer than 0.2 s" in stopped(TIMES[name])


def test_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_budget, "MOST_STEPS", 10_000)
    assert "takes more than 10,000 steps" in stopped(TIMES["nested loops"])


@pytest.mark.parametrize("name", DEPTHS)
def test_depth_is_bounded(name: str) -> None:
    assert "RecursionError" in (message := stopped(DEPTHS[name])) or "nested blocks" in message


def test_long_chats_are_far_from_the_bounds() -> None:
    """A thousand turns of a thousand characters, through a macro, a list that grows, and JSON."""
    source = (
        "{% macro show(m) %}{{ '<|' ~ m.role ~ '|>' + m.content|trim }}{% endmacro %}"
        "{% set ns = namespace(seen=[]) %}"
        "{% for m in messages %}{% set ns.seen = ns.seen + [m] %}{{ show(m) }}{% endfor %}{{ ns.seen|tojson|length }}"
    )
    chat = [{"role": "user", "content": "x" * 1000}] * 1000
    assert len(ChatTemplate(source).render(chat)) > 1_000_000


def test_each_rendering_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_budget, "MOST_STEPS", 500)
    template = ChatTemplate("{% for i in range(200) %}{{ i }}{% endfor %}")
    assert len({template.render(CHAT) for _ in range(5)}) == 1
