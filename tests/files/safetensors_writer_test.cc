#include "files/safetensors/safetensors_writer.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <numeric>
#include <string>
#include <vector>

#include "error_message.h"
#include "file_bytes.h"
#include "files/checkpoint.h"
#include "files/content_hash.h"
#include "files/output_file.h"
#include "files/safetensors/safetensors_file.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

using test::Contains;
using test::error_message;

const std::vector<TensorPlan> kPlan{{"odd", DType::kU8, {3}},       {"scale", DType::kF32, {}},
                                    {"empty", DType::kF16, {0, 7}}, {"rows", DType::kF32, {16, 5}},
                                    {"codes", DType::kI8, {128}},   {"big", DType::kI64, {9}}};

std::string values_of(const TensorPlan& tensor) {
  std::string bytes(static_cast<std::size_t>(element_count(tensor.shape)) * dtype_info(tensor.dtype).block_bytes, '\0');
  std::iota(bytes.begin(), bytes.end(), tensor.name[0]);
  return bytes;
}

std::uint64_t write_all(const std::filesystem::path& directory, std::uint64_t shard_bytes) {
  SafetensorsWriter writer(directory, kPlan, {{"producer", "test"}}, shard_bytes);
  for (const TensorPlan& tensor : kPlan) writer.write(tensor.name, test::as_bytes(values_of(tensor)));
  writer.finish();
  return writer.file_bytes();
}

void check_values(const Checkpoint& model) {
  CHECK(model.names().size() == kPlan.size());
  for (const TensorPlan& tensor : kPlan) {
    CAPTURE(tensor.name);
    const TensorView view = model.tensor(tensor.name);
    CHECK(view.dtype == tensor.dtype);
    CHECK(view.shape == tensor.shape);
    CHECK(std::string(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()) == values_of(tensor));
  }
  CHECK_NOTHROW(model.verify_checksums());
}

TEST_CASE("tensors written in one file are read back") {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "config.json", "{}");
  const std::uint64_t size = write_all(directory.path(), 1'000'000);
  CHECK(size == std::filesystem::file_size(directory / "model.safetensors"));
  check_values(*open_checkpoint(directory.path()));
  const SafetensorsFile file(directory / "model.safetensors");
  CHECK(file.metadata().at("producer") == "test");
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.metadata().at("xxh3.codes") == content_digits(test::as_bytes(values_of(kPlan[4]))));
}

TEST_CASE("every tensor is aligned to the power of two in its size, up to 64 bytes, without gaps") {
  const test::TemporaryDirectory directory;
  write_all(directory.path(), 1'000'000);
  const SafetensorsFile file(directory / "model.safetensors");
  std::size_t total = 0;
  const std::byte* first = file.tensor("codes").bytes.data();
  for (const auto& [name, view] : file.tensors()) {
    CAPTURE(name);
    const std::size_t size = view.bytes.size();
    const auto position = static_cast<std::size_t>(view.bytes.data() - file.bytes().data());
    for (std::size_t power = 1; power <= 64 && size % power == 0; power *= 2) CHECK(position % power == 0);
    total += size;
    if (size > 0) first = std::min(first, view.bytes.data());
  }
  CHECK(static_cast<std::size_t>(first - file.bytes().data()) + total == file.bytes().size());
}

TEST_CASE("tensors written in shards are read back, and an oversized tensor gets a separate shard") {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "config.json", "{}");
  const std::uint64_t size = write_all(directory.path(), 100);
  CHECK(std::filesystem::exists(directory / "model-00001-of-00004.safetensors"));
  CHECK(std::filesystem::exists(directory / "model-00004-of-00004.safetensors"));
  CHECK(!std::filesystem::exists(directory / "model.safetensors"));
  const auto model = open_checkpoint(directory.path());
  check_values(*model);
  CHECK(model->file_bytes() == size);
}

TEST_CASE("the same input gives the same bytes") {
  const test::TemporaryDirectory one;
  const test::TemporaryDirectory two;
  write_all(one.path(), 1'000'000);
  write_all(two.path(), 1'000'000);
  CHECK(test::read_file(one / "model.safetensors") == test::read_file(two / "model.safetensors"));
}

