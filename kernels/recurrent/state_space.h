// The recurrence of Mamba 2 (Dao and Gu 2024, arXiv:2405.21060): a memory of one matrix per head, which decays as a
// whole.
#ifndef BALLAST_KERNELS_RECURRENT_STATE_SPACE_H_
#define BALLAST_KERNELS_RECURRENT_STATE_SPACE_H_

#include <cstddef>

namespace ballast::kernels {

/// Tokens that follow each other, as one head sees them. Rows of a kind lie `stride` floats apart.
struct StateSpaceRun {
  std::size_t tokens = 0;
  std::size_t state_size = 0;
  std::size_t head_size = 0;
  const float* values = nullptr;   ///< [tokens][head_size]
  const float* keys = nullptr;     ///< [tokens][state_size]
  const float* queries = nullptr;  ///< the same
  std::size_t stride = 0;
  const float* decays = nullptr;  ///< [tokens]: what of the memory stays
  const float* steps = nullptr;   ///< [tokens]: how much of a value comes to it
  std::size_t gate_stride = 0;    ///< of decays and steps
  float skip = 0;                 ///< how much of a value goes past the memory
  float* memory = nullptr;        ///< [state_size][head_size], changed
  float* out = nullptr;           ///< [tokens][head_size]
  std::size_t out_stride = 0;
};

/// For each token: S = decay S + k (step v)^T; out = S^T q + skip v. To the same bits for any cut of the tokens into
/// runs. On the calling thread.
void state_space(const StateSpaceRun& run);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_RECURRENT_STATE_SPACE_H_
