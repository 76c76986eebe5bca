#include "model/source/adapter_loader.h"

#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/content_hash.h"
#include "formats/codecs/ballast.h"
#include "kernels/statistics.h"
#include "model/source/linear_folds.h"
#include "model/structure/block_structure.h"

namespace ballast::model {

namespace {

namespace fs = std::filesystem;

class AdapterLoader {
 public:
  AdapterLoader(const ModelSource& source, const AdapterFiles& files, const AdapterType& type)
      : source_(source), files_(files.path), scale_(files.scale), type_(type) {}

  std::shared_ptr<const Adapter> load() {
    check_model();
    source_.check_adapter(files_);
    read_model_folds();
    auto adapter = std::make_shared<Adapter>();
    const ModelSpec& spec = source_.spec();
    for (const Role role : outer_roles(spec)) {
      if (is_norm(role) || is_vector(role)) continue;
      std::optional<LoraProduct> product = find({role}, 0);
      if (!product) continue;
      if (role == Role::kEmbedding) {
        adapter->embedding = rows_of(std::move(*product));
      } else if (role == Role::kHead) {
        adapter->head.add({role}, linear_of(*product, type_(0, {role})));
      } else {
        refuse(source_.name(role),
               "to which no adapter can be added while the model runs: give its folder as the MODEL");
      }
    }
    adapter->layers.resize(spec.layers.size());
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      for (const Part& part : block_linears(spec, layer)) add(part, layer, adapter->layers[layer]);
    }
    const std::array scale = {scale_};
    const std::array identity = {files_.identity()};
    adapter->identity = files::content_hash({std::as_bytes(std::span(identity)), std::as_bytes(std::span(scale))});
    return adapter;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& why) const {
    throw Error(files_.path().string(), "changes '" + what + "', " + why);
  }

  /// Throws Error if the model's states or weights are not what an adapter's products can be added to.
  void check_model() const {
    const ModelSpec& spec = source_.spec();
    const std::string model = source_.checkpoint().path().string();
    const auto no_adapter = [&](const std::string& why) {
      throw Error(files_.path().string(), "cannot be added to " + model + " while it runs, because " + why);
    };
    if (spec.encoder) no_adapter("it has an encoder");
    for (const LayerSpec& layer : spec.layers) {
      if (layer.attention() != nullptr && layer.attention()->disentangled) {
        no_adapter("its projections are also those of its table of distances");
      }
    }
  }

  /// Returns whether a conversion to another program's files changed the weights without leaving a word of it there.
  bool is_converted_for_others() const {
    const files::Checkpoint& model = source_.checkpoint();
    if (model.kind() != files::Checkpoint::Kind::kGguf) return fs::exists(model.path() / "recipe.json");
    const auto maker = model.config().find("general.quantized_by");
    return maker != model.config().end() && maker->is_string() && maker->get<std::string>().starts_with("ballast ");
  }

  void read_model_folds() {
    if (!source_.written_by_ballast()) {
      if (!is_converted_for_others()) return;
      throw Error(source_.checkpoint().path().string(),
                  "was converted by ballast for other programs, whose files do not say what was folded into its "
                  "weights: convert the original to ballast's own files, or with the adapter");
    }
    const fs::path file = source_.checkpoint().path() / kFoldsFile;
    if (!fs::exists(file)) {
      throw Error(source_.checkpoint().path().string(),
                  std::string("has no ") + kFoldsFile +
                      ", which says what its conversion folded into its weights and what adapters need: convert the "
                      "original again");
    }
    folds_ = read_folds(file);
  }

  /// Returns the folds of a matrix; null: none. Those of a vocabulary's ranges are equal along its channels.
  const LinearFolds* folds_of(Part part, std::size_t layer) const {
    const std::string name = source_.name(part.role, layer, part.expert);
    for (const std::string& known : {name, formats::row_range_name(name, 0)}) {
      if (const auto it = folds_.find(known); it != folds_.end()) return &it->second;
    }
    return nullptr;
  }

  /// Returns the product for a matrix of the model; nullopt: there is none.
  std::optional<LoraProduct> find(Part part, std::size_t layer) const {
    std::optional<LoraProduct> product = source_.lora_product(files_, part.role, layer, part.expert);
    if (!product) return product;
    const std::string name = source_.name(part.role, layer, part.expert);
    const std::string context = files_.path().string() + ": " + name;
    product->scale *= static_cast<float>(scale_);
    if (const LinearFolds* folds = folds_of(part, layer)) apply_folds(*folds, context, *product);
    for (float& value : product->up) value *= product->scale;
    product->scale = 1;
    for (const std::vector<float>* values : {&product->up, &product->down, &product->bias}) {
      if (!kernels::all_finite(values->data(), values->size())) throw Error(context, "has values that are not finite");
    }
    return product;
  }

  static AddedLinear linear_of(const LoraProduct& product, kernels::FloatType type) {
    return {.matrix = {type, product.outputs, product.inputs, product.rank, product.up.data(), product.down.data()},
            .bias = product.bias};
  }

  static AddedRows rows_of(LoraProduct product) {
    return {
        .rank = product.rank, .channels = product.inputs, .up = std::move(product.up), .down = std::move(product.down)};
  }

  void add(Part part, std::size_t layer, AdapterPart& adapter) const {
    const std::optional<LoraProduct> product = find(part, layer);
    if (!product) return;
    if (role_row(source_.spec().layers[layer], part.role).copied_by_mixer) {
      refuse(source_.name(part.role, layer, part.expert),
             "which is multiplied head by head while the model runs: give the adapter's folder as the MODEL");
    }
    adapter.add(part, linear_of(*product, type_(layer, part)));
  }

  const ModelSource& source_;
  LoraAdapter files_;
  double scale_;
  const AdapterType& type_;
  std::map<std::string, LinearFolds> folds_;
};

}  // namespace

std::shared_ptr<const Adapter> load_adapter(const ModelSource& source, const AdapterFiles& files,
                                            const AdapterType& type) {
  return AdapterLoader(source, files, type).load();
}

}  // namespace ballast::model
