// Describes a model without running it.
#ifndef BALLAST_INSPECT_H_
#define BALLAST_INSPECT_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ballast/spec.h"

namespace ballast {

struct TensorGroup {
  std::string name;  ///< "layers.*.mlp.down_proj"
  std::string type;  ///< "F16", "Q4_1", "int8-g64"
  std::size_t tensors = 0;
  std::uint64_t weights = 0;
  std::uint64_t bytes = 0;
};

struct ModelSummary {
  ModelSpec spec;
  std::uint64_t parameters = 0;
  std::uint64_t file_bytes = 0;
  double bits_per_weight = 0;
  std::vector<TensorGroup> groups;
  std::string tokenizer;            ///< "byte-level BPE, 49152 tokens, 17 special", or why it has none
  std::string recipe;               ///< JSON of the model's recipe, empty for an original
  std::vector<int> prefix;          ///< ids of the tokens before every sequence
  std::vector<std::string> advice;  ///< possible next steps, one line each
};

ModelSummary inspect(const std::filesystem::path& model);
std::string model_summary_json(const ModelSummary& summary);

}  // namespace ballast

#endif  // BALLAST_INSPECT_H_
