#include "ballast/constraint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error_message.h"
#include "files/utf8.h"
#include "text/constraint/constraint_compiler.h"
#include "text/constraint/constraint_grammar.h"
#include "text/constraint/json_schema_grammar.h"
#include "text/constraint/reply_constraint.h"
#include "text/reply/offered_tool.h"
#include "text/reply/tool_constraint.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using Kind = Constraint::Kind;

constexpr std::size_t kCacheBytes = std::size_t{1} << 24;
constexpr int kEndOfReply = 261;

/// A tokenizer of bytes with its compiler.
struct Fixture {
  std::unique_ptr<Tokenizer> tokenizer =
      test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"eos_token", "<|end|>"}});
  ConstraintCompiler compiler{*tokenizer, 300, kCacheBytes};

  ConstraintMatcher matcher(const Constraint& constraint) {
    return ConstraintMatcher(compiler.compile(constraint), {kEndOfReply});
  }
  ConstraintMatcher schema(const std::string& text) { return matcher({.kind = Kind::kJsonSchema, .text = text}); }

  /// Returns whether the constraint allows the whole text, and an end after it.
  bool allows(ConstraintMatcher matcher, std::string_view text) const {
    for (const int id : tokenizer->encode(text)) {
      if (!matcher.accept(id)) return false;
    }
    return matcher.accept(kEndOfReply) && matcher.ended();
  }
  bool allows_schema(const std::string& schema_text, std::string_view text) {
    return allows(schema(schema_text), text);
  }

  std::string error_of(const Constraint& constraint) {
    return error_message([&] { compiler.compile(constraint); });
  }
  std::string error_of_schema(const std::string& text) { return error_of({.kind = Kind::kJsonSchema, .text = text}); }
};

std::vector<int> ids_in(std::span<const std::uint32_t> mask) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < mask.size() * 32; ++i) {
    if ((mask[i / 32] >> (i % 32) & 1U) != 0) ids.push_back(static_cast<int>(i));
  }
  return ids;
}

/// Writes a text by random allowed tokens, those that close something likelier the longer it is.
std::string random_text(const Tokenizer& tokenizer, ConstraintMatcher matcher, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (std::size_t length = 0; !matcher.ended(); ++length) {
    REQUIRE(length < 20'000);
    const std::vector<int> ids = ids_in(matcher.allowed());
    REQUIRE_FALSE(ids.empty());
    std::vector<int> closing;
    std::ranges::copy_if(ids, std::back_inserter(closing), [&](int id) {
      const std::string bytes = tokenizer.token_bytes(id);
      return id == kEndOfReply || bytes == "\"" || bytes == "}" || bytes == "]";
    });
    const bool closes = !closing.empty() && random() % 256 < std::min<std::size_t>(20 + length, 250);
    const std::vector<int>& from = closes ? closing : ids;
    const int id = from[random() % from.size()];
    REQUIRE(matcher.accept(id));
    if (id != kEndOfReply) text += tokenizer.token_bytes(id);
  }
  return text;
}

TEST_CASE("every kind of constraint allows its texts and no others" * doctest::skip(!has_constraints())) {
  Fixture fixture;
  const auto allows = [&](const Constraint& constraint, std::string_view text) {
    return fixture.allows(fixture.matcher(constraint), text);
  };
  const Constraint object = {.kind = Kind::kJsonObject};
  CHECK(allows(object, R"({"a": [1, -2.5e3, "x\n\u00e9", null, true], "b":{}})"));
  CHECK(allows(object, "{\n  \"a\": 1,\n  \"b\": 2\n}"));
  CHECK_FALSE(allows(object, "[1]"));
  CHECK_FALSE(allows(object, R"({"a": 01})"));
  CHECK_FALSE(allows(object, R"({"a": "\ud800"})"));
  CHECK(allows(object, R"({"a": "\ud83d\ude00"})"));

  Constraint compact = object;
  compact.compact = true;
  CHECK(allows(compact, R"({"a":[1,2]})"));
  CHECK_FALSE(allows(compact, R"({"a": [1,2]})"));

  const Constraint regex = {.kind = Kind::kRegex, .text = R"(^[a-c]{2}-\d+(\.|é)?$)"};
  CHECK(allows(regex, "ab-12"));
  CHECK(allows(regex, "ab-12é"));
  CHECK_FALSE(allows(regex, "ad-12"));
  CHECK_FALSE(allows(regex, "ab-"));

  const Constraint choice = {.kind = Kind::kChoice, .text = {}, .choices = {"hello", "hell!", "日本"}};
  CHECK(allows(choice, "hello"));
  CHECK(allows(choice, "日本"));
  CHECK_FALSE(allows(choice, "hell"));

  const Constraint grammar = {.kind = Kind::kGrammar, .text = "root ::= item+\nitem ::= \"he\" | [x-z] # comment\n"};
  CHECK(allows(grammar, "hexyhe"));
  CHECK_FALSE(allows(grammar, ""));

  const Constraint tag = {
      .kind = Kind::kStructuralTag,
      .text = R"({"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f="], "tags": [
        {"type": "tag", "begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
         "end": "</f>"}]}})"};
  CHECK(allows(tag, "hello <f=a>12</f> and"));
  CHECK_FALSE(allows(tag, "hello <f=b>12</f>"));
  CHECK_FALSE(allows(tag, "hello <f=a>x</f>"));
}

