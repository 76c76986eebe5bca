#include "text/constraint/json_schema_grammar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/constraint/grammar_limits.h"
#include "text/constraint/grammar_text.h"
#include "text/constraint/json_schema_reader.h"
#include "text/constraint/number_grammar.h"
#include "text/constraint/regex_grammar.h"
#include "text/tokenizer.h"
#include "text/unicode/regex.h"

namespace ballast::text {
namespace {

using Which = SchemaPart::Which;

constexpr std::size_t kMostSchemaRules = 20'000;
constexpr std::size_t kMostAlternatives = 512;  // of one rule

/// An expression of a grammar, and the rules without which it matches nothing.
struct GrammarChoice {
  std::string text;
  std::set<std::string> needs{};
};

/// Alternatives of a rule; none: it matches nothing.
using GrammarChoices = std::vector<GrammarChoice>;

std::string one_of(const GrammarChoices& expressions) {
  std::string text;
  for (const GrammarChoice& expression : expressions) text += (text.empty() ? "" : " | ") + expression.text;
  return text;
}

/// Returns the JSON of a value without white space, as a literal.
std::string json_literal(const OrderedJson& value) {
  return grammar_literal(value.dump(-1, ' ', false, OrderedJson::error_handler_t::strict));
}

/// Returns whether a string satisfies what a shape says of strings, its values excepted.
bool fits_string(const SchemaShape& shape, const std::string& text, std::string_view context) {
  const std::size_t length = files::count_code_points(text);
  if ((shape.types & kJsonString) == 0 || length < shape.least_length || length > shape.most_length) return false;
  return std::ranges::all_of(shape.patterns, [&](const std::string& pattern) {
    return Regex::from_pattern(pattern, context).find(text, 0).has_value();
  });
}

/// Returns whether a string satisfies what a shape says of strings.
bool matches_string(const SchemaShape& shape, const std::string& text, std::string_view context) {
  if (shape.values && std::ranges::find(*shape.values, OrderedJson(text)) == shape.values->end()) return false;
  return fits_string(shape, text, context);
}

/// Formats with a simple grammar, as regular expressions. Others are annotations.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kFormats = {{
    {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"},
    {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"date-time",
     "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
     "(\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$"},
}};

/// Translates one schema.
class SchemaTranslator {
 public:
  SchemaTranslator(std::string_view schema, const JsonGrammarOptions& options) : reader_(schema), options_(options) {}

  JsonSchemaGrammar translate();

 private:
  struct Rule {
    GrammarChoices alternatives;
    const OrderedJson* schema = nullptr;  ///< for messages
    bool filled = false;
  };

  /// LengthRule by names of rules; empty: none.
  struct NamedLengths {
    std::optional<TextLengths> string{};
    std::map<std::string, std::string> properties{};
    std::string other_properties{};
    std::vector<std::string> items{};
    std::string other_items{};
    std::vector<std::string> alternatives{};
  };

  /// A property that an object may have.
  struct Property {
    std::string rule;  ///< of key and value
    std::string value_rule;
    bool required = false;
  };

  /// What follows the properties of an object: any number of others.
  struct OtherProperties {
    std::string rule{};  ///< of key and value; empty: none
  };

  std::string rule_of(const SchemaParts& parts);
  std::string add_rule(std::string name, GrammarChoices alternatives, const OrderedJson* schema);
  std::string new_name(std::string_view hint);
  std::string any_value();
  std::string any_string();
  const std::string& space();
  std::string colon() const { return options_.compact ? "\":\"" : "\":\" \" \"?"; }

  GrammarChoices expressions_of(const SchemaParts& parts, const std::string& name);
  GrammarChoices alternatives_of(const SchemaParts& parts, const SchemaShape& shape);
  void require_disjoint(const SchemaParts& base, const OrderedJson* schema, const OrderedJson& options);
  bool cannot_be_both(const SchemaShape& generated, const SchemaShape& other) const;
  bool objects_cannot_be_both(const SchemaShape& generated, const SchemaShape& other) const;
  bool is_impossible(const SchemaParts& parts, std::size_t depth) const;
  bool accepts(const SchemaShape& shape, const OrderedJson& value) const;
  GrammarChoices values_of(const SchemaShape& shape) const;
  void add_numbers(const SchemaShape& shape, GrammarChoices& all, const std::string& name);
  void add_integers(const SchemaShape& shape, GrammarChoices& all, const std::string& name);
  void add_string(const SchemaShape& shape, GrammarChoices& all);
  std::string string_body(const SchemaShape& shape);
  void add_array(const SchemaShape& shape, GrammarChoices& all);
  void add_object(const SchemaShape& shape, GrammarChoices& all, const std::string& name);
  bool is_closed(const SchemaShape& shape) const;
  void check_unevaluated(const SchemaShape& shape) const;
  SchemaParts parts_of_property(const SchemaShape& shape, const std::string& name) const;
  std::vector<std::string> property_names(const SchemaShape& shape) const;
  OtherProperties other_properties(const SchemaShape& shape, const std::vector<std::string>& names,
                                   const std::string& rule);
  std::string key_of_others(const std::vector<std::string>& names, const std::string& rule);
  std::optional<std::string> key_of_pattern(const SchemaShape& shape, const std::vector<std::string>& names,
                                            SchemaParts& value, const OrderedJson*& place);
  std::optional<GrammarChoice> members(const std::vector<Property>& properties, const OtherProperties& others,
                                       const SchemaShape& shape, const std::string& rule);
  const OrderedJson* first_schema(const SchemaShape& shape) const {
    return shape.schemas.empty() ? &reader_.root() : shape.schemas.front();
  }
  const OrderedJson* schema_with(const SchemaShape& shape, const char* keyword) const;
  void require_productive() const;
  LengthRules length_rules(const std::string& first) const;
  NamedLengths& lengths() { return lengths_[current_]; }

