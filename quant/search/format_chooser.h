// Chooses the format of each matrix by a recipe.
#ifndef BALLAST_QUANT_SEARCH_FORMAT_CHOOSER_H_
#define BALLAST_QUANT_SEARCH_FORMAT_CHOOSER_H_

#include <cstddef>
#include <regex>
#include <vector>

#include "ballast/recipe.h"
#include "model/source/model_source.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// Returns for each layer whether a norm makes single channels of its MLP's output large; empty if the recipe does not
/// use it.
std::vector<bool> amplified_layers(const Recipe& recipe, const model::ModelSource& source);

/// Sets the format of every matrix of a block by the recipe.
class FormatChooser {
 public:
  /// `amplified` is the result of amplified_layers().
  FormatChooser(const Recipe& recipe, const ModelSpec& spec, std::vector<bool> amplified = {});
  /// `index` is the same as in WorkingBlockLoader.
  void choose(WorkingBlock& block, std::size_t index);

  /// Throws Error with the pattern of an override that no matrix so far has matched.
  void check_overrides() const;

  /// Returns whether the user named a format for a matrix.
  bool names_format_of(const std::string& matrix) const;

 private:
  struct Override {
    FormatOverride asked;
    std::regex pattern;
    bool matched = false;
  };

  /// Returns the format of the first override that matches; null if none does.
  const WeightFormat* asked_format(const WorkingLinear& linear);
  WeightFormat default_format(const WorkingLinear& linear) const;

  /// Returns whether a matrix reads INT16 although the recipe's others read INT8.
  bool reads_int16(model::Role role, std::size_t index) const;

  /// Returns whether a matrix's input is needed only for a prompt's last token.
  bool reads_last_token_only(model::Role role, std::size_t index) const;

  Recipe recipe_;
  ModelSpec spec_;
  std::vector<bool> amplified_;
  std::vector<Override> overrides_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_FORMAT_CHOOSER_H_
