#include "model/source/matrix_location.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "model/arch/gguf_storage.h"
#include "model/mixer/attention_kinds.h"
#include "model/structure/block_structure.h"

namespace ballast::model {

namespace {

/// Returns a name with each prefix that it may have, its own first. A checkpoint that was saved from a family's bare
/// model, without a head, has the names without their first word.
std::vector<std::string> with_all_prefixes(const StorageLayout& layout, const std::string& of_layer) {
  constexpr std::array<std::string_view, 4> kBases = {"model.", "transformer.", "gpt_neox.", "backbone."};
  const Architecture& architecture = *layout.architecture;
  const std::string name = draft_head_name(layout, of_layer);
  std::vector<std::string> names = {name};
  if (name.starts_with(architecture.prefix)) {
    for (const std::string_view other : architecture.other_prefixes) {
      names.push_back(std::string(other) + name.substr(architecture.prefix.size()));
    }
  }
  const auto* base = std::ranges::find_if(kBases, [&](std::string_view word) { return name.starts_with(word); });
  if (base != kBases.end()) names.push_back(name.substr(base->size()));
  return names;
}

/// Returns the rows that a part has in a matrix of several; none when the layer has no such part.
std::size_t part_rows(const ModelSpec& spec, std::size_t layer, Role part) {
  return has_role(spec, spec.layers[layer], part) ? matrix_shape(spec, layer, part).first : 0;
}

}  // namespace

std::vector<std::size_t> rows_in_fused(const FusedTensor& fused, const ModelSpec& spec, std::size_t layer, Role role) {
  const std::size_t runs = run_count(spec.layers[layer], fused.runs, part_rows(spec, layer, fused.parts.front()));
  std::size_t run_size = 0;
  std::size_t offset = 0;
  for (const Role part : fused.parts) {
    if (part == role) offset = run_size;
    run_size += part_rows(spec, layer, part) / runs;
  }
  const std::size_t in_run = part_rows(spec, layer, role) / runs;
  std::vector<std::size_t> rows;
  rows.reserve(in_run * runs);
  for (std::size_t run = 0; run < runs; ++run) {
    for (std::size_t i = 0; i < in_run; ++i) rows.push_back(run * run_size + offset + i);
  }
  return rows;
}

std::size_t fused_rows(const FusedTensor& fused, const ModelSpec& spec, std::size_t layer) {
  std::size_t rows = 0;
  for (const Role part : fused.parts) rows += part_rows(spec, layer, part);
  return rows;
}

namespace {

/// Row 2i + j of a head's rotated part is row j * rotary_size/2 + i of the forward pass.
std::vector<std::size_t> undo_rope_interleaving(const LayerSpec& layer, Role role, std::size_t count) {
  const AttentionSpec& attention = *layer.attention();
  const bool shared = role == Role::kKeyPosition;
  const std::size_t head_size = shared ? rotary_size(attention) : attention.head_size;
  const std::size_t begin = shared ? 0 : rotary_offset(layer);
  const std::size_t half = rotary_size(attention) / 2;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t head = 0; head < count / head_size; ++head) {
    const std::size_t first = head * head_size + begin;
    for (std::size_t i = 0; i < 2 * half; ++i) order[first + i] = first + 2 * (i % half) + i / half;
  }
  return order;
}

/// Returns whether a checkpoint has a module of this name, and writes to `stored` how its tensors are named.
bool take_module(const StorageLayout& layout, const files::Checkpoint& checkpoint, const std::string& name,
                 bool of_expert, MatrixLocation& stored) {
  for (const std::string& candidate : with_all_prefixes(layout, name)) {
    if (layout.codec != nullptr && layout.codec->has(checkpoint, candidate)) {
      stored.module = candidate;
      stored.foreign = true;
      stored.transposed = false;
      return true;
    }
    const bool named = checkpoint.contains(tensor_name(candidate, "weight"));
    const bool mxfp4 = of_expert && checkpoint.contains(candidate + "_blocks");
    if (!named && !mxfp4 && !(of_expert && checkpoint.contains(candidate))) continue;
    stored.module = candidate;
    stored.bare = !named;
    stored.mxfp4 = mxfp4;
    return true;
  }
  return false;
}

/// Applies an order to rows (empty: rows in their own order).
void take_in_order(std::vector<std::size_t> order, std::vector<std::size_t>& rows) {
  if (!rows.empty()) {
    for (std::size_t& row : order) row = rows[row];
  }
  rows = std::move(order);
}

/// llama.cpp stores the projections from a latent vector to keys and values head by head, those to keys transposed.
void set_heads(const LayerSpec& layer, Role role, const files::Checkpoint& checkpoint, MatrixLocation& stored) {
  if (layer.latent() == nullptr || (role != Role::kKey && role != Role::kValue)) return;
  if (checkpoint.tensor(stored.weight()).shape.size() < 3) return;
  stored.heads = layer.latent()->attention.heads;
  stored.transposed = role == Role::kKey;
}

/// Returns whether the file has as many rows as the config says: only then a list of rows is made.
bool has_stored_rows(const StorageLayout& layout, const MatrixLocation& stored, const files::Checkpoint& checkpoint) {
  if (stored.foreign) return layout.codec->stored_rows(checkpoint, stored.module) == stored.stored_rows;
  const Shape shape = checkpoint.tensor(stored.weight()).shape;
  if (stored.heads > 0) return true;  // such a tensor has no rows of other roles
  const std::size_t first = stored.slices > 0 ? 1 : 0;
  return shape.size() == first + (stored.mxfp4 ? 3 : 2) &&  // an MXFP4 row has blocks of bytes
         shape[first + (stored.transposed ? 1 : 0)] == static_cast<std::int64_t>(stored.stored_rows);
}

}  // namespace

