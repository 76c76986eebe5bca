#!/usr/bin/env python3
"""Writes tests/data/tokenizer/chat/templates.json: templates that use every feature, and the results of jinja2 with
transformers' settings; null if it refuses. With --check PROGRAM (build/release/render_lines) it
compares instead and prints the differences."""

import argparse
import json
import pathlib
import sys

from templates import template_oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent

VARIABLES = {
    "s": "Grüße, <|im_end|> 'x' \"y\"\n\tEnd  ", "name": "Ada", "n": 7, "z": 0, "f": 2.5, "t": True, "no": False, "nil": None,
    "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "empty": [], "d": {"b": 1, "a": [1, None, True, 2.0], "C": "x"},
    "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello", "tool_calls": None},
                 {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image"}]}],
    "people": [{"name": "Bo", "age": 3, "home": {"city": "Ulm"}}, {"name": "al", "age": 3, "home": {"city": "Bonn"}},
               {"name": "Cy", "age": 1}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
}

# Whole templates, where white space or statements matter.
TEMPLATES = [
    "a\n", "a\n\n", "a\r\nb\rc\r\n", "{# x #}\na", "a {#- x -#} b", "  {# x #}\n a", "{#-#}a", "{# a", "{% raw %}{{ x }}{% endraw %}!",
    "a {%- raw -%}  {{ x }} {% y %}  {%- endraw -%}  b", "  {% raw %}\n {{ 1 }}\n  {% endraw %}\nb", "{% raw %}x", "{{", "{% if", "{{ 1 }", "{% %}",
    "  {% if t %}\n  x\n  {% endif %}\ny", "a  {% if t %}b{% endif %}  \nc", "a\n  {%+ if t %}b{%+ endif %}\nc", "a\n  {%- if t -%}\n  b\n  {%- endif -%}\n  c",
    "{{ 1 }}\n{{ 2 }}\n", "a  {{- 1 -}}  b", "{{-1}}", "{{ -1 }}", "{%- set x = 1 +%}\n{{ x }}", "{% if t -%}\n x {%+ endif +%}\n y", "\u00a0{%- set x = 1 %}a",
    "{% if z %}a{% elif n > 8 %}b{% elif n %}c{% else %}d{% endif %}", "{% if no %}a{% else %}b{% endif %}", "{% if nope %}a{% endif %}", "{% if t: %}a{% endif %}",
    "{% for x in list %}{{ x }},{% endfor %}", "{% for x in list if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}",
    "{% for x in empty %}a{% else %}none{% endfor %}", "{% for x in nope %}a{% else %}none{% endfor %}", "{% for x in nil %}a{% endfor %}", "{% for x in 3 %}a{% endfor %}",
    "{% for c in 'añ𝄞' %}{{ loop.index0 }}{{ c }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}", "{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% for x in list %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in list recursive %}{{ x }}{% endfor %}", "{% for k in tree recursive %}{{ k.v }}@{{ loop.depth }}({{ loop(k.kids) }}){% endfor %}", "{% for x in list %}{{ loop(list) }}{% endfor %}",
    "{% for a in list %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }} {% endfor %}{{ loop.index }};{% endfor %}", "{% for x in list %}{{ loop }}{% endfor %}",
    "{% set ns = namespace(go=true) %}{% for x in range(5) if ns.go %}{{ x }}{% if x == 2 %}{% set ns.go = false %}{% endif %}{% endfor %}", "{{ loop }}",
    "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}", "{% set a = 1, %}{{ a }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}", "{% set x | upper | replace('A', 'o') %}a{{ name }}{% endset %}{{ x }}",
    "{% set none = 1 %}", "{% set x.y = 1 %}", "{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns['a'] }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a + ns.b }}{{ ns }}",
    "{% set ns = namespace() %}{% set ns._a = 1 %}", "{% set ns = namespace(_a=1) %}", "{% set ns = namespace() %}{% set ns.items = 3 %}{{ ns.items }}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(x=0) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "{% macro m(a, b=2, c=b) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c=4) }} {{ m(b=5, a=6) }}",
    "{% macro m(a, b) %}[{{ a }}|{{ b }}]{% endmacro %}{{ m(1) }}{{ m() }}", "{% macro m(a) %}{{ a + 1 }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{{ m(1) }}", "{% macro m() %}x{% endmacro %}{{ m(a=1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 'a', k=2) }}", "{% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}", "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(4) }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}", "{% macro m(x) %}{{ caller(x) }}-{{ caller(2) }}{% endmacro %}{% call(y) m(1) %}<{{ y }}>{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ name }}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ m }}{% macro m() %}{% endmacro %}{{ m }}{{ m.name }}",
    "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}\n{{ m(1) }}\n", "{% filter upper %}a{{ name }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aXa{% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}",
    "{% generation %}a{{ name }}{% endgeneration %}b", "  {% generation %}\n  a\n  {% endgeneration %}\nb", "{% generation %}{% set x = 1 %}{% endgeneration %}{{ x }}", "{% print 1, 2 %}", "{% include 'x' %}", "{% do x %}", "{% unknown %}", "{% endif %}", "{% if t %}", "{% for x in list %}a",
    "{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content if m.content is string else m.content | map(attribute='text') | select | join(' ')) | trim }}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m['role'] }}{% if m.tool_calls is defined %}({{ m.tool_calls }}){% endif %} {% endfor %}", "{{ raise_exception('no') }}", "{{ raise_exception() }}",
    "{% set ns = namespace(a=none) %}{% set ns.a = ns %}{{ ns is defined }}", "{{ ('x' ~ '\\n') * 3 }}", "{% set x = joiner(', ') %}{% for i in list %}{{ x() }}{{ i }}{% endfor %}", "{{ strftime_now('%d %B %Y, %H:%M') }}{{ strftime_now('') }}",
   
]

