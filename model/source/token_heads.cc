#include "model/source/token_heads.h"

#include <cstdint>
#include <string>

#include "ballast/error.h"
#include "files/torch_file.h"
#include "formats/decode_floats.h"

namespace ballast::model {

namespace {

constexpr const char* kWeightFile = "sparse_linear.pt";
constexpr const char* kVectorFile = "colbert_linear.pt";

std::vector<float> read_values(const files::TorchFile& file, const char* name, const Shape& shape) {
  const TensorView& view = file.tensor(name);
  const std::string context = file.path().string() + ": " + name;
  if (view.shape != shape) {
    throw Error(context, "has shape " + shape_string(view.shape) + ", the model needs " + shape_string(shape));
  }
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  formats::decode_floats(view, context, values.data());
  return values;
}

/// Returns the linear in a file; nullopt if there is no such file. `outputs`: 0 for any number.
std::optional<Linear> read_linear(const std::filesystem::path& path, std::size_t outputs, std::size_t inputs,
                                  const ComputeOptions& compute) {
  if (!std::filesystem::exists(path)) return {};
  const files::TorchFile file(path);
  const Shape& shape = file.tensor("weight").shape;
  const std::int64_t rows = outputs > 0 || shape.empty() ? static_cast<std::int64_t>(outputs) : shape.front();
  Linear linear;
  linear.name = path.filename().string();
  FloatMatrixHolder holder;
  holder.compute = compute;
  holder.owned = read_values(file, "weight", {rows, static_cast<std::int64_t>(inputs)});
  holder.matrix = {.data = holder.owned.data(),
                   .type = kernels::FloatType::kF32,
                   .rows = static_cast<std::size_t>(rows),
                   .cols = inputs};
  linear.weights = std::move(holder);
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
