#include "model/structure/block_structure.h"

#include <algorithm>

#include "model/mixer/mixer_kind.h"
#include "model/roles/common_rows.h"

namespace ballast::model {

namespace {

bool is_present(const RoleRow& row, const ModelSpec& spec, const LayerSpec& layer) {
  return row.present == nullptr || row.present(spec, layer);
}

/// Calls visit(row, expert) for everything in a block, in the order of the forward pass, except that output norms come
/// where their inputs are normalized.
template <typename Visit>
void for_each_part(const ModelSpec& spec, std::size_t index, const Visit& visit) {
  const LayerSpec& layer = spec.layers[index];
  const auto visit_row = [&](const RoleRow& row, std::size_t expert) {
    if (is_present(row, spec, layer)) visit(row, expert);
  };
  visit_row(block_rows().front(), 0);
  for (const RoleRow& row : mixer_kind(layer).roles) visit_row(row, 0);
  for (const RoleRow& row : block_rows().subspan(1)) {
    if (row.place == RoleRow::Place::kBlock) visit_row(row, 0);
  }
  const std::size_t experts = layer.mlp.experts ? layer.mlp.experts->count : 0;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    for (const RoleRow& row : block_rows()) {
      if (row.place == RoleRow::Place::kExpert) visit_row(row, expert);
    }
  }
}

/// Returns whether the norms of attention and MLP come after them and write the residual stream, or what is added to
/// it.
bool norms_follow(const ModelSpec& spec) {
  return spec.layout == BlockLayout::kPostNorm || spec.layout == BlockLayout::kOutputNorm;
}

/// Returns whether only linears read a norm's output.
bool is_read_by_linears(const ModelSpec& spec, Role norm) {
  return !norms_follow(spec) || (norm != Role::kAttentionNorm && norm != Role::kMlpNorm);
}

const LayerSpec& layer_of(const ModelSpec& spec, std::size_t index) {
  static const LayerSpec none;
  return index < spec.layers.size() ? spec.layers[index] : none;
}

}  // namespace

std::vector<BlockInput> block_inputs(const ModelSpec& spec, std::size_t layer) {
  struct Input {
    std::optional<Role> source;
    bool of_encoder = false;
    BlockInput input;
  };
  std::vector<Input> inputs;
  for_each_part(spec, layer, [&](const RoleRow& row, std::size_t expert) {
    if (row.kind != RoleRow::Kind::kLinear) return;
    std::optional<Role> source = row.reads;
    if (source && !has_role(spec, spec.layers[layer], *source)) source = Role::kAttentionNorm;
    const bool shared = source || row.reads_source;
    const auto is_same = [&](const Input& input) {
      return input.source == source && input.of_encoder == row.reads_source;
    };
    auto it = shared ? std::ranges::find_if(inputs, is_same) : inputs.end();
    if (it == inputs.end()) {
      it = inputs.insert(inputs.end(), {source, row.reads_source, {}});
      const bool normed = source && has_role(spec, spec.layers[layer], *source);
      if (normed && is_read_by_linears(spec, *source)) it->input.norm = source;
    }
    it->input.readers.push_back({row.role, expert});
    if (!row.gated_norm || !has_role(spec, spec.layers[layer], *row.gated_norm)) return;
    const bool gated = row.gate_follows == nullptr || row.gate_follows(spec.layers[layer]);
    (gated ? it->input.gated_norm : it->input.norm) = row.gated_norm;
  });
  std::vector<BlockInput> result;
  for (Input& input : inputs) result.push_back(std::move(input.input));
  return result;
}

std::vector<Role> block_norms(const ModelSpec& spec, std::size_t layer) {
  std::vector<Role> norms;
  for_each_part(spec, layer, [&](const RoleRow& row, std::size_t) {
    if (row.kind != RoleRow::Kind::kNorm) return;
    // The norm after attention comes after the norms inside of it.
    if (row.role == Role::kMlpNorm && norms_follow(spec)) {
      std::ranges::rotate(norms, norms.begin() + 1);
    }
    norms.push_back(row.role);
  });
  return norms;
}

std::vector<Part> block_linears(const ModelSpec& spec, std::size_t layer) {
  std::vector<Part> linears;
  for (const BlockInput& input : block_inputs(spec, layer)) {
    linears.insert(linears.end(), input.readers.begin(), input.readers.end());
  }
  return linears;
}

std::vector<Role> block_vectors(const ModelSpec& spec, std::size_t layer) {
  std::vector<Role> vectors;
  for_each_part(spec, layer, [&](const RoleRow& row, std::size_t) {
    if (row.kind == RoleRow::Kind::kVector) vectors.push_back(row.role);
  });
  return vectors;
}

std::vector<Role> outer_roles(const ModelSpec& spec) {
  std::vector<Role> roles;
  for (const RoleRow& row : outer_rows()) {
    if (is_present(row, spec, {})) roles.push_back(row.role);
  }
  return roles;
}

bool is_norm(Role role) {
  return role_row(role).kind == RoleRow::Kind::kNorm;
}

bool is_vector(Role role) {
  return role_row(role).kind == RoleRow::Kind::kVector;
}

NormSpec norm_spec(const ModelSpec& spec, std::size_t layer, Role role) {
  const RoleRow& row = role_row(layer_of(spec, layer), role);
  return row.norm == nullptr ? spec.norm : row.norm(spec, layer_of(spec, layer));
}

MatrixShape matrix_shape(const ModelSpec& spec, std::size_t layer, Role role) {
  return role_row(layer_of(spec, layer), role).shape(spec, layer_of(spec, layer));
}

bool has_bias(const ModelSpec& spec, std::size_t layer, Role role) {
  const RoleRow& row = role_row(layer_of(spec, layer), role);
  if (row.kind == RoleRow::Kind::kNorm) return norm_spec(spec, layer, role).bias;
  return row.bias_flag == nullptr ? row.always_has_bias : spec.biases.*row.bias_flag;
}

std::size_t count_weights(const ModelSpec& spec) {
  std::size_t count = 0;
  const auto add = [&](Role role, std::size_t layer) {
    const auto [rows, cols] = matrix_shape(spec, layer, role);
    if (!is_norm(role) || norm_spec(spec, layer, role).gain) count += rows * cols;
    if (is_vector(role) || !has_bias(spec, layer, role)) return;
    count += is_norm(role) ? cols : rows;
  };
  for (const Role role : outer_roles(spec)) add(role, 0);
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    for (const Part& part : block_linears(spec, layer)) add(part.role, layer);
    for (const Role role : block_norms(spec, layer)) add(role, layer);
    for (const Role role : block_vectors(spec, layer)) add(role, layer);
  }
  return count;
}

}  // namespace ballast::model
