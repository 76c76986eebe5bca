// Runs tests with each instruction set of the machine.
#ifndef BALLAST_TESTS_SUPPORT_EVERY_TARGET_H_
#define BALLAST_TESTS_SUPPORT_EVERY_TARGET_H_

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "ballast/processor.h"

namespace ballast::test {

/// Calls body() once for every instruction set of this machine, which kernels then use. They are slow under an
/// emulator: there the environment's BALLAST_TEST_TARGET names the one to run, with its extensions.
template <class Body>
void for_every_target(const Body& body) {
  const char* only = std::getenv("BALLAST_TEST_TARGET");
  bool ran = false;
  for (const std::string& name : simd_targets()) {
    if (only != nullptr && name != only && !name.starts_with(only + std::string("_"))) continue;
    CAPTURE(name);
    use_simd_target(name);
    body();
    ran = true;
  }
  use_simd_target(simd_targets().front());
  REQUIRE_MESSAGE(ran, "this machine has no target of the name in BALLAST_TEST_TARGET");
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_EVERY_TARGET_H_