# What {{ }} writes.
EXPRESSIONS = [
    "1 + 2 * 3", "(1 + 2) * 3", "7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 % -3", "7 / 2", "6 / 2", "2 ** 10", "2 ** -1", "2 ** 3 ** 2", "-2 ** 2", "1 / 0", "1 // 0", "1 % 0", "1.5 + 1", "7.5 // 2", "-7.5 % 2", "7.5 % -2", "1e16", "1e15", "1.0", "0.1 + 0.2", "1e-5", "0.0001",
    "1e300 * 1e10", "123456789.123", "5e-324", "1_000", "0x1F", "0o17", "0b101", "007", "1.e", "1e3", "1E+2", "9223372036854775807", "t + 1", "t * 2", "no + no", "-t", "+1", "--1", "not t", "not not 1", "1 - - 1", "'a' + 'b'", "'a' + 1", "1 + 'a'", "[1] + [2]", "(1,) + (2,)", "[1] + (2,)", "'ab' * 2", "2 * 'ab'", "[1, 2] * 2", "'a' * -1", "'a' - 'b'", "nil + 1", "nope + 1",
    "1 ~ 'a' ~ none ~ true ~ 1.0 ~ [1]", "nope ~ 'x'", "1 < 2 < 3", "1 < 3 < 2", "1 == 1.0", "t == 1", "'a' < 'b'", "'a' < 1", "[1, 2] < [1, 3]", "(1, 2) == [1, 2]", "none == none", "nope == nope2", "nope == none", "{'a': 1} == {'a': 1.0}", "1 != 2", "n >= 7", "n <= 6", "n > nope", "1 in list", "9 not in list", "'a' in 'cat'", "1 in 'cat'", "'a' in d", "'zz' in d", "1 in nope", "1 in nil", "'x' in {'x': 1}.values()", "(1, 2) in [(1, 2)]",
    "1 and 0", "0 or 'x'", "'' or none", "1 if t else 2", "1 if no else 2", "1 if no", "(1 if no) is defined", "1 if no else 2 if no else 3", "'a' if t and no or t", "not 1 == 2", "1 is defined and 2", "x is defined or 3", "s", "nil", "t", "f", "n", "list", "d", "()", "(1,)", "(1, 2)", "1, 2", "[]", "{}", "[1, [2, 'x']]", "{'a': 1, 2: 'b', none: true, 1.5: ()}", "{[1]: 2}", "['\"', \"'\", '\\'\"', '\\n\\t\\\\', 'é\\x07\\u200b𝄞']", "[1, 2,]", "{'a': 1,}", "[1 2]", "nope", "nope.x", "nope['x']", "nope()", "nope is undefined", "d.nope", "d.nope.x", "d['nope']", "d['nope'] is defined", "nil.x", "nil.x.y", "n.x",
    "n()", "d.b", "d['a'][3]", "d.a.1", "d.a[9]", "d.a[-1]", "d.a[-9]", "{'items': 1}.items()", "{'items': 1}['items']", "d['get']('b')", "s[0]", "s[-3]", "s[99]", "s['upper']()", "list[0]", "list.0", "list[true]", "list['x']", "list[1.0]", "list[0:2]", "list[::-1]", "list[::2]", "list[-2:]", "list[5:]", "list[:-1]", "list[::0]", "list[2:0:-1]", "list[nil:2]", "list['a':]", "s[1:4]", "s[::-1]", "'añ𝄞b'[1:3]", "'añ𝄞b'|length", "(1, 2, 3)[1:]", "d[1:]", "range(5)[1:3]|list", "range(5)[::-1]|list", "list[0:1, 2]",
    "'a' 'b'", "'\\x41\\u00e9\\U0001d11e\\101\\q\\\\'", "\"it's\"", "'a\\\nb'", "'\\u12'", "'unclosed", "\"a'b\"", "true", "True", "none", "None", "false", "1 is number", "t is number", "t is integer", "1 is integer", "1.0 is float", "1 is float", "t is boolean", "1 is boolean", "t is true", "1 is true", "no is false", "'a' is string", "1 is string", "d is mapping", "list is mapping", "list is sequence", "'a' is sequence", "d is sequence", "1 is sequence", "nope is sequence", "range(2) is sequence", "d.items() is sequence", "list is iterable", "1 is iterable", "nope is iterable", "d.items() is iterable", "nil is none", "n is none", "nope is none", "n is defined",
    "nope is defined", "3 is odd", "4 is even", "'a' is odd", "9 is divisibleby 3", "9 is divisibleby(2)", "1 is eq 1", "1 is equalto 2", "1 is ne 2", "1 is lt 2", "1 is gt(2)", "2 is ge 2", "2 is le 1", "1 is sameas 1", "nil is sameas none", "t is sameas true", "1 is in [1, 2]", "'a' is in 'b'", "1 is not none", "not 1 is none", "'abc' is lower", "'ABC' is upper", "'1' is upper", "range is callable", "1 is callable", "s.upper is callable", "'upper' is filter", "'nope' is filter", "'odd' is test", "1 is nope", "1 is odd is even", "n is number and t", "n is defined and n is not none and n > 3",
    "s|upper", "s|lower", "s|title", "s|capitalize", "s|trim", "s|length", "s|count", "'xxaxx'|trim('x')", "s|replace('G', 'g')", "'aaa'|replace('a', 'b', 2)", "'ab'|replace('', '-')", "123|replace(1, 'x')", "nope|upper", "n|upper", "'hello-wORLD (foo) [bar] it\\'s'|title", "'straße ŉ ﬁ'|upper", "'ΑΣ'|lower", "'ǆ'|title", "nil|upper", "s|tojson", "d|tojson", "d|tojson(indent=2)", "d|tojson(indent=0)", "d|tojson(indent='ab')", "[]|tojson(indent=2)", "{}|tojson(indent=4)", "d|tojson(sort_keys=true)", "d|tojson(separators=(',', ':'))", "d|tojson(true)", "'é𝄞\\x7f\\x00'|tojson(ensure_ascii=true)", "'é𝄞\\x7f\\x00/<>&'|tojson", "nope|tojson",
    "range(2)|tojson", "(1, 2)|tojson", "{1: 2, none: 3, true: 4, 1.5: 5}|tojson", "{(1, 2): 3}|tojson", "1e20|tojson", "1.0|tojson", "nil|tojson", "d|tojson(2)", "d|tojson|safe", "'\"' + (d|tojson|safe)", "s is escaped", "(s|safe) is escaped", "d|string", "d|tojson|length", "d|dictsort", "d|dictsort(true)", "d|dictsort(reverse=true)", "{'a': 2, 'b': 1}|dictsort(by='value')", "{'a': 1, 2: 1}|dictsort", "list|dictsort", "d|items|list", "nope|items|list", "d.items()", "d.keys()", "d.values()", "d.keys()|list", "d.items()|first", "d.items()|last", "d.items()[0]", "d|length", "d|list", "d|first", "d.get('b')", "d.get('q')", "d.get('q', 5)", "d.get()", "d.copy()",
    "d.pop('b')", "d.update({})", "d.pop is defined", "list.append(1)", "list.index(1)", "list.index(9)", "list.count(1)", "list.sort()", "list.copy()", "list|join", "list|join(', ')", "words|join('-')|upper", "people|join(',', attribute='name')", "nope|join", "n|join", "list|first", "list|last", "empty|first", "empty|last", "empty|first is defined", "'abc'|first", "'abc'|last", "list|length", "n|length", "nope|length", "nil|length", "list|map('string')|join(':')", "words|map('upper')|list", "people|map(attribute='name')|list", "people|map(attribute='home.city', default='?')|list", "people|map(attribute='home.city')|list", "people|map()|list", "words|map('replace', 'a', 'x')|list", "d.a|map('default', 0)|list",
    "list|select('odd')|list", "list|select|list", "[0, 1, '', none, 'x']|select|list", "list|reject('gt', 1)|list", "people|selectattr('age', 'eq', 3)|map(attribute='name')|list", "people|selectattr('home')|list|length", "people|rejectattr('home')|map(attribute='name')|list", "people|selectattr('home', 'defined')|list|length", "messages|selectattr('role', 'equalto', 'user')|list|length", "messages|selectattr('role', 'in', ['user', 'system'])|map(attribute='role')|join(',')", "list|select('odd')|length", "list|select('odd')|first", "list|select('odd')|last", "(list|select('odd'))[0] is defined", "list|reverse|list", "'abc'|reverse", "d|reverse|list", "list|map('abs')|reverse|list", "list|sort", "list|sort(reverse=true)",
    "words|sort", "words|sort(case_sensitive=true)", "people|sort(attribute='name')|map(attribute='name')|list", "people|sort(attribute='age,name')|map(attribute='name')|list", "[1, 'a']|sort", "words|unique|list", "words|unique(true)|list", "[1, 1.0, true, 'a', 'A']|unique|list", "list|min", "list|max", "words|min", "words|max(true)", "empty|min", "people|max(attribute='age')|tojson", "list|sum", "people|sum(attribute='age')", "[[1], [2]]|sum(start=[])", "words|sum", "-3|abs", "(-3)|abs", "-2.5|abs", "'a'|abs", "2.5|round", "3.5|round", "2.675|round(2)", "7|round", "1234.5|round(-2)", "2.1|round(method='ceil')", "2.9|round(0, 'floor')", "2.15|round(1, 'x')", "42.7|int", "'42'|int", "' 42 '|int", "'4_2'|int", "'x'|int", "'x'|int(9)",
    "'42.9'|int", "'1e3'|int", "'0x1f'|int(base=16)", "'ff'|int(base=16)", "none|int", "t|int", "nope|int", "'-5'|int", "'1.5'|float", "'x'|float", "'x'|float(1.5)", "1|float", "none|float", "'inf'|float", "'1e400'|float", "nope|default('x')", "nil|default('x')", "nil|default('x', true)", "''|d('x', true)", "nope|default", "d.nope|default([])", "nope.x|default(1)", "list|list", "'abc'|list", "n|list", "list|string|length", "list|batch(2)|list", "list|batch(2, 'x')|list", "list|slice(2)|list", "list|slice(2, 'x')|list", "people|groupby('age')|length", "(people|groupby('age'))[0][0]", "'a\\nb\\n\\nc'|indent", "'a\\nb\\n\\nc'|indent(2, true)", "'a\\nb\\n\\nc'|indent('> ', blank=true)", "n|indent", "'<a & \"b\">'|escape",
    "'<'|e", "'<' + ('<'|safe)", "('<'|safe) + '<' + '>'", "('<'|safe|trim) + '<'", "('<'|e|e) + s", "('<'|safe) ~ '<'", "['<'|safe, '<']|join + '<'", "d|tojson|safe|length", "'x'|center(5)", "'xy'|center(5)", "'a b  c'|wordcount", "'foo bar baz qux'|truncate(9)", "'foo bar baz qux'|truncate(9, true)", "'abc'|nope", "'%s is %d'|format('x', 3)", "'%(a)s'|format(a=1)", "d|attr('b')", "d|attr('items') is callable", "n|string + 'x'", "-1|string", "1 + 2|string", "'a' ~ 1|string|upper", "s.upper()", "s.lower()", "s.title()", "s.capitalize()", "'they\\'re bill\\'s'.title()", "s.strip()", "'xxaxx'.strip('x')", "'xyaxy'.lstrip('yx')", "'xyaxy'.rstrip('yx')", "'a'.strip(none)", "'a b  c '.split()", "'a,b,,c'.split(',')", "'a,b,c'.split(',', 1)", "'a,b,c'.split(',', maxsplit=1)", "'a b c'.split(none, 1)", "'a,b,c'.rsplit(',', 1)", "' a b  c '.rsplit(none, 1)", "'a'.split('')", "''.split()", "''.split(',')", "'a</think>b'.split('</think>')[-1]",
    "'a\\nb\\r\\nc\\n'.splitlines()", "'a\\nb\\n'.splitlines(true)", "'abc'.startswith('a')", "'abc'.startswith(('x', 'a'))", "'abc'.endswith('bc')", "'abc'.startswith('b', 1)", "'abc'.startswith(['a'])", "'abc'.endswith('b', 0, 2)", "'abc'.replace('b', 'x')", "'aaa'.replace('a', 'b', 2)", "'a'.replace('a')", "'-'.join(['a', 'b'])", "'-'.join([1])", "'-'.join('abc')", "'banana'.find('an')", "'banana'.rfind('an')", "'banana'.find('an', 2)", "'banana'.find('x')", "'banana'.index('x')", "'banana'.count('an')", "'banana'.count('')", "'abc'.isalpha()", "'ab1'.isalnum()", "'12'.isdigit()", "''.isdigit()", "' '.isspace()", "'ab'.isupper()", "'ab'.islower()", "'a'.ljust(3, '.')", "'a'.rjust(3) ~ '|'",
    "'ab'.center(5, '*')", "'-5'.zfill(4)", "'a-b-c'.partition('-')", "'a-b-c'.rpartition('-')", "'abc'.partition('-')", "'prefix'.removeprefix('pre')", "'prefix'.removesuffix('fix')", "'abc'.nope()", "'abc'.nope is defined", "'abc'.__class__", "'abc'.__class__.x", "''.__class__ is defined", "'{} {}'.format(1, 'a')", "'{1}{0}{x}'.format(1, 2, x=3)", "'{:>5}|{:<5}|{:^5}|{:*^5}'.format('a', 'b', 'c', 'd')", "'{:05d} {:+d} {:,} {:x} {:#X} {:b}'.format(42, 3, 1234567, 255, 255, 5)", "'{:.2f} {:e} {:g} {:.1%}'.format(3.14159, 12345.678, 0.00001, 0.256)", "'{0.x}'.format({'x': 1})", "'{a[0]} {a[1]}'.format(a=[1, 2])", "'{!r:>5}'.format('a')", "'{{}}'.format(1)", "'{'.format(1)", "'{}'.format()", "'{:.1}'.format('abc')", "'{:q}'.format(1)", "'{}'.format(1.0)", "'{:6}|'.format(1.5)",
    "'%s %r' % ('a', 'b')", "'%s' % 'a'", "'%s' % [1]", "'%d%%' % 5", "'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)", "'%.2f %e %g' % (1.005, 1.5, 100000.0)", "'%x %X %o %c' % (255, 255, 8, 'z')", "'%(b)s' % d", "'%s %s' % ('a',)", "'%s' % ('a', 'b')", "'%d' % 'a'", "'%d' % 3.9", "'%5.1f|' % 3.14159", "'%q' % 1", "'%' % 1", "'%s' % none", "'%10s|%-10s|%.2s' % ('ab', 'cd', 'efg')", "range(3)|list", "range(1, 4)|list", "range(5, 0, -2)|list", "range(0)|list", "range(3)|length", "range(200000)", "range(1, 2, 0)", "range('a')", "2 in range(3)", "dict(a=1)", "dict({'a': 1}, b=2)", "dict([('x', 1)])", "dict(1)", "namespace(a=1).a", "list(1)", "[x for x in y]", "lambda: 1", "1 if", "a b", "1 +", "(1", "[1", "{1}", "x..y", "x.", "x|", "x is", "f(a=1, 2)",
    "range(*[1, 4])|list", "dict(**{'a': 1})", "d|tojson(**{'indent': 1})", "range(1, *[3])|list", "not", "s|default('x')|upper|lower|trim", "(s|upper).lower()", "s.strip().upper()|length", "people[0].home.city", "people[0]['home']['city']|upper", "people[2].home.city is defined", "people[-1].name", "messages[0].content|trim + '!'", "(messages|first).role", "(messages|last).content[0].text", "messages[-1]['content']|selectattr('type', 'equalto', 'text')|map(attribute='text')|join", "messages|map(attribute='role')|unique|list", "loop is defined", "strftime_now is defined", "true is sameas true", "[none, true]|tojson", "'a' if nope else 'b'", "nope is defined and nope.x", "(nope|default({})).x is defined", "1 is not defined", "'x' is not in ['x']", "10 // 3 * 3 + 10 % 3 == 10", "(2, 1)|sort", "'b' > 'a' and 'B' < 'a'", "1e2|int", "3 * 'ab' ~ 1", "-5|abs", "(1, 'a', none, 2.5)", "[{'a': [1, {'b': none}]}]", "1 == true == 1.0", "not nope", "'%s' % nope", "nope * 2", "{'a': nope}|tojson", "[nope]", "{1: 'a', true: 'b'}", "1.0 in list", "'' in ''", "s.find('')", "words[:2] + words[3:]", "''.join(words)|upper", "(words|join).count('a')", "2.0 ** 0.5", "1 // 0.3", "1e308 * 10 == 1e308 * 100", "7.0|int // 2", "0 * -1.0", "[1.5, -0.0, 100000000000000000000.0]",
]


def cases():
    return TEMPLATES + ["{{ " + expression + " }}" for expression in EXPRESSIONS]


def check(program):
    answers = template_oracle.render_with_ballast(program, [(case, {}, VARIABLES) for case in cases()])
    differences = 0
    for case, answer in zip(cases(), answers):
        wanted = template_oracle.render(case, VARIABLES)
        if answer.get("text") != wanted:
            differences += 1
            print(repr(case), "\n  jinja2:", repr(wanted), "\n  ballast:", repr(answer.get("text", answer.get("error"))))
    print(f"{len(answers)} templates, {differences} differences")
    return differences != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", metavar="PROGRAM")
    arguments = parser.parse_args()
    if arguments.check:
        sys.exit(check(arguments.check))
    golden = [[case, template_oracle.render(case, VARIABLES)] for case in cases()]
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in golden)
    path = ROOT / "tests/data/tokenizer/chat/templates.json"
    variables = json.dumps(VARIABLES, ensure_ascii=False, separators=(",", ":"))
    path.write_text('{"variables":' + variables + ',"cases":[\n' + lines + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
