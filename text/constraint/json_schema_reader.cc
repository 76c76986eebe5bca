#include "text/constraint/json_schema_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "files/text.h"

namespace ballast::text {
namespace {

constexpr std::size_t kMostSchemaBytes = std::size_t{1} << 18;
constexpr std::size_t kMostSchemaDepth = 128;
constexpr std::size_t kMostKeys = 4096;  // of one object: finding one takes time that grows with their number

/// Integers that are written as 3.0 are integers.
bool is_whole_number(const OrderedJson& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::floor(value.get<double>()) == value.get<double>();
}

/// Reads a part of a URI reference that may have %HH.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      const char lower = static_cast<char>(text[at] | 0x20);
      return std::string_view("0123456789abcdef").find(text[at] <= '9' ? text[at] : lower);
    };
    if (text[i] == '%' && i + 2 < text.size() && digit(i + 1) < 16 && digit(i + 2) < 16) {
      out.push_back(static_cast<char>(digit(i + 1) * 16 + digit(i + 2)));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string pointer_token(std::string_view text) {
  std::string out;
  for (const char character : text) {
    if (character == '~') {
      out += "~0";
    } else if (character == '/') {
      out += "~1";
    } else {
      out.push_back(character);
    }
  }
  return out;
}

void keep_largest(NumberBound& bound, NumberBound other) {
  if (other.value > bound.value || (other.value == bound.value && other.excluded)) bound = other;
}

void keep_smallest(NumberBound& bound, NumberBound other) {
  if (other.value < bound.value || (other.value == bound.value && other.excluded)) bound = other;
}

}  // namespace

unsigned json_type(const OrderedJson& value) {
  if (value.is_null()) return kJsonNull;
  if (value.is_boolean()) return kJsonBoolean;
  if (value.is_number()) return is_whole_number(value) ? kJsonInteger : kJsonFraction;
  if (value.is_string()) return kJsonString;
  return value.is_array() ? kJsonArray : kJsonObject;
}

SchemaParts merged(const SchemaParts& parts, const SchemaParts& more) {
  SchemaParts all = parts;
  all.insert(all.end(), more.begin(), more.end());
  std::ranges::sort(all);
  const auto [first, last] = std::ranges::unique(all);
  all.erase(first, last);
  return all;
}

JsonSchemaReader::JsonSchemaReader(std::string_view text) {
  constexpr std::string_view kContext = "json schema";
  if (text.size() > kMostSchemaBytes) {
    throw Error(kContext, files::concat("has ", text.size(), " bytes, must have at most ", kMostSchemaBytes));
  }
  const nlohmann::json checked = files::parse_strict_json(text, kContext, 0, kMostSchemaDepth);
  if (!checked.is_object() && !checked.is_boolean()) throw Error(kContext, "must be an object, true or false");
  std::vector<const nlohmann::json*> left = {&checked};
  while (!left.empty()) {
    const nlohmann::json& value = *left.back();
    left.pop_back();
    if (value.is_object() && value.size() > kMostKeys) {
      throw Error(kContext, files::concat("has an object of ", value.size(), " keys, must have at most ", kMostKeys));
    }
    for (const nlohmann::json& item : value) {
      if (item.is_structured()) left.push_back(&item);
    }
  }
  root_ = OrderedJson::parse(text);
  collect(root_, "#");
}

void JsonSchemaReader::collect(const OrderedJson& schema, std::string place) {
  if (schema.is_object()) {
    const auto anchor = schema.find("$anchor");
    if (anchor != schema.end() && anchor->is_string()) anchors_.emplace(anchor->get<std::string>(), &schema);
    const auto id = schema.find("$id");
    if (&schema != &root_ && id != schema.end() && id->is_string()) has_inner_ids_ = true;
    for (const auto& [key, value] : schema.items()) collect(value, place + "/" + pointer_token(key));
  } else if (schema.is_array()) {
    for (std::size_t i = 0; i < schema.size(); ++i) collect(schema[i], place + "/" + std::to_string(i));
  }
  if (schema.is_object() || schema.is_boolean()) places_.emplace(&schema, std::move(place));
}

std::string JsonSchemaReader::place(const OrderedJson* schema) const {
  const auto found = places_.find(schema);
  return found != places_.end() ? found->second : "#";
}

void JsonSchemaReader::refuse(const OrderedJson* schema, std::string_view keyword, std::string_view problem) const {
  throw Error(files::concat("json schema at ", place(schema)), files::concat("`", keyword, "` ", problem));
}

void JsonSchemaReader::refuse_kind(const OrderedJson* schema, std::string_view keyword, std::string_view detail) const {
  throw UnsupportedError(files::concat("json schema at ", place(schema)),
                         files::concat("`", keyword, "` ", detail, detail.empty() ? "" : " ", "is not supported"));
}

const OrderedJson* JsonSchemaReader::object_at(const OrderedJson* schema, const char* keyword) const {
  const auto found = schema->find(keyword);
  if (found == schema->end()) return nullptr;
  if (!found->is_object()) refuse(schema, keyword, "must be an object");
  return &*found;
}

const OrderedJson* JsonSchemaReader::array_at(const OrderedJson* schema, const char* keyword) const {
  const auto found = schema->find(keyword);
  if (found == schema->end()) return nullptr;
  if (!found->is_array()) refuse(schema, keyword, "must be an array");
  return &*found;
}

const OrderedJson* JsonSchemaReader::schema_at(const OrderedJson* schema, const char* keyword) const {
  const auto found = schema->find(keyword);
  if (found == schema->end()) return nullptr;
  if (!found->is_object() && !found->is_boolean()) refuse(schema, keyword, "must be a schema: an object or a boolean");
  return &*found;
}

const OrderedJson* JsonSchemaReader::target(const OrderedJson* schema) const {
  const OrderedJson& value = schema->at("$ref");
  if (!value.is_string()) refuse(schema, "$ref", "must be a string");
  const std::string& reference = value.get_ref<const std::string&>();
  if (has_inner_ids_) refuse_kind(schema, "$ref", "beside an `$id` below the root");
  std::string_view fragment = reference;
  const auto id = root_.find("$id");
  if (id != root_.end() && id->is_string()) {
    std::string_view own = id->get_ref<const std::string&>();
    if (own.ends_with('#')) own.remove_suffix(1);
    if (!own.empty() && (fragment == own || fragment.starts_with(std::string(own) + "#"))) {
      fragment.remove_prefix(own.size());
    }
  }
  if (fragment.empty() || fragment == "#") return &root_;
  if (!fragment.starts_with('#'))
    refuse_kind(schema, "$ref", "to another document, " + files::in_quotes(reference) + ",");
  fragment.remove_prefix(1);
  const std::string decoded = percent_decoded(fragment);
  if (!decoded.starts_with('/')) {
    const auto anchor = anchors_.find(decoded);
    if (anchor == anchors_.end()) refuse(schema, "$ref", files::in_quotes(reference) + " is not in the schema");
    return anchor->second;
  }
  try {
    const OrderedJson& found = root_.at(OrderedJson::json_pointer(decoded));
    if (!found.is_object() && !found.is_boolean()) {
      refuse(schema, "$ref", files::in_quotes(reference) + " is not a schema");
    }
    return &found;
  } catch (const OrderedJson::exception&) {
    refuse(schema, "$ref", files::in_quotes(reference) + " is not in the schema");
  }
}

SchemaShape JsonSchemaReader::read(const SchemaParts& parts) const {
  SchemaShape shape;
  flatten(parts, shape);
  for (const OrderedJson* schema : shape.schemas) read_own(schema, shape);
  return shape;
}

/// Follows references and conjunctions.
void JsonSchemaReader::flatten(const SchemaParts& parts, SchemaShape& shape) const {
  using enum SchemaPart::Which;
  std::set<SchemaPart> seen(parts.begin(), parts.end());
  std::vector<SchemaPart> left(parts.rbegin(), parts.rend());
  const auto add = [&](SchemaPart part) {
    if (seen.insert(part).second) left.push_back(part);
  };
  while (!left.empty()) {
    const SchemaPart part = left.back();
    left.pop_back();
    const OrderedJson* schema = part.schema;
    if (schema->is_boolean()) {
      if (!schema->get<bool>()) shape.types = 0;
      continue;
    }
    if (part.which == kAnyOf || part.which == kOneOf) {
      const char* keyword = part.which == kAnyOf ? "anyOf" : "oneOf";
      const OrderedJson* options = array_at(schema, keyword);
      if (options->empty()) refuse(schema, keyword, "must not be empty");
      for (const OrderedJson& option : *options) {
        if (!option.is_object() && !option.is_boolean()) refuse(schema, keyword, "must have only schemas");
      }
      shape.alternatives.push_back(part);
      continue;
    }
    if (part.which == kOwn) {
      if (std::ranges::find(shape.schemas, schema) == shape.schemas.end()) shape.schemas.push_back(schema);
      continue;
    }
    add({schema, kOwn});
    if (schema->contains("$ref")) add({target(schema), kAll});
    if (const OrderedJson* all = array_at(schema, "allOf")) {
      for (const OrderedJson& item : *all) {
        if (!item.is_object() && !item.is_boolean()) refuse(schema, "allOf", "must have only schemas");
        add({&item, kAll});
      }
    }
    if (array_at(schema, "anyOf") != nullptr) add({schema, kAnyOf});
    if (array_at(schema, "oneOf") != nullptr) add({schema, kOneOf});
  }
  std::ranges::sort(shape.alternatives);
}

std::vector<const OrderedJson*> JsonSchemaReader::in_place(const OrderedJson* schema) const {
  std::vector<const OrderedJson*> all = {schema};
  const auto add = [&](const OrderedJson* other) {
    if (other->is_object() && std::ranges::find(all, other) == all.end()) all.push_back(other);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->contains("$ref")) add(target(all[i]));
    for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
      if (!all[i]->contains(keyword)) continue;
      for (const OrderedJson& item : all[i]->at(keyword)) add(&item);
    }
  }
  return all;
}