TEST_CASE("a token may span several parts of a text, and a character several tokens" *
          doctest::skip(!has_constraints())) {
  Fixture fixture;
  // " hello" is one token, "é" two.
  ConstraintMatcher matcher = fixture.matcher({.kind = Kind::kRegex, .text = " (h)(ell)?o(é|ê)"});
  const std::vector<int> ids = fixture.tokenizer->encode(" helloé");
  REQUIRE(ids.size() == 3);
  for (const int id : ids) {
    CHECK(std::ranges::count(ids_in(matcher.allowed()), id) == 1);
    REQUIRE(matcher.accept(id));
  }
  CHECK(matcher.complete());
  CHECK(ids_in(matcher.allowed()) == std::vector<int>{kEndOfReply});
}

TEST_CASE("special and unused ids are never a part of a text" * doctest::skip(!has_constraints())) {
  Fixture fixture;
  ConstraintMatcher matcher = fixture.matcher({.kind = Kind::kRegex, .text = ".*"});
  const std::vector<int> ids = ids_in(matcher.allowed());
  CHECK(std::ranges::none_of(ids, [](int id) { return id > kEndOfReply; }));
  CHECK(std::ranges::count(ids, kEndOfReply) == 1);  // the text may end
  ConstraintMatcher one = fixture.matcher({.kind = Kind::kRegex, .text = "..*"});
  CHECK(std::ranges::count(ids_in(one.allowed()), kEndOfReply) == 0);
  CHECK_FALSE(one.accept(kEndOfReply));
  CHECK_FALSE(one.accept(299));
}

TEST_CASE("a matcher that is rolled back is as one that never went further" * doctest::skip(!has_constraints())) {
  Fixture fixture;
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}},
      "b": {"enum": ["hello", "x"]}}, "required": ["b"]})";
  const std::vector<int> ids = fixture.tokenizer->encode(R"({"a": [1.5, 2], "b": "hello"})");
  ConstraintMatcher matcher = fixture.schema(schema);
  std::vector<std::vector<int>> masks;
  for (const int id : ids) {
    masks.push_back(ids_in(matcher.allowed()));
    REQUIRE(matcher.accept(id));
  }
  REQUIRE(matcher.accept(kEndOfReply));
  REQUIRE(matcher.ended());
  matcher.roll_back(1);
  CHECK_FALSE(matcher.ended());
  for (std::size_t i = ids.size(); i-- > 0;) {
    matcher.roll_back(1);
    CHECK(ids_in(matcher.allowed()) == masks[i]);
  }
  for (const int id : ids) REQUIRE(matcher.accept(id));
  matcher.roll_back(ids.size());
  CHECK(ids_in(matcher.allowed()) == masks[0]);
}

TEST_CASE("text that must come is known in advance" * doctest::skip(!has_constraints())) {
  Fixture fixture;
  ConstraintMatcher matcher =
      fixture.matcher({.kind = Kind::kJsonSchema,
                       .text = R"({"type": "object", "properties": {"hello": {"const": 5}}, "required": ["hello"]})",
                       .compact = true});
  CHECK(matcher.forced_text() == R"({"hello":5})");
}