  JsonSchemaReader reader_;
  JsonGrammarOptions options_;
  std::map<SchemaParts, std::string> names_;
  std::deque<std::pair<SchemaParts, std::string>> left_;
  std::map<std::string, Rule> rules_;
  std::vector<std::string> order_;
  std::map<std::string, NamedLengths> lengths_;
  std::string current_;  ///< the rule whose alternatives are made
  std::size_t bytes_ = 0;
  std::size_t counted_ = 0;  ///< characters of strings with a length
};

std::string SchemaTranslator::new_name(std::string_view hint) {
  if (order_.size() >= kMostSchemaRules) throw Error("json schema", "is too large: it needs more than 20000 rules");
  return files::concat(hint, "_", order_.size());
}

std::string SchemaTranslator::add_rule(std::string name, GrammarChoices alternatives, const OrderedJson* schema) {
  for (const GrammarChoice& expression : alternatives) bytes_ += expression.text.size();
  if (bytes_ > kMostGrammarBytes) {
    throw Error("json schema", files::concat("is too large: its grammar has more than ", kMostGrammarBytes, " bytes"));
  }
  Rule& rule = rules_[name];
  if (!rule.filled && rule.schema == nullptr && rule.alternatives.empty()) {
    if (std::ranges::find(order_.rbegin(), order_.rend(), name) == order_.rend()) order_.push_back(name);
  }
  rule = {std::move(alternatives), schema, true};
  return name;
}

std::string SchemaTranslator::rule_of(const SchemaParts& parts) {
  const auto known = names_.find(parts);
  if (known != names_.end()) return known->second;
  std::string name = new_name("value");
  order_.push_back(name);
  rules_[name] = {};
  names_.emplace(parts, name);
  left_.emplace_back(parts, name);
  return name;
}

const std::string& SchemaTranslator::space() {
  static const std::string none = "\"\"";
  static const std::string name = "space";
  if (options_.compact) return none;
  // Bounded, so that a model does not indent for ever.
  if (!rules_.contains(name)) add_rule(name, {{"\"\""}, {"\" \""}, {"\"\\n\" [ \\t]{0,32}"}}, nullptr);
  return name;
}

std::string SchemaTranslator::any_string() {
  if (!rules_.contains("string")) {
    add_rule("string_rest",
             {{"\"\\\"\""}, {json_plain_character() + " string_rest"}, {"\"\\\\\" string_escape string_rest"}},
             nullptr);
    const std::string hexadecimal = "[0-9A-Fa-f]";
    add_rule("string_escape",
             {{"[\\\"\\\\/bfnrt]"},
              {"\"u\" [0-9A-CE-Fa-ce-f] " + hexadecimal + " " + hexadecimal + " " + hexadecimal},
              {"\"u\" [Dd] [0-7] " + hexadecimal + " " + hexadecimal},
              {"\"u\" [Dd] [89ABab] " + hexadecimal + " " + hexadecimal + " \"\\\\u\" [Dd] [C-Fc-f] " + hexadecimal +
               " " + hexadecimal}},
             nullptr);
    add_rule("string", {{"\"\\\"\" string_rest"}}, nullptr);
  }
  return "string";
}

std::string SchemaTranslator::any_value() {
  if (!rules_.contains("any")) {
    rules_["any"] = {};
    order_.emplace_back("any");
    const std::string text = any_string();
    const std::string gap = space();
    add_rule("number", {{number_grammar({-HUGE_VAL}, {HUGE_VAL})}}, nullptr);
    const std::string member = text + " " + colon() + " any";
    add_rule("member", {{member}}, nullptr);
    add_rule("object", {{"\"{\" " + gap + " (member (\",\" " + gap + " member)* " + gap + ")? \"}\""}}, nullptr);
    add_rule("array", {{"\"[\" " + gap + " (any (\",\" " + gap + " any)* " + gap + ")? \"]\""}}, nullptr);
    add_rule("any", {{"object"}, {"array"}, {text}, {"number"}, {"\"true\""}, {"\"false\""}, {"\"null\""}}, nullptr);
  }
  return "any";
}

JsonSchemaGrammar SchemaTranslator::translate() {
  const SchemaParts root = {{&reader_.root(), Which::kAll}};
  const std::string first = rule_of(root);
  while (!left_.empty()) {
    const auto [parts, name] = std::move(left_.front());
    left_.pop_front();
    current_ = name;
    add_rule(name, expressions_of(parts, name), parts.empty() ? nullptr : parts.front().schema);
  }
  require_productive();
  std::string text = "root ::= " + first + "\n";
  for (const std::string& name : order_) {
    text += name + " ::= " + one_of(rules_.at(name).alternatives);
    // After a string comes one of these, which lets the masks of its characters be computed in advance.
    if (name == "string_rest") text += " (= [ \\n\\t]* [,}\\]:])";
    text += "\n";
  }
  return {.text = std::move(text), .lengths = length_rules(first)};
}

/// Returns the lengths by indices of rules, none if no string has one.
LengthRules SchemaTranslator::length_rules(const std::string& first) const {
  const auto has_string = [](const auto& entry) { return entry.second.string.has_value(); };
  if (std::ranges::none_of(lengths_, has_string)) return {};
  std::map<std::string, std::size_t> indices = {{first, 0}};
  for (const auto& entry : lengths_) indices.emplace(entry.first, indices.size());
  const std::size_t nothing = indices.size();  // a rule without lengths
  const auto index_of = [&](const std::string& name) {
    const auto found = indices.find(name);
    return found == indices.end() ? nothing : found->second;
  };
  LengthRules rules(indices.size() + 1);
  for (const auto& [name, named] : lengths_) {
    LengthRule& rule = rules[indices.at(name)];
    rule.string = named.string;
    for (const auto& [key, value] : named.properties) rule.properties.emplace(key, index_of(value));
    if (!named.other_properties.empty()) rule.other_properties = index_of(named.other_properties);
    for (const std::string& item : named.items) rule.items.push_back(index_of(item));
    if (!named.other_items.empty()) rule.other_items = index_of(named.other_items);
    for (const std::string& other : named.alternatives) rule.alternatives.push_back(index_of(other));
  }
  return rules;
}

/// Throws Error for a rule that matches no finite text.
void SchemaTranslator::require_productive() const {
  std::set<std::string> productive;
  for (bool grew = true; grew;) {
    grew = false;
    for (const std::string& name : order_) {
      if (productive.contains(name)) continue;
      const bool matches = std::ranges::any_of(rules_.at(name).alternatives, [&](const GrammarChoice& expression) {
        return std::ranges::all_of(expression.needs,
                                   [&](const std::string& need) { return productive.contains(need); });
      });
      if (matches) grew = productive.insert(name).second;
    }
  }
  for (const std::string& name : order_) {
    if (productive.contains(name)) continue;
    const OrderedJson* schema = rules_.at(name).schema;
    throw Error(files::concat("json schema at ", schema == nullptr ? "#" : reader_.place(schema)),
                "no value matches the schema");
  }
}

GrammarChoices SchemaTranslator::expressions_of(const SchemaParts& parts, const std::string& name) {
  const SchemaShape shape = reader_.read(parts);
  if (!shape.alternatives.empty()) return alternatives_of(parts, shape);
  if (shape.values) return values_of(shape);
  const bool says_nothing =
      shape.types == kJsonAny && std::ranges::all_of(shape.schemas, [](const OrderedJson* schema) {
        constexpr std::array kKeywords = {"minimum",
                                          "maximum",
                                          "exclusiveMinimum",
                                          "exclusiveMaximum",
                                          "multipleOf",
                                          "minLength",
                                          "maxLength",
                                          "pattern",
                                          "format",
                                          "minItems",
                                          "maxItems",
                                          "uniqueItems",
                                          "contains",
                                          "items",
                                          "prefixItems",
                                          "properties",
                                          "required",
                                          "minProperties",
                                          "maxProperties",
                                          "propertyNames",
                                          "not",
                                          "patternProperties",
                                          "additionalProperties",
                                          "additionalItems",
                                          "unevaluatedItems",
                                          "unevaluatedProperties",
                                          "minContains",
                                          "maxContains"};
        return std::ranges::none_of(kKeywords, [&](const char* keyword) { return schema->contains(keyword); });
      });
  if (says_nothing) return {{any_value()}};
  GrammarChoices all;
  if ((shape.types & kJsonObject) != 0) add_object(shape, all, name);
  if ((shape.types & kJsonArray) != 0) add_array(shape, all);
  if ((shape.types & kJsonString) != 0) add_string(shape, all);
  add_numbers(shape, all, name);
  if ((shape.types & kJsonBoolean) != 0) {
    all.push_back({"\"true\""});
    all.push_back({"\"false\""});
  }
  if ((shape.types & kJsonNull) != 0) all.push_back({"\"null\""});
  return all;
}

/// Distributes a conjunction over the first of its alternatives.
GrammarChoices SchemaTranslator::alternatives_of(const SchemaParts& parts, const SchemaShape& shape) {
  const SchemaPart first = shape.alternatives.front();
  const char* keyword = first.which == Which::kAnyOf ? "anyOf" : "oneOf";
  const OrderedJson& options = first.schema->at(keyword);
  if (options.size() > kMostAlternatives) {
    reader_.refuse(first.schema, keyword, files::concat("has more than ", kMostAlternatives, " alternatives"));
  }
  SchemaParts base;
  for (const OrderedJson* schema : shape.schemas) base.push_back({schema, Which::kOwn});
  for (const SchemaPart& part : shape.alternatives) {
    if (part != first) base.push_back(part);
  }
  // All parts were read above; one that allows nothing has left no trace in them.
  if (shape.types == 0) return {};
  base = merged(base, {});
  if (first.which == Which::kOneOf) require_disjoint(base, first.schema, options);
  GrammarChoices all;
  std::set<std::string> names;
  for (const OrderedJson& option : options) {
    const SchemaParts alternative = merged(base, {{&option, Which::kAll}});
    // An option that refers to the whole adds nothing to it.
    if (alternative == parts || is_impossible(alternative, 0)) continue;
    const std::string name = rule_of(alternative);
    if (!names.insert(name).second) continue;
    all.push_back({name, {name}});
    lengths().alternatives.push_back(name);
  }
  return all;
}

/// Throws UnsupportedError unless no text of an option of oneOf can match another option.
void SchemaTranslator::require_disjoint(const SchemaParts& base, const OrderedJson* schema,
                                        const OrderedJson& options) {
  std::vector<SchemaShape> shapes;
  for (const OrderedJson& option : options) {
    const SchemaParts parts = merged(base, {{&option, Which::kAll}});
    if (is_impossible(merged({}, {{&option, Which::kAll}}), 0)) continue;
    shapes.push_back(reader_.read(parts));
  }
  for (const SchemaShape& generated : shapes) {
    for (const SchemaShape& other : shapes) {
      if (&generated == &other || cannot_be_both(generated, other)) continue;
      reader_.refuse_kind(schema, "oneOf", "whose alternatives may both match");
    }
  }
}

/// Returns whether no text that is generated for one shape is valid for the other.
bool SchemaTranslator::cannot_be_both(const SchemaShape& generated, const SchemaShape& other) const {
  if ((generated.types & other.types) == 0) return true;
  if (generated.values) {
    return std::ranges::none_of(*generated.values, [&](const OrderedJson& value) {
      if (!accepts(generated, value)) return false;
      if ((json_type(value) & other.types) == 0) return false;
      return !other.values || std::ranges::find(*other.values, value) != other.values->end();
    });
  }
  if (other.values) {
    return std::ranges::none_of(*other.values,
                                [&](const OrderedJson& value) { return (json_type(value) & generated.types) != 0; });
  }
  const unsigned common = generated.types & other.types;
  if (common == kJsonObject) return objects_cannot_be_both(generated, other);
  if ((common & ~static_cast<unsigned>(kJsonInteger | kJsonFraction)) == 0) {
    const auto apart = [](const SchemaShape& low, const SchemaShape& high) {
      return low.most.value < high.least.value ||
             (low.most.value == high.least.value && (low.most.excluded || high.least.excluded));
    };
    return apart(generated, other) || apart(other, generated);
  }
  if (common == kJsonString) {
    return generated.most_length < other.least_length || other.most_length < generated.least_length;
  }
  if (common == kJsonArray) {
    return generated.most_items < other.least_items || other.most_items < generated.least_items;
  }
  return false;
}

bool SchemaTranslator::objects_cannot_be_both(const SchemaShape& generated, const SchemaShape& other) const {
  const std::vector<std::string> declared = property_names(generated);
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  const bool only_declared =
      generated.alternatives.empty() && is_closed(generated) && schema_with(generated, "patternProperties") == nullptr;
  for (const std::string& name : other.required) {
    if (has(generated.absent, name)) return true;
    if (only_declared && !has(declared, name)) return true;
  }
  for (const std::string& name : generated.required) {
    if (has(other.absent, name)) return true;
    const SchemaParts own = parts_of_property(generated, name);
    const SchemaParts others = parts_of_property(other, name);
    if (is_impossible(others, 1)) return true;
    const SchemaShape value = reader_.read(own);
    const SchemaShape other_value = reader_.read(others);
    if ((value.types & other_value.types) == 0) return true;
    if (value.values && (other_value.values || value.types != kJsonAny || other_value.types != kJsonAny) &&
        cannot_be_both(value, other_value)) {
      return true;
    }
  }
  return false;
}

/// Returns whether no value matches; only plain contradictions are found.
bool SchemaTranslator::is_impossible(const SchemaParts& parts, std::size_t depth) const {
  constexpr std::size_t kDeepest = 4;
  const SchemaShape shape = reader_.read(parts);
  if (shape.types == 0) return true;
  if (shape.values && std::ranges::none_of(*shape.values, [&](const OrderedJson& value) {
        return (json_type(value) & shape.types) != 0;
      })) {
    return true;
  }
  if (depth >= kDeepest) return false;
  return std::ranges::any_of(shape.alternatives, [&](const SchemaPart& part) {
    const OrderedJson& options = part.schema->at(part.which == Which::kAnyOf ? "anyOf" : "oneOf");
    return std::ranges::all_of(options, [&](const OrderedJson& option) {
      SchemaParts own;
      for (const OrderedJson* schema : shape.schemas) own.push_back({schema, Which::kOwn});
      return is_impossible(merged(own, {{&option, Which::kAll}}), depth + 1);
    });
  });
}

/// Returns whether a value of enum or const satisfies the other keywords. Throws UnsupportedError where that cannot be
/// told.
bool SchemaTranslator::accepts(const SchemaShape& shape, const OrderedJson& value) const {
  const unsigned type = json_type(value);
  if ((shape.types & type) == 0) return false;
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (number < shape.least.value || (number == shape.least.value && shape.least.excluded)) return false;
    if (number > shape.most.value || (number == shape.most.value && shape.most.excluded)) return false;
    return std::ranges::all_of(
        shape.multiples, [&](std::int64_t multiple) { return std::fmod(number, static_cast<double>(multiple)) == 0; });
  }
  if (value.is_string()) {
    return fits_string(shape, value.get<std::string>(), "json schema at " + reader_.place(first_schema(shape)));
  }
  if (!value.is_structured()) return true;
  constexpr std::array kOfArrays = {"items",       "prefixItems", "minItems",         "maxItems",
                                    "uniqueItems", "contains",    "unevaluatedItems", "additionalItems"};
  constexpr std::array kOfObjects = {
      "properties",    "required",          "minProperties",        "maxProperties",
      "propertyNames", "patternProperties", "additionalProperties", "unevaluatedProperties"};
  for (const OrderedJson* schema : shape.schemas) {
    const auto check = [&](const auto& keywords) {
      for (const char* keyword : keywords) {
        if (schema->contains(keyword)) reader_.refuse_kind(schema, keyword, "beside `enum` or `const`");
      }
    };
    value.is_array() ? check(kOfArrays) : check(kOfObjects);
  }
  return shape.absent.empty();
}