void JsonSchemaReader::read_own(const OrderedJson* schema, SchemaShape& shape) const {
  constexpr std::array kUnsupported = {"if",          "dependentRequired", "dependentSchemas", "dependencies",
                                       "$dynamicRef", "$recursiveRef",     "extends",          "disallow"};
  for (const char* keyword : kUnsupported) {
    const bool decides = std::string_view(keyword) != "if" || schema->contains("then") || schema->contains("else");
    if (decides && schema->contains(keyword)) refuse_kind(schema, keyword);
  }
  read_types(schema, shape);
  read_values(schema, shape);
  read_numbers(schema, shape);
  read_strings(schema, shape);
  read_arrays(schema, shape);
  read_objects(schema, shape);
  read_not(schema, shape);
}

unsigned JsonSchemaReader::types_of(const OrderedJson* schema, const OrderedJson& type) const {
  constexpr std::array<std::pair<std::string_view, unsigned>, 7> kNames = {{{"null", kJsonNull},
                                                                            {"boolean", kJsonBoolean},
                                                                            {"integer", kJsonInteger},
                                                                            {"number", kJsonInteger | kJsonFraction},
                                                                            {"string", kJsonString},
                                                                            {"array", kJsonArray},
                                                                            {"object", kJsonObject}}};
  if (type.is_array()) {
    unsigned types = 0;
    for (const OrderedJson& item : type) {
      if (!item.is_string()) refuse(schema, "type", "must be a name, or an array of names");
      types |= types_of(schema, item);
    }
    return types;
  }
  if (type.is_string()) {
    for (const auto& [name, bits] : kNames) {
      if (name == type.get_ref<const std::string&>()) return bits;
    }
  }
  refuse(schema, "type",
         files::concat("must be null, boolean, integer, number, string, array or object, is ",
                       files::in_quotes(type.dump(-1, ' ', true, OrderedJson::error_handler_t::replace))));
}

