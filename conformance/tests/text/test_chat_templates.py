"""Templates render as Transformers renders them, from wherever they lie."""

import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from eredu.checkpoints.names import DRAFT_NAME, shipped_path
from eredu.contract.errors import TokenizerError
from eredu.text.chat_template import ChatTemplate
from eredu.text.gguf import load_metadata
from eredu.text.huggingface import load_directory
from eredu.text.template_files import named_templates

TOOLS = [{"type": "function", "function": {"name": "é<b>&'", "parameters": {"b": 1, "a": [None, True, 1.5]}}}]
GIVEN: tuple[dict[str, Any], ...] = ({}, {"tools": TOOLS, "enable_thinking": False, "documents": [{"text": "d"}]})
CHATS: tuple[list[dict[str, Any]], ...] = (
    [{"role": "user", "content": "Hi <b> & 'é' \u2028 {{ x }} [/b]"}],
    [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
        {"role": "assistant", "content": "<think>hm</think>\n\nyes", "tool_calls": None, "reasoning": "hm"},
        {"role": "tool", "content": "{}", "name": "é"},
        {"role": "user", "content": ""},
    ],
)
SOURCES = {
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{%- generation -%} {{ m.content }}"
    " {% endgeneration"
    " %}{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}{% endif %}{% endfor %}",
    "loop controls": "{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}{{ m.role }}"
    "{% if loop.index "
    "== 4 %}{% break %}{% endif %}{{ loop.length }}{{ loop.revindex0 }}"
    "{{ loop.previtem.role if loop.previtem is defined }}{% endfor %}",
    "loops": "{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% else %}none{% endfor %}"
    "{% for i in range(9) if i is odd %}"
    "{{ loop.index }}{{ i }}{{ loop.last }}{% endfor %}{% for c in 'abc' recursive %}{{ c }}{% endfor %}",
    "white space": "a\n  {% if true %}\n  b\n  {% endif %}\n\n{%- if false %} {% else %}  c{% endif -%}  \n d\n",
    "tojson": "{{ tools|tojson }}{{ tools|tojson(indent=2) }}{{ messages|tojson(ensure_ascii=true, sort_keys=true) }}"
    "{{ {'a': 1}|tojson(separators=(',', ':')) }}",
    "namespace": "{% set ns = namespace(last=-1, found=false) %}{% for m in messages %}"
    "{% if m.role == 'user' and not ns.found"
    " %}{% set ns.last = loop.index0 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.last }}{{ ns.found }}",
    "given": "{{ tools is defined }}{{ tools is none }}{{ documents is none }}{{ bos_token }}{{ eos_token }}"
    "{{ nothing }}"
    "{{ add_generation_prompt }}{{ enable_thinking }}{{ messages[0].nothing is defined }}"
    "{{ messages[2] is defined }}",
    "thoughts": "{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ 'tool_calls' in m }}"
    ";{% endfor %}",
    "macros": "{% macro show(m, tag='x') %}<{{ tag }}>{{ m.content }}{{ caller() if caller }}</{{ tag }}"
    ">{% endmacro %}"
    "{% for m in messages %}{{ show(m) }}{% call show(m, tag='y') %}!{% endcall %}{% endfor %}",
    "operators": "{{ 'a' + 'b' ~ 1 ~ none ~ [1, 'x'] }}{{ 2 ** 10 }}{{ '-' * 5 }}{{ 7 // 2 }}{{ 7 % 4 }}"
    "{{ '%s-%d' % ('a', 2) }}"
    "{{ [1] + [2] }}{{ (1, 2) }}{{ {'a': [1]} }}{{ messages[::-1][0].role }}{{ messages[-1]['role'] }}{{ [1] * 3 }}",
    "filters": "{{ ' x '|trim }}{{ messages|map(attribute='role')|join(', ') }}"
    "{{ 'ab'|upper|replace('A', 'c') }}{{ 'a'|center(5) }}"
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ '%s!'|format('x') }}"
    "{{ [3, 1]|sort|first }}{{ x|default('d') }}"
    "{{ 'a b'|title|wordcount }}{{ 'a\nb'|indent(2, true) }}{{ [1, 2, 3]|batch(2, 'x')|list }}"
    "{{ 3.14159|round(2) }}{{ '<'|e }}"
    "{{ {'b': 1, 'a': 2}|dictsort }}{{ [1, 2]|sum }}{{ {'a': 1}|items|list }}{{ 'x'|string|safe }}"
    "{{ [1, 1]|unique|list }}",
    "methods": "{{ 'a</think>b'.split('</think>')[-1].lstrip('\n') }}{{ ' a '.strip() }}"
    "{{ 'x'.join(['a', 'b']) }}{{ 'ab'.startswith('a') }}"
    "{{ '{}-{a}'.format(1, a=2) }}{{ 'a'.rjust(3) }}{{ 'aXa'.replace('X', 'y') }}{{ {'a': 1}.get('a') }}"
    "{{ 'a\nb'.splitlines() }}",
    "dict": "{{ dict(a=1, b=2) }}{{ dict.fromkeys(['x'], 1) }}{% set a, b = 1, (2, 3) %}{{ a }}{{ b }}",
    "blocks": "{% set x %}a{{ messages[0].role }}{% endset %}{{ x }}{% filter upper %}abc{% endfilter %}"
    "{# no #}{% raw %}{{ x }}{% endraw %}",
}  # fmt: skip


