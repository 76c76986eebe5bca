#include "calib/calibration_state.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "jobs/saved_arrays.h"
#include "jobs/sharded_sum.h"

namespace ballast::calib {

namespace {

// The name of a layer's blob consists of this and the layer's number.
constexpr std::string_view kLayer = "layer.";
constexpr const char* kContext = "saved progress";

std::string blob(std::size_t layer) {
  return std::string(kLayer) + std::to_string(layer);
}

std::vector<std::size_t> saved_layers(const jobs::JobState& state) {
  std::vector<std::size_t> layers;
  for (const std::string& name : state.names()) {
    if (!name.starts_with(kLayer)) continue;
    std::size_t layer = 0;
    std::from_chars(name.data() + kLayer.size(), name.data() + name.size(), layer);
    layers.push_back(layer);
  }
  return layers;
}

/// Returns all saved arrays of tokens.
std::vector<std::span<std::byte>> row_bytes(const CalibrationProgress& progress) {
  std::vector<std::span<std::byte>> parts;
  for (const std::span<float> rows : progress.rows) parts.push_back(std::as_writable_bytes(rows));
  parts.push_back(std::as_writable_bytes(progress.massive_rows));
  return parts;
}

jobs::SavedArraysReader read_layer(std::string_view saved) {
  return {saved, kContext, "is damaged: give the command again"};
}

/// Returns a layer's blob; nullopt if it is missing, damaged, or of other samples.
std::optional<std::string> saved_layer(const jobs::JobState& state, std::size_t layer,
                                       const CalibrationProgress& progress) {
  std::optional<std::string> saved = state.get(blob(layer));
  if (!saved) return {};
  jobs::SavedArraysReader arrays = read_layer(*saved);
  for (const std::span<std::byte> rows : row_bytes(progress)) {
    if (arrays.next().size() != rows.size()) return {};
  }
  return saved;
}

void restore(std::string_view saved, const CalibrationProgress& progress) {
  jobs::SavedArraysReader arrays = read_layer(saved);
  for (const std::span<std::byte> rows : row_bytes(progress)) arrays.get(rows);
  progress.findings.restore(arrays);
  progress.statistics = parse_statistics(arrays.text(), kContext);
  arrays.finish();
}

}  // namespace

void save_progress(jobs::JobState& state, Ranks& ranks, std::size_t layer, const CalibrationProgress& progress) {
  std::uint8_t worth = state.worth_saving() ? 1 : 0;
  ranks.broadcast(std::as_writable_bytes(std::span(&worth, 1)), 0);
  if (worth == 0) return;
  const std::vector<std::size_t> before = saved_layers(state);
  state.save_stage([&] {
    jobs::SavedArrays arrays;
    for (const std::span<std::byte> rows : row_bytes(progress)) arrays.add(rows);
    progress.findings.save(arrays);
    arrays.add_text(serialize_statistics(progress.statistics));
    state.put(blob(layer), arrays.parts());
  });
  // A kill may come between two ranks' saving, so older progress is removed only when all ranks have the new one.
  ranks.barrier();
  for (const std::size_t old : before) {
    if (old != layer) state.erase(blob(old));
  }
}

std::optional<std::size_t> restore_progress(const jobs::JobState& state, Ranks& ranks,
                                            const CalibrationProgress& progress) {
  const std::vector<std::size_t> layers = saved_layers(state);
  const auto newest = std::ranges::max_element(layers);
  // Layers are counted from 1, so that 0 means none.
  const std::size_t common = jobs::least_of_ranks(ranks, newest == layers.end() ? 0 : *newest + 1);
  if (common == 0) return std::nullopt;
  const std::optional<std::string> saved = saved_layer(state, common - 1, progress);
  if (jobs::least_of_ranks(ranks, saved ? 1 : 0) == 0) return std::nullopt;  // nothing was changed on any rank
  restore(*saved, progress);
  return common - 1;
}

}  // namespace ballast::calib