void JsonSchemaReader::read_types(const OrderedJson* schema, SchemaShape& shape) const {
  const auto type = schema->find("type");
  if (type != schema->end()) shape.types &= types_of(schema, *type);
}

void JsonSchemaReader::read_values(const OrderedJson* schema, SchemaShape& shape) const {
  const auto keep = [&](const OrderedJson* begin, const OrderedJson* end) {
    std::set<OrderedJson> left(begin, end);
    if (shape.values) {
      std::erase_if(*shape.values, [&](const OrderedJson& value) { return !left.contains(value); });
      return;
    }
    shape.values.emplace();
    for (const OrderedJson* value = begin; value != end; ++value) {
      if (left.erase(*value) > 0) shape.values->push_back(*value);
    }
  };
  const auto only = schema->find("const");
  if (only != schema->end()) keep(&*only, &*only + 1);
  if (const OrderedJson* several = array_at(schema, "enum"))
    keep(several->empty() ? nullptr : &several->front(),
         several->empty() ? nullptr : &several->front() + several->size());
}

void JsonSchemaReader::read_numbers(const OrderedJson* schema, SchemaShape& shape) const {
  const auto number = [&](const char* keyword) -> std::optional<double> {
    const auto found = schema->find(keyword);
    if (found == schema->end() || found->is_boolean()) return std::nullopt;
    if (!found->is_number()) refuse(schema, keyword, "must be a number");
    // Bounds are held as doubles, which larger integers may not be.
    constexpr double kExact = 9007199254740992.0;
    const auto value = found->get<double>();
    if (found->is_number_integer() && std::abs(value) >= kExact && std::abs(value) < 1e18) {
      refuse_kind(schema, keyword, "beyond 2^53");
    }
    return value;
  };
  // In draft 4, exclusiveMinimum says whether the minimum is excluded.
  const auto is_excluded = [&](const char* keyword) {
    const auto found = schema->find(keyword);
    return found != schema->end() && found->is_boolean() && found->get<bool>();
  };
  if (const auto value = number("minimum")) keep_largest(shape.least, {*value, is_excluded("exclusiveMinimum")});
  if (const auto value = number("maximum")) keep_smallest(shape.most, {*value, is_excluded("exclusiveMaximum")});
  if (const auto value = number("exclusiveMinimum")) keep_largest(shape.least, {*value, true});
  if (const auto value = number("exclusiveMaximum")) keep_smallest(shape.most, {*value, true});
  const auto multiple = schema->find("multipleOf");
  if (multiple == schema->end()) return;
  if (!multiple->is_number() || multiple->get<double>() <= 0) {
    refuse(schema, "multipleOf", "must be a number above 0");
  }
  const auto value = multiple->get<double>();
  if (std::floor(value) != value || value > 1e9) {
    // Programs disagree on whether 0.07 is a multiple of 0.01.
    if ((shape.types & (kJsonInteger | kJsonFraction)) != 0) refuse_kind(schema, "multipleOf", multiple->dump());
    return;
  }
  shape.multiples.push_back(static_cast<std::int64_t>(value));
}

