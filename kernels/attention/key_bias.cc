#include "kernels/attention/key_bias.h"

#include <cmath>

namespace ballast::kernels {

namespace {

constexpr std::size_t kSlack = 128;  // two vectors of 2048 bits

}  // namespace

KeyRotation::KeyRotation(std::span<const double> frequencies, double amplitude, std::size_t offset)
    : frequencies_(frequencies.begin(), frequencies.end()),
      groups_(kGroups * 2 * pairs()),
      panels_(kGroupPanels * 2 * pairs()),
      table_(2 * pairs() * kPanelTokens + kSlack),
      offset_(offset),
      amplitude_(static_cast<float>(amplitude)) {
  for (std::size_t group = 0; group < kGroups; ++group) {
    at(static_cast<double>(group * kGroupPanels * kPanelTokens), groups_.data() + group * 2 * pairs());
  }
  for (std::size_t panel = 0; panel < kGroupPanels; ++panel) {
    at(static_cast<double>(panel * kPanelTokens), panels_.data() + panel * 2 * pairs());
  }
  for (std::size_t j = 0; j < pairs(); ++j) {
    for (std::size_t token = 0; token < kPanelTokens; ++token) {
      const double angle = static_cast<double>(token) * frequencies_[j];
      table_[j * kPanelTokens + token] = static_cast<float>(std::cos(angle));
      table_[(pairs() + j) * kPanelTokens + token] = static_cast<float>(std::sin(angle));
    }
  }
}

void KeyRotation::at(double position, double* angles) const {
  for (std::size_t j = 0; j < pairs(); ++j) {
    angles[j] = std::cos(position * frequencies_[j]);
    angles[pairs() + j] = std::sin(position * frequencies_[j]);
  }
}

void KeyRotation::panel_angles(std::size_t panel, const FarGroup& far, float* angles) const {
  const std::size_t group = panel / kGroupPanels;
  if (group >= kGroups && *far.number != group) {
    at(static_cast<double>(group * kGroupPanels * kPanelTokens), far.angles);
    *far.number = group;
  }
  const double* start = group < kGroups ? groups_.data() + group * 2 * pairs() : far.angles;
  const double* turn = panels_.data() + panel % kGroupPanels * 2 * pairs();
  for (std::size_t j = 0; j < pairs(); ++j) {
    const double cos = start[j], sin = start[pairs() + j];
    const double turn_cos = turn[j], turn_sin = turn[pairs() + j];
    angles[j] = static_cast<float>(cos * turn_cos - sin * turn_sin);
    angles[pairs() + j] = static_cast<float>(sin * turn_cos + cos * turn_sin);
  }
}

}  // namespace ballast::kernels
