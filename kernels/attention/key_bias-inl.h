// Adds the effect of a key bias to the scores of INT8 keys: q . R(p) b = sum over frequencies of (q1 b1 + q2 b2) cos(p
// f) + (q2 b1 - q1 b2) sin(p f), where p = start of the panel + offset in it. The start rotates each row's
// coefficients; the offsets use a table that all rows, heads and panels share, which makes it a product of F32
// matrices.
#if defined(BALLAST_KERNELS_ATTENTION_KEY_BIAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_KERNELS_ATTENTION_KEY_BIAS_INL_H_
#undef BALLAST_KERNELS_ATTENTION_KEY_BIAS_INL_H_
#else
#define BALLAST_KERNELS_ATTENTION_KEY_BIAS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/attention/attention_task.h"
#include "kernels/attention/key_bias.h"
#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Computes the coefficients of the rows' queries in the unit of their INT8 scores.
HWY_INLINE void prepare_key_bias(const KeyBias& bias, std::size_t head, std::size_t rows, std::size_t head_size,
                                 const AttentionScratch& scratch) {
  const KeyRotation& rotation = *bias.rotation;
  const std::size_t pairs = rotation.pairs();
  const std::size_t rotary_end = rotation.offset() + 2 * pairs;
  const float* b = bias.values + head * head_size;
  const float* b1 = b + rotation.offset();
  const float* b2 = b1 + pairs;
  *scratch.bias.far.number = KeyRotation::FarGroup::kNone;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* q = scratch.q + row * head_size;
    const float* q1 = q + rotation.offset();
    const float* q2 = q1 + pairs;
    const float unit = 1.0F / scratch.q_scales[row];
    const auto factor = hn::Set(FloatTag(), rotation.amplitude() * unit);
    float* cos = scratch.bias.coefficients + row * head_size;
    float* sin = cos + pairs;
    for_vectors(pairs, [&](auto load, auto store) HWY_ATTR {
      const auto x1 = load(q1), x2 = load(q2), y1 = load(b1), y2 = load(b2);
      store(hn::Mul(factor, hn::MulAdd(x1, y1, hn::Mul(x2, y2))), cos);
      store(hn::Mul(factor, hn::NegMulAdd(x1, y2, hn::Mul(x2, y1))), sin);
    });
    float constant = 0.0F;
    for (std::size_t c = 0; c < head_size; ++c) {
      if (c < rotation.offset() || c >= rotary_end) constant += q[c] * b[c];
    }
    scratch.bias.constants[row] = constant * unit;
  }
}

/// Computes the angles of the panels of the block that begins at `position`.
HWY_INLINE void prepare_panel_angles(const KeyRotation& rotation, std::size_t position, const KeyBiasScratch& scratch) {
  for (std::size_t panel = 0; panel < kAttentionKeys / kPanelTokens; ++panel) {
    rotation.panel_angles(position / kPanelTokens + panel, scratch.far, scratch.angles + panel * 2 * rotation.pairs());
  }
}

/// Adds the bias to a tile's scores with a range of keys, whole panels of a block, whose starts' angles are in
/// scratch.bias.
HWY_INLINE void add_key_bias(const KeyRotation& rotation, std::size_t first_row, std::size_t rows,
                             const PositionRange& keys, std::size_t head_size, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  const std::size_t pairs = rotation.pairs();
  for (std::size_t panel = keys.begin / kPanelTokens; panel < keys.end / kPanelTokens; ++panel) {
    const float* panel_cos = scratch.bias.angles + panel * 2 * pairs;
    const float* panel_sin = panel_cos + pairs;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* cos = scratch.bias.coefficients + (first_row + row) * head_size;
      const float* sin = cos + pairs;
      float* turned = scratch.bias.turned + row * 2 * pairs;
      for_vectors(pairs, [&](auto load, auto store) HWY_ATTR {
        const auto x = load(cos), y = load(sin), c = load(panel_cos), s = load(panel_sin);
        store(hn::MulAdd(x, c, hn::Mul(y, s)), turned);
        store(hn::NegMulAdd(x, s, hn::Mul(y, c)), turned + pairs);
      });
    }
    for (std::size_t key = 0; key < kPanelTokens; key += width) {
      const std::size_t wide = HWY_MIN(width, kPanelTokens - key);
      float* scores = scratch.scores + panel * kPanelTokens + key;
      multiply_panel(scratch.bias.turned, rows, 2 * pairs, rotation.table() + key, kPanelTokens, 2 * pairs,
                     [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
                       const auto constant = hn::Set(df, scratch.bias.constants[first_row + row]);
                       float* dst = scores + row * kAttentionKeys;
                       store_pair(df, hn::Add(load_or_zero(df, dst, 0, wide), hn::Add(c0, constant)),
                                  hn::Add(load_or_zero(df, dst, lanes, wide), hn::Add(c1, constant)), wide, dst);
                     });
    }
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_KERNELS_ATTENTION_KEY_BIAS_INL_H_
