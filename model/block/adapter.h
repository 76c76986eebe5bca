// Adapters of a loaded model: matrices of low rank that are added to its linears for the rows of some sequences (LoRA,
// arXiv:2106.09685).
#ifndef BALLAST_MODEL_BLOCK_ADAPTER_H_
#define BALLAST_MODEL_BLOCK_ADAPTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/matrix/low_rank.h"
#include "model/roles/role_row.h"

namespace ballast::model {

/// What an adapter adds to a linear's output.
struct AddedLinear {
  kernels::LowRankMatrix matrix;
  std::vector<float> bias;  ///< or empty
};

/// What an adapter adds to the linears of a layer, or to those outside of the layers.
class AdapterPart {
 public:
  void add(Part part, AddedLinear added) { linears_.emplace(key(part), std::move(added)); }

  /// Returns what is added to a linear; null: nothing.
  const AddedLinear* find(Part part) const {
    const auto it = linears_.find(key(part));
    return it == linears_.end() ? nullptr : &it->second;
  }

  bool empty() const { return linears_.empty(); }

 private:
  static std::pair<Role, std::size_t> key(Part part) { return {part.role, part.expert}; }

  std::map<std::pair<Role, std::size_t>, AddedLinear> linears_;
};

/// What an adapter adds to the rows of an embedding: up[id] * down.
struct AddedRows {
  std::size_t rank = 0;
  std::size_t channels = 0;
  std::vector<float> up;    ///< [vocabulary][rank]
  std::vector<float> down;  ///< [rank][channels]

  /// Computes row += up[id] * down.
  void add(std::size_t id, float* row) const {
    for (std::size_t k = 0; k < rank; ++k) {
      const float factor = up[id * rank + k];
      for (std::size_t c = 0; c < channels; ++c) row[c] += factor * down[k * channels + c];
    }
  }
};

/// An adapter for one model. Immutable once loaded, and shared by sequences.
struct Adapter {
  std::vector<AdapterPart> layers;     ///< one for each of the model's
  AdapterPart head;                    ///< Role::kHead
  std::optional<AddedRows> embedding;  ///< rows of the table, before its scale
  std::uint64_t identity = 0;          ///< a hash of its files and its scale
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_ADAPTER_H_
