#include "ballast/inspect.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "ballast/recipe.h"
#include "ballast/text.h"
#include "files/strict_json.h"
#include "files/text_file.h"
#include "model/model.h"
#include "model/source/code_rounding.h"
#include "model/source/model_source.h"
#include "model/source/tensor_groups.h"
#include "quant/conversion/prepared_blocks.h"
#include "quant/write/ballast_format.h"
#include "text/tokenizer.h"

namespace ballast {
namespace {

using nlohmann::json;

/// Sums up the tensors of a checkpoint.
class Summary {
 public:
  explicit Summary(const model::ModelSource& source) : source_(source) {}

  ModelSummary run() {
    const files::Checkpoint& checkpoint = source_.checkpoint();
    summary_.spec = source_.spec();
    summary_.prefix = source_.prefix_tokens();
    summary_.file_bytes = checkpoint.file_bytes();
    foreign_ = source_.foreign_modules();
    for (const auto& [module, found] : foreign_) {
      for (const std::string& name : found.tensors) modules_of_tensors_[name] = module;
    }
    for (const std::string& name : checkpoint.names()) add(name, checkpoint.tensor(name));
    for (const auto& [name, tensor] : checkpoint.unread_tensors()) add_unread(name, tensor);
    summary_.groups = groups_.finish();
    summary_.bits_per_weight =
        8.0 * static_cast<double>(summary_.file_bytes) / static_cast<double>(summary_.parameters);
    describe_tokenizer();
    const std::filesystem::path recipe = checkpoint.path() / "recipe.json";
    if (std::filesystem::is_regular_file(recipe)) {
      summary_.recipe = files::read_text_file(recipe);
      files::parse_strict_json(summary_.recipe, recipe.string());  // readers of the summary rely on this
    }
    advise();
    return std::move(summary_);
  }

 private:
  // Adds a tensor. The parts of a quantized matrix count as one tensor, under the name of its module.
  void add(const std::string& name, const TensorView& view) {
    static constexpr std::string_view kParts[] = {".weight_scale", ".weight_row_scale", ".weight_zero",
                                                  ".outlier_columns", ".outlier_weight"};
    TensorGroup row{.name = name,
                    .type = std::string(dtype_info(view.dtype).name),
                    .tensors = 1,
                    .weights = static_cast<std::uint64_t>(element_count(view.shape)),
                    .bytes = view.bytes.size()};
    if (source_.quantization()) {
      const auto& formats = source_.quantization()->tensors;
      const std::string module = name.substr(0, name.rfind('.'));
      if (const auto it = formats.find(module); it != formats.end() && it->second.is_ballast_format()) {
        row.type = format_name(it->second);
        const std::string_view part = std::string_view(name).substr(module.size());
        if (part == ".weight") row.weights = row.weights * 8 / static_cast<unsigned>(it->second.bits);
        for (const std::string_view known : kParts) {
          if (part == known) row.weights = 0;
        }
        row.name = module + ".weight";
        row.tensors = part == ".weight" ? 1 : 0;
      }
    }
    if (const auto it = modules_of_tensors_.find(name); it != modules_of_tensors_.end()) {
      const model::ForeignModule& module = foreign_.at(it->second);
      const bool codes = name == module.tensors.front();
      row.type = module.type;
      row.weights = codes ? module.weights : 0;
      row.name = it->second + ".weight";
      row.tensors = codes ? 1 : 0;
    }
    summary_.parameters += row.weights;
    add(std::move(row));
  }

  // Adds a tensor of an unknown type, which the model does not need.
  void add_unread(const std::string& name, const files::UnreadTensor& tensor) {
    add({.name = name, .type = tensor.type + " (not read)", .tensors = 1, .weights = 0, .bytes = tensor.bytes});
  }

  void add(TensorGroup row) {
    groups_.add(
        std::move(row), [](const auto& a, const auto& b) { return a.type == b.type; },
        [](TensorGroup& group, const TensorGroup& tensor) {
          group.weights += tensor.weights;
          group.bytes += tensor.bytes;
        });
  }

