#include "model/source/token_heads.h"

#include <cstdint>
#include <string>

#include "files/torch_file.h"
#include "model/source/float_linear.h"

namespace ballast::model {

namespace {

constexpr const char* kWeightFile = "sparse_linear.pt";
constexpr const char* kVectorFile = "colbert_linear.pt";

std::vector<float> read_values(const files::TorchFile& file, const char* name, const Shape& shape) {
  return checked_values(file.tensor(name), file.path().string() + ": " + name, shape, "the model needs");
}

/// Returns the linear in a file; nullopt if there is no such file. `outputs`: 0 for any number.
std::optional<Linear> read_linear(const std::filesystem::path& path, std::size_t outputs, std::size_t inputs,
                                  const ComputeOptions& compute) {
  if (!std::filesystem::exists(path)) return {};
  const files::TorchFile file(path);
  const Shape& stored = file.tensor("weight").shape;
  const std::int64_t rows = outputs > 0 || stored.empty() ? static_cast<std::int64_t>(outputs) : stored.front();
  const Shape shape = {rows, static_cast<std::int64_t>(inputs)};
  Linear linear = float_linear(path.filename().string(), read_values(file, "weight", shape), shape, compute);
  linear.bias = read_values(file, "bias", {rows});
  return linear;
}

}  // namespace

TokenHeads read_token_heads(const std::filesystem::path& directory, std::size_t hidden_size,
                            const ComputeOptions& compute) {
  return {.weight = read_linear(directory / kWeightFile, 1, hidden_size, compute),
          .vector = read_linear(directory / kVectorFile, 0, hidden_size, compute)};
}

std::vector<std::filesystem::path> token_head_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const char* name : {kWeightFile, kVectorFile}) {
    if (std::filesystem::exists(directory / name)) files.emplace_back(name);
  }
  return files;
}

}  // namespace ballast::model