GrammarChoices SchemaTranslator::values_of(const SchemaShape& shape) const {
  GrammarChoices all;
  for (const OrderedJson& value : *shape.values) {
    if (accepts(shape, value)) all.push_back({json_literal(value)});
  }
  return all;
}

void SchemaTranslator::add_numbers(const SchemaShape& shape, GrammarChoices& all, const std::string& name) {
  const bool integers = (shape.types & kJsonInteger) != 0;
  const bool fractions = (shape.types & kJsonFraction) != 0;
  if (!integers && !fractions) return;
  if (fractions && !integers && shape.multiples.empty()) {
    reader_.refuse_kind(first_schema(shape), "type", "number without integer");
  }
  if (!fractions || !shape.multiples.empty()) {
    if (integers) add_integers(shape, all, name);
    return;
  }
  const std::string text = number_grammar(shape.least, shape.most);
  if (!text.empty()) all.push_back({text});
}

void SchemaTranslator::add_integers(const SchemaShape& shape, GrammarChoices& all, const std::string& name) {
  const auto limit = static_cast<double>(kLargestInteger);
  double least = std::max(std::ceil(shape.least.value), -limit);
  double most = std::min(std::floor(shape.most.value), limit);
  if (shape.least.excluded && least == shape.least.value) ++least;
  if (shape.most.excluded && most == shape.most.value) --most;
  if (least > most) return;
  const auto first = least <= -limit ? -kLargestInteger : static_cast<std::int64_t>(least);
  const auto last = most >= limit ? kLargestInteger : static_cast<std::int64_t>(most);
  std::int64_t multiple = 1;
  for (const std::int64_t factor : shape.multiples) {
    multiple = std::lcm(multiple, factor);
    if (multiple > 1'000'000'000) reader_.refuse_kind(first_schema(shape), "multipleOf", "of so many numbers");
  }
  if (multiple == 1) {
    all.push_back({integer_grammar(first, last)});
    return;
  }
  constexpr std::int64_t kMostValues = 1000;
  const std::int64_t from = first / multiple + (first % multiple > 0 ? 1 : 0);
  const std::int64_t to = last / multiple - (last % multiple < 0 ? 1 : 0);
  if (to - from < kMostValues) {
    for (std::int64_t i = from; i <= to; ++i) all.push_back({"\"" + std::to_string(i * multiple) + "\""});
    return;
  }
  // Else an automaton, for integers of any size of both signs or of one.
  constexpr std::int64_t kMostStates = 100;
  const bool from_zero = first == 0 || first == 1;
  if (multiple > kMostStates || last != kLargestInteger || (first != -kLargestInteger && !from_zero)) {
    reader_.refuse_kind(first_schema(shape), "multipleOf", "with so many values in the range");
  }
  // An automaton over the remainders of what was written so far.
  const auto state = [&](std::int64_t remainder) { return name + "_mod_" + std::to_string(remainder); };
  for (std::int64_t remainder = 0; remainder < multiple; ++remainder) {
    GrammarChoices next;
    if (remainder == 0) next.push_back({"\"\""});
    for (std::int64_t digit = 0; digit < 10; ++digit) {
      next.push_back({"\"" + std::to_string(digit) + "\" " + state((remainder * 10 + digit) % multiple)});
    }
    add_rule(state(remainder), std::move(next), first_schema(shape));
  }
  std::string numbers;
  for (std::int64_t digit = 1; digit < 10; ++digit) {
    numbers += (digit == 1 ? "\"" : " | \"") + std::to_string(digit) + "\" " + state(digit % multiple);
  }
  if (first <= 0) all.push_back({"\"0\""});
  all.push_back({(first < 0 ? "\"-\"? (" : "(") + numbers + ")"});
}

/// The text between the quotes.
std::string SchemaTranslator::string_body(const SchemaShape& shape) {
  const OrderedJson* schema = first_schema(shape);
  const std::string context = "json schema at " + reader_.place(schema);
  const bool has_length = shape.least_length > 0 || shape.most_length != static_cast<std::size_t>(-1);
  if (shape.patterns.size() > 1) reader_.refuse_kind(schema, "pattern", "together with another `pattern`");
  if (shape.patterns.size() == 1) {
    return "(" +
           regex_grammar(shape.patterns.front(), RegexUse::kJsonString, context,
                         {.least = shape.least_length, .most = shape.most_length}) +
           ")";
  }
  if (!has_length) {
    for (const auto& [name, pattern] : kFormats) {
      if (name == shape.format) return regex_grammar(pattern, RegexUse::kJsonString, context);
    }
  }
  // Each length is a state of its own, which takes time to compile.
  constexpr std::size_t kLongestCounted = 64;
  const bool is_open = shape.most_length == static_cast<std::size_t>(-1);
  if (shape.least_length > kLongestCounted) reader_.refuse_kind(schema, "minLength", "above 64");
  if (!is_open && shape.most_length > kLongestCounted) reader_.refuse_kind(schema, "maxLength", "above 64");
  counted_ += is_open ? shape.least_length : shape.most_length;
  if (counted_ * kWideState > kMostGrammarStates) {
    reader_.refuse_kind(schema, is_open ? "minLength" : "maxLength", "of so many strings");
  }
  const std::string character = json_plain_character();
  if (!is_open) return character + grammar_repetition(shape.least_length, shape.most_length);
  return (shape.least_length > 0 ? character + grammar_repetition(shape.least_length, shape.least_length) + " " : "") +
         json_character() + "*";
}

void SchemaTranslator::add_string(const SchemaShape& shape, GrammarChoices& all) {
  const bool has_length = shape.least_length > 0 || shape.most_length != static_cast<std::size_t>(-1);
  if (shape.least_length > shape.most_length) return;
  if (has_length && shape.patterns.empty() && !options_.unrolls_lengths) {
    lengths().string = TextLengths{.least = shape.least_length, .most = shape.most_length};
    all.push_back({any_string()});
    return;
  }
  const bool is_plain =
      shape.patterns.empty() && !has_length &&
      std::ranges::find(kFormats, shape.format, [](const auto& entry) { return entry.first; }) == kFormats.end();
  if (is_plain) {
    all.push_back({any_string()});
  } else {
    all.push_back({"\"\\\"\" " + string_body(shape) + " \"\\\"\""});
  }
}

void SchemaTranslator::add_array(const SchemaShape& shape, GrammarChoices& all) {
  std::size_t fixed = 0;
  std::vector<const OrderedJson*> prefixes;
  bool open = true;
  for (const OrderedJson* schema : shape.schemas) {
    const auto unique = schema->find("uniqueItems");
    if (unique != schema->end() && unique->is_boolean() && unique->get<bool>() && shape.most_items > 1) {
      reader_.refuse_kind(schema, "uniqueItems");
    }
    if (schema->contains("contains")) reader_.refuse_kind(schema, "contains");
    const OrderedJson* prefix = reader_.array_at(schema, "prefixItems");
    prefixes.push_back(prefix);
    if (prefix != nullptr) fixed = std::max(fixed, prefix->size());
    if (schema->contains("additionalItems")) reader_.refuse_kind(schema, "additionalItems");
    if (schema->contains("items") && schema->at("items").is_array()) {
      reader_.refuse_kind(schema, "items", "as an array (prefixItems since draft 2020-12)");
    }
    reader_.schema_at(schema, "items");
    const bool unevaluated = reader_.schema_at(schema, "unevaluatedItems") != nullptr;
    if (unevaluated && (prefix != nullptr || !schema->contains("items"))) {
      const OrderedJson& rest = schema->at("unevaluatedItems");
      if (rest.is_boolean() && rest.get<bool>()) continue;
      if (shape.schemas.size() > 1 || rest.is_object()) reader_.refuse_kind(schema, "unevaluatedItems");
      open = false;
    }
    // Items after those that are described would be any values.
    if (options_.closed && prefix != nullptr && !schema->contains("items")) open = false;
  }
  const auto item_parts = [&](std::size_t index) {
    SchemaParts parts;
    for (std::size_t i = 0; i < shape.schemas.size(); ++i) {
      const OrderedJson* schema = shape.schemas[i];
      if (prefixes[i] != nullptr && index < prefixes[i]->size()) {
        const OrderedJson& item = (*prefixes[i])[index];
        if (!item.is_object() && !item.is_boolean()) reader_.refuse(schema, "prefixItems", "must have only schemas");
        parts.push_back({&item, Which::kAll});
      } else if (schema->contains("items")) {
        parts.push_back({&schema->at("items"), Which::kAll});
      }
    }
    return merged(parts, {});
  };
  const SchemaParts rest = item_parts(fixed);
  open = open && !is_impossible(rest, 0);
  std::size_t most = std::min(shape.most_items, open ? Tokenizer::kNoLimit : fixed);
  for (std::size_t i = 0; i < std::min(fixed, most); ++i) {
    if (is_impossible(item_parts(i), 0)) most = i;
  }
  if (most < shape.least_items) return;
  const std::string gap = space();
  const std::string comma = "\",\" " + gap + " ";
  std::set<std::string> needs;
  // From the end: what may come after item i.
  std::string after;
  if (most > fixed) {
    const std::string name = rest.empty() ? any_value() : rule_of(rest);
    lengths().other_items = name;
    const std::size_t least = shape.least_items > fixed ? shape.least_items - fixed : 0;
    const std::size_t limit = most == Tokenizer::kNoLimit ? most : most - fixed;
    if (least > 0) needs.insert(name);
    if (fixed > 0) {
      after = "(" + comma + name + ")" + grammar_repetition(least, limit);
    } else {
      const std::size_t more = limit == Tokenizer::kNoLimit ? limit : limit - 1;
      const std::size_t fewest = least > 0 ? least - 1 : 0;
      after = name;
      if (more > 0) after += " (" + comma + name + ")" + grammar_repetition(fewest, more);
      after += " " + gap;
      if (least == 0) after = "(" + after + ")?";
    }
  }
  lengths().items.resize(std::min(fixed, most));
  for (std::size_t i = std::min(fixed, most); i-- > 0;) {
    const std::string name = rule_of(item_parts(i));
    lengths().items[i] = name;
    std::string item = (i == 0 ? "" : comma) + name + (after.empty() ? "" : " " + after);
    if (i == 0) item += " " + gap;
    const bool must = i < shape.least_items;
    if (must) needs.insert(name);
    after = must ? item : "(" + item + ")?";
    if (i > 0) after = add_rule(new_name("items"), {{after}}, first_schema(shape));
  }
  all.push_back({"\"[\" " + gap + (after.empty() ? "" : " " + after) + " \"]\"", std::move(needs)});
}

const OrderedJson* SchemaTranslator::schema_with(const SchemaShape& shape, const char* keyword) const {
  const auto found =
      std::ranges::find_if(shape.schemas, [&](const OrderedJson* schema) { return schema->contains(keyword); });
  return found == shape.schemas.end() ? nullptr : *found;
}

/// Returns whether an object has no properties but those that its schemas name.
bool SchemaTranslator::is_closed(const SchemaShape& shape) const {
  bool names = false;
  bool opens = false;
  for (const OrderedJson* schema : shape.schemas) {
    names = names || schema->contains("properties");
    const OrderedJson* others = reader_.schema_at(schema, "additionalProperties");
    if (others != nullptr) {
      if (others->is_boolean() && !others->get<bool>()) return true;
      opens = true;
    }
    const OrderedJson* unevaluated = reader_.schema_at(schema, "unevaluatedProperties");
    // Properties that no schema here names may be named by one that is an alternative.
    if (unevaluated != nullptr && !(unevaluated->is_boolean() && unevaluated->get<bool>())) return true;
  }
  return options_.closed && names && !opens;
}

std::vector<std::string> SchemaTranslator::property_names(const SchemaShape& shape) const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const OrderedJson* schema : shape.schemas) {
    const OrderedJson* properties = reader_.object_at(schema, "properties");
    if (properties == nullptr) continue;
    for (const auto& [name, value] : properties->items()) {
      if (!value.is_object() && !value.is_boolean()) reader_.refuse(schema, "properties", "must have only schemas");
      add(name);
    }
  }
  for (const std::string& name : shape.required) add(name);
  return names;
}