  void describe_tokenizer() {
    try {
      const auto tokenizer = text::load_tokenizer(source_.checkpoint());
      summary_.tokenizer = tokenizer == nullptr ? "none" : tokenizer->description();
    } catch (const Error& error) {
      summary_.tokenizer = error.what();
    }
  }

  void advise() {
    std::vector<std::string>& advice = summary_.advice;
    if (source_.spec().text_vectors) advice.push_back(describe_vectors(*source_.spec().text_vectors));
    if (source_.quantization()) {
      advice.push_back("quantized by ballast: run it as it is; convert again only from the original");
      return;
    }
    if (!foreign_.empty()) {
      advise_foreign();
      return;
    }
    if (const model::RoundedBlocks rounded = model::rounded_blocks(source_); rounded.matrices > 0) {
      advice.push_back(rounded.text());
    }
    advice.push_back("fold gains and biases where that is exact: convert --explain says which, and why");
    for (const char* scheme : {"w8a8", "w4a16"}) advice.push_back(estimate(scheme));
  }

  /// Describes how embed computes a vector from a text's hidden values.
  static std::string describe_vectors(const TextVectorSpec& vectors) {
    const char* pooling = vectors.pooling == Pooling::kMean    ? "the mean of its tokens"
                          : vectors.pooling == Pooling::kFirst ? "that of its first token"
                                                               : "that of its last token";
    std::string text = std::string("embed: a text's vector is ") + pooling;
    if (!vectors.dense.empty())
      text += ", through " + std::to_string(vectors.dense.size()) +
              (vectors.dense.size() == 1 ? " dense layer" : " dense layers");
    if (vectors.normalized) text += ", of length 1";
    if (vectors.most_tokens > 0)
      text += "; texts longer than " + std::to_string(vectors.most_tokens) + " tokens are cut";
    return text;
  }

  void advise_foreign() {
    summary_.advice.push_back(
        "quantized by another program: run it as it is; convert only from the original, if there is one");
    std::size_t decoded = 0;
    std::uint64_t bytes = 0;
    for (const auto& [name, module] : foreign_) {
      if (module.keeps_codes) continue;
      ++decoded;
      bytes += module.weights * sizeof(float);
    }
    if (decoded == 0) return;
    summary_.advice.push_back(std::to_string(decoded) + " of " + std::to_string(foreign_.size()) +
                              " quantized matrices become floats of " + text::format_bytes(bytes) +
                              " in memory: the kernels do not multiply such codes");
  }

  std::string estimate(std::string_view scheme) const {
    Recipe recipe = recipe_for_scheme(scheme);
    recipe.target_bytes = 0;  // automatically chosen formats take as many bytes as these
    const std::string command = "convert --scheme " + std::string(scheme) + ": ";
    try {
      const quant::BallastFormat format(recipe);
      const std::uint64_t bytes = format.file_bytes(quant::plan_model(quant::Preparation(source_, recipe, format)));
      return command + "about " + text::format_bytes(bytes) + ", formats chosen matrix by matrix";
    } catch (const Error& error) {
      return command + "refused: " + error.what();
    }
  }

