#include "ballast/machine.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/processor.h"
#include "ballast/threads.h"
#include "error_message.h"

namespace ballast {
namespace {

using test::Contains;

TEST_CASE("a machine's properties are those that models run with") {
  const Machine machine = examine_machine();
  CHECK_FALSE(machine.cpu.empty());
  CHECK(machine.simd_target == simd_target());
  CHECK(machine.cores == available_cores());
  CHECK(machine.cores <= machine.physical_cores);
  CHECK(machine.memory_nodes >= 1);
  CHECK(machine.memory_bytes > 0);
  CHECK(machine.available_memory_bytes > 0);
  CHECK(machine.available_memory_bytes <= machine.memory_bytes);
  CHECK(machine.read_gb_s > 0);
  CHECK(machine.int8_gops > 0);
  CHECK(machine.f32_gflops > 0);
  const auto json = nlohmann::json::parse(machine_json(machine));
  CHECK(json.at("cores") == machine.cores);
  CHECK(json.contains("core_quota") == machine.core_quota.has_value());
  CHECK(json.contains("bf16_gflops") == machine.bf16_gflops.has_value());
}

TEST_CASE("advice is given for what slows a machine down") {
  Machine machine;
  machine.simd_target = "AVX3_VNNI";
  machine.physical_cores = 8;
  machine.huge_pages = "madvise";
  const auto only_advice = [&] {
    const std::vector<std::string> advice = machine_advice(machine);
    REQUIRE(advice.size() == 1);
    return advice.front();
  };
  CHECK(machine_advice(machine).empty());
  machine.core_quota = 8;
  CHECK(machine_advice(machine).empty());
  machine.core_quota = 2;
  CHECK(only_advice() == Contains("allows 2 of 8 cores"));
  machine.core_quota.reset();
  machine.huge_pages = "never";
  CHECK(only_advice() == Contains("transparent_hugepage"));
  machine.huge_pages = "always";
  machine.memory_nodes = 2;
  CHECK(only_advice() == Contains("2 memory nodes"));
  machine.memory_nodes = 1;
  machine.simd_target = "AVX2";
  CHECK(only_advice() == Contains("several instructions"));
}

}  // namespace
}  // namespace ballast
