#include "tools/flags/recipe_flags.h"

#include <charconv>
#include <cstddef>
#include <regex>
#include <system_error>

#include "ballast/error.h"
#include "tools/flags/option_checks.h"
#include "tools/flags/prefix_flag.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

/// The largest allowed share of outlier columns.
constexpr int kMostOutlierPercent = 50;

WeightFormat format_of(const char* option, const std::string& name) {
  try {
    return parse_format(name);
  } catch (const Error& error) {
    throw UsageError(std::string(option) + ": " + error.what());
  }
}

void change_linears(const RecipeFlags& flags, WeightFormat& linears) {
  if (!flags.bits && !flags.group_size && !flags.scale_bits && !flags.symmetric && !flags.asymmetric) return;
  if (!linears.is_integer()) {
    throw UsageError(
        "--bits, --group-size, --scale-bits, --symmetric and --asymmetric need a scheme of integers with even steps, "
        "not " +
        format_name(linears) + " weights");
  }
  if (flags.bits) linears.bits = *flags.bits;
  if (flags.group_size) linears.group_size = *flags.group_size == "channel" ? 0 : std::stoul(*flags.group_size);
  if (flags.scale_bits) linears.scale_bits = *flags.scale_bits;
  if (flags.symmetric || flags.asymmetric) linears.symmetric = flags.symmetric;
  if (linears.scale_bits == 8 && linears.group_size == 0) {
    throw UsageError("scales of 8 bits need a --group-size other than channel");
  }
}

/// Returns whether flags name formats, which are then not chosen automatically.
bool names_formats(const RecipeFlags& flags) {
  return flags.bits || flags.group_size || flags.scale_bits || flags.symmetric || flags.asymmetric || flags.outliers ||
         flags.activation_scales || flags.embedding || flags.head;
}

void add_activation_flags(CLI::App& command, RecipeFlags& flags) {
  command
      .add_option("--activation-scales", flags.activation_scales,
                  "INT8 activations' scales: per token, or per token and group")
      ->type_name("token|group")
      ->check(one_of({"token", "group"}));
  command
      .add_option("--wide-inputs", flags.int16_activation_fraction,
                  "Inputs that INT8 would hurt most keep 16 bits, for this share of the work: none or PERCENT% "
                  "[w8a8: 20%, w4a8: 15%]")
      ->type_name("SHARE");
  command.add_flag(
      "--no-wide-end", flags.no_int16_activations_at_end,
      "INT8 activations also where only the last token of a prompt passes: at the end of the last block, in the "
      "head");
  command.add_flag("--no-wide-amplified", flags.no_int16_activations_where_amplified,
                   "INT8 activations also in MLPs after which a norm's gain makes single channels large (Gemma)");
}

void add_pass_flags(CLI::App& command, RecipeFlags& flags) {
  command.add_flag("--no-fold-norms", flags.no_fold_norms, "Keep the norms' gains");
  command.add_flag("--no-fold-biases", flags.no_fold_biases, "Keep all biases");
  command.add_flag("--no-center-norms", flags.no_center_norms, "Keep LayerNorms");
  command.add_flag("--equalize", flags.equalize, "Give V and O, and up and down, equal ranges by channel (exact)");
  CLI::Option* smooth = command.add_flag(
      "--smooth", flags.smooth, "Scale the inputs of linears against their columns (exact) [on in integer schemes]");
  command.add_flag("--no-smooth", flags.no_smooth, "Do not scale them")->excludes(smooth);
  command.add_flag("--rotate", flags.rotate, "Rotate the residual stream (exact)");
  command.add_flag("--rotate-values", flags.rotate_values, "Rotate the values of each head (exact)");
  command.add_flag("--untie-head", flags.untie_head, "Give a head that is the embedding a matrix of its own");
}

void require_int8_activations(const Recipe& recipe, const char* option) {
  if (recipe.activations == ActivationType::kInt8) return;
  throw UsageError(std::string(option) + " needs a scheme that quantizes activations (w8a8, w4a8)");
}

void change_activations(const RecipeFlags& flags, Recipe& recipe) {
  if (flags.activation_scales) {
    require_int8_activations(recipe, "--activation-scales");
    recipe.activation_groups = *flags.activation_scales == "group";
  }
  if (flags.int16_activation_fraction) {
    require_int8_activations(recipe, "--wide-inputs");
    if (recipe.target_bytes == 0) {
      throw UsageError("--wide-inputs is for formats that are chosen matrix by matrix, not for one that is named");
    }
    recipe.int16_activation_fraction = parse_share("--wide-inputs", *flags.int16_activation_fraction, 100);
  }
  if (flags.no_int16_activations_at_end) recipe.int16_activations_at_end = false;
  if (flags.no_int16_activations_where_amplified) recipe.int16_activations_where_amplified = false;
}

}  // namespace

