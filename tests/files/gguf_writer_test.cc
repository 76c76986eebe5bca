#include "files/gguf/gguf_writer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "file_bytes.h"
#include "files/gguf/gguf.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

std::vector<GgufField> every_kind_of_field() {
  return {{"general.architecture", "llama"},
          {"count", std::uint32_t{7}},
          {"negative", std::int32_t{-3}},
          {"half", 0.5F},
          {"yes", true},
          {"texts", std::vector<std::string>{"a", "", "ä"}},
          {"numbers", std::vector<std::int32_t>{-1, 2}},
          {"floats", std::vector<float>{0.25F, 4}}};
}

std::vector<std::byte> counting_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

TEST_CASE("fields, shapes, types and bytes are read back as they were written") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "m.gguf";
  const std::vector<GgufField> fields = every_kind_of_field();
  const std::vector<TensorPlan> plan = {
      {"norm", DType::kF32, {3}}, {"blocks", DType::kQ4_K, {2, 512}}, {"half", DType::kBF16, {5, 1}}};
  GgufWriter writer(path, fields, plan);
  for (const TensorPlan& tensor : plan) writer.write(tensor.dtype, counting_bytes(planned_bytes(tensor)));
  const std::uint64_t bytes = writer.finish();
  CHECK(bytes == std::filesystem::file_size(path));
  CHECK(bytes == planned_gguf_bytes(fields, plan));

  const auto file = open_gguf(path);
  CHECK(file->config()["general.architecture"] == "llama");
  CHECK(file->config()["count"] == 7);
  CHECK(file->config()["negative"] == -3);
  CHECK(file->config()["half"] == 0.5);
  CHECK(file->config()["yes"] == true);
  CHECK(file->metadata("texts") == nlohmann::json({"a", "", "ä"}));
  CHECK(file->metadata("numbers") == nlohmann::json({-1, 2}));
  CHECK(file->metadata("floats") == nlohmann::json({0.25, 4.0}));
  for (const TensorPlan& planned : plan) {
    const TensorView& tensor = file->tensor(planned.name);
    CHECK(tensor.dtype == planned.dtype);
    CHECK(tensor.shape == planned.shape);
    CHECK(std::ranges::equal(tensor.bytes, counting_bytes(planned_bytes(planned))));
  }
}

TEST_CASE("a tensor may be written with another type of the same size than planned") {
  const test::TemporaryDirectory directory;
  GgufWriter writer(directory / "m.gguf", every_kind_of_field(), {{"half", DType::kF16, {4}}});
  writer.write(DType::kBF16, counting_bytes(8));
  writer.finish();
  CHECK(open_gguf(directory / "m.gguf")->tensor("half").dtype == DType::kBF16);
}

TEST_CASE("the same content gives the same bytes") {
  const test::TemporaryDirectory directory;
  for (const char* name : {"a.gguf", "b.gguf"}) {
    GgufWriter writer(directory / name, every_kind_of_field(), {{"norm", DType::kF32, {3}}});
    writer.write(DType::kF32, counting_bytes(12));
    writer.finish();
  }
  CHECK(test::read_file(directory / "a.gguf") == test::read_file(directory / "b.gguf"));
}

}  // namespace
}  // namespace ballast::files
