#include "model/arch/hybrids/mamba_hybrid.h"

#include <limits>
#include <string>
#include <vector>

namespace ballast::model {

namespace mamba_hybrid {
namespace {

double read_bound(const files::JsonReader& bound) {
  // transformers writes numbers that JSON cannot represent as an object.
  if (bound.json().is_object() && bound.text("__float__") == "Infinity") return std::numeric_limits<double>::infinity();
  return bound.number();
}

std::size_t read_head_size(const files::JsonReader& config, std::size_t heads, std::size_t value_channels) {
  if (value_channels % heads != 0) {
    config.fail("mamba_n_heads", "does not divide the " + std::to_string(value_channels) + " channels of the heads");
  }
  const std::size_t size = value_channels / heads;
  const auto given = config.find("mamba_d_head");
  if (!given || given->json() == "auto") return size;
  if (config.size("mamba_d_head") != size) {
    config.fail("mamba_d_head", "must be " + std::to_string(size) + ", the heads have " +
                                    std::to_string(value_channels) + " channels together");
  }
  return size;
}

}  // namespace
}  // namespace mamba_hybrid

Mamba2Spec read_mamba(const files::JsonReader& config, std::size_t value_channels) {
  Mamba2Spec mamba;
  mamba.heads = config.size("mamba_n_heads", 128);
  mamba.head_size = mamba_hybrid::read_head_size(config, mamba.heads, value_channels);
  mamba.groups = config.size("mamba_n_groups", 1);
  mamba.state_size = config.size("mamba_d_state", 256);
  mamba.width = config.size("mamba_d_conv", 4);
  mamba.convolution_bias = config.flag("mamba_conv_bias", true);
  check_mamba_groups(config, "mamba_n_groups", mamba);
  read_step_limit(config, mamba);
  return mamba;
}

void read_step_limit(const files::JsonReader& config, Mamba2Spec& mamba) {
  if (!config.has("time_step_limit")) return;
  const std::vector<files::JsonReader> bounds = config.at("time_step_limit").tuple(2);
  mamba.least_step = mamba_hybrid::read_bound(bounds[0]);
  mamba.largest_step = mamba_hybrid::read_bound(bounds[1]);
  if (!(mamba.least_step >= 0)) bounds[0].fail("must not be negative");
  if (!(mamba.largest_step >= mamba.least_step)) bounds[1].fail("must not be less than the bound before it");
}

void check_mamba_activation(const files::JsonReader& config, std::string_view field) {
  if (const std::string name = config.text(field, "silu"); name != "silu") {
    config.fail(field, "'" + name + "' is not supported: the convolution's must be 'silu'");
  }
}

void check_mamba_groups(const files::JsonReader& config, std::string_view field, const Mamba2Spec& mamba) {
  if (mamba.heads % mamba.groups != 0) {
    config.fail(field,
                std::to_string(mamba.groups) + " groups do not divide the " + std::to_string(mamba.heads) + " heads");
  }
}

}  // namespace ballast::model
