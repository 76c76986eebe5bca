#include "ballast/recipe.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "ballast/error.h"
#include "ballast/recipe_changes.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/text_file.h"
#include "quant/recipes/name_pattern.h"
#include "quant/recipes/recipe_switches.h"

namespace ballast {

namespace {

using nlohmann::json;

// Share of the input channels in 16 bits. Measured on SmolLM2-135M, KL over 6 chunks of WikiText: w8a8 0.0033 at 1.0 %,
// w4a16 0.33 without (norms unfolded) and 0.14 with 0.8 %. docs/method.md has the table.
constexpr double kInt8OutlierFraction = 0.01;
constexpr double kInt4OutlierFraction = 0.008;

// Share of the multiply-adds that read INT16: at 8 bits INT8 activations are half of the loss.
constexpr double kW8Int16ActivationFraction = 0.2;
constexpr double kW4Int16ActivationFraction = 0.15;

Recipe plain_recipe(std::string_view scheme, WeightFormat::Kind kind) {
  Recipe recipe;
  recipe.scheme = scheme;
  recipe.linears.kind = recipe.embedding.kind = recipe.head.kind = kind;
  return recipe;
}

Recipe integer_recipe(std::string_view scheme, const WeightFormat& linears, ActivationType activations) {
  Recipe recipe;
  recipe.scheme = scheme;
  recipe.linears = linears;
  recipe.embedding = recipe.head = {.bits = 8, .group_size = 64};
  recipe.activations = activations;
  recipe.activation_groups = activations == ActivationType::kInt8;
  recipe.rounding = Recipe::Rounding::kGptq;
  recipe.smooth = true;
  recipe.target_bytes = Recipe::kNaturalSize;
  recipe.outlier_fraction = linears.bits < 8 ? kInt4OutlierFraction : kInt8OutlierFraction;
  recipe.int16_activation_fraction = linears.bits < 8 ? kW4Int16ActivationFraction : kW8Int16ActivationFraction;
  return recipe;
}

constexpr WeightFormat kInt8 = {.bits = 8, .group_size = 64};
constexpr WeightFormat kInt4 = {.bits = 4, .group_size = 32, .symmetric = false};

const std::vector<Recipe>& scheme_recipes() {
  static const std::vector<Recipe> recipes = {
      plain_recipe("f32", WeightFormat::Kind::kF32),          plain_recipe("bf16", WeightFormat::Kind::kBF16),
      integer_recipe("w8a16", kInt8, ActivationType::kInt16), integer_recipe("w8a8", kInt8, ActivationType::kInt8),
      integer_recipe("w4a16", kInt4, ActivationType::kInt16), integer_recipe("w4a8", kInt4, ActivationType::kInt8),
  };
  return recipes;
}

WeightFormat read_format(const files::JsonReader& value) {
  try {
    return parse_format(value.string());
  } catch (const Error& error) {
    value.fail(error.what());
  }
}

std::vector<FormatOverride> parse_overrides(const files::JsonReader& list) {
  std::vector<FormatOverride> overrides;
  for (const files::JsonReader& entry : list.elements()) {
    overrides.push_back({entry.text("pattern"), read_format(entry.at("format"))});
    if (entry.json().size() != 2) entry.fail("only 'pattern' and 'format' may be in " + entry.json().dump());
    quant::compile_name_pattern(overrides.back().pattern, entry.context());
  }
  return overrides;
}

constexpr std::array kFormatFields = {"linears", "embedding", "head", "outlier_fraction", "activation_groups"};
constexpr const char* kNatural = "natural";  // as target_bytes

struct RoundingName {
  Recipe::Rounding rounding;
  std::string_view name;
};

constexpr std::array<RoundingName, 3> kRoundings{{
    {Recipe::Rounding::kNearest, "nearest"},
    {Recipe::Rounding::kScaleSearch, "search"},
    {Recipe::Rounding::kGptq, "gptq"},
}};

double read_share(const files::JsonReader& value, double most) {
  const double share = value.number();
  if (share >= 0 && share <= most) return share;
  value.fail("must be between 0 and " + json(most).dump() + ", is " + value.json().dump());
}

void set_field(Recipe& recipe, std::string_view key, const files::JsonReader& value, std::string_view context) {
  if (bool Recipe::* field = quant::find_switch(key)) {
    recipe.*field = value.boolean();
  } else if (key == "outlier_fraction") {
    recipe.outlier_fraction = read_share(value, kMostOutlierFraction);
  } else if (key == "wide_fraction") {
    recipe.int16_activation_fraction = read_share(value, 1);
  } else if (key == "linears") {
    recipe.linears = read_format(value);
  } else if (key == "embedding") {
    recipe.embedding = read_format(value);
  } else if (key == "head") {
    recipe.head = read_format(value);
  } else if (key == "exceptions") {
    recipe.overrides = parse_overrides(value);
  } else if (key == "target_bytes") {
    const bool natural = value.json() == kNatural;
    recipe.target_bytes = natural ? Recipe::kNaturalSize : value.integer<std::uint64_t>();
  } else if (key == "rounding") {
    recipe.rounding = parse_rounding(value.string(), context);
  } else if (key == "activations") {
    const bool int8 = value.string() == "int8";
    if (!int8 && value.string() != "float") value.fail("must be \"float\" or \"int8\", is " + value.json().dump());
    recipe.activations = int8 ? ActivationType::kInt8 : ActivationType::kInt16;
  } else if (key == "prefix") {
    recipe.prefix = parse_prefix(value.string(), value.context());
  } else if (key != "scheme") {
    throw Error(context, "unknown field '" + std::string(key) + "' in the recipe");
  }
}

}  // namespace

std::string_view rounding_name(Recipe::Rounding rounding) {
  return std::ranges::find(kRoundings, rounding, &RoundingName::rounding)->name;
}

Recipe::Rounding parse_rounding(std::string_view name, std::string_view context) {
  const auto it = std::ranges::find(kRoundings, name, &RoundingName::name);
  if (it != kRoundings.end()) return it->rounding;
  std::string known;
  for (const RoundingName& rounding : kRoundings) known += (known.empty() ? "" : ", ") + std::string(rounding.name);
  throw Error(std::string(context) + ": rounding", "'" + std::string(name) + "' is unknown; there are " + known);
}

const std::vector<std::string>& scheme_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Recipe& recipe : scheme_recipes()) list.push_back(recipe.scheme);
    return list;
  }();
  return names;
}

