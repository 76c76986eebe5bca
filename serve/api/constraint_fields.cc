#include "serve/api/constraint_fields.h"

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"
#include "serve/api/api_error.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;
using files::JsonReader;
using Kind = Constraint::Kind;

/// Reads the value of a field, or of a member of it: its checked form, and the same with members in the client's order.
using ReadConstraint = Constraint (*)(const JsonReader& value, const Json& ordered);

Constraint read_schema(const JsonReader& value, const Json& ordered) {
  // vLLM's clients may send a schema as text.
  if (value.json().is_string()) return schema_constraint(parse_ordered_json(value.string(), value.context()));
  if (!value.json().is_object() && !value.json().is_boolean()) value.fail("must be a JSON schema: an object");
  return schema_constraint(ordered);
}

/// Reads the member `schema` of an object, which must be there.
Constraint read_member_schema(const JsonReader& object, const Json& ordered) {
  const JsonReader schema = object.at("schema");
  return read_schema(schema, ordered.at("schema"));
}

template <Kind kKind>
Constraint read_text(const JsonReader& value, const Json& /*ordered*/) {
  if (value.string().empty()) value.fail("must not be empty");
  return {.kind = kKind, .text = value.string()};
}

Constraint read_choice(const JsonReader& value, const Json& /*ordered*/) {
  std::vector<std::string> choices = value.strings();
  if (choices.empty()) value.fail("must not be empty");
  return {.kind = Kind::kChoice, .choices = std::move(choices)};
}

Constraint read_json_object(const JsonReader& value, const Json& /*ordered*/) {
  return {.kind = value.boolean() ? Kind::kJsonObject : Kind::kNone};
}

Constraint read_structural_tag(const JsonReader& value, const Json& ordered) {
  if (value.json().is_string()) return {.kind = Kind::kStructuralTag, .text = value.string()};
  if (!value.json().is_object()) value.fail("must be an object");
  return {.kind = Kind::kStructuralTag, .text = ordered.dump()};
}

Constraint read_response_format(const JsonReader& format, const Json& ordered) {
  const std::string type = format.text("type");
  if (type == "text") return {};
  if (type == "json_object") {
    // llama-server reads a schema here.
    if (format.has("schema")) return read_member_schema(format, ordered);
    return {.kind = Kind::kJsonObject};
  }
  if (type == "json_schema") {
    if (!format.has("json_schema")) return read_member_schema(format, ordered);
    return read_member_schema(format.object("json_schema"), ordered.at("json_schema"));
  }
  if (type == "structural_tag") return read_structural_tag(format, ordered);
  format.fail("type", files::concat(
                          files::in_quotes(type),
                          " is not supported: \"text\", \"json_object\", \"json_schema\" and \"structural_tag\" are"));
}

struct NamedConstraint {
  std::string_view name;
  ReadConstraint read;
};

/// Reads vLLM's object, which has one of the members below beside its options.
Constraint read_structured_outputs(const JsonReader& value, const Json& ordered) {
  constexpr std::array<NamedConstraint, 6> kMembers = {{{"json", read_schema},
                                                        {"regex", read_text<Kind::kRegex>},
                                                        {"choice", read_choice},
                                                        {"grammar", read_text<Kind::kGrammar>},
                                                        {"json_object", read_json_object},
                                                        {"structural_tag", read_structural_tag}}};
  if (value.has("whitespace_pattern")) value.fail("whitespace_pattern", "is not supported");
  Constraint constraint;
  for (const auto& [name, read] : kMembers) {
    const auto member = value.find(name);
    if (!member) continue;
    if (constraint) value.fail(name, "is a second constraint: a request may have one");
    constraint = read(*member, ordered.at(std::string(name)));
  }
  if (!constraint) value.fail("needs one of json, regex, choice, grammar, json_object and structural_tag");
  constraint.compact = value.flag("disable_any_whitespace", false);
  constraint.closed = value.flag("disable_additional_properties", true);
  return constraint;
}

}  // namespace

Constraint schema_constraint(const Json& schema) {
  return {.kind = Kind::kJsonSchema, .text = schema.dump()};
}

FieldConstraint read_constraint(const RequestFields& fields) {
  constexpr std::array<NamedConstraint, 10> kFields = {{{"response_format", read_response_format},
                                                        {"structured_outputs", read_structured_outputs},
                                                        {"guided_json", read_schema},
                                                        {"guided_regex", read_text<Kind::kRegex>},
                                                        {"guided_choice", read_choice},
                                                        {"guided_grammar", read_text<Kind::kGrammar>},
                                                        {"guided_json_object", read_json_object},
                                                        {"structural_tag", read_structural_tag},
                                                        {"json_schema", read_schema},
                                                        {"grammar", read_text<Kind::kGrammar>}}};
  FieldConstraint found;
  for (const auto& [name, read] : kFields) {
    // Clients with input forms send an empty grammar.
    if (name == "grammar" && fields.has(name) && fields.text(name) == "") continue;
    const auto own = fields.read(name, [&](const JsonReader& value) { return read(value, fields.ordered(name)); });
    if (!own || !*own) continue;
    if (found.constraint) {
      throw ApiError(
          400, files::concat(name, ": cannot be combined with ", found.field, ": a request may have one constraint"),
          std::string(name));
    }
    found = {.constraint = *own, .field = std::string(name)};
  }
  return found;
}

}  // namespace ballast::serve