SchemaParts SchemaTranslator::parts_of_property(const SchemaShape& shape, const std::string& name) const {
  SchemaParts parts;
  for (const OrderedJson* schema : shape.schemas) {
    bool named = false;
    const OrderedJson* properties = reader_.object_at(schema, "properties");
    if (properties != nullptr && properties->contains(name)) {
      parts.push_back({&properties->at(name), Which::kAll});
      named = true;
    }
    if (const OrderedJson* patterns = reader_.object_at(schema, "patternProperties")) {
      for (const auto& [pattern, value] : patterns->items()) {
        if (!value.is_object() && !value.is_boolean()) {
          reader_.refuse(schema, "patternProperties", "must have only schemas");
        }
        if (!Regex::from_pattern(pattern, "json schema at " + reader_.place(schema)).find(name, 0)) continue;
        parts.push_back({&value, Which::kAll});
        named = true;
      }
    }
    if (named) continue;
    const OrderedJson* others = reader_.schema_at(schema, "additionalProperties");
    if (others == nullptr && shape.schemas.size() == 1 && shape.alternatives.empty()) {
      others = reader_.schema_at(schema, "unevaluatedProperties");
    }
    if (others != nullptr) parts.push_back({others, Which::kAll});
  }
  return merged(parts, {});
}

