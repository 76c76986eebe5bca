#include "model/arch/mixtures/shared_experts.h"

#include <string>
#include <vector>

#include "model/arch/decoder_config.h"

namespace ballast::model {

ExpertSpec read_shared_experts(const files::JsonReader& config, const SharedExpertFields& fields) {
  ExpertSpec experts = read_experts(config, fields.count, "moe_intermediate_size");
  const std::size_t shared =
      fields.shared_by_default ? config.count(fields.shared, *fields.shared_by_default) : config.count(fields.shared);
  experts.shared_size = experts.size * shared;
  experts.scale =
      fields.scale_by_default ? config.number(fields.scale, *fields.scale_by_default) : config.number(fields.scale);
  return experts;
}

void read_expert_groups(const files::JsonReader& config, std::optional<std::size_t> by_default, ExpertSpec& experts) {
  const auto read = [&](std::string_view field) {
    return by_default ? config.size(field, *by_default) : config.size(field);
  };
  experts.groups = read("n_group");
  experts.groups_per_token = read("topk_group");
  if (experts.count % experts.groups != 0) config.fail("n_group", "must divide the number of experts");
  if (experts.groups_per_token > experts.groups) config.fail("topk_group", "must be at most n_group");
  if (experts.per_token > experts.groups_per_token * (experts.count / experts.groups)) {
    config.fail("num_experts_per_tok", "is more than the experts of topk_group groups");
  }
  const bool by_best_two = experts.group_score == ExpertSpec::GroupScore::kTopTwoSum;
  if (by_best_two && experts.count / experts.groups < 2) {
    config.fail("n_group", "leaves fewer than two experts to a group");
  }
}

void score_by_sigmoid(ExpertSpec& experts) {
  experts.scoring = ExpertSpec::Scoring::kSigmoid;
  experts.group_score = ExpertSpec::GroupScore::kTopTwoSum;
  experts.correction_bias = true;
  experts.normalize = true;
}

void set_experts_from(std::size_t first, const ExpertSpec& experts, ModelSpec& spec) {
  for (std::size_t layer = first; layer < spec.layers.size(); ++layer) spec.layers[layer].mlp.experts = experts;
}

bool set_experts_by_type(const files::JsonReader& config, const ExpertSpec& experts, ModelSpec& spec) {
  if (!config.has("mlp_layer_types")) return false;
  const std::vector<files::JsonReader> types = config.at("mlp_layer_types").elements();
  if (types.size() != spec.layers.size()) {
    config.fail("mlp_layer_types", "has " + std::to_string(types.size()) + " entries for " +
                                       std::to_string(spec.layers.size()) + " layers");
  }
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    const std::string& type = types[layer].string();
    if (type == "sparse") {
      spec.layers[layer].mlp.experts = experts;
    } else if (type != "dense") {
      types[layer].fail("'" + type + "' is not supported; supported: dense, sparse");
    }
  }
  return true;
}

}  // namespace ballast::model
