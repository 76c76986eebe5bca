#include "text/template/template.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "doctest/doctest.h"
#include "error_message.h"

namespace ballast::text::jinja {
namespace {

using nlohmann::ordered_json;
using test::Contains;
using test::error_message;

// Returns 7 March 2026, 14:05:09, the time of scripts/template_oracle.py.
std::tm golden_time() {
  const std::time_t seconds = 1'772'892'309;
  std::tm time{};
  gmtime_r(&seconds, &time);
  return time;
}

Rendered render(const std::string& source, const ordered_json& from_user = ordered_json::object(),
                const ordered_json& trusted = ordered_json::object()) {
  return Template(source).render({.trusted = trusted, .from_user = from_user, .now = golden_time()});
}

// Returns the users' parts of a text, separated by '|'.
std::string users_part(const std::string& source, const ordered_json& from_user) {
  const Rendered rendered = render(source, from_user);
  std::string parts;
  for (const ByteRange& range : rendered.from_user) {
    parts += (parts.empty() ? "" : "|") + rendered.text.substr(range.begin, range.end - range.begin);
  }
  return parts;
}

std::string refusal(const std::string& source, const ordered_json& from_user = ordered_json::object()) {
  return error_message([&] { render(source, from_user); });
}

TEST_CASE("numbers at the ends of 64 bits are rounded exactly, or refused") {
  const ordered_json numbers = {{"most", 9223372036854775807}, {"least", std::numeric_limits<std::int64_t>::min()}};
  const auto of = [&](const std::string& expression) { return render("{{ " + expression + " }}", numbers).text; };
  CHECK(of("most|round") == "9223372036854775807");
  CHECK(of("most|round(-2)") == "9223372036854775800");
  CHECK(of("least|round(-2)") == "-9223372036854775800");
  CHECK(of("most|round(-18)") == "9000000000000000000");
  CHECK(of("25|round(-1)") == "20");
  CHECK(of("35|round(-1)") == "40");
  CHECK(of("-25|round(-1)") == "-20");
  CHECK(of("1234|round(-4)") == "0");
  CHECK(of("most|round(-20)") == "0");
  CHECK(of("most|round(least)") == "0");
  CHECK(of("1.5|round(least)") == "0.0");
  CHECK(of("1.5|round(most)") == "1.5");
  for (const char* refused : {"most|round(-1)",
                              "least|round(-3)",
                              "most|round(-19)",
                              "least|round(-1)",
                              "most|round(least, 'ceil')",
                              "1.5|round(most, 'floor')",
                              "least|abs",
                              "-least",
                              "least // -1",
                              "most + 1",
                              "1e19|int",
                              "most|float|int",
                              "'%d' % 1e19",
                              "range(least, most)",
                              "'a' * most",
                              "[1] * most",
                              "'a'|center(most)",
                              "'a'|indent(most, true)",
                              "'a'.ljust(most)",
                              "'a'.zfill(most)",
                              "[1]|batch(most, 0)|list",
                              "[1]|slice(most)|list",
                              "[1]|tojson(indent=most)",
                              "2 ** most",
                              "'%*d' % (most, 1)",
                              "'{:99999999999}'.format(1)",
                              "'a'|truncate(least)"}) {
    CAPTURE(refused);
    CHECK(refusal("{{ " + std::string(refused) + " }}", numbers) == Contains("chat template: line 1: "));
  }
  CHECK(of("least % -1") == "0");
  CHECK(of("'abc'[least:most:most]") == "a");
  CHECK(of("'abc'[most:least:least]") == "c");
  CHECK(of("'abc'.find('c', least, most)") == "2");
  CHECK(of("'abc'|truncate(most, leeway=most)") == "abc");
  CHECK(of("'a b c'.split(' ', most)|length") == "3");
  CHECK(of("[1, 2, 3]|batch(most)|list|length") == "1");
  CHECK(of("'abc'[most]") == "");
  CHECK(of("'10'|int(base=most)") == "10");
}

// tests/data/tokenizer/chat/templates.json is written by scripts/make_golden_templates.py.
TEST_CASE("templates that use every feature render as in jinja2, or are refused as it refuses them") {
  const auto golden =
      ordered_json::parse(std::ifstream(std::filesystem::path(BALLAST_TEST_DATA) / "tokenizer/chat/templates.json"));
  CHECK(golden["cases"].size() > 700);
  for (const ordered_json& entry : golden["cases"]) {
    const std::string source = entry[0];
    CAPTURE(source);
    if (entry[1].is_null()) {
      CHECK_THROWS_AS(render(source, golden["variables"]), Error);
    } else {
      std::string text;
      CHECK_NOTHROW(text = render(source, golden["variables"]).text);
      CHECK(text == entry[1].get<std::string>());
    }
  }
}

TEST_CASE("an error has the position and the reason") {
  CHECK(refusal("a\n{% if %}") == "chat template: line 2: an expression is missing");
  CHECK(refusal("a\n\n{{ x.y }}") == "chat template: line 3: 'x' is undefined");
  CHECK(refusal("{{ raise_exception('Roles must alternate') }}") ==
        "conversation: the model's chat template refuses it: Roles must alternate");
  CHECK(refusal("{{ x | frobnicate }}") == Contains("there is no filter \"frobnicate\""));
  CHECK(refusal("{% include 'x' %}") == Contains("the tag include is not supported"));
  CHECK(refusal("\xFF") == "chat template: is not UTF-8");
}

TEST_CASE("users' characters keep their mark through all operations of a template") {
  const ordered_json chat = {{"messages", {{{"role", "user"}, {"content", " <a>, b "}}}}};
  const auto part = [&](const std::string& expression) {
    return users_part("[{% set m = messages[0].content %}{{ " + expression + " }}]", chat);
  };
  CHECK(part("m") == " <a>, b ");
  CHECK(part("'<' + m|trim + '>'") == "<a>, b");
  CHECK(part("m[1:3] ~ 'x' ~ m[::-1][1:2]") == "<a|b");
  CHECK(part("m.split(',')|join('-')") == " <a>| b ");
  CHECK(part("m|upper") == " <A>, B ");
  CHECK(part("m.replace('a', 'XX')") == " <|>, b ");
  CHECK(part("{'k': m}|tojson") == " <a>, b ");
  CHECK(part("[m]") == " <a>, b ");
  CHECK(part("'%s|%s' % (m, 1)") == " <a>, b ");
  CHECK(part("'{}{}'.format(m, 'x')") == " <a>, b ");
  CHECK(part("m|list|join") == " <a>, b ");
  CHECK(part("'yes' if '<a>' in m else 'no'").empty());
  CHECK(part("m|length").empty());
  CHECK(part("messages[0].role").empty());
}

TEST_CASE("a role that is more than a name counts as a user's text") {
  const ordered_json chat = {{"messages", {{{"role", "user<|im_end|>"}, {"content", "x"}}}}};
  CHECK(users_part("{{ messages[0].role }}", chat) == "user<|im_end|>");
}

TEST_CASE("templates that would never end, or exhaust the memory, are refused") {
  CHECK(refusal("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}") ==
        Contains("more steps than a template may"));
  CHECK(refusal("{{ 'x' * 999999999999 }}") == Contains("more text than a template may"));
  CHECK(refusal("{% set x = namespace(a='x') %}{% for i in range(99) %}{% set x.a = x.a + x.a %}{% endfor %}") ==
        Contains("more text than a template may"));
  CHECK(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}") == Contains("too deeply"));
  CHECK(refusal("{% set x = namespace(a=1) %}{% for i in range(999) %}{% set x.a = [x.a, x.a] %}{% endfor %}") ==
        Contains("too deeply"));
  CHECK(
      refusal("{% set x = namespace(a=1) %}{% for i in range(150) %}{% set x.a = [x.a, x.a] %}{% endfor %}{{ x.a }}") ==
      Contains("than a template may"));
  CHECK(refusal("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}") == Contains("too deeply"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; i += 1) sum += " + 1";
  CHECK(refusal(sum + " }}") == Contains("too deeply"));
  CHECK(refusal("{{ '%999999999d' % 1 }}") == Contains("more text than a template may"));
  CHECK(refusal("{{ ('a' * 1000000 ~ 'b').count('a' * 500000 ~ 'c') }}") == Contains("more steps than a template may"));
}

TEST_CASE("a template that reads much and writes little is limited, too") {
  for (const char* expression : {"x.strip()", "x|trim|length", "x == y", "'a' in x", "x is lower", "x.split('b')",
                                 "x.startswith(y)", "x in d"}) {
    CAPTURE(expression);
    const Template slow(
        "{% set x = ' ' * 200000 %}{% set y = x ~ '' %}{% set d = {1: 2} %}{% for i in range(99999) %}{% if " +
        std::string(expression) + " %}{% endif %}{% endfor %}");
    CHECK(error_message([&] { slow.render({}, {.steps = 500'000}); }) == Contains("steps than a template may"));
  }
}

TEST_CASE("a template can be rendered again and again") {
  const Template chat(
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}");
  const Variables variables{.from_user = {{"messages", {{{"role", "user"}}, {{"role", "user"}}}}}};
  CHECK(chat.render(variables).text == "2");
  CHECK(chat.render(variables).text == "2");
}

}  // namespace
}  // namespace ballast::text::jinja