  const model::ModelSource& source_;
  ModelSummary summary_;
  std::map<std::string, model::ForeignModule> foreign_;
  std::map<std::string, std::string> modules_of_tensors_;  ///< modules of the tensors in foreign_
  model::GroupedTensors<TensorGroup> groups_;
};

json rope_json(const RopeSpec& rope) {
  json result = {{"theta", rope.theta}};
  if (rope.scaling == RopeSpec::Scaling::kLinear) result["scaling"] = "linear";
  if (rope.scaling == RopeSpec::Scaling::kLlama3) result["scaling"] = "llama3";
  if (rope.scaling == RopeSpec::Scaling::kYarn) result["scaling"] = "yarn";
  if (rope.scaling == RopeSpec::Scaling::kLongRope) result["scaling"] = "longrope";
  result["rotary_size"] = rope.rotary_size;
  if (rope.scaling != RopeSpec::Scaling::kNone) result["factor"] = rope.factor;
  return result;
}

const char* layout_name(BlockLayout layout) {
  switch (layout) {
    case BlockLayout::kPostNorm:
      return "post-norm";
    case BlockLayout::kOutputNorm:
      return "output-norm";
    case BlockLayout::kParallel:
      return "parallel";
    case BlockLayout::kParallelShared:
      return "parallel, shared norm";
    default:
      return "pre-norm";
  }
}

/// Returns the rotation of each layer, null without one.
std::vector<json> ropes_of(const ModelSpec& spec) {
  std::vector<json> ropes;
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec* attention = layer.attention();
    ropes.push_back(attention != nullptr && attention->rope ? rope_json(*attention->rope) : json());
  }
  return ropes;
}

const char* positions_name(const ModelSpec& spec) {
  const std::vector<json> ropes = ropes_of(spec);
  if (std::ranges::any_of(ropes, [](const json& rope) { return !rope.is_null(); })) return "rope";
  if (spec.sinusoids) return "sinusoids";
  return spec.learned_positions ? "learned" : "none";
}

/// Adds the sizes of the first attention layer, the windows of all layers, and their rotations if they differ.
void add_attention(const ModelSpec& spec, json& result) {
  const AttentionSpec* attention = spec.first_attention();
  if (attention == nullptr) return;
  result["heads"] = attention->heads;
  result["kv_heads"] = attention->kv_heads;
  result["head_size"] = attention->head_size;
  const std::vector<json> ropes = ropes_of(spec);
  const auto rotates = std::ranges::find_if(ropes, [](const json& rope) { return !rope.is_null(); });
  if (rotates != ropes.end()) result["rope"] = *rotates;
  if (std::ranges::adjacent_find(ropes, std::ranges::not_equal_to()) != ropes.end()) result["ropes"] = ropes;
  std::vector<std::size_t> windows;
  for (const LayerSpec& layer : spec.layers) {
    windows.push_back(layer.attention() == nullptr ? 0 : layer.attention()->window);
  }
  if (std::ranges::any_of(windows, [](std::size_t window) { return window > 0; })) result["windows"] = windows;
}

/// Returns the number of hidden channels of the first MLP.
std::size_t mlp_size(const ModelSpec& spec) {
  const auto first = std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.mlp.exists(); });
  return first == spec.layers.end() ? 0 : first->mlp.size;
}

}  // namespace

ModelSummary inspect(const std::filesystem::path& model) {
  const model::ModelSource source(model);
  return Summary(source).run();
}

std::string model_summary_json(const ModelSummary& summary) {
  const ModelSpec& spec = summary.spec;
  json groups = json::array();
  for (const TensorGroup& group : summary.groups) {
    groups.push_back({{"name", group.name},
                      {"type", group.type},
                      {"tensors", group.tensors},
                      {"weights", group.weights},
                      {"bytes", group.bytes}});
  }
  json result = {{"architecture", spec.architecture},
                 {"layers", spec.layers.size()},
                 {"hidden_size", spec.hidden_size},
                 {"mlp_size", mlp_size(spec)},
                 {"vocab_size", spec.vocab_size},
                 {"context_length", spec.context_length},
                 {"norm", spec.norm.kind == NormSpec::Kind::kRms ? "rms" : "layer"},
                 {"layout", layout_name(spec.layout)},
                 {"causal", spec.causal},
                 {"positions", positions_name(spec)},
                 {"tied_embeddings", spec.tied_embeddings},
                 {"parameters", summary.parameters},
                 {"file_bytes", summary.file_bytes},
                 {"bits_per_weight", summary.bits_per_weight},
                 {"tensor_groups", groups},
                 {"tokenizer", summary.tokenizer},
                 {"advice", summary.advice}};
  add_attention(spec, result);
  for (const LayerSpec& layer : spec.layers) {
    if (layer.mlp.experts) result["experts"] = layer.mlp.experts->count;
  }
  if (spec.encoder) result["encoder_layers"] = spec.encoder->layers;
  if (spec.long_context > 0) result["long_context"] = spec.long_context;
  if (!summary.prefix.empty()) result["prefix"] = summary.prefix;
  if (!summary.recipe.empty()) result["recipe"] = json::parse(summary.recipe);
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ballast
