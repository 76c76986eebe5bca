// Handles the bias that a projection adds to every key before rotary positions. It is kept out of INT8 caches, where it
// would take most of the codes' range (Qwen2.5-7B: up to 921 where keys are around 22). Because it is the same for all
// keys except for their rotation, its effect on a score is a sum over frequencies, which attention computes in F32.
#ifndef BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_
#define BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/attention/key_value_pages.h"

namespace ballast::kernels {

/// The rotation of a model's keys: pairs (j, j + n) of the values `offset` ... of a head, where n is the number of
/// frequencies, by position * frequency. Built once.
class KeyRotation {
 public:
  KeyRotation() = default;
  /// `amplitude` is the factor on cos and sin.
  KeyRotation(std::span<const double> frequencies, double amplitude, std::size_t offset);

  std::size_t pairs() const { return frequencies_.size(); }
  std::size_t offset() const { return offset_; }
  float amplitude() const { return amplitude_; }

  /// Returns cos, then sin, of every frequency for the tokens of a panel: [2 * pairs()][kPanelTokens], followed by
  /// padding for the longest vectors.
  const float* table() const { return table_.data(); }

  /// Writes cos, then sin, of position * frequency, [2 * pairs()].
  void at(double position, double* angles) const;
  /// Angles of a group of panels, [2 * pairs()], beyond the tables.
  struct FarGroup {
    double* angles;
    std::size_t* number;  ///< of the group; kNone initially
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  };
  /// Computes the same for position panel * kPanelTokens, independent of earlier calls. `far` caches the common part of
  /// neighbouring panels beyond the tables.
  void panel_angles(std::size_t panel, const FarGroup& far, float* angles) const;

 private:
  /// A panel's angles are those of its group's start, rotated by those of its index in the group.
  static constexpr std::size_t kGroupPanels = 64;
  static constexpr std::size_t kGroups = 64;

  std::vector<double> frequencies_;
  std::vector<double> groups_;  ///< [kGroups][2 * pairs()]: angles of the first groups' starts
  std::vector<double> panels_;  ///< [kGroupPanels][2 * pairs()]: angles of the panels of the first group
  std::vector<float> table_;
  std::size_t offset_ = 0;
  float amplitude_ = 1.0F;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_
