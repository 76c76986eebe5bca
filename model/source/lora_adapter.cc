#include "model/source/lora_adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "ballast/error.h"
#include "files/config_file.h"
#include "files/content_hash.h"
#include "files/gguf/gguf.h"
#include "files/json_reader.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/decode_floats.h"
#include "kernels/parallel.h"

namespace ballast::model {

namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kTensorFile = "adapter_model.safetensors";

/// A factor's place in a product, by the end of its tensor's name.
struct FactorName {
  std::string_view end;
  bool up;
  bool embedding;  ///< the matrix is a table, of which the factors are transposed
};
constexpr std::array<FactorName, 4> kPeftFactors{{{".lora_A.weight", false, false},
                                                  {".lora_B.weight", true, false},
                                                  {".lora_embedding_A", false, true},
                                                  {".lora_embedding_B", true, true}}};
constexpr std::array<FactorName, 2> kGgufFactors{{{".weight.lora_a", false, false}, {".weight.lora_b", true, false}}};
constexpr std::string_view kGgufEmbedding = "token_embd";

/// The two factors of a product as they are stored.
struct Factors {
  std::string down, up;
  bool embedding = false;
};

/// Returns whether the words of `name`, separated by points, end in those of `end`.
bool ends_in_words(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  return name.size() == end.size() || name[name.size() - end.size() - 1] == '.';
}

/// The tensors of an adapter's file.
struct AdapterTensors {
  std::string path;
  std::map<std::string, TensorView> views;

  const TensorView& tensor(const std::string& name) const { return views.at(name); }
};

std::map<std::string, Factors> find_factors(const AdapterTensors& file, std::span<const FactorName> names) {
  constexpr std::string_view kPrefix = "base_model.model.";
  std::map<std::string, Factors> factors;
  for (const auto& [tensor, view] : file.views) {
    // PEFT adds copies of the model's embedding and head where it changes them.
    if (std::string_view(tensor).ends_with(".base_layer.weight")) continue;
    const auto ends = [&](const FactorName& name) { return std::string_view(tensor).ends_with(name.end); };
    const auto known = std::ranges::find_if(names, ends);
    if (known == names.end()) {
      throw Error(file.path + ": " + tensor, "is no factor of LoRA, which alone is supported");
    }
    std::string module = tensor.substr(0, tensor.size() - known->end.size());
    if (module.starts_with(kPrefix)) module.erase(0, kPrefix.size());
    Factors& own = factors[module];
    (known->up ? own.up : own.down) = tensor;
    own.embedding = known->embedding;
  }
  return factors;
}

std::size_t size_of(std::int64_t dimension) {
  return static_cast<std::size_t>(dimension);
}

/// Returns a factor's values, transposed on request.
std::vector<float> read_factor(const AdapterTensors& file, const std::string& tensor, bool transposed) {
  const TensorView& view = file.tensor(tensor);
  const std::size_t rows = size_of(view.shape[0]);
  const std::size_t cols = size_of(view.shape[1]);
  std::vector<float> values(rows * cols);
  formats::decode_floats(view, file.path + ": " + tensor, values.data());
  if (!transposed) return values;
  std::vector<float> turned(values.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols; ++col) turned[col * rows + row] = values[row * cols + col];
  }
  return turned;
}

/// Throws Error unless both factors are there and have two dimensions, those that are multiplied with each other being
/// the first of `down` and the second of `up`; or the second of both.
void check_factors(const AdapterTensors& file, const std::string& module, const Factors& factors,
                   bool second_of_both = false) {
  if (factors.down.empty() || factors.up.empty()) {
    throw Error(file.path, "has one factor of two for '" + module + "'");
  }
  const Shape& down = file.tensor(factors.down).shape;
  const Shape& up = file.tensor(factors.up).shape;
  if (down.size() == 2 && up.size() == 2 && down[second_of_both ? 1 : 0] == up[1]) return;
  throw Error(file.path + ": " + module,
              "has factors " + shape_string(up) + " and " + shape_string(down) + ", which cannot be multiplied");
}

