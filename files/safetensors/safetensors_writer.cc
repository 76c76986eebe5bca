#include "files/safetensors/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "files/atomic_output.h"
#include "files/content_hash.h"
#include "files/output_file.h"
#include "files/safetensors/safetensors_file.h"
#include "files/safetensors/safetensors_layout.h"
#include "files/text.h"

namespace ballast::files {
namespace {

namespace fs = std::filesystem;

// A caller's bug would leave a damaged file that looks whole, so it is found in release builds as well.
void require(bool condition, const char* bug) {
  if (!condition) throw std::logic_error(std::string("SafetensorsWriter: ") + bug);
}

// One of the files; its tensors arrive in the order of its part of the plan.
class Shard {
 public:
  Shard(fs::path path, std::vector<TensorPlan> plan, const std::map<std::string, std::string>& metadata)
      : plan_(std::move(plan)), layout_(plan_safetensors(plan_, metadata, path.string())), file_(std::move(path)) {
    file_.reserve(layout_.file_bytes);
  }

  const fs::path& path() const { return file_.path(); }
  const std::vector<TensorPlan>& plan() const { return plan_; }
  bool complete() const { return next_ == plan_.size(); }
  std::uint64_t file_bytes() const { return layout_.file_bytes; }
  std::uint64_t tensor_bytes() const { return layout_.file_bytes - layout_.header.size(); }

  void write(std::string_view name, std::span<const std::byte> bytes) {
    require(name == plan_[next_].name && bytes.size() == layout_.sizes[next_], "a tensor is not the next of the plan");
    file_.write_at(layout_.positions[next_], bytes);
    layout_.header.replace(layout_.checksum_positions[next_], 16, content_digits(bytes));
    ++next_;
  }

  void finish() {
    file_.write_at(0, std::as_bytes(std::span(layout_.header)));
    file_.sync_and_close();
  }

 private:
  std::vector<TensorPlan> plan_;
  SafetensorsLayout layout_;
  OutputFile file_;
  std::size_t next_ = 0;
};

// The plan in runs of at most `shard_bytes` of tensor data; a larger tensor is a run of its own.
std::vector<std::vector<TensorPlan>> split_plan(std::vector<TensorPlan> plan, std::uint64_t shard_bytes,
                                                const std::string& context) {
  std::vector<std::vector<TensorPlan>> shards(1);
  std::uint64_t size = 0;
  for (TensorPlan& tensor : plan) {
    const std::uint64_t bytes = tensor_bytes(tensor.dtype, tensor.shape, tensor_context(context, tensor.name));
    if (!shards.back().empty() && (size > shard_bytes || bytes > shard_bytes - size)) {
      shards.emplace_back();
      size = 0;
    }
    size += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name.data();
}

}  // namespace

struct SafetensorsWriter::State {
  fs::path directory;
  std::vector<Shard> shards;
  std::size_t current = 0;  // the shard that the next tensor goes to

  void write_index() const {
    nlohmann::json index;
    std::uint64_t total = 0;
    for (const Shard& shard : shards) {
      total += shard.tensor_bytes();
      for (const TensorPlan& tensor : shard.plan()) index["weight_map"][tensor.name] = shard.path().filename().string();
    }
    index["metadata"]["total_size"] = total;
    write_file_atomically(directory / "model.safetensors.index.json", index.dump(2) + "\n", false);
  }
};

SafetensorsWriter::SafetensorsWriter(const fs::path& directory, std::vector<TensorPlan> plan,
                                     std::map<std::string, std::string> metadata, std::uint64_t shard_bytes)
    : state_(std::make_unique<State>()) {
  state_->directory = directory;
  metadata.emplace("format", "pt");  // transformers refuses files that do not say this
  auto parts = split_plan(std::move(plan), shard_bytes, directory.string());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    state_->shards.emplace_back(directory / shard_name(i, parts.size()), std::move(parts[i]), metadata);
  }
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  State& state = *state_;
  if (state.shards[state.current].complete()) ++state.current;
  require(state.current < state.shards.size(), "more tensors are written than planned");
  state.shards[state.current].write(name, bytes);
}

void SafetensorsWriter::finish() {
  require(std::ranges::all_of(state_->shards, &Shard::complete), "not every planned tensor was written");
  for (Shard& shard : state_->shards) shard.finish();
  if (state_->shards.size() > 1) state_->write_index();
}

std::uint64_t SafetensorsWriter::file_bytes() const {
  std::uint64_t sum = 0;
  for (const Shard& shard : state_->shards) sum += shard.file_bytes();
  return sum;
}

}  // namespace ballast::files
