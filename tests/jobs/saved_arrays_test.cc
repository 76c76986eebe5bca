#include "jobs/saved_arrays.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error_message.h"

namespace ballast::jobs {
namespace {

TEST_CASE("arrays are read as they were saved, and a blob with other arrays is refused") {
  const std::vector<float> floats = {1.5F, -2};
  const std::vector<int> none;
  SavedArrays arrays;
  arrays.add(floats);
  arrays.add(none);
  arrays.add_text("text");
  const std::string blob = arrays.join();

  const auto read = [](const std::string& bytes, std::size_t size) {
    SavedArraysReader reader(bytes, "progress", "is damaged");
    std::vector<float> values(size);
    std::vector<int> empty;
    reader.get(values);
    reader.get(empty);
    const std::string text = reader.text();
    CHECK(text == "text");
    reader.finish();
    return values;
  };
  CHECK(read(blob, 2) == floats);
  const auto refusal = [&](const std::string& bytes, std::size_t size) {
    return test::error_message([&] { read(bytes, size); });
  };
  CHECK(refusal(blob, 1) == "progress: is damaged");
  CHECK(refusal(blob.substr(0, blob.size() - 1), 2) == "progress: is damaged");
  CHECK(refusal(blob.substr(0, 3), 2) == "progress: is damaged");
  CHECK(refusal(blob + "x", 2) == "progress: is damaged");

  std::string parts;
  for (const std::span<const std::byte> part : arrays.parts()) {
    parts.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  CHECK(parts == blob);
}

}  // namespace
}  // namespace ballast::jobs