Recipe recipe_for_scheme(std::string_view scheme) {
  const auto it = std::ranges::find(scheme_recipes(), scheme, &Recipe::scheme);
  if (it != scheme_recipes().end()) return *it;
  std::string known;
  for (const std::string& name : scheme_names()) known += (known.empty() ? "" : ", ") + name;
  throw Error("scheme '" + std::string(scheme) + "'", "unknown; there are " + known);
}

std::string recipe_json(const Recipe& recipe) {
  json overrides = json::array();
  for (const FormatOverride& entry : recipe.overrides) {
    overrides.push_back({{"pattern", entry.pattern}, {"format", format_name(entry.format)}});
  }
  json result = {{"scheme", recipe.scheme},
                 {"outlier_fraction", recipe.outlier_fraction},
                 {"linears", format_name(recipe.linears)},
                 {"embedding", format_name(recipe.embedding)},
                 {"head", format_name(recipe.head)},
                 {"exceptions", overrides},
                 {"rounding", rounding_name(recipe.rounding)},
                 {"activations", recipe.activations == ActivationType::kInt8 ? "int8" : "float"},
                 {"wide_fraction", recipe.int16_activation_fraction}};
  const bool natural = recipe.target_bytes == Recipe::kNaturalSize;
  result["target_bytes"] = natural ? json(kNatural) : json(recipe.target_bytes);
  for (const auto& [name, field] : quant::kRecipeSwitches) result[std::string(name)] = recipe.*field;
  if (recipe.shrink_experts) result.erase("shrink_experts");  // most models have none
  if (recipe.correct_drift) result.erase("correct_drift");    // only GPTQ does
  if (!recipe.prefix.none()) result["prefix"] = prefix_name(recipe.prefix);
  return result.dump(2) + "\n";
}

Recipe parse_recipe(std::string_view text, std::string_view context) {
  const json parsed = files::parse_strict_json(text, context);
  const files::JsonReader reader(parsed, std::string(context));
  Recipe recipe = recipe_for_scheme(reader.text("scheme", "w8a8"));
  const bool names_formats = std::ranges::any_of(kFormatFields, [&](const char* key) { return parsed.contains(key); });
  if (names_formats) recipe.target_bytes = 0;
  for (const auto& [key, value] : reader.members()) set_field(recipe, key, value, context);
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& path) {
  return parse_recipe(files::read_text_file(path), path.string());
}

}  // namespace ballast
