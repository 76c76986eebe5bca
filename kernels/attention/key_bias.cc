#include "kernels/attention/key_bias.h"

#include <cmath>

namespace ballast::kernels {

namespace {

constexpr std::size_t kSlack = 128;  // two vectors of 2048 bits

}  // namespace

KeyRotation::KeyRotation(std::span<const double> frequencies, double amplitude, std::size_t offset)
    : frequencies_(frequencies.begin(), frequencies.end()),
      panel_cos_(pairs()),
      panel_sin_(pairs()),
      table_(2 * pairs() * kPanelTokens + kSlack),
      offset_(offset),
      amplitude_(static_cast<float>(amplitude)) {
  at(static_cast<double>(kPanelTokens), panel_cos_.data(), panel_sin_.data());
  for (std::size_t j = 0; j < pairs(); ++j) {
    for (std::size_t token = 0; token < kPanelTokens; ++token) {
      const double angle = static_cast<double>(token) * frequencies_[j];
      table_[j * kPanelTokens + token] = static_cast<float>(std::cos(angle));
      table_[(pairs() + j) * kPanelTokens + token] = static_cast<float>(std::sin(angle));
    }
  }
}

void KeyRotation::at(double position, double* cos, double* sin) const {
  for (std::size_t j = 0; j < pairs(); ++j) {
    cos[j] = std::cos(position * frequencies_[j]);
    sin[j] = std::sin(position * frequencies_[j]);
  }
}

void KeyRotation::advance_panel(double* cos, double* sin) const {
  for (std::size_t j = 0; j < pairs(); ++j) {
    const double c = cos[j] * panel_cos_[j] - sin[j] * panel_sin_[j];
    sin[j] = sin[j] * panel_cos_[j] + cos[j] * panel_sin_[j];
    cos[j] = c;
  }
}

}  // namespace ballast::kernels