/// An expression for the quoted keys that none of `names` is. They are written without escapes, so that none of them is
/// another spelling of such a name.
std::string SchemaTranslator::key_of_others(const std::vector<std::string>& names, const std::string& rule) {
  struct Node {
    std::map<char32_t, std::unique_ptr<Node>> next;
    bool ends = false;
  };
  Node root;
  for (const std::string& name : names) {
    Node* node = &root;
    for (std::string_view rest = name; !rest.empty(); rest.remove_prefix(files::utf8_step(rest, 0).length)) {
      std::unique_ptr<Node>& child = node->next[files::first_code_point(rest)];
      if (!child) child = std::make_unique<Node>();
      node = child.get();
    }
    node->ends = true;
  }
  const std::string others = "key_rest";
  if (!rules_.contains(others)) add_rule(others, {{json_plain_character() + "* \"\\\"\""}}, nullptr);
  if (names.empty()) return "\"\\\"\" " + others;
  std::vector<std::pair<const Node*, std::string>> left = {{&root, rule + "_key"}};
  std::size_t count = 0;
  while (!left.empty()) {
    const auto [node, name] = left.back();
    left.pop_back();
    GrammarChoices choices;
    if (!node->ends) choices.push_back({"\"\\\"\""});
    std::vector<CodePoints> excluded = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    for (const auto& [character, child] : node->next) {
      excluded.push_back({character, character});
      if (character < 0x20 || character == '"' || character == '\\') continue;  // only with an escape
      const std::string child_name = rule + "_key_" + std::to_string(++count);
      choices.push_back({grammar_class({{character, character}}) + " " + child_name});
      left.emplace_back(child.get(), child_name);
    }
    choices.push_back({grammar_class(complement(excluded)) + " " + others});
    add_rule(name, std::move(choices), nullptr);
  }
  return "\"\\\"\" " + rule + "_key";
}

