#include "ballast/explain.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "model/arch/architecture.h"
#include "model/mixer/mixer_kind.h"
#include "model/source/model_source.h"
#include "model/source/tensor_groups.h"
#include "model/structure/block_structure.h"
#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"
#include "quant/write/model_formats.h"

namespace ballast {

namespace {

using model::Part;
using model::Role;
using quant::FoldLegality;
using quant::KeyBiasRuling;
using Outcome = FoldLine::Outcome;

class Explanation {
 public:
  Explanation(const ModelSpec& spec, const Recipe& recipe)
      : spec_(spec), recipe_(recipe), architecture_(model::architecture_for_model_type(spec.architecture, "explain")) {
    if (recipe.untie_head) spec_.tied_embeddings = false;
    untied_ = spec.tied_embeddings && recipe.untie_head;
  }

  std::vector<FoldLine> run() {
    if (spec_.embedding_norm) add_norm(0, Role::kEmbeddingNorm, {});
    if (spec_.embedding_size > 0) add_linear(0, Role::kEmbeddingProjection);
    for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) add_block(layer);
    if (spec_.has_final_norm()) {
      add_norm(0, Role::kFinalNorm, {{spec_.head_transform ? Role::kHeadTransform : Role::kHead}});
    }
    if (spec_.head_transform) {
      add_linear(0, Role::kHeadTransform);
      add_norm(0, Role::kHeadNorm, {{Role::kHead}});
    }
    if (spec_.biases.head) add_kept(name(Role::kHead) + " bias", quant::why_bias_stays({}, Role::kHeadBias));
    add_head();
    add_free_transformations();
    return std::move(lines_);
  }

 private:
  std::string name(Role role) const { return model::group_name(model::module_name(architecture_, role)); }

  /// Adds a line; layers with the same line for a group of tensors share it.
  void add(FoldLine line) {
    if (said_.insert({line.what, line.outcome, line.reason}).second) lines_.push_back(std::move(line));
  }

  void add_kept(std::string what, std::string reason) {
    add({.what = std::move(what), .outcome = Outcome::kKept, .into = {}, .reason = std::move(reason)});
  }

  void add_fold(std::string what, const FoldLegality& ruling, bool wanted, std::string_view flag, std::string into) {
    if (!ruling.legal) {
      add_kept(std::move(what), ruling.reason);
    } else if (!wanted) {
      add_kept(std::move(what), "could be folded, but the recipe has " + std::string(flag) + " off");
    } else {
      add({.what = std::move(what), .outcome = Outcome::kFolded, .into = std::move(into), .reason = ruling.reason});
    }
  }

  void add_norm(std::size_t layer, Role norm, const std::vector<Part>& readers) {
    std::string names;
    std::string biases;
    for (const Part& reader : readers) {
      if (reader.expert > 0) continue;
      names += (names.empty() ? "" : ", ") + name(reader.role);
      biases += (biases.empty() ? "" : ", ") + name(reader.role) + " bias";
    }
    if (model::norm_spec(spec_, layer, norm).gain) {
      add_fold(name(norm) + " gain", quant::gain_fold(spec_, layer, norm), recipe_.fold_norms, "fold_norms", names);
    }
    if (model::norm_spec(spec_, layer, norm).bias) {
      add_fold(name(norm) + " bias", quant::norm_bias_fold(spec_, layer, norm), recipe_.fold_biases, "fold_biases",
               biases);
    }
  }

  void add_block(std::size_t layer) {
    const std::vector<model::BlockInput> inputs = model::block_inputs(spec_, layer);
    std::set<Role> norms;
    for (const model::BlockInput& input : inputs) {
      const std::optional<Role> norm = input.norm ? input.norm : input.gated_norm;
      if (norm && norms.insert(*norm).second) add_norm(layer, *norm, input.readers);
      for (const Part& reader : input.readers) {
        if (reader.expert == 0) add_linear(layer, reader.role);
      }
    }
    for (const Role norm : model::block_norms(spec_, layer)) {
      if (!norms.contains(norm)) add_norm(layer, norm, {});
    }
  }

  void add_linear(std::size_t index, Role role) {
    if (!model::has_bias(spec_, index, role)) return;
    const std::string what = name(role) + " bias";
    if (model::role_row(role).place == model::RoleRow::Place::kBack) {
      return add_kept(what, quant::why_bias_stays({}, role));
    }
    const LayerSpec& layer = spec_.layers[index];
    const std::optional<model::ValuePath> path = model::value_path(layer);
    if (path && path->value == role) {
      add_fold(what, path->bias, recipe_.fold_biases, "fold_biases", name(path->output) + " bias");
    } else if (role == Role::kKey) {
      add_key_bias(layer, what);
    } else {
      add_kept(what, quant::why_bias_stays(layer, role));
    }
  }