TEST_CASE("schemas allow what is valid and nothing else" * doctest::skip(!has_constraints())) {
  Fixture fixture;
  struct Example {
    std::string schema;
    std::vector<std::string> valid;
    std::vector<std::string> invalid;
  };
  const std::vector<Example> examples = {
      {R"({"type": "integer", "minimum": -5, "exclusiveMaximum": 120})",
       {"-5", "0", "7", "119", "99"},
       {"-6", "120", "1000", "1.5", "-0", "05"}},
      {R"({"type": "number", "minimum": 0.25, "maximum": 1.5})",
       {"0.25", "0.250", "0.3", "1", "1.0", "1.4999", "1.5", "1.50"},
       {"0.24", "0.2", "0", "1.51", "1.6", "2", "-1"}},
      {R"({"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 0})",
       {"-0.5", "-0.999", "-0.001"},
       {"-1", "0", "-1.5", "0.5", "-1.0"}},
      {R"({"type": "integer", "multipleOf": 7})", {"0", "14", "-21", "700"}, {"1", "13", "-20"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("é日\n")", R"("\ud83d\ude00a")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type": "object", "properties": {"a": {"maxLength": 1, "type": "string"}, "b": {"type": "array",
           "items": {"type": "string", "minLength": 2}}, "c": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 2}]}},
           "additionalProperties": {"type": "string", "maxLength": 3}})",
       {R"({"a": "x", "b": ["ab", "abc"], "c": "yy", "longer": "zzz"})", R"({"b": [], "c": null})", R"({"a": ""})"},
       {R"({"a": "xx"})", R"({"b": ["a"]})", R"({"b": ["ab", ""]})", R"({"c": "yyy"})", R"({"d": "zzzz"})"}},
      {R"({"type": "string", "anyOf": [{"maxLength": 2}, {"minLength": 4}]})", {R"("ab")"}, {R"("abc")"}},
      {R"({"type": "string", "pattern": "^x-[0-9]"})", {R"("x-1")", R"("x-1 and \"more\"")"}, {R"("x-")", R"("ax-1")"}},
      {R"({"type": "string", "pattern": "^[a-z]+(-[0-9]+)?$", "minLength": 3, "maxLength": 7})",
       {R"("abc")", R"("abcd-12")"},
       {R"("ab")", R"("abcdefgh")", R"("abcdef-1234")"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"const": "a"}], "items": false})",
       {"[]", "[1]", R"([1, "a"])"},
       {R"(["a"])", R"([1, "a", 2])"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[true, false]"},
       {"[]", "[true,true,true]", "[1]"}},
      {R"({"properties": {"a": {"type": "integer"}, "ab": true}, "required": ["ab"], "additionalProperties": {"type": "null"}, "type": "object"})",
       {R"({"ab": 5})", R"({"a": 1, "ab": [], "x": null, "aba": null})"},
       {R"({"a": 1})", R"({"ab": 1, "a": null})", R"({"ab": 1, "x": 5})", R"({"ab": 1, "\u0061": null})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2, "maxProperties": 2})",
       {R"({"a": 1, "b": 2})", R"({"b": 1, "c": 2})"},
       {R"({"a": 1})", R"({"a": 1, "b": 2, "c": 3})", "{}"}},
      {R"({"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": false})",
       {"{}", R"({"x_a": 1})"},
       {R"({"x_a": "s"})", R"({"y": 1})"}},
      {R"({"$ref": "#/$defs/list", "$defs": {"list": {"type": "object", "properties": {"next": {"$ref": "#/$defs/list"}}}}})",
       {"{}", R"({"next": {"next": {}}})"},
       {R"({"next": 1})"}},
      {R"({"allOf": [{"type": ["integer", "string"]}, {"minimum": 3}, {"type": "integer"}]})", {"3"}, {"2", R"("a")"}},
      {R"({"anyOf": [{"type": "string"}, {"type": "integer"}], "enum": ["a", 1, null, 2.5]})",
       {R"("a")", "1"},
       {"null", "2.5", R"("b")"}},
      {R"({"oneOf": [
          {"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k"]},
          {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}]})",
       {R"({"k": "a", "x": 1})", R"({"k": "b"})"},
       {R"({"k": "b", "x": 1})", R"({"k": "c"})"}},
      {R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/s", "maxLength": 1}}, "$defs": {"s": {"type": "string"}}})",
       {R"({"a": "x"})"},
       {R"({"a": "xx"})", R"({"a": 1})"}},
      {R"({"not": {"type": ["object", "array", "string", "number"]}})", {"true", "null"}, {"1", "{}"}},
      {R"({"type": "string", "format": "date"})", {R"("2024-02-28")"}, {R"("2024-13-01")", R"("x")"}},
      {R"(true)", {"1", R"([{"a": null}])"}, {"x"}},
  };
  for (const Example& example : examples) {
    CAPTURE(example.schema);
    for (const std::string& text : example.valid) {
      CAPTURE(text);
      CHECK(fixture.allows_schema(example.schema, text));
    }
    for (const std::string& text : example.invalid) {
      CAPTURE(text);
      CHECK_FALSE(fixture.allows_schema(example.schema, text));
    }
  }
}