/// Keys by patternProperties, and the schemas of their values.
std::optional<std::string> SchemaTranslator::key_of_pattern(const SchemaShape& shape,
                                                            const std::vector<std::string>& names, SchemaParts& value,
                                                            const OrderedJson*& place) {
  std::optional<std::string> pattern;
  for (const OrderedJson* schema : shape.schemas) {
    const OrderedJson* patterns = reader_.object_at(schema, "patternProperties");
    if (patterns == nullptr || patterns->empty()) continue;
    if (pattern || patterns->size() > 1) reader_.refuse_kind(schema, "patternProperties", "with several patterns");
    pattern = patterns->begin().key();
    place = schema;
    value = {{&patterns->begin().value(), Which::kAll}};
  }
  if (!pattern) return std::nullopt;
  const std::string context = "json schema at " + reader_.place(place);
  for (const std::string& name : names) {
    if (Regex::from_pattern(*pattern, context).find(name, 0)) {
      reader_.refuse_kind(place, "patternProperties", "that match a name in `properties`");
    }
  }
  for (const OrderedJson* schema : shape.schemas) {
    const OrderedJson* others = reader_.schema_at(schema, "additionalProperties");
    if (schema != place && others != nullptr) value.push_back({others, Which::kAll});
  }
  value = merged(value, {});
  return "\"\\\"\" (" + regex_grammar(*pattern, RegexUse::kJsonString, context) + ") \"\\\"\"";
}