LoraProduct read_product(const AdapterTensors& file, const std::string& module, const Factors& factors) {
  check_factors(file, module, factors);
  const Shape& down = file.tensor(factors.down).shape;
  const Shape& up = file.tensor(factors.up).shape;
  LoraProduct product{.outputs = size_of(up[0]),
                      .inputs = size_of(down[1]),
                      .rank = size_of(down[0]),
                      .up = {},
                      .down = {},
                      .bias = {}};
  product.up = read_factor(file, factors.up, factors.embedding);
  product.down = read_factor(file, factors.down, factors.embedding);
  if (!factors.embedding) return product;
  // Of a table [vocabulary, channels], PEFT stores the factors of its transpose.
  std::swap(product.outputs, product.inputs);
  std::swap(product.up, product.down);
  return product;
}

/// Reads a GGUF's product for a table [vocabulary, channels]: lora_a [vocabulary, rank] and lora_b [channels, rank].
LoraProduct read_gguf_table(const AdapterTensors& file, const std::string& module, const Factors& factors) {
  check_factors(file, module, factors, true);
  const Shape& rows = file.tensor(factors.down).shape;
  const Shape& channels = file.tensor(factors.up).shape;
  return {.outputs = size_of(rows[0]),
          .inputs = size_of(channels[0]),
          .rank = size_of(rows[1]),
          .up = read_factor(file, factors.down, false),
          .down = read_factor(file, factors.up, true),
          .bias = {}};
}

/// The scales of the products: alpha / rank, or alpha / sqrt(rank).
class Scales {
 public:
  explicit Scales(const files::JsonReader& config)
      : alpha_(config.number("lora_alpha", 8)), by_root_(config.flag("use_rslora", false)) {
    constexpr std::string_view kField = "alpha_pattern";
    if (!config.has(kField)) return;
    const files::JsonReader pattern = config.object(kField);
    for (const auto& entry : pattern.json().items()) {
      if (entry.key().find_first_of("^$*+?()[]{}|\\") != std::string::npos) {
        config.fail(kField, "'" + entry.key() + "' is a regular expression, which is not supported");
      }
      of_modules_.emplace_back(entry.key(), pattern.number(entry.key()));
    }
  }

  float of(std::string_view module, std::size_t rank) const {
    const auto own =
        std::ranges::find_if(of_modules_, [&](const auto& entry) { return ends_in_words(module, entry.first); });
    const double alpha = own == of_modules_.end() ? alpha_ : own->second;
    const auto size = static_cast<double>(rank);
    return static_cast<float>(alpha / (by_root_ ? std::sqrt(size) : size));
  }

 private:
  double alpha_;
  bool by_root_;
  std::vector<std::pair<std::string, double>> of_modules_;
};

void check_supported(const files::JsonReader& config) {
  const std::string type = config.text("peft_type", "");
  if (type != "LORA") config.fail("peft_type", "'" + type + "' is not supported; supported: LORA");
  for (const std::string_view flag : {"use_dora", "lora_bias"}) {
    if (config.flag(flag, false)) config.fail(flag, "true is not supported");
  }
  const std::string bias = config.text("bias", "none");
  if (bias != "none") config.fail("bias", "'" + bias + "' is not supported; supported: none");
  if (config.has("layer_replication")) config.fail("layer_replication", "is not supported");
}

}  // namespace

std::vector<float> LoraProduct::values() const {
  std::vector<float> product(outputs * inputs);
  kernels::parallel_ranges(outputs, kernels::threads_for(outputs * inputs * rank),
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t row = begin; row < end; ++row) {
                               float* sums = product.data() + row * inputs;
                               for (std::size_t k = 0; k < rank; ++k) {
                                 const float factor = scale * up[row * rank + k];
                                 const float* from = down.data() + k * inputs;
                                 for (std::size_t col = 0; col < inputs; ++col) sums[col] += factor * from[col];
                               }
                             }
                           });
  return product;
}

LoraAdapter::LoraAdapter(const fs::path& path) : path_(path), is_gguf_(fs::is_regular_file(path)) {
  if (is_gguf_) {
    read_gguf();
  } else {
    read_folder();
  }
}