TEST_CASE("random texts under a schema are JSON that the schema describes" * doctest::skip(!has_constraints())) {
  Fixture fixture;
  const std::string schema = R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
      "tags": {"type": "array", "items": {"enum": ["a", "hello"]}}, "any": {}}, "required": ["name", "age"]})";
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::string text = random_text(*fixture.tokenizer, fixture.schema(schema), seed);
    CAPTURE(text);
    const json value = json::parse(text);
    CHECK(value.at("name").is_string());
    CHECK(value.at("age").get<int>() <= 150);
    for (const json& tag : value.value("tags", json::array())) CHECK((tag == "a" || tag == "hello"));
  }
}

TEST_CASE("what a grammar cannot hold is refused by its name and its place") {
  const auto refusal = [](const std::string& schema) {
    return error_message([&] { json_schema_grammar(schema, {}); });
  };
  const auto property = [&](const std::string& schema) {
    return refusal(R"({"type": "object", "properties": {"a": )" + schema + "}}");
  };
  for (const char* keyword : {"if", "dependentRequired", "dependentSchemas", "contains"}) {
    CAPTURE(keyword);
    const std::string schema = std::string(R"({"type": ["array", "object"], ")") + keyword + R"(": {}, "then": {}})";
    CHECK(property(schema) == Contains("#/properties/a"));
    CHECK(property(schema) == Contains(std::string("`") + keyword + "`"));
    CHECK(property(schema) == Contains("is not supported"));
  }
  CHECK(property(R"({"type": "array", "uniqueItems": true})") == Contains("`uniqueItems` is not supported"));
  CHECK(property(R"({"not": {"minLength": 3}})") == Contains("`not` is not supported"));
  CHECK(property(R"({"type": "number", "multipleOf": 0.1})") == Contains("`multipleOf` 0.1 is not supported"));
  CHECK(property(R"({"oneOf": [{"type": "integer"}, {"minimum": 3}]})") == Contains("`oneOf` whose alternatives may"));
  CHECK(property(R"({"$ref": "http://example.com/a"})") == Contains("`$ref` to another document"));
  CHECK(property(R"({"type": "string", "pattern": "(?=a)b"})") == Contains("`(?=` in the expression"));
  CHECK(property(R"({"type": "string", "pattern": "(a)\\1"})") == Contains("`\\1` in the expression"));
  CHECK(property(R"({"type": "string", "pattern": "a", "minLength": 5})") == Contains("no text of the allowed length"));
  CHECK(property(R"({"type": "strin"})") == Contains("`type` must be"));
  CHECK(property(R"({"$ref": "#/$defs/x"})") == Contains("is not in the schema"));
  CHECK(refusal(R"({"type": "integer", "minimum": 3, "maximum": 2})") == Contains("no value matches"));
  CHECK(refusal(R"({"$ref": "#"})") == Contains(""));
  CHECK(refusal(R"({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}})") ==
        Contains("no value matches"));
  CHECK(refusal("[") == Contains("json schema"));
  CHECK(refusal("3") == Contains("must be an object"));
}

TEST_CASE("constraints that would take much time or memory are refused or bounded" *
          doctest::skip(!has_constraints())) {
  Fixture fixture;
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "(";
  CHECK(fixture.error_of({.kind = Kind::kGrammar, .text = "root ::= " + deep}) == Contains("nested too deeply"));
  CHECK(fixture.error_of({.kind = Kind::kRegex, .text = deep}) == Contains("nested too deeply"));
  CHECK(fixture.error_of({.kind = Kind::kGrammar, .text = R"(root ::= (("a"{1000}){1000}){1000})"}) ==
        Contains("too large"));
  CHECK(fixture.error_of({.kind = Kind::kRegex, .text = "((a{1000}){1000}){1000}"}) == Contains("too large"));
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += R"({"items": )";
  CHECK(fixture.error_of_schema(nested) == Contains("levels deep"));
  // Counts do not unroll.
  CHECK(fixture.allows_schema(R"({"type": "array", "items": {"const": 1}, "maxItems": 1000000000})", "[1,1]"));
  CHECK(fixture.allows_schema(R"({"type": "string", "maxLength": 1000000000})", R"("ab")"));
  // In arguments that are not JSON each length is a state.
  const std::string tag =
      R"({"format": {"type": "json_schema", "style": "qwen_xml", "json_schema": {"type": "object", "properties":
         {"a": {"type": "string", "maxLength": 1000}}}}})";
  CHECK(fixture.error_of({.kind = Kind::kStructuralTag, .text = tag}) == Contains("`maxLength` above 64"));
  std::string values;
  for (int i = 0; i < 20'000; ++i) values += (i == 0 ? "\"v" : ", \"v") + std::to_string(i) + "\"";
  CHECK(fixture.allows_schema(R"({"enum": [)" + values + "]}", R"("v19999")"));
  // Combinations of alternatives would be exponential.
  std::string all_of;
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    all_of += (i == 0 ? "" : ", ") + std::string(R"({"anyOf": [{"required": ["a)") + n + R"("]}, {"required": ["b)" +
              n + R"("]}]})";
  }
  CHECK(fixture.error_of_schema(R"({"type": "object", "allOf": [)" + all_of + "]}") == Contains("too large"));
}

