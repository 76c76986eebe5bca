// The recurrence of Mamba 2 (Dao and Gu 2024, arXiv:2405.21060): a memory of one matrix per head, which decays as a
// whole.
#ifndef BALLAST_KERNELS_RECURRENT_STATE_SPACE_H_
#define BALLAST_KERNELS_RECURRENT_STATE_SPACE_H_

#include <cstddef>

namespace ballast::kernels {

/// Consecutive tokens of one head. Rows of a kind are `stride` floats apart.
struct StateSpaceRun {
  std::size_t tokens = 0;
  std::size_t state_size = 0;
  std::size_t head_size = 0;
  const float* values = nullptr;   ///< [tokens][head_size]
  const float* keys = nullptr;     ///< [tokens][state_size]
  const float* queries = nullptr;  ///< [tokens][state_size]
  std::size_t stride = 0;
  const float* decays = nullptr;  ///< [tokens]: fraction of the memory that is kept
  const float* steps = nullptr;   ///< [tokens]: factor on the added value
  std::size_t gate_stride = 0;    ///< of decays and steps
  float skip = 0;                 ///< factor on a value that is added to the output directly
  float* memory = nullptr;        ///< [state_size][head_size], changed
  float* out = nullptr;           ///< [tokens][head_size]
  std::size_t out_stride = 0;
};

/// Computes for each token: S = decay S + k (step v)^T; out = S^T q + skip v, with the same bits for any division of
/// the tokens into runs. Runs on the calling thread.
void state_space(const StateSpaceRun& run);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_RECURRENT_STATE_SPACE_H_
