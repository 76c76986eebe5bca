#include "kernels/target.h"

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/processor.h"
#include "error_message.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;

TEST_CASE("kernels can be restricted to each instruction set of this machine, and released") {
  const std::vector<std::string> names = simd_targets();
  REQUIRE_FALSE(names.empty());
  CHECK(simd_target() == names.front());
  for (const std::string& name : names) {
    use_simd_target(name);
    CHECK(simd_target() == name);
    // No kernel chooses a target later, which several threads would do at once.
    CHECK(hwy::GetChosenTarget().GetIndex() != 0);
    CHECK((kernels::target_extension() == kernels::Extension::kVnni) == name.ends_with("_VNNI"));
    CHECK((kernels::amx_unit() == kernels::AmxUnit::kProcessor) == name.ends_with("_AMX"));
    CHECK(simd_targets() == names);
  }
  use_simd_target(names.front());
  CHECK(simd_target() == names.front());
}

TEST_CASE("an instruction set that this machine lacks is refused, and the error lists those that it has") {
  const std::string names = error_message([] { use_simd_target("AVX9"); });
  CHECK(names == Contains("target 'AVX9': this processor has "));
  for (const std::string& name : simd_targets()) CHECK(names == Contains(name));
}

}  // namespace
}  // namespace ballast