TEST_CASE("bad grammars and tags are errors of one line" * doctest::skip(!has_constraints())) {
  Fixture fixture;
  const auto grammar = [&](const std::string& text) {
    return fixture.error_of({.kind = Kind::kGrammar, .text = text});
  };
  const auto tag = [&](const std::string& text) {
    return fixture.error_of({.kind = Kind::kStructuralTag, .text = text});
  };
  CHECK(grammar("") == Contains("grammar: "));
  CHECK(grammar("root ::= missing") == Contains("\"missing\" is not defined"));
  CHECK(grammar("root ::= \"a") == Contains("grammar: "));
  CHECK(grammar("start ::= \"a\"") == Contains("root"));
  CHECK(tag("{}") == Contains("has no `format`"));
  CHECK(tag(R"({"format": {"type": "other"}})") == Contains("structural tag: "));
  CHECK(tag(R"({"format": {"type": "json_schema", "json_schema": {"contains": {}}}})") == Contains("`contains`"));
  CHECK(fixture.error_of({.kind = Kind::kChoice}) == Contains("has no texts"));
  CHECK(grammar("root ::= \"a").find('\n') == std::string::npos);
}

TEST_CASE("a constraint whose texts no token begins is refused" * doctest::skip(!has_constraints())) {
  const auto tokenizer = test::make_tiny_tokenizer();
  // The first 60 tokens have no small letters.
  ConstraintCompiler compiler(*tokenizer, 60, kCacheBytes);
  const auto error_of = [&](const Constraint& constraint) {
    return error_message([&] { compiler.compile(constraint); });
  };
  CHECK(error_of({.kind = Kind::kChoice, .choices = {"abc", "xyz"}}) ==
        "choice: the model's vocabulary has no token that begins such a text");
  CHECK(error_of({.kind = Kind::kChoice, .choices = {"abc", "0"}}) == "no error");
  CHECK(error_of({.kind = Kind::kRegex, .text = "(abc)?"}) == "no error");  // the empty text
}

