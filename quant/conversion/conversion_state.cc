#include "quant/conversion/conversion_state.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "jobs/saved_arrays.h"
#include "jobs/sharded_sum.h"
#include "quant/conversion/saved_block.h"

namespace ballast::quant {

namespace {

using nlohmann::json;

constexpr std::string_view kContext = "saved progress";
constexpr std::string_view kAllocation = "allocation";
// The block's number follows.
constexpr std::string_view kBlockPrefix = "block.";
constexpr std::string_view kSamples = "samples.";

std::string blob(std::string_view name, std::size_t block) {
  return std::string(name) + std::to_string(block);
}

json to_json(const ModuleId& id, const MatrixAllocation& matrix) {
  return {{"role", static_cast<int>(id.role)},
          {"layer", id.layer},
          {"expert", id.expert},
          {"format", format_name(matrix.format)},
          {"outlier_columns", matrix.outlier_columns},
          {"int16_activations", matrix.int16_activations},
          {"bytes", matrix.bytes},
          {"cost", matrix.cost},
          {"next_gain", matrix.next_gain}};
}

ModuleId parse_id(const files::JsonReader& matrix) {
  return {.role = static_cast<model::Role>(matrix.at("role").integer<int>()),
          .layer = matrix.count("layer"),
          .expert = matrix.count("expert")};
}

MatrixAllocation parse_matrix(const files::JsonReader& matrix) {
  return {.format = parse_format(matrix.text("format")),
          .outlier_columns = matrix.at("outlier_columns").integers<std::int32_t>(0),
          .int16_activations = matrix.flag("int16_activations"),
          .bytes = matrix.at("bytes").integer<std::uint64_t>(),
          .cost = matrix.number("cost"),
          .next_gain = matrix.number("next_gain")};
}

}  // namespace

ConversionState::ConversionState(const std::filesystem::path& folder, const jobs::JobKey& key, Ranks& ranks,
                                 std::function<void(const std::string&)> tell)
    : ranks_(ranks), state_(jobs::JobState::folder_of(folder, ranks), key), tell_(std::move(tell)) {
  tell_problem();
  find_blocks();
  if (blocks_ > 0) tell_("going on after block " + std::to_string(blocks_ - 1));
}

void ConversionState::tell_problem() {
  if (state_.problem().empty() || problem_told_) return;
  tell_("progress cannot be saved for resuming after a kill: " + state_.problem());
  problem_told_ = true;
}

void ConversionState::find_blocks() {
  const std::vector<std::string> names = state_.names();
  std::size_t newest = 0;  // counted from 1
  for (const std::string& name : names) {
    if (!name.starts_with(kSamples)) continue;
    std::size_t block = 0;
    std::from_chars(name.data() + kSamples.size(), name.data() + name.size(), block);
    newest = std::max(newest, block + 1);
  }
  const std::size_t common = jobs::least_of_ranks(ranks_, newest);
  bool whole = common > 0 && std::ranges::find(names, blob(kSamples, common - 1)) != names.end();
  // Only the first rank writes the output, so only it stores blocks.
  for (std::size_t i = 0; ranks_.first() && whole && i < common; ++i)
    whole = std::ranges::find(names, blob(kBlockPrefix, i)) != names.end();
  blocks_ = jobs::least_of_ranks(ranks_, whole ? common : 0);
}

std::optional<Allocation> ConversionState::allocation() const {
  const std::optional<std::string> saved = state_.get(kAllocation);
  if (jobs::least_of_ranks(ranks_, saved ? 1 : 0) == 0) return {};
  const json object = files::parse_strict_json(*saved, kContext);
  const files::JsonReader reader(object, std::string(kContext));
  Allocation allocation{
      .matrices = {}, .bytes = reader.at("bytes").integer<std::uint64_t>(), .cost = reader.number("cost")};
  for (const files::JsonReader& matrix : reader.at("matrices").elements()) {
    allocation.matrices[parse_id(matrix)] = parse_matrix(matrix);
  }
  return allocation;
}

void ConversionState::save(const Allocation& allocation) {
  json matrices = json::array();
  for (const auto& [id, matrix] : allocation.matrices) matrices.push_back(to_json(id, matrix));
  state_.put(kAllocation, json{{"bytes", allocation.bytes}, {"cost", allocation.cost}, {"matrices", matrices}}.dump());
}

std::vector<ConvertedModule> ConversionState::restore(std::size_t block, std::vector<ModulePlan> plan) const {
  const std::optional<std::string> saved = state_.get(blob(kBlockPrefix, block));
  if (!saved) {
    throw Error(kContext, "block " + std::to_string(block) + " is damaged and was dropped: give the command again");
  }
  return restore_modules(*saved, std::move(plan));
}

void ConversionState::restore_samples(std::span<const std::span<float>> samples) const {
  const std::optional<std::string> saved = state_.get(blob(kSamples, blocks_ - 1));
  jobs::SavedArraysReader arrays(saved ? std::string_view(*saved) : std::string_view(), std::string(kContext),
                                 "the samples are damaged and were dropped: give the command again");
  for (const std::span<float> rows : samples) arrays.get(rows);
  arrays.finish();
}

void ConversionState::save(std::size_t block, std::span<const ConvertedModule> modules,
                           std::span<const std::span<float>> samples) {
  if (ranks_.first()) state_.put(blob(kBlockPrefix, block), save_modules(modules));
  save_samples(block, samples);
  tell_problem();
}

void ConversionState::save_samples(std::size_t block, std::span<const std::span<float>> samples) {
  std::uint8_t worth = state_.worth_saving() ? 1 : 0;
  ranks_.broadcast(std::as_writable_bytes(std::span(&worth, 1)), 0);
  if (worth == 0) return;
  jobs::SavedArrays arrays;
  for (const std::span<float> rows : samples) arrays.add(rows);
  state_.save_stage([&] { state_.put(blob(kSamples, block), arrays.parts()); });
  // A kill may come when only some ranks have saved: the earlier state is deleted when all have the new one.
  ranks_.barrier();
  for (std::size_t old = 0; old < block; ++old) state_.erase(blob(kSamples, old));
}

void ConversionState::remove() {
  ranks_.barrier();
  state_.remove();
}

}  // namespace ballast::quant