TEST_CASE("tensors written with other types than planned give the file of a plan with these types") {
  // Names of types that are a letter longer make a header longer than its padding.
  constexpr std::size_t kTensors = 80;
  const auto plan_of = [](DType dtype) {
    std::vector<TensorPlan> plan;
    for (std::size_t i = 0; i < kTensors; ++i) {
      plan.push_back({"t" + std::to_string(i), dtype, {static_cast<std::int64_t>(i), 7}});
    }
    return plan;
  };
  const auto write = [&](DType planned, DType found, std::uint64_t shard_bytes) {
    const test::TemporaryDirectory directory;
    SafetensorsWriter writer(directory.path(), plan_of(planned), {}, shard_bytes);
    for (const TensorPlan& tensor : plan_of(found)) {
      writer.write(tensor.name, found, test::as_bytes(values_of(tensor)));
    }
    writer.finish();
    auto files = test::files_of(directory.path());
    std::uint64_t bytes = 0;
    for (const auto& [name, content] : files) bytes += name.ends_with(".safetensors") ? content.size() : 0;
    CHECK(writer.file_bytes() == bytes);
    return files;
  };
  for (const std::uint64_t shard_bytes : {1'000'000, 10'000}) {
    CHECK(write(DType::kF16, DType::kBF16, shard_bytes) == write(DType::kBF16, DType::kBF16, shard_bytes));
    CHECK(write(DType::kBF16, DType::kF16, shard_bytes) == write(DType::kF16, DType::kF16, shard_bytes));
    CHECK(write(DType::kF16, DType::kBF16, shard_bytes) != write(DType::kF16, DType::kF16, shard_bytes));
  }
}

TEST_CASE("a flipped bit in a written model is detected") {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "config.json", "{}");
  write_all(directory.path(), 1'000'000);
  std::string bytes = test::read_file(directory / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // "odd" is last: the least aligned
  test::write_file(directory / "model.safetensors", bytes);
  CHECK(error_message([&] { open_checkpoint(directory.path())->verify_checksums(); }) ==
        (directory / "model.safetensors").string() + ": tensor \"odd\": checksum differs: the file is damaged");
}

TEST_CASE("an existing file is not overwritten") {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "model.safetensors", "precious");
  CHECK(error_message([&] { write_all(directory.path(), 1'000'000); }) == Contains("cannot create: File exists"));
  CHECK(test::read_file(directory / "model.safetensors") == "precious");
}

TEST_CASE("a plan that cannot be a file is refused") {
  const test::TemporaryDirectory directory;
  const auto refusal = [&](std::vector<TensorPlan> plan) {
    return error_message([&] { SafetensorsWriter(directory.path(), std::move(plan), {}); });
  };
  CHECK(refusal({{"a", DType::kU8, {1}}, {"a", DType::kU8, {2}}}) == Contains("tensor \"a\": is to be written twice"));
  CHECK(refusal({{"a", DType::kF32, {1ll << 61}}}) == Contains("does not fit memory"));
}

TEST_CASE("a caller that deviates from its plan gets an exception, in release builds too") {
  const test::TemporaryDirectory directory;
  SafetensorsWriter writer(directory.path(), {{"a", DType::kU8, {4}}}, {});
  CHECK_THROWS_AS(writer.write("b", test::as_bytes("1234")), std::logic_error);
  CHECK_THROWS_AS(writer.write("a", test::as_bytes("123")), std::logic_error);
  CHECK_THROWS_AS(writer.write("a", DType::kF32, test::as_bytes("1234")), std::logic_error);
  CHECK_THROWS_AS(writer.finish(), std::logic_error);
  writer.write("a", test::as_bytes("1234"));
  CHECK_THROWS_AS(writer.write("a", test::as_bytes("1234")), std::logic_error);
}

// Limits the files that this process writes to `bytes`, during its lifetime: this has the effect of a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    ::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

TEST_CASE("a full disk is reported with the file and the bytes needed, before any value is written") {
  const test::TemporaryDirectory directory;
  std::string message;
  {
    const FileSizeLimit limit(100'000);
    message = error_message([&] { SafetensorsWriter(directory.path(), {{"a", DType::kU8, {200'000}}}, {}); });
  }
  CHECK(message == Contains((directory / "model.safetensors").string() + ": disk full: reserve needs 200"));
}

TEST_CASE("a disk that fills while writing is reported") {
  const test::TemporaryDirectory directory;
  const std::string bytes(3000, 'x');
  std::string message;
  {
    const FileSizeLimit limit(1000);
    message = error_message([&] { OutputFile(directory / "f").write_at(0, test::as_bytes(bytes)); });
  }
  CHECK(message == Contains((directory / "f").string() + ": disk full: write needs 2000 bytes"));
}

}  // namespace
}  // namespace ballast::files