TEST_CASE("compiled constraints are kept within the cache's bytes" * doctest::skip(!has_constraints())) {
  const auto tokenizer = test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"eos_token", "<|end|>"}});
  constexpr std::size_t kBytes = 200'000;
  ConstraintCompiler compiler(*tokenizer, 300, kBytes);
  const auto compile = [&](int i) {
    return compiler.compile(
        {.kind = Kind::kJsonSchema,
         .text = R"({"type": "object", "properties": {"a)" + std::to_string(i) + R"(": {"type": "integer"}}})"});
  };
  const auto first = compile(0);
  CHECK(compile(0) == first);
  for (int i = 1; i < 200; ++i) {
    compile(i);
    REQUIRE(compiler.cached_bytes() <= kBytes);
  }
  CHECK(compiler.cached_bytes() > kBytes / 2);
  CHECK(compile(0) != first);
  CHECK(compile(0) == compile(0));
}

TEST_CASE("a reply may think before its constrained answer, as its format writes it" *
          doctest::skip(!has_constraints())) {
  json data = test::tiny_tokenizer_json();
  int id = 262;
  for (const char* mark : {"<|channel|>", "<|message|>", "<|start|>", "<|return|>", "[THINK]", "[/THINK]"}) {
    data["added_tokens"].push_back({{"id", id++}, {"content", mark}, {"special", true}, {"normalized", false}});
  }
  Fixture fixture;
  fixture.tokenizer = test::make_tiny_tokenizer(data, {{"eos_token", "<|end|>"}});
  ConstraintCompiler compiler(*fixture.tokenizer, 300, kCacheBytes);
  const Constraint answer = {.kind = Kind::kChoice, .text = {}, .choices = {"yes", "no"}};
  const auto allows = [&](std::string_view format, ReplyState state, std::string_view text) {
    const Constraint whole =
        constrain_reply(answer, find_reply_format(*fixture.tokenizer, format), state, *fixture.tokenizer);
    return fixture.allows(ConstraintMatcher(compiler.compile(whole), {kEndOfReply}), text);
  };
  using enum ReplyState;
  // Marks that are text.
  CHECK(allows("think", kBegin, "yes"));
  CHECK(allows("think", kBegin, "<think>hm, <i> no</think>\n\nyes"));
  CHECK_FALSE(allows("think", kBegin, "<think>hm</think>maybe"));
  CHECK_FALSE(allows("think", kBegin, "hm</think>yes"));
  CHECK(allows("think", kThinking, "hm</think>yes"));
  CHECK_FALSE(allows("think", kThinking, "yes"));
  CHECK(allows("think", kAnswer, "no"));
  CHECK_FALSE(allows("think", kAnswer, "<think>hm</think>no"));
  // Marks that are tokens.
  CHECK(allows("mistral", kBegin, "[THINK]any[/THINK]no"));
  CHECK(allows("mistral", kThinking, "any[/THINK]no"));
  CHECK_FALSE(allows("mistral", kThinking, "any[/THINK]any"));
  CHECK(allows("none", kBegin, "no"));
}

