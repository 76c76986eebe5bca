// Writes a model's tensors into a GGUF as llama.cpp's converter does.
#ifndef BALLAST_TESTS_SUPPORT_GGUF_MODEL_H_
#define BALLAST_TESTS_SUPPORT_GGUF_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "file_bytes.h"
#include "model/arch/architecture.h"
#include "model/source/model_source.h"
#include "role_tensors.h"

namespace ballast::test {

class GgufModel {
 public:
  /// Takes the tensors of `source`, with their names in `architecture`.
  GgufModel(const model::ModelSource& source, const model::Architecture& architecture)
      : spec_(source.spec()), architecture_(architecture), tensors_(read_tensors(source)) {
    for (auto& [key, tensor] : tensors_) prepare(std::get<0>(key), std::get<1>(key), tensor);
    for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) add_fused(layer);
    for (const auto& [key, tensor] : tensors_) add(key, tensor);
  }

  /// Replaces a tensor's values by blocks of a type, given by its number in GGUF.
  void store_blocks(const std::string& name, std::uint32_t type, std::string blocks) {
    blocks_[name] = {type, std::move(blocks)};
  }

  /// Returns the file. Metadata may be whole numbers, floats, truth values, texts, and lists of whole numbers, truth
  /// values or texts.
  std::string bytes(const nlohmann::json& metadata) const {
    GgufBytes file;
    for (const auto& [key, value] : metadata.items()) add_metadata(key, value, file);
    for (const auto& [name, tensor] : stored_) {
      std::vector<std::uint64_t> sizes(tensor.first.rbegin(), tensor.first.rend());
      file.tensors += gguf_string(name) + raw(static_cast<std::uint32_t>(sizes.size()));
      for (const std::uint64_t size : sizes) file.tensors += raw(size);
      const auto blocks = blocks_.find(name);
      const std::uint32_t type = blocks == blocks_.end() ? 0 : blocks->second.first;
      file.tensors += raw(type) + raw(std::uint64_t{file.data.size()});
      ++file.tensor_count;
      if (blocks != blocks_.end()) {
        file.data += blocks->second.second;
      } else {
        for (const float value : tensor.second) file.data += raw(value);
      }
      file.data.append((32 - file.data.size() % 32) % 32, '\0');
    }
    return file.bytes();
  }

 private:
  using Sizes = std::vector<std::size_t>;
  using Role = model::Role;

  static void add_metadata(const std::string& key, const nlohmann::json& value, GgufBytes& file) {
    constexpr std::uint32_t kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9;
    if (value.is_string()) {
      file.string(key, value.get<std::string>());
    } else if (value.is_boolean()) {
      file.number(key, kBool, static_cast<std::uint8_t>(value.get<bool>()));
    } else if (value.is_number_float()) {
      file.number(key, kF32, value.get<float>());
    } else if (!value.is_array()) {
      file.number(key, kI32, value.get<std::int32_t>());
    } else {
      const bool flags = value[0].is_boolean();
      const bool texts = value[0].is_string();
      std::string list = raw(texts ? kString : flags ? kBool : kI32) + raw(std::uint64_t{value.size()});
      for (const auto& element : value) {
        list += texts   ? gguf_string(element.get<std::string>())
                : flags ? raw(static_cast<std::uint8_t>(element.get<bool>()))
                        : raw(element.get<std::int32_t>());
      }
      file.value_bytes(key, kArray, list);
    }
  }