SchemaTranslator::OtherProperties SchemaTranslator::other_properties(const SchemaShape& shape,
                                                                     const std::vector<std::string>& names,
                                                                     const std::string& rule) {
  SchemaParts value;
  const OrderedJson* place = nullptr;
  std::optional<std::string> key = key_of_pattern(shape, names, value, place);
  if (!key) {
    if (is_closed(shape)) {
      // unevaluatedProperties of a lone schema is like additionalProperties.
      const OrderedJson* only = shape.schemas.size() == 1 ? shape.schemas.front() : nullptr;
      const bool has_schema = only != nullptr && !only->contains("additionalProperties") &&
                              only->contains("unevaluatedProperties") && only->at("unevaluatedProperties").is_object();
      if (!has_schema) return {};
      value = {{&only->at("unevaluatedProperties"), Which::kAll}};
    }
    for (const OrderedJson* schema : shape.schemas) {
      const OrderedJson* others = reader_.schema_at(schema, "additionalProperties");
      if (others != nullptr) value.push_back({others, Which::kAll});
    }
    value = merged(value, {});
    if (is_impossible(value, 0)) return {};
    std::vector<std::string> taken = names;
    taken.insert(taken.end(), shape.absent.begin(), shape.absent.end());
    key = key_of_others(taken, rule);
  } else if (is_impossible(value, 0)) {
    return {};
  }
  const std::string value_rule = value.empty() ? any_value() : rule_of(value);
  lengths().other_properties = value_rule;
  return {.rule = add_rule(rule + "_other", {{*key + " " + colon() + " " + value_rule, {value_rule}}},
                           first_schema(shape))};
}

/// Throws UnsupportedError for an unevaluatedProperties that does not see all schemas that name properties.
void SchemaTranslator::check_unevaluated(const SchemaShape& shape) const {
  for (const OrderedJson* schema : shape.schemas) {
    const OrderedJson* unevaluated = reader_.schema_at(schema, "unevaluatedProperties");
    if (unevaluated == nullptr || (unevaluated->is_boolean() && unevaluated->get<bool>())) continue;
    if (unevaluated->is_object() && !unevaluated->empty() && shape.schemas.size() > 1) {
      reader_.refuse_kind(schema, "unevaluatedProperties", "with a schema beside other schemas");
    }
    const std::vector<const OrderedJson*> seen = reader_.in_place(schema);
    for (const OrderedJson* other : shape.schemas) {
      const bool names = other->contains("properties") || other->contains("patternProperties");
      if (names && std::ranges::find(seen, other) == seen.end()) {
        reader_.refuse_kind(schema, "unevaluatedProperties", "beside properties of other schemas");
      }
    }
  }
}

void SchemaTranslator::add_object(const SchemaShape& shape, GrammarChoices& all, const std::string& name) {
  check_unevaluated(shape);
  std::vector<std::string> names = property_names(shape);
  std::erase_if(names, [&](const std::string& property) {
    return std::ranges::find(shape.absent, property) != shape.absent.end();
  });
  for (const std::string& property : shape.required) {
    if (std::ranges::find(shape.absent, property) != shape.absent.end()) return;
  }
  bool others_allowed = true;
  for (const OrderedJson* schema : shape.schemas) {
    const OrderedJson* name_schema = reader_.schema_at(schema, "propertyNames");
    if (name_schema == nullptr) continue;
    const SchemaShape allowed = reader_.read({{name_schema, Which::kAll}});
    if (!allowed.alternatives.empty()) reader_.refuse_kind(schema, "propertyNames", "with alternatives");
    const std::string context = "json schema at " + reader_.place(schema);
    for (const std::string& property : names) {
      const bool matches = matches_string(allowed, property, context);
      const bool required = std::ranges::find(shape.required, property) != shape.required.end();
      if (!matches && required) return;
    }
    std::erase_if(names, [&](const std::string& property) { return !matches_string(allowed, property, context); });
    const bool restricts = (allowed.types & kJsonString) == 0 || allowed.values || !allowed.patterns.empty() ||
                           allowed.least_length > 0 || allowed.most_length != static_cast<std::size_t>(-1);
    if (!restricts) continue;
    if (!is_closed(shape) && ((allowed.types & kJsonString) != 0)) {
      if (!allowed.values) reader_.refuse_kind(schema, "propertyNames", "without `enum` for an open object");
      for (const OrderedJson& value : *allowed.values) {
        if (!value.is_string() || !matches_string(allowed, value.get<std::string>(), context)) continue;
        if (std::ranges::find(names, value.get<std::string>()) == names.end())
          names.push_back(value.get<std::string>());
      }
    }
    others_allowed = false;
  }
  std::vector<Property> properties;
  for (const std::string& property : names) {
    const SchemaParts parts = parts_of_property(shape, property);
    const bool required = std::ranges::find(shape.required, property) != shape.required.end();
    if (is_impossible(parts, 0)) {
      if (required) return;
      continue;
    }
    const std::string value_rule = parts.empty() ? any_value() : rule_of(parts);
    lengths().properties[OrderedJson(property).dump()] = value_rule;
    const std::string rule = new_name("property");
    add_rule(rule, {{json_literal(property) + " " + colon() + " " + value_rule, {value_rule}}}, first_schema(shape));
    properties.push_back({.rule = rule, .value_rule = value_rule, .required = required});
  }
  if (!others_allowed && schema_with(shape, "patternProperties") != nullptr) {
    reader_.refuse_kind(schema_with(shape, "patternProperties"), "patternProperties", "beside `propertyNames`");
  }
  const OtherProperties others = others_allowed ? other_properties(shape, names, name) : OtherProperties{};
  const std::optional<GrammarChoice> inside = members(properties, others, shape, name);
  if (!inside) return;
  const std::string gap = space();
  all.push_back({"\"{\" " + gap + " " + inside->text + " \"}\"", inside->needs});
}