fs::path LoraAdapter::tensor_file() const {
  return is_gguf_ ? path_ : path_ / kTensorFile;
}

void LoraAdapter::read_folder() {
  const files::ConfigFile config_file(path_ / kConfigFile);
  const files::JsonReader config = config_file.reader();
  check_supported(config);
  named_base_ = config.text("base_model_name_or_path", "");
  const Scales scales(config);
  const files::SafetensorsFile file(tensor_file());
  const AdapterTensors tensors{.path = file.path().string(), .views = {file.tensors().begin(), file.tensors().end()}};
  for (const auto& [module, factors] : find_factors(tensors, kPeftFactors)) {
    LoraProduct product = read_product(tensors, module, factors);
    product.scale = scales.of(module, product.rank);
    products_.emplace(module, std::move(product));
  }
  const std::string fields = config.json().dump();
  identity_ = files::content_hash({std::as_bytes(std::span(fields)), file.bytes()});
  file.check_whole();
}

void LoraAdapter::read_gguf() {
  const std::unique_ptr<files::GgufFile> file = files::open_gguf(path_);
  const files::JsonReader metadata(file->config(), path_.string());
  for (const auto& [field, value] : {std::pair{"general.type", "adapter"}, {"adapter.type", "lora"}}) {
    const std::string found = metadata.text(field, "");
    if (found != value) metadata.fail(field, "'" + found + "' is not that of an adapter, '" + value + "'");
  }
  AdapterTensors tensors{.path = path_.string(), .views = {}};
  std::vector<std::span<const std::byte>> bytes;
  const double alpha = metadata.number("adapter.lora.alpha", 0);
  const std::string scale = std::to_string(alpha);
  bytes.push_back(std::as_bytes(std::span(scale)));
  for (const std::string& name : file->names()) {
    bytes.push_back(tensors.views.emplace(name, file->tensor(name)).first->second.bytes);
  }
  for (const auto& [module, factors] : find_factors(tensors, kGgufFactors)) {
    LoraProduct product =
        module == kGgufEmbedding ? read_gguf_table(tensors, module, factors) : read_product(tensors, module, factors);
    product.scale = alpha == 0 ? 1.0F : static_cast<float>(alpha / static_cast<double>(product.rank));
    products_.emplace(module, std::move(product));
  }
  identity_ = files::content_hash(bytes);
  file->check_whole();
}

fs::path LoraAdapter::base() const {
  const auto has_model = [](const fs::path& folder) { return fs::exists(folder / "config.json"); };
  if (!named_base_.empty() && has_model(named_base_)) return named_base_;
  const fs::path around = fs::absolute(path_).lexically_normal() / "..";
  if (has_model(around)) return around.lexically_normal();
  throw Error((path_ / kConfigFile).string(),
              "base_model_name_or_path: '" + named_base_ +
                  "' is no folder here with a config.json, and neither is the one around this adapter");
}

const std::string* LoraAdapter::find(std::string_view module) const {
  const auto same = [&](const auto& entry) {
    return ends_in_words(entry.first, module) || ends_in_words(module, entry.first);
  };
  const auto found = std::ranges::find_if(products_, same);
  return found == products_.end() ? nullptr : &found->first;
}

void LoraAdapter::check_modules(std::span<const std::string> found, std::span<const std::string> tensors) const {
  for (const auto& [module, product] : products_) {
    const auto is_of_module = [&](const std::string& tensor) { return ends_in_words(tensor, module + ".weight"); };
    if (std::ranges::find(found, module) != found.end()) continue;
    if (std::ranges::any_of(tensors, is_of_module)) continue;
    throw Error(tensor_file().string(), "changes '" + module + "', which the model does not have");
  }
}

std::unique_ptr<const LoraAdapter> read_adapter(const fs::path& folder) {
  if (fs::exists(folder / "config.json") || !fs::exists(folder / kConfigFile)) return nullptr;
  return std::make_unique<const LoraAdapter>(folder);
}

}  // namespace ballast::model
