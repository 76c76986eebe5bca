// What a conversion's exact passes did to a linear's inputs and outputs, so that an adapter of the original model can
// be changed in the same way.
#ifndef BALLAST_MODEL_SOURCE_LINEAR_FOLDS_H_
#define BALLAST_MODEL_SOURCE_LINEAR_FOLDS_H_

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/source/lora_adapter.h"

namespace ballast::model {

/// The changes of a matrix along its inputs (rows of weights) or its outputs (columns of weights, and the bias), in
/// order.
class AxisFolds {
 public:
  /// The values were multiplied by a factor each.
  struct Scaling {
    std::vector<float> factors;
    bool operator==(const Scaling&) const = default;
  };
  /// They were multiplied by Hadamard matrices in runs of `order`.
  struct Rotation {
    std::size_t order = 0;
    bool random_signs = false;
    bool operator==(const Rotation&) const = default;
  };
  /// Their mean was subtracted.
  struct Centering {
    bool operator==(const Centering&) const = default;
  };
  using Step = std::variant<Scaling, Rotation, Centering>;

  void scale(std::span<const float> factors);
  void add(Step step) { steps_.push_back(std::move(step)); }

  const std::vector<Step>& steps() const { return steps_; }
  bool operator==(const AxisFolds&) const = default;

  /// Does the same with other values, [count]. Precondition: check() does not throw.
  void apply(std::span<double> values) const;

  /// Throws Error if the steps cannot be applied to so many values.
  void check(std::size_t count, const std::string& context) const;

 private:
  std::vector<Step> steps_;
};

struct LinearFolds {
  /// A part of the input that was constant, and whose product is in the bias now; before the other changes. Or empty.
  std::vector<float> constant_input;
  AxisFolds inputs, outputs;

  /// Notes that the bias has the product of a part of the original input. Precondition: the input has no other changes.
  void add_constant_input(std::span<const float> input);

  bool empty() const { return constant_input.empty() && inputs.steps().empty() && outputs.steps().empty(); }
  bool operator==(const LinearFolds&) const = default;
};

/// Name of the file beside a model that ballast wrote.
inline constexpr const char* kFoldsFile = "folds.safetensors";

/// Returns the content of that file, by the names of the modules.
std::string folds_bytes(const std::map<std::string, LinearFolds>& folds);

/// Reads the file, or its content; `context` names it in messages. Throw Error.
std::map<std::string, LinearFolds> read_folds(const std::filesystem::path& path);
std::map<std::string, LinearFolds> parse_folds(std::string_view bytes, const std::string& context);

/// Changes an adapter's product for a matrix as the matrix was changed. Throws Error, which begins with `context`, if
/// the sizes differ.
void apply_folds(const LinearFolds& folds, const std::string& context, LoraProduct& product);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_LINEAR_FOLDS_H_
