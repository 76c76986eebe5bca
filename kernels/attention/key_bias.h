// What a projection adds to every key before rotary positions, kept out of INT8 caches: it would take most of the
// codes' range (Qwen2.5-7B: up to 921 where keys are around 22). As it is the same for all keys but for their rotation,
// what it adds to a score is a sum over frequencies, which attention computes in F32.
#ifndef BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_
#define BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/attention/key_value_pages.h"

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

  /// cos, then sin, of every frequency for the tokens of a panel: [2 * pairs()][kPanelTokens], and after them as much
  /// as the longest vectors read beyond the last.
  const float* table() const { return table_.data(); }

  /// Writes cos, then sin, of position * frequency, [2 * pairs()].
  void at(double position, double* angles) const;
  /// Angles of a group of panels, [2 * pairs()], that no table has.
  struct FarGroup {
    double* angles;
    std::size_t* number;  ///< of the group; kNone at first
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  };
  /// The same for position panel * kPanelTokens: a function of the panel alone, not of those before it. `far` keeps
  /// what panels side by side have in common beyond the tables.
  void panel_angles(std::size_t panel, const FarGroup& far, float* angles) const;

 private:
  /// A panel's angles are those of its group's start, turned by those of its place in the group.
  static constexpr std::size_t kGroupPanels = 64;
  static constexpr std::size_t kGroups = 64;

  std::vector<double> frequencies_;
  std::vector<double> groups_;  ///< [kGroups][2 * pairs()]: angles of the first groups' starts
  std::vector<double> panels_;  ///< [kGroupPanels][2 * pairs()]: of the panels of the first group
  std::vector<float> table_;
  std::size_t offset_ = 0;
  float amplitude_ = 1.0F;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_KEY_BIAS_H_
