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

// transformers refuses files without this entry.
const std::pair<const std::string, std::string> kAlwaysThere = {"format", "pt"};

// A caller's bug would leave a damaged file that looks complete, so release builds check, too.
void require(bool condition, const char* bug) {
  if (!condition) throw std::logic_error(std::string("SafetensorsWriter: ") + bug);
}

// One of the files. Its tensors arrive in the order of its part of the plan.
class Shard {
 public:
  Shard(fs::path path, std::vector<TensorPlan> plan, const std::map<std::string, std::string>& metadata)
      : plan_(std::move(plan)),
        metadata_(metadata),
        layout_(plan_safetensors(plan_, metadata_, path.string())),
        file_(std::move(path)) {
    file_.reserve(layout_.file_bytes);
  }

  const fs::path& path() const { return file_.path(); }
  const std::vector<TensorPlan>& plan() const { return plan_; }
  const TensorPlan& next() const { return plan_[checksums_.size()]; }
  bool complete() const { return checksums_.size() == plan_.size(); }
  std::uint64_t file_bytes() const { return layout_.file_bytes; }
  std::uint64_t tensor_bytes() const { return layout_.file_bytes - layout_.header.size(); }

  void write(std::string_view name, DType dtype, std::span<const std::byte> bytes) {
    const std::size_t index = checksums_.size();
    require(name == plan_[index].name && bytes.size() == layout_.sizes[index], "a tensor is not the next of the plan");
    require(dtype_info(dtype).block_bytes == dtype_info(plan_[index].dtype).block_bytes,
            "a tensor's type has another size than planned");
    plan_[index].dtype = dtype;
    file_.write_at(layout_.positions[index], bytes);
    checksums_.push_back(content_digits(bytes));
  }

  void finish() {
    const std::uint64_t planned_header = layout_.header.size();
    layout_ = plan_safetensors(plan_, metadata_, path().string());
    if (layout_.header.size() != planned_header) {
      file_.move_tail(planned_header, layout_.header.size(), tensor_bytes());
    }
    for (std::size_t i = 0; i < checksums_.size(); ++i) {
      layout_.header.replace(layout_.checksum_positions[i], checksums_[i].size(), checksums_[i]);
    }
    file_.write_at(0, std::as_bytes(std::span(layout_.header)));
    file_.sync_and_close();
  }

 private:
  std::vector<TensorPlan> plan_;
  std::map<std::string, std::string> metadata_;
  SafetensorsLayout layout_;
  OutputFile file_;
  std::vector<std::string> checksums_;  // of the written tensors
};

// Splits the plan into runs of at most `shard_bytes` of tensor data; a larger tensor is a run by itself.
std::vector<std::vector<TensorPlan>> split_plan(std::vector<TensorPlan> plan, std::uint64_t shard_bytes,
                                                const std::string& context) {
  std::vector<std::vector<TensorPlan>> shards(1);
  std::uint64_t size = 0;
  for (TensorPlan& tensor : plan) {
    const std::uint64_t bytes = planned_bytes(tensor, context);
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

std::uint64_t planned_bytes(const TensorPlan& tensor, std::string_view context) {
  return tensor_bytes(tensor.dtype, tensor.shape, tensor_context(context, tensor.name));
}

std::uint64_t planned_file_bytes(std::vector<TensorPlan> plan, std::map<std::string, std::string> metadata,
                                 std::uint64_t shard_bytes) {
  metadata.insert(kAlwaysThere);
  std::uint64_t bytes = 0;
  for (const auto& shard : split_plan(std::move(plan), shard_bytes, "plan")) {
    bytes += plan_safetensors(shard, metadata, "plan").file_bytes;
  }
  return bytes;
}

struct SafetensorsWriter::State {
  fs::path directory;
  std::vector<Shard> shards;
  std::size_t current = 0;  // the shard of the next tensor

  Shard& shard_of_next() {
    if (shards[current].complete()) ++current;
    require(current < shards.size(), "more tensors are written than planned");
    return shards[current];
  }

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
  metadata.insert(kAlwaysThere);
  auto parts = split_plan(std::move(plan), shard_bytes, directory.string());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    state_->shards.emplace_back(directory / shard_name(i, parts.size()), std::move(parts[i]), metadata);
  }
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  Shard& shard = state_->shard_of_next();
  shard.write(name, shard.next().dtype, bytes);
}

void SafetensorsWriter::write(std::string_view name, DType dtype, std::span<const std::byte> bytes) {
  state_->shard_of_next().write(name, dtype, bytes);
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
