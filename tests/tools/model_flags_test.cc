#include "tools/flags/model_flags.h"

#include <doctest/doctest.h>

#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

TEST_CASE("memory for experts is a size above 0, and without it all experts are in memory") {
  CHECK(model_options({.expert_memory = ""}, {}, true).expert_bytes == 0);
  CHECK(!model_options({}, {}, true).tell);
  CHECK(model_options({}, {}, false).tell);
  CHECK(model_options({.expert_memory = "2GB"}, {}, true).expert_bytes == 2'000'000'000);
  CHECK(model_options({.expert_memory = "1.5 GiB"}, {}, true).expert_bytes == std::uint64_t{3} << 29);
  CHECK_THROWS_AS(model_options({.expert_memory = "0MB"}, {}, true), UsageError);
  CHECK_THROWS_AS(model_options({.expert_memory = "much"}, {}, true), UsageError);
}

TEST_CASE("the hit rate of experts is reported with the bytes read and held") {
  CHECK(expert_text({.budget = 500'000'000,
                     .bytes = 402'000'000,
                     .experts = 128,
                     .in_memory = 32,
                     .used = 1234,
                     .found = 1149,
                     .loaded_bytes = 1'210'000'000}) ==
        "93.1 % of 1,234 in memory, 1.21 GB read; 32 of 128 experts in 402.0 MB");
}

}  // namespace
}  // namespace ballast::tools