void set_order(const StorageLayout& layout, const LayerSpec& layer, Role role, std::size_t count,
               std::vector<std::size_t>& rows, std::vector<std::size_t>& cols) {
  if (layout.gguf) {
    GgufOrder order = gguf_head_order(*layout.architecture, layer, role);
    cols = std::move(order.cols);
    if (!order.rows.empty()) take_in_order(std::move(order.rows), rows);
  }
  if (rope_is_interleaved(layout, layer, role)) take_in_order(undo_rope_interleaving(layer, role, count), rows);
}

bool rope_is_interleaved(const StorageLayout& layout, const LayerSpec& layer, Role role) {
  if (layout.written_by_ballast || layer.attention() == nullptr || !layer.attention()->rope) return false;
  const Architecture& architecture = *layout.architecture;
  const bool in_huggingface = architecture.huggingface_interleaves_rope || layer.latent() != nullptr;
  if (!(layout.gguf ? architecture.gguf_interleaves_rope : in_huggingface)) return false;
  if (role == Role::kQuery || role == Role::kQueryNorm || role == Role::kKeyNorm) return true;
  return role == (layer.latent() != nullptr ? Role::kKeyPosition : Role::kKey);
}

std::string tensor_name(const std::string& module, const std::string& suffix) {
  return module + (module.ends_with('_') ? "" : ".") + suffix;
}

std::string draft_head_name(const StorageLayout& layout, std::string name) {
  const std::string_view block = layout.architecture->draft_block;
  if (!layout.draft_layer || block.empty()) return name;
  const std::string of_layer = "model.layers." + std::to_string(*layout.draft_layer) + ".";
  if (name.starts_with(of_layer)) name.replace(0, of_layer.size() - 1, block);
  return name;
}

std::string MatrixLocation::weight() const {
  if (mxfp4) return module + "_blocks";
  return bare ? module : tensor_name(module, "weight");
}

std::string MatrixLocation::scales() const {
  return module + "_scales";
}

std::string MatrixLocation::bias() const {
  return bare ? module + "_bias" : tensor_name(module, "bias");
}

