#include "calib/input_statistics.h"

#include <functional>
#include <string>
#include <string_view>

#include "model/structure/block_structure.h"

namespace ballast::calib {

InputStatistics::InputStatistics(const Statistics& statistics, const model::ModelSource& source)
    : tied_embeddings_(source.spec().tied_embeddings) {
  std::map<std::string, const LinearInputStatistics*, std::less<>> by_name;
  for (const LinearInputStatistics& input : statistics.inputs) {
    for (const std::string& name : input.linears) by_name.emplace(name, &input);
  }
  const auto add = [&](model::Role role, std::size_t layer, std::size_t expert) {
    const auto it = by_name.find(source.name(role, layer, expert));
    if (it != by_name.end()) inputs_[{role, layer, expert}] = it->second;
  };
  const ModelSpec& spec = source.spec();
  for (const model::Role role : model::outer_roles(spec)) add(role, 0, 0);
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    for (const model::Part& part : model::block_linears(spec, layer)) add(part.role, layer, part.expert);
  }
}

const LinearInputStatistics* InputStatistics::find(model::Role role, std::size_t layer, std::size_t expert) const {
  if (role == model::Role::kHead && tied_embeddings_) role = model::Role::kEmbedding;
  const auto it = inputs_.find({role, layer, expert});
  return it == inputs_.end() ? nullptr : it->second;
}

}  // namespace ballast::calib
