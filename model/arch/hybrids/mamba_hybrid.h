// The common part of hybrids with Mamba 2.
#ifndef BALLAST_MODEL_ARCH_HYBRIDS_MAMBA_HYBRID_H_
#define BALLAST_MODEL_ARCH_HYBRIDS_MAMBA_HYBRID_H_

#include <array>
#include <cstddef>
#include <string_view>

#include "model/arch/decoder_config.h"

namespace ballast::model {

/// Names of Granite 4 and Falcon-H1.
inline constexpr std::array<TensorNames, 12> kMambaNames{{
    {Role::kMambaGate, "model.layers.{}.mamba.z_proj", ""},
    {Role::kMambaValue, "model.layers.{}.mamba.x_proj", ""},
    {Role::kMambaKey, "model.layers.{}.mamba.b_proj", ""},
    {Role::kMambaQuery, "model.layers.{}.mamba.c_proj", ""},
    {Role::kMambaStep, "model.layers.{}.mamba.dt_proj", ""},
    {Role::kMambaConvolution, "model.layers.{}.mamba.conv1d.weight", ""},
    {Role::kMambaConvolutionBias, "model.layers.{}.mamba.conv1d.bias", ""},
    {Role::kMambaStepBias, "model.layers.{}.mamba.dt_bias", ""},
    {Role::kMambaDecayRate, "model.layers.{}.mamba.A_log", ""},
    {Role::kMambaSkip, "model.layers.{}.mamba.D", ""},
    {Role::kMambaNorm, "model.layers.{}.mamba.norm", ""},
    {Role::kMambaOutput, "model.layers.{}.mamba.out_proj", ""},
}};

/// Projections in the order of their rows in the fused matrix.
inline constexpr std::array kMambaProjections = {Role::kMambaGate, Role::kMambaValue, Role::kMambaKey,
                                                 Role::kMambaQuery, Role::kMambaStep};
inline constexpr FusedTensor kFusedMamba = {"model.layers.{}.mamba.in_proj", "", kMambaProjections,
                                            FusedTensor::Runs::kOne};

/// Reads Mamba 2 from the fields that begin with mamba_. `value_channels`: channels of all heads. The norm comes after
/// the gate.
Mamba2Spec read_mamba(const files::JsonReader& config, std::size_t value_channels);

/// Reads the two bounds of a token's step, of which the second may be infinite.
void read_step_limit(const files::JsonReader& config, Mamba2Spec& mamba);

/// Refuses a convolution's activation that is not SiLU.
void check_mamba_activation(const files::JsonReader& config, std::string_view field);

/// Refuses groups that do not divide the heads.
void check_mamba_groups(const files::JsonReader& config, std::string_view field, const Mamba2Spec& mamba);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_HYBRIDS_MAMBA_HYBRID_H_