TEST_CASE("lengths of strings hold within structural tags, in calls and after thinking" *
          doctest::skip(!has_constraints())) {
  Fixture fixture;
  const auto text_of = [](std::size_t size) { return std::string(size, 'x'); };
  const std::string schema =
      R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 70, "maxLength": 90}}, "required": ["name"]})";
  // Two tools; the name of one is longer than the strings of the other's property `name` may be.
  const std::vector<OfferedTool> tools = read_tools(parse_tools(
      R"([{"name": "long", "parameters": )" + schema +
      R"(}, {"name": "shorter", "parameters": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}, "required": ["name"]}}])"));
  const ReplyFormat& hermes = find_reply_format(*fixture.tokenizer, "hermes");
  const ToolConstraint calls =
      tool_constraint(hermes, *fixture.tokenizer, tools, {.kind = ToolChoice::Kind::kRequired});
  const Constraint tag = {.kind = Kind::kStructuralTag,
                          .text = nlohmann::ordered_json{{"type", "structural_tag"}, {"format", calls.format}}.dump()};
  const Constraint whole =
      constrain_reply(tag, hermes, ReplyState::kThinking, *fixture.tokenizer, 200, calls.ending_thinking);
  const auto call = [](const std::string& name, const std::string& value) {
    return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {\"name\": \"" + value + "\"}}\n</tool_call>";
  };
  for (const Constraint& constraint : {tag, whole}) {
    const std::string before = constraint.text == tag.text ? "" : "say \"abcdefg\" {\"name\": \"abcd\"}</think>";
    const auto allows = [&](const std::string& text) {
      return fixture.allows(fixture.matcher(constraint), before + text);
    };
    CHECK(allows(call("shorter", "abc")));
    CHECK(allows(call("shorter", "")));
    CHECK_FALSE(allows(call("shorter", "abcd")));
    CHECK(allows(call("long", text_of(70))));
    CHECK(allows(call("long", text_of(90))));
    CHECK_FALSE(allows(call("long", text_of(69))));
    CHECK_FALSE(allows(call("long", text_of(91))));
    CHECK(allows(call("shorter", "abc") + "\n" + call("long", text_of(80)) + call("shorter", "ab")));
    CHECK_FALSE(allows(call("long", text_of(80)) + "\n" + call("shorter", "abcd")));
    CHECK_FALSE(allows(call("shorter", "abc") + call("long", "abc")));
  }
  // An answer after thinking, in which strings have any length; a list's members have other lengths than the others.
  const Constraint answer = {
      .kind = Kind::kJsonSchema,
      .text = R"({"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 100}, "minItems": 1})"};
  const Constraint thought = constrain_reply(answer, hermes, ReplyState::kBegin, *fixture.tokenizer);
  CHECK(thought.kind == Kind::kStructuralTag);
  const auto allows = [&](const std::string& text) { return fixture.allows(fixture.matcher(thought), text); };
  CHECK(allows("[\"" + text_of(100) + "\", \"ab\"]"));
  CHECK_FALSE(allows("[\"" + text_of(101) + "\"]"));
  CHECK(allows("<think>[\"a\"]</think>\n\n[\"ab\"]"));
  CHECK_FALSE(allows("<think>[\"ab\"]</think>\n\n[\"a\"]"));
  CHECK_FALSE(allows("<think>hm</think>[\"" + text_of(101) + "\"]"));
}

TEST_CASE("masks and rolled back matchers agree with lengths in structural tags" * doctest::skip(!has_constraints())) {
  // Tokens in which JSON begins, ends, or both.
  json data = test::tiny_tokenizer_json();
  int id = 262;
  for (const char* token : {"=\"", "=\"\"", "\"\"", "=\"a", "=\"abc", "\",b=\"", "\",b=\"\""}) {
    data["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", false}, {"normalized", false}});
  }
  Fixture fixture;
  fixture.tokenizer = test::make_tiny_tokenizer(data, {{"eos_token", "<|end|>"}});
  ConstraintCompiler compiler(*fixture.tokenizer, 300, kCacheBytes);
  const std::string text = R"({"type": "string", "minLength": 1, "maxLength": 2})";
  const auto node = [&](const std::string& schema) {
    return R"({"type": "json_schema", "json_schema": )" + schema + "}";
  };
  const auto constant = [](const std::string& value) {
    return R"({"type": "const_string", "value": ")" + value + "\"}";
  };
  const Constraint tag = {.kind = Kind::kStructuralTag,
                          .text = R"({"type": "structural_tag", "format": {"type": "sequence", "elements": [)" +
                                  constant("a=") + "," + node(text) + "," + constant(",b=") + "," +
                                  node(R"({"type": "string", "minLength": 3, "maxLength": 80})") + "]}}"};
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    ConstraintMatcher matcher(compiler.compile(tag), {kEndOfReply});
    std::vector<int> ids;
    std::string written;
    while (ids.size() < 200) {
      const std::span<const std::uint32_t> mask = matcher.allowed();
      std::vector<int> allowed;
      for (int token = 0; token < 300; ++token) {
        if ((mask[static_cast<std::size_t>(token) / 32] >> (static_cast<unsigned>(token) % 32) & 1U) != 0)
          allowed.push_back(token);
      }
      REQUIRE_FALSE(allowed.empty());
      // Quotes are likelier, so that texts end.
      const int quote = fixture.tokenizer->encode("\"").front();
      const bool ends = random() % 3 == 0 && std::ranges::find(allowed, quote) != allowed.end();
      const int token = ends ? quote : allowed[random() % allowed.size()];
      REQUIRE(matcher.accept(token));
      if (token == kEndOfReply) break;
      ids.push_back(token);
      written += fixture.tokenizer->token_bytes(token);
      if (random() % 4 == 0) {  // what is taken back may be chosen again
        const std::size_t back = random() % ids.size();
        matcher.roll_back(back);
        for (std::size_t i = ids.size() - back; i < ids.size(); ++i) REQUIRE(matcher.accept(ids[i]));
      }
    }
    const std::size_t middle = written.find("\",b=\"");
    REQUIRE(middle != std::string::npos);
    const auto count = [](const std::string& json_text) {
      const std::string value = json::parse(json_text);
      return files::count_code_points(value);
    };
    const std::size_t first = count(written.substr(2, middle + 1 - 2));
    const std::size_t second = count(written.substr(middle + 4));
    CHECK((first >= 1 && first <= 2));
    CHECK((second >= 3 && second <= 80));
  }
}