/// The members of an object in the order of `properties`, then others, with the white space after the last one; absent
/// if there are too few or too many.
std::optional<GrammarChoice> SchemaTranslator::members(const std::vector<Property>& properties,
                                                       const OtherProperties& others, const SchemaShape& shape,
                                                       const std::string& rule) {
  const OrderedJson* schema = first_schema(shape);
  const auto required = static_cast<std::size_t>(
      std::ranges::count_if(properties, [](const Property& property) { return property.required; }));
  const std::size_t least = shape.least_properties > required ? shape.least_properties : 0;
  const std::size_t most = shape.most_properties;
  if (most < required) return std::nullopt;
  const bool has_others = !others.rule.empty();
  if (!has_others && least > properties.size()) return std::nullopt;
  if (has_others && least > required + 1 && least > 1) {
    // A text may repeat a key of the others, and is then one property short.
    reader_.refuse_kind(schema, "minProperties", "above the number of required properties, for an open object,");
  }
  const bool counts = least > 0 || most < properties.size() || (most != static_cast<std::size_t>(-1) && has_others);
  constexpr std::size_t kMostCounted = 4000;
  // Counts above this one have the same rest.
  const std::size_t saturated = !counts ? 1
                                        : (most != static_cast<std::size_t>(-1) ? std::min(most, properties.size() + 1)
                                                                                : std::max<std::size_t>(least, 1));
  if (properties.size() * saturated > kMostCounted) {
    reader_.refuse_kind(schema, least > 0 ? "minProperties" : "maxProperties", "for so many properties");
  }
  const std::string gap = space();
  const std::string comma = "\",\" " + gap + " ";
  // rests[i][count]: after the properties before i, of which `count` are there; absent if there is none.
  std::map<std::pair<std::size_t, std::size_t>, std::optional<GrammarChoice>> rests;
  const std::function<std::optional<GrammarChoice>(std::size_t, std::size_t)> make = [&](std::size_t i,
                                                                                         std::size_t count) {
    std::vector<GrammarChoice> choices;
    const std::string separator = count == 0 ? "" : comma;
    if (i == properties.size()) {
      const std::size_t missing = least > count ? least - count : 0;
      const bool full = counts && most != static_cast<std::size_t>(-1) && count >= most;
      if (has_others && !full) {
        const std::size_t room = most == static_cast<std::size_t>(-1) ? Tokenizer::kNoLimit : most - count;
        if (count > 0) {
          GrammarChoice more = {"(" + comma + others.rule + ")" + grammar_repetition(missing, room) + " " + gap};
          if (missing > 0) more.needs.insert(others.rule);
          return std::optional(more);
        }
        std::string first = others.rule;
        const std::size_t rest = room == Tokenizer::kNoLimit ? room : room - 1;
        if (rest > 0)
          first += " (" + comma + others.rule + ")" + grammar_repetition(missing > 0 ? missing - 1 : 0, rest);
        first += " " + gap;
        if (missing == 0) return std::optional(GrammarChoice{"(" + first + ")?"});
        return std::optional(GrammarChoice{first, {others.rule}});
      }
      if (missing > 0) return std::optional<GrammarChoice>();
      return std::optional(GrammarChoice{count > 0 ? gap : "\"\""});
    }
    const Property& property = properties[i];
    const bool fits = most == static_cast<std::size_t>(-1) || count < most;
    if (fits) {
      const std::optional<GrammarChoice>& rest = rests[{i + 1, std::min(count + 1, saturated)}];
      if (rest) {
        GrammarChoice with = {separator + property.rule + " " + rest->text, rest->needs};
        with.needs.insert(property.rule);
        choices.push_back(std::move(with));
      }
    }
    if (!property.required) {
      const std::optional<GrammarChoice>& rest = rests[{i + 1, count}];
      if (rest) choices.push_back(*rest);
    }
    if (choices.empty()) return std::optional<GrammarChoice>();
    std::set<std::string> needs = choices.front().needs;
    for (const GrammarChoice& choice : choices) {
      std::erase_if(needs, [&](const std::string& need) { return !choice.needs.contains(need); });
    }
    const std::string name = add_rule(files::concat(rule, "_from_", i, "_", count), choices, schema);
    return std::optional(GrammarChoice{name, {name}});
  };
  for (std::size_t i = properties.size() + 1; i-- > 0;) {
    for (std::size_t count = 0; count <= std::min(i, saturated); ++count) rests[{i, count}] = make(i, count);
  }
  return rests[{0, 0}];
}

}  // namespace

JsonSchemaGrammar json_schema_grammar(std::string_view schema, const JsonGrammarOptions& options) {
  return SchemaTranslator(schema, options).translate();
}

}  // namespace ballast::text
