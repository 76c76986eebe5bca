// Tests on each instruction set that the machine has.
#ifndef BALLAST_TESTS_SUPPORT_EVERY_TARGET_H_
#define BALLAST_TESTS_SUPPORT_EVERY_TARGET_H_

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace ballast::test {

/// Calls body() once for every instruction set of this machine, with kernels dispatched to it. Under an emulator each
/// is slow: the environment's BALLAST_TEST_TARGET names the one to run, by Highway's name.
template <class Body>
void for_every_target(const Body& body) {
  const char* only = std::getenv("BALLAST_TEST_TARGET");
  bool ran = false;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string name = hwy::TargetName(target);
    if (only != nullptr && name != only) continue;
    CAPTURE(name);
    hwy::SetSupportedTargetsForTest(target);
    body();
    hwy::SetSupportedTargetsForTest(0);
    ran = true;
  }
  REQUIRE_MESSAGE(ran, "this machine has no target of the name in BALLAST_TEST_TARGET");
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_EVERY_TARGET_H_