@pytest.mark.parametrize("chat", CHATS, ids=["short", "long"])
@pytest.mark.parametrize("given", GIVEN, ids=["nothing", "given"])
@pytest.mark.parametrize("name", SOURCES)
def test_a_template_renders_as_transformers_renders_it(
    name: str, given: dict[str, Any], chat: list[dict[str, Any]]
) -> None:
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    messages = [{key: value for key, value in message.items() if value is not None} for message in chat]
    (theirs,), _ = render_jinja_template(
        [messages], chat_template=SOURCES[name], add_generation_prompt=True, **special, **given
    )
    assert ChatTemplate(SOURCES[name], special).render(chat, **given) == theirs


def test_the_time_is_the_local_one() -> None:
    form = "%Y-%m-%d %Z%z %B"
    (theirs,), _ = render_jinja_template([CHATS[0]], chat_template=f"{{{{ strftime_now('{form}') }}}}")
    assert ChatTemplate(f"{{{{ strftime_now('{form}') }}}}").render(CHATS[0]) == theirs


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('alternate roles') }}", "refuses this chat: alternate roles. Change the messages"),
        ("{% for", "is no template in its line 1"),
        ("\n{% foo %}", "is no template in its line 2: Encountered unknown tag 'foo'"),
        ("{% break %}", "is no template: SyntaxError: 'break' outside loop"),
        ("{% for x in [1] %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}", "is no template: SyntaxError"),
        ("{% generation %}", "is no template in its line 1"),
        ("{{ messages[0].content.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% set ns = namespace() %}{% set ns._x = 1 %}", "begins with an underscore"),
        ("{{ messages[0]['content'] + 1 }}", "failed: TypeError"),
        ("{{ nothing.x }}", "failed: 'nothing' is undefined"),
        ("{{ range(1000000000) | list }}", "failed: OverflowError"),
        ("{{ 1 / 0 }}", "failed: ZeroDivisionError"),
        ("{{ 1e400 }}", "failed: NameError"),
        ("{% include 'x' %}", "failed: TypeError: no loader"),
    ],
)  # fmt: skip
def test_an_error_says_whose_it_is(source: str, words: str) -> None:
    with pytest.raises(TokenizerError) as caught:
        ChatTemplate(source).render([{"role": "user", "content": "Hi"}])
    assert words in str(caught.value)
    assert "roles and contents" not in str(caught.value)
    assert ("Change the messages" in str(caught.value)) == ("raise_exception" in source)


