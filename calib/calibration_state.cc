#include "calib/calibration_state.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "jobs/sharded_sum.h"

namespace ballast::calib {

namespace {

// A layer's blobs have these names and its number; the last one written marks them as complete.
constexpr std::string_view kHidden = "hidden.";
constexpr std::string_view kFindings = "findings.";
constexpr std::string_view kStatistics = "statistics.";

std::string blob(std::string_view name, std::size_t layer) {
  return std::string(name) + std::to_string(layer);
}

std::vector<std::size_t> saved_layers(const jobs::JobState& state) {
  std::vector<std::size_t> layers;
  for (const std::string& name : state.names()) {
    if (!name.starts_with(kStatistics)) continue;
    std::size_t layer = 0;
    std::from_chars(name.data() + kStatistics.size(), name.data() + name.size(), layer);
    layers.push_back(layer);
  }
  return layers;
}

void erase_layer(jobs::JobState& state, std::size_t layer) {
  for (const std::string_view name : {kStatistics, kFindings, kHidden}) state.erase(blob(name, layer));
}

/// A layer's blobs; nullopt if one is missing or damaged.
struct SavedLayer {
  std::string statistics;
  std::string findings;
  std::string hidden;
};

std::optional<SavedLayer> find(const jobs::JobState& state, std::size_t layer, std::size_t hidden_bytes) {
  std::optional<std::string> statistics = state.get(blob(kStatistics, layer));
  std::optional<std::string> findings = state.get(blob(kFindings, layer));
  std::optional<std::string> hidden = state.get(blob(kHidden, layer));
  if (!statistics || !findings || !hidden || hidden->size() != hidden_bytes) return std::nullopt;
  return SavedLayer{*std::move(statistics), *std::move(findings), *std::move(hidden)};
}

/// Returns the bytes of all rows of tokens.
std::vector<std::span<std::byte>> row_bytes(const CalibrationProgress& progress) {
  std::vector<std::span<std::byte>> parts;
  for (const std::span<float> rows : progress.rows) parts.push_back(std::as_writable_bytes(rows));
  parts.push_back(std::as_writable_bytes(progress.massive_rows));
  return parts;
}

void restore(const SavedLayer& saved, const CalibrationProgress& progress) {
  const char* next = saved.hidden.data();
  for (const std::span<std::byte> part : row_bytes(progress)) {
    std::copy_n(next, part.size(), reinterpret_cast<char*>(part.data()));
    next += part.size();
  }
  progress.findings.restore(saved.findings);
  progress.statistics = parse_statistics(saved.statistics, "saved progress");
}

}  // namespace

void save_progress(jobs::JobState& state, Ranks& ranks, std::size_t layer, const CalibrationProgress& progress) {
  std::uint8_t worth = state.worth_saving() ? 1 : 0;
  ranks.broadcast(std::as_writable_bytes(std::span(&worth, 1)), 0);
  if (worth == 0) return;
  const std::vector<std::size_t> before = saved_layers(state);
  state.save_stage([&] {
    const std::vector<std::span<std::byte>> parts = row_bytes(progress);
    state.put(blob(kHidden, layer), std::vector<std::span<const std::byte>>(parts.begin(), parts.end()));
    state.put(blob(kFindings, layer), progress.findings.serialize());
    state.put(blob(kStatistics, layer), serialize_statistics(progress.statistics));
  });
  // A kill may come between two ranks' saving, so older progress is removed only when all ranks have the new one.
  ranks.barrier();
  for (const std::size_t old : before) {
    if (old != layer) erase_layer(state, old);
  }
}

std::optional<std::size_t> restore_progress(const jobs::JobState& state, Ranks& ranks,
                                            const CalibrationProgress& progress) {
  const std::vector<std::size_t> layers = saved_layers(state);
  const auto newest = std::ranges::max_element(layers);
  // Counted from 1, so that 0 means none.
  const std::size_t common = jobs::least_of_ranks(ranks, newest == layers.end() ? 0 : *newest + 1);
  if (common == 0) return std::nullopt;
  std::size_t bytes = 0;
  for (const std::span<std::byte> part : row_bytes(progress)) bytes += part.size();
  const std::optional<SavedLayer> saved = find(state, common - 1, bytes);
  if (jobs::least_of_ranks(ranks, saved ? 1 : 0) == 0) return std::nullopt;  // no rank has changed anything
  restore(*saved, progress);
  return common - 1;
}

}  // namespace ballast::calib
