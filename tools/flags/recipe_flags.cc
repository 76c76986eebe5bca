#include "tools/flags/recipe_flags.h"

#include <charconv>
#include <cstddef>
#include <map>
#include <system_error>
#include <utility>

#include "ballast/error.h"
#include "tools/flags/option_checks.h"
#include "tools/flags/prefix_flag.h"

namespace ballast::tools {
namespace {

/// Turns the errors of RecipeChanges, whose context is an option's name, into those of flags.
template <typename Function>
auto usage_errors(const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

WeightFormat format_of(const char* option, const std::string& name) {
  try {
    return parse_format(name);
  } catch (const Error& error) {
    throw UsageError(std::string(option) + ": " + error.what());
  }
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

/// Parses "REGEX=FORMAT", split at the last "=".
FormatOverride parse_format_override(const std::string& text) {
  const std::size_t cut = text.rfind('=');
  if (cut == std::string::npos || cut == 0) {
    throw UsageError("--format: '" + text + "' must be REGEX=FORMAT, like 'down_proj=int8-g64'");
  }
  return {.pattern = text.substr(0, cut), .format = format_of("--format", text.substr(cut + 1))};
}

RecipeChanges formats_and_shares(const RecipeFlags& flags) {
  RecipeChanges changes{.bits = flags.bits, .scale_bits = flags.scale_bits};
  if (flags.group_size) changes.group_size = *flags.group_size == "channel" ? 0 : std::stoul(*flags.group_size);
  if (flags.symmetric || flags.asymmetric) changes.symmetric = flags.symmetric;
  if (flags.rounding) changes.rounding = parse_rounding(*flags.rounding, "recipe");
  if (flags.target_size) changes.target_bytes = parse_bytes("--target-size", *flags.target_size);
  if (flags.outliers) {
    constexpr int kMostPercent = static_cast<int>(100 * kMostOutlierFraction);
    changes.outlier_fraction = parse_share("--outliers", *flags.outliers, kMostPercent);
  }
  if (flags.activation_scales) changes.activation_groups = *flags.activation_scales == "group";
  if (flags.int16_activation_fraction) {
    changes.int16_activation_fraction = parse_share("--wide-inputs", *flags.int16_activation_fraction, 100);
  }
  if (flags.embedding) changes.embedding = format_of("--embedding", *flags.embedding);
  if (flags.head) changes.head = format_of("--head", *flags.head);
  for (const std::string& format : flags.formats) changes.overrides.push_back(parse_format_override(format));
  if (flags.prefix) changes.prefix = prefix_from_flag(*flags.prefix);
  return changes;
}

std::map<std::string, bool> switches_of(const RecipeFlags& flags) {
  std::map<std::string, bool> switches;
  const auto set = [&](const char* name, bool value, bool given) {
    if (given) switches[name] = value;
  };
  set("fold_norms", false, flags.no_fold_norms);
  set("fold_biases", false, flags.no_fold_biases);
  set("center_norms", false, flags.no_center_norms);
  set("equalize", true, flags.equalize);
  set("smooth", true, flags.smooth);
  set("smooth", false, flags.no_smooth);
  set("rotate", true, flags.rotate);
  set("rotate_values", true, flags.rotate_values);
  set("untie_head", true, flags.untie_head);
  set("wide_end", false, flags.no_int16_activations_at_end);
  set("wide_amplified", false, flags.no_int16_activations_where_amplified);
  set("shrink_experts", false, flags.no_shrink_experts);
  set("correct_drift", false, flags.no_correct_drift);
  return switches;
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
  command.add_option("--bits", flags.bits, "Bits of the linears' weights: 2, 3, 4, 5, 6 or 8")
      ->type_name("N")
      ->check(one_of({"2", "3", "4", "5", "6", "8"}));
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

RecipeChanges changes_from_flags(const RecipeFlags& flags) {
  RecipeChanges changes = formats_and_shares(flags);
  changes.switches = switches_of(flags);
  return changes;
}

Recipe recipe_from_flags(const RecipeFlags& flags) {
  const RecipeChanges changes = changes_from_flags(flags);
  Recipe recipe = [&] {
    if (flags.file) return read_recipe(*flags.file);
    try {
      return recipe_for_scheme(flags.scheme);
    } catch (const Error& error) {
      throw UsageError(std::string("--scheme: ") + error.what());
    }
  }();
  return usage_errors([&] { return change_recipe(std::move(recipe), changes); });
}

void check_output_format(const RecipeFlags& flags, OutputFormat output_format) {
  const RecipeChanges changes = changes_from_flags(flags);
  usage_errors([&] { check_changes(changes, output_format); });
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

}  // namespace ballast::tools
