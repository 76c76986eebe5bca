#include "kernels/machine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "kernels/clock.h"
#include "kernels/matrix/amx.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/machine.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/dot-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using Int32Tag = hn::ScalableTag<std::int32_t>;

/// Computes a function of all bytes, so that the compiler cannot omit reading them.
std::int32_t read_all(const std::int32_t* HWY_RESTRICT src, std::size_t count) {
  const Int32Tag di32;
  const std::size_t lanes = hn::Lanes(di32);
  auto a = hn::Zero(di32), b = a, c = a, d = a;
  for (std::size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Xor(a, hn::LoadU(di32, src + i));
    b = hn::Xor(b, hn::LoadU(di32, src + i + lanes));
    c = hn::Xor(c, hn::LoadU(di32, src + i + 2 * lanes));
    d = hn::Xor(d, hn::LoadU(di32, src + i + 3 * lanes));
  }
  return hn::GetLane(hn::Xor(hn::Xor(a, b), hn::Xor(c, d)));
}

/// Multiplies a vector, or two rows if Dots pairs them.
template <class Dots>
HWY_INLINE DotInt multiply_vector(DotBytes w, DotSignedBytes a, DotInt sum) {
#if HWY_ARCH_ARM_A64
  if constexpr (Dots::kPairsRows) return smmla(sum, a, hn::BitCast(DotSignedByteTag(), w));
#endif
  if constexpr (!Dots::kPairsRows) return Dots::template add<8>(w, a, sum);
}

template <class Dots>
double multiply_int8_by(std::size_t rounds, std::int32_t& result) {
  const Int32Tag di32;
  const DotByteTag du8;
  const auto w = hn::Set(du8, static_cast<std::uint8_t>(result + 3));
  auto c0 = hn::Set(di32, 0), c1 = hn::Set(di32, 1), c2 = hn::Set(di32, 2), c3 = hn::Set(di32, 3);
  auto c4 = hn::Set(di32, 4), c5 = hn::Set(di32, 5), c6 = hn::Set(di32, 6), c7 = hn::Set(di32, 7);
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto a = hn::BitCast(DotSignedByteTag(), hn::Set(di32, static_cast<std::int32_t>(i)));
    c0 = multiply_vector<Dots>(w, a, c0);
    c1 = multiply_vector<Dots>(w, a, c1);
    c2 = multiply_vector<Dots>(w, a, c2);
    c3 = multiply_vector<Dots>(w, a, c3);
    c4 = multiply_vector<Dots>(w, a, c4);
    c5 = multiply_vector<Dots>(w, a, c5);
    c6 = multiply_vector<Dots>(w, a, c6);
    c7 = multiply_vector<Dots>(w, a, c7);
  }
  c0 = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(hn::Add(c4, c5), hn::Add(c6, c7)));
  result = hn::GetLane(c0);
  constexpr double kRowsAtOnce = Dots::kPairsRows ? 2 : 1;
  return static_cast<double>(rounds) * 8 * 2 * kRowsAtOnce * static_cast<double>(hn::Lanes(du8));
}

/// Runs `rounds` of 8 independent INT8 multiply-accumulates; returns the number of operations and a function of their
/// results. The factors change every round, because the compiler would otherwise multiply once.
double multiply_int8(std::size_t rounds, std::int32_t& result) {
  return with_dots([&](auto dots) HWY_ATTR { return multiply_int8_by<decltype(dots)>(rounds, result); });
}

double multiply_f32(std::size_t rounds, std::int32_t& result) {
  const hn::ScalableTag<float> df;
  const auto w = hn::Set(df, static_cast<float>(result) * 1e-9F);
  auto c0 = hn::Set(df, 0.0F), c1 = hn::Set(df, 1.0F), c2 = hn::Set(df, 2.0F), c3 = hn::Set(df, 3.0F);
  auto c4 = hn::Set(df, 4.0F), c5 = hn::Set(df, 5.0F), c6 = hn::Set(df, 6.0F), c7 = hn::Set(df, 7.0F);
  auto a = w;
  for (std::size_t i = 0; i < rounds; ++i) {
    a = hn::Add(a, w);
    c0 = hn::MulAdd(w, a, c0);
    c1 = hn::MulAdd(w, a, c1);
    c2 = hn::MulAdd(w, a, c2);
    c3 = hn::MulAdd(w, a, c3);
    c4 = hn::MulAdd(w, a, c4);
    c5 = hn::MulAdd(w, a, c5);
    c6 = hn::MulAdd(w, a, c6);
    c7 = hn::MulAdd(w, a, c7);
  }
  c0 = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(hn::Add(c4, c5), hn::Add(c6, c7)));
  result = std::bit_cast<std::int32_t>(hn::GetLane(c0));
  return static_cast<double>(rounds) * 8 * 2 * static_cast<double>(hn::Lanes(df));
}

/// Adds products of pairs of BF16 to sums.
template <class V, class VB>
HWY_INLINE V add_bf16_products(VB a, VB b, V sum, V& unused) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // The instruction is newer than the target; the processor has it if multiplies_bf16() is true.
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#else
  return hn::ReorderWidenMulAccumulate(FloatTag(), a, b, sum, unused);
#endif
}