void add_recipe_flags(CLI::App& command, RecipeFlags& flags) {
  CLI::Option* scheme = command
                            .add_option("--scheme", flags.scheme,
                                        "Bits of weights and activations, the formats chosen matrix by matrix: " +
                                            CLI::detail::join(scheme_names(), ", "))
                            ->option_text("SCHEME [" + flags.scheme + "]")
                            ->check(suggested(scheme_names()));
  command.add_option("--recipe", flags.file, "Recipe to start from instead of a scheme; flags override it")
      ->option_text("FILE.json")
      ->excludes(scheme);
  command.add_option("--bits", flags.bits, "Bits of the linears' weights: 4, 5, 6 or 8")
      ->type_name("N")
      ->check(one_of({"4", "5", "6", "8"}));
  command.add_option("--group-size", flags.group_size, "Weights that share a scale: 32, 64, 128 or channel")
      ->type_name("N")
      ->check(one_of({"32", "64", "128", "channel"}));
  command.add_option("--scale-bits", flags.scale_bits, "Bits of the groups' scales: 16 or 8")
      ->type_name("N")
      ->check(one_of({"16", "8"}));
  CLI::Option* symmetric =
      command.add_flag("--symmetric", flags.symmetric, "Weights without zero points")->option_text(" ");
  command.add_flag("--asymmetric", flags.asymmetric, "Weights with a zero point per group")
      ->option_text(" ")
      ->excludes(symmetric);
  command
      .add_option("--rounding", flags.rounding,
                  "Weights to the nearest values of their group's range, of the range with the least error, or one "
                  "column after the other (GPTQ)")
      ->type_name("nearest|search|gptq")
      ->check(one_of({"nearest", "search", "gptq"}));
  command
      .add_option(
          "--target-size", flags.target_size,
          "Largest size of the tensor files: formats are chosen matrix by matrix, the scheme gives the activations")
      ->type_name("SIZE");
  command.add_option("--outliers", flags.outliers, "Input channels of each linear kept in 16 bits: none or PERCENT%")
      ->type_name("SHARE");
  add_activation_flags(command, flags);
  command.add_option("--embedding", flags.embedding, "Format of the embedding")->type_name("FORMAT");
  command.add_option("--head", flags.head, "Format of a head that is not the embedding")->type_name("FORMAT");
  command.add_option("--format", flags.formats, "Format of the tensors whose name matches; repeatable")
      ->option_text("REGEX=FORMAT")
      ->allow_extra_args(false);
  add_prefix_flag(command, flags.prefix);
  add_pass_flags(command, flags);
  command.add_flag("--no-shrink-experts", flags.no_shrink_experts,
                   "Round experts only by the tokens that were routed to them, even if few");
  command.add_flag("--no-correct-drift", flags.no_correct_drift,
                   "Do not correct the error of the rounding of earlier matrices");
}

Recipe recipe_from_flags(const RecipeFlags& flags) {
  Recipe recipe = [&] {
    if (flags.file) return read_recipe(*flags.file);
    try {
      return recipe_for_scheme(flags.scheme);
    } catch (const Error& error) {
      throw UsageError(std::string("--scheme: ") + error.what());
    }
  }();
  change_linears(flags, recipe.linears);
  if (names_formats(flags) && recipe.target_bytes == Recipe::kNaturalSize) recipe.target_bytes = 0;
  if (flags.target_size && (flags.embedding || flags.head || flags.bits || flags.group_size || flags.scale_bits ||
                            flags.symmetric || flags.asymmetric)) {
    throw UsageError(
        "a target size chooses what --bits, --group-size, --scale-bits, --symmetric, --asymmetric, --embedding and "
        "--head would set; --format fixes a matrix's format");
  }
  if (flags.target_size && !recipe.linears.is_ballast_format()) {
    throw UsageError("a target size needs a scheme of integers, not " + recipe.scheme);
  }
  if (flags.target_size) recipe.target_bytes = parse_bytes("--target-size", *flags.target_size);
  if (flags.rounding) recipe.rounding = parse_rounding(*flags.rounding, "recipe");
  if (flags.outliers) {
    recipe.outlier_fraction = parse_share("--outliers", *flags.outliers, kMostOutlierPercent);
  }
  if (flags.no_shrink_experts) recipe.shrink_experts = false;
  if (flags.no_correct_drift) recipe.correct_drift = false;
  change_activations(flags, recipe);
  if (flags.embedding) recipe.embedding = format_of("--embedding", *flags.embedding);
  if (flags.head) recipe.head = format_of("--head", *flags.head);
  if (flags.prefix) recipe.prefix = prefix_from_flag(*flags.prefix);
  if (flags.no_fold_norms) recipe.fold_norms = false;
  if (flags.no_fold_biases) recipe.fold_biases = false;
  if (flags.no_center_norms) recipe.center_norms = false;
  if (flags.equalize) recipe.equalize = true;
  if (flags.smooth) recipe.smooth = true;
  if (flags.no_smooth) recipe.smooth = false;
  if (flags.rotate) recipe.rotate = true;
  if (flags.rotate_values) recipe.rotate_values = true;
  if (flags.untie_head) recipe.untie_head = true;

  // The first match wins, so the flags' overrides come before the file's.
  std::vector<FormatOverride> overrides;
  for (const std::string& format : flags.formats) overrides.push_back(parse_format_override(format));
  recipe.overrides.insert(recipe.overrides.begin(), overrides.begin(), overrides.end());
  return recipe;
}

double parse_share(const std::string& option, const std::string& text, int most_percent) {
  if (text == "none") return 0;
  double percent = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  // This form also refuses NaN.
  const bool in_range = percent >= 0 && percent <= most_percent;
  if (error != std::errc{} || stop == text.data() || std::string(stop, end) != "%" || !in_range) {
    throw UsageError(option + ": '" + text + "' must be none or a share from 0% to " + std::to_string(most_percent) +
                     "%, like 1.5%");
  }
  return percent / 100;
}

FormatOverride parse_format_override(const std::string& text) {
  const std::size_t cut = text.rfind('=');
  if (cut == std::string::npos || cut == 0) {
    throw UsageError("--format: '" + text + "' must be REGEX=FORMAT, like 'down_proj=int8-g64'");
  }
  FormatOverride entry{.pattern = text.substr(0, cut), .format = format_of("--format", text.substr(cut + 1))};
  try {
    std::regex(entry.pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw UsageError("--format: '" + entry.pattern + "' is not a regular expression: " + error.what());
  }
  return entry;
}

}  // namespace ballast::tools