  void add_key_bias(const LayerSpec& layer, const std::string& what) {
    KeyBiasRuling ruling = quant::key_bias_drop(layer);
    if (ruling.drop == KeyBiasRuling::Drop::kNone) {
      add_kept(what, ruling.reason);
    } else if (!recipe_.fold_biases) {
      add_kept(what, "could be dropped, but the recipe has fold_biases off");
    } else {
      const bool whole = ruling.drop == KeyBiasRuling::Drop::kWhole;
      add({.what = what,
           .outcome = whole ? Outcome::kDropped : Outcome::kPartDropped,
           .into = {},
           .reason = std::move(ruling.reason)});
    }
  }

  void add_head() {
    if (untied_) {
      add({.what = "head",
           .outcome = Outcome::kApplied,
           .into = {},
           .reason = "untied from the embedding, as the recipe asks: it takes the space of a matrix of its own"});
    } else if (spec_.tied_embeddings && spec_.has_head) {
      add_kept("head", "it is the embedding; folds into it need a matrix of its own (--untie-head)");
    }
  }

  void add_free(std::string what, const FoldLegality& ruling, bool wanted, std::string_view field) {
    if (ruling.legal && !wanted) {
      add_kept(std::move(what), "possible (" + ruling.reason + "), but the recipe has " + std::string(field) + " off");
    } else {
      add({.what = std::move(what),
           .outcome = ruling.legal ? Outcome::kApplied : Outcome::kKept,
           .into = {},
           .reason = ruling.reason});
    }
  }

  void add_free_transformations() {
    add_free("LayerNorm to RMSNorm", quant::layer_norm_to_rms(spec_), recipe_.center_norms, "center_norms");
    const bool scaled = recipe_.equalize || recipe_.smooth;
    add_free("scaling of what norms write against what reads it", quant::gain_fold(spec_, 0, Role::kAttentionNorm),
             recipe_.smooth, "smooth");
    for_each_value_path([&](const model::ValuePath& path) {
      add_free("scaling of values against the output projection", path.scaling, scaled, "equalize and smooth");
    });
    for (const LayerSpec& layer : spec_.layers) {
      if (!layer.mlp.exists()) continue;
      add_free("scaling of up against down", quant::up_scaling(layer.mlp), scaled, "equalize and smooth");
    }
    for (const LayerSpec& layer : spec_.layers) {
      if (!model::mixer_kind(layer).convolves) continue;
      add_kept("scaling of what a convolution reads against its taps",
               "possible (each channel is convolved by itself), but of no use: rows and taps have no scale in common "
               "with others");
    }
    add_free("rotation of the residual stream", quant::residual_rotation(folded_spec(), recipe_.fold_norms),
             recipe_.rotate, "rotate");
    for_each_value_path([&](const model::ValuePath& path) {
      add_free("rotation of each head's values", path.rotation, recipe_.rotate_values, "rotate_values");
    });
  }

  template <typename Visit>
  void for_each_value_path(const Visit& visit) const {
    for (const LayerSpec& layer : spec_.layers) {
      if (const std::optional<model::ValuePath> path = model::value_path(layer)) visit(*path);
    }
  }

  /// Returns the spec after the folds of norms, which decides about the following transformations.
  ModelSpec folded_spec() const {
    ModelSpec folded = spec_;
    quant::make_passes(recipe_, folded);
    return folded;
  }

  ModelSpec spec_;
  const Recipe& recipe_;
  const model::Architecture& architecture_;
  bool untied_ = false;
  std::set<std::tuple<std::string, Outcome, std::string>> said_;
  std::vector<FoldLine> lines_;
};

}  // namespace

std::string fold_outcome_name(FoldLine::Outcome outcome) {
  switch (outcome) {
    case Outcome::kKept:
      return "kept";
    case Outcome::kFolded:
      return "folded";
    case Outcome::kDropped:
      return "dropped";
    case Outcome::kPartDropped:
      return "part dropped";
    case Outcome::kApplied:
      return "applied";
  }
  return {};
}

std::vector<FoldLine> explain_folds(const ModelSpec& spec, const Recipe& recipe) {
  return Explanation(spec, recipe).run();
}

std::vector<FoldLine> explain_folds(const std::filesystem::path& model, const Recipe& recipe,
                                    OutputFormat output_format) {
  const auto source = std::make_shared<const model::ModelSource>(model);
  const Recipe fitting = quant::make_model_format(source, output_format, recipe)->fitting(recipe);
  return explain_folds(source->spec(), fitting);
}

std::string fold_lines_json(const std::vector<FoldLine>& lines) {
  nlohmann::json folds = nlohmann::json::array();
  for (const FoldLine& line : lines) {
    nlohmann::json entry = {{"what", line.what}, {"outcome", fold_outcome_name(line.outcome)}, {"reason", line.reason}};
    if (!line.into.empty()) entry["into"] = line.into;
    folds.push_back(std::move(entry));
  }
  return nlohmann::json{{"folds", folds}}.dump();
}

}  // namespace ballast