double multiply_bf16(std::size_t rounds, std::int32_t& result) {
  const hn::ScalableTag<float> df;
  const hn::Repartition<hwy::bfloat16_t, decltype(df)> dbf16;
  const auto w = hn::BitCast(dbf16, hn::Set(df, static_cast<float>(result) * 1e-9F));
  auto c0 = hn::Set(df, 0.0F), c1 = hn::Set(df, 1.0F), c2 = hn::Set(df, 2.0F), c3 = hn::Set(df, 3.0F);
  auto c4 = hn::Set(df, 4.0F), c5 = hn::Set(df, 5.0F), c6 = hn::Set(df, 6.0F), c7 = hn::Set(df, 7.0F);
  auto unused = hn::Zero(df);  // with a single instruction, all products are in the other sum
  auto changing = hn::BitCast(df, w);
  for (std::size_t i = 0; i < rounds; ++i) {
    changing = hn::Add(changing, hn::BitCast(df, w));
    const auto a = hn::BitCast(dbf16, changing);
    c0 = add_bf16_products(w, a, c0, unused);
    c1 = add_bf16_products(w, a, c1, unused);
    c2 = add_bf16_products(w, a, c2, unused);
    c3 = add_bf16_products(w, a, c3, unused);
    c4 = add_bf16_products(w, a, c4, unused);
    c5 = add_bf16_products(w, a, c5, unused);
    c6 = add_bf16_products(w, a, c6, unused);
    c7 = add_bf16_products(w, a, c7, unused);
  }
  c0 = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(hn::Add(c4, c5), hn::Add(c6, c7)));
  result = std::bit_cast<std::int32_t>(hn::GetLane(hn::Add(c0, unused)));  // may be NaN: the factors are any bits
  return static_cast<double>(rounds) * 8 * 2 * static_cast<double>(hn::Lanes(dbf16));
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(read_all);
HWY_EXPORT(multiply_int8);
HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_bf16);

namespace {

constexpr std::size_t kAllThreads = std::size_t{1} << 40;  // more operations than any threshold

/// Returns the best of several runs of multiply(rounds, result) on all threads.
template <class Multiply>
double best_giga_operations(const Multiply& multiply) {
  constexpr std::size_t kRounds = 2'000'000;
  const std::size_t threads = threads_for(kAllThreads);
  double best = 0.0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    AlignedArray<double> operations(threads);
    const Clock::time_point start = Clock::now();
    parallel_ranges(threads, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t thread = begin; thread < end; ++thread) {
        std::int32_t result = repeat;
        operations.data()[thread] = multiply(kRounds, result);
        hwy::PreventElision(result);
      }
    });
    const double seconds = seconds_since(start);
    double total = 0.0;
    for (std::size_t thread = 0; thread < threads; ++thread) total += operations.data()[thread];
    best = std::max(best, total / seconds * 1e-9);
  }
  return best;
}

#if HWY_ARCH_X86_64
/// Does the same as multiply_int8 with tiles of AMX.
double multiply_tiles(std::size_t rounds, std::int32_t& result) {
  constexpr std::size_t kProducts = 4;
  constexpr std::size_t kOperations = kProducts * 2 * kAmxRows * (kAmxRowBytes / 4) * kAmxRowBytes;
  AmxShapes shapes;
  std::fill_n(shapes.rows.begin(), kAmxTiles, static_cast<std::uint8_t>(kAmxRows));
  std::fill_n(shapes.row_bytes.begin(), kAmxTiles, static_cast<std::uint16_t>(kAmxRowBytes));
  std::array<std::uint8_t, kAmxRows * kAmxRowBytes> bytes;
  bytes.fill(static_cast<std::uint8_t>(result));
  const std::size_t times = rounds / kProducts / 8;  // a product takes longer than one of vectors
  AmxTiles::configure(shapes);
  AmxTiles::load<4>(bytes.data(), kAmxRowBytes);
  AmxTiles::load<5>(bytes.data(), kAmxRowBytes);
  for (std::size_t i = 0; i < times; ++i) {
    AmxTiles::multiply<0, 4, 5>();
    AmxTiles::multiply<1, 4, 5>();
    AmxTiles::multiply<2, 4, 5>();
    AmxTiles::multiply<3, 4, 5>();
  }
  AmxTiles::store<0>(bytes.data(), kAmxRowBytes);
  AmxTiles::release();
  result = bytes.front();
  return static_cast<double>(times * kOperations);
}
#endif

}  // namespace

double measure_read_gb_s() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const std::size_t count = kBytes / sizeof(std::int32_t);
  AlignedArray<std::int32_t> memory(count);
  const std::size_t threads = threads_for(kAllThreads);
  const auto read = HWY_DYNAMIC_POINTER(read_all);
  parallel_ranges(count, threads, [&](std::size_t begin, std::size_t end) {
    std::memset(memory.data() + begin, 1, (end - begin) * sizeof(std::int32_t));
  });
  double best = 0.0;
  for (int repeat = 0; repeat < 6; ++repeat) {
    const Clock::time_point start = Clock::now();
    parallel_ranges(count, threads, [&](std::size_t begin, std::size_t end) {
      hwy::PreventElision(read(memory.data() + begin, end - begin));
    });
    best = std::max(best, static_cast<double>(kBytes) / seconds_since(start) * 1e-9);
  }
  return best;
}

double measure_int8_gops() {
#if HWY_ARCH_X86_64
  if (amx_unit() == AmxUnit::kProcessor) return best_giga_operations(multiply_tiles);
#endif
  return best_giga_operations(HWY_DYNAMIC_POINTER(multiply_int8));
}

double measure_f32_gflops() {
  return best_giga_operations(HWY_DYNAMIC_POINTER(multiply_f32));
}

double measure_bf16_gflops() {
  return best_giga_operations(HWY_DYNAMIC_POINTER(multiply_bf16));
}

std::size_t memory_nodes() {
  std::error_code missing;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", missing)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos) ++count;
  }
  return std::max<std::size_t>(count, 1);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
