// A model's tensors by role, with rows in the order of the forward pass, independent of the checkpoint's layout.
#ifndef BALLAST_TESTS_SUPPORT_ROLE_TENSORS_H_
#define BALLAST_TESTS_SUPPORT_ROLE_TENSORS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/arch/architecture.h"
#include "model/source/model_source.h"
#include "model/structure/block_structure.h"
#include "tiny_model.h"

namespace ballast::test {

struct RoleTensor {
  std::size_t rows = 0;  ///< 1 for norms and vectors
  std::size_t cols = 0;
  std::vector<float> weight;  ///< [rows][cols]; for a norm the gain as stored
  std::vector<float> bias;    ///< or empty

  bool operator==(const RoleTensor&) const = default;
};

/// Keys: role, layer, expert.
using RoleTensors = std::map<std::tuple<model::Role, std::size_t, std::size_t>, RoleTensor>;

/// Calls visit(role, layer, expert) for every tensor that a model of this spec has.
template <typename Visit>
void for_each_role(const ModelSpec& spec, const Visit& visit) {
  for (const model::Role role : model::outer_roles(spec)) {
    const bool of_draft_head = std::ranges::find(model::kDraftRoles, role) != model::kDraftRoles.end();
    visit(role, of_draft_head ? spec.layers.size() - 1 : std::size_t{0}, std::size_t{0});
  }
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    for (const model::Role role : model::block_norms(spec, layer)) visit(role, layer, std::size_t{0});
    for (const model::Part& part : model::block_linears(spec, layer)) visit(part.role, layer, part.expert);
    for (const model::Role role : model::block_vectors(spec, layer)) visit(role, layer, std::size_t{0});
  }
}

/// Returns random values, the same on every machine: gains close to 1, biases far from 0.
inline RoleTensors random_tensors(const ModelSpec& spec, unsigned seed) {
  std::mt19937 random(seed);
  const auto value = [&] { return static_cast<float>(random() % 20001) / 5000.0F - 2.0F; };  // uniform in [-2, 2]
  RoleTensors tensors;
  for_each_role(spec, [&](model::Role role, std::size_t layer, std::size_t expert) {
    RoleTensor& tensor = tensors[{role, layer, expert}];
    std::tie(tensor.rows, tensor.cols) = model::matrix_shape(spec, layer, role);
    const bool matrix = !model::is_norm(role) && !model::is_vector(role);
    const float spread = matrix ? 0.7F / std::sqrt(static_cast<float>(tensor.cols)) : 0.3F;
    const float center =
        model::is_norm(role) ? 1 - static_cast<float>(model::norm_spec(spec, layer, role).gain_offset) : 0;
    tensor.weight.resize(tensor.rows * tensor.cols);
    const bool constant = model::is_norm(role) && !model::norm_spec(spec, layer, role).gain;
    for (float& weight : tensor.weight) weight = constant ? 1.0F : center + spread * value();
    if (!model::has_bias(spec, layer, role)) return;
    tensor.bias.resize(matrix ? tensor.rows : tensor.cols);
    for (float& bias : tensor.bias) bias = 0.3F * value();
  });
  return tensors;
}

inline RoleTensors read_tensors(const model::ModelSource& source) {
  RoleTensors tensors;
  for_each_role(source.spec(), [&](model::Role role, std::size_t layer, std::size_t expert) {
    RoleTensor& tensor = tensors[{role, layer, expert}];
    std::tie(tensor.rows, tensor.cols) = model::matrix_shape(source.spec(), layer, role);
    if (model::is_norm(role)) {
      model::Norm norm = source.norm(role, layer);
      const auto offset = static_cast<float>(model::norm_spec(source.spec(), layer, role).gain_offset);
      for (float& gain : norm.gain) gain -= offset;
      tensor.weight = std::move(norm.gain);
      tensor.bias = std::move(norm.bias);
    } else if (model::is_vector(role)) {
      tensor.weight = source.vector(role, layer);
    } else {
      tensor.weight = source.float_weights(role, layer, expert).values;
      tensor.bias = source.bias(role, layer, expert);
    }
  });
  return tensors;
}

/// Returns a checkpoint in which every role has its own tensor, with the first of its names.
inline TinyModel named_model(const nlohmann::json& config, const RoleTensors& tensors) {
  const model::Architecture& architecture =
      model::architecture_for_model_type(config.at("model_type").get<std::string>(), "config.json");
  TinyModel result{.config = config, .tensors = {}, .tokenizer = nullptr};
  for (const auto& [key, tensor] : tensors) {
    const auto [role, layer, expert] = key;
    const std::string module = model::module_name(architecture, role, layer, expert);
    const auto rows = static_cast<std::int64_t>(tensor.rows);
    const auto cols = static_cast<std::int64_t>(tensor.cols);
    if (model::is_vector(role)) {
      result.tensors[module] = {{cols}, tensor.weight};
      continue;
    }
    const bool norm = model::is_norm(role);
    result.tensors[module + ".weight"] = {norm ? Shape{cols} : Shape{rows, cols}, tensor.weight};
    if (!tensor.bias.empty()) result.tensors[module + ".bias"] = {{norm ? cols : rows}, tensor.bias};
  }
  return result;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_ROLE_TENSORS_H_
