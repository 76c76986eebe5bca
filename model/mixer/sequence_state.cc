#include "model/mixer/sequence_state.h"

#include <algorithm>
#include <cassert>

#include "model/mixer/mixer_kind.h"

namespace ballast::model {

namespace {

std::vector<CacheShape> cache_shapes(const ModelSpec& spec, SequenceState::Layers layers) {
  std::vector<CacheShape> shapes;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const bool runs = spec.in_encoder(layer) == (layers == SequenceState::Layers::kOfEncoder);
    shapes.push_back(runs ? cache_shape(spec.layers[layer]) : CacheShape{});
  }
  return shapes;
}

std::unique_ptr<MixerState> make_mixer_state(const ModelSpec& spec, std::size_t layer) {
  const MixerKind& kind = mixer_kind(spec.layers[layer]);
  return kind.make_state == nullptr ? nullptr : kind.make_state(spec, layer);
}

}  // namespace

MixerStates::MixerStates(const MixerStates& other) {
  for (const auto& state : other.states_) states_.push_back(state == nullptr ? nullptr : state->clone());
}

MixerStates& MixerStates::operator=(const MixerStates& other) {
  if (this != &other) *this = MixerStates(other);
  return *this;
}

void MixerStates::copy_values(MixerStates& other) {
  if (states_.empty()) {
    *this = other;
    return;
  }
  const std::vector<std::span<float>> from = other.values();
  const std::vector<std::span<float>> to = values();
  for (std::size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i], to[i].begin());
}

bool MixerStates::empty() const {
  return std::ranges::all_of(states_, [](const auto& state) { return state == nullptr; });
}

std::size_t MixerStates::memory_bytes() const {
  std::size_t bytes = 0;
  for (const auto& state : states_) bytes += state == nullptr ? 0 : state->memory_bytes();
  return bytes;
}

std::vector<std::span<float>> MixerStates::values() {
  std::vector<std::span<float>> all;
  for (const auto& state : states_) {
    if (state == nullptr) continue;
    const std::vector<std::span<float>> values = state->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

SequenceState::SequenceState(const ModelSpec& spec, const KeyValueCacheOptions& options, Layers layers)
    : cache_(cache_shapes(spec, layers), options) {
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) mixers_.add(make_mixer_state(spec, layer));
  beginning_ = std::make_shared<const MixerStates>(mixers_);
}

SequenceState::SequenceState(const ModelSpec& spec, std::size_t layer, const KeyValueCacheOptions& options)
    : cache_({cache_shape(spec.layers[cache_layer(spec, layer)])}, options) {
  mixers_.add(make_mixer_state(spec, layer));
  beginning_ = std::make_shared<const MixerStates>(mixers_);
}

void SequenceState::hold_prefix() {
  cache_.hold_prefix();
  beginning_ = std::make_shared<const MixerStates>(mixers_);
}

bool SequenceState::can_truncate_to(std::size_t length) const {
  return cache_.can_truncate_to(length) && (mixers_.empty() || length == 0 || (length == this->length() && !invalid_));
}

void SequenceState::truncate(std::size_t length) {
  assert(can_truncate_to(length));
  if (length != this->length() || invalid_) mixers_ = *beginning_;
  invalid_ = false;
  cache_.truncate(length);
}

void SequenceState::restore(const Snapshot& snapshot) {
  assert(can_restore(snapshot));
  mixers_ = snapshot.mixers;
  invalid_ = false;
  cache_.truncate(snapshot.length);
}

void SequenceState::renew(Snapshot& snapshot) {
  snapshot.length = length();
  snapshot.mixers.copy_values(mixers_);
}

void SequenceState::exchange(Snapshot& snapshot) {
  assert(can_restore(snapshot));
  std::swap(mixers_, snapshot.mixers);
  invalid_ = false;
  cache_.truncate(snapshot.length);
}

}  // namespace ballast::model
