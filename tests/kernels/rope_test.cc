#include "kernels/rope.h"

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

TEST_CASE("rope rotates pairs that are half a rotary size apart, and changes nothing else") {
  struct Case {
    std::size_t head_stride, rotary_size;
  };
  // The cases are whole heads, the first quarter of a head, and a rotated part after another one.
  for (const Case& c :
       {Case{2, 2}, Case{6, 6}, Case{32, 32}, Case{64, 64}, Case{66, 66}, Case{64, 16}, Case{80, 20}, Case{192, 64}}) {
    const std::size_t m = 9, heads = 3, half = c.rotary_size / 2, row_stride = heads * c.head_stride + 4;
    const std::vector<float> x = random_floats(m * row_stride, 1);
    const std::vector<float> angles = random_floats(m * half, 2);
    std::vector<float> cos, sin;
    for (const float angle : angles) cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
    std::vector<float> expected = x;
    reference::rope(expected.data(), m, heads, c.head_stride, c.rotary_size, row_stride, cos.data(), sin.data());
    for_every_target([&] {
      std::vector<float> actual = x;
      rope(actual.data(), m, heads, c.head_stride, c.rotary_size, row_stride, cos.data(), sin.data());
      CHECK(relative_error(actual, expected) <= 3e-7);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t in_row = i % row_stride;
        const bool rotated = in_row < heads * c.head_stride && in_row % c.head_stride < c.rotary_size;
        if (!rotated) REQUIRE(actual[i] == x[i]);
      }
    });
  }
}

}  // namespace
}  // namespace ballast::kernels