void JsonSchemaReader::read_count(const OrderedJson* schema, const char* least_keyword, const char* most_keyword,
                                  std::size_t& least, std::size_t& most) const {
  constexpr double kMostCount = 1e9;
  const auto count = [&](const char* keyword) -> std::optional<double> {
    const auto found = schema->find(keyword);
    if (found == schema->end()) return std::nullopt;
    if (!found->is_number() || !is_whole_number(*found) || found->get<double>() < 0) {
      refuse(schema, keyword, "must be an integer of at least 0");
    }
    return found->get<double>();
  };
  if (const auto value = count(least_keyword)) {
    if (*value > kMostCount) refuse_kind(schema, least_keyword, "above 1000000000");
    least = std::max(least, static_cast<std::size_t>(*value));
  }
  if (const auto value = count(most_keyword)) {
    if (*value <= kMostCount) most = std::min(most, static_cast<std::size_t>(*value));
  }
}

void JsonSchemaReader::read_strings(const OrderedJson* schema, SchemaShape& shape) const {
  read_count(schema, "minLength", "maxLength", shape.least_length, shape.most_length);
  for (const char* keyword : {"pattern", "format"}) {
    const auto found = schema->find(keyword);
    if (found == schema->end()) continue;
    if (!found->is_string()) refuse(schema, keyword, "must be a string");
    const std::string& text = found->get_ref<const std::string&>();
    if (std::string_view(keyword) == "format") {
      shape.format = text;
    } else if (std::ranges::find(shape.patterns, text) == shape.patterns.end()) {
      shape.patterns.push_back(text);
    }
  }
}

void JsonSchemaReader::read_arrays(const OrderedJson* schema, SchemaShape& shape) const {
  read_count(schema, "minItems", "maxItems", shape.least_items, shape.most_items);
}

void JsonSchemaReader::read_objects(const OrderedJson* schema, SchemaShape& shape) const {
  read_count(schema, "minProperties", "maxProperties", shape.least_properties, shape.most_properties);
  const auto required = schema->find("required");
  if (required == schema->end() || required->is_boolean()) return;  // draft 3 writes it in the property
  if (!required->is_array()) refuse(schema, "required", "must be an array");
  for (const OrderedJson& name : *required) {
    if (!name.is_string()) refuse(schema, "required", "must have only strings");
    const std::string& text = name.get_ref<const std::string&>();
    if (std::ranges::find(shape.required, text) == shape.required.end()) shape.required.push_back(text);
  }
}

/// Of `not`, only what takes away whole types, values or properties is supported.
void JsonSchemaReader::read_not(const OrderedJson* schema, SchemaShape& shape) const {
  const OrderedJson* inner = schema_at(schema, "not");
  if (inner == nullptr) return;
  if (inner->is_boolean() || inner->empty()) {
    if (inner->is_object() || inner->get<bool>()) shape.types = 0;
    return;
  }
  if (inner->size() != 1) refuse_kind(schema, "not");
  if (const auto type = inner->find("type"); type != inner->end()) {
    const unsigned types = types_of(inner, *type);
    shape.types &= ~types;
    return;
  }
  const OrderedJson* required = inner->contains("required") ? array_at(inner, "required") : nullptr;
  if (required != nullptr && required->size() == 1 && required->front().is_string()) {
    shape.types &= kJsonObject;
    shape.absent.push_back(required->front().get<std::string>());
    return;
  }
  refuse_kind(schema, "not");
}

}  // namespace ballast::text