MatrixLocation find_matrix(const StorageLayout& layout, const ModelSpec& spec, const files::Checkpoint& checkpoint,
                           Role role, std::size_t layer, std::size_t expert) {
  const Architecture& architecture = *layout.architecture;
  const std::size_t rows = matrix_shape(spec, layer, role).first;
  const RoleRow::Place place = role_row(role).place;
  const bool of_expert = place == RoleRow::Place::kExpert;
  const bool in_block = place == RoleRow::Place::kBlock || of_expert;
  MatrixLocation stored;
  stored.stored_rows = rows;
  stored.transposed = architecture.transposed_linears && in_block && !layout.gguf && !layout.written_by_ballast;

  const bool whole = of_expert && architecture.transposed_experts && !layout.written_by_ballast;
  const auto take = [&](const std::string& name) { return take_module(layout, checkpoint, name, of_expert, stored); };
  const auto set_slice = [&] {
    if (!of_expert || stored.foreign || checkpoint.tensor(stored.weight()).shape.size() < 3) return;
    stored.slices = spec.layers[layer].mlp.experts->count;
    stored.slice = expert;
    stored.transposed = whole && !stored.mxfp4 && !layout.gguf;
  };
  bool found = false;
  std::string missing;
  if (!layout.written_by_ballast) {
    for (const FusedTensor& fused : architecture.fused) {
      const std::string_view pattern = layout.gguf ? fused.gguf : fused.huggingface;
      if (pattern.empty() || std::ranges::find(fused.parts, role) == fused.parts.end()) continue;
      const std::string name = fill_in(pattern, layer, expert);
      const bool has_first_part = has_role(spec, spec.layers[layer], fused.parts.front());
      if (has_first_part && (!of_expert || whole)) missing = name;
      found = take(name);
      if (!found) continue;
      set_slice();
      stored.stored_rows = fused_rows(fused, spec, layer);
      if (has_stored_rows(layout, stored, checkpoint)) stored.rows = rows_in_fused(fused, spec, layer, role);
      break;
    }
  }
  if (!found) {
    const auto names = stored_names(architecture, role, layout.gguf, layer, expert, layout.encoder_layers);
    found = std::ranges::any_of(names, take);
    if (missing.empty() && !names.empty()) missing = whole ? names.back() : names.front();
    if (found) set_slice();
    if (found && layout.gguf && in_block) set_heads(spec.layers[layer], role, checkpoint, stored);
  }
  if (!found) {
    stored.module = draft_head_name(layout, missing);
    stored.bare = whole;
  }
  if (!found || !has_stored_rows(layout, stored, checkpoint)) return stored;
  if (in_block) set_order(layout, spec.layers[layer], role, rows, stored.rows, stored.cols);
  return stored;
}

std::string find_tensor(const StorageLayout& layout, const files::Checkpoint& checkpoint, const std::string& name) {
  for (const std::string& candidate : with_all_prefixes(layout, name)) {
    if (checkpoint.contains(candidate)) return candidate;
  }
  return name;
}

std::string find_vector(const StorageLayout& layout, const files::Checkpoint& checkpoint, Role role,
                        const std::string& suffix, std::size_t layer, std::size_t head) {
  const Architecture& architecture = *layout.architecture;
  const auto names = stored_names(architecture, role, layout.gguf, layer, head, layout.encoder_layers);
  // The first checkpoints of BERT were converted from TensorFlow and kept its names.
  const std::string old_suffix = suffix == "weight" ? "gamma" : "beta";
  for (const std::string& module : names) {
    for (const std::string& candidate : with_all_prefixes(layout, module)) {
      if (is_vector(role)) {
        if (checkpoint.contains(candidate)) return candidate;
        continue;
      }
      for (const std::string& ending : {suffix, old_suffix}) {
        std::string name = tensor_name(candidate, ending);
        if (checkpoint.contains(name)) return name;
      }
    }
  }
  const std::string first = names.empty() ? "" : draft_head_name(layout, names.front());
  return is_vector(role) ? first : tensor_name(first, suffix);
}

std::vector<std::size_t> stored_row_order(const StorageLayout& layout, const LayerSpec& layer, Role role,
                                          std::size_t rows) {
  if (!rope_is_interleaved(layout, layer, role)) return {};
  return undo_rope_interleaving(layer, role, rows);
}

std::vector<std::size_t> head_channel_order(const StorageLayout& layout, const LayerSpec& layer, Role norm,
                                            std::size_t count) {
  if (!rope_is_interleaved(layout, layer, norm)) return {};
  return undo_rope_interleaving(layer, norm, count);
}

}  // namespace ballast::model