def test_what_is_no_json_is_shown_by_its_name_alone() -> None:
    class Text(str):
        __slots__ = ()

        def leak(self) -> str:
            return "leaked"

    messages = [{"role": "user", "content": Text("Hi"), "image": Path("x"), "pair": (1, {2: b"x"})}]
    shown = ChatTemplate("{{ messages[0].content }}{{ messages[0].image }}{{ messages[0].pair }}").render(messages)
    assert shown == "Hi<PosixPath>[1, {2: '<bytes>'}]"
    with pytest.raises(TokenizerError, match="has no attribute 'leak'"):
        ChatTemplate("{{ messages[0].content.leak() }}").render(messages)


PLACES = {
    "jinja": ("chat_template.jinja", "jinja\r\n file"),
    "tools": ("additional_chat_templates/tool_use.jinja", "tools file"),
    "rag": ("additional_chat_templates/rag.jinja", "rag file"),
    "config": ("tokenizer_config.json", "config"),
    "named": ("tokenizer_config.json", [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]),
    "nameless": ("tokenizer_config.json", [{"name": "rag", "template": "R"}]),
    "object": ("tokenizer_config.json", {"default": "O", "tool_use": "U"}),
}
PLACED = [
    names
    for count in range(1, 5)
    for names in combinations(PLACES, count)
    if len({"config", "named", "nameless", "object"} & set(names)) <= 1
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("checkpoint")
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(shipped_path("tiny-qwen3.5") / name, directory / name)
    return directory


def place(directory: Path, names: tuple[str, ...]) -> None:
    shutil.rmtree(directory / "additional_chat_templates", ignore_errors=True)
    for name in ("chat_template.jinja", "chat_template.json"):
        (directory / name).unlink(missing_ok=True)
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for file, content in map(PLACES.__getitem__, names):
        if file == "tokenizer_config.json":
            config["chat_template"] = content
        else:
            (directory / file).parent.mkdir(exist_ok=True)
            (directory / file).write_text(str(content), newline="")
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("names", PLACED, ids="+".join)
def test_the_place_that_wins_is_the_one_of_transformers(written: Path, names: tuple[str, ...]) -> None:
    place(written, names)
    mine = load_directory(written, {}).chat_template
    theirs = AutoTokenizer.from_pretrained(str(written), local_files_only=True)
    assert mine is not None
    for tools in (None, TOOLS):
        try:
            wanted = theirs.get_chat_template(tools=tools)
        except ValueError:
            with pytest.raises(TokenizerError, match=r"templates by the names \S+(, \S+)* and no default one"):
                mine.render(CHATS[0], tools=tools)
            continue
        assert mine.render(CHATS[0], tools=tools) == wanted


def test_the_file_of_processors_comes_last(written: Path) -> None:
    place(written, ())
    (written / "chat_template.json").write_text(json.dumps({"chat_template": "legacy"}))
    template = load_directory(written, {}).chat_template
    assert template is not None
    assert template.render(CHATS[0]) == "legacy"
    place(written, ("config",))
    (written / "chat_template.json").write_text(json.dumps({"chat_template": "legacy"}))
    template = load_directory(written, {}).chat_template
    assert template is not None
    assert template.render(CHATS[0]) == "config"


@pytest.mark.parametrize("value", [5, [5], [{"name": "default"}], {"default": 1}, [{"template": "x"}]])
def test_what_is_no_template_is_refused(value: Any) -> None:
    with pytest.raises(TokenizerError, match="place gives chat_template as a JSON"):
        named_templates(value, "place")


def test_a_gguf_may_name_a_template_for_tools() -> None:
    directory = shipped_path(DRAFT_NAME)
    tokens = json.loads((directory / "tokenizer.json").read_text())["model"]["vocab"]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": sorted(tokens, key=tokens.__getitem__),
        "tokenizer.ggml.merges": [],
        "tokenizer.chat_template": "plain",
        "tokenizer.chat_template.tool_use": "with tools",
    }
    template = load_metadata(metadata).chat_template
    assert template is not None
    assert [template.render(CHATS[0], tools=tools) for tools in (None, TOOLS)] == ["plain", "with tools"]
    with pytest.raises(TokenizerError, match="neither a template nor templates by name"):
        load_metadata({**metadata, "tokenizer.chat_template": 5})