TEST_CASE("thinking of a limited number of tokens may come before calls, and calls of Kimi end it" *
          doctest::skip(!has_constraints())) {
  json data = test::tiny_tokenizer_json();
  int id = 262;
  for (const char* mark :
       {"<|channel|>", "<|message|>", "<|start|>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<|return|>"}) {
    data["added_tokens"].push_back({{"id", id++}, {"content", mark}, {"special", true}, {"normalized", false}});
  }
  Fixture fixture;
  fixture.tokenizer = test::make_tiny_tokenizer(data, {{"eos_token", "<|return|>"}});
  ConstraintCompiler compiler(*fixture.tokenizer, 300, kCacheBytes);
  const int end = id - 1;
  const std::vector<OfferedTool> tools = read_tools(parse_tools(
      R"([{"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}])"));
  const auto allows = [&](std::string_view name, ToolChoice::Kind kind, std::size_t budget, std::string_view text) {
    const ReplyFormat& format = find_reply_format(*fixture.tokenizer, name);
    const ToolConstraint calls = tool_constraint(format, *fixture.tokenizer, tools, {.kind = kind}, nullptr, budget);
    Constraint whole = {.kind = Kind::kStructuralTag,
                        .text = nlohmann::ordered_json{{"type", "structural_tag"}, {"format", calls.format}}.dump()};
    if (!calls.has_thinking) {
      whole = constrain_reply(whole, format, ReplyState::kThinking, *fixture.tokenizer, budget, calls.ending_thinking);
    }
    ConstraintMatcher matcher(compiler.compile(whole), {end});
    const std::vector<int> ids = fixture.tokenizer->encode(text);
    // Budgets are held by masks.
    const auto accepts = [&](int token) {
      const auto index = static_cast<std::size_t>(token);
      return (matcher.allowed()[index / 32] >> (index % 32) & 1U) != 0 && matcher.accept(token);
    };
    return std::ranges::all_of(ids, accepts) && accepts(end);
  };
  using enum ToolChoice::Kind;
  const std::string call = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 1}";
  const auto think = [](std::string_view text) {
    return "<|channel|>analysis<|message|>" + std::string(text) + "<|end|><|start|>assistant";
  };
  CHECK(allows("harmony", kRequired, 3, call));
  CHECK(allows("harmony", kRequired, 3, think("abc") + call));
  CHECK_FALSE(allows("harmony", kRequired, 3, think("abcd") + call));
  CHECK_FALSE(allows("harmony", kRequired, 3, think("a") + think("b") + call));

  const std::string section =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{\"a\": 1}"
      "<|tool_call_end|><|tool_calls_section_end|>";
  for (const ToolChoice::Kind kind : {kAuto, kRequired}) {
    CHECK(allows("kimi", kind, 3, "abc" + section));
    CHECK(allows("kimi", kind, 3, "abc</think>" + section));
    CHECK_FALSE(allows("kimi", kind, 3, "abcd" + section));
    CHECK_FALSE(allows("kimi", kind, 3, "<|tool_calls_section_begin|>"));
  }
  CHECK(allows("kimi", kAuto, 3, "</think>yes"));
  CHECK_FALSE(allows("kimi", kRequired, 3, "</think>yes"));
}

}  // namespace
}  // namespace ballast::text
