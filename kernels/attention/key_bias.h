// What a projection adds to every key before rotary positions, kept out of INT8 caches: it would take most of the
// codes' range (Qwen2.5-7B: up to 921 where keys are around 22). As it is the same for all keys but for their rotation,
// what it adds to a score is a sum over frequencies, which attention computes in F32.
#ifndef BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_
#define BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/attention/key_value_rows.h"

namespace ballast::kernels {

/// How a model rotates its keys: pairs (j, j + n) of the values `offset` ... of a head, where n is the number of
/// frequencies, by position * frequency. Built once.
class KeyRotation {
 public:
  KeyRotation() = default;
  /// `amplitude` is what cos and sin are multiplied with.
  KeyRotation(std::span<const double> frequencies, double amplitude, std::size_t offset);

  std::size_t pairs() const { return frequencies_.size(); }
  std::size_t offset() const { return offset_; }
  float amplitude() const { return amplitude_; }

  /// cos, then sin, of every frequency for the tokens of a panel: [2 * pairs()][kPanelTokens], and behind them as much
  /// as the longest vectors read beyond the last.
  const float* table() const { return table_.data(); }

  /// Writes cos and sin of position * frequency, [pairs()] each.
  void at(double position, double* cos, double* sin) const;
  /// The same one panel further on, from the last.
  void advance_panel(double* cos, double* sin) const;

 private:
  std::vector<double> frequencies_;
  std::vector<double> panel_cos_, panel_sin_;  ///< by how much a panel rotates
  std::vector<float> table_;
  std::size_t offset_ = 0;
  float amplitude_ = 1.0F;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_