  /// Moves the row (or value of a vector) at `order[i]` to i.
  static void reorder(const std::vector<std::size_t>& order, std::size_t size, std::vector<float>& values) {
    if (values.empty()) return;
    const std::vector<float> old = values;
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::copy_n(old.data() + order[i] * size, size, values.data() + i * size);
    }
  }

  /// Changes a tensor as llama.cpp's converter does.
  void prepare(Role role, std::size_t index, RoleTensor& tensor) const {
    if (model::is_norm(role)) {
      const double offset = model::norm_spec(spec_, index, role).gain_offset;
      for (float& gain : tensor.weight) gain += static_cast<float>(offset);
    }
    if (role == Role::kDeltaDecayRate) {
      for (float& value : tensor.weight) value = -std::exp(value);
    }
    if (architecture_.gguf_interleaves_rope) interleave(role, spec_.layers[index], tensor);
    if (architecture_.gguf_tiles_value_heads) tile(role, spec_.layers[index], tensor);
  }

  static void interleave(Role role, const LayerSpec& layer, RoleTensor& tensor) {
    const AttentionSpec* attention = layer.attention();
    if (attention == nullptr || !attention->rope) return;
    const bool latent = layer.latent() != nullptr;
    if (role != Role::kQuery && role != (latent ? Role::kKeyPosition : Role::kKey)) return;
    const std::size_t rotated = attention->rope->rotary_size;
    const std::size_t head_size = role == Role::kKeyPosition ? rotated : attention->head_size;
    const std::size_t begin = latent ? head_size - rotated : 0;
    std::vector<std::size_t> order(tensor.rows);
    for (std::size_t row = 0; row < order.size(); ++row) {
      const std::size_t in_head = row % head_size;
      const std::size_t pair = in_head - begin;
      order[row] =
          in_head < begin || in_head >= begin + rotated ? row : row - pair + pair / 2 + pair % 2 * (rotated / 2);
    }
    reorder(order, tensor.cols, tensor.weight);
    reorder(order, 1, tensor.bias);
  }

  static void tile(Role role, const LayerSpec& layer, RoleTensor& tensor) {
    const auto* delta = std::get_if<GatedDeltaSpec>(&layer.mixer);
    if (delta == nullptr) return;
    const std::size_t repeats = delta->value_heads / delta->key_heads;
    const auto heads = [&](std::size_t size, std::size_t before) {
      std::vector<std::size_t> order(before + delta->value_heads * size);
      for (std::size_t i = 0; i < before; ++i) order[i] = i;
      for (std::size_t i = before; i < order.size(); ++i) {
        const std::size_t head = (i - before) / size;
        order[i] = before + (head % delta->key_heads * repeats + head / delta->key_heads) * size + (i - before) % size;
      }
      return order;
    };
    const std::size_t before = 2 * delta->key_heads * delta->key_size * delta->width;
    if (role == Role::kDeltaValue || role == Role::kDeltaGate) {
      reorder(heads(delta->value_size, 0), tensor.cols, tensor.weight);
    } else if (role == Role::kDeltaStrength || role == Role::kDeltaDecay) {
      reorder(heads(1, 0), tensor.cols, tensor.weight);
    } else if (role == Role::kDeltaDecayBias || role == Role::kDeltaDecayRate) {
      reorder(heads(1, 0), 1, tensor.weight);
    } else if (role == Role::kDeltaConvolution) {
      reorder(heads(delta->value_size * delta->width, before), 1, tensor.weight);
    } else if (role == Role::kDeltaOutput) {
      const std::vector<float> old = tensor.weight;
      const std::vector<std::size_t> order = heads(delta->value_size, 0);
      for (std::size_t i = 0; i < old.size(); ++i) {
        tensor.weight[i] = old[i / tensor.cols * tensor.cols + order[i % tensor.cols]];
      }
    }
  }

  /// Joins the roles that a layer has in one tensor.
  void add_fused(std::size_t layer) {
    for (const model::FusedTensor& fused : architecture_.fused) {
      const bool whole = fused.runs == model::FusedTensor::Runs::kOne;
      const bool here = std::ranges::all_of(
          fused.parts, [&](Role part) { return tensors_.contains({part, layer, 0}) && !is_expert(part); });
      const bool of_latent = fused.parts.front() == Role::kKey;  // is joined in another way
      if (fused.gguf.empty() || !here || of_latent || (!whole && fused.runs != model::FusedTensor::Runs::kHeads))
        continue;
      const std::size_t runs = whole ? 1 : spec_.layers[layer].attention()->heads;
      RoleTensor sum;
      for (std::size_t run = 0; run < runs; ++run) {
        for (const Role part : fused.parts) append_run(tensors_.at({part, layer, 0}), run, runs, sum);
      }
      for (const Role part : fused.parts) tensors_.erase({part, layer, 0});
      store(model::fill_in(fused.gguf, layer, 0), {sum.rows, sum.cols}, sum);
    }
  }

  static void append_run(const RoleTensor& part, std::size_t run, std::size_t runs, RoleTensor& sum) {
    const std::size_t rows = part.rows / runs;
    const auto append = [&](const std::vector<float>& from, std::size_t size, std::vector<float>& to) {
      if (!from.empty()) to.insert(to.end(), from.data() + run * rows * size, from.data() + (run + 1) * rows * size);
    };
    sum.rows += rows;
    sum.cols = part.cols;
    append(part.weight, part.cols, sum.weight);
    append(part.bias, 1, sum.bias);
  }

  static bool is_expert(Role role) {
    return role == Role::kExpertGate || role == Role::kExpertUp || role == Role::kExpertDown;
  }

  void add(const std::tuple<Role, std::size_t, std::size_t>& key, const RoleTensor& tensor) {
    const auto& [role, layer, expert] = key;
    const auto names = model::stored_names(architecture_, role, true, layer, expert);
    if (names.empty()) throw Error("GGUF", "no name for " + source_name(role, layer));
    const std::string& name = names.back();
    if (model::is_vector(role)) {
      stored_[name] = {{tensor.weight.size()}, tensor.weight};
    } else if (model::is_norm(role)) {
      if (model::norm_spec(spec_, layer, role).gain) store(name, {tensor.cols}, tensor);
    } else if (is_expert(role)) {
      Sizes& sizes = stored_[name + ".weight"].first;
      sizes = {expert + 1, tensor.rows, tensor.cols};
      append_expert(name + ".weight", tensor.weight);
      if (!tensor.bias.empty()) {
        stored_[name + ".bias"].first = {expert + 1, tensor.rows};
        append_expert(name + ".bias", tensor.bias);
      }
    } else if (spec_.layers[layer].latent() != nullptr && (role == Role::kKey || role == Role::kValue)) {
      add_heads(name, role == Role::kKey, spec_.layers[layer].latent()->attention.heads, tensor);
    } else {
      store(name, {tensor.rows, tensor.cols}, tensor);
    }
  }

  /// Adds a matrix for each head.
  void add_heads(const std::string& name, bool transposed, std::size_t heads, const RoleTensor& tensor) {
    const std::size_t rows = tensor.rows / heads;
    RoleTensor stored = tensor;
    if (!transposed) return store(name, {heads, rows, tensor.cols}, stored);
    for (std::size_t row = 0; row < tensor.rows; ++row) {
      for (std::size_t col = 0; col < tensor.cols; ++col) {
        stored.weight[(row / rows * tensor.cols + col) * rows + row % rows] = tensor.weight[row * tensor.cols + col];
      }
    }
    store(name, {heads, tensor.cols, rows}, stored);
  }

  std::string source_name(Role role, std::size_t layer) const { return model::module_name(architecture_, role, layer); }

  void append_expert(const std::string& name, const std::vector<float>& values) {
    stored_[name].second.insert(stored_[name].second.end(), values.begin(), values.end());
  }

  void store(const std::string& name, Sizes sizes, const RoleTensor& tensor) {
    stored_[name + ".weight"] = {std::move(sizes), tensor.weight};
    if (!tensor.bias.empty()) stored_[name + ".bias"] = {{tensor.bias.size()}, tensor.bias};
  }

  const ModelSpec& spec_;
  const model::Architecture& architecture_;
  RoleTensors tensors_;
  std::map<std::string, std::pair<Sizes, std::vector<float>>> stored_;
  std::map<std::string, std::pair<std::uint32_t, std::string>> blocks_;
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_GGUF_MODEL_H_
