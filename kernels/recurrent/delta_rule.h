// The gated delta rule (Yang et al. 2024, arXiv:2412.06464): attention whose memory of a text is one matrix per head.
#ifndef BALLAST_KERNELS_RECURRENT_DELTA_RULE_H_
#define BALLAST_KERNELS_RECURRENT_DELTA_RULE_H_

#include <cstddef>

namespace ballast::kernels {

/// Consecutive tokens of one head. Rows of a kind are `stride` floats apart.
struct DeltaRun {
  std::size_t tokens = 0;
  std::size_t key_size = 0;
  std::size_t value_size = 0;
  const float* queries = nullptr;  ///< [tokens][key_size], normalized, as are the keys
  const float* keys = nullptr;
  const float* values = nullptr;  ///< [tokens][value_size]
  std::size_t stride = 0;
  const float* decays = nullptr;     ///< [tokens]: fraction of the memory that is kept
  const float* strengths = nullptr;  ///< [tokens]: fraction of a key's old value that the new one replaces
  std::size_t gate_stride = 0;       ///< of decays and strengths
  float* memory = nullptr;           ///< [key_size][value_size], changed
  float* out = nullptr;              ///< [tokens][value_size]
  std::size_t out_stride = 0;
};

/// Computes for each token: S = decay S; S += k (strength (v - S^T k))^T; out = S^T q, with the same bits for any
/// division of the tokens into runs. Runs on the calling thread.
void delta_rule(const DeltaRun& run);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_RECURRENT_DELTA_RULE_H_
