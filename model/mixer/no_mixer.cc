// The mixer of layers without a mixer, which are an MLP alone.
#include <memory>

#include "model/block/block_pass.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

namespace {

class NoMixer final : public Mixer {
 public:
  void for_each_linear(const std::function<void(const Linear&, Role)>& /*visit*/) const override {}

  std::size_t forward(const BlockPass& pass, const LinearRows& /*input*/, float* hidden) const override {
    return pass.options.wanted_only ? keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden) : pass.tokens;
  }
};

}  // namespace

constinit const MixerKind kNoMixer = {
    .roles = {},
    .assemble = [](const ModelSpec&, std::size_t, const BlockParts&) -> std::unique_ptr<const Mixer> {
      return std::make_unique<NoMixer>();
    },
};

}  // namespace ballast::model
